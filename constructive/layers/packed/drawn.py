"""Signs that a seed gives, the same ones on every machine and in every program."""

import hashlib

import numpy as np

from constructive.support.arrays import Array


def drawn_signs(name: str, seed: int, shape: tuple[int, ...]) -> Array:
    """Return signs 1 and -1 that follow from a name and a seed, as float32.

    The n-th entry, in C order, is -1 where the n-th bit of SHAKE-256 of
    "constructive signs 1 NAME SEED" is set, the lowest bit of each byte first.

    Example:
        >>> drawn_signs("W_Q", 0, (2, 4)).tolist()
        [[-1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    count = int(np.prod(shape))
    stream = hashlib.shake_256(f"constructive signs 1 {name} {seed}".encode())
    content = np.frombuffer(stream.digest(-(-count // 8)), dtype=np.uint8)
    bits = np.unpackbits(content, count=count, bitorder="little")
    signs: Array = (1.0 - 2.0 * bits).astype(np.float32).reshape(shape)
    return signs
