"""Positional encodings (n, d), to be added to the tokens of a context: order becomes visible."""

from typing import Literal, get_args

import numpy as np

from constructive.support.arguments import require_known, require_positive, require_seed
from constructive.support.arrays import Array

Positions = Literal["sinusoidal", "gaussian", "signs", "none"]


def positions(kind: str, size: int, width: int, *, seed: int = 0) -> Array:
    """Return a positional encoding by its name.

    Args:
        kind: "sinusoidal" (Vaswani et al., 2017), "gaussian" (as learned ones are initialized:
            standard deviation 0.02), "signs" (random, +1 and -1), or "none" (zeros)
        size: n
        width: d
        seed: of random ones

    Raises:
        ParameterError: for another kind, a size or a width that is not a positive integer, and a
            seed that is not a non-negative integer

    Example:
        >>> positions("signs", 2, 3, seed=1)
        array([[-1.,  1.,  1.],
               [ 1., -1., -1.]])
    """
    require_positive(size=size, width=width)
    require_seed(seed)
    rng = np.random.default_rng(seed)
    require_known("positions", kind, get_args(Positions))
    if kind == "sinusoidal":
        return sinusoidal_positions(size, width)
    if kind == "gaussian":
        return 0.02 * rng.standard_normal((size, width))
    if kind == "signs":
        return rng.choice([-1.0, 1.0], (size, width))
    return np.zeros((size, width))


def sinusoidal_positions(size: int, width: int) -> Array:
    """Return the positional encoding of Vaswani et al. (2017), section 3.5: (n, d).

    Args:
        size: n
        width: d

    Raises:
        ParameterError: for a size or a width that is not a positive integer

    Example:
        >>> sinusoidal_positions(2, 4).round(3)
        array([[0.   , 1.   , 0.   , 1.   ],
               [0.841, 0.54 , 0.01 , 1.   ]])
    """
    require_positive(size=size, width=width)
    angles = np.arange(size)[:, np.newaxis] / 10000.0 ** (np.arange(0, width, 2) / width)
    interleaved: Array = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(size, -1)
    return interleaved[:, :width]
