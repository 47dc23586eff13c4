"""Instances for verifiers of neural networks, with proved answers.

>>> from constructive import instances
>>> twins = instances.planted(dim=10, scale=64.0, kind="needle", margin=0.05, seed=0)
>>> twins.sat.answer, twins.unsat.answer
(<Answer.SAT: 'sat'>, <Answer.UNSAT: 'unsat'>)
>>> twins.sat.network is twins.unsat.network
True
"""

from constructive.instances.folder import check, save, save_benchmark
from constructive.instances.instance import (
    Answer,
    Family,
    Instance,
    Refutations,
    Twins,
    Witness,
)
from constructive.instances.making import FAMILIES, make, planted
from constructive.instances.memorized import robust
from constructive.instances.network import Head, Network
from constructive.instances.properties import Atom, Box, Property
from constructive.instances.refutations import Interval
from constructive.instances.scoring import Score, score

__all__ = [
    "FAMILIES",
    "Answer",
    "Atom",
    "Box",
    "Family",
    "Head",
    "Instance",
    "Interval",
    "Network",
    "Property",
    "Refutations",
    "Score",
    "Twins",
    "Witness",
    "check",
    "make",
    "planted",
    "robust",
    "save",
    "save_benchmark",
    "score",
]
