"""One operation of a program: rounded to nearest, or off by the most that a model allows.

Numbers are float64 arrays that hold numbers of the operations, float32. So the exact result of an
operation on two of them, but for fused ones, needs at most twice as many bits and two more, and
rounding it to float64 first changes nothing (Figueroa 1995). A fused multiply-add may be off by
2^-53 of its result more.

At the *edge* a result is off by u of itself, in a direction that is drawn: more than any machine is
on most numbers, but all that proofs use. As a machine does, it leaves alone what is a number of the
format, and a sum is off by no more than either operand. So bounds have to stand this, too.

Source: Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 2.2.
"""

from dataclasses import dataclass

import numpy as np

from constructive.exact.float_model import FloatModel
from constructive.exact.formats import Format, nearest
from constructive.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine that computes in float32, and the directions of its errors.

    Example:
        >>> from constructive.exact.models import FLOAT32
        >>> machine = Machine(FLOAT32, rng=np.random.default_rng(0))
        >>> float(machine.add(np.array(1.0), np.array(2.0**-25), machine.directions(())))
        1.0
    """

    model: FloatModel  # whose unit, exponentials and storage it has
    rng: np.random.Generator  # of directions that are drawn
    fused: bool = False  # whether a product and its addition are rounded once
    # whether numbers below the smallest normal one are read and written as zeros
    flush: bool = False
    edge: bool = False  # whether every operation is off by the most that the standard model allows
    signs: int = 0  # 1 or -1 where all errors have this direction, 0 where each is drawn
    # how much of the error that the model allows exponentials and logarithms have; 2 for a machine
    # that the model does not allow
    exp_share: float = 1.0

    def directions(self, shape: tuple[int, ...]) -> Array:
        """Draw a direction of errors for each number: 1 or -1."""
        if self.signs:
            return np.full(shape, float(self.signs))
        return self.rng.choice((-1.0, 1.0), shape)

    def load(self, given: Array) -> Array:
        """Round numbers as they are given."""
        given = given.astype(np.float64)
        return self._rounded(given, self.directions(given.shape), np.inf)

    def add(self, a: Array, b: Array, signs: Array) -> Array:
        """Return a + b."""
        return self._rounded(a + b, signs, np.minimum(np.abs(a), np.abs(b)))

    def multiply(self, a: Array, b: Array, signs: Array) -> Array:
        """Return a b, of factors that the model may round first."""
        a, b = self._factor(a), self._factor(b)
        return self._rounded(a * b, signs, np.inf)

    def multiply_add(self, a: Array, b: Array, c: Array, signs: Array) -> Array:
        """Return a b + c, rounded once or twice."""
        if self.fused:
            product = self._factor(a) * self._factor(b)
            return self._rounded(product + c, signs, np.abs(product))
        return self.add(self.multiply(a, b, signs), c, signs)

    def divide(self, a: Array, b: Array, signs: Array) -> Array:
        """Return a / b."""
        return self._rounded(a / b, signs, np.inf)

    def exp(self, x: Array, signs: Array, *, base_two: bool = False) -> Array:
        """Compute exponentials, as wrong as the model allows: 1 at 0, and 0 at minus infinity."""
        exact = np.exp2(x) if base_two else np.exp(x)
        tiny = 2.0 * self.model.smallest
        off = np.where(exact < tiny, tiny, self._relative * exact)
        wrong = self._stepped(np.maximum(exact + signs * self.exp_share * off, 0.0))
        return np.where(np.isneginf(x), 0.0, np.where(x == 0.0, 1.0, wrong))

    def log(self, x: Array, signs: Array, *, base_two: bool = False) -> Array:
        """Compute logarithms, natural or binary ones, as wrong as the model allows."""
        exact = np.log2(x) if base_two else np.log(x)
        off = self._relative * (1.0 + np.abs(exact))
        return self._stepped(exact + signs * self.exp_share * off)

    def store(self, x: Array) -> Array:
        """Round numbers to the storage format; infinite beyond its range."""
        kept: Format = self.model.storage
        if not self.model.stored_unit:
            return x
        inside = np.clip(x, -kept.largest, kept.largest)
        near = nearest(inside, kept)
        near = np.where(np.abs(x) > kept.largest, np.copysign(np.inf, x), near)
        large = np.abs(x) >= kept.smallest
        if self.edge:
            at_edge = x + self.directions(x.shape) * kept.unit * np.abs(x)
            near = np.where(large & (near != x), at_edge, near)
        return near if kept.gradual or not self.flush else np.where(large, near, 0.0)

    def _factor(self, x: Array) -> Array:
        """Round a factor of a product to nearest, where the model says so."""
        return x if self.model.factors is None else nearest(x, self.model.factors)

    @property
    def _relative(self) -> float:
        """The relative error of exponentials, less what rounding adds."""
        return self.model.exp_error - (0.0 if self.edge else self.model.unit)

    def _stepped(self, exact: Array) -> Array:
        """Return numbers of the format, or any at the edge; zeros where that is done."""
        near = exact if self.edge else exact.astype(np.float32).astype(np.float64)
        return np.where(np.abs(near) < self.model.smallest, 0.0, near) if self.flush else near

    def _rounded(self, exact: Array, signs: Array, limit: Array | float) -> Array:
        """Round an exact result, which is off by a limit at most."""
        near: Array = exact.astype(np.float32).astype(np.float64)
        if self.edge:
            size = np.abs(exact)
            off = np.minimum(self.model.unit * size, limit)
            kept = (near == exact) | (size < self.model.smallest)
            near = np.where(kept, near, exact + signs * off)
        if self.flush:
            near = np.where(np.abs(near) < self.model.smallest, 0.0, near)
        return near
