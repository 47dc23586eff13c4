"""Errors of logits: sums, constants, storage, soft cap and bias."""

import math
from dataclasses import dataclass

import numpy as np

from constructive.exact.kernel_model import KernelModel
from constructive.exact.upward import gamma
from constructive.kernels.enclosure.inputs import Inputs
from constructive.kernels.enclosure.rows import Rows, above
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError

OWN = 2.0**-51  # Our roundings of a logit, of a bias and of l - m, relative to the largest of them
OWN_EXP = 2.0**-46  # Our exponentials and tanh: 64 units in the last place, far more than numpy's
_LARGE = 2.0**100  # In place of what is infinite, as a factor


@dataclass(frozen=True, eq=False)
class Logits:
    """Our logits, and how far those of a kernel may be from them."""

    values: Array  # (P, R, T), -inf where hidden
    errors: Array  # (P, R, T) but for what a row has in common
    largest: Array  # (P, R, 1) the largest size that is not hidden
    worst: Array  # (P, R, 1) the largest error


class LogitErrors:
    """How errors of logits follow from inputs and a model."""

    def __init__(self, given: Inputs, model: KernelModel) -> None:
        self._model, self._cap = model, given.softcap
        self._unscaled = max(1.0, 1.0 / given.scale)
        width, keys = given.q.shape[3], given.k.shape[2]
        q, k, v = (float(np.abs(each).max()) for each in (given.q, given.k, given.v))
        entries, values = max(q, k) * max(1.0, given.scale), 2.0 * keys * math.exp(model.lag) * v
        self._require("entries of q and k, scaled,", entries, model.logit_overflow)
        self._require("sums of values", values, model.overflow)
        capped, stored = given.softcap is not None, 1.0 + model.logit_unit
        self.rounded = float(model.gamma(model.constants))
        of_sum, self._of_logit = self._sums(width)
        # Raw, scaled, and two constants; divided by c.
        first = stored ** (2 + capped) * (1.0 + model.entry_unit) ** 2
        first = first * (1.0 + self.rounded * capped) - 1.0
        self._of_sum = min(of_sum * (1.0 + first), _LARGE)
        self._of_logit = min(self._of_logit * (1.0 + first) + first + OWN, _LARGE)
        biased = bool(given.added) or given.sinks is not None
        self.last = stored ** (3 * biased) * (1.0 + self.rounded) * (1.0 + OWN) - 1.0
        tanh = (1.0 + model.tanh_error) * (1.0 + model.unit) ** 6
        self._tanh = tanh * stored**2 * (1.0 + OWN_EXP) - 1.0
        lost = 8.0 * (model.smallest + model.stored_tiny * model.stores_logits)
        both = (1.0 + q) * (1.0 + k) * (1.0 + given.scale)
        self.flushed = lost * width * both * (1.0 + (given.softcap or 0.0)) * (1.0 + self.last)

    def _sums(self, width: int) -> tuple[float, float]:
        """Coefficients of S and |l|: gamma_d (S + |l|) / 2 in any order, or gamma_depth S."""
        model = self._model
        order = float(model.sums(width))
        levels = math.inf if model.depth is None else float(model.sums(min(model.depth, width)))
        of_sum, of_logit = (levels, 0.0) if levels <= order / 2.0 else (order / 2.0, order / 2.0)
        return of_sum + (1.0 + min(order, levels)) * model.term_error + gamma(width + 4), of_logit

    def of(self, rows: Rows) -> Logits:
        """Return logits of rows and their errors."""
        hidden = None if rows.visible is None else ~rows.visible
        linear = self._cap is None and not rows.added
        of_sum = self._of_sum * (1.0 + self.last * linear)
        errors = self._errors_of_sums(rows, of_sum)
        with np.errstate(over="ignore", invalid="ignore"):  # where keys are hidden
            values = rows.q @ rows.k.swapaxes(-1, -2)
        sizes = np.abs(values)
        if hidden is not None:
            values[hidden] = sizes[hidden] = errors[hidden] = 0.0
        largest = sizes.max(-1, keepdims=True)
        sums = float(errors.max()) / of_sum * self._unscaled
        self._require("sums of products of q and k", sums, self._model.overflow)
        if linear:
            sizes *= self._of_logit * (1.0 + self.last) + self.last
            errors += sizes
        else:
            errors += self._of_logit * sizes + self.flushed
            self._require_logits(float((sizes + errors).max()))
            if self._cap is not None:
                near = np.maximum(sizes * (1.0 - OWN) - errors, 0.0) / self._cap
                values = self._cap * np.tanh(values / self._cap)
                sizes = np.abs(values)
                errors *= 1.0 - np.tanh(near) ** 2 + OWN_EXP
                errors += self._tanh * sizes
            for bias in rows.added:
                values += bias
                sizes += np.abs(bias)
            errors += self.last * (sizes + errors)
            if hidden is not None:
                values[hidden] = errors[hidden] = 0.0
            largest = np.abs(values).max(-1, keepdims=True)
        worst = errors.max(-1, keepdims=True)
        most = float(((largest + worst) if linear else values + errors).max())
        self._require_logits(most + self.flushed)
        if hidden is not None:
            values[hidden] = -np.inf
        return Logits(values, errors, largest, worst)

    @staticmethod
    def _errors_of_sums(rows: Rows, of_sum: float) -> Array:
        """S times its coefficient."""
        of_q, of_k, _ = rows.exponents
        with np.errstate(over="ignore", invalid="ignore"):
            factor = float(np.ldexp(of_sum, of_q + of_k))
            sizes = np.ldexp(np.abs(rows.q), -of_q)
            return above(sizes, rows.sizes_of_k.swapaxes(-1, -2), factor)

    def _require_logits(self, most: float) -> None:
        name = "logits, raw or scaled,"
        self._require(name, most * self._unscaled, self._model.logit_overflow)

    def _require(self, name: str, reached: float, limit: float) -> None:
        """Refuse inputs for which the model, which has no overflow, says nothing."""
        if not reached < limit:
            raise ParameterError(
                f"{name} may reach {reached:.3g}, where a kernel of the model "
                f"{self._model.name!r} may overflow (beyond {limit:.3g})",
                witness=reached,
                suggestion="smaller inputs; or the model 'flash ...' for a kernel that keeps "
                "logits in float32",
            )
