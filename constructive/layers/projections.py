"""Projections of a checkpoint as the weights of a layer: rows for outputs, shared keys, biases.

*Biases.* Append an entry 1 to every token and every query (`Dataset.with_constant`). Then a bias of
the queries is one more row of W_Q. A bias of the keys adds the same number to all logits of a head,
which softmax does not see. Attention sums to one, so a bias of the values is one more row of W_V,
which reads the constant entry; and one more value, the constant itself, carries the biases of the
output and of the readout through W_O and W_D. So the layer equals what it was read from, as real
functions, on the longer tokens. What is rounded is only W_Q, by the factor 1/sqrt(d_h), and not
even that where d_h is a power of 4.
"""

import math
from collections.abc import Mapping

import numpy as np

from constructive.support.arrays import Array, checked_matrix
from constructive.support.errors import ParameterError, require_positive

Weights = tuple[Array, Array, Array, Array, Array]  # W_Q, W_K, W_V, W_O and W_D of a layer


def weights_of(
    projections: Mapping[str, object],
    readout: object,
    num_heads: int,
    num_kv_heads: int | None,
    biases: Mapping[str, object],
) -> Weights:
    """Return the weights that `AttentionLayer.from_projections` describes, in float64.

    projections: query, key, value and output, (out, in);  biases: None where there is none
    """
    shared = num_heads if num_kv_heads is None else num_kv_heads
    require_positive(num_heads=num_heads, num_kv_heads=shared)
    query, key, value, output = (
        checked_matrix(f"{name} projections", array).astype(np.float64)
        for name, array in projections.items()
    )
    width, inner = query.shape[1], len(query) // num_heads
    fits = (
        num_heads % shared == len(query) % num_heads == 0
        and key.shape == (shared * inner, width)
        and len(value) % shared == 0
        and value.shape[1] == width
        and output.shape[1] == num_heads * (len(value) // shared)
    )
    if not fits:
        shapes = {"query": query, "key": key, "value": value, "output": output}
        raise ParameterError(
            f"projections do not fit {num_heads} heads with {shared} of keys and values",
            witness={name: array.shape for name, array in shapes.items()},
            suggestion="query (H d_h, d), key (G d_h, d), value (G d_v, d), output (d_o, H d_v) "
            "with H a multiple of G; weight.T where a checkpoint has (in, out), as GPT-2 has",
        )
    last = np.eye(len(output)) if readout is None else checked_matrix("readout", readout)
    if last.shape[1] != len(output):
        raise ParameterError(
            f"the readout {last.shape} does not fit outputs of {len(output)} entries",
            witness=last.shape,
            suggestion=f"a readout (d_out, {len(output)})",
        )
    each = np.arange(num_heads) // (num_heads // shared)  # the keys and values of each head
    heads = _heads(query, num_heads), _heads(key, shared)[each], _heads(value, shared)[each]
    weights: Weights = *heads, output.T, last.astype(np.float64).T
    if any(bias is not None for bias in biases.values()):
        sizes = len(query), len(value), len(output), len(last)
        of_query, of_value, *ends = (
            _bias(name, bias, size)
            for (name, bias), size in zip(biases.items(), sizes, strict=True)
        )
        of_value = of_value.reshape(shared, -1)[each].ravel()
        weights = _with_biases(weights, of_query, of_value, *ends)
    return weights[0] / math.sqrt(inner), *weights[1:]


def _heads(projection: Array, count: int) -> Array:
    """(H k, d) as (H, d, k)."""
    heads: Array = projection.reshape(count, -1, projection.shape[1]).swapaxes(1, 2)
    return heads


def _bias(name: str, bias: object, size: int) -> Array:
    if bias is None:
        return np.zeros(size)
    row: Array = checked_matrix(name, [bias])[0].astype(np.float64)
    if len(row) != size:
        raise ParameterError(
            f"{name} has {len(row)} entries, its projection {size} rows",
            witness=len(row),
            suggestion=f"{size} entries",
        )
    return row


def _with_biases(
    weights: Weights, of_query: Array, of_value: Array, of_output: Array, of_readout: Array
) -> Weights:
    """Return weights for tokens with a constant entry (see the top of this file)."""
    query, key, value, output, last = weights
    heads, width, inner = value.shape
    query = np.concatenate([query, of_query.reshape(heads, 1, -1)], axis=1)
    key = np.pad(key, ((0, 0), (0, 1), (0, 0)))
    value = np.concatenate([value, of_value.reshape(heads, 1, inner)], axis=1)
    value = np.pad(value, ((0, 0), (0, 0), (0, 1)))
    value[0, width, inner] = 1.0
    rows = np.zeros((heads, inner + 1, output.shape[1] + 1))
    rows[:, :inner, :-1] = output.reshape(heads, inner, -1)
    rows[0, inner, :-1], rows[0, inner, -1] = of_output, 1.0
    return query, key, value, rows.reshape(heads * (inner + 1), -1), np.vstack([last, of_readout])
