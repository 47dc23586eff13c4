"""Classification: around a memorized example, no output is above that of its class."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from constructive.data.dataset import Dataset
from constructive.instances.families.family import Option
from constructive.instances.families.memorized import Memorized
from constructive.instances.properties import Atom
from constructive.instances.radii import Disjuncts

CLASSES = Option(4, 2, 64, "classes, which are the outputs", whole=True)


def overtaken(label: int, count: int) -> Disjuncts:
    """Return the disjunction that the output of some other class is at least that of a label.

    Example:
        >>> [atoms[0].coefficients.tolist() for atoms in overtaken(0, 3)]  # Y_1 >= Y_0, Y_2 >= Y_0
        [[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    """
    unit = np.eye(count)
    return tuple((Atom(unit[j] - unit[label], 0.0),) for j in range(count) if j != label)


class Classes(Memorized):
    """Boxes around a memorized example, in which its class stays the largest output."""

    name = "classes"
    purpose = "classification: several outputs, and a disjunction of Y_j >= Y_i"
    options = MappingProxyType({**Memorized.options, "classes": CLASSES})

    def data(
        self, drawn: Dataset, random: np.random.Generator, options: Mapping[str, float]
    ) -> Dataset:
        """Return the contexts and queries with random labels, as one-hot rows."""
        classes = int(options["classes"])
        labels = random.integers(classes, size=drawn.num_examples)
        return Dataset(drawn.contexts, drawn.queries, np.eye(classes)[labels])

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that another class has an output at least as large."""
        return overtaken(int(np.argmax(data.targets[0])), int(options["classes"]))
