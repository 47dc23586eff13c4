"""One shared context: eliminate within heads, and solve a Schur complement of size about 2H.

All examples have one context E of rank n, so a head's readout acts through the values g_h = E U_h
of the n tokens, and any g_h can be had. A head which is saturated on t reads the value of its top
or of its bottom token; with sigma_{t,h} = 1 for the top one,

    f(t) = alpha_t.g_h + sum over the other heads k of (g_k[top] if sigma_{t,k} else g_k[bottom])

for t in the group of head h. The heads are coupled by 2H numbers q, the values at top and bottom.
The n - 2 *interior* values of a head are met by its own group alone:

- B_h (|S|, n - 2), attention to interior tokens, is factored: B_h = Q_1 R, with Q_2 spanning what
  is orthogonal to its columns: |S| - (n - 2) columns if that is positive, so one for a group of
  n - 1 examples, two for the first group of n.
- Q_2^T times the equations of S has no interior values any more: these rows of all heads, at most
  H + 1, are the Schur complement K q = Q_2^T y. Its shortest solution is taken. If groups have
  n - 2 examples or fewer there is none, and q = 0 decouples everything.
- The interior values then follow, head by head.

This is exact where all heads saturate; entries which are not saturated are evaluated, and
`iteration` takes care of them. Cost: O(T H) for sigma, O(H^3) for K with H = T / (n - 1), instead
of T^3. The values at extreme tokens cannot be chosen otherwise: attention weights sum to one, so
adding constants to g_h with sum zero changes nothing, and K has that null space.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csr_array

from constructive.constructions.iteration import iterate, require_solved, scales
from constructive.constructions.multihead.assumptions import Assumptions
from constructive.constructions.multihead.directions import with_wide_ends
from constructive.constructions.multihead.grouping import Group
from constructive.constructions.multihead.heads import key_vectors
from constructive.constructions.sweep import Needed, sharpen_at_once
from constructive.data.dataset import Dataset
from constructive.exact.arithmetics.floats import Floats, softmax_in_place
from constructive.layers.attend import attend
from constructive.layers.views import examples
from constructive.support.arrays import CHUNK_BYTES, Array
from constructive.support.progress import report

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SharedHeads:
    """Heads on one context, each saturated on all examples off its group.

    query_weights, key_weights: (H, d, d_h);  sharpness: (H,)
    extreme: the tokens (top, bottom) where heads saturate
    to_top:  sigma (T, H), whether a head reads the top token of an example
    leftover_examples, leftover_heads: the unsaturated entries off the groups
    """

    query_weights: Array
    key_weights: Array
    sharpness: Array
    extreme: tuple[int, int]
    to_top: npt.NDArray[np.bool_]
    leftover_examples: Integers
    leftover_heads: Integers


@dataclass(frozen=True, eq=False)
class Readout:
    """U with Z U = Y for one shared context.

    effective: (H, d, d_out);  residual: (T, d_out), as this module evaluates it
    condition: of the largest system that was solved, or the worst one (estimate)
    """

    effective: Array
    residual: Array
    condition: float


def construct(
    dataset: Dataset,
    assumed: Assumptions,
    groups: tuple[Group, ...],
    head_dim: int,
    *,
    rng: np.random.Generator,
) -> SharedHeads:
    """Build the heads of Theorem 1, each so sharp that it saturates on all other examples.

    A head without a dimension to spare (|S| = d_h) does not saturate: all its entries are left.
    """
    direction = with_wide_ends(dataset, rng)
    context = dataset.contexts_of(slice(None))[0]
    queries = dataset.queries.astype(np.float64, copy=False)
    vectors = key_vectors(dataset, assumed, groups, [direction] * len(groups), rng)
    query_weights, key_weights = np.zeros((2, len(groups), dataset.width, head_dim))
    sharpness, saturating, leftover = np.zeros(len(groups)), [], []
    for head, group in enumerate(groups):
        size = group.size
        query_weights[head, :, :size] = group.dual_basis
        key_weights[head, :, :size] = vectors[group.rows].T
        axes = group.complement[:, : 2 if size < head_dim else 0]
        logits = group.dual_basis @ (vectors[group.rows] @ context.T)
        products = np.concatenate([axes, logits], axis=1).T @ queries.T
        watched = products[axes.shape[1] :]
        needed = Needed.of(direction, logits=watched.max(axis=0) - watched.min(axis=0))
        chosen = sharpen_at_once(products[: axes.shape[1]], group.rows, needed)
        vector = axes @ chosen.unit
        if size < head_dim:
            root = np.sqrt(chosen.sharpness)  # half of c on each side
            query_weights[head, :, size] = root * vector
            key_weights[head, :, size] = root * direction.vector
        sharpness[head] = chosen.sharpness
        saturating.append(vector)
        leftover.append(chosen.leftover)
        report("build heads", head + 1, len(groups))
    scores = context @ direction.vector
    to_top = np.empty((dataset.num_examples, len(groups)), dtype=bool)
    directions = np.stack(saturating, axis=1)
    for rows in _chunks(dataset.num_examples, len(groups)):
        to_top[rows] = queries[rows] @ directions > 0
    return SharedHeads(
        query_weights,
        key_weights,
        sharpness,
        (int(scores.argmax()), int(scores.argmin())),
        to_top,
        np.concatenate(leftover),
        np.repeat(np.arange(len(groups)), [len(each) for each in leftover]),
    )


def solve(dataset: Dataset, groups: tuple[Group, ...], heads: SharedHeads) -> Readout:
    """Solve for the readouts of all heads.

    Raises PrecisionError where a head or the Schur complement is singular.
    """
    report("solve for the readout", 0, 1)
    context = dataset.contexts_of(slice(None))[0]
    own = _own_attention(dataset, groups, heads)
    system = _System(heads, own, _leftover(dataset, heads), *_eliminate(groups, heads, own))
    targets = dataset.target_matrix.astype(np.float64, copy=False)
    scale = scales(targets)
    values, residual = iterate(system, targets / scale)
    condition = max(
        [system.schur.condition, *(each.condition for each in system.eliminated)], default=1.0
    )
    require_solved(residual, condition, "a head or the Schur complement")
    # The shortest U_h with E U_h = g_h.
    inverse = np.linalg.pinv(context)
    return Readout(np.matmul(inverse, values) * scale, residual * scale, condition)


def measure(
    dataset: Dataset, groups: tuple[Group, ...], heads: SharedHeads, effective: Array
) -> Array:
    """Y - f on every example (T, d_out), groups evaluated as a forward pass evaluates them."""
    context = dataset.contexts_of(slice(None))[0]
    values = np.matmul(context, effective)
    outputs = values.shape[2]
    result = _spread(heads, _owner(groups), values)
    result += _leftover(dataset, heads) @ values.reshape(-1, outputs)
    for head, group in enumerate(groups):
        weights = heads.query_weights[head : head + 1], heads.key_weights[head : head + 1]
        queries = dataset.queries[group.rows]
        for chunk in attend(Floats(np.float64), weights, examples(context, queries)):
            rows = slice(group.start + chunk.rows.start, group.start + chunk.rows.stop)
            result[rows] += chunk.representation[:, 0] @ effective[head]
    return dataset.target_matrix - result


@dataclass(frozen=True, eq=False)
class _Eliminated:
    """Heads with equally many examples: interior values from equations, and what is left of them.

    heads, rows: which ones;  inverse: B_h^+ (k, n - 2, |S|);  rest: Q_2 (k, |S|, spare)
    """

    heads: slice
    rows: slice
    inverse: Array
    rest: Array
    condition: float


@dataclass(frozen=True, eq=False)
class _Schur:
    """The shortest solution of K q = r: q = basis triangle^-T r, for K^T = basis triangle."""

    basis: Array
    triangle: Array
    condition: float

    def solve(self, right: Array) -> Array:
        if not len(self.triangle):
            return np.zeros((len(self.basis), right.shape[1]))
        solution: Array = self.basis @ solve_triangular(
            self.triangle, right, trans="T", check_finite=False
        )
        return solution


@dataclass(frozen=True, eq=False)
class _System:
    """Z for values g (H, n, d_out) of tokens; own: (T, n), attention of each example's own head."""

    heads: SharedHeads
    own: Array
    leftover: csr_array
    owner: Integers
    eliminated: tuple[_Eliminated, ...]
    schur: _Schur

    def solve(self, right: Array) -> Array:
        """Values which solve the system as if all heads were saturated."""
        outputs, (count, size) = right.shape[1], (self.heads.to_top.shape[1], self.own.shape[1])
        values = np.zeros((count, size, outputs))
        extreme = list(self.heads.extreme)
        left = [
            np.concatenate(np.matmul(each.rest.transpose(0, 2, 1), _blocks(right, each)))
            for each in self.eliminated
        ]
        ends = self.schur.solve(np.concatenate(left)).reshape(2, count, outputs)
        values[:, extreme] = ends.transpose(1, 0, 2)
        right = right - self.apply_extreme(values)
        interior = _interior(size, self.heads.extreme)
        for each in self.eliminated:
            values[each.heads, interior] = np.matmul(each.inverse, _blocks(right, each))
        return values

    def apply_extreme(self, values: Array) -> Array:
        """What the values at top and bottom contribute to every example."""
        extreme = list(self.heads.extreme)
        result = _spread(self.heads, self.owner, values)
        result += np.einsum("te,teo->to", self.own[:, extreme], values[:, extreme][self.owner])
        return result

    def apply(self, values: Array) -> Array:
        """The outputs f on every example, unsaturated entries included."""
        result = _spread(self.heads, self.owner, values)
        result += np.einsum("tn,tno->to", self.own, values[self.owner])
        result += self.leftover @ values.reshape(-1, values.shape[2])
        return result


