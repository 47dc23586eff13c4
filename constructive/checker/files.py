"""Reading files which may be hostile: shapes first, then what is needed, then the bytes."""

import base64
import hashlib
import json
import math
import os
import re
import struct
import sys
import time
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from .bounds import above, chunks

ARRAYS = ("contexts", "queries", "targets")
LENGTHS = "lengths"  # of contexts, where these are different
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
LARGEST_INTEGER = 1 << 53  # up to which float64 holds every integer


def require(condition, reason):
    if not condition:
        raise ValueError(reason)


def announce(size, operations, most):
    """Say how many bytes and operations shapes ask for, before they are taken; or refuse."""
    needed = f"{above(size / 1e9, 2)} GB of memory and {above(operations, 1)} operations"
    with suppress(OSError):  # nobody reads it
        print(f"needs up to {needed}", file=sys.stderr, flush=True)
    require(size <= most, f"{needed} are needed, and --max-memory is {most / 1e9:g}")


def confine(most):
    """Let this process take so many bytes more from now on, where the system sees to it.

    What shapes ask for is refused before. This is for readers of JSON and zip files, which build
    what a file says, and for what nobody thought of.
    """
    np.linalg.solve(np.eye(200), np.eye(200))  # BLAS takes its buffers, or it may abort for them
    with suppress(ImportError, OSError, ValueError, OverflowError):
        import resource  # noqa: PLC0415 - of Unix only

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used + int(most), hard))


def size_of(path, role):
    require(Path(path).exists(), f"the {role} {path} is not there")
    require(Path(path).is_file(), f"the {role} {path} is not a file")
    return Path(path).stat().st_size


@contextmanager
def reading(path, role):
    """Whatever is wrong with a file is said of it, in words."""
    size_of(path, role)
    try:
        yield
    except Exception as failure:  # of the system, and of readers
        why = str(failure) or type(failure).__name__
        raise ValueError(f"the {role} {path} cannot be read as such: {why:.100}") from failure


def read_json(path, role, most):
    """JSON whose objects name each key once. A byte of text may become 64 bytes of objects."""
    require(64 * size_of(path, role) <= most, f"the {role} {path} is too large for --max-memory")
    with reading(path, role):
        content = parsed(Path(path).read_bytes())
        require(isinstance(content, dict) and "format" in content, "it has no format")
    return content


def text_of(data):
    """ASCII text of lines that end with LF, or CR and LF: all readers see the same lines."""
    text = data.decode("ascii").replace("\r\n", "\n")
    known = re.fullmatch("[\t\n -~]*", text) is not None
    require(known, "a character is not printed, so that lines may end elsewhere")
    return text


def parsed(text):
    def unique(pairs):
        require(len({key for key, _ in pairs}) == len(pairs), "a JSON object repeats a key")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=unique)


def shape_of(listed):
    shape = tuple(listed)
    require(all(type(k) is int and k > 0 for k in shape), f"{str(shape)[:40]} is not a shape")
    return shape


def weights_shapes(path, most, more=("W_V_corrections",)):
    """Those of a layer, which may have corrections, or what else there may be."""
    return tensor_shapes(path, ("W_Q", "W_K", "W_V", "W_O", "W_D"), most, more)[0]


def weights_header(path, most):
    """The header of a .safetensors file, which is a length, JSON, and bytes; and its length."""
    total = size_of(path, "weights")
    with reading(path, "weights"), Path(path).open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        require(length <= total - 8, "the header of the weights is cut off")
        require(64 * length <= most, "the header of the weights is too large for --max-memory")
        return parsed(file.read(length)), length, total


NUMBERS = {"F64": "<f8", "F32": "<f4"}
BYTES = {"U8": "|u1"}


