"""The least description of numbers by others: which rows differ, and where a number comes from."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from constructive.support.arrays import Array, Booleans, Integers

SIZES = (16, 32, 64, 128, 8, 24, 48, 96, 4, 2)  # of blocks, the most usual first
_FEW = 3  # numbers that are listed
_PRICE = 0.03  # of a condition, or of a relation with a block: the share that it has to explain
_ENOUGH = 0.85  # of numbers that a relation has to explain


class Condition(NamedTuple):
    """What meant rows have in common, and the share that they are of all that have it."""

    words: str
    share: float


def separate(
    coordinates: Mapping[str, Integers], meant: Booleans, possible: Booleans, most: int = 2
) -> Condition:
    """Return the least conditions that all meant rows meet, and few other possible ones.

    Coordinates are numbers of all rows by name, the plainest first. Thresholds are the least and
    the greatest number of meant rows, so none is searched for.
    """
    inside, words, count = possible, [], meant.sum()
    share = float(count / max(inside.sum(), 1))
    for _ in range(most):
        best, said, kept = share + _PRICE, "", inside
        for order, (name, x) in enumerate(coordinates.items()):
            price = 0.001 * order + (_PRICE if " mod " in name else 0.0)
            for condition, those in _conditions(name, x, meant, inside):
                worth = count / those.sum() - price
                if worth > best + 1e-9:
                    best, said, kept = worth, condition, those
        if not said:
            break
        inside, share = kept, float(count / kept.sum())
        words.append(said)
    return Condition(" and ".join(words), share)


def _conditions(
    name: str, x: Integers, meant: Booleans, inside: Booleans
) -> Iterator[tuple[str, Booleans]]:
    mine, every = x[meant], x[inside]
    low, high, least, greatest = mine.min(), mine.max(), every.min(), every.max()
    if low == least and high == greatest:
        distinct = np.unique(mine)
        if len(distinct) <= _FEW and not np.isin(every, distinct).all():
            yield f"{name} = {', '.join(map(str, distinct))}", inside & np.isin(x, distinct)
    elif low == high:
        yield f"{name} = {low}", inside & (x == low)
    elif low > least and high < greatest:
        yield f"{name} from {low} to {high}", inside & (x >= low) & (x <= high)
    elif low > least:
        yield f"{name} >= {low}", inside & (x >= low)
    else:
        yield f"{name} <= {high}", inside & (x <= high)


def relate(numbers: Integers, coordinates: Mapping[str, Integers]) -> str:
    """Return what numbers are in words, by coordinates, the simplest first; else some of them."""
    best, worth, share = "", _ENOUGH, 0.0
    for price, words, guess in _guesses(numbers, coordinates):
        now = float((guess == numbers).mean())
        if now - price > worth:
            best, worth, share = words, now - price, now
    if not best:
        return f"{', '.join(map(str, numbers[:_FEW]))}, .."
    return best if share == 1.0 else f"{best} (in {share:.0%})"


def _guesses(
    numbers: Integers, coordinates: Mapping[str, Integers]
) -> Iterator[tuple[float, str, Integers]]:
    """Yield the price of a relation, its words and the numbers that it leads to."""
    yield 0.02, f"{numbers[0]}", np.full_like(numbers, numbers[0])
    for order, (name, x) in enumerate(coordinates.items()):
        yield _shifted(name, x, numbers, 0.001 * order)
        for size in SIZES:
            start = x // size * size
            yield _shifted(f"the start of the block of {size} of {name}", start, numbers, _PRICE)
            yield _shifted(f"{name} mod {size}", x % size, numbers, _PRICE)
        yield _PRICE, f"{name}, but at most {numbers.max()}", np.minimum(x, numbers.max())
        yield _PRICE, f"{name}, but at least {numbers.min()}", np.maximum(x, numbers.min())


def _shifted(
    words: str, x: Integers, numbers: Integers, price: float
) -> tuple[float, str, Integers]:
    by = int(np.median(numbers - x))
    sign = f" {'+' if by > 0 else '-'} {abs(by)}" if by else ""
    return price + 0.004 * bool(by), f"{words}{sign}", x + by


def span(values: Array) -> str:
    """Return numbers in words: one if they are nearly equal, else the least and the greatest."""
    low, high = float(values.min()), float(values.max())
    return (
        f"{values.mean():.5g}" if high - low <= 2.0**-7 * abs(high) else f"{low:.4g} to {high:.4g}"
    )
