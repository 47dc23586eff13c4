"""The causal layer: every position of a sequence is a query, and its context is what came before.

Notation: x_1, ..., x_N the tokens of a sequence (N, d), H heads with W_Q, W_K (d, d_h), an
effective readout U. Position i sees j = 1, ..., i, or the last `window` of these. ::

    alpha_h = softmax of x_j . W_K W_Q^T x_i over the j which i sees
    z_h     = sum_j alpha_hj x_j
    f_i     = U^T (x_i, z_1, ..., z_H)           with the skip connection; without it U^T (z_1, ...)

The logits carry no factor 1/sqrt(d_h). For almost all sequences and almost all weights the rows
of all S N positions have rank min((H + 1) d, min(S, d) + S (N - 1)), with a skip connection, and no
weights do better (Theorem 12, proofs/17): so about N / d heads hold a text, whatever it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.exact.arithmetics import Floats
from constructive.layers.attend import BLOCK_BYTES, Causal, Rows, attend, flat
from constructive.layers.attention import HeadShapes, require_floats
from constructive.support.arguments import require_positive
from constructive.support.arrays import Array, finite_array, private
from constructive.support.errors import DataError, ParameterError


@dataclass(frozen=True, eq=False)
class CausalLayer(HeadShapes):
    """Causal multi-head attention with an effective readout, as plain arrays of one dtype.

    The arrays are read-only copies of what was given; the layer computes in their dtype.

    Attributes:
        query_weights: W_Q (H, d, d_h)
        key_weights: W_K (H, d, d_h)
        readout_weights: U (K, d_out), K = (H + 1) d with the skip connection, else H d
        window: how many positions one sees, itself among them; None for all up to itself
        skip: whether the readout sees x_i, too

    Raises:
        ParameterError: for what is not an array, shapes that do not fit, dtypes other than float32
            or float64 or several of them, entries that are not finite, and a window that is not a
            positive integer

    Example:
        >>> zeros = np.zeros((1, 1, 1))
        >>> layer = CausalLayer(zeros, zeros, np.array([[1.0]]), skip=False)
        >>> layer([[[3.0], [5.0], [1.0]]]).tolist()  # uniform attention: means of what came before
        [[[3.0], [4.0], [3.0]]]
    """

    query_weights: Array
    key_weights: Array
    readout_weights: Array
    window: int | None = None
    skip: bool = True

    def __post_init__(self) -> None:
        for name in ("query_weights", "key_weights", "readout_weights"):
            object.__setattr__(self, name, private(name, getattr(self, name)))
        if self.window is not None:
            require_positive(window=self.window)
        _check(self.tensors, skip=self.skip)

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them."""
        return {**self.head_tensors, "U": self.readout_weights}

    @property
    def width(self) -> int:
        """d, the number of entries of a token."""
        return len(self.readout_weights) // (self.num_heads + self.skip)

    @property
    def target_dim(self) -> int:
        """d_out, the number of entries of the output."""
        return int(self.readout_weights.shape[1])

    @property
    def inner_dim(self) -> int:
        """K, the number of entries of the representation."""
        return (self.num_heads + self.skip) * self.width

    def __call__(self, sequences: npt.ArrayLike, *, block_bytes: int = BLOCK_BYTES) -> Array:
        """Evaluate f at all positions of all sequences: (S, N, d_out).

        Args:
            sequences: (S, N, d)
            block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

        Raises:
            DataError: if shapes do not fit the layer, or numbers are not finite
        """
        return self._collected(
            sequences, self.target_dim, lambda z: z @ self.readout_weights, block_bytes
        )

    def intermediate(self, sequences: npt.ArrayLike, *, block_bytes: int = BLOCK_BYTES) -> Array:
        """The intermediate representation of all positions: (S, N, K).

        Args:
            sequences: (S, N, d)
            block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

        Raises:
            DataError: if shapes do not fit the layer, or numbers are not finite
        """
        return self._collected(sequences, self.inner_dim, lambda z: z, block_bytes)

    def _collected(
        self,
        sequences: npt.ArrayLike,
        entries: int,
        of: Callable[[Array], Array],
        block_bytes: int,
    ) -> Array:
        """What is made of the representation of all positions: (S, N, entries)."""
        tokens = self.checked(sequences)
        out = np.empty((*tokens.shape[:2], entries), tokens.dtype)
        for rows, z in self.chunks(tokens, block_bytes=block_bytes):
            out[rows] = of(z)
        return out

    def chunks(
        self, tokens: Array, *, block_bytes: int = BLOCK_BYTES
    ) -> Iterator[tuple[Rows, Array]]:
        """Which positions of which sequences, and their representation, a few at a time.

        Args:
            tokens: (S, N, d), of the dtype of the weights
            block_bytes: about the size of temporary arrays, in bytes; by default 32 MiB

        Yields:
            an index of (S, N), and z of the positions there: (s, b, K)
        """
        weights, view = (self.query_weights, self.key_weights), Causal(tokens, self.window)
        for chunk in attend(Floats(tokens.dtype), weights, view, chunk_bytes=block_bytes):
            z = flat(chunk.representation)
            own = tokens[chunk.rows]
            yield chunk.rows, np.concatenate([own, z], axis=2) if self.skip else z

    def checked(self, sequences: npt.ArrayLike) -> Array:
        """Sequences as an array of the layer's dtype.

        Args:
            sequences: (S, N, d)

        Raises:
            DataError: if shapes do not fit the layer, or numbers are not finite
        """
        tokens = finite_array("sequences", sequences, copy=False)
        if tokens.ndim != 3 or tokens.shape[2] != self.width or 0 in tokens.shape:
            raise DataError(
                f"sequences have shape {tokens.shape}, not (S, N, d={self.width})",
                witness=tokens.shape,
                suggestion="an array of sequences of tokens; x[np.newaxis] for a single one",
            )
        return tokens.astype(self.query_weights.dtype, copy=False)


def _check(tensors: dict[str, Array], *, skip: bool) -> None:
    """Raise ParameterError for weights which do not fit together."""
    w_q, w_k, readout = (tensors[name] for name in ("W_Q", "W_K", "U"))
    shapes = {name: array.shape for name, array in tensors.items()}
    fits = w_q.ndim == 3 and w_q.shape == w_k.shape and readout.ndim == 2 and w_q.size
    if not fits or readout.shape[0] != (len(w_q) + skip) * w_q.shape[1] or not readout.size:
        rows = "(H + 1) d" if skip else "H d"
        raise ParameterError(
            f"weights have shapes {shapes}",
            witness=shapes,
            suggestion=f"W_Q and W_K (H, d, d_h), U ({rows}, d_out)",
        )
    require_floats(tensors)