def _eliminate(
    groups: tuple[Group, ...], heads: SharedHeads, own: Array
) -> tuple[Integers, tuple[_Eliminated, ...], _Schur]:
    owner, size = _owner(groups), own.shape[1]
    interior = _interior(size, heads.extreme)
    sizes = np.array([group.size for group in groups])
    eliminated = []
    rows_of_schur = []
    for count in np.unique(sizes)[::-1]:  # larger groups come first
        chosen = np.flatnonzero(sizes == count)
        first, last = int(chosen[0]), int(chosen[-1])
        rows = slice(groups[first].start, groups[last].stop)
        each = _factor(own[rows].reshape(len(chosen), count, size)[:, :, interior])
        part = _Eliminated(slice(first, last + 1), rows, *each)
        eliminated.append(part)
        rows_of_schur += [
            _schur_rows(rest, heads, own, groups[head].rows, head)
            for head, rest in zip(range(first, last + 1), part.rest, strict=True)
        ]
    return owner, tuple(eliminated), _factor_schur(np.concatenate(rows_of_schur))


def _factor(blocks: Array) -> tuple[Array, Array, float]:
    """B^+ , Q_2 and the largest condition number of B (k, |S|, n - 2)."""
    count, rows, columns = blocks.shape
    if rows == 0 or columns == 0:
        identity = np.broadcast_to(np.eye(rows), (count, rows, rows))
        return np.zeros((count, columns, rows)), identity, 1.0
    tall = rows >= columns
    basis, triangle = np.linalg.qr(blocks if tall else blocks.transpose(0, 2, 1), mode="complete")
    small = min(rows, columns)
    square = triangle[:, :small]
    diagonal = np.abs(np.diagonal(square, axis1=1, axis2=2))
    if not diagonal.all():
        return np.full((count, columns, rows), np.nan), basis[:, :, rows:], np.inf
    inverse = np.linalg.inv(square)
    thin = basis[:, :, :small]
    if tall:
        pseudo, rest = np.matmul(inverse, thin.transpose(0, 2, 1)), basis[:, :, small:]
    else:
        pseudo, rest = np.matmul(thin, inverse.transpose(0, 2, 1)), np.zeros((count, rows, 0))
    norms = np.abs(blocks).sum(axis=2).max(axis=1) * np.abs(pseudo).sum(axis=2).max(axis=1)
    return pseudo, rest, float(norms.max())


