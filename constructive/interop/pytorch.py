"""Layers, sequence memorizers and decoders as modules. Needs torch (`pip install ".[torch]"`).

`AttentionModule` has the weights of an `AttentionLayer`, by the same names and shapes, and attends
by `scaled_dot_product_attention`. `MultiheadModule` is a `torch.nn.MultiheadAttention` followed by
a `torch.nn.Linear`, which can have the same weights where H d_h = d and d_v = d_h. `torch_reading`
reads both.
"""

from __future__ import annotations  # the site is built without torch, too

import math
from collections.abc import Mapping
from dataclasses import astuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, pad, relu, scaled_dot_product_attention

from constructive.exact.formats import FLOAT32
from constructive.layers.layer import AttentionLayer, require_single_target
from constructive.sequences.network import (
    WEIGHTS,
    ReluNetwork,
    UniformAttention,
    dense_layers,
    require_exact,
)
from constructive.support.arrays import Array
from constructive.support.errors import DataError, ParameterError


class AttentionModule(nn.Module):
    """The layer of `AttentionLayer`, with `scaled_dot_product_attention`.

    A .safetensors file of a memorizer holds the same names, so that
    `module.load_state_dict(safetensors.torch.load_file(path))` reads it.

    Args:
        layer: its weights are copied, and become parameters
        scalar_targets: whether outputs are (T,) rather than (T, 1)

    Attributes:
        float_model: the model of floating-point programs that it belongs to on CPUs, in float32
            (`checker.MODELS`); fused kernels of other devices may fold log2 e and merge parts,
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
        attention: with batch_first=True or False
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
        return FLOAT32 if exact and power else "float32, scaled"

    def forward(self, contexts: Tensor, queries: Tensor, mask: Tensor | None = None) -> Tensor:
        """Evaluate examples: (T, d_out), or (T,) for scalar targets.

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            mask: (T, n), 1 or True for tokens that count, as in `padded`; by default all do
        """
        contexts = contexts.expand(len(queries), *contexts.shape[-2:])
        hidden = None if mask is None else ~mask.bool()
        queries = queries.unsqueeze(1)
        if not self.attention.batch_first:
            contexts, queries = contexts.transpose(0, 1), queries.transpose(0, 1)
        attended, _ = self.attention(
            queries, contexts, contexts, key_padding_mask=hidden, need_weights=False
        )
        attended = attended[:, 0] if self.attention.batch_first else attended[0]
        outputs: Tensor = self.readout(attended)
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


_DTYPES = {torch.float64: np.float64, torch.float32: np.float32}


class TokenwiseModule(nn.Module):
    """A ReLU network of linear layers with skip connections."""

    def __init__(self, network: ReluNetwork, dtype: torch.dtype) -> None:
        super().__init__()
        require_exact(network.numbers(), _DTYPES[dtype])
        layers = dense_layers(network, _DTYPES[dtype])
        # of each layer (outputs, inputs), as `torch.nn.Linear` has them
        self.weights = nn.ParameterList(torch.tensor(weights) for weights, _ in layers)
        # of each layer (outputs,)
        self.biases = nn.ParameterList(torch.tensor(bias) for _, bias in layers)

    def forward(self, values: Tensor) -> Tensor:
        """Evaluate tokens: (..., inputs) to (..., outputs)."""
        start, *inner, last = zip(self.weights, self.biases, strict=True)
        values = linear(values, *start)
        for first, second in zip(inner[::2], inner[1::2], strict=True):
            values = values + linear(relu(linear(values, *first)), *second)
        return linear(values, *last)


class SequenceModule(nn.Module):
    """Two token-wise networks around a head of attention whose queries and keys are zero.

    Made by `SequenceMemorizer.to_torch`.
    """

    W_Q: Tensor  # (width, 1), for a stream of so many entries
    W_K: Tensor  # (width, 1)
    W_V: Tensor  # (width, 1)
    W_O: Tensor  # (1, width)

    def __init__(
        self,
        embedding: ReluNetwork,
        attention: UniformAttention,
        classifier: ReluNetwork,
        *,
        task: str,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if dtype not in _DTYPES:
            raise ParameterError(
                f"dtype={dtype!r} has too few bits for sequences",
                witness=str(dtype),
                suggestion="torch.float64, or torch.float32 for few of them",
            )
        require_exact(attention.numbers(), _DTYPES[dtype])
        self.task = task
        self.embedding = TokenwiseModule(embedding, dtype)
        self.classifier = TokenwiseModule(classifier, dtype)
        for name, weights in zip(WEIGHTS, astuple(attention), strict=True):
            tensor = torch.tensor([float(weight) for weight in weights], dtype=dtype)
            shaped = tensor[None, :] if name == "W_O" else tensor[:, None]
            self.register_parameter(name, nn.Parameter(shaped))

    def forward(self, sequences: Tensor) -> Tensor:
        """Evaluate sequences (N, n, d) in the dtype of the weights: (N,), or (N, n) for seq2seq."""
        stream = self.embedding(sequences)
        query, key, value = (stream @ weights for weights in (self.W_Q, self.W_K, self.W_V))
        attended = scaled_dot_product_attention(query, key, value, scale=1.0)
        moved = stream + attended @ self.W_O
        own = moved if self.task == "seq2seq" else moved[:, -1]
        outputs: Tensor = self.classifier(own)[..., 0]
        return outputs


class DecoderModule(nn.Module):
    """The decoder's causal layer, with `scaled_dot_product_attention`.

    Made by `Decoder.to_torch`. A file of `Decoder.save` holds the same names, so that
    `module.load_state_dict(safetensors.torch.load_file(path))` reads it.
    """

    embedding: Tensor  # (V, d)
    positions: Tensor  # (L, d)
    W_Q: Tensor  # (H, d, d_h)
    W_K: Tensor  # (H, d, d_h)
    U: Tensor  # ((H + 1) d, d_out)
    unembedding: Tensor  # (V + 1, d_out)
    # The model of floating-point programs that it belongs to on CPUs, in float32
    # (`checker.MODELS`); fused kernels of other devices may fold log2 e and merge parts, as
    # "float32, scaled" allows.
    float_model: str
    window: int | None  # how many tokens a position sees, itself among them; None for all up to it
    longest: int | None  # the most tokens of a text, where positions are periodic

    def __init__(
        self,
        tensors: Mapping[str, Array],
        *,
        window: int | None,
        float_model: str,
        longest: int | None = None,
    ) -> None:
        super().__init__()
        self.float_model, self.window, self.longest = float_model, window, longest
        for name, array in tensors.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(array)))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of ids (S, N): (S, N, V + 1), the last one for the end of a text.

        DataError for what is no (S, N), for more tokens than there are positions, and, where
        PyTorch says so, which is on the CPU, for numbers that are not tokens.
        """
        tokens = self._embedded(ids)
        if self.window is not None and ids.shape[1] > 2 * self.window:
            attended = self._in_blocks(tokens, self.window)
        else:
            seen = None if self.window is None else _seen(ids.shape[1], self.window, ids.device)
            attended = self._attended(tokens.unsqueeze(1), tokens.unsqueeze(1), seen)
        z = torch.cat([tokens.unsqueeze(1), attended], dim=1).transpose(1, 2).flatten(2)
        logits: Tensor = z @ self.U @ self.unembedding.T
        return logits

    def _attended(self, asking: Tensor, tokens: Tensor, seen: Tensor | None) -> Tensor:
        """Averages of tokens (B, 1, n, d) for the queries of others (B, 1, b, d): (B, H, b, d)."""
        query, key = asking @ self.W_Q, tokens @ self.W_K  # (B, H, b, d_h)
        value = tokens.expand(-1, len(self.W_Q), -1, -1)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=seen, is_causal=seen is None, scale=1.0
        )

    def _in_blocks(self, tokens: Tensor, window: int) -> Tensor:
        """Averages (S, H, N, d), where each block of queries sees its keys and those before it."""
        texts, length, width = tokens.shape
        count = -(-length // window)
        padded = pad(tokens, (0, 0, window, count * window - length))
        blocks = padded.reshape(texts, count + 1, window, width)
        keys = torch.cat([blocks[:, :-1], blocks[:, 1:]], dim=2).flatten(0, 1)
        row = torch.arange(window, device=tokens.device)[:, None]
        back = window + row - torch.arange(2 * window, device=tokens.device)
        inside = (back >= 0) & (back < window)
        first = inside & (back <= row)  # nothing is before the text
        seen = inside.expand(count, 1, -1, -1).clone()
        seen[0] = first
        asking = blocks[:, 1:].flatten(0, 1).unsqueeze(1)
        found = self._attended(asking, keys.unsqueeze(1), seen.repeat(texts, 1, 1, 1))
        by_text = found.reshape(texts, count, -1, window, width).transpose(1, 2)
        return by_text.reshape(texts, -1, count * window, width)[:, :, :length]

    def _embedded(self, ids: Tensor) -> Tensor:
        """Return tokens with their positions: (S, N, d)."""
        whole = ids.dtype in {torch.int64, torch.int32}
        if ids.ndim != 2 or not whole or not ids.numel():
            raise DataError(
                f"ids are {ids.dtype} of shape {tuple(ids.shape)}, not integers (S, N)",
                witness=tuple(ids.shape),
                suggestion="torch.tensor(decoder.ids(prompt)[None])",
            )
        length, rows = ids.shape[1], len(self.positions)
        most = rows if self.longest is None else self.longest
        if length > most:
            raise DataError(
                f"{length} tokens are more than the {most} positions of this decoder",
                witness=length,
                suggestion=f"sequences of at most {most} tokens",
            )
        try:
            places = torch.arange(length, device=ids.device) % rows
            return embedding(ids, self.embedding) + self.positions[places]
        except IndexError as error:
            wrong = ids[(ids < 0) | (ids >= len(self.embedding))]
            raise DataError(
                f"the id {int(wrong[0])} is none of the {len(self.embedding)} tokens",
                witness=int(wrong[0]),
                suggestion=f"integers from 0 to {len(self.embedding) - 1}: `Decoder.ids`",
            ) from error


def _seen(length: int, window: int, device: torch.device) -> Tensor:
    """Return which positions each one sees in its window: (N, N)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril().triu(1 - window)
