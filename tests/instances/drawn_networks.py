"""What several tests of instances need: networks, points of boxes, folders and their files."""

import itertools
import json
from hashlib import sha256

import numpy as np

from constructive.instances import Head, Network
from constructive.instances.properties import read_property, version_1, version_2


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


class Files:
    """The files of an instance in a folder; `write` makes hashes consistent, as a forger would."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.wanted = read_property((folder / f"vnnlib/{name}.vnnlib").read_text())
        self.path = folder / f"proofs/{name}.json"
        self.proof = json.loads(self.path.read_text())

    def write(self, wanted=None, second=None):
        wanted = wanted or self.wanted
        texts = {"vnnlib": version_1(wanted), "vnnlib2": version_2(second or wanted)}
        for part in texts.keys() & self.proof.keys():
            (self.folder / part / f"{self.name}.vnnlib").write_text(texts[part])
            self.proof[part] = sha256(texts[part].encode()).hexdigest()
        self.path.write_text(json.dumps(self.proof))
