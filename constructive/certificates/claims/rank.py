"""The claims *rank*, *grouping* and *impossible*, by elimination (docs/claims.md).

What a certificate carries that others may check quickly is said at each claim.
"""

import hashlib
import struct
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from constructive import checker
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.exact import modular
from constructive.exact.softmax import Point
from constructive.layers import residues
from constructive.layers.residues import Search
from constructive.support.arrays import Array, Integers
from constructive.support.errors import PrecisionError
from constructive.support.verdict import Claim, Verdict, pack

# *rank*: all rows of Z are independent, so these heads have a readout for all targets.
#
# Proof by one prime p and one value a at which Z has rank T modulo p (`layers.residues`). What a
# certificate carries:
#
# - p, a, and T columns C of Z that are independent modulo p. To eliminate Z(a)[:, C] again proves
#   the claim.
# - The solution X of Z(a)[:, C] X = B modulo p for `ROUNDS` columns B that nobody can choose: they
#   are the SHAKE-256 stream of the hashes of data and weights, of p, a and C. If Z(a)[:, C] were
#   singular, a random column would lie in its range with probability at most 1/p, and so no X would
#   exist but with probability p^-ROUNDS < 2^-250. An attacker who tries 2^128 certificates in
#   search of an accident still fails but for 2^-122. To check Z(a)[:, C] X = B costs O(T^2).
#
# The second is the certificate of Kaltofen, Nehring and Saunders (*Quadratic-time certificates in
# linear algebra*, ISSAC 2011), with the verifier's random vectors drawn from a hash function (Fiat
# and Shamir), which is modelled as random.

ROUNDS = 12

Refutation = tuple[str, object]  # A detail and a witness


class Rank(ClaimKind):
    """The claim *rank*, whatever the rows are."""

    name = "rank"
    options = frozenset({"seed"})
    advice: ClassVar[str]  # What to try where it is undecided

    def judged(
        self,
        subject: Subject[Any, Any],
        total: int,
        refutation: Refutation | None,
        search: Callable[[], Search],
    ) -> Claim:
        """Eliminate all rows modulo primes, unless no weights of this shape have the rank.

        `search` looks for a prime at which they are independent, and may raise PrecisionError.
        """
        statement = self.statement.format(total)
        if refutation is not None:
            return Claim("rank", statement, Verdict.REFUTED, *refutation)
        try:
            found = search()
        except PrecisionError as failure:
            return self.undecided(statement, failure)
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
        sides = challenge(subject.fingerprints, point, found.columns)
        evidence = {
            "prime": point.prime,
            "value": point.value,
            "retries": found.retries,
            "columns": pack(found.columns),
            "solution": pack(modular.solve(factors, sides).astype(np.int64) % point.prime),
        }
        at = f"modulo p = {point.prime} at x = {point.value}"
        detail = f"rank {total} {at} ({found.retries} retries)"
        return Claim("rank", statement, Verdict.PROVED, detail, evidence=evidence)


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


Rows = tuple[int, tuple[int, int]]  # How many, and how many parts of columns, of how many each
Judged = tuple[checker.Found, dict[str, Any]]  # What the checker finds, and of what


def prove(
    about: checker.Layer,
    rows: Rows,
    rng: np.random.Generator,
    search: Callable[[], Search],
    more: str,
) -> Judged:
    """Let the checker eliminate columns that are probably independent, or else those of a search.

    `more` says what to try where a search finds too few.
    """
    found, given = at_random(about, rows, rng)
    if found.verdict == checker.UNDECIDED:
        given = evidence_of(search(), rows[0], more)
        found = checker.verify("rank", given, about)
    if found.verdict == checker.PROVED:
        given["solution"] = pack(about.solution)
    return found, given


def at_random(about: checker.Layer, rows: Rows, rng: np.random.Generator) -> Judged:
    """Try random points until no denominator vanishes; REFUTED where no weights have the rank."""
    columns, prime = residues.likely_columns(*rows, rng), next(modular.safe_primes())
    for retries in range(residues.VANISHING):
        if len(columns) > rows[0]:
            break  # a search has to choose
        given = {
            "prime": prime,
            "value": int(rng.integers(2, prime - 1)),
            "retries": retries,
            "columns": pack(columns),
        }
        found = checker.verify("rank", given, about)
        if found.verdict == checker.PROVED:
            return found, given
        if found.witness != checker.VANISHES:
            break
    return checker.verify("rank", {}, about), {}


def evidence_of(found: Search, total: int, more: str) -> dict[str, Any]:
    """Return a prime, a point and columns at which Z has rank T, or why there are none."""
    if found.point is None:
        return {"advice": f"softmax denominators vanish at all {found.retries} points"}
    if found.rank < total:
        return {
            "advice": f"rank Z >= {found.rank}, and probably equal: that is the rank modulo "
            f"{found.tried} primes at random x; try {more}"
        }
    return {
        "prime": found.point.prime,
        "value": found.point.value,
        "retries": found.retries,
        "columns": pack(found.columns),
    }
