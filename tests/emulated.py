"""Programs that the checker's models describe, drawn and evaluated with emulated rounding.

    machine   one operation: rounded to nearest, or off by the most that the standard model allows
    sums      sums of products, in an order that is drawn
    trees     contractions of arrays with named indices, one tree of them
    softmax   averages with attention weights: blocks, forms of division, parts that are merged
    program   one choice of all that, which evaluates a decoder

Nothing here imports a bound: what comes out is compared with the bounds of the package.
Names of arrays in trees: for logits x, W_K, W_Q and e; for what follows them z, U and O, or a
(attention), x, U and O.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from hypothesis import strategies as st

from constructive import checker
from constructive.exact.formats import FORMATS, TF32, Format, nearest
from constructive.layers.attention import CausalView
from constructive.support.arrays import Array


class Rules(NamedTuple):
    """A model of programs: the numbers of the checker's row, and formats."""

    name: str
    row: Any  # of the checker
    unit: float  # of sums, products and divisions
    exp_error: float
    block: int  # tokens of a block of softmax, at least
    smallest: float  # the smallest normal number of the operations
    storage: Format
    stored_unit: float  # 0 where nothing is rounded
    free: bool  # whether any arrays may be multiplied first
    constants: int
    merged: bool
    factors: Format | None  # to which factors of products are rounded

    @classmethod
    def of(cls, name, row):
        forms = {form.name: form for form in (TF32, *FORMATS.values())}
        factors = forms[row.factors[0]] if row.factors else None
        numbers = row.unit, row.exp, row.block, row.small, forms[row.kept], row.stored
        return cls(name, row, *numbers, row.free, row.constants, row.merged, factors)


MODELS = {name: Rules.of(name, row) for name, row in checker.MODELS.items()}
INTEGER_MODELS = {name: Rules.of(name, row) for name, row in checker.INTEGER_MODELS.items()}

# One operation of a program: rounded to nearest, or off by the most that a model allows.
#
# Numbers are float64 arrays that hold numbers of the operations, float32. So the exact result of
# an operation on two of them, but for fused ones, needs at most twice as many bits and two more,
# and rounding it to float64 first changes nothing (Figueroa 1995). A fused multiply-add may be off
# by 2^-53 of its result more.
#
# At the *edge* a result is off by u of itself, in a direction that is drawn: more than any machine
# is on most numbers, but all that proofs use. As a machine does, it leaves alone what is a number
# of the format, and a sum is off by no more than either operand. So bounds have to stand this,
# too.
#
# Source: Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 2.2.


