"""Families about a memorized example: the query varies around that of the example.

The network is the layer of a memorizer with the context of one example, rounded to float32. What is
bad is that its output leaves what the example asks for. The *unsat* instance has the largest box
that was proved, the *sat* instance a larger one in which a search found a witness. Between them
nothing is known, and nothing is made.
"""

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

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
from constructive.support.arrays import Array
from constructive.support.errors import AssumptionError, ParameterError

TOKENS = Option(4, 2, 64, "tokens of a context; at most dim are taken")
HEADS = Option(4, 1, 64, "heads")
DUAL = Option(1, 0, 1, "1: widen the proved box by weighted means of each head, too")
CONSTRUCTIONS = ("generic", "saturated", "rank_one")


def twins_around(
    network: Network,
    point: Array,
    disjuncts: Disjuncts,
    *,
    name: str,
    family: str,
    dual: bool = True,
    swapped: bool = False,
    seed: int = 0,
    witness: tuple[Property, Witness] | None = None,
) -> Twins | None:
    """Make twins around a point: the largest box that is proved, and a box with a witness.

    Args:
        network: f
        point: x (d,)
        disjuncts: what is bad
        name: of the group
        family: that the instances are from
        dual: whether to widen the proved box by weighted means of each head
        swapped: whether the instance called NAME_a is the unsat one
        seed: of the search for a witness
        witness: with its property, if one is known; by default it is searched for

    Returns:
        twins; None where no box is proved, or no witness is found
    """
    proved = largest_proved(network, point, disjuncts, dual=dual)
    if proved is None:
        return None
    radius = float(proved[0].box.widths.max()) / 2.0
    found = witness or nearest_witness(network, point, disjuncts, beyond=radius, seed=seed)
    if found is None:
        return None
    first, second = ("b", "a") if swapped else ("a", "b")
    return Twins(
        Instance(f"{name}_{first}", network, found[0], Answer.SAT, found[1], family),
        Instance(f"{name}_{second}", network, proved[0], Answer.UNSAT, proved[1], family),
    )


def disjuncts_of(memorizer_outputs: Array) -> Disjuncts:
    """Placeholder."""
    raise NotImplementedError


class Memorized(Family):
    """Twins around an example of a data set that is drawn and memorized.

    The construction is drawn, too. One whose network is too steep for a proof in float32 is
    replaced by the next.
    """

    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {"tokens": TOKENS, "heads": HEADS, "dual": DUAL}
    )

    @abstractmethod
    def targets(self, count: int, random: np.random.Generator) -> Array:
        """Draw what is memorized: (T,) or (T, k).

        Args:
            count: T
            random: of all that is drawn
        """

    @abstractmethod
    def bad(self, data: Dataset, example: int, options: Mapping[str, float]) -> Disjuncts:
        """Return what is bad around an example.

        Args:
            data: what is memorized
            example: its index
            options: of the family
        """

    def draw(
        self, name: str, dim: int, random: np.random.Generator, options: Mapping[str, float]
    ) -> tuple[Instance, ...]:
        """Draw data, memorize them, and make twins around the first example.

        Args:
            name: of the group
            dim: d
            random: of all that is drawn
            options: of the family

        Raises:
            ParameterError: where no construction gives twins
        """
        tokens, heads = min(int(options["tokens"]), dim), int(options["heads"])
        count = max(heads * (tokens - 1) + 1, 2)
        drawn = generators.uniform(
            num_examples=count, context_size=tokens, width=dim, seed=int(random.integers(1 << 31))
        )
        data = Dataset(drawn.contexts, drawn.queries, self.targets(count, random))
        swapped = bool(random.integers(2))
        seed = int(random.integers(1 << 31))
        for construction in random.permutation(CONSTRUCTIONS).tolist():
            try:
                memorizer = build_memorizer(data, num_heads=heads, construction=construction)
            except (AssumptionError, ParameterError):
                continue
            twins = twins_around(
                network_of(memorizer.layer, data.contexts[0]), data.queries[0],
                self.bad(data, 0, options), name=name, family=self.name,
                dual=bool(options["dual"]), swapped=swapped, seed=seed,
            )  # fmt: skip
            if twins:
                return twins
        raise ParameterError(
            f"no box around an example of {name} was proved that has a witness beyond",
            witness=name,
            suggestion="another seed, or more heads",
        )
