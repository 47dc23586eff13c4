"""How hard an instance is: what searches find, which bounds suffice, and a time limit.

For *sat* see `Hardness`. For *unsat* the gap is between the maximum that is proved and the best
point that is known, and `bound` the first of these that proves the answer: the interval form, with
weighted means of each head on the whole box (affine in the logits) where it fails, or neither, so
that the box has to be split.
"""

import math
from collections.abc import Callable

import numpy as np

from constructive.instances.instance import Answer, Instance
from constructive.instances.network import Network
from constructive.instances.properties import Property
from constructive.instances.refutations import refute
from constructive.support.arrays import Array

_ENOUGH = 2000  # Evaluations of the search for the best point
_FAR = 1e-9  # By which a bound has to be below the threshold, more than float64 rounds
_TOLERANCE = 1e-4  # Of weighted means
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
    slack = max(
        search(heads, wanted, method, budget=_ENOUGH, enough=math.inf)[1] for method in STEPS
    )
    for point in instance.near:
        slack = max(slack, float(wanted.least_slack(heads(point[np.newaxis]))[0]))
    if refute(heads, wanted, _FAR):
        bound = "interval"
    else:
        bound = "linear" if refute(heads, wanted, _FAR, tolerance=_TOLERANCE) else "none"
    return max(-slack - instance.margin, 0.0), bound


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
    network, wanted, _ = network.reduced(wanted)
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
