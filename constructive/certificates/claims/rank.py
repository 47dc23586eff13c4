"""The claim *rank*: all rows of Z are independent, so these weights memorize every labelling.

The rows of a layer are those of its T examples, those of a decoder one for each different context
(contexts at one position with the same tokens in their window are one). With them Z U = Y for some
effective readout U, (H d, d_out), whatever the targets are; where d_v >= d_out, weights of the
stored shapes hold it.

Proof by one prime p and one value a at which Z has rank T modulo p (`layers.residues`). What a
certificate carries:

- p, a, and T columns C of Z that are independent modulo p. To eliminate Z(a)[:, C] again proves
  the claim.
- The solution X of Z(a)[:, C] X = B modulo p for `ROUNDS` columns B that nobody can choose: they
  are the SHAKE-256 stream of the hashes of data and weights, of p, a and C. If Z(a)[:, C] were
  singular, a random column would lie in its range with probability at most 1/p, and so no X would
  exist but with probability p^-ROUNDS < 2^-250. An attacker who tries 2^128 certificates in
  search of an accident still fails but for 2^-122. To check Z(a)[:, C] X = B costs O(T^2).

The second is the certificate of Kaltofen, Nehring and Saunders (*Quadratic-time certificates in
linear algebra*, ISSAC 2011), with the verifier's random vectors drawn from a hash function (Fiat
and Shamir), which is modelled as random.
"""

import hashlib
import struct
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset, repeated_inputs
from constructive.exact import modular
from constructive.exact.arithmetics import Point, Residues
from constructive.layers import residues
from constructive.layers.attend import CausalView
from constructive.layers.attention import AttentionLayer
from constructive.layers.decoder import Decoder
from constructive.layers.margins import added_tokens
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.layers.residues import Search
from constructive.support.arrays import Array, Integers
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report

ROUNDS = 12
STATEMENT = "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y"

Refutation = tuple[str, object]  # A detail and a witness


@dataclass(frozen=True, eq=False)
class RankRows:
    """The rows of Z that have to be independent."""

    count: int  # how many
    # why they are dependent for all weights of this shape; None if they need not be
    refuted: Refutation | None
    # looks for a prime at which they are independent; may raise PrecisionError
    search: Callable[[], Search]


class Rank(ClaimKind):
    """The claim *rank*, whatever the rows are."""

    name = "rank"
    options = frozenset({"seed"})
    advice: ClassVar[str]  # What to try where it is undecided

    @abstractmethod
    def rows(self, subject: Subject[Any, Any]) -> RankRows:
        """Return what is said of the rows of Z."""

    def judge(self, subject: Subject[Any, Any]) -> Claim:
        """Eliminate modulo primes, unless no weights of this shape have the rank."""
        rows = self.rows(subject)
        statement = self.statement.format(rows.count)
        if rows.refuted is not None:
            detail, witness = rows.refuted
            return Claim("rank", statement, Verdict.REFUTED, detail, witness)
        try:
            found = rows.search()
        except PrecisionError as failure:
            return self.undecided(statement, failure)
        return self._judged(found, rows.count, statement, subject.fingerprints)

    def _judged(self, found: Search, total: int, statement: str, fingerprints: bytes) -> Claim:
        point, factors = found.point, found.factors
        if point is None or factors is None:
            detail = f"softmax denominators vanish at all {found.retries} points; another seed="
            return Claim("rank", statement, Verdict.UNDECIDED, detail)
        if found.rank < total:
            detail = (
                f"rank Z >= {found.rank}, and probably equal: that is the rank modulo "
                f"{found.tried} primes at random x; try {self.advice}"
            )
            return Claim("rank", statement, Verdict.UNDECIDED, detail)
        solution = modular.solve(factors, challenge(fingerprints, point, found.columns))
        evidence = {
            "prime": point.prime,
            "value": point.value,
            "retries": found.retries,
            "columns": pack(found.columns),
            "solution": pack(solution.astype(np.int64) % point.prime),
        }
        at = f"modulo p = {point.prime} at x = {point.value}"
        detail = f"rank {total} {at} ({found.retries} retries)"
        return Claim("rank", statement, Verdict.PROVED, detail, evidence=evidence)


class LayerRank(Rank):
    """The claim about a layer, with a row for each example."""

    statement = STATEMENT
    options = frozenset({"seed"})
    advice = "fewer examples or more heads"

    def is_usual(self, weights: Memorizer) -> bool:
        """Return whether readouts are to have any targets, and not some labels alone."""
        return not weights.record.lead

    def rows(self, subject: Subject[Memorizer, Dataset]) -> RankRows:
        """Return the rows of all examples."""
        layer, dataset = floats_of(subject.weights.layer).leading, subject.data

        def search() -> Search:
            report("intermediate representation modulo a prime", 0, 1)
            return residues.search(layer, dataset, subject.rng)

        return RankRows(dataset.num_examples, refute(layer, dataset), search)


