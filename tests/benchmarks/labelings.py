"""Labelings that readouts attain, one by one and exactly, beside what the theorem counts.

    python tests/benchmarks/labelings.py --sets 400

Data sets have up to ten examples, with contexts of a small vocabulary, which may be dependent,
equal or collinear. Softmax takes powers of 2 in the place of exp(1), so that Z is rational; logits
are integers. Every one of the 2^T sign vectors is decided twice, with fractions alone:

- it is attained if the vertices (sign vectors of the Z u that are zero on as many independent rows
  as there can be) that do not contradict it have its signs everywhere;
- it is not if some smallest dependency of rows has its signs, and so is a combination with positive
  coefficients of signed rows that is zero (Gordan).

Of each data set some draws of queries and heads are taken: none may attain more than the theorem
says, and one has to attain as many.
"""

import argparse
from itertools import combinations

import flint
import numpy as np

from constructive import Dataset
from constructive.theory.labelings import labelings


def rows_of_z(contexts, queries, weights):
    """Rows of Z times their denominators, with 2 in the place of exp(1): lists of integers."""
    rows = []
    for context, query in zip(contexts, queries, strict=True):
        parts, denominator = [], 1
        for weight in weights:
            logits = [int(x) for x in context @ weight @ query]
            powers = [1 << (logit - min(logits)) for logit in logits]
            columns = context.T.tolist()
            parts.append((sum(powers), [sum(map(int.__mul__, powers, c)) for c in columns]))
            denominator *= sum(powers)
        rows.append([denominator // total * x for total, part in parts for x in part])
    return rows


def attained(rows):
    """How many sign vectors of rows (T, N) without a zero are attained; both ways have to agree."""
    total = len(rows)
    matrix = independent_columns(rows)
    signs = np.arange(1 << total)  # bit t: the sign of row t is positive
    vertices, dependencies = vertices_of(matrix), dependencies_of(matrix)
    covered = np.zeros_like(signs)
    for positive, negative in vertices:
        agrees = ((signs & negative) == 0) & ((signs & positive) == positive)
        covered[agrees] |= positive | negative
    found = covered == (1 << total) - 1
    refuted = np.zeros(len(signs), dtype=bool)
    for positive, negative in dependencies:
        refuted |= ((signs & negative) == 0) & ((signs & positive) == positive)
    if not (found != refuted).all():
        raise ValueError("a labeling is both attained and refuted, or neither")
    return int(found.sum())


def independent_columns(rows):
    """As many columns as the rank, with all dependencies of rows."""
    matrix = flint.fmpz_mat(rows)
    echelon, _, rank = matrix.rref()
    table = echelon.tolist()
    pivots = [next(j for j, x in enumerate(row) if x) for row in table[:rank]]
    return [[row[j] for j in pivots] for row in rows]


def signed(entries):
    """Bits of the positive entries, and of the negative ones; and with signs changed."""
    positive = sum(1 << t for t, x in enumerate(entries) if x > 0)
    negative = sum(1 << t for t, x in enumerate(entries) if x < 0)
    return {(positive, negative), (negative, positive)}


def vertices_of(matrix):
    """Sign vectors of the Z u that vanish on rank - 1 independent rows."""
    rank, found = len(matrix[0]), set()
    if not rank:
        return found
    whole = flint.fmpz_mat(matrix)
    for chosen in combinations(matrix, rank - 1):
        some = flint.fmpz_mat(rank - 1, rank, [x for row in chosen for x in row])
        kernel, nullity = some.nullspace()
        if nullity == 1:
            u = flint.fmpz_mat([[kernel[i, 0]] for i in range(rank)])
            found |= signed([row[0] for row in (whole * u).tolist()])
    return found


def dependencies_of(matrix):
    """Sign vectors of the coefficients of rows that are dependent, no fewer of them being so."""
    total, rank, found = len(matrix), len(matrix[0]), set()
    for size in range(1, rank + 2):
        for places in combinations(range(total), size):
            columns = [x for j in range(rank) for x in (matrix[t][j] for t in places)]
            kernel, nullity = flint.fmpz_mat(rank, size, columns).nullspace()
            if nullity == 1 and all(kernel[i, 0] for i in range(size)):
                entries = [0] * total
                for i, t in enumerate(places):
                    entries[t] = kernel[i, 0]
                found |= signed(entries)
    return found


def drawn_contexts(rng, most):
    """Contexts of a small vocabulary (T, n, d), often with many dependencies."""
    total, size, width = int(rng.integers(1, most + 1)), *rng.integers(1, 4, 2).tolist()
    vocabulary = rng.integers(-2, 3, (int(rng.integers(2, 6)), width))
    if rng.random() < 0.3:
        vocabulary[:, 0] = 1
    return vocabulary[rng.integers(0, len(vocabulary), (total, size))]


def compare(rng, most, draws=4):
    """Numbers of one data set: the theorem's, and those of some queries and heads."""
    contexts, heads = drawn_contexts(rng, most), int(rng.integers(1, 4))
    total, _, width = contexts.shape
    weights = rng.integers(-5, 6, (draws, heads, width, width))
    queries = rng.integers(-400, 401, (draws, total, width))
    queries[-1] = queries[-1, :1]  # one query for all, of which the theorem says "no more"
    apart = np.arange(total)[:, None] * np.ones(width)  # different inputs
    counted = labelings(Dataset(contexts, apart, np.zeros(total)), heads)
    found = [attained(rows_of_z(contexts, *each)) for each in zip(queries, weights, strict=True)]
    return counted, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--most", type=int, default=10, help="examples")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    equal = fewer = dependent = 0
    for index in range(given.sets):
        counted, found = compare(np.random.default_rng([given.seed, index]), given.most)
        if max(found) > counted.count:
            raise SystemExit(f"set {index}: {max(found)} attained, and {counted} said")
        equal += max(found) == counted.count
        fewer += max(found) < counted.count
        dependent += counted.share < 1
    print(f"{given.sets} data sets, {dependent} with labelings that are not attained")
    print(f"the theorem's number attained by some draw: {equal}; by none of a few: {fewer}")
    raise SystemExit(fewer > 0)


if __name__ == "__main__":
    main()
