"""A layer as a PyTorch module. Needs torch (`pip install ".[torch]"`).

`AttentionModule` has the weights of an `AttentionLayer`, by the same names and shapes, and attends
by `scaled_dot_product_attention`. `MultiheadModule` is a `torch.nn.MultiheadAttention` followed by
a `torch.nn.Linear`, which can have the same weights where H d_h = d and d_v = d_h. `torch_reading`
reads both.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from constructive.exact.float_model import FLOAT32, MODELS
from constructive.layers.attention import AttentionLayer, require_single_target
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


class AttentionModule(nn.Module):
    """The layer of `AttentionLayer`, with `scaled_dot_product_attention`.

    A .safetensors file of a memorizer holds the same names, so that
    `module.load_state_dict(safetensors.torch.load_file(path))` reads it.

    Args:
        layer: its weights are copied, and become parameters
        scalar_targets: whether outputs are (T,) rather than (T, 1)

    Attributes:
        float_model: the model of floating-point programs that it belongs to on CPUs, in float32
            (`exact.float_model`); fused kernels of other devices may fold log2 e and merge parts,
            as "float32, scaled" allows
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

    def forward(self, contexts: Tensor, queries: Tensor, mask: Tensor | None = None) -> Tensor:
        """Evaluate examples: (T, d_out), or (T,) for scalar targets.

        Takes T H n (d_h + d_v) numbers of memory: hand large data over in batches.

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            mask: (T, n), 1 or True for tokens that count, as in `padded`; by default all do
        """
        contexts = contexts.unsqueeze(-3)  # an axis for the heads
        query = queries.unsqueeze(-2).unsqueeze(-2) @ self.W_Q  # (T, H, 1, d_h)
        key, value = contexts @ self.W_K, contexts @ self.W_V  # (T, H, n, ...)
        shape = len(queries), *key.shape[-3:-1]
        attended = scaled_dot_product_attention(
            query,
            key.expand(*shape, -1),
            value.expand(*shape, -1),
            attn_mask=None if mask is None else mask.bool()[:, None, None],
            scale=1.0,
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

    def forward(self, contexts: Tensor, queries: Tensor, mask: Tensor | None = None) -> Tensor:
        """Evaluate examples: (T, d_out), or (T,) for scalar targets.

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            mask: (T, n), 1 or True for tokens that count, as in `padded`; by default all do
        """
        contexts = contexts.expand(len(queries), *contexts.shape[-2:])
        hidden = None if mask is None else ~mask.bool()
        attended, _ = self.attention(
            queries.unsqueeze(1), contexts, contexts, key_padding_mask=hidden, need_weights=False
        )
        outputs: Tensor = self.readout(attended[:, 0])
        return outputs[:, 0] if self.scalar_targets else outputs


def check_dtype(dtype: torch.dtype | None) -> None:
    """Raise ParameterError for what weights cannot be rounded to."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise ParameterError(
            f"dtype={dtype!r} is not a torch.dtype of real numbers",
            witness=str(dtype),
            suggestion="torch.float64, torch.float32 or torch.bfloat16",
        )


def multihead_module(layer: AttentionLayer, *, scalar_targets: bool) -> MultiheadModule:
    """Return the layer as `torch.nn.MultiheadAttention` and `torch.nn.Linear`, without biases.

    Queries are multiplied by sqrt(d_h), as the module divides by it: in float32 it belongs to the
    model "float32, scaled", unless d_h is a power of 16 (`MultiheadModule.float_model`).
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
