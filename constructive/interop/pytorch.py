"""A layer as a PyTorch module, and a PyTorch module as a layer.

`AttentionModule` has the weights of an `AttentionLayer`, by the same names and shapes, and attends
by `scaled_dot_product_attention`. `MultiheadModule` is a `torch.nn.MultiheadAttention` followed by
a `torch.nn.Linear`, which can hold the same layer where H d_h = d and d_v = d_h.

*Reading a module with biases.* Append an entry 1 to every token and every query
(`Dataset.with_constant`). Then a bias of the queries is one more row of W_Q. A bias of the keys
adds the same number to all logits of a head, which softmax does not see. Attention sums to one, so
a bias of the values is one more row of W_V, which reads the constant entry; and one more value,
the constant itself, carries the biases of the output and of the readout through W_O and W_D. So
the layer equals the module, as real functions, on the longer tokens; what is rounded is only W_Q,
by the factor 1/sqrt(d_h) of `MultiheadAttention`, and not even that where d_h is a power of 4.

Needs torch (`pip install ".[torch]"`).
"""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from constructive.data.dataset import Dataset, with_one
from constructive.exact.models import FLOAT32, MODELS
from constructive.layers.attention import AttentionLayer, require_single_target
from constructive.support.arrays import Array
from constructive.support.errors import DataError, ParameterError

_NAMES = "W_Q", "W_K", "W_V", "W_O", "W_D"
_PROBES = ((4, 1.0), (1, 1.0), (7, 1e-2), (5, 30.0))
"""Tokens, and their size, of random examples on which a module is compared with its layer."""
_EXAMPLES = 16
_AT_ONCE = 256
_MEANINGFUL = 1e-3
"""Relative rounding from which on a comparison says nothing."""


class AttentionModule(nn.Module):
    """The layer of `AttentionLayer`, with `scaled_dot_product_attention`.

    A .safetensors file of a memorizer holds the same names, so that
    `module.load_state_dict(safetensors.torch.load_file(path))` reads it.

    Args:
        layer: its weights are copied, and become parameters
        scalar_targets: whether outputs are (T,) rather than (T, 1)

    Attributes:
        float_model: the model of floating-point programs that it belongs to on CPUs, in float32
            (`exact.models`); fused kernels of other devices may fold log2 e and merge parts, as
            "float32, scaled" allows
        W_Q: (H, d, d_h)
        W_K: (H, d, d_h)
        W_V: (H, d, d_v)
        W_O: (H d_v, d_o)
        W_D: (d_o, d_out)

    Raises:
        ParameterError: for scalar targets of a layer with several outputs

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5)
        >>> module = build_memorizer(data, num_heads=3).to_torch()
        >>> outputs = module(torch.tensor(data.contexts), torch.tensor(data.queries))
        >>> bool(abs(outputs.detach().numpy() - data.targets).max() < 1e-10)
        True
    """

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    W_D: Tensor

    def __init__(self, layer: AttentionLayer, *, scalar_targets: bool = False) -> None:
        super().__init__()
        require_single_target(layer.target_dim, scalar_targets=scalar_targets)
        self.scalar_targets = scalar_targets
        self.float_model = layer.float_model
        for name, array in layer.tensors.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(array)))

    def forward(self, contexts: Tensor, queries: Tensor) -> Tensor:
        """Evaluate examples: (T, d_out), or (T,) for scalar targets.

        Takes T H n (d_h + d_v) numbers of memory: hand large data over in batches.

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
        """
        contexts = contexts.unsqueeze(-3)  # an axis for the heads
        query = queries.unsqueeze(-2).unsqueeze(-2) @ self.W_Q  # (T, H, 1, d_h)
        key, value = contexts @ self.W_K, contexts @ self.W_V  # (T, H, n, ...)
        shape = len(queries), *key.shape[-3:-1]
        attended = scaled_dot_product_attention(
            query, key.expand(*shape, -1), value.expand(*shape, -1), scale=1.0
        )
        outputs = attended.flatten(1) @ self.W_O @ self.W_D
        return outputs[:, 0] if self.scalar_targets else outputs