def _schur_rows(rest: Array, heads: SharedHeads, own: Array, rows: slice, head: int) -> Array:
    """The rows of K from one head: (spare, 2 H), for the values at top and then at bottom."""
    to_top = heads.to_top[rows].astype(np.float64)
    blocks = np.stack([to_top, 1.0 - to_top], axis=1)
    blocks[:, :, head] = own[rows][:, list(heads.extreme)]
    return rest.T @ blocks.reshape(len(blocks), 2 * len(heads.sharpness))


def _factor_schur(matrix: Array) -> _Schur:
    basis, triangle = qr(matrix.T, mode="economic", check_finite=False)
    if not len(triangle):
        return _Schur(basis, triangle, 1.0)
    diagonal = np.abs(np.diagonal(triangle))
    condition = float(diagonal.max() / diagonal.min()) if diagonal.all() else np.inf
    if not np.isfinite(condition):
        triangle = np.full_like(triangle, np.nan)
    return _Schur(basis, triangle, condition)


def _spread(heads: SharedHeads, owner: Integers, values: Array) -> Array:
    """What saturated heads read from every example off their groups: (T, d_out)."""
    top, bottom = (values[:, token] for token in heads.extreme)
    result = np.empty((len(owner), values.shape[2]))
    for rows in _chunks(len(owner), len(values)):
        result[rows] = heads.to_top[rows].astype(np.float64) @ (top - bottom)
    result += bottom.sum(axis=0)
    own = heads.to_top[np.arange(len(owner)), owner][:, np.newaxis]
    result -= np.where(own, top[owner], bottom[owner])
    return result


