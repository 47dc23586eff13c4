"""Contexts in a file of their own, so many that they are read by rows and never all at once."""

import math
import os
from pathlib import Path

import numpy as np

from bounds import chunks
from files import npy_header, read_data, require

CHUNK = 1 << 21  # entries of a block


def read(folder, shapes):
    """The arrays of a folder; contexts are read when rows of them are asked for."""
    contexts = Stored(Path(folder) / "contexts.npy", shapes["contexts"])
    others = {name: shapes[name] for name in shapes if name != "contexts"}
    return {"contexts": contexts} | read_data(folder, others)


class Stored:
    """An array (T, ...) of float32 or float64, the same at each reading: inode, size, time.

    `blocks` has to be walked through first: then all entries are finite, and the largest is known.
    """

    def __init__(self, path, expected):
        self.path, self.largest = path, None
        with path.open("rb", buffering=0) as file:
            self.seen = identity(file)
        self.dtype, self.shape, by_columns, self.place = npy_header(path, "contexts")
        require((self.dtype, self.shape) == expected, "contexts have changed")
        rows = self.dtype.str in ("<f4", "<f8") and not by_columns
        require(rows, "contexts of a folder are not rows of float32 or float64")

    def blocks(self):
        largest = 0.0
        for rows in chunks(self.shape[0], math.prod(self.shape[1:]), CHUNK):
            block = self[rows]
            require(np.isfinite(block).all(), "contexts are not finite")
            largest = max(largest, float(block.max()), -float(block.min()))
            yield block
        self.largest = largest

    def max(self):
        require(self.largest is not None, "contexts have not been looked at")
        return self.largest

    def min(self):
        return -self.max()

    def __getitem__(self, rows):
        """Rows by a slice, or by an array of their numbers."""
        total, size = self.shape[0], math.prod(self.shape[1:]) * self.dtype.itemsize
        rows = np.arange(*rows.indices(total)) if isinstance(rows, slice) else rows
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        room = out.reshape(-1).view(np.uint8).data
        first = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()  # of those in one piece
        with self.path.open("rb", buffering=0) as file:
            require(identity(file) == self.seen, "contexts have changed")
            for start, stop in zip(first, [*first[1:], len(rows)], strict=False):
                file.seek(self.place + int(rows[start]) * size)
                at = start * size
                while at < stop * size:
                    count = file.readinto(room[at : stop * size])
                    require(count, "contexts are cut off")
                    at += count
            require(identity(file) == self.seen, "contexts have changed")
        return out


def identity(file):
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
