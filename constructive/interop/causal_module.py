"""A decoder as a PyTorch module. Needs torch (`pip install ".[torch]"`)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad, scaled_dot_product_attention

from constructive.support.arrays import Array
from constructive.support.errors import DataError


class DecoderModule(nn.Module):
    """The decoder's causal layer, with `scaled_dot_product_attention`.

    Made by `Decoder.to_torch`. A file of `Decoder.save` holds the same names, so that
    `module.load_state_dict(safetensors.torch.load_file(path))` reads it.

    Args:
        tensors: `Decoder.tensors`, which are copied, and become parameters
        window: how many tokens a position sees, itself among them; None for all up to itself
        float_model: `Decoder.float_model`
        longest: `Decoder.longest`, where positions are periodic
        factors: the format that factors of products are rounded to, "TF32", "bfloat16" or
            "float16", as tensor cores do; None where they are not rounded

    Attributes:
        float_model: the model of floating-point programs that it belongs to on CPUs, in float32
            (`exact.float_model`); fused kernels of other devices may fold log2 e and merge parts,
            as "float32, scaled" allows
        window: how many tokens a position sees, itself among them; None for all up to itself
        longest: the most tokens of a text, where positions are periodic; else None
        factors: the format of factors, or None
        embedding: (V, d)
        positions: (L, d)
        W_Q: (H, d, d_h)
        W_K: (H, d, d_h)
        U: ((H + 1) d, d_out)
        unembedding: (V + 1, d_out)

    Example:
        >>> from constructive import Text, build_decoder
        >>> text = Text.words("the cat sat on the mat")
        >>> module = build_decoder(text, width=32).to_torch()
        >>> logits = module(torch.tensor(text.ids[None]))
        >>> logits[0, :-1].argmax(dim=1).tolist() == text.ids[1:].tolist()
        True
    """

    embedding: Tensor
    positions: Tensor
    W_Q: Tensor
    W_K: Tensor
    U: Tensor
    unembedding: Tensor

    def __init__(
        self,
        tensors: Mapping[str, Array],
        *,
        window: int | None,
        float_model: str,
        longest: int | None = None,
        factors: str | None = None,
    ) -> None:
        super().__init__()
        self.factors = factors
        self.float_model, self.window, self.longest = float_model, window, longest
        for name, array in tensors.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(array)))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits at each position: (S, N, V + 1), the last one for the end of a text.

        Args:
            ids: numbers of tokens (S, N); `Decoder.ids` finds them

        Raises:
            DataError: for what is no (S, N), for more tokens than there are positions, and, where
                PyTorch says so, which is on the CPU, for numbers that are not tokens
        """
        tokens = self._embedded(ids)
        if self.window is not None and ids.shape[1] > 2 * self.window:
            attended = self._in_blocks(tokens, self.window)
        else:
            seen = None if self.window is None else _seen(ids.shape[1], self.window, ids.device)
            attended = self._attended(tokens.unsqueeze(1), tokens.unsqueeze(1), seen)
        z = torch.cat([tokens.unsqueeze(1), attended], dim=1).transpose(1, 2).flatten(2)
        if self.factors is None:
            logits: Tensor = z @ self.U @ self.unembedding.T
            return logits
        z = self._factor(z)
        outputs = torch.stack([z @ self._factor(part) for part in self._parts()]).sum(dim=0)
        # No product of matrices, which a device may round to fewer bits.
        columns = zip(outputs.unbind(dim=2), self.unembedding.unbind(dim=1), strict=True)
        return torch.stack([one.unsqueeze(2) * other for one, other in columns]).sum(dim=0)

    def _attended(self, asking: Tensor, tokens: Tensor, seen: Tensor | None) -> Tensor:
        """Averages of tokens (B, 1, n, d) for the queries of others (B, 1, b, d): (B, H, b, d)."""
        query = self._factor(asking) @ self._factor(self.W_Q)  # (B, H, b, d_h)
        key = self._factor(tokens) @ self._factor(self.W_K)
        value = self._factor(tokens).expand(-1, len(self.W_Q), -1, -1)
        return scaled_dot_product_attention(
            self._factor(query),
            self._factor(key),
            value,
            attn_mask=seen,
            is_causal=seen is None,
            scale=1.0,
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

    def _factor(self, x: Tensor) -> Tensor:
        """A factor of a product, rounded to nearest where that is asked for."""
        if self.factors is None:
            return x
        if self.factors == "TF32":
            bits = x.contiguous().view(torch.int32)
            return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)
        return x.to(getattr(torch, self.factors)).to(torch.float32)

    def _parts(self) -> list[Tensor]:
        """The readout, or two parts where the format of factors does not hold it."""
        if torch.equal(self._factor(self.U), self.U):
            return [self.U]
        high = 128.0 * torch.round(self.U / 128.0)
        return [high, self.U - high]

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
            if length <= rows:
                return embedding(ids, self.embedding) + self.positions[:length]
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
