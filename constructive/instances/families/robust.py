"""Robustness around a memorized example: outputs stay within epsilon of its target."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from constructive.data.dataset import Dataset
from constructive.instances.families.family import Option
from constructive.instances.families.memorized import Memorized, ascent, twins_around
from constructive.instances.instance import Twins
from constructive.instances.of_layers import network_of
from constructive.instances.properties import Atom
from constructive.instances.radii import Disjuncts
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError, shown

EPSILON = Option(0.25, 0.01, 10.0, "allowed change, in standard deviations of the targets")


def leaves(target: Array, epsilon: float) -> Disjuncts:
    """Return the disjunction that some output is epsilon above its target, or below it.

    Thresholds are rounded to float32.

    Example:
        >>> above, below = leaves(np.array([0.5]), 0.25)
        >>> above[0].threshold, below[0].threshold  # Y >= 0.75, and -Y >= -0.25
        (0.75, -0.25)
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
        ParameterError: for an example that is not there, an epsilon that is not positive, weights
            that are not floats, and where no box is proved or no witness is found
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
    if not 0 <= example < data.num_examples or not epsilon > 0:
        raise ParameterError(
            f"there is no example {example} of {data.num_examples}, or epsilon is not positive",
            witness=shown((example, epsilon)),
            suggestion=f"an example from 0 to {data.num_examples - 1}, and epsilon=0.1",
        )
    memorizer.layer.check_fits(data)
    context = data.contexts if data.shared_context else data.contexts[example]
    bad = leaves(np.atleast_1d(np.asarray(data.targets[example], np.float64)), epsilon)
    network, query = network_of(memorizer.layer, context), np.asarray(data.queries[example], "f8")
    search = ascent(network, query, bad, seed)
    twins = twins_around(network, query, bad, search, name=name, family=Robust.name)
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

    def data(
        self, drawn: Dataset, random: np.random.Generator, options: Mapping[str, float]
    ) -> Dataset:
        """Return the contexts and queries with one random number each."""
        del options
        targets = random.uniform(-0.5, 0.5, drawn.num_examples)
        return Dataset(drawn.contexts, drawn.queries, targets)

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that the output leaves the target by epsilon."""
        epsilon = options["epsilon"] * float(np.std(data.targets))
        return leaves(np.atleast_1d(data.targets[0]), epsilon)
