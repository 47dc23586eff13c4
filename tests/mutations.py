"""Random changes of JSON and of bytes, for all that reads files; and files that are written so."""

import copy
import json
import struct
import tempfile
from pathlib import Path

import numpy as np

EVIL = (
    None, True, False, 0, 1, -1, 2, 4194287, 4194301, 2**22, 10**30, -(10**400), 0.5, 1e308, "",
    "PROVED", "REFUTED", "0x1p-1074", "0x1p-1000", "0x0p+0", "0x1p+10", "inf", "nan", "AAAA", "é",
    [], {}, [[0, 7]], [True], [1.0], [0] * 500, {"prime": 7},
)  # fmt: skip


def pick(rng, listed):
    """One of some things, at random."""
    listed = list(listed)
    return listed[rng.integers(len(listed))]


def leaves(content, trail=()):
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield (*trail, key)
            yield from leaves(value, (*trail, key))


def at(content, trail):
    """What lies at the end of a trail."""
    for key in trail:
        content = content[key]
    return content


def spoil(rng, content):
    """Put something evil in the place of any value, and return where, and what."""
    trail, value = pick(rng, leaves(content)), copy.deepcopy(pick(rng, EVIL))
    at(content, trail[:-1])[trail[-1]] = value
    return trail, value


def mutate_json(rng, content):
    """One or two values removed, exchanged, spoilt, or replaced by something evil."""
    for _ in range(rng.integers(1, 3)):
        trails = list(leaves(content))
        if not trails:
            return
        trail = pick(rng, trails)
        part = at(content, trail[:-1])
        kind, old = rng.integers(5), part[trail[-1]]
        if kind == 0 and isinstance(part, dict):
            part.pop(trail[-1])
        elif kind == 1 and isinstance(old, str) and len(old) > 3:
            text = list(old)
            i, j = rng.integers(len(text), size=2)
            text[i], text[j] = text[j], text[i]
            part[trail[-1]] = "".join(text)
        elif kind == 2 and isinstance(old, int) and not isinstance(old, bool):
            part[trail[-1]] = old + int(rng.choice([-1, 1, 2]))
        elif kind == 3:
            part[trail[-1]] = copy.deepcopy(at(content, pick(rng, trails)))
        else:
            part[trail[-1]] = copy.deepcopy(pick(rng, EVIL))


def mutate_bytes(rng, content):
    content = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        return bytes(content[: rng.integers(len(content))])
    if kind == 1:
        start, stop = np.sort(rng.integers(len(content), size=2))
        return bytes(content[:start] + content[stop:])
    if kind == 2:
        start, stop = np.sort(rng.integers(len(content), size=2))
        return bytes(content[:stop] + content[start:])
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    return bytes(content)


# Files byte by byte, so that a forgery can be anything.


def safetensors(tensors, change=dict):
    """The bytes of a .safetensors file, with a header that may be changed."""
    header, body = {}, b""
    for name, array in tensors.items():
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": {"float64": "F64", "float32": "F32"}[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(content)],
        }
        body += content
    text = json.dumps(change(header)).encode()
    return struct.pack("<Q", len(text)) + text + body


def content_of(saved):
    """The JSON of what can be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.json"
        saved.save(path)
        return json.loads(path.read_text())