class DecoderRank(Rank):
    """The claim about a decoder, with a row for each different context."""

    statement = (
        "rank Z = R = {} on the different contexts: for all Y some readout U ((H + 1) d, d_out) "
        "has Z U = Y"
    )
    advice = "more heads, or every=True for few parameters"

    def is_usual(self, weights: Decoder) -> bool:
        """Return whether the construction promises the rank.

        Few parameters, whose positions are periodic, promise that the text is recited: positions
        with inequalities alone, and tokens in a row, may leave Z with fewer independent rows.
        """
        enough = weights.layer.inner_dim >= weights.record.num_positions
        return weights.longest is None and enough

    def rows(self, subject: Subject[Decoder, Text]) -> RankRows:
        """Return one row of each context."""
        decoder, text = subject.weights, subject.data
        layer = decoder.layer
        wanted = text.different(layer.window)
        count, columns = len(wanted), layer.inner_dim

        def search() -> Search:
            added_tokens(decoder, text)  # residues are of sums, which have to be those of float32
            return residues.search_rows(
                lambda point, chosen: _rows(decoder, text, wanted, point, chosen),
                count,
                (layer.num_heads + 1, layer.width),
                subject.rng,
            )

        refuted = f"Z has {columns} columns, fewer than {count} contexts", columns
        return RankRows(count, refuted if count > columns else None, search)


def challenge(fingerprints: bytes, point: Point, columns: Integers) -> Array:
    """Return right-hand sides that follow from what is claimed: (T, ROUNDS), balanced residues.

    The fingerprints are the SHA-256 of the data, followed by that of the weights.
    """
    hashed = hashlib.shake_256(b"constructive rank 1")
    hashed.update(fingerprints + struct.pack("<II", point.prime, point.value))
    hashed.update(columns.astype("<u4").tobytes())
    stream = np.frombuffer(hashed.digest(8 * ROUNDS * len(columns)), dtype="<u8")
    values = (stream % np.uint64(point.prime)).astype(np.float64)
    return modular.reduce(values.reshape(len(columns), ROUNDS), point.prime)


def refute(layer: AttentionLayer, dataset: Dataset) -> Refutation | None:
    """Return why rank Z < T for all weights of this layer's shape, or None."""
    total, size, heads = dataset.num_examples, dataset.context_size, layer.num_heads
    if dataset.shared_context and total > heads * (size - 1) + 1:
        bound = heads * (size - 1) + 1
        detail = (
            f"on a shared context rank Z <= H(n - 1) + 1 = {bound} < {total}, since attention "
            "weights sum to one"
        )
        return detail, bound
    columns = layer.width * (1 if size == 1 else heads)
    if total > columns:
        return f"Z has {columns} different columns, fewer than {total} examples", columns
    repeated = repeated_inputs(dataset)
    if repeated is not None:
        first, second = repeated
        return f"examples {first} and {second} are one input, so two rows of Z are equal", repeated
    return None


def _rows(decoder: Decoder, text: Text, wanted: Integers, point: Point, columns: Integers) -> Array:
    """Return some columns of Z(a) modulo p, with a row for each place: (R, columns)."""
    number = np.full(len(text) + 1, -1)  # the last one stands for what is filled up
    number[wanted] = np.arange(len(wanted))
    codes = np.concatenate([decoder.embedding, decoder.positions])
    exponent = modular.least_exponent(codes)  # sums of these are multiples of it, too
    arithmetic, layer = Residues(point, exponent, exponent), decoder.layer
    weights = layer.query_weights, layer.key_weights
    rows, done = np.empty((len(wanted), len(columns))), 0
    for batch in text.batches():
        index = number[batch.places]
        view = CausalView(decoder.embedded(batch.ids), layer.window)

        def stored(at: Any, z: Array, index: Integers = index) -> int:  # noqa: ANN401 - an index
            where = index[at]
            rows[where[where >= 0]] = z[where >= 0]
            return int(where.size)

        for count in residues.attended(arithmetic, weights, view, columns, stored, skip=True):
            report("attend modulo a prime", done, len(text))
            done += count
    report("eliminate modulo a prime", 0, 1)
    return rows


RANK = LayerRank()
DECODER_RANK = DecoderRank()
