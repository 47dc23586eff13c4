"""The network of a layer with one context: what is left to vary is the query (Lemma 20.1)."""

import numpy as np

from constructive.instances.network import Head, Network
from constructive.layers.layer import Layer, require_float_layer
from constructive.support.arrays import Array, as_array
from constructive.support.errors import ParameterError, shown


def network_of(layer: Layer, context: Array) -> Network:
    """Return the float32 network of a layer with a context, a function of the query.

    Its numbers A_h = E W_K W_Q^T, b_h = 0 and V_h = E U_h, with the effective readout U_h of each
    head, are computed in float64 and rounded to float32. So the network is not quite the layer:
    look at its own outputs.

    Args:
        layer: H heads whose weights are floats
        context: E (n, d)

    Raises:
        ParameterError: for weights that are not floats, a context of another width, and products
            beyond float32

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> memorizer = build_memorizer(data, num_heads=3)
        >>> network = network_of(memorizer.layer, data.contexts[0])
        >>> bool(abs(network(data.queries[:1])[0, 0] - data.targets[0]) < 1e-4)
        True
    """
    floats = require_float_layer(layer, "instances")
    tokens = as_array(context).astype(np.float64)
    if tokens.ndim != 2 or tokens.shape[1] != floats.width:
        raise ParameterError(
            f"the context is not one of n tokens with {floats.width} entries",
            witness=shown(tokens.shape),
            suggestion="data.contexts[i], or data.contexts if all examples share it",
        )
    heads = zip(floats.query_weights, floats.key_weights, floats.readouts(), strict=True)
    with np.errstate(over="ignore"):
        return Network(
            tuple(
                Head(
                    (tokens @ key.astype(np.float64) @ query.astype(np.float64).T).astype("f4"),
                    np.zeros(len(tokens)),
                    (tokens @ readout).astype("f4"),
                )
                for query, key, readout in heads
            )
        )


def network_of_token(layer: Layer, context: Array, query: Array, token: int = 0) -> Network:
    """Return the float32 network of a layer as a function of how one token of a context moves.

    The token moves along an orthonormal basis N of the directions that no head's values read,
    U_h^T N = 0. The input z (r,) stands for the token x + N z. Its logit in head h is
    (x + N z)^T W_K W_Q^T e; all other logits, and all values, are constant. As in `network_of`,
    these numbers are computed in float64 and rounded to float32.

    Raises ParameterError as `network_of` does, for a token that is not there, and for values that
    read all directions.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> layer = build_memorizer(data, num_heads=3).layer
        >>> network = network_of_token(layer, data.contexts[0], data.queries[0])
        >>> network.input_dim  # 5 directions, of which the values of 3 heads read 3
        2
        >>> bool(abs(network([[0.0, 0.0]])[0, 0] - data.targets[0]) < 1e-4)
        True
    """
    floats, whole = require_float_layer(layer, "instances"), network_of(layer, context)
    tokens, readouts = as_array(context).astype(np.float64), floats.readouts()
    read = np.concatenate(list(readouts), axis=1)
    rank = int(np.linalg.matrix_rank(read))
    if not 0 <= token < len(tokens) or rank == len(read):
        raise ParameterError(
            f"there is no token {token}, or no direction that values do not read",
            witness=shown((len(tokens), rank, len(read))),
            suggestion="a token of the context, and fewer heads or outputs than the width",
        )
    basis = np.linalg.svd(read)[0][:, rank:]
    pairs = zip(floats.query_weights, floats.key_weights, whole.heads, strict=True)
    heads = []
    for query_weights, key_weights, head in pairs:
        key = key_weights.astype(np.float64) @ (query_weights.astype(np.float64).T @ query)
        slopes = np.zeros((len(tokens), basis.shape[1]))
        slopes[token] = key @ basis
        heads.append(Head(slopes.astype("f4"), (tokens @ key).astype("f4"), head.values))
    return Network(tuple(heads))
