"""Instances for verifiers of neural networks, with proved answers.

>>> from constructive import instances
>>> twins = instances.planted(dim=10, scale=64.0, kind="needle", margin=0.05, seed=0)
>>> twins.sat.answer, twins.unsat.answer
(<Answer.SAT: 'sat'>, <Answer.UNSAT: 'unsat'>)
>>> twins.sat.network is twins.unsat.network
True

The imports below are for those who read them; each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from constructive.support.lazy import attach

if TYPE_CHECKING:
    from constructive.instances.family import Family as Family
    from constructive.instances.folder import check as check
    from constructive.instances.folder import save as save
    from constructive.instances.graphs import GRAPHS as GRAPHS
    from constructive.instances.instance import Answer as Answer
    from constructive.instances.instance import Hardness as Hardness
    from constructive.instances.instance import Instance as Instance
    from constructive.instances.instance import Twins as Twins
    from constructive.instances.interval import Interval as Interval
    from constructive.instances.making import FAMILIES as FAMILIES
    from constructive.instances.making import make as make
    from constructive.instances.making import planted as planted
    from constructive.instances.memorized import robust as robust
    from constructive.instances.network import Head as Head
    from constructive.instances.network import Network as Network
    from constructive.instances.proof import Refutations as Refutations
    from constructive.instances.proof import Witness as Witness
    from constructive.instances.properties import Atom as Atom
    from constructive.instances.properties import Box as Box
    from constructive.instances.properties import Property as Property
    from constructive.instances.scoring import Score as Score
    from constructive.instances.scoring import score as score
else:
    __getattr__, _, __all__ = attach(__name__, __file__)

    def __dir__() -> list[str]:
        return __all__