def tensor_shapes(path, names, most, more=(), kinds=NUMBERS):
    """Type, shape and place of each tensor of a .safetensors file, and what else it says."""
    (header, length, total), found = weights_header(path, most), {}
    names = [*names, *(name for name in more if name in header)]
    require(set(header) - {"__metadata__"} == set(names), f"the weights are not {names}")
    for name in names:
        kind, shape = kinds[header[name]["dtype"]], header[name]["shape"]
        start, stop = header[name]["data_offsets"]
        kind, shape = np.dtype(kind), shape_of(shape)
        whole = type(start) is int and stop - start == math.prod(shape) * kind.itemsize
        require(whole and start >= 0 and 8 + length + stop <= total, f"{name} is cut off")
        found[name] = kind, shape, 8 + length + start
    return found, header.get("__metadata__", {})


def read_weights(path, shapes):
    read = {}
    for name, (kind, shape, place) in shapes.items():
        array = np.fromfile(path, kind, math.prod(shape), offset=place).reshape(shape)
        require(np.isfinite(array).all(), f"{name} is not finite")
        read[name] = array
    return read


def data_shapes(path):
    """Type and shape of contexts, queries and targets in an .npz file, and of lengths if any.

    An entry without .npy is what numpy would read instead of the one with it. A folder has a .npy
    file for each.
    """
    if Path(path).is_dir():
        several = (Path(path) / f"{LENGTHS}.npy").exists()
        require(not several, "a folder holds contexts of one length only")
        headers = {name: npy_header(Path(path) / f"{name}.npy", name) for name in ARRAYS}
        return {name: (kind, shape) for name, (kind, shape, *_) in headers.items()}
    found = {}
    with reading(path, "data"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        named = {name.removesuffix(".npy") for name in names}
        require(len(named) == len(names), "the data name an array twice")
        for entry in archive.infolist():
            archive.open(entry).close()  # zipfile refuses a header of another name than is listed
        for name in (*ARRAYS, *({LENGTHS} & named)):
            entry = archive.getinfo(f"{name}.npy")
            # Others are unpacked whole, and headers of other versions may be gigabytes long.
            require(entry.compress_type in PACKED, f"{name} are packed in another way")
            with archive.open(entry) as file:
                kind, shape, _ = header_of(file, name)
            whole = math.prod(shape) * kind.itemsize < entry.file_size
            require(whole, f"{name} are cut off")
            found[name] = kind, shape
    return found


def header_of(file, name):
    """Type and shape of an array of real numbers, and whether it lies by columns."""
    headers = np.lib.format
    require(headers.read_magic(file) == (1, 0), f"{name} have no header of version 1.0")
    shape, by_columns, kind = headers.read_array_header_1_0(file)
    real = kind.kind in "biuf" and kind.itemsize <= 8
    require(real, f"{name} are {kind}, no real numbers of 64 bits or fewer")
    return kind, shape_of(shape), by_columns


def npy_header(path, name):
    """The same of a .npy file, and bytes before the first entry; all entries have to be there."""
    total = size_of(path, "data")
    with reading(path, "data"), path.open("rb") as file:
        kind, shape, by_columns = header_of(file, name)
        whole = file.tell() + math.prod(shape) * kind.itemsize == total
        require(whole, f"{name} are cut off, or more follows")
        return kind, shape, by_columns, file.tell()


def read_data(path, shapes):
    """The arrays of an .npz file or a folder, as far as they have shapes here."""
    data = {}
    if Path(path).is_dir():
        for name in shapes:
            part = Path(path) / f"{name}.npy"
            with reading(part, "data"), part.open("rb") as file:
                data[name] = converted(file, name, shapes[name])
        return data
    with reading(path, "data"), zipfile.ZipFile(path) as archive:
        for name in shapes:
            with archive.open(f"{name}.npy") as file:
                data[name] = converted(file, name, shapes[name])
    return data


def converted(file, name, shape):
    """An array as float32 or float64; integers become float64 exactly."""
    array = np.lib.format.read_array(file, allow_pickle=False)
    require((array.dtype, array.shape) == shape, f"{name} have changed")
    if array.dtype.kind in "iu":
        largest = max(-int(array.min()), int(array.max()))
        require(largest <= LARGEST_INTEGER, f"{name} have integers beyond 2^53")
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    array = np.ascontiguousarray(array, dtype="<f4" if single else "<f8")
    require(np.isfinite(array).all(), f"{name} are not finite")
    return array


def bytes_of(shapes):
    """What arrays of these types and shapes take when they are read, converted and looked at."""
    return sum(math.prod(shape) * (kind.itemsize + 9) for kind, shape, *_ in shapes.values())


def unpack(text, shape, below):
    """Integers of 32 bits, which base64 holds, all below a limit."""
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<u4")
    require(len(values) == math.prod(shape) and (values < below).all(), "packed integers misfit")
    return values.astype(np.int64).reshape(shape)


def same(one, other):
    """Whether JSON values agree, types included: 1 is neither true nor 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def require_about(content, arrays, part, **more):
    """Require of a certificate the types, shapes and hash of these arrays, and return the hash."""
    hashed, true = hashlib.sha256(), {}
    for name, x in arrays.items():
        true[name] = {"dtype": x.dtype.name, "shape": list(x.shape)}
        hashed.update(f"{name} {x.dtype.str} {list(x.shape)}\n".encode())
        for block in x.blocks() if hasattr(x, "blocks") else [x]:
            hashed.update(np.ascontiguousarray(block).data)
    true["sha256"] = hashed.hexdigest()
    said, true = content[part], true | more
    other = [name for name in true if name != "sha256" and not same(said.get(name), true[name])]
    names = f"other types or shapes of {', '.join(other)}" if other else "other numbers"
    require(same(said, true), f"the certificate is about other {part}: {names} than in this file")
    return hashed.digest()


def require_shapes(content, shapes, part):
    """Require of a certificate the shapes of these arrays, before anything is read of them."""
    for name, (_, shape, *_) in shapes.items():
        if name == LENGTHS:  # which say nothing where all contexts have one length
            continue
        told = content[part][name]["shape"]
        words = f"{name} are {told} there and {list(shape)} in this file"
        require(same(told, list(shape)), f"the certificate is about other {part}: {words}")


def require_claims(content, known, asked):
    """Require that a certificate claims what is known and asked for; the claims."""
    claims = content["claims"]
    require(claims and set(claims) <= set(known), "it claims nothing, or nothing known")
    missing = ", ".join(sorted(set(asked) - set(claims)))
    require(not missing, f"it does not claim all that is asked: {missing}")
    others = ", ".join(name for name in claims if claims[name]["verdict"] != "PROVED")
    require(not others, f"not all claims are PROVED: {others}")
    require(content["verdict"] == "PROVED", "its verdict is not PROVED")
    return claims


# Steps of the checker, told on stderr. Nothing that is proved depends on them.

EVERY = 0.5  # seconds between lines about one step
WIDTH = 79


def silent(step, done, total):
    """Tell nobody."""


class Told:
    """Steps as lines of a stream: on a terminal in the place of the last one, else below it."""

    def __init__(self, stream):
        self.stream, self.terminal = stream, stream.isatty()
        self.step, self.last = None, 0.0

    def __call__(self, step, done, total):
        now = time.monotonic()
        if step == self.step and now - self.last < EVERY:
            return
        self.step, self.last = step, now
        self.write(f"... {step}: {done} of {total}")

    def write(self, line):
        with suppress(OSError, ValueError):  # nobody listens any more
            self.stream.write(f"\r{line:{WIDTH}.{WIDTH}}\r" if self.terminal else f"{line}\n")
            self.stream.flush()

    def end(self):
        """Leave a terminal as it was."""
        if self.terminal and self.step is not None:
            self.write("")


# Contexts in a file of their own, so many that they are read by rows and never all at once.

BLOCK = 1 << 21  # entries of a block


def read_folder(folder, shapes):
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
        for rows in chunks(self.shape[0], math.prod(self.shape[1:]), BLOCK):
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
