"""Families about a memorized example: the query varies around that of the example.

The network is the layer of a memorizer with the context of one example, rounded to float32. What is
bad is that its output leaves what the example asks for. The *unsat* instance has the largest box
that was proved, the *sat* instance a larger one in which a search found a witness. Between them
nothing is known, and nothing is made.

Boxes have float32 bounds: the one of a radius r is the least such box that contains all points
within r of x in each entry. Radii are float32 numbers, found by bisection of their bit patterns,
which are in the order of the numbers.

Scorers accept witnesses that are up to 1e-4 outside of the box. So the bound is also proved with a
margin of 1e-3 on the box that is wider by 1e-4 on every side.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import ClassVar, TypeVar

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.data.shapes import require_examples
from constructive.instances.difficulty import search
from constructive.instances.family import Family, Option, names_of_twins
from constructive.instances.instance import Answer, Instance, Refutations, Twins, Witness
from constructive.instances.network import Network, Rectified, network_of, network_of_token
from constructive.instances.properties import TOLERANCE, Atom, Box, Linear, Property
from constructive.instances.refutations import refute
from constructive.instances.rounding import property_rounding
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
    needed = max(CLEARANCE, 2.0 * property_rounding(network, wide))
    if not needed < np.inf:
        return None
    heads, wide, _ = network.reduced(wide)
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

    A witness is a float32 point; balls show that it meets the property with a margin. There is none
    within the radius `beyond`.
    """
    heads, known, _ = network.reduced(Property(outward(point, point, beyond), disjuncts))
    conceivable = max(min(_highest(heads, atom) for atom in atoms) for atoms in known.disjuncts)

    def at(radius: float) -> tuple[Property, Witness] | None:
        wanted = Property(outward(point, point, radius), disjuncts)
        needed = max(CLEARANCE, 2.0 * property_rounding(network, wanted))
        if not needed <= conceivable:
            return None
        for method in ("sign", "adam"):
            best, slack = search(
                network, wanted, method, budget=_BUDGET, seed=seed, enough=_ROOM * needed
            )
            near = np.clip(best.astype(np.float32), wanted.box.lower, wanted.box.upper)
            witness = Witness(tuple(Fraction(x) for x in near.tolist()))
            if slack >= needed and witness.margin(network, wanted) >= needed:
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


TOKENS = Option(4, 2, 64, "tokens of a context; at most dim are taken", whole=True)
HEADS = Option(4, 1, 64, "heads", whole=True)
CONSTRUCTIONS = ("generic", "saturated", "rank_one")
_TRIES = 12


def twins_around(
    network: Network,
    point: Array,
    disjuncts: Disjuncts,
    *,
    names: tuple[str, str],
    family: str,
    seed: int,
) -> Twins | None:
    """Make twins around a point: the largest box that is proved, and a box with a witness.

    The first name is that of the sat instance. Return None where no box is proved, or no witness is
    found.
    """
    proved = largest_proved(network, point, disjuncts)
    if proved is None:
        return None
    without, refutations = proved
    radius = float(without.box.widths.max()) / 2.0
    found = nearest_witness(network, point, disjuncts, beyond=radius, seed=seed)
    if found is None:
        return None
    wanted, witness = found
    near = np.array([float(x) for x in witness.point])
    near = np.clip(near, without.box.lower, without.box.upper)
    return Twins(
        Instance(names[0], network, wanted, Answer.SAT, witness, family),
        Instance(names[1], network, without, Answer.UNSAT, refutations, family, near=(near,)),
    )


