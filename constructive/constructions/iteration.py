"""Solve Z U = Y where most of Z is understood, and a few entries are not.

A `System` knows a structured part of Z that it can solve with, and applies Z with all its entries,
without ever forming it. GMRES solves Z R y = Y for y, with R the structured solve; then U = R y.
Where the structured part is all of Z one step is enough, and it refines the solution.
"""

from typing import Generic, Protocol, TypeVar

import numpy as np

from constructive.support.arrays import Array
from constructive.support.errors import PrecisionError

_TOLERANCE = 1e-14
_RESTART, _ROUNDS = 40, 3

Unknown = TypeVar("Unknown")


class System(Protocol, Generic[Unknown]):
    """Equations for readouts, whatever form these take."""

    def solve(self, right: Array) -> Unknown:
        """Return R y for right-hand sides y (T, d_out)."""

    def apply(self, unknown: Unknown) -> Array:
        """Return Z U for U in the form that `solve` returns: (T, d_out)."""


def scales(targets: Array) -> Array:
    """Return powers of two (d_out,) that bring targets to size one: norms stay in range."""
    exponents = np.frexp(np.abs(targets).max(axis=0))[1]
    powers: Array = np.ldexp(1.0, exponents)
    return powers


def iterate(system: System[Unknown], targets: Array) -> tuple[Unknown, Array]:
    """Return U and the residual Y - Z U (T, d_out), not finite where the system is singular."""
    from scipy.sparse.linalg import LinearOperator, gmres  # noqa: PLC0415 - long to import

    shape = targets.shape

    def product(flat: Array) -> Array:
        return system.apply(system.solve(flat.reshape(shape))).ravel()

    operator = LinearOperator((targets.size, targets.size), matvec=product, dtype=np.float64)
    with np.errstate(all="ignore"):  # a singular block shows in the residual
        flat, _ = gmres(
            operator, targets.ravel(), rtol=_TOLERANCE, restart=_RESTART, maxiter=_ROUNDS
        )
        unknown = system.solve(flat.reshape(shape))
        return unknown, targets - system.apply(unknown)


def require_solved(residual: Array, condition: float, what: str) -> None:
    """Raise PrecisionError for a residual that is not finite; `what` may be singular then."""
    if not np.isfinite(residual).all():
        raise PrecisionError(
            f"{what} is singular, or numbers are too far apart for float64 "
            f"(condition number about {condition:.0e})",
            witness=condition,
            suggestion="another seed=, more heads, data of one scale, or construction='saturated'",
        )
