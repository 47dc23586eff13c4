"""Tangent heads: heads that may depend on the targets memorize about as many examples as weights.

By Theorem 33 (proofs/24-free-heads.md) it is enough to find weights where every output is zero and
the derivative of the outputs in the weights reaches all of R^T: then for all targets some weights
near them return these, with readouts multiplied by a large *scale* r. At such a zero point heads
fall into groups whose readouts V_h sum to zero: *equal heads* share W_Q and W_K, and heads with
*uniform attention* have W_K = 0. The derivative of output t there is, with the average z and the
covariance C_h of tokens under the attention of head h, ::

    sum_h (C_h V_h) . dK_h (Q_h^T e_t)  +  (K_h^T C_h V_h) . (dQ_h^T e_t)  +  dV . z

So with A_h = rows C_h V_h, B_h = A_h K_h, S_h = rows Q_h^T e_t and averages Z the Gram matrix of
its rows is a sum of products entry by entry, which never takes T times the number of weights: ::

    G = sum_h (A_h A_h^T) * (S_h S_h^T) + (B_h B_h^T) * (e e^T) + Z Z^T

One factorization of G gives the first step and all later ones, at every scale: chord steps
x = G^-1 (Y / r - f), each of which adds one outer product per example to W_K and to W_Q, as an
associative memory does. They contract if r is large enough (Theorem 33); the smallest r is taken
at which they do so quickly, as large readouts amplify rounding. Later steps mend what rounding made
of G^-1, so it is factored in float32 where that is exact enough to contract.

*Labels* of C classes are two numbers per example: class c is the point at the angle 2 pi c / C of a
circle, and a fixed last matrix makes the score of the class whose point is nearest the largest one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from constructive.constructions.construction import Built, Construction, Cost
from constructive.constructions.multihead.assumptions import Survey
from constructive.constructions.multihead.readout import cholesky, largest
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.exact.softmax import FactoredFloats
from constructive.layers.attention import Chunk, View, after_attention, examples
from constructive.layers.layer import AttentionLayer
from constructive.support.arrays import Array, row_chunks
from constructive.support.errors import CapacityError, PrecisionError, require_memory
from constructive.support.work import in_pieces, report
from constructive.theory.bounds import Plan, heads_in_words
from constructive.theory.free_heads import (
    Dimensions,
    ZeroPoint,
    draw_zero_point,
    factors_at,
    heads_at_load,
    measured_examples,
    most_examples,
    zero_point,
)

# The heads and their derivative.


class HeadWeights(NamedTuple):
    """Weights of heads, or a direction in which they move; readouts in units of the scale."""

    query: Array  # W_Q (H, d, d_h)
    key: Array  # W_K (H, d, d_h)
    readout: Array  # V (H, d, m)

    def moved(self, step: "HeadWeights") -> "HeadWeights":
        """Return the weights after a step."""
        return HeadWeights(*(one + two for one, two in zip(self, step, strict=True)))


@dataclass(frozen=True, eq=False)
class Heads:
    """What the heads attend to, and which of them are a group.

    Weights are those for data whose tokens (within contexts) and queries deviate alike in all
    directions, so that all directions of the derivative count alike, and G is well conditioned.
    """

    view: View
    groups: tuple[slice, ...]
    token_basis: Array  # (d, d), from such tokens to tokens as they are
    query_basis: Array  # (d, d)

    @classmethod
    def of(cls, dataset: Dataset, groups: tuple[slice, ...]) -> "Heads":
        """Return heads in such groups on the examples of a dataset."""
        view = examples(dataset.contexts, dataset.queries)
        tokens = _centred(view.tokens[:_SAMPLE]).reshape(-1, dataset.width)
        return cls(view, groups, _whitening(tokens), _whitening(view.queries))

    def raw(self, weights: HeadWeights) -> HeadWeights:
        """Return weights for the data as they are."""
        return HeadWeights(
            np.matmul(self.query_basis, weights.query),
            np.matmul(self.token_basis, weights.key),
            np.matmul(self.token_basis, weights.readout),
        )

    def outputs(self, weights: HeadWeights) -> Array:
        """Return the outputs, in units of the scale: (T, m)."""
        found = np.empty((len(self.view.queries), weights.readout.shape[2]))
        raw = self.raw(weights)

        def store(chunk: Chunk[Array]) -> None:
            found[chunk.rows] = np.einsum("bhd,hdm->bm", chunk.representation, raw.readout)

        self._attend(raw, store)
        return found

    def tangent(self, weights: HeadWeights) -> "Tangent":
        """Return the derivative of all outputs at some weights."""
        heads, width, entries = weights.readout.shape
        total, raw = len(self.view.queries), self.raw(weights)
        covariances = np.empty((heads, total, entries, width))
        averages = np.zeros((len(self.groups), total, width))
        side_by_side = raw.readout.transpose(1, 0, 2).reshape(width, -1)

        def store(chunk: Chunk[Array]) -> None:
            tokens, z = self.view.tokens[chunk.block.groups], chunk.representation
            values = (tokens @ side_by_side).reshape(*tokens.shape[:2], heads, entries)
            centred = (
                values.transpose(0, 2, 3, 1)
                - np.matmul(z[:, :, np.newaxis], raw.readout)[:, :, 0, :, np.newaxis]
            )
            centred *= chunk.attention[:, :, np.newaxis]
            rows = centred.reshape(len(z), heads * entries, -1) @ tokens @ self.token_basis
            each = rows.reshape(-1, heads, entries, width)
            covariances[:, chunk.rows] = each.transpose(1, 0, 2, 3)
            for index, group in enumerate(self.groups):
                averages[index, chunk.rows] = z[:, group].mean(axis=1) @ self.token_basis

        self._attend(raw, store)
        of_outputs: Array = covariances.reshape(heads, -1, width)
        return Tangent(
            of_outputs,
            np.matmul(of_outputs, weights.key),
            np.matmul(self.view.queries, raw.query),
            averages,
            self.view.queries @ self.query_basis,
            self.groups,
        )

    def largest_logit(self, weights: HeadWeights, step: HeadWeights) -> float:
        """Return the largest change of a difference of logits, to first order in a step."""
        at, by = self.raw(weights), self.raw(step)
        worst = 0.0
        for rows in row_chunks(len(self.view.queries), 1, 1024):
            queries = self.view.queries[rows]
            tokens = self.view.tokens[slice(0, 1) if self.view.is_shared else rows]
            for head in range(len(at.key)):
                keys = (queries @ at.query[head]) @ by.key[head].T
                keys += (queries @ by.query[head]) @ at.key[head].T
                logits = tokens @ keys[:, :, np.newaxis]
                worst = max(worst, float(np.ptp(logits, axis=1).max()))
        return worst

    def _attend(self, raw: HeadWeights, store: Callable[[Chunk[Array]], None]) -> None:
        floats, weights = FactoredFloats(np.dtype(float)), (raw.query, raw.key)
        for _ in after_attention(store, floats, weights, self.view):
            pass


_SAMPLE = 1 << 14  # Contexts whose tokens are looked at
_FLAT = 1e-6  # Relative deviation below which a direction is taken as it is


def _centred(tokens: Array) -> Array:
    """Return tokens less the mean of their context: zero where they agree, and not its rounding."""
    centred: Array = tokens - tokens.mean(axis=1, keepdims=True)
    centred *= np.ptp(tokens, axis=1, keepdims=True) > 0.0
    return centred


def _whitening(rows: Array) -> Array:
    """Return the matrix after which rows have a mean square of one in all directions."""
    squares, directions = np.linalg.eigh(rows.T.astype(float) @ rows / len(rows))
    sizes = np.sqrt(np.maximum(squares, 0.0))
    sizes[sizes <= _FLAT * sizes[-1]] = sizes[-1] or 1.0
    basis: Array = (directions / sizes) @ directions.T
    return basis


_ROWS = 256  # Rows of the Gram matrix that one piece computes


@dataclass(frozen=True, eq=False)
class Tangent:
    """The derivative J of the T m outputs in the weights, at some weights.

    The readouts of a group move together, as at a zero point differences among them add nothing.
    """

    covariances: Array  # A (H, T m, d)
    keyed: Array  # B (H, T m, d_h)
    asked: Array  # S (H, T, d_h)
    averages: Array  # Z of each group (groups, T, d)
    queries: Array  # e (T, d)
    groups: tuple[slice, ...]

    def pull(self, x: Array) -> HeadWeights:
        """Return J^T x, the step that moves outputs along x (T, m)."""
        heads, _, width = self.covariances.shape
        entries = x.shape[1]

        def part(rows: slice) -> HeadWeights:
            some = slice(rows.start * entries, rows.stop * entries)
            shape = heads, len(x[rows]), entries
            each = x[rows].reshape(1, -1, 1)
            keys = (self.covariances[:, some] * each).reshape(*shape, width).sum(axis=2)
            asked = (self.keyed[:, some] * each).reshape(*shape, -1).sum(axis=2)
            common = np.matmul(self.averages[:, rows].transpose(0, 2, 1), x[rows])
            readout = np.empty((heads, width, entries), x.dtype)
            for group, found in zip(self.groups, common, strict=True):
                readout[group] = found / (group.stop - group.start)
            return HeadWeights(
                np.matmul(self.queries[rows].T, asked),
                np.matmul(keys.transpose(0, 2, 1), self.asked[:, rows]),
                readout,
            )

        parts = in_pieces(part, row_chunks(len(x), 1, 4 * _ROWS), self._operations)
        total = next(parts)
        for found in parts:
            total = total.moved(found)
        return total

    @property
    def _operations(self) -> float:
        operations: int = self.covariances.size * self.asked.shape[2]
        return float(operations)

    def gram(self, kind: type[np.floating]) -> Array:
        """Return G = J J^T (T m, T m), in this kind of floats."""
        rows, entries = self.covariances.shape[1], self.covariances.shape[1] // len(self.queries)
        factors = [(np.concatenate(self.keyed, axis=1), self.queries)]
        same: dict[bytes, list[int]] = {}  # heads of one W_Q have one product of S
        for head, asked in enumerate(self.asked):
            same.setdefault(asked.tobytes(), []).append(head)
        for some in same.values():
            left = np.concatenate(self.covariances[some], axis=1)
            factors.append((left, self.asked[some[0]]))
        factors = [
            (left.astype(kind), np.repeat(right, entries, axis=0).astype(kind))
            for left, right in factors
        ]
        averages = np.concatenate(self.averages, axis=1).astype(kind)
        out = np.empty((rows, rows), kind)

        def fill(pair: tuple[slice, slice]) -> None:
            first, second = pair
            found = np.zeros((first.stop - first.start, second.stop - second.start), kind)
            for left, right in factors:
                product = left[first] @ left[second].T
                product *= right[first] @ right[second].T
                found += product
            one, two = (slice(part.start // entries, part.stop // entries) for part in pair)
            product = averages[one] @ averages[two].T
            for entry in range(entries):  # readouts of one output move that output alone
                found[entry::entries, entry::entries] += product
            out[first, second] = found
            out[second, first] = found.T

        step = entries * max(1, _ROWS // entries)
        pairs = [
            (slice(top, min(top + step, rows)), slice(left, min(left + 4 * step, rows)))
            for top in range(0, rows, step)
            for left in range(top, rows, 4 * step)
        ]
        for _ in in_pieces(fill, pairs, self._operations * rows):
            pass
        return out


# The solution of G x = y.


# The least reciprocal condition number of G for float32, where a step leaves 1e-8 of its inverse of
# the error or less, as was measured; nonlinear outputs leave more.
_ENOUGH = 1e-7


@dataclass(frozen=True, eq=False)
class Solver:
    """A factor of G, with which G x = y is solved but for rounding."""

    factor: Array  # (T m, T m)
    reciprocal: float  # an estimate of 1 / the condition number of G

    @classmethod
    def of(cls, tangent: Tangent) -> "Solver | None":
        """Factor G in float32, or in float64 where that is too short; None where that is, too."""
        found = cls._in(tangent, np.float32)
        if found is not None and found.reciprocal > _ENOUGH:
            return found
        del found  # of as many bytes as half of the next one
        return cls._in(tangent, np.float64)

    @classmethod
    def _in(cls, tangent: Tangent, kind: type[np.floating]) -> "Solver | None":
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no factor
            gram = tangent.gram(kind)
            norm, estimate = lapack.get_lapack_funcs(("lange", "pocon"), (gram,))
            size = norm("1", gram.T)
            factor = cholesky(gram)
        if factor is None:
            return None
        reciprocal = float(estimate(factor, size, uplo="L")[0])
        return cls(factor, reciprocal) if reciprocal >= 0.0 else None  # it may not be a number

    @property
    def condition(self) -> float:
        """An estimate of the condition number of J."""
        return float(f"{self.reciprocal**-0.5:.6g}") if self.reciprocal > 0 else math.inf

    def solve(self, y: Array) -> Array:
        """Return x (T, m) from y (T, m)."""
        size = float(np.abs(y).max()) or 1.0  # which float32 may not have
        potrs = lapack.get_lapack_funcs("potrs", (self.factor,))
        x: Array = potrs(self.factor, (y / size).reshape(-1, 1), lower=1)[0]
        return x.astype(float).reshape(y.shape) * size


# Chord steps from a zero point.


def drawn(
    heads: Heads, point: ZeroPoint, head_dim: int, entries: int, rng: np.random.Generator
) -> HeadWeights:
    """Draw a zero point where logits and values deviate by about one within contexts."""
    width, count = heads.view.queries.shape[1], heads.groups[-1].stop
    inner = min(head_dim, width)
    spare = (0, 0), (0, 0), (0, head_dim - inner)  # of W_Q and W_K with d_h > d
    query, key = (
        np.pad(np.linalg.qr(rng.standard_normal((count, width, inner)))[0], spare) for _ in range(2)
    )
    readout = rng.standard_normal((count, width, entries))
    some = rng.permutation(len(heads.view.queries))[:_ROWS]
    queries = heads.view.queries[some] @ heads.query_basis
    tokens = heads.view.tokens[:1] if heads.view.is_shared else heads.view.tokens[some]
    tokens = _centred(tokens) @ heads.token_basis
    query /= _deviation(np.matmul(queries, query))
    for index, group in enumerate(heads.groups):
        readout[group] -= readout[group].mean(axis=0)
        if point.uniform and not index:
            key[group] = 0.0
            continue
        query[group], key[group] = query[group.start], key[group.start]
        asked = (queries @ query[group.start]) @ key[group.start].T
        key[group] /= _deviation(tokens @ asked[:, :, np.newaxis])
    readout /= _deviation(np.matmul(tokens[:, np.newaxis], readout))
    return HeadWeights(query, key, readout)


def _deviation(numbers: Array) -> float:
    """Return the root of the mean square, or one if all are zero."""
    return float(np.sqrt(np.square(numbers).mean())) or 1.0


_FIRST = 0.5  # Nats by which the first step moves logits at the first scale
_CONTRACTS = 0.4  # A chord step that leaves more of the error asks for a larger scale
_LARGER = 4.0
_SMALL = 1e-3  # Relative error below which steps have contracted
_MOST_STEPS, _MOST_SCALES = 60, 16


class Solved(NamedTuple):
    """Weights that return the targets, where readouts are multiplied by the scale."""

    weights: HeadWeights
    scale: float
    error: float  # largest |f - y|, as evaluated


def chord(
    heads: Heads, base: HeadWeights, tangent: Tangent, solver: Solver, targets: Array, goal: float
) -> Solved:
    """Return weights at the smallest scale at which chord steps from a zero point contract.

    The error is above the goal where rounding keeps it there, or where no scale was large enough.
    """
    size = float(np.abs(targets).max())
    scale = heads.largest_logit(base, tangent.pull(solver.solve(targets))) / _FIRST or 1.0
    best = Solved(base, scale, math.inf)
    for count in range(_MOST_SCALES):
        report("chord steps", count, _MOST_SCALES)
        weights, left, errors, before = base, targets / scale, [math.inf], best.error
        for _ in range(_MOST_STEPS):
            weights = weights.moved(tangent.pull(solver.solve(left)))
            left = targets / scale - heads.outputs(weights)
            errors.append(scale * float(np.abs(left).max()))
            if errors[-1] < best.error:
                best = Solved(weights, scale, errors[-1])
            if not errors[-1] < _CONTRACTS * errors[-2]:  # or as far as rounding lets it go
                break
        # Where steps were stopped by rounding already, a larger scale makes the error larger.
        if best.error <= goal or _SMALL * size > best.error == before:
            break
        scale *= _LARGER
    return best


# The construction.

_GOAL = 1e-9  # Relative error with which the scale is large enough


def targets_of(dataset: Dataset) -> tuple[Array, Array]:
    """Return what heads are to return (T, m), and the last matrix W_D (m, d_out) after it.

    Numbers as they are; for C classes a point of a circle, or a sign if C = 2.
    """
    count = len(dataset.classes)
    if count < 2:
        return dataset.target_matrix.astype(float), np.eye(dataset.target_dim)
    angles = 2.0 * np.pi * np.arange(count) / count
    points = np.stack([np.cos(angles), np.sin(angles)])[: _entries(dataset)]
    return points.T[dataset.target_matrix.argmax(axis=1)], points


def _entries(shapes: ExampleShapes) -> int:
    """Return m, how many numbers heads return for each example."""
    return min(2, len(shapes.classes) - 1) if len(shapes.classes) > 1 else shapes.target_dim


def _room(shapes: ExampleShapes, num_heads: int, head_dim: int, data: Dimensions) -> int:
    """Return how many examples the construction memorizes; CapacityError for more of them."""
    holds = measured_examples(num_heads, head_dim, data, m=_entries(shapes))
    if holds < shapes.num_examples:
        raise _full(shapes, num_heads, head_dim, data, f"the construction memorizes {holds:,}")
    return holds


def _half(shapes: ExampleShapes) -> int:
    """Return d / 2, the d_h where nobody asks for one: three quarters of what d_h = d gives."""
    return -(-shapes.width // 2)


def fewest(shapes: ExampleShapes, head_dim: int | None) -> tuple[int, str]:
    """Return the fewest heads that the examples fill by four fifths, with d_h = d / 2 by default.

    Raises CapacityError where no number of heads is enough.
    """
    data, inner = Dimensions.of_shapes(shapes), head_dim or _half(shapes)
    found = heads_at_load(shapes.num_examples, inner, data, m=_entries(shapes))
    if found is None:
        raise CapacityError(
            "contexts of one token have the same attention whatever the weights are",
            witness=shapes.context_size,
            suggestion="contexts with n >= 2 tokens",
        )
    return found, " (the examples fill four fifths of what so many free heads memorize)"


def _full(
    shapes: ExampleShapes, num_heads: int, head_dim: int, data: Dimensions, found: str
) -> CapacityError:
    """Say that these heads do not memorize so many examples, and what would."""
    entries, total = _entries(shapes), shapes.num_examples
    most = most_examples(num_heads, head_dim, data, m=entries)
    heads = heads_in_words(num_heads, "tangent")
    message = f"{total:,} examples are too many for {heads} with d_h={head_dim}: {found}"
    if most < total and not shapes.classes:
        message += (
            f"; almost no targets of more than {most:,} such examples are returned by any weights "
            "(Theorem 36)"
        )
    needed = heads_at_load(total, head_dim, data, m=entries)
    wider = heads_at_load(total, shapes.width, data, m=entries)
    ways = [
        f"num_heads={heads} with head_dim={inner}"
        for heads, inner in ((needed, head_dim), (wider, shapes.width))
        if heads is not None and (heads > num_heads or inner > head_dim)
    ]
    if data.differences:
        otherwise = "fewer examples; more heads help where they differ in more"
    else:
        otherwise = "contexts with n >= 2 tokens: softmax over one token is constant"
    suggestion = ", or ".join(ways) or otherwise
    return CapacityError(message, witness=total, suggestion=suggestion)


_FORMULA = "rank where all outputs are zero"


def plan(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Plan:
    """Plan for as many examples as almost all data of these shapes allow."""
    inner = head_dim or _half(shapes)
    holds = _room(shapes, num_heads, inner, Dimensions.of_shapes(shapes))
    return Plan("tangent", num_heads, inner, holds)


def cost(shapes: ExampleShapes, num_heads: int, head_dim: int | None) -> Cost:
    """Estimate the Gram matrix and its factor."""
    rows = float(shapes.num_examples * _entries(shapes))
    each = num_heads * (shapes.width + (head_dim or _half(shapes)))
    return Cost(rows**2 * each + rows**3 / 3, 8.0 * rows * (rows + 2 * each))


def tangent(survey: Survey, num_heads: int, head_dim: int, *, rng: np.random.Generator) -> Built:
    """Draw a zero point, factor the Gram matrix of its derivative, and take chord steps."""
    dataset = survey.dataset
    if survey.repeated is not None:  # which also looks at what weights cannot do
        dataset = dataset.distinct()
    targets, last = targets_of(dataset)
    entries, data = targets.shape[1], Dimensions.of_data(dataset)
    sizes = num_heads, head_dim
    _room(dataset, *sizes, data)  # `plan` knew the shapes, and these data may be special
    point = zero_point(*sizes, data)
    heads = Heads.of(dataset, point.groups)
    base = drawn(heads, point, head_dim, entries, rng)
    report("derivative where all outputs are zero", 0, 1)
    what = f"a matrix of {targets.size:,} x {targets.size:,} numbers"
    require_memory(what, 4 * targets.size**2, "fewer examples")
    derivative = heads.tangent(base)
    solver = Solver.of(derivative)
    if solver is None:
        raise _not_factored(dataset, *sizes, point, rng)
    largest_targets = np.abs(targets).max(axis=0)  # of each output, whose readout has that size
    units = np.where(largest_targets > 0, np.exp2(np.frexp(largest_targets)[1] - 1.0), 0.0)
    found = chord(heads, base, derivative, solver, targets / np.where(units > 0, units, 1.0), _GOAL)
    raw = heads.raw(found.weights)
    values = raw.readout * found.scale * units
    outputs = np.concatenate([np.eye(entries)] * num_heads)
    layer = AttentionLayer(raw.query, raw.key, values, outputs, last)
    found_outputs = layer(dataset.contexts, dataset.queries)
    return Built(
        layer,
        largest(found_outputs - dataset.target_matrix),
        solver.condition,
        (),
        formula=f"{_FORMULA} ({point})",
        scale=found.scale * (float(units.max()) or 1.0),
        labels=_require_labels(found_outputs, dataset, found),
    )


def _not_factored(
    dataset: Dataset, num_heads: int, head_dim: int, point: ZeroPoint, rng: np.random.Generator
) -> CapacityError | PrecisionError:
    """Say why floats do not factor the derivative: its rank modulo a prime, or rounding."""
    entries, data = _entries(dataset), Dimensions.of_data(dataset)
    rows = dataset.num_examples * entries
    exact = draw_zero_point(point, dataset.width, head_dim, entries, rng)
    rank = factors_at(exact, dataset, rng).rank
    if rank < rows:
        why = f"the rank is {rank:,} modulo a prime, and T d_out = {rows:,} is required"
        return _full(dataset, num_heads, head_dim, data, why)
    return PrecisionError(
        "float64 cannot factor the derivative, whose rank is large enough modulo a prime: tokens "
        "or queries are nearly equal, or of very different sizes, or "
        f"heads of d_h={head_dim} hardly tell them apart",
        witness=rank,
        suggestion="a larger head_dim=, more heads, or tokens and queries less their mean",
    )


def _require_labels(outputs: Array, dataset: Dataset, found: Solved) -> bool:
    """Return whether targets are classes. Raises PrecisionError unless outputs have all labels."""
    if len(dataset.classes) < 2:
        return False
    is_label = dataset.target_matrix == 1.0
    others = np.where(is_label, -np.inf, outputs).max(axis=1)
    leads = np.where(is_label, outputs, -np.inf).max(axis=1) - others
    if not leads.min() > 0.0:
        raise PrecisionError(
            f"float64 cannot carry these heads: points of classes are missed by {found.error:.1e}",
            witness=int(np.argmin(leads)),
            suggestion="more heads",
        )
    return True


TANGENT = Construction(
    "tangent", _FORMULA, "Theorem 33", plan, cost, tangent, fewest, free=True, lengths=True
)