class MultiheadModule(nn.Module):
    """A `torch.nn.MultiheadAttention` whose output goes through a `torch.nn.Linear`.

    Made by `Memorizer.to_torch(multihead=True)`, or of your own two modules, to be trained and
    then read by `Memorizer.from_torch` or `certify`.

    Args:
        attention: with batch_first=True
        readout: from the d entries of the output to d_out
        scalar_targets: whether outputs are (T,) rather than (T, 1)

    Example:
        >>> attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> module = MultiheadModule(attention, nn.Linear(8, 3))
        >>> module(torch.zeros(5, 4, 8), torch.zeros(5, 8)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self, attention: nn.MultiheadAttention, readout: nn.Linear, *, scalar_targets: bool = False
    ) -> None:
        super().__init__()
        self.attention, self.readout, self.scalar_targets = attention, readout, scalar_targets

    @property
    def float_model(self) -> str:
        """The model of floating-point programs that it belongs to in float32, without biases.

        `MultiheadAttention` multiplies queries by 1/sqrt(d_h), or queries and keys by its root:
        without error where d_h is a power of 16. Else logits are not exact, whatever W_Q is.
        """
        exact = (self.attention.head_dim.bit_length() - 1) % 4 == 0
        power = self.attention.head_dim.bit_count() == 1
        return FLOAT32.name if exact and power else MODELS["float32, scaled"].name

    def forward(self, contexts: Tensor, queries: Tensor) -> Tensor:
        """Evaluate examples: (T, d_out), or (T,) for scalar targets.

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
        """
        contexts = contexts.expand(len(queries), *contexts.shape[-2:])
        attended, _ = self.attention(queries.unsqueeze(1), contexts, contexts, need_weights=False)
        outputs: Tensor = self.readout(attended[:, 0])
        return outputs[:, 0] if self.scalar_targets else outputs


def check_dtype(dtype: torch.dtype | None) -> None:
    """Raise ParameterError for what weights cannot be rounded to.

    Args:
        dtype: of torch, or None for weights as they are

    Raises:
        ParameterError: if it is no `torch.dtype` of real numbers
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ParameterError(
            f"dtype={dtype!r} is no torch.dtype of real numbers",
            witness=str(dtype),
            suggestion="torch.float64, torch.float32 or torch.bfloat16",
        )


def multihead_module(layer: AttentionLayer, *, scalar_targets: bool) -> MultiheadModule:
    """The layer as `torch.nn.MultiheadAttention` and `torch.nn.Linear`, without biases.

    Queries are multiplied by sqrt(d_h), as the module divides by it: in float32 it belongs to the
    model "float32, scaled", unless d_h is a power of 16 (`MultiheadModule.float_model`).

    Args:
        layer: its weights are copied
        scalar_targets: whether outputs are (T,) rather than (T, 1)

    Raises:
        ParameterError: unless H d_h = d, d_v = d_h and d_o <= d
    """
    heads, width = layer.num_heads, layer.width
    between, target_dim = layer.readout_weights.shape
    fits = heads * layer.head_dim == width and layer.value_dim == layer.head_dim
    if not fits or between > width:
        share, rest = divmod(width, heads)
        way = "heads whose number divides d" if rest else f"head_dim={share}, value_dim={share}"
        raise ParameterError(
            f"torch.nn.MultiheadAttention has H d_h = d and d_v = d_h; here H = {heads}, "
            f"d = {width}, d_h = {layer.head_dim}, d_v = {layer.value_dim}",
            witness=(heads, width, layer.head_dim, layer.value_dim),
            suggestion=f"build_memorizer(..., {way}), or multihead=False",
        )
    kind = torch.tensor(layer.query_weights).dtype
    attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True, dtype=kind)
    readout = nn.Linear(width, target_dim, bias=False, dtype=kind)
    query = layer.query_weights * layer.query_weights.dtype.type(math.sqrt(layer.head_dim))
    rows = [_rows(weights) for weights in (query, layer.key_weights, layer.value_weights)]
    output, last = np.zeros((width, width)), np.zeros((target_dim, width))
    output[:between], last[:, :between] = layer.output_weights.T, layer.readout_weights.T
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.tensor(np.concatenate(rows)))
        attention.out_proj.weight.copy_(torch.tensor(output))
        readout.weight.copy_(torch.tensor(last))
    return MultiheadModule(attention, readout, scalar_targets=scalar_targets)


def _rows(weights: Array) -> Array:
    """(H, d, k) as the (H k, d) of a projection."""
    rows: Array = weights.transpose(0, 2, 1).reshape(-1, weights.shape[1])
    return rows


class ReadModule(NamedTuple):
    """What a module was read as: a layer, and how its data are to be shaped.

    Attributes:
        layer: with one entry more for each token where biases need it
        constant: whether tokens and queries need an entry 1 appended (`Dataset.with_constant`)
        scalar_targets: whether outputs are (T,) rather than (T, 1)
    """

    layer: AttentionLayer
    constant: bool
    scalar_targets: bool


