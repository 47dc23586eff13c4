"""Families about a memorized example: the query varies around that of the example.

The network is the layer of a memorizer with the context of one example, rounded to float32. What is
bad is that its output leaves what the example asks for. The *unsat* instance has the largest box
that was proved, the *sat* instance a larger one in which a search found a witness. Between them
nothing is known, and nothing is made.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from constructive.constructions.build import build_memorizer
from constructive.data import generators
from constructive.data.dataset import Dataset
from constructive.instances.families.family import Family, Option
from constructive.instances.instance import Answer, Instance, Twins
from constructive.instances.network import Network
from constructive.instances.of_layers import network_of
from constructive.instances.proof import Witness
from constructive.instances.properties import Property
from constructive.instances.radii import Disjuncts, largest_proved, nearest_witness
from constructive.layers.memorizer import Memorizer
from constructive.support.arrays import Array
from constructive.support.errors import ConstructiveError, ParameterError

TOKENS = Option(4, 2, 64, "tokens of a context; at most dim are taken")
HEADS = Option(4, 1, 64, "heads")
DUAL = Option(1, 0, 1, "1: also widen the proved box by weighted means of each head")
CONSTRUCTIONS = ("generic", "saturated", "rank_one")
_TRIES = 12

# From a radius to a box beyond it with a witness, or None.
Search = Callable[[float], tuple[Property, Witness] | None]


def ascent(network: Network, point: Array, bad: Disjuncts, seed: int) -> Search:
    """Return the search by ascent (`nearest_witness`)."""
    return lambda beyond: nearest_witness(network, point, bad, beyond=beyond, seed=seed)


def twins_around(
    network: Network,
    point: Array,
    disjuncts: Disjuncts,
    search: Search,
    *,
    name: str,
    family: str,
    dual: bool = True,
    swapped: bool = False,
) -> Twins | None:
    """Make twins around a point: the largest box that is proved, and a box with a witness.

    `dual` says whether to widen the proved box by weighted means of each head, `swapped` whether
    the instance called NAME_a is the unsat one. Return None where no box is proved, or no witness
    is found.
    """
    proved = largest_proved(network, point, disjuncts, dual=dual)
    if proved is None:
        return None
    found = search(float(proved[0].box.widths.max()) / 2.0)
    if found is None:
        return None
    first, second = ("b", "a") if swapped else ("a", "b")
    return Twins(
        Instance(f"{name}_{first}", network, found[0], Answer.SAT, found[1], family),
        Instance(f"{name}_{second}", network, proved[0], Answer.UNSAT, proved[1], family),
    )


class Memorized(Family):
    """Twins around an example of a data set that is drawn and memorized.

    The construction is drawn, too. Networks that are too steep for a proof in float32 are replaced.
    """

    options = MappingProxyType({"tokens": TOKENS, "heads": HEADS, "dual": DUAL})

    @abstractmethod
    def data(
        self, drawn: Dataset, random: np.random.Generator, options: Mapping[str, float]
    ) -> Dataset:
        """Return what is memorized: contexts and queries as drawn, or like them, and targets."""

    @abstractmethod
    def bad(self, data: Dataset, options: Mapping[str, float]) -> Disjuncts:
        """Return what is bad around the first example."""

    def width(self, dim: int, heads: int) -> int:
        """Return the width of the data for d inputs and so many heads: by default d."""
        del heads
        return dim

    def around(self, memorizer: Memorizer, data: Dataset) -> tuple[Network, Array]:
        """Return the network, and the point of the first example: by default its query.

        Raises ParameterError for numbers beyond float32.
        """
        return network_of(memorizer.layer, data.contexts[0]), np.asarray(data.queries[0])

    def search(
        self,
        network: Network,
        point: Array,
        data: Dataset,
        options: Mapping[str, float],
        seed: int,
    ) -> Search:
        """Return how to find a box with a witness: by default by ascent (`nearest_witness`)."""
        return ascent(network, point, self.bad(data, options), seed)

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
            width=self.width(dim, heads),
            seed=int(random.integers(1 << 31)),
        )
        data = self.data(drawn, random, options)
        construction = str(random.choice(CONSTRUCTIONS))
        swapped, seed = bool(random.integers(2)), int(random.integers(1 << 31))
        try:
            memorizer = build_memorizer(data, num_heads=heads, construction=construction)
            network, point = self.around(memorizer, data)
        except ConstructiveError:  # the data do not meet an assumption, or weights are too large
            return None
        return twins_around(
            network, point, self.bad(data, options),
            self.search(network, point, data, options, seed), name=name, family=self.name,
            dual=bool(options["dual"]), swapped=swapped,
        )  # fmt: skip
