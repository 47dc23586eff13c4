"""A decoder as a PyTorch module. Needs torch (`pip install ".[torch]"`)."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention

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

    Attributes:
        float_model: the model of floating-point programs that it belongs to on CPUs, in float32
            (`exact.models`); fused kernels of other devices may fold log2 e and merge parts, as
            "float32, scaled" allows
        window: how many tokens a position sees, itself among them; None for all up to itself
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
        self, tensors: Mapping[str, Array], *, window: int | None, float_model: str
    ) -> None:
        super().__init__()
        self.float_model, self.window = float_model, window
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
        by_head = tokens.unsqueeze(1)
        query, key = by_head @ self.W_Q, by_head @ self.W_K  # (S, H, N, d_h)
        value = by_head.expand(-1, len(self.W_Q), -1, -1)
        seen = None if self.window is None else _seen(ids.shape[1], self.window, ids.device)
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=seen, is_causal=seen is None, scale=1.0
        )
        z = torch.cat([by_head, attended], dim=1).transpose(1, 2).flatten(2)
        logits: Tensor = z @ self.U @ self.unembedding.T
        return logits

    def _embedded(self, ids: Tensor) -> Tensor:
        """Return tokens with their positions: (S, N, d)."""
        whole = ids.dtype in {torch.int64, torch.int32}
        if ids.ndim != 2 or not whole or not ids.numel():
            raise DataError(
                f"ids are {ids.dtype} of shape {tuple(ids.shape)}, not integers (S, N)",
                witness=tuple(ids.shape),
                suggestion="torch.tensor(decoder.ids(prompt)[None])",
            )
        length, most = ids.shape[1], len(self.positions)
        if length > most:
            raise DataError(
                f"{length} tokens are more than the {most} positions of this decoder",
                witness=length,
                suggestion=f"sequences of at most {most} tokens",
            )
        try:
            return embedding(ids, self.embedding) + self.positions[:length]
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
