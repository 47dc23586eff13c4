"""A PyTorch module as a layer. Needs torch (`pip install ".[torch]"`).

`AttentionLayer.from_projections` reads its weights; here they are compared with what it does.
"""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from constructive.data.dataset import Dataset
from constructive.interop.pytorch import AttentionModule
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, row_chunks, with_one
from constructive.support.errors import DataError, ParameterError, with_article

_NAMES = "W_Q", "W_K", "W_V", "W_O", "W_D"
# Tokens, and their size, of random examples on which a module is compared with its layer.
_PROBES = ((4, 1.0), (1, 1.0), (7, 1e-2), (5, 30.0))
_EXAMPLES = 16
_AT_ONCE = 256
# What to take of a network with residual connections, norms and an MLP
_INSTEAD = (
    "its attention alone, on hidden states after the norm before it (register_forward_pre_hook)"
)
_MEANINGFUL = 1e-3  # Relative rounding from which on a comparison says nothing


class ReadModule(NamedTuple):
    """What a module was read as: a layer, and how its data are to be shaped."""

    layer: AttentionLayer  # with one entry more for each token where biases need it
    constant: bool  # whether tokens and queries need an entry 1 appended (`Dataset.with_constant`)
    scalar_targets: bool  # whether outputs are (T,) rather than (T, 1)


def read_module(module: nn.Module, dataset: Dataset | None = None) -> ReadModule:
    """Return the layer that a module computes, as it does in evaluation mode (without dropout).

    The module must hold one `AttentionModule`, or one `MultiheadAttention` and one `Linear`, and
    its `forward(contexts, queries)` must be just these. That is tested in float64: on random tokens
    of several sizes and numbers, and on all examples of the data, if there are any.
    """
    _check_parameters(module)
    name = type(module).__name__
    ours = _is_ours(module)
    twin = module if ours else _evaluated(module)
    found = _layer_of(twin)
    if dataset is not None:
        _require_fit(found, dataset, name)
    if ours:
        return found
    outputs = [
        _compared(twin, name, found, contexts, queries, first=first)
        for contexts, queries, first in _probes(found, dataset)
    ]
    return found._replace(scalar_targets=outputs[0].ndim == 1)


def _evaluated(module: nn.Module) -> nn.Module:
    """Return a copy of a module in float64 and in evaluation mode."""
    try:
        return copy.deepcopy(module).to(torch.float64).eval()
    except Exception as error:  # modules may hold anything
        name = type(module).__name__
        raise ParameterError(
            f"{with_article(name)} cannot be copied and read in float64: {error}",
            witness=name,
            suggestion="torch.nn.utils.prune.remove and the like, which leave plain weights",
        ) from error


def _probes(
    found: ReadModule, dataset: Dataset | None
) -> Iterator[tuple[Array, Array, int | None]]:
    """Yield random examples, then all data: contexts, queries, and the index of the first one."""
    width = found.layer.width - found.constant
    for size, scale in _PROBES:
        rng = np.random.default_rng(size)
        contexts: Array = scale * rng.standard_normal((_EXAMPLES, size, width))
        contexts[0] = 0.0
        yield contexts, scale * rng.standard_normal((_EXAMPLES, width)), None
    if dataset is not None:
        for rows in row_chunks(dataset.num_examples, 1, _AT_ONCE):
            queries = dataset.queries[rows].astype(np.float64)
            contexts = dataset.filled.contexts_of(rows)
            yield (
                np.broadcast_to(contexts, (len(queries), *contexts.shape[1:])),
                queries,
                rows.start,
            )


def _require_fit(found: ReadModule, dataset: Dataset, name: str) -> None:
    """Raise DataError for data of other sizes than a module's, in the numbers that it has.

    Where it has biases, the layer has an entry more than its tokens, which nobody else knows of.
    """
    width = found.layer.width - found.constant
    if dataset.width != width:
        raise DataError(
            f"the {name} takes tokens and queries of d={width} entries, the data have "
            f"d={dataset.width}",
            witness=dataset.width,
            suggestion=f"data of d={width} entries as they are: the constant entry for biases is "
            "appended here"
            if found.constant
            else f"data of d={width} entries, or a module of d={dataset.width}",
        )
    found.layer.check_fits(dataset.with_constant() if found.constant else dataset)


