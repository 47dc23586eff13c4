"""Two memorized examples with one context, near queries, and different labels.

The sat instance is the box between both queries: the other one is a witness, and the memorizer
attains 1 there by construction. It is easy: the output interpolates between the examples, so random
points find a violation, too. It tests that a tool finds any witness at all, not that it finds a
hidden one. The unsat instance is the largest box around the first query that was proved.
"""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from constructive.data.dataset import Dataset
from constructive.instances.families.family import Option
from constructive.instances.families.memorized import Memorized, Search
from constructive.instances.network import Network
from constructive.instances.proof import Witness
from constructive.instances.properties import Atom, Property
from constructive.instances.radii import CLEARANCE, Disjuncts, around
from constructive.instances.rounding import property_rounding
from constructive.support.arrays import Array

DISTANCE = Option(0.1, 0.001, 10.0, "largest distance of an entry of the two queries")
_THRESHOLD = 0.875  # Above which the output is that of label 1


class Relabelled(Memorized):
    """Boxes that contain another memorized example, of the other label."""

    name = "relabelled"
    purpose = "an easy sat: another memorized example in the box, of another label"
    options = MappingProxyType({**Memorized.options, "distance": DISTANCE})

    def data(
        self, drawn: Dataset, random: np.random.Generator, options: Mapping[str, float]
    ) -> Dataset:
        """Move the second example next to the first one, and label them 1 and 0."""
        contexts, queries = np.array(drawn.contexts), np.array(drawn.queries, np.float32)
        step = random.uniform(-1.0, 1.0, drawn.width)
        step *= options["distance"] / np.abs(step).max()
        contexts[1], queries[1] = contexts[0], queries[0] + step
        targets = random.uniform(-0.1, 0.1, drawn.num_examples)
        targets[:2] = 0.0, 1.0
        return Dataset(contexts, queries.astype(np.float64), targets)

    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return that the output is near label 1."""
        del data, options
        return ((Atom(np.ones(1), _THRESHOLD),),)

    def search(
        self,
        network: Network,
        point: Array,
        data: Dataset,
        options: Mapping[str, float],
        seed: int,
    ) -> Search:
        """Return the box that reaches the second query, which is a witness by construction."""
        del seed
        radius = float(np.abs(data.queries[1] - point).max())
        wanted = Property(around(point, radius), self.bad(data, options))
        witness = Witness(tuple(Fraction(x) for x in data.queries[1].tolist()))
        needed = max(CLEARANCE, 2.0 * property_rounding(network, wanted))

        def known(beyond: float) -> tuple[Property, Witness] | None:
            shown = radius > beyond and witness.margin(network, wanted) >= needed
            return (wanted, witness) if shown else None

        return known