def read(module: nn.Module, dataset: Dataset | None = None) -> ReadModule:
    """The layer which a module computes, as it does in evaluation mode (without dropout).

    The module must hold one `AttentionModule`, or one `MultiheadAttention` and one `Linear`, and
    its `forward(contexts, queries)` must be just these. That is tested in float64: on random tokens
    of several sizes and numbers, and on all examples of the data, if there are any.

    Args:
        module: on any device; it is not changed
        dataset: what any but an unchanged `AttentionModule`, which is known, is tested on besides
            random tokens; by default nothing

    Raises:
        ParameterError: for a module which is or does something else
        DataError: for data whose shapes do not fit, whatever the module is
    """
    _check_parameters(module)
    if _is_ours(module):
        arrays = (_array(getattr(module, name)) for name in _NAMES)
        layer = AttentionLayer(*arrays)
        found = ReadModule(layer, False, module.scalar_targets)  # noqa: FBT003
        if dataset is not None:
            _require_fit(found, dataset, type(module).__name__)
        return found
    try:
        twin = copy.deepcopy(module).to(torch.float64).eval()
    except Exception as error:  # modules may hold anything
        raise ParameterError(
            f"a {type(module).__name__} cannot be copied and read in float64: {error}",
            witness=type(module).__name__,
            suggestion="torch.nn.utils.prune.remove and the like, which leave plain weights",
        ) from error
    found = _layer_of(twin)
    if dataset is not None:
        _require_fit(found, dataset, type(module).__name__)
    outputs = [
        _compared(twin, type(module).__name__, found, contexts, queries, first=first)
        for contexts, queries, first in _probes(found, dataset)
    ]
    return found._replace(scalar_targets=outputs[0].ndim == 1)


def _probes(
    found: ReadModule, dataset: Dataset | None
) -> Iterator[tuple[Array, Array, int | None]]:
    """Random examples, then all of the data: contexts, queries, and the index of the first one."""
    width = found.layer.width - found.constant
    for size, scale in _PROBES:
        yield *_random_examples(size, scale, width), None
    if dataset is not None:
        for first in range(0, dataset.num_examples, _AT_ONCE):
            yield *_examples(dataset, slice(first, first + _AT_ONCE)), first