def _check_parameters(module: nn.Module) -> None:
    """Raise ParameterError for what is not a module, or has no real weights yet."""
    if not isinstance(module, nn.Module):
        raise ParameterError(
            f"{with_article(type(module).__name__)} is not a torch.nn.Module",
            witness=type(module).__name__,
            suggestion="a module of torch.nn.MultiheadAttention and torch.nn.Linear",
        )
    for name, parameter in module.named_parameters():
        lazy = isinstance(parameter, nn.parameter.UninitializedParameter)
        if lazy or parameter.is_meta or not parameter.is_floating_point():
            kind = "not there yet" if lazy or parameter.is_meta else f"of {parameter.dtype}"
            raise ParameterError(
                f"the parameter {name} of {with_article(type(module).__name__)} is {kind}",
                witness=name,
                suggestion="a module with weights in memory, of float64, float32 or shorter",
            )


def _is_ours(module: nn.Module) -> bool:
    """Whether it is known what a module does: an `AttentionModule` that nobody has changed."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)  # noqa: SLF001 - no public way
    plain = type(module) is AttentionModule and "forward" not in vars(module)
    names = {name for name, _ in module.named_parameters()}
    return plain and not any(hooks) and names == set(_NAMES)


def _array(tensor: Tensor) -> Array:
    """float64 and float32 as they are, shorter ones as float32, exactly."""
    kind = tensor.dtype if tensor.dtype == torch.float64 else torch.float32
    array: Array = tensor.detach().cpu().to(kind).numpy().copy()
    return array


def _layer_of(module: nn.Module) -> ReadModule:
    """Read weights; whether a module does what they say is another question."""
    ours = [part for part in module.modules() if isinstance(part, AttentionModule)]
    attentions = [part for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    inside = {id(part) for attention in attentions for part in attention.modules()}
    linears = [
        part for part in module.modules() if isinstance(part, nn.Linear) and id(part) not in inside
    ]
    if len(ours) == 1 and not attentions:
        layer = AttentionLayer(*(_array(getattr(ours[0], name)) for name in _NAMES))
        return ReadModule(layer, constant=False, scalar_targets=ours[0].scalar_targets)
    if len(attentions) != 1 or len(linears) != 1:
        kinds = {type(part).__name__ for part in module.modules()}
        beside = sorted(kind for kind in kinds if "Norm" in kind or "Rotary" in kind)
        raise ParameterError(
            f"{with_article(type(module).__name__)} has {len(attentions)} MultiheadAttention and "
            f"{len(linears)} Linear, not one of each{'; it also has ' * bool(beside)}"
            + ", ".join(beside),
            witness=(len(attentions), len(linears)),
            suggestion=f"{_INSTEAD}: MultiheadModule(attention, readout), or "
            "AttentionLayer.from_projections(...) of a layer without RoPE",
        )
    attention, readout = attentions[0], linears[0]
    odd = {
        "bias_k or bias_v": attention.bias_k is not None or attention.bias_v is not None,
        "add_zero_attn": attention.add_zero_attn,
        "kdim or vdim": not (attention.kdim == attention.vdim == attention.embed_dim),
    }
    if any(odd.values()):
        names = [name for name, is_so in odd.items() if is_so]
        raise ParameterError(
            f"MultiheadAttention with {', '.join(names)} is not a layer of the theorem",
            witness=names[0],
            suggestion="torch.nn.MultiheadAttention(d, H)",
        )
    query, key, value = np.split(_array(attention.in_proj_weight), 3)
    biases = [
        None if bias is None else _array(bias)
        for bias in (attention.in_proj_bias, attention.out_proj.bias, readout.bias)
    ]
    constant = any(bias is not None and bias.any() for bias in biases)
    projected, of_output, of_readout = biases if constant else [None] * 3
    of_query, _, of_value = [None] * 3 if projected is None else np.split(projected, 3)
    layer = AttentionLayer.from_projections(
        *(query, key, value, _array(attention.out_proj.weight)),
        num_heads=attention.num_heads,
        readout=_array(readout.weight),
        query_bias=of_query,
        value_bias=of_value,
        output_bias=of_output,
        readout_bias=of_readout,
    )
    return ReadModule(layer, constant, scalar_targets=False)


def _compared(
    twin: nn.Module,
    name: str,
    found: ReadModule,
    contexts: Array,
    queries: Array,
    *,
    first: int | None,
) -> Array:
    """Return what a module gives for some examples, if the layer gives it as well.

    They may differ by a bound of the rounding in float64: each of the numbers that are added up
    is off by a few units in its last place, and a logit that is off changes attention as much.
    """
    try:
        device = next(twin.parameters()).device
        with torch.no_grad():
            tensors = (torch.tensor(array, device=device) for array in (contexts, queries))
            outputs = _array(twin(*tensors))
    except Exception as error:  # whatever a forward of somebody else raises
        raise ParameterError(
            f"forward(contexts, queries) of {with_article(name)} fails: {error}",
            witness=(contexts.shape, queries.shape),
            suggestion="a module with forward(contexts, queries), such as "
            "interop.pytorch.MultiheadModule(attention, readout)",
        ) from error
    if found.constant:
        contexts, queries = with_one(contexts), with_one(queries)
    wanted = found.layer(contexts, queries)
    if outputs.shape not in (wanted.shape, wanted.shape[: 1 + (wanted.shape[1] > 1)]):
        raise ParameterError(
            f"{with_article(name)} gives outputs {outputs.shape}; its attention and readout have "
            f"{wanted.shape}",
            witness=outputs.shape,
            suggestion="a module without pooling or further layers",
        )
    size, relative = _rounding(found.layer, contexts, queries)
    apart = np.abs(outputs.reshape(wanted.shape) - wanted)
    if not (relative < _MEANINGFUL).all():
        raise ParameterError(
            f"the logits of {with_article(name)} are too sharp, by a factor of "
            f"{relative.max():.0e}, for its outputs to be compared in float64",
            witness=int(relative.argmax()),
            suggestion="Memorizer.load, if the weights were built and saved here",
        )
    wrong = (~(apart <= size * relative[:, np.newaxis])).any(axis=1)
    if wrong.any():
        example = int(wrong.argmax())
        where = "random tokens" if first is None else f"example {first + example} of the data"
        raise ParameterError(
            f"{with_article(name)} computes something else than its attention and readout: "
            f"outputs differ by {apart[example].max():.1e} on {where}",
            witness=None if first is None else first + example,
            suggestion=_INSTEAD,
        )
    return outputs


def _rounding(layer: AttentionLayer, contexts: Array, queries: Array) -> tuple[Array, Array]:
    """Return the size of what makes up an output (T, d_out), and how far that is off (T,).

    The first is what the outputs would be if all weights were positive, and attention on the
    largest entries of the tokens.
    """
    query, key, value, output, last = (np.abs(array) for array in layer.tensors.values())
    tokens, asked = np.abs(contexts), np.abs(queries)
    logits = np.einsum("tnd,hdk,hek,te->thn", tokens, key, query, asked, optimize=True)
    per_head = value @ output.reshape(layer.num_heads, layer.value_dim, -1) @ last
    size: Array = tokens.max(axis=1) @ per_head.sum(axis=0)
    terms = sum(layer.tensors["W_V"].shape) + contexts.shape[1]
    unit = float(np.finfo(np.float64).eps)
    return size, 8.0 * terms * unit * (1.0 + logits.max(axis=(1, 2)))
