"""Who proves claims about one kind of weights, and what is asked of him."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from types import UnionType
from typing import Any

from constructive.certificates.certificate import Certificate

OPTIONS = "epsilon", "delta", "max_prec", "seed", "model", "executor"
MOST_BITS = 4096
"""Bits after which an undecided claim stays so, if nobody asks for others."""


@dataclass(frozen=True)
class Asked:
    """What `certify` hands on, checked.

    Attributes:
        claims: names, in the order of their registry
        epsilon: the largest error which is allowed, or None for the usual one
        delta: the largest distance to an exact readout, or None for what can be shown
        max_prec: bits after which an undecided claim stays so
        seed: of the primes' points
        model: the name of a model of `exact.models`, or None for the usual one
        executor: where pieces of the work are done, or None for here
    """

    claims: tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    max_prec: int = MOST_BITS
    seed: int = 0
    model: str | None = None
    executor: Executor | None = None


@dataclass(frozen=True)
class Known:
    """The claims which there are about some weights.

    Attributes:
        names: in the order of their registry
        usual: those which are made if nobody asks
        what: how to call them in words
    """

    names: tuple[str, ...]
    usual: tuple[str, ...]
    what: str


@dataclass(frozen=True)
class Prover:
    """Certificates of one kind of weights.

    Attributes:
        data: the kind of data set which such weights have
        known_claims: those which there are about a memorizer
        prove: makes the certificate
        options: which of `OPTIONS` its claims have
    """

    data: type | UnionType
    known_claims: Callable[[Any], Known]
    prove: Callable[[Any, Any, Asked], Certificate]
    options: tuple[str, ...] = OPTIONS
