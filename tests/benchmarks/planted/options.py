"""What an attention kernel of this campaign is asked to compute, and one run of it."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

FORMATS = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class Options:
    """The options that all kernels share.

    Scores are (q . k) * scale; then the soft cap; then the bias and ALiBi; then the masks; then the
    softmax, whose denominator a sink joins as one more logit without a value. A row that sees no
    key is zero.

    causal: None, "top-left" (query i sees keys up to i) or "bottom-right" (up to i + offset, where
        the offset is the number of keys of its batch less the number of queries).
    alignment: where query 0 stands for windows and ALiBi if causal is None.
    window: keys visible to the left and to the right of the query's own position; None is all.
    key_lengths: (batch,), keys from there on are padding.
    key_starts: (batch,), keys before are padding.
    mask: booleans, True is visible; bias: numbers; both broadcast to (batch, heads, Tq, Tk).
    slopes: (heads,), ALiBi adds -slope * |distance|.
    sinks: (heads,).
    block_table: (batch, pages), the pages of each sequence; k and v are then caches in layout
        (pages, kv heads, page size, d).
    splits: parts of the keys that are computed alone and merged.
    query_offsets, key_offsets: (sequences + 1,), cumulative lengths of sequences that are packed
        along the tokens of one batch.
    """

    causal: str | None = None
    alignment: str = "bottom-right"
    window: tuple[int | None, int | None] = (None, None)
    key_lengths: np.ndarray | None = None
    key_starts: np.ndarray | None = None
    mask: np.ndarray | None = None
    bias: np.ndarray | None = None
    slopes: np.ndarray | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: np.ndarray | None = None
    block_table: np.ndarray | None = None
    splits: int = 1
    query_offsets: np.ndarray | None = None
    key_offsets: np.ndarray | None = None

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Run:
    """One call of a kernel: its tensors, its options, and the sizes that follow from them."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    o: Options

    @property
    def batch(self):
        return self.q.shape[0]

    @property
    def heads(self):
        return self.q.shape[1]

    @property
    def kv_heads(self):
        return self.k.shape[1]

    @property
    def group(self):
        return self.heads // self.kv_heads

    @property
    def tq(self):
        return self.q.shape[2]

    @property
    def page(self):
        return self.k.shape[2]

    @property
    def tk(self):
        if self.o.block_table is not None:
            return self.o.block_table.shape[1] * self.page
        return self.k.shape[2]

    @property
    def d(self):
        return self.q.shape[3]

    @property
    def dv(self):
        return self.v.shape[3]

    @property
    def real(self):
        """The format of the arithmetic inside: float32, or float64 for float64."""
        return np.float64 if self.q.dtype == np.float64 else np.float32

    @cached_property
    def lengths(self):
        given = self.o.key_lengths
        return np.full(self.batch, self.tk) if given is None else np.asarray(given, int)

    @cached_property
    def starts(self):
        given = self.o.key_starts
        return np.zeros(self.batch, int) if given is None else np.asarray(given, int)