def _require_fit(found: ReadModule, dataset: Dataset, name: str) -> None:
    """Raise DataError for data of other sizes than a module's, in the numbers which it has.

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
    """Raise ParameterError for what is no module, or has no real weights yet."""
    if not isinstance(module, nn.Module):
        raise ParameterError(
            f"a {type(module).__name__} is no torch.nn.Module",
            witness=type(module).__name__,
            suggestion="a module of torch.nn.MultiheadAttention and torch.nn.Linear",
        )
    for name, parameter in module.named_parameters():
        lazy = isinstance(parameter, nn.parameter.UninitializedParameter)
        if lazy or parameter.is_meta or not parameter.is_floating_point():
            kind = "not there yet" if lazy or parameter.is_meta else f"of {parameter.dtype}"
            raise ParameterError(
                f"the parameter {name} of a {type(module).__name__} is {kind}",
                witness=name,
                suggestion="a module with weights in memory, of float64, float32 or shorter",
            )


def _is_ours(module: nn.Module) -> TypeGuard[AttentionModule]:
    """Whether it is known what a module does: an `AttentionModule` which nobody has changed."""
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
    """What the weights of a module say; whether it is what the module does, is another question."""
    ours = [part for part in module.modules() if isinstance(part, AttentionModule)]
    attentions = [part for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    inside = {id(part) for attention in attentions for part in attention.modules()}
    linears = [
        part for part in module.modules() if isinstance(part, nn.Linear) and id(part) not in inside
    ]
    if len(ours) == 1 and not attentions:
        layer = AttentionLayer(*(_array(getattr(ours[0], name)) for name in _NAMES))
        return ReadModule(layer, False, False)  # noqa: FBT003
    if len(attentions) != 1 or len(linears) != 1:
        raise ParameterError(
            f"a {type(module).__name__} has {len(attentions)} MultiheadAttention and "
            f"{len(linears)} Linear, not one of each",
            witness=(len(attentions), len(linears)),
            suggestion="interop.pytorch.MultiheadModule(attention, readout)",
        )
    attention, readout = attentions[0], linears[0]
    odd = {
        "bias_k or bias_v": attention.bias_k is not None or attention.bias_v is not None,
        "add_zero_attn": attention.add_zero_attn,
        "kdim or vdim": not (attention.kdim == attention.vdim == attention.embed_dim),
        "batch_first=False": not attention.batch_first,
    }
    if any(odd.values()):
        names = [name for name, is_so in odd.items() if is_so]
        raise ParameterError(
            f"MultiheadAttention with {', '.join(names)} is no layer of the theorem",
            witness=names[0],
            suggestion="torch.nn.MultiheadAttention(d, H, batch_first=True)",
        )
    heads, inner = attention.num_heads, attention.head_dim
    projections = np.split(_array(attention.in_proj_weight), 3)
    query, key, value = (part.reshape(heads, inner, -1).swapaxes(1, 2) for part in projections)
    weights = query, key, value, _array(attention.out_proj.weight).T, _array(readout.weight).T
    biases = [
        None if bias is None else _array(bias)
        for bias in (attention.in_proj_bias, attention.out_proj.bias, readout.bias)
    ]
    constant = any(bias is not None and bias.any() for bias in biases)
    if constant:
        weights = _with_biases(*weights, biases)
    layer = AttentionLayer(weights[0] / math.sqrt(inner), *weights[1:])
    return ReadModule(layer, constant, scalar_targets=False)


def _with_biases(
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    last: Array,
    biases: Sequence[Array | None],
) -> tuple[Array, Array, Array, Array, Array]:
    """Weights for tokens with a constant entry (see the top of this file)."""
    heads, width, inner = query.shape
    ends = 3 * width, output.shape[1], last.shape[1]
    projected, after, outputs = (
        np.zeros(end) if bias is None else bias for bias, end in zip(biases, ends, strict=True)
    )
    of_query, _, of_value = (part.reshape(heads, 1, inner) for part in np.split(projected, 3))
    query = np.concatenate([query, of_query], axis=1)
    key = np.concatenate([key, np.zeros((heads, 1, inner))], axis=1)
    value = np.pad(np.concatenate([value, of_value], axis=1), ((0, 0), (0, 0), (0, 1)))
    value[0, width, inner] = 1.0
    rows = np.zeros((heads, inner + 1, output.shape[1] + 1))
    rows[:, :inner, :-1] = output.reshape(heads, inner, -1)
    rows[0, inner, :-1], rows[0, inner, -1] = after, 1.0
    return query, key, value, rows.reshape(heads * (inner + 1), -1), np.vstack([last, outputs])


def _random_examples(size: int, scale: float, width: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(size)
    contexts: Array = scale * rng.standard_normal((_EXAMPLES, size, width))
    contexts[0] = 0.0
    queries: Array = scale * rng.standard_normal((_EXAMPLES, width))
    return contexts, queries


def _examples(dataset: Dataset, rows: slice) -> tuple[Array, Array]:
    queries = dataset.queries[rows].astype(np.float64)
    contexts = dataset.contexts_of(rows)
    return np.broadcast_to(contexts, (len(queries), *contexts.shape[1:])), queries


def _compared(
    twin: nn.Module,
    name: str,
    found: ReadModule,
    contexts: Array,
    queries: Array,
    *,
    first: int | None,
) -> Array:
    """What a module gives for some examples, if the layer gives it, too.

    They may differ by a bound of the rounding in float64: each of the numbers which are added up
    is off by a few units in its last place, and a logit which is off changes attention as much.

    Args:
        twin: a copy of the module in float64
        name: of the kind of module, for messages
        found: what it was read as
        contexts: (T, n, d)
        queries: (T, d)
        first: the index of the first example in the data; None for random examples

    Raises:
        ParameterError: unless the layer gives it, too
    """
    try:
        device = next(twin.parameters()).device
        with torch.no_grad():
            tensors = (torch.tensor(array, device=device) for array in (contexts, queries))
            outputs = _array(twin(*tensors))
    except Exception as error:  # whatever a forward of somebody else raises
        raise ParameterError(
            f"forward(contexts, queries) of a {name} fails: {error}",
            witness=(contexts.shape, queries.shape),
            suggestion="a module with forward(contexts, queries), such as "
            "interop.pytorch.MultiheadModule(attention, readout)",
        ) from error
    if found.constant:
        contexts, queries = with_one(contexts), with_one(queries)
    wanted = found.layer(contexts, queries)
    if outputs.shape not in (wanted.shape, wanted.shape[: 1 + (wanted.shape[1] > 1)]):
        raise ParameterError(
            f"a {name} gives outputs {outputs.shape}; its attention and readout have "
            f"{wanted.shape}",
            witness=outputs.shape,
            suggestion="a module without pooling or further layers",
        )
    size, relative = _rounding(found.layer, contexts, queries)
    apart = np.abs(outputs.reshape(wanted.shape) - wanted)
    if not (relative < _MEANINGFUL).all():
        raise ParameterError(
            f"the logits of a {name} are too sharp, by a factor of {relative.max():.0e}, for its "
            "outputs to be compared in float64",
            witness=int(relative.argmax()),
            suggestion="Memorizer.load, if the weights were built and saved here",
        )
    wrong = (~(apart <= size * relative[:, np.newaxis])).any(axis=1)
    if wrong.any():
        example = int(wrong.argmax())
        where = "random tokens" if first is None else f"example {first + example} of the data"
        raise ParameterError(
            f"a {name} computes something else than its attention and readout: "
            f"outputs differ by {apart[example].max():.1e} on {where}",
            witness=None if first is None else first + example,
            suggestion="a module without residual connections, normalization or activations",
        )
    return outputs


def _rounding(layer: AttentionLayer, contexts: Array, queries: Array) -> tuple[Array, Array]:
    """How large the numbers are which make up an output (T, d_out), and how far they are off (T,).

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
