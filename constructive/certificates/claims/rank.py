"""The claims *rank*, *grouping* and *impossible*, by elimination (docs/claims.md).

What a certificate carries that others may check quickly is said at each claim.
"""

from collections.abc import Callable

import numpy as np

from constructive import checker
from constructive.exact import modular
from constructive.layers import residues
from constructive.layers.residues import Search
from constructive.support.verdict import Evidence, pack

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

Rows = tuple[int, tuple[int, int]]  # How many, and how many parts of columns, of how many each
Ranked = checker.Layer | checker.Decoder
Judged = tuple[checker.Found, Evidence]  # What the checker finds, and of what


def prove(
    about: Ranked,
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


def at_random(about: Ranked, rows: Rows, rng: np.random.Generator) -> Judged:
    """Try random points until no denominator vanishes; REFUTED where no W_Q, W_K have the rank."""
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


def evidence_of(found: Search, total: int, more: str) -> Evidence:
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
