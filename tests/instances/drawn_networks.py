"""What several tests of instances need: networks that are drawn, points of boxes, folders."""

import itertools

import numpy as np

from constructive.instances import Head, Network


def float32(array):
    return np.asarray(array, np.float32).astype(float)


def drawn_network(rng, *, heads, tokens, dim, outputs, scale=1.0):
    """A network of float32 numbers; logits have the scale."""
    return Network(
        tuple(
            Head(
                float32(scale * rng.normal(size=(tokens, dim))),
                float32(scale * rng.normal(size=tokens)),
                float32(rng.normal(size=(tokens, outputs))),
            )
            for _ in range(heads)
        )
    )


def corners(box):
    """The corners of a box, or some thousands of them."""
    ends = itertools.product(*zip(box.lower, box.upper, strict=True))
    return np.array(list(itertools.islice(ends, 4096)))


def points(box, rng, number=200):
    """Points of the box, and its corners."""
    return np.vstack([rng.uniform(box.lower, box.upper, (number, len(box.lower))), corners(box)])


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
