"""Laws of rows: a row has its query, mask, bias, sum of weights or output from another row."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from constructive.kernels.answer import grouped
from constructive.kernels.laws.evidence import Evidence
from constructive.kernels.laws.row_maps import Places, Source, explicit, of_places, row_maps
from constructive.kernels.laws.words import exchanged
from constructive.kernels.mistakes.bench import Mistakes
from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans, Integers


class Part(ABC):
    """What a row may take from another one."""

    words: ClassVar[str]

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @property
    def is_there(self) -> bool:
        """Whether rows have such a part, and whether it differs."""
        return True

    @abstractmethod
    def outputs(self, row: int, sources: Integers) -> Array:
        """Return what a row of the sample is with the part of other rows, (S, d_v)."""

    @abstractmethod
    def made(self, source: Integers) -> Array:
        """Return the output of all rows, (B, H, T_q, d_v)."""

    def flat(self, array: np.ndarray) -> np.ndarray:
        """Return an array of rows, (N, ..)."""
        return array.reshape(self.evidence.wrong.size, *array.shape[3:])

    def whole(self, array: np.ndarray) -> np.ndarray:
        """Return rows as (B, H, T_q, ..)."""
        return array.reshape(*self.evidence.wrong.shape, *array.shape[1:])


class Output(Part):
    """The output, which is written to, or kept from, another row."""

    words = "rows of the output are those of"

    def outputs(self, row: int, sources: Integers) -> Array:
        """Return outputs of the sources."""
        del row
        found: Array = self.flat(np.nan_to_num(self.evidence.problem.expected))[sources]
        return found

    def made(self, source: Integers) -> Array:
        """Return rows in other places."""
        return self.whole(self.outputs(0, source))


class Query(Part):
    """The query, with the mask of the row itself."""

    words = "queries are those of"

    def outputs(self, row: int, sources: Integers) -> Array:
        """Return what the sources' queries read."""
        evidence = self.evidence
        batch, head = (int(place[row]) for place in evidence.places[:2])
        problem = evidence.problem
        keys = problem.k[batch, head // problem.spec.group]
        scores = self.flat(problem.q)[sources] @ keys.T * problem.spec.factor
        cap = problem.spec.soft_cap
        if cap is not None:
            scores = cap * np.tanh(scores / cap)
        if evidence.bench.bias is not None:
            scores = scores + evidence.of(evidence.bench.bias)[row]
        return evidence.read_at(row, scores, evidence.visible[row])

    def made(self, source: Integers) -> Array:
        """Return the output of other queries."""
        bench, problem = self.evidence.bench, self.evidence.problem
        q = self.whole(self.flat(problem.q)[source])
        return bench.averaged(bench.scored(raw=grouped(problem.spec, q, problem.k)))


class Hidden(Part):
    """The mask."""

    words = "the mask is that of"

    @property
    def is_there(self) -> bool:
        """Whether there is a mask."""
        return not self.evidence.problem.visible.all()

    def outputs(self, row: int, sources: Integers) -> Array:
        """Return what the row reads with the masks of the sources."""
        visible = self.flat(self.evidence.bench.visible)[sources]
        return self.evidence.read_at(row, self.evidence.scores[row], visible)

    def made(self, source: Integers) -> Array:
        """Return the output with other masks."""
        bench = self.evidence.bench
        return bench.averaged(visible=self.whole(self.flat(bench.visible)[source]))


class Bias(Part):
    """The bias."""

    words = "the bias is that of"

    @property
    def is_there(self) -> bool:
        """Whether there is a bias."""
        return self.evidence.bench.bias is not None

    def _scored(self, bias: Array) -> Array:
        bench = self.evidence.bench
        return bench.scored(bias=bias)

    def outputs(self, row: int, sources: Integers) -> Array:
        """Return what the row reads with the biases of the sources."""
        evidence, bias = self.evidence, self.evidence.bench.bias
        if bias is None:
            return np.empty((len(sources), 0))
        own = evidence.scores[row] - evidence.of(bias)[row]
        return evidence.read_at(row, own + self.flat(bias)[sources], evidence.visible[row])

    def made(self, source: Integers) -> Array:
        """Return the output with other biases."""
        bias = self.evidence.bench.bias
        if bias is None:
            return self.evidence.problem.expected
        return self.evidence.bench.averaged(self._scored(self.whole(self.flat(bias)[source])))


class Sums(Part):
    """The sum of weights by which a row is divided."""

    words = "rows are divided by the sum of weights of"
    takes_sum: ClassVar[bool] = True
    takes_top: ClassVar[bool] = False

    @cached_property
    def _tops(self) -> tuple[Array, Array]:
        """Largest logits and sums of all rows, (N,) each."""
        bench = self.evidence.bench
        top = bench.logits.max(-1)
        if self.evidence.problem.sinks is not None:
            top = np.maximum(top, self.evidence.problem.sinks[:, None])
        _, total = bench.weighed()
        return np.where(np.isfinite(top), top, 0.0).ravel(), total.ravel()

    def _factors(self, own: Integers, sources: Integers) -> Array:
        top, total = self._tops
        with np.errstate(all="ignore"):
            found = np.ones(len(sources), dtype=np.float32)
            if self.takes_sum:
                found = found * (total[own] / total[sources]).astype(np.float32)
            if self.takes_top:
                found = found * np.exp((top[own] - top[sources]).astype(np.float32))
        return found.astype(np.float64)

    def outputs(self, row: int, sources: Integers) -> Array:
        """Return the row divided by the sums of the sources."""
        own = np.full_like(sources, self.evidence.sample[row])
        with np.errstate(all="ignore"):
            right = self.flat(np.nan_to_num(self.evidence.problem.expected))[own]
            found: Array = right * self._factors(own, sources)[:, None]
        return found

    def made(self, source: Integers) -> Array:
        """Return the output divided by other sums."""
        factors = self.whole(self._factors(np.arange(len(source)), source))
        with np.errstate(all="ignore"):
            found: Array = self.evidence.bench.averaged() * factors[..., None]
        return found


class Tops(Sums):
    """The largest logit, of weights but not of their sum."""

    words = "weights that multiply values are less the largest logit of"
    takes_sum = False
    takes_top = True


class Statistics(Sums):
    """The largest logit and the sum of weights."""

    words = "the largest logit and the sum of weights are those of"
    takes_top = True


# In the order in which they are tried. A new part is a class and a word here.
PARTS: tuple[type[Part], ...] = (Hidden, Bias, Sums, Statistics, Tops, Query, Output)


def rows(kind: type[Part], evidence: Evidence) -> Mistakes:
    """Yield rows whose part is taken from other rows."""
    part = kind(evidence)
    if not part.is_there:
        return
    spec = evidence.problem.spec
    maps = list(row_maps(spec))
    heads = list(_all_heads(spec, evidence.places))
    sequences = list(_all_sequences(spec, evidence.places))
    sources = np.stack([source(evidence.places) for _, source in maps] + heads + sequences)
    table = _table(evidence, part, sources)
    for index in np.flatnonzero(table[: len(maps)].all(1)):
        words, source = maps[index]
        yield f"{part.words} {words}", partial(_made, evidence, part, source)
    rest = table[len(maps) :]
    yield from _explicit(evidence, part, rest[: len(heads)], axis=1)
    yield from _explicit(evidence, part, rest[len(heads) :], axis=0)


def _made(evidence: Evidence, part: Part, source: Source) -> Array:
    return part.made(np.maximum(source(evidence.every), 0))


def _table(evidence: Evidence, part: Part, sources: Integers) -> Booleans:
    """Return whether rows agree with sources, (S, R)."""
    found = np.zeros(sources.shape, dtype=np.bool_)
    alive = np.ones(len(sources), dtype=np.bool_)
    explicit_ones = evidence.problem.spec.heads[0] + evidence.problem.spec.batch
    alive_always = np.arange(len(sources)) >= len(sources) - explicit_ones
    for row in range(sources.shape[1]):
        asked = np.flatnonzero((alive | alive_always) & (sources[:, row] >= 0))
        unique, back = np.unique(sources[asked, row], return_inverse=True)
        if not len(unique):
            break
        same = evidence.is_same(row, part.outputs(row, unique))
        found[asked, row] = same[back]
        alive &= found[:, row]
    return found


def _all_heads(spec: Spec, places: Places) -> Iterator[Integers]:
    b, _, i = places
    for head in range(spec.heads[0]):
        yield (b * spec.heads[0] + head) * spec.queries + i


def _all_sequences(spec: Spec, places: Places) -> Iterator[Integers]:
    _, h, i = places
    for batch in range(spec.batch):
        yield (batch * spec.heads[0] + h) * spec.queries + i


def _explicit(evidence: Evidence, part: Part, table: Booleans, axis: int) -> Mistakes:
    """Yield the map of heads or of sequences that the sample leaves, if there is one."""
    own = evidence.places[axis]
    count = len(table)
    allowed = of_places(table.T, own, count)
    found = explicit(allowed, np.arange(count))
    if found is None:
        return
    chosen, changed = found
    name = "head" if axis else "sequence"
    places = list(evidence.every)
    places[axis] = chosen[places[axis]]
    shape = evidence.wrong.shape
    source = np.ravel_multi_index(tuple(places), shape)
    yield f"{part.words} another {name}: {exchanged(name, changed)}", partial(part.made, source)