class Memorized(Family):
    """Twins around an example of a dataset that is drawn and memorized.

    The construction is drawn, too. Networks that are too steep for a proof in float32 are replaced.
    """

    options = MappingProxyType({"tokens": TOKENS, "heads": HEADS})
    directions: ClassVar[int] = 0  # of tokens that each head takes from the inputs

    @abstractmethod
    def targets(
        self, count: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> Array:
        """Draw what is memorized: a target for each example."""

    @abstractmethod
    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return what is bad around the first example."""

    def around(self, memorizer: Memorizer, data: Dataset) -> tuple[Network, Array]:
        """Return the network, and the point of the first example: by default its query.

        Raises ParameterError for numbers beyond float32.
        """
        return network_of(memorizer.layer, data.contexts[0]), np.asarray(data.queries[0])

    def draw(
        self, name: str, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> tuple[Instance, ...]:
        """Draw data, memorize them, and make twins around the first example.

        Where that fails, other data and another construction are drawn, a dozen times.
        """
        for _ in range(_TRIES):
            twins = self._attempt(name, dim, random, options)
            if twins:
                return twins
        raise ParameterError(
            f"no box around an example of {name} was proved that has a witness beyond",
            witness=name,
            suggestion="another seed, a larger dim, or more heads",
        )

    def _attempt(
        self, name: str, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> Twins | None:
        tokens, heads = min(int(options["tokens"]), dim), int(options["heads"])
        count = max(heads * (tokens - 1) + 1, 2)
        drawn = generators.uniform(
            num_examples=count,
            context_size=tokens,
            width=dim + self.directions * heads,
            seed=int(random.integers(1 << 31)),
        )
        targets = self.targets(count, random, options)
        data = Dataset(drawn.contexts, drawn.queries, targets)
        construction = str(random.choice(CONSTRUCTIONS))
        second, first = names_of_twins(name, random)
        seed = int(random.integers(1 << 31))
        try:
            memorizer = build_memorizer(data, num_heads=heads, construction=construction)
            network, point = self.around(memorizer, data)
        except ConstructiveError:  # the data do not meet an assumption, or weights are too large
            return None
        return twins_around(
            network, point, self.bad(data, options),
            names=(first, second), family=self.name, seed=seed,
        )  # fmt: skip


# Robustness around a memorized example: outputs stay within epsilon of its target.


EPSILON = Option(0.25, 0.01, 10.0, "allowed change, in standard deviations of the targets")


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
    names = f"{name}_a", f"{name}_b"
    twins = twins_around(network, query, bad, names=names, family=Robust.name, seed=seed)
    if twins is None:
        raise ParameterError(
            f"no box around example {example} was proved that has a witness beyond",
            witness=example,
            suggestion="a larger epsilon, construction='generic', or another example",
        )
    return twins


class Robust(Memorized):
    """Boxes around a memorized example, in which the output stays near its target."""

    name = "robust"
    purpose = "the largest proved box around a memorized example, and one beyond"
    options = MappingProxyType({**Memorized.options, "epsilon": EPSILON})

    def targets(
        self, count: int, random: np.random.Generator, _options: Mapping[str, float]
    ) -> Array:
        """Draw one number each."""
        return random.uniform(-0.5, 0.5, count)

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that the output leaves the target by epsilon."""
        epsilon = options["epsilon"] * float(np.std(data.targets))
        return leaves(np.atleast_1d(data.targets[0]), epsilon)


# Classification: around a memorized example, no output is above that of its class.


CLASSES = Option(4, 2, 64, "classes, which are the outputs", whole=True)


def overtaken(label: int, count: int) -> Disjuncts:
    """Return the disjunction that the output of some other class is at least that of a label."""
    unit = np.eye(count)
    return tuple((Atom(unit[j] - unit[label], 0.0),) for j in range(count) if j != label)


class Classes(Memorized):
    """Boxes around a memorized example, in which its class stays the largest output."""

    name = "classes"
    purpose = "classification: several outputs, and a disjunction of Y_j >= Y_i"
    options = MappingProxyType({**Memorized.options, "classes": CLASSES})

    def targets(
        self, count: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> Array:
        """Draw labels, as one-hot rows."""
        classes = int(options["classes"])
        one_hot: Array = np.eye(classes)[random.integers(classes, size=count)]
        return one_hot

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that another class has an output at least as large."""
        return overtaken(int(np.argmax(data.targets[0])), int(options["classes"]))


# One perturbed token: the query is fixed, and one token of the context moves.
#
# It moves along the directions that the values do not read, so that logits vary and values do not.
# In each head one logit varies, and the head is monotone in it; heads share the inputs.


class Token(Robust):
    """Boxes around a token of a memorized example, in which the output stays near its target."""

    name = "token"
    purpose = "one token of a memorized example moves, and the query does not"
    directions = 1

    def around(self, memorizer: Memorizer, data: Dataset) -> tuple[Network, Array]:
        """Return the network of the first token of the first example, and the origin."""
        network = network_of_token(memorizer.layer, data.contexts[0], data.queries[0])
        if network.input_dim != data.width - memorizer.layer.num_heads:
            raise ParameterError(
                "values of two heads read one direction",
                witness=network.input_dim,
                suggestion="other data, or another construction",
            )
        return network, np.zeros(network.input_dim)


# A readout: two outputs, and units of ReLU that add up how far both are from their targets.


_FEATURES = 2
# Targets are multiples of its inverse, so that thresholds of pieces are exact.
_FINE_TARGETS = 256.0


class Deviation(Memorized):
    """Boxes around a memorized example, in which two outputs together stay near its targets."""

    name = "readout"
    purpose = "a ReLU block after attention: the sum of |f_k - y_k|, whose pieces are all proved"
    options = MappingProxyType({**Memorized.options, "epsilon": EPSILON})

    def targets(
        self, count: int, random: np.random.Generator, _options: Mapping[str, float]
    ) -> Array:
        """Draw two numbers of few bits each."""
        half = int(_FINE_TARGETS) // 2
        return random.integers(-half, half + 1, (count, _FEATURES)) / _FINE_TARGETS

    def around(self, memorizer: Memorizer, data: Dataset) -> tuple[Network, Array]:
        """Return the memorizer's network with units f_k - y_k and y_k - f_k, and the query."""
        network, query = super().around(memorizer, data)
        target, unit = np.asarray(data.targets[0]), np.eye(_FEATURES)
        units, biases = np.vstack([unit, -unit]), np.concatenate([-target, target])
        return Rectified(network.heads, units, biases), query

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that the outputs leave their targets by epsilon, in all."""
        epsilon = np.float32(options["epsilon"] * float(np.std(data.targets)))
        return ((Atom(np.ones(1), float(epsilon)),),)
