"""How hard an instance is: what searches find, which bounds suffice, and a time limit.

For *sat* see `Hardness`. For *unsat* the gap is between the maximum that is proved and the best
point that is known, and `bound` the first of these that proves the answer: the interval form,
weighted means of each head on the whole box (affine in the logits), or neither, so that the box has
to be split.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from constructive.instances.instance import Answer, Instance
from constructive.instances.network import Network
from constructive.instances.properties import Property
from constructive.instances.refutations import attention_ranges, refute_by_heads
from constructive.support.arrays import Array, Rebuilt
from constructive.support.errors import ParameterError, shown

_ENOUGH = 2000  # Evaluations of the search for the best point
_FAR = 1e-9  # By which a bound has to be below the threshold, more than float64 rounds
_MOST_TRIED = 1 << 26  # Entries of slopes, times tokens, of a head whose bounds are tried


def difficulty(instance: Instance) -> tuple[float | None, str]:
    """Return the gap of an unsat, and the first bound that proves it: interval, linear or none.

    None and "" for sat, and where nothing was tried.
    """
    if instance.answer is Answer.SAT:
        return None, ""
    heads, wanted, _ = instance.network.reduced(instance.property)
    if heads.num_tokens**2 * heads.input_dim * len(heads.heads) > _MOST_TRIED:
        return None, ""
    attempts = [
        search(heads, wanted, method, budget=_ENOUGH, enough=math.inf)
        for method in ("sign", "adam")
    ]
    slack = max(attempt.slack for attempt in attempts)
    for point in instance.near:
        slack = max(slack, float(wanted.least_slack(heads(point[np.newaxis]))[0]))
    return max(-slack - instance.margin, 0.0), _bound(heads, wanted)


def _bound(heads: Network, wanted: Property) -> str:
    """The name of the first bound that proves that no disjunct is met."""
    ranges = attention_ranges(heads, wanted.box)

    def interval(index: int, number: int) -> bool:
        atom = wanted.disjuncts[number][index]
        return atom.threshold - ranges.upper_bound(atom.coefficients) > _FAR

    def linear(index: int, number: int) -> bool:
        atoms = wanted.disjuncts[number]
        slabs = refute_by_heads(heads, wanted.box, atoms, tolerance=1e-4, index=index)
        return slabs.margin(heads, wanted.box, atoms[index]) > _FAR

    for name, proves in (("interval", interval), ("linear", linear)):
        if all(
            any(proves(index, number) for index in range(len(atoms)))
            for number, atoms in enumerate(wanted.disjuncts)
        ):
            return name
    return "none"


# Searches for a witness: random points, and ascent along gradients in two ways, in float64.
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


# The searches by name. Each walk has a step function of its own; random points do not walk.
STEPS: dict[str, Callable[[], Step] | None] = {"random": None, "sign": _signs, "adam": _adam}


@dataclass(frozen=True, eq=False)
class Attempt(Rebuilt):
    """The best point that a search has seen."""

    point: Array  # x (d,), in float64
    # how far the outputs at x are inside of the best disjunct, as float64 evaluates them; negative
    # if outside
    slack: float
    evaluations: int  # of f, until a witness was found or the budget was spent


def search(
    network: Network,
    wanted: Property,
    method: str,
    *,
    budget: int = 20_000,
    seed: int = 0,
    enough: float = 0.0,
) -> Attempt:
    """Search for a point of the box that meets a property, by one of `STEPS`.

    The budget is of evaluations of f. The search ends at the slack `enough`; infinity is for the
    best point of the budget.
    """
    if method not in STEPS or budget < 1:
        raise ParameterError(
            f"there is no search {method!r} with a budget of {budget}",
            witness=shown((method, budget)),
            suggestion=f"one of {', '.join(STEPS)}, and a budget of 1 or more",
        )
    network, wanted, _ = network.reduced(wanted)
    rng = np.random.default_rng(seed)
    box, ascent = wanted.box, _Ascent(network, wanted)
    walk = STEPS[method]
    best, slack, used = box.lower, -math.inf, 0
    while used < budget and slack < enough:
        inputs = rng.uniform(box.lower, box.upper, (min(_STARTS, budget - used), len(box.lower)))
        step = walk() if walk else None
        for number in range(_WALK):
            rows = inputs[: budget - used]
            slacks, gradients = ascent(rows, gradients=step is not None)
            used += len(rows)
            top = int(np.argmax(slacks))
            if slacks[top] > slack:
                best, slack = rows[top].copy(), float(slacks[top])
            if step is None or used >= budget or slack >= enough:
                break
            moved = _FIRST * _SHRINK**number * box.widths * step(gradients, number)
            inputs = np.clip(inputs + moved, box.lower, box.upper)
    return Attempt(best, slack, used)


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

    def __call__(self, inputs: Array, *, gradients: bool) -> tuple[Array, Array]:
        """Return slacks (N,) and gradients (N, d), which are zeros unless wanted."""
        logits = (inputs @ self._slopes.T + self._offsets).reshape(len(inputs), self._heads, -1)
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        averages = np.einsum("xhn,hnk->xhk", weights, self._values)
        outputs = averages.sum(axis=1)
        slacks = self._wanted.least_slack(outputs)
        if not gradients:
            return slacks, np.zeros_like(inputs)
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
