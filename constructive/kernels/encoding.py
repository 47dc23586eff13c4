"""Keys as digits, values as codes: numbers that every format holds, and that say where they are.

Key j of sequence b and KV head g has the number `offset(b, g) + j`; its m digits of radix r each
put one number into one of r coordinates. So a product with a query picks, for each digit, one
coordinate of the query. Values are vectors of powers of two from 1 to 8, no two alike.
"""

import math
from dataclasses import dataclass

import numpy as np

from constructive.kernels.spec import Spec
from constructive.support.arrays import Array, Booleans, Integers
from constructive.support.errors import ParameterError

MOST_DIGITS = 4  # Nonzero products of a logit: the theorems count their roundings
_LEVELS = (1, 3)  # The largest exponents of values that are tried


@dataclass(frozen=True, eq=False)
class Encoding:
    """The digits of all keys."""

    offsets: Integers  # (B, G) number of the first key
    digits: Integers  # (B, G, T_k, m) digits, the lowest first
    radix: int  # r
    reserved: int  # coordinates that no digit uses

    @property
    def count(self) -> int:
        """Digits m."""
        return int(self.digits.shape[-1])

    @property
    def used(self) -> int:
        """Coordinates of digits."""
        return self.count * self.radix

    def one_hot(self) -> Booleans:
        """Return True in the coordinates of each key, (B, G, T_k, m r)."""
        hot: Booleans = self.digits[..., None] == np.arange(self.radix)
        return hot.reshape(*self.digits.shape[:3], self.used)


def encode(spec: Spec, reserved: int = 0) -> Encoding:
    """Return digits for all keys.

    Example:
        >>> encode(Spec(keys=100, head_dim=32)).radix
        16
    """
    sizes = _sizes(spec, reserved)
    if sizes is None:
        raise _no_room(spec, reserved)
    span, count, radix = sizes
    sequences, pairs = _sequences(spec), _pairs(spec)
    random = np.random.default_rng((spec.seed, 2))
    starts = random.permutation(max(span, pairs))[:pairs] % span
    offsets = np.broadcast_to(starts.reshape(sequences, spec.heads[1]), (spec.batch, spec.heads[1]))
    numbers = offsets[..., None] + np.arange(spec.keys)
    digits = numbers[..., None] // radix ** np.arange(count) % radix
    return Encoding(offsets, digits, radix, reserved)


def _sequences(spec: Spec) -> int:
    return 1 if spec.shared else spec.batch


def _pairs(spec: Spec) -> int:
    """Return of how many (sequence, KV head) pairs there are keys."""
    return _sequences(spec) * spec.heads[1]


def _sizes(spec: Spec, reserved: int) -> tuple[int, int, int] | None:
    """Return the span of offsets, the number of digits and their radix, or None: no room."""
    pairs, room = _pairs(spec), spec.head_dim - reserved
    for span in (2 * pairs, pairs, 1):
        for count in range(1, MOST_DIGITS + 1):
            radix = room // count
            if radix >= 1 and radix**count >= spec.keys + span - 1:
                return span, count, radix
    return None


def _exponent(spec: Spec) -> int | None:
    count = _pairs(spec) * spec.keys
    fits = (b for b in _LEVELS if spec.d_v * math.log2(b + 1) >= math.log2(count))
    return next(fits, None)


def lacks_room(spec: Spec, reserved: int | None) -> str | None:
    """Return why keys have no digits beside reserved coordinates, or values no codes, or None.

    Keys need no digits where `reserved` is None.
    """
    if reserved is not None and _sizes(spec, reserved) is None:
        return f"head_dim={spec.head_dim} is too small for {spec.keys} keys"
    if _exponent(spec) is None:
        return f"value_dim={spec.d_v} is too small for {_pairs(spec) * spec.keys} keys in all"
    return None


def _no_room(spec: Spec, reserved: int | None) -> ParameterError:
    return ParameterError(
        lacks_room(spec, reserved) or "there is no room",
        witness=(spec.head_dim, spec.d_v, spec.keys),
        suggestion="a larger head_dim or value_dim, or fewer keys",
    )


def exponent_of_values(spec: Spec) -> int:
    """Return b: values are powers of two from 1 to 2^b."""
    found = _exponent(spec)
    if found is None:
        raise _no_room(spec, None)
    return found


def codes(spec: Spec) -> Array:
    """Return the values, (B, G, T_k, d_v): powers of two, no two rows alike.

    Example:
        >>> values = codes(Spec(keys=100))
        >>> len(np.unique(values.reshape(-1, 64), axis=0)), int(values.max())
        (200, 2)
    """
    sequences, count = _sequences(spec), _pairs(spec) * spec.keys
    base = exponent_of_values(spec) + 1
    random = np.random.default_rng((spec.seed, 1))
    width = 1
    while base**width < count:
        width += 1
    chosen = random.integers(0, base, (count, spec.d_v))
    chosen[:, :width] = random.permutation(count)[:, None] // base ** np.arange(width) % base
    values = np.exp2(chosen[:, random.permutation(spec.d_v)])
    shape = (sequences, spec.heads[1], spec.keys, spec.d_v)
    return np.ascontiguousarray(np.broadcast_to(values.reshape(shape), (spec.batch, *shape[1:])))


def factors(product: float, largest: float) -> tuple[float, float]:
    """Return powers of two (of a query, of a key) whose product is `product` or more.

    Example:
        >>> factors(512.0, 1.0)
        (32.0, 16.0)
    """
    of_key = 2.0 ** math.floor(math.log2(math.sqrt(product * largest)))
    return 2.0 ** math.ceil(math.log2(product / of_key)), of_key
