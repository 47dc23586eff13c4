"""Groups of examples, one for each head: their sizes, and what they have to meet, exactly.

The claim *grouping*, of Theorems 1 and 2, says:

- Every context has rank n.
- The queries of every group S are independent.
- But for the first head, no query of another group lies in the span of S. (The first head takes r
  examples, one more than the others, and has no earlier example to saturate on.)

*Proof modulo a prime p.* Scale the data by a power of two, so that they are integers. A matrix of
rank k modulo p has rank at least k. Let S be independent modulo p, and let a vector v be orthogonal
to S but not to e modulo p. Then e is not in the rational span of S: otherwise D e = sum_i C_i e_i
with integers of gcd 1, and modulo p either D != 0, so that e.v = 0, or D = 0, so that S is
dependent. QED

What is proposed here is one v for each head but the first; a random one serves all other queries at
once with probability 1 - T/p. Where the checker sees nothing for the claim, it gets integers that
show a dependence, if there is one over the rational numbers.
"""

from collections.abc import Iterable
from itertools import accumulate, pairwise

import numpy as np

from constructive import checker
from constructive.data.dataset import Dataset
from constructive.exact import dyadic, modular
from constructive.support.errors import require_positive
from constructive.support.verdict import Claim, Evidence, Verdict, pack
from constructive.support.work import report, workers

Groups = tuple[tuple[int, int], ...]  # Groups (start, stop) of examples


def group_sizes(num_examples: int, num_heads: int) -> tuple[int, ...]:
    """Share T examples among H heads as evenly as possible, larger groups first.

    At the bound T = H(r - 1) + 1 these are the sizes in the proof: r for the first head and r - 1
    for each later one. Below the bound no group is larger than that.
    """
    require_positive(num_examples=num_examples, num_heads=num_heads)
    each, rest = divmod(num_examples, num_heads)
    return tuple(each + (head < rest) for head in range(num_heads))


def consecutive(sizes: Iterable[int]) -> Groups:
    """Return groups (start, stop) of these sizes, one after the other."""
    return tuple(pairwise([0, *accumulate(sizes)]))


_ATTEMPTS = 8  # Random normals that are tried for a group


def prove(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Claim:
    """Prove or refute the claim for groups (start, stop) of consecutive examples."""
    about = checker.layer({}, dataset.arrays, jobs=workers(), tell=report)
    return judged(dataset, propose(dataset, groups, rng), about)


def judged(dataset: Dataset, evidence: Evidence, about: checker.Layer) -> Claim:
    """Let the checker judge evidence, and what there is against it where it saw nothing for it."""
    found = checker.verify("grouping", evidence, about)
    if found.verdict == checker.UNDECIDED and found.witness is not None:
        evidence |= dependence(dataset, evidence["groups"], found.witness)
        found = checker.verify("grouping", evidence, about)
    verdict, proof = Verdict[found.verdict], evidence if found.verdict == checker.PROVED else {}
    return Claim("grouping", found.statement, verdict, found.detail, found.witness, proof)


def propose(dataset: Dataset, groups: Groups, rng: np.random.Generator) -> Evidence:
    """Return vectors that are orthogonal to the queries of one group alone, modulo a prime."""
    prime = next(modular.safe_primes())
    queries = modular.residues(dataset.queries, prime)
    normals = np.zeros((len(groups), dataset.width))
    for head, (start, stop) in enumerate(groups):
        for _ in range(_ATTEMPTS if head and start < stop <= len(queries) else 0):
            free = modular.random_residues(rng, (dataset.width, 1), prime)
            normals[head] = modular.null_vector(queries[start:stop], prime, free)[1]
            outside = modular.product(queries, normals[head, :, None].copy(), prime) != 0
            if np.delete(outside, np.s_[start:stop]).all():
                break
    return {
        "prime": prime,
        "groups": [list(group) for group in groups],
        "normals": pack(normals.astype(np.int64) % prime),
    }


def dependence(dataset: Dataset, groups: list[list[int]], place: tuple[str, int]) -> Evidence:
    """Return tokens of a context, or queries, that are dependent, with integers; or nothing."""
    of, at = place
    if of == "contexts":
        rows, members = dataset.contexts if dataset.shared_context else dataset.contexts[at], [at]
        found = dyadic.dependency(rows)
    else:
        start, stop = groups[at]
        own, others = [*range(start, stop)], [*range(start), *range(stop, len(dataset.queries))]
        found, members = None, own
        for more in [[], *([other] for other in (others if of == "span" else []))]:
            tried = [*own, *more]
            if dyadic.rank(dataset.queries[tried]) < len(tried):
                found = dyadic.dependency(dataset.queries[tried])
                members = [tried[row] for row in found.rows] if found else []
                break
        rows = dataset.queries[members]
    if found is None:
        return {}
    unit = np.lcm.reduce([c.denominator for c in found.coefficients], dtype=object)
    whole = [int(c * unit) for c in found.coefficients]
    if of == "contexts":
        vector = dict(zip(found.rows, whole, strict=True))
        whole = [vector.get(row, 0) for row in range(len(rows))]
    examples = [int(member) for member in members]
    return {"dependence": {"of": of, "examples": examples, "vector": [hex(x) for x in whole]}}
