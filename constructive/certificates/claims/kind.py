"""Kinds of claims about a layer, and what they are judged on.

A new kind is a file with a `ClaimKind`, a line in `registry`, and its check in the checker.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from constructive.certificates.claims.evaluation import Evaluation, evaluate, evaluate_in_floats
from constructive.data.dataset import Dataset
from constructive.exact.float_model import FloatModel
from constructive.layers.layer import FLOAT64, Layer
from constructive.layers.record import HeadRecord
from constructive.support.verdict import Claim, Verdict


class Evaluations:
    """A layer on all examples, with more bits each time that one more is asked for.

    First in float64 with a-priori bounds, if it is all in floats; then in balls, with twice the
    bits each time. The last one is kept, and whoever comes next starts with it.

    Args:
        layer: in floats, or with a readout of more bits
        dataset: T examples
        max_prec: the most bits
        keep_rows: whether Z is kept, too
    """

    def __init__(self, layer: Layer, dataset: Dataset, *, max_prec: int, keep_rows: bool) -> None:
        self._layer, self._dataset = layer, dataset
        self._max_prec, self._keep_rows = max_prec, keep_rows
        self._last: Evaluation | None = None

    def __iter__(self) -> Iterator[Evaluation]:
        last = self._last or self._first()
        yield last
        while last.prec < self._max_prec:
            last = self._at(max(2 * last.prec, self._layer.first_bits))
            yield last

    def _first(self) -> Evaluation:
        leading = self._layer.leading
        # A sum of several floats is there for more bits than these bounds can show.
        if leading is not self._layer or self._max_prec < FLOAT64:
            return self._at(self._layer.first_bits)
        self._last = evaluate_in_floats(leading, self._dataset, representation=self._keep_rows)
        return self._last

    def _at(self, prec: int) -> Evaluation:
        self._last = evaluate(
            self._layer.enclose(min(prec, self._max_prec)),
            self._dataset,
            representation=self._keep_rows,
        )
        return self._last

    def judged_by(self, judge: Callable[[Evaluation], Claim]) -> Claim:
        """What a judge says who asks for more bits until he can decide, or they run out."""
        for evaluation in self:
            claim = judge(evaluation)
            if claim.verdict is not Verdict.UNDECIDED:
                break
        return claim


@dataclass(frozen=True, eq=False)
class Subject:
    """What claims are about, and what is asked.

    Attributes:
        layer: the weights
        dataset: T examples which fit them
        heads: what each head did, or () for weights which were not built
        order: the examples in the order in which heads take them, or () for the order given
        epsilon: the largest error that is allowed
        allowed: the same where it was asked for, else None
        model: how programs round, of which the claim *executed* speaks
        delta: the largest distance to an exact readout; None for what can be shown
        fingerprints: the SHA-256 of the data, followed by that of the weights
        evaluations: the layer, enclosed
        rng: of primes' points
        judged: the claims before this one
    """

    layer: Layer
    dataset: Dataset
    heads: tuple[HeadRecord, ...]
    order: tuple[int, ...]
    epsilon: float
    allowed: float | None
    model: FloatModel
    delta: float | None
    fingerprints: bytes
    evaluations: Evaluations
    rng: np.random.Generator
    judged: dict[str, Claim] = field(default_factory=dict)


@dataclass(frozen=True)
class ClaimKind:
    """One kind of claim.

    Attributes:
        judge: proves, refutes, or leaves it undecided
        grouped: whether it is about the groups of the theorems, which not all heads have
        wide: whether these are groups of Theorem 10
        keeps_rows: whether it needs Z, and not only outputs
        usual: whether certificates make it if nobody asks
    """

    judge: Callable[[Subject], Claim]
    grouped: bool = False
    wide: bool = False
    keeps_rows: bool = False
    usual: bool = False
