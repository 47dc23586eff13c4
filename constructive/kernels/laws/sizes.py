"""Sizes that blocks may have."""

_EVERY, _FOURS, _EIGHTS = 32, 128, 512


def block_sizes(most: int) -> list[int]:
    """Return all sizes up to 32, then multiples of 4 up to 128, of 8 up to 512 and of 64.

    Example:
        >>> [size for size in block_sizes(300) if size > 120]
        [124, 128, 136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256, \
264, 272, 280, 288, 296]
    """
    found = [
        *range(2, _EVERY + 1),
        *range(_EVERY + 4, _FOURS + 1, 4),
        *range(_FOURS + 8, _EIGHTS + 1, 8),
        *range(_EIGHTS + 64, most + 1, 64),
    ]
    return [size for size in found if size <= most]
