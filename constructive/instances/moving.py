"""The maximum of a head whose token moves in a box: exact, by the edges of a polygon.

Query and other tokens are fixed. If a token moves by z, its logit in a head is l + k . z and its
value v + u . z, so with s = k . z the head is ::

    f(z) = (S + (v + u . z) e^(l + s)) / (Z + e^(l + s)),
    Z = sum of e^(l_j) and S = sum of v_j e^(l_j) over the other tokens.

f rises with u . z. So only the upper boundary of the polygon {(k . z, u . z)} counts: a concave
line of at most d edges. Let w be the value v + u . z there, c = S / Z, and m = dw/ds the slope of
an edge. f' has the sign of ::

    q(s) = w - c + m (1 + e^(l + s) / Z),

which is monotone along the edge, and rises with s just where m > 0. So f is largest at an end of
the edge, or where m < 0 and q = 0, and there f = w + m (Proposition 22.2,
proofs/22-perturbations.md).

Vertices are rational numbers, and the rest is in balls. The maximum over z of a sum of heads is at
most the sum of their maxima.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb

from constructive.exact.directed import upper, working_precision
from constructive.instances.network import float32_numbers
from constructive.instances.proof import exact_ball
from constructive.instances.properties import Box
from constructive.support.arrays import Array, Rebuilt
from constructive.support.errors import ParameterError

_BITS = 128
_HALVINGS = 60


@dataclass(frozen=True)
class _Vertex:
    """A corner of the box, and its place s = k . z and u . z in the plane."""

    corner: tuple[Fraction, ...]
    logit: Fraction
    value: Fraction


@dataclass(frozen=True, eq=False)
class MovingToken(Rebuilt):
    """One head with one output, as a function of how its first token moves.

    Attributes:
        logits: l (n,), that of the token that moves first, where it does not move
        values: v (n,), in the same order
        key: k (d,), by which z changes the first logit
        readout: u (d,), by which z changes the first value

    Raises:
        ParameterError: for shapes that do not fit, entries that are not float32 numbers, and a
            token without others

    Example:
        >>> token = MovingToken([0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0])
        >>> bound, point = token.maximum(Box([-1.0, -1.0], [1.0, 1.0]))
        >>> point.tolist(), round(bound, 6)  # 2 / (1 + exp(-1))
        ([1.0, 1.0], 1.462117)
    """

    logits: Array
    values: Array
    key: Array
    readout: Array

    def __post_init__(self) -> None:
        for name in ("logits", "values", "key", "readout"):
            object.__setattr__(self, name, float32_numbers(name, getattr(self, name), 1))
        sizes = [len(x) for x in (self.logits, self.values, self.key, self.readout)]
        if sizes[0] != sizes[1] or sizes[2] != sizes[3] or sizes[0] == 1:
            raise ParameterError(
                "logits and values, or key and readout, are of different lengths, or there is one "
                "token only",
                witness=sizes,
                suggestion="logits (n,), values (n,), key (d,) and readout (d,), n at least 2",
            )

    def __call__(self, moves: Array) -> Array:
        """Evaluate the head in float64: (N,).

        Args:
            moves: z (N, d)
        """
        logits = np.tile(self.logits, (len(moves), 1))
        values = np.tile(self.values, (len(moves), 1))
        logits[:, 0] += moves @ self.key
        values[:, 0] += moves @ self.readout
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        averages: Array = (weights * values).sum(axis=1) / weights.sum(axis=1)
        return averages

    def maximum(self, box: Box) -> tuple[float, Array]:
        """Return an upper bound of the head on a box, and a point (d,) where it is nearly attained.

        Args:
            box: of the moves z

        Raises:
            ParameterError: for a box of another dimension
        """
        if len(box.lower) != len(self.key):
            raise ParameterError(
                f"the box has {len(box.lower)} entries, the token moves in {len(self.key)}",
                witness=len(box.lower),
                suggestion=f"a box of {len(self.key)} entries",
            )
        vertices = self._boundary(box)
        with working_precision(_BITS):
            head = _HeadInBalls(self)
            candidates = [(head.at(v.logit, v.value), v.corner) for v in vertices]
            for start, end in pairwise(vertices):
                inside = head.inside(start, end)
                if inside is not None:
                    bound, part = inside
                    pairs = zip(start.corner, end.corner, strict=True)
                    candidates.append((bound, tuple(a + part * (b - a) for a, b in pairs)))
            bounds = [upper(ball) for ball, _ in candidates]
        best = max(range(len(bounds)), key=bounds.__getitem__)
        point = np.array([float(x) for x in candidates[best][1]])
        return bounds[best], np.clip(point, box.lower, box.upper)

    def _boundary(self, box: Box) -> list[_Vertex]:
        """The vertices of the upper boundary, by rising k . z."""
        keys = [Fraction(x) for x in self.key.tolist()]
        readouts = [Fraction(x) for x in self.readout.tolist()]
        ends = [(Fraction(a), Fraction(b)) for a, b in zip(box.lower, box.upper, strict=True)]
        # From the least k . z, entries turn to their other ends by falling slope u_i / k_i.
        corner = [b if k < 0 or (k == 0 and u > 0) else a
                  for k, u, (a, b) in zip(keys, readouts, ends, strict=True)]  # fmt: skip
        turning = [i for i, k in enumerate(keys) if k and ends[i][0] < ends[i][1]]
        turning.sort(key=lambda i: readouts[i] / keys[i], reverse=True)
        vertices = [_vertex(corner, keys, readouts)]
        for i in turning:
            corner[i] = ends[i][0] if keys[i] < 0 else ends[i][1]
            vertices.append(_vertex(corner, keys, readouts))
        return vertices


def _vertex(
    corner: Sequence[Fraction], keys: Sequence[Fraction], readouts: Sequence[Fraction]
) -> _Vertex:
    logit = sum((k * z for k, z in zip(keys, corner, strict=True)), Fraction(0))
    value = sum((u * z for u, z in zip(readouts, corner, strict=True)), Fraction(0))
    return _Vertex(tuple(corner), logit, value)


class _HeadInBalls:
    """c, and the odds e^(l + s) / Z, of a head."""

    def __init__(self, token: MovingToken) -> None:
        logits, values = token.logits.tolist(), token.values.tolist()
        top = max(logits[1:])
        others = [(exact_ball(x) - exact_ball(top)).exp() for x in logits[1:]]
        whole = sum(others, arb(0))
        self._average = (
            sum((e * v for e, v in zip(others, values[1:], strict=True)), arb(0)) / whole
        )
        self._start = exact_ball(logits[0]) - exact_ball(top) - whole.log()
        self._value = Fraction(values[0])

    def _odds(self, logit: Fraction) -> arb:
        return (self._start + exact_ball(logit)).exp()

    def at(self, logit: Fraction, value: Fraction) -> arb:
        """Enclose f where the token's logit and value have moved so far."""
        odds = self._odds(logit)
        over = exact_ball(self._value + value) - self._average
        return self._average + over / (1 + 1 / odds)

    def inside(self, start: _Vertex, end: _Vertex) -> tuple[arb, Fraction] | None:
        """Bound f at its stationary point on an edge, and say where; None if there is none.

        With m < 0, w falls along the edge. So f = w + m is at most its value at a point before.
        """
        slope = (end.value - start.value) / (end.logit - start.logit)
        if slope >= 0:
            return None

        def place(part: Fraction) -> tuple[Fraction, Fraction]:
            rise, step = end.logit - start.logit, end.value - start.value
            return start.logit + part * rise, self._value + start.value + part * step

        def sign(part: Fraction) -> arb:
            logit, value = place(part)
            return exact_ball(value + slope) - self._average + self._odds(logit) * exact_ball(slope)

        low, high = Fraction(0), Fraction(1)
        if sign(low) < 0 or sign(high) > 0:
            return None
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if sign(middle) > 0 else (low, middle)
        return exact_ball(place(low)[1] + slope), low