def _own_attention(dataset: Dataset, groups: tuple[Group, ...], heads: SharedHeads) -> Array:
    context = dataset.contexts_of(slice(None))[0]
    own = np.empty((dataset.num_examples, dataset.context_size))
    for head, group in enumerate(groups):
        keys = heads.key_weights[head].T @ context.T
        logits = dataset.queries[group.rows] @ heads.query_weights[head] @ keys
        own[group.rows] = softmax_in_place(logits)
    return own


def _leftover(dataset: Dataset, heads: SharedHeads) -> csr_array:
    """Attention minus its saturated limit, where that is not nothing: sparse (T, H n)."""
    context = dataset.contexts_of(slice(None))[0]
    examples, columns = heads.leftover_examples, heads.leftover_heads
    size = len(context)
    values = np.empty((len(examples), size))
    step = max(1, CHUNK_BYTES // (8 * heads.query_weights[0].size))
    for start in range(0, len(examples), step):
        part = slice(start, start + step)
        queries = dataset.queries[examples[part], np.newaxis]
        inner = np.matmul(queries, heads.query_weights[columns[part]])
        keys = np.matmul(inner, heads.key_weights[columns[part]].transpose(0, 2, 1))
        values[part] = softmax_in_place(keys[:, 0] @ context.T)
    top, bottom = heads.extreme
    token = np.where(heads.to_top[examples, columns], top, bottom)
    values[np.arange(len(token)), token] -= 1.0
    index = columns[:, np.newaxis] * size + np.arange(size)
    return csr_array(
        (values.ravel(), (np.repeat(examples, size), index.ravel())),
        shape=(len(heads.to_top), heads.to_top.shape[1] * size),
    )


def _blocks(right: Array, each: _Eliminated) -> Array:
    return right[each.rows].reshape(*each.inverse.shape[::2], right.shape[1])


def _interior(size: int, extreme: tuple[int, int]) -> Integers:
    return np.setdiff1d(np.arange(size), extreme)


def _owner(groups: tuple[Group, ...]) -> Integers:
    return np.repeat(np.arange(len(groups)), [group.size for group in groups])


def _chunks(total: int, columns: int) -> list[slice]:
    step = max(1, CHUNK_BYTES // (8 * columns))
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]
