"""Instances about a memorized example: the query varies around that of the example.

The network is the layer of a memorizer with the context of one example, rounded to float32. What is
bad is that its output leaves the target. An *unsat* instance has the largest box that was proved, a
*sat* instance a larger one in which a search found a witness. Between them nothing is known, and
nothing is made.

Boxes have float32 bounds: the one of a radius r is the least such box that contains all points
within r of x in each entry. Radii are float32 numbers, found by bisection of their bit patterns,
which are in the order of the numbers.

Scorers accept witnesses that are up to 1e-4 outside of the box. So the bound is also proved with a
margin of 1e-3 on the box that is wider by 1e-4 on every side.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.instances.instance import (
    Answer,
    Family,
    Instance,
    Names,
    Option,
    Refutations,
    Twins,
    Witness,
)
from constructive.instances.network import Network, Rectified, network_of
from constructive.instances.properties import TOLERANCE, Atom, Box, Linear, Property
from constructive.instances.refutations import needed_margin, refute
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import ConstructiveError, ParameterError, is_integer, shown

Found = TypeVar("Found")
Disjuncts = tuple[tuple[Atom, ...], ...]

CLEARANCE = 1e-3  # The least margin of an answer
# Radii are found up to so many float32 numbers: factors of 1 + 2^-7, and of 1 + 2^-4 by search.
_FINE, _COARSE = 1 << 16, 1 << 19
_OCTAVE = 1 << 23  # As many float32 numbers as there are up to twice a number
_LEAST, _MOST = 1e-6, 64.0  # Radii that are tried
_BUDGET = 3000  # Evaluations of f by a search in one box
_ROOM = 1.25  # Searches end at this multiple of the margin


def outward(lower: Array, upper: Array, step: float) -> Box:
    """Return the least box with float32 bounds that reaches a step beyond bounds (d,) each."""
    far = Fraction(step)
    low = [_float32(Fraction(x) - far, -np.inf) for x in lower.tolist()]
    high = [_float32(Fraction(x) + far, np.inf) for x in upper.tolist()]
    return Box(np.array(low), np.array(high))


def _float32(exact: Fraction, toward: float) -> float:
    """Round to float32 in the direction of an infinity."""
    nearest = np.float32(float(exact))
    passed = Fraction(nearest.item()) >= exact if toward > 0 else Fraction(nearest.item()) <= exact
    return float(nearest if passed else np.nextafter(nearest, np.float32(toward)))


def refuted(network: Network, wanted: Property, *, dual: bool) -> Refutations | None:
    """Prove unsat on a box that is wider by 1e-4, with a margin; None where that fails.

    With dual, weighted means of each head are tried where the interval form fails.
    """
    box = outward(wanted.box.lower, wanted.box.upper, TOLERANCE)
    wide = Property(box, wanted.disjuncts)
    needed = max(CLEARANCE, needed_margin(network, wide, beyond=False))
    if not needed < np.inf:
        return None
    heads, wide = network.reduced(wide)
    parts = refute(heads, wide, needed, tolerance=CLEARANCE / 8 if dual else None)
    return Refutations(parts) if parts else None


def largest_proved(
    network: Network, point: Array, disjuncts: Disjuncts
) -> tuple[Property, Refutations] | None:
    """Find the largest box around x (d,) on which provably no disjunct is met; None without one.

    Weighted means of each head are tried beyond what the interval form proves, up to four times the
    radius.
    """

    def at(radius: float, *, dual: bool) -> tuple[Property, Refutations] | None:
        wanted = Property(outward(point, point, radius), disjuncts)
        proof = refuted(network, wanted, dual=dual)
        return (wanted, proof) if proof else None

    least, most = _bits(_LEAST), _bits(_MOST)
    found, last = _nearest(partial(at, dual=False), at(_LEAST, dual=False), least, most, _FINE)
    high = min(last + 2 * _OCTAVE, most)
    return _nearest(partial(at, dual=True), found, last, high, _COARSE)[0]


def _nearest(
    at: Callable[[float], Found | None], found: Found | None, good: int, bad: int, apart: int
) -> tuple[Found | None, int]:
    """Bisect between a radius where something was found and one where nothing was.

    Radii are the bit patterns of float32 numbers; the last one where something was is returned.
    """
    while found and abs(good - bad) > apart:
        middle = (good + bad) // 2
        better = at(_number(middle))
        good, bad = (middle, bad) if better else (good, middle)
        found = better or found
    return found, good


def nearest_witness(
    network: Network, point: Array, disjuncts: Disjuncts, *, beyond: float, seed: int = 0
) -> tuple[Property, Witness] | None:
    """Search for a witness in boxes around x (d,), and return the least one where there was one.

    A witness is a float32 point. There is none within the radius `beyond`.
    """
    heads, known = network.reduced(Property(outward(point, point, beyond), disjuncts))
    conceivable = max(min(_highest(heads, atom) for atom in atoms) for atoms in known.disjuncts)

    def at(radius: float) -> tuple[Property, Witness] | None:
        wanted = Property(outward(point, point, radius), disjuncts)
        needed = max(CLEARANCE, needed_margin(network, wanted, beyond=False))
        if not needed <= conceivable:
            return None
        for method in ("sign", "adam"):
            best, _ = search(
                network, wanted, method, budget=_BUDGET, seed=seed, enough=_ROOM * needed
            )
            near = np.clip(best.astype(np.float32), wanted.box.lower, wanted.box.upper)
            witness = Witness(tuple(Fraction(x) for x in near.tolist()))
            if wanted.least_slack(network(near[np.newaxis]))[0] >= needed:
                return wanted, witness
        return None

    low, high = beyond, beyond * 2.0
    found = at(high)
    while not found and high <= _MOST:
        low, high = high, high * 2.0
        found = at(high)
    return _nearest(at, found, _bits(high), _bits(low), _COARSE)[0]


def _highest(network: Network, atom: Linear) -> float:
    """About the largest w . f - c that any input could have."""
    tops = [(head.values @ atom.coefficients).max() for head in network.heads]
    return float(sum(tops)) - atom.threshold


def _bits(number: float) -> int:
    """The bit pattern of a positive float32 number, as an integer."""
    return int(np.float32(number).view(np.uint32))


def _number(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def around(
    network: Network, point: Array, disjuncts: Disjuncts, *, seed: int
) -> tuple[tuple[Property, Witness], tuple[Property, Refutations]] | None:
    """Find a box with a witness, and the largest box that is proved; None where one is missing."""
    proved = largest_proved(network, point, disjuncts)
    if proved is None:
        return None
    radius = float(proved[0].box.widths.max()) / 2.0
    found = nearest_witness(network, point, disjuncts, beyond=radius, seed=seed)
    return None if found is None else (found, proved)


# Robustness around a memorized example: outputs stay within epsilon of its target.


def leaves(target: Array, epsilon: float) -> Disjuncts:
    """Return the disjunction that some output is epsilon above its target, or below it.

    Thresholds are rounded to float32.
    """
    unit = np.eye(len(target))
    pairs = [
        (sign * unit[j], float(np.float32(sign * y + epsilon)))
        for j, y in enumerate(target.tolist())
        for sign in (1.0, -1.0)
    ]
    return tuple((Atom(coefficients, threshold),) for coefficients, threshold in pairs)


def robust(
    memorizer: Memorizer,
    data: Dataset,
    *,
    example: int = 0,
    epsilon: float = 0.1,
    name: str = "robust",
    seed: int = 0,
) -> Twins:
    """Make twins around an example of your own memorizer.

    The network is that of the memorizer in float32, with the context of the example. The unsat
    instance says that no query of its box moves an output by epsilon from the target. The sat
    instance has a larger box, and a witness in it.

    Args:
        memorizer: of any construction, with weights in floats
        data: what it memorized
        example: index of the example
        epsilon: how far outputs may be from the target
        name: of the twins
        seed: of the search for a witness

    Raises:
        ParameterError: for an example that is not there, an epsilon that is not positive,
            weights that are not floats, and where no box is proved or no witness is found
        DataError: if the data do not fit the memorizer

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> memorizer = build_memorizer(data, num_heads=3, construction="generic")
        >>> twins = robust(memorizer, data, example=1)
        >>> twins.unsat.answer, twins.sat.answer
        (<Answer.UNSAT: 'unsat'>, <Answer.SAT: 'sat'>)
        >>> bool((twins.unsat.property.box.widths < twins.sat.property.box.widths).all())
        True
    """
    require_examples(data, Dataset)
    if not (is_integer(example) and 0 <= example < data.num_examples):
        raise ParameterError(
            f"there is no example {shown(example)} of {data.num_examples}",
            witness=shown(example),
            suggestion=f"an example from 0 to {data.num_examples - 1}",
        )
    if not (isinstance(epsilon, Real) and epsilon > 0):
        raise ParameterError(
            f"epsilon={shown(epsilon)} is not a positive number",
            witness=shown(epsilon),
            suggestion="epsilon=0.1",
        )
    memorizer.layer.check_fits(data)
    context = data.contexts if data.shared_context else data.contexts[example]
    bad = leaves(np.atleast_1d(np.asarray(data.targets[example], np.float64)), epsilon)
    network, query = network_of(memorizer.layer, context), np.asarray(data.queries[example], "f8")
    found = around(network, query, bad, seed=seed)
    if found is None:
        raise ParameterError(
            f"no box around example {example} was proved that has a witness beyond",
            witness=example,
            suggestion="a larger epsilon, construction='generic', or another example",
        )
    (wanted, witness), (without, refutations) = found
    return Twins(
        Instance(f"{name}_a", network, wanted, Answer.SAT, witness, "robust"),
        Instance(f"{name}_b", network, without, Answer.UNSAT, refutations, "robust"),
    )


# A readout: two outputs, and units of ReLU that add up how far both are from their targets.


TOKENS = Option(4, 2, 64, "tokens of a context; at most dim are taken", whole=True)
HEADS = Option(4, 1, 64, "heads", whole=True)
EPSILON = Option(
    0.25, 0.01, 10.0, "allowed change, in standard deviations of the targets", drawn=(0.1, 1.0)
)
_CONSTRUCTIONS = ("generic", "saturated", "rank_one")
_TRIES = 12
_FEATURES = 2
# Targets are multiples of its inverse, so that thresholds of pieces are exact.
_FINE_TARGETS = 256
_APART = 0.3  # The part of a threshold, at most, by which that of a second instance is another


class Deviation(Family):
    """Boxes around a memorized example, in which two outputs together stay near its targets.

    Data and construction are drawn. Networks that are too steep for a proof in float32 are
    replaced.
    """

    name = "readout"
    purpose = "a ReLU block after attention: the sum of |f_k - y_k|, whose pieces are all proved"
    options = MappingProxyType({"tokens": TOKENS, "heads": HEADS, "epsilon": EPSILON})

    def draw(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance]:
        """Draw data, memorize them, and make instances around the first example.

        Where that fails, other data and another construction are drawn, a dozen times.
        """
        for _ in range(_TRIES):
            made = self._attempt(names, dim, random, options)
            if made:
                return made
        raise ParameterError(
            f"no box around an example of {self.name} was proved that has a witness beyond",
            witness=list(names),
            suggestion="another seed, a larger dim, or more heads",
        )

    def _attempt(
        self, names: Names, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> list[Instance] | None:
        tokens, heads = min(int(options["tokens"]), dim), int(options["heads"])
        count = max(heads * (tokens - 1) + 1, 2)
        drawn = generators.uniform(
            num_examples=count, context_size=tokens, width=dim, seed=int(random.integers(1 << 31))
        )
        half = _FINE_TARGETS // 2
        targets = random.integers(-half, half + 1, (count, _FEATURES)) / _FINE_TARGETS
        data = Dataset(drawn.contexts, drawn.queries, targets)
        construction = str(random.choice(_CONSTRUCTIONS))
        seed = int(random.integers(1 << 31))
        try:
            memorizer = build_memorizer(data, num_heads=heads, construction=construction)
            network = deviation(network_of(memorizer.layer, data.contexts[0]), targets[0])
        except ConstructiveError:  # the data do not meet an assumption, or weights are too large
            return None
        epsilon = float(np.float32(options["epsilon"] * float(np.std(targets))))
        bad = ((Atom(np.ones(1), epsilon),),)
        found = around(network, np.asarray(data.queries[0]), bad, seed=seed)
        if found is None:
            return None
        made: list[Instance] = []
        for name, answer in names.items():
            wanted, proof = found[answer is Answer.UNSAT]
            if any(each.answer is answer for each in made):
                sign = 1.0 if answer is Answer.UNSAT else -1.0
                far = float(np.float32(epsilon * (1.0 + sign * random.uniform(0.0, _APART))))
                wanted = Property(wanted.box, ((Atom(np.ones(1), far),),))
            made.append(Instance(name, network, wanted, answer, proof, self.name))
        return made


def deviation(network: Network, target: Array) -> Rectified:
    """Return the sum of |f_k - y_k|, by units f_k - y_k and y_k - f_k."""
    unit = np.eye(len(target))
    return Rectified(network.heads, np.vstack([unit, -unit]), np.concatenate([-target, target]))


# Searches for a witness: ascent along gradients from random points, in two ways, in float64.
#
# Each search has a budget of evaluations of f, restarts included. All of its starts walk together,
# so numpy evaluates them at once. A search that finds nothing proves nothing.
#
# A new way to step is a function and one line in `STEPS`.


# From gradients (N, d) and the number of the step to directions (N, d), of sizes about one.
Step = Callable[[Array, int], Array]

_STARTS = 1000  # Points that walk together
_WALK = 100  # Of a walk. The first is a tenth of the box long, and each is shorter by this factor.
_FIRST, _SHRINK = 0.1, 0.955
_NOTHING = 1e-300


def _signs() -> Step:
    return lambda gradient, _: np.sign(gradient)


def _adam() -> Step:
    first: Array = np.zeros(())
    second: Array = np.zeros(())

    def step(gradient: Array, number: int) -> Array:
        nonlocal first, second
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient * gradient
        mean = first / (1.0 - 0.9 ** (number + 1))
        size = np.sqrt(second / (1.0 - 0.99 ** (number + 1)))
        direction: Array = mean / (size + _NOTHING)
        return direction

    return step


# The searches by name. Each walk has a step function of its own.
STEPS: dict[str, Callable[[], Step]] = {"sign": _signs, "adam": _adam}


def search(
    network: Network,
    wanted: Property,
    method: str,
    *,
    budget: int = 20_000,
    seed: int = 0,
    enough: float = 0.0,
) -> tuple[Array, float]:
    """Search for a point of the box that meets a property, by one of `STEPS`.

    The budget is of evaluations of f. The search ends at the slack `enough`; infinity is for the
    best point of the budget. Return the best point x (d,), and how far its outputs are inside of
    the best disjunct, as float64 evaluates them; negative if outside.
    """
    network, wanted = network.reduced(wanted)
    rng = np.random.default_rng(seed)
    box, ascent = wanted.box, _Ascent(network, wanted)
    best, slack, used = box.lower, -math.inf, 0
    while used < budget and slack < enough:
        inputs = rng.uniform(box.lower, box.upper, (min(_STARTS, budget - used), len(box.lower)))
        step = STEPS[method]()
        for number in range(_WALK):
            rows = inputs[: budget - used]
            slacks, gradients = ascent(rows)
            used += len(rows)
            top = int(np.argmax(slacks))
            if slacks[top] > slack:
                best, slack = rows[top].copy(), float(slacks[top])
            if used >= budget or slack >= enough:
                break
            moved = _FIRST * _SHRINK**number * box.widths * step(gradients, number)
            inputs = np.clip(inputs + moved, box.lower, box.upper)
    return best, slack


class _Ascent:
    """Slacks of points, and gradients of the atom that each point has to raise.

    Point i raises the disjunct i modulo their number; in it the atom with the least slack.
    """

    def __init__(self, network: Network, wanted: Property) -> None:
        self._wanted = wanted
        self._slopes = np.concatenate([head.slopes for head in network.heads])
        self._offsets = np.concatenate([head.offsets for head in network.heads])
        self._values = np.stack([head.values for head in network.heads])
        self._heads = len(network.heads)

    def __call__(self, inputs: Array) -> tuple[Array, Array]:
        """Return slacks (N,) and gradients (N, d)."""
        logits = (inputs @ self._slopes.T + self._offsets).reshape(len(inputs), self._heads, -1)
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        averages = np.einsum("xhn,hnk->xhk", weights, self._values)
        outputs = averages.sum(axis=1)
        slacks = self._wanted.least_slack(outputs)
        raised = self._raised(outputs)
        values = np.einsum("hnk,xk->xhn", self._values, raised)
        means = np.einsum("xhk,xk->xh", averages, raised)
        pulls = weights * (values - means[:, :, np.newaxis])
        return slacks, pulls.reshape(len(inputs), -1) @ self._slopes

    def _raised(self, outputs: Array) -> Array:
        """Return the coefficients that each point raises: (N, k)."""
        raised = np.empty_like(outputs)
        disjuncts = self._wanted.disjuncts
        for first, atoms in enumerate(disjuncts):
            rows = outputs[first :: len(disjuncts)]
            coefficients = np.stack([atom.coefficients for atom in atoms])
            slacks = rows @ coefficients.T - np.array([atom.threshold for atom in atoms])
            raised[first :: len(disjuncts)] = coefficients[slacks.argmin(axis=1)]
        return raised