def readout_parts(readout, form):
    """U, integers in float64, or two parts of it where a format of factors is too short."""
    if form is None or form.holds(readout):
        return (readout,)
    high = 128.0 * np.rint(readout / 128.0)
    return high, readout - high


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine that computes in float32, and the directions of its errors."""

    model: Rules  # whose unit, exponentials and storage it has
    rng: np.random.Generator  # of directions that are drawn
    fused: bool = False  # whether a product and its addition are rounded once
    # whether numbers below the smallest normal one are read and written as zeros
    flush: bool = False
    edge: bool = False  # whether every operation is off by the most that the standard model allows
    signs: int = 0  # 1 or -1 where all errors have this direction, 0 where each is drawn
    # how much of the error that the model allows exponentials and logarithms have; 2 for a machine
    # that the model does not allow
    exp_share: float = 1.0

    def directions(self, shape):
        if self.signs:
            return np.full(shape, float(self.signs))
        return self.rng.choice((-1.0, 1.0), shape)

    def load(self, given):
        given = given.astype(np.float64)
        return self._rounded(given, self.directions(given.shape), np.inf)

    def add(self, a, b, signs):
        return self._rounded(a + b, signs, np.minimum(np.abs(a), np.abs(b)))

    def multiply(self, a, b, signs):
        a, b = self._factor(a), self._factor(b)
        return self._rounded(a * b, signs, np.inf)

    def multiply_add(self, a, b, c, signs):
        """Return a b + c, rounded once or twice."""
        if self.fused:
            product = self._factor(a) * self._factor(b)
            return self._rounded(product + c, signs, np.abs(product))
        return self.add(self.multiply(a, b, signs), c, signs)

    def divide(self, a, b, signs):
        return self._rounded(a / b, signs, np.inf)

    def exp(self, x, signs, *, base_two=False):
        """Compute exponentials, as wrong as the model allows: 1 at 0, and 0 at minus infinity."""
        exact = np.exp2(x) if base_two else np.exp(x)
        tiny = 2.0 * self.model.smallest
        off = np.where(exact < tiny, tiny, self._relative * exact)
        wrong = self._stepped(np.maximum(exact + signs * self.exp_share * off, 0.0))
        return np.where(np.isneginf(x), 0.0, np.where(x == 0.0, 1.0, wrong))

    def log(self, x, signs, *, base_two=False):
        """Compute logarithms, natural or binary ones, as wrong as the model allows."""
        exact = np.log2(x) if base_two else np.log(x)
        off = self._relative * (1.0 + np.abs(exact))
        return self._stepped(exact + signs * self.exp_share * off)

    def store(self, x):
        """Round numbers to the storage format; infinite beyond its range."""
        kept = self.model.storage
        if not self.model.stored_unit:
            return x
        inside = np.clip(x, -kept.largest, kept.largest)
        near = nearest(inside, kept)
        near = np.where(np.abs(x) > kept.largest, np.copysign(np.inf, x), near)
        large = np.abs(x) >= kept.smallest
        if self.edge:
            at_edge = x + self.directions(x.shape) * kept.unit * np.abs(x)
            near = np.where(large & (near != x), at_edge, near)
        return near if kept.gradual or not self.flush else np.where(large, near, 0.0)

    def _factor(self, x):
        """Round a factor of a product to nearest, where the model says so."""
        return x if self.model.factors is None else nearest(x, self.model.factors)

    @property
    def _relative(self):
        """The relative error of exponentials, less what rounding adds."""
        return self.model.exp_error - (0.0 if self.edge else self.model.unit)

    def _stepped(self, exact):
        """Return numbers of the format, or any at the edge; zeros where that is done."""
        near = exact if self.edge else exact.astype(np.float32).astype(np.float64)
        return np.where(np.abs(near) < self.model.smallest, 0.0, near) if self.flush else near

    def _rounded(self, exact, signs, limit):
        """Round an exact result, which is off by a limit at most."""
        near = exact.astype(np.float32).astype(np.float64)
        if self.edge:
            size = np.abs(exact)
            off = np.minimum(self.model.unit * size, limit)
            kept = (near == exact) | (size < self.model.smallest)
            near = np.where(kept, near, exact + signs * off)
        if self.flush:
            near = np.where(np.abs(near) < self.model.smallest, 0.0, near)
        return near


# Sums of products in an order that is drawn, all sums of an array at a time.
#
# The order is the same for all, or follows from the numbers of each: by their sizes, the positive
# ones first, or such that errors add up (each time the term whose addition is rounded most in one
# direction). Any of these is "any order".


# Names of orders: one after the other, as they are or shuffled; trees of halves or of any pairs;
# and sorted, one after the other.
ORDERS = (
    "sequential", "pairwise", "shuffled", "random tree", "descending", "ascending", "positive",
    "adversarial",
)  # fmt: skip


@dataclass(frozen=True)
class Order:
    name: str = "sequential"  # of `ORDERS`
    seed: int = 0  # of what is shuffled


def summed(machine, factors, order, signs=None, start=None):
    """Multiply factors (..., k) entry by entry, and sum the products over the last axis: (...).

    `signs` are directions of errors of each sum (...), by default drawn. `start` are two factors of
    a product that comes first of all, as in sums that are continued.
    """
    factors = list(np.broadcast_arrays(*factors))
    shape = factors[0].shape
    way = machine.directions(shape[:-1]) if signs is None else signs
    way = np.broadcast_to(way, shape[:-1])
    left = factors[0]
    right = np.ones(shape)
    for factor in factors[1:]:
        left, right = _product(machine, left, right, way), factor
    if order.name in {"descending", "ascending", "positive"}:
        terms = left * right
        keys = -terms if order.name == "positive" else np.abs(terms)
        keys = -keys if order.name == "descending" else keys
        at = keys.argsort(axis=-1, kind="stable")
        left, right = (np.take_along_axis(each, at, axis=-1) for each in (left, right))
    elif order.name == "adversarial":
        return _greedy(machine, left, right, way, start)
    elif order.name == "shuffled":
        at = np.random.default_rng(order.seed).permutation(shape[-1])
        left, right = left[..., at], right[..., at]
    total = None if start is None else machine.multiply(*start, way)
    if order.name in {"pairwise", "random tree"}:
        tree = _tree(machine, left, right, way, order)
        if start is None:
            return tree
        return machine.multiply_add(*start, tree, way)
    for k in range(shape[-1]):
        term = left[..., k], right[..., k]
        total = (
            machine.multiply(*term, way)
            if total is None
            else machine.multiply_add(*term, total, way)
        )
    return np.zeros(shape[:-1]) if total is None else total


def _product(machine, left, right, way):
    if (right == 1.0).all():
        return left
    return machine.multiply(left, right, way[..., np.newaxis])


def _tree(machine, left, right, way, order):
    """Add neighbours and then their sums, or any two; a product may be fused with a sum."""

    def value(which):  # a sum, or the product of that number
        if isinstance(which, int):
            return machine.multiply(left[..., which], right[..., which], way)
        return which

    def added(one, other):
        one, other = (one, other) if isinstance(one, int) else (other, one)
        known = value(other)
        if isinstance(one, int):
            return machine.multiply_add(left[..., one], right[..., one], known, way)
        return machine.add(one, known, way)

    rng = np.random.default_rng(order.seed)
    waiting = list(range(left.shape[-1]))
    while len(waiting) > 1:
        if order.name == "pairwise":
            pairs = zip(waiting[0::2], waiting[1::2], strict=False)
            rest = waiting[len(waiting) // 2 * 2 :]
            waiting = [*(added(*pair) for pair in pairs), *rest]
        else:
            one, other = (waiting.pop(int(rng.integers(len(waiting)))) for _ in range(2))
            waiting.append(added(one, other))
    return value(waiting[0])


def _greedy(machine, left, right, way, start):
    """Take the term whose addition is rounded most in the direction of the sum, each time."""
    left, right = left.copy(), right.copy()
    first = machine.multiply(left, right, way[..., np.newaxis])
    total = np.zeros(way.shape) if start is None else machine.multiply(*start, way)
    unused = np.ones(left.shape, dtype=bool)
    for _ in range(left.shape[-1]):
        exact = total[..., np.newaxis] + (left * right if machine.fused else first)
        off = (exact.astype(np.float32) - exact) * way[..., np.newaxis]
        at = np.where(unused, off, -np.inf).argmax(axis=-1)[..., np.newaxis]
        a, b = (np.take_along_axis(each, at, axis=-1)[..., 0] for each in (left, right))
        total = machine.multiply_add(a, b, total, way)
        np.put_along_axis(unused, at, values=False, axis=-1)
    return total


# Contractions of arrays with named indices: trees of them, evaluated with emulated rounding.
#
# A tree is the name of an array, or a tuple of trees, which are multiplied and summed over the
# indices that only they have. Logits of pairwise programs are `(("x", "W_K"), ("W_Q", "e"))` or
# another way to put brackets; `("x", "W_K", "W_Q", "e")` is one flat sum.


ATTENTION = "a"  # The name of attention in trees
Tree: TypeAlias = str | tuple["Tree", ...]


class Labelled(NamedTuple):
    """An array whose axes have names."""

    array: Array  # of as many axes
    indices: str  # a letter for each


def leaves(tree):
    if isinstance(tree, str):
        yield tree
    else:
        for part in tree:
            yield from leaves(part)


def contract(machine, parts, over, order):
    """Multiply arrays, and sum over some indices at once."""
    sizes = {
        index: size
        for part in parts
        for index, size in zip(part.indices, part.array.shape, strict=True)
    }
    kept = "".join(index for index in sizes if index not in over)
    axes = kept + "".join(index for index in sizes if index in over)
    terms = tuple(sizes[index] for index in axes[len(kept) :])
    factors = []
    for part in parts:
        whole = turned(part, axes)
        flat = np.broadcast_to(whole, (*whole.shape[: len(kept)], *terms))
        factors.append(flat.reshape(*whole.shape[: len(kept)], -1))
    return Labelled(summed(machine, factors, order), kept)


def turned(found, wanted):
    """Return an array with its axes in this order; those that are missing have a length of one."""
    there = [index for index in wanted if index in found.indices]
    array = found.array.transpose([found.indices.index(index) for index in there])
    return array[tuple(slice(None) if index in there else np.newaxis for index in wanted)]


@dataclass(frozen=True, eq=False)
class Contractor:
    """How the trees of a program are evaluated."""

    machine: Machine  # which rounds
    order: Order  # of all sums
    apart: str = ""  # indices that are summed afterwards, each alone; others at once
    # what multiplies arrays with attention (of the name "a", whose array are logits), and sums over
    # some indices
    average: "Callable[[Labelled, list[Labelled], str], Labelled] | None" = None

    def evaluate(self, tree, arrays, others):
        """Evaluate a tree; `others` are indices of the result, and of arrays beside the tree."""
        if isinstance(tree, str):
            return arrays[tree]
        parts = []
        for place, part in enumerate(tree):
            beside = (
                name for at, other in enumerate(tree) if at != place for name in leaves(other)
            )
            seen = others + "".join(arrays[name].indices for name in beside)
            parts.append(self.evaluate(part, arrays, seen))
        inside = dict.fromkeys(index for part in parts for index in part.indices)
        over = "".join(index for index in inside if index not in others)
        if self.average is not None and ATTENTION in tree:
            logits = parts.pop(tree.index(ATTENTION))
            return self.average(logits, parts, over)
        return self.reduced(parts, over)

    def reduced(self, parts, over):
        """Multiply arrays, and sum over some indices at once, and over others one by one."""
        later = [index for index in over if index in self.apart]
        if len(later) == len(over):
            later = later[1:]
        at_once = "".join(index for index in over if index not in later)
        result = contract(self.machine, parts, at_once, self.order)
        for index in later:
            result = contract(self.machine, [result], index, self.order)
        return result


# Averages with attention weights, as programs compute them: blocks, divisions, merged parts.
#
# Forms of division::
#
#     before      exp(l - m) / L, then the sum                      whole rows
#     after       the sum, then / L                                 in blocks
#     reciprocal  the sum, then times 1 / L                         in blocks
#     log         exp(l - (m + log L)), then the sum                whole rows
#     parts       parts are divided, and merged with weights exp(lse_s - lse), lse_s = m_s + log L_s
#     ratios      parts are divided, and merged with exp(lse_s - max lse) over their sum


DIVISIONS = "before", "after", "reciprocal"
MERGES = "log", "parts", "ratios"


@dataclass(frozen=True)
class Softmax:
    division: str = "before"  # of `DIVISIONS`, or of `MERGES` where parts are merged
    block: int = 512  # tokens of a block
    first: int = 512  # tokens of the first block, at most as many; so blocks begin anywhere
    part: int = 1  # blocks of a part
    onto: bool = False  # whether terms of a block are added one after the other to what there is
    # whether exponentials are powers of two, and logits were scaled for that
    base_two: bool = False
    # which results are stored in fewer bits: "exponentials" or "weights", and "averages"
    stored: tuple[str, ...] = ()
    # whether denominators sum stored exponentials, rather than those before
    rounded_sum: bool = True
    # how often numerators are stored on the way: 0, or 1 where after each block, which no model
    # allows
    again: int = 0


class _Part(NamedTuple):
    """The numerator (..., k), the denominator and the largest logit (...) of a part."""

    sums: Array
    total: Array
    top: Array


def average(machine, logits, values, form, order):
    """Average values (..., n, k) with the softmax of logits (..., n): (..., k).

    A logit of minus infinity hides its value.
    """
    columns = np.swapaxes(values, -1, -2)  # (..., k, n)
    if form.division in {"before", "log"}:
        weights = attention(machine, logits, form, order)
        result = summed(machine, [weights[..., np.newaxis, :], columns], order)
    else:
        parts = _parts(machine, logits, columns, form, order)
        result = (
            _divided(machine, parts[0], form)
            if form.division in DIVISIONS
            else _merged(machine, parts, form, order)
        )
    return machine.store(result) if "averages" in form.stored else result


def attention(machine, logits, form, order):
    signs = machine.directions(logits.shape)
    top = logits.max(axis=-1)
    apart = _less(machine, logits, top)
    whole = machine.exp(apart, signs, base_two=form.base_two)
    kept = _stored(machine, whole, form, "exponentials")
    total = summed(machine, [kept if form.rounded_sum else whole], order)
    ways = machine.directions(total.shape)
    if form.division == "log":
        lse = _lse(machine, top, total, form)
        return machine.exp(_less(machine, logits, lse), signs, base_two=form.base_two)
    weights = machine.divide(kept, total[..., np.newaxis], ways[..., np.newaxis])
    return _stored(machine, weights, form, "weights")


def _stored(machine, array, form, name):
    return machine.store(array) if name in form.stored else array


def _less(machine, logits, top):
    seen = np.where(np.isneginf(top), 0.0, top)[..., np.newaxis]
    hidden = np.isneginf(logits)
    apart = machine.add(np.where(hidden, 0.0, logits), -seen, machine.directions(logits.shape))
    return np.where(hidden, -np.inf, apart)


def _parts(machine, logits, columns, form, order):
    """Go through blocks, with the largest logit so far."""
    count = logits.shape[-1]
    starts = [0, *range(form.first, count, form.block)]
    merged = form.division in MERGES
    parts = []
    state = None
    shape = np.broadcast_shapes((*logits.shape[:-1], 1), columns.shape[:-1])
    way = machine.directions(shape)
    for number, (start, stop) in enumerate(zip(starts, [*starts[1:], count], strict=True)):
        if merged and number and number % form.part == 0 and state is not None:
            parts.append(state)
            state = None
        state = _block(
            machine, state, logits[..., start:stop], columns[..., start:stop], form, order, way
        )
    return parts if state is None else [*parts, state]


def _block(machine, state, logits, columns, form, order, way):
    top = logits.max(axis=-1)
    top = top if state is None else np.maximum(state.top, top)
    exps = machine.exp(
        _less(machine, logits, top), machine.directions(logits.shape), base_two=form.base_two
    )
    kept = _stored(machine, exps, form, "exponentials")
    counted = kept if form.rounded_sum else exps
    ways = machine.directions(top.shape)
    factors = [kept[..., np.newaxis, :], columns]
    if state is None:
        sums = summed(machine, factors, order, way)
        total = summed(machine, [counted], order, ways)
    else:
        change = _less(machine, state.top[..., np.newaxis], top)[..., 0]
        again = machine.exp(change, machine.directions(change.shape), base_two=form.base_two)
        before, rescaled = (state.sums, again[..., np.newaxis]), (state.total, again)
        if form.onto:
            sums = summed(machine, factors, order, way, before)
            total = summed(machine, [counted], order, ways, rescaled)
        else:
            sums = machine.multiply_add(*before, summed(machine, factors, order, way), way)
            total = machine.multiply_add(*rescaled, summed(machine, [counted], order, ways), ways)
    if form.again:
        sums = machine.store(sums)
    return _Part(sums, total, top)


def _divided(machine, part, form):
    way = machine.directions(part.sums.shape)
    total = np.where(part.total == 0.0, 1.0, part.total)[..., np.newaxis]  # where all is hidden
    if form.division == "reciprocal":
        return machine.multiply(part.sums, machine.divide(np.ones(()), total, -way), way)
    return machine.divide(part.sums, total, way)


def _lse(machine, top, total, form):
    hidden = np.isneginf(top)
    ways = machine.directions(total.shape)
    log = machine.log(np.where(hidden, 1.0, total), ways, base_two=form.base_two)
    return np.where(hidden, -np.inf, machine.add(np.where(hidden, 0.0, top), log, ways))


def _merged(machine, parts, form, order):
    averages = np.stack([_divided(machine, part, form) for part in parts], axis=-1)
    each = np.stack([_lse(machine, part.top, part.total, form) for part in parts], axis=-1)
    top = each.max(axis=-1)
    signs = machine.directions(each.shape)
    weights = machine.exp(_less(machine, each, top), signs, base_two=form.base_two)
    total = summed(machine, [weights], order)
    if form.division == "parts":
        lse = _lse(machine, top, total, form)
        weights = machine.exp(_less(machine, each, lse), signs, base_two=form.base_two)
        return summed(machine, [weights[..., np.newaxis, :], averages], order)
    sums = summed(machine, [weights[..., np.newaxis, :], averages], order)
    return machine.divide(sums, total[..., np.newaxis], machine.directions(sums.shape))


# One program of a decoder.

LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Scale:
    weights: float = 1.0  # what W_Q is multiplied by; 1 for nothing
    # which arrays are multiplied by its inverse: "e", "x" or "logits", or two of them, each by a
    # root of it
    inverse: tuple[str, ...] = ("logits",)


@dataclass(frozen=True)
class Program:
    model: str = "float32, pairwise"  # the name of its model
    logits: Tree = (("x", "W_K"), ("W_Q", "e"))  # the tree of a logit
    outputs: Tree = (("z", "U"), "O")  # the tree of an output
    logit_order: Order = field(default_factory=Order)  # of sums on the way to logits
    average_order: Order = field(default_factory=Order)  # of sums over tokens
    output_order: Order = field(default_factory=Order)  # of all other sums
    apart: str = ""  # indices that are summed alone, after all others: "h" for heads
    form: Softmax = field(default_factory=Softmax)  # blocks and divisions of softmax
    scale: Scale = field(default_factory=Scale)  # constants
    stored: tuple[str, ...] = ()  # what else is stored in fewer bits: "outputs", "logits"
    fused: bool = False  # whether products and additions are rounded together
    flush: bool = False  # whether small numbers become zeros
    # whether each operation is off by the most that is allowed (`Machine`)
    edge: bool = False
    signs: int = 0  # of errors: 1, -1, or 0 where each is drawn
    exp_share: float = 1.0  # how much of the allowed error exponentials have
    seed: int = 0  # of directions that are drawn

    def machine(self):
        model = (MODELS | INTEGER_MODELS)[self.model]
        rng = np.random.default_rng(self.seed)
        return Machine(model, rng, self.fused, self.flush, self.edge, self.signs, self.exp_share)

    def of_decoder(self, layer, unembedding, tokens):
        """Evaluate the logits of all next tokens, at all positions: (S, N, V)."""
        with np.errstate(all="ignore"):
            machine = self.machine()
            w_q, w_k, readout, outputs = (
                machine.load(each) for each in (*layer.tensors.values(), unembedding)
            )
            logits, x = self._logits(machine, CausalView(tokens, layer.window), w_q, w_k)
            made = self._contractor(machine)
            sources = [
                source
                for part in readout_parts(readout, machine.model.factors)
                for source in self._sources(made, logits, x, part, Labelled(outputs, "vo"))
            ]
            if all(len(tree) == 2 and tree[1] == "O" for tree, _ in sources):
                first = self._added(made, [(tree[0], arrays) for tree, arrays in sources], "tio")
                f = Labelled(self._kept(machine, first, "outputs"), "tio")
                sources = [(("f", "O"), {"f": f, "O": Labelled(outputs, "vo")})]
                whole = machine.model._replace(factors=None)  # of this product none is rounded
                made = self._contractor(replace(machine, model=whole))
            return self._kept(machine, self._added(made, sources, "tiv"), "logits")

    def _sources(self, made, logits, x, readout, o):
        """Trees whose results are added, with their arrays: one of z, or of heads and of x."""
        heads, width = logits.array.shape[2], x.array.shape[2]
        own = Labelled(x.array, "tid")
        if "z" in leaves(self.outputs):
            z = turned(made.evaluate(("a", "x"), {"a": logits, "x": x}, "tihd"), "tihd")
            parts = own.array, z.reshape(*own.array.shape[:2], -1)
            whole = Labelled(np.concatenate(parts, axis=2), "tik")
            return [(self.outputs, {"z": whole, "U": Labelled(readout, "ko"), "O": o})]
        by_head = Labelled(readout[width:].reshape(heads, width, -1), "hdo")
        rows = Labelled(readout[:width], "do")
        return [
            (self.outputs, {"a": logits, "x": x, "U": by_head, "O": o}),
            ((("x", "U"), "O"), {"x": own, "U": rows, "O": o}),
        ]

    @staticmethod
    def _added(made, sources, wanted):
        results = [turned(made.evaluate(tree, arrays, wanted), wanted) for tree, arrays in sources]
        total = results[0]
        for result in results[1:]:
            total = made.machine.add(total, result, made.machine.directions(total.shape))
        return total

    def _kept(self, machine, array, name):
        return machine.store(array) if name in self.stored else array

    def _contractor(self, machine):
        """Evaluate all but logits, with averages in the form of this program."""
        made = Contractor(machine, self.output_order, self.apart)

        def averaged(logits, parts, over):
            return self._averaged(made, logits, parts, over)

        return Contractor(machine, self.output_order, self.apart, averaged)

    def _averaged(self, made, logits, parts, over):
        """Contract arrays with attention; over tokens alone first, if that is the form."""
        others = "".join(index for index in over if index != "n")
        alone = "n" in over and set(others) <= set(self.apart)
        joint = len(parts) > 1 or not alone
        if joint:
            weights = attention(made.machine, logits.array, self.form, self.average_order)
            whole = [Labelled(weights, logits.indices), *parts]
            return contract(made.machine, whole, over, self.average_order)
        (values,) = parts
        rest = "".join(index for index in values.indices if index not in logits.indices)
        whole = turned(values, logits.indices + rest)
        flat = whole.reshape(*whole.shape[: len(logits.indices)], -1)
        result = average(made.machine, logits.array, flat, self.form, self.average_order)
        shape = *result.shape[:-1], *whole.shape[len(logits.indices) :]
        averages = Labelled(result.reshape(shape), logits.indices[:-1] + rest)
        return made.reduced([averages], others) if others else averages

    def _logits(self, machine, view, w_q, w_k):
        """Load tokens and queries, and evaluate logits with constants; return them and tokens.

        Logits of hidden tokens are -inf. Indices are t of sequences, i of positions, h of heads and
        n of tokens.
        """
        seen, wanted = machine.load(view.tokens), "tihn"
        x, e = Labelled(seen, "tnd"), Labelled(seen, "tie")
        arrays = {"x": x, "e": e, "W_Q": Labelled(w_q, "hek"), "W_K": Labelled(w_k, "hdk")}
        root = self.scale.weights ** (-1.0 / len(self.scale.inverse))
        factors = dict.fromkeys(self.scale.inverse, root) | {"W_Q": self.scale.weights}
        if self.scale.weights != 1.0:
            for name in arrays.keys() & factors.keys():
                arrays[name] = _times(machine, arrays[name], factors[name])
        made = Contractor(machine, self.logit_order, self.apart)
        found = Labelled(turned(made.evaluate(self.logits, arrays, wanted), wanted), wanted)
        if self.scale.weights != 1.0 and "logits" in factors:
            found = _times(machine, found, factors["logits"])
        if self.form.base_two:
            found = _times(machine, found, LOG2_E)
        shown = np.where(view.hidden[:, np.newaxis], -np.inf, found.array)
        return found._replace(array=shown), x


def _times(machine, array, constant):
    rounded = machine.load(np.array(constant))
    signs = machine.directions(array.array.shape)
    return Labelled(machine.multiply(array.array, rounded, signs), array.indices)


# Draw a program of a model: every choice that its sentence leaves open.
#
# A choice is made by a function that takes one of several options: `programs` has one of
# Hypothesis, and `choices` one of a seed.


Choose: TypeAlias = Callable[[Sequence[Any]], Any]

# Arrays of a logit with their indices, but for those of examples, in the order of pairs.
LOGITS = {"x": "nd", "W_K": "hdk", "W_Q": "hek", "e": "e"}
QUERY_BY_KEY: Tree = (("x", "W_K"), ("W_Q", "e"))  # The tree of a logit of a query and a key
# Trees of the next token's logits: readout of all that a position has, or of heads and itself.
READOUTS: tuple[Tree, ...] = ((("z", "U"), "O"), ((("a", "x"), "U"), "O"))
# The same where any arrays may be multiplied first.
FREE_READOUTS: tuple[Tree, ...] = (
    *READOUTS,
    ("z", ("U", "O")),
    ("z", "U", "O"),
    (("a", "x", "U"), "O"),
    (("a", ("x", "U")), "O"),
    (("a", "x"), ("U", "O")),
    ("a", ("x", ("U", "O"))),
    (("a", "x"), "U", "O"),
    ("a", "x", "U", "O"),
)

_SEEDS = range(1000)
_WIDER = (1, 1, 1, 2)  # Blocks are usually as small as they may be
_CONSTANTS = (1.0, 2.0**0.5, 0.3, 3.7, 64.0)


def choices(seed):
    rng = np.random.default_rng(seed)
    return lambda options: options[int(rng.integers(len(options)))]


def drawn(model, choose):
    """Draw a program of a model, for decoders."""
    free = model.free
    logits = QUERY_BY_KEY
    if model.factors is None:  # else queries and keys come first
        logits = _drawn_tree(tuple(LOGITS), choose, free=free)
    outputs = choose(FREE_READOUTS if free else READOUTS)
    together = choose((True, False))
    apart = "" if together else "h" if not free else choose(("h", "nh", "hdkenvb"))
    division = choose(DIVISIONS + MERGES * model.merged)
    block = model.block * choose(_WIDER)
    base_two = model.constants > 0 and choose((True, False))
    form = Softmax(
        division,
        block,
        choose((1, max(1, block // 2), block)),
        choose((1, 1, 2)),
        choose((True, False)),
        base_two,
        _drawn_stored(model, choose, division),
        choose((True, False)),
    )
    scale = Scale()
    if model.constants:
        scale = Scale(choose(_CONSTANTS), choose((("logits",), ("e",), ("x",), ("e", "x"))))
    return Program(
        model.name,
        logits,
        outputs,
        _order(choose),
        _order(choose),
        _order(choose),
        apart,
        form,
        scale,
        tuple(
            name for name in ("outputs", "logits") if model.stored_unit and choose((True, False))
        ),
        fused=choose((True, False)),
        flush=choose((True, False)),
        edge=choose((True, False)),
        signs=choose((0, 0, 1, -1)),
        seed=choose(_SEEDS),
    )


def _order(choose):
    return Order(choose(ORDERS), choose(_SEEDS))


def _drawn_stored(model, choose, division):
    """Draw which results of softmax are stored in fewer bits."""
    if not model.stored_unit:
        return ()
    kinds = ("exponentials", "weights", "") if division == "before" else ("exponentials", "")
    names = choose(kinds), choose(("averages", ""))
    return tuple(filter(None, names))


def _drawn_tree(names, choose, *, free):
    """Draw a tree: brackets around pairs of neighbours, or groups of any arrays."""
    if not free:
        return choose(tuple(brackets(names)))
    waiting = list(names)
    while len(waiting) > 1:
        size = choose(range(2, len(waiting) + 1))
        group = tuple(waiting.pop(choose(range(len(waiting)))) for _ in range(size))
        waiting.append(group)
    return waiting[0]


def brackets(names):
    """Yield all trees of pairs of neighbours, which share an index."""
    if len(names) == 1:
        yield names[0]
    for at in range(1, len(names)):
        for left in brackets(names[:at]):
            for right in brackets(names[at:]):
                yield left, right


@st.composite
def programs(draw, model="float32, pairwise"):
    return drawn((MODELS | INTEGER_MODELS)[model], lambda options: draw(st.sampled_from(options)))
