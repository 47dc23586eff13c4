"""`Evaluations`: a layer on all examples with more and more bits, for all claims that need it."""

from collections.abc import Callable, Iterator

from constructive.certificates.claims.evaluation import Evaluation, evaluate, evaluate_in_floats
from constructive.certificates.claims.kind import Subject
from constructive.data.dataset import Dataset
from constructive.layers.balls import enclose
from constructive.layers.layer import Layer
from constructive.layers.memorizer import Memorizer
from constructive.layers.shapes import FLOAT64
from constructive.support.verdict import Claim, Verdict


class Evaluations:
    """A layer on all examples, with more bits each time that one more is asked for.

    First in float64 with a-priori bounds, if it is all in floats; then in balls, with twice the
    bits each time. The last one is kept, and the next claim starts with it.

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

    @classmethod
    def of(cls, subject: Subject[Memorizer, Dataset]) -> "Evaluations":
        """Return those that all claims about a layer share.

        Args:
            subject: a layer and its data
        """
        return subject.once(
            cls,
            lambda: cls(
                subject.weights.layer,
                subject.data,
                max_prec=subject.options.max_prec,
                keep_rows=any(kind.needs_rows for kind in subject.asked),
            ),
        )

    def __iter__(self) -> Iterator[Evaluation]:
        last = self._last or self._first()
        yield last
        while last.prec < self._max_prec:
            last = self._at(max(2 * last.prec, self._layer.first_bits))
            yield last

    def judged_by(self, judge: Callable[[Evaluation], Claim]) -> Claim:
        """Judge at increasing precision until the claim is decided or `max_prec` is reached.

        Args:
            judge: decides by one evaluation, or does not
        """
        for evaluation in self:
            claim = judge(evaluation)
            if claim.verdict is not Verdict.UNDECIDED:
                break
        return claim

    def _first(self) -> Evaluation:
        leading = self._layer.leading
        # A sum of several floats is there for more bits than these bounds can show.
        if leading is not self._layer or self._max_prec < FLOAT64:
            return self._at(self._layer.first_bits)
        self._last = evaluate_in_floats(leading, self._dataset, representation=self._keep_rows)
        return self._last

    def _at(self, prec: int) -> Evaluation:
        self._last = evaluate(
            enclose(self._layer, min(prec, self._max_prec)),
            self._dataset,
            representation=self._keep_rows,
        )
        return self._last
