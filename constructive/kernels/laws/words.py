"""Numbers in sentences."""

from collections.abc import Iterable, Sequence

_MOST = 6


def listed(numbers: Iterable[int]) -> str:
    """Return numbers in words: "3", "4 to 7", "0, 2 and 5".

    Example:
        >>> listed([4, 5, 6]), listed([1, 3]), listed([2])
        ('4 to 6', '1 and 3', '2')
    """
    found = [int(number) for number in numbers]
    if len(found) > 2 and found[-1] - found[0] == len(found) - 1:
        return f"{found[0]} to {found[-1]}"
    if len(found) > _MOST:
        return ", ".join(map(str, found[:_MOST])) + ", .."
    words = list(map(str, found))
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def exchanged(name: str, changed: Sequence[tuple[int, int]]) -> str:
    """Return a map in words, such as "head 1 is 2, head 2 is 1" or "1 and 2 are exchanged".

    Example:
        >>> exchanged("head", [(1, 2), (2, 1)]), exchanged("head", [(0, 2)])
        ('heads 1 and 2 are exchanged', '2 in place of head 0')
    """
    pairs = dict(changed)
    if len(pairs) == 2 and all(pairs.get(other) == one for one, other in pairs.items()):
        return f"{name}s {listed(sorted(pairs))} are exchanged"
    parts = [f"{other} in place of {name} {one}" for one, other in list(pairs.items())[:_MOST]]
    return ", ".join(parts) + (", .." if len(pairs) > _MOST else "")
