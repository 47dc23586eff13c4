"""Files of decoders: with every weight as float32, or, where all weights are integers, packed.

A packed file has two tensors of bytes. `about` is JSON, compressed by zlib: the vocabulary, the
unit, the window, the record, the longest text where positions are periodic, and the rules of all
columns (`layers.packed`). `bits` are the columns themselves, the lowest bit of each byte first.
"""

import json
import lzma
import math
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from constructive.layers.attention import head_weights
from constructive.layers.causal import CausalLayer
from constructive.layers.decoder_record import read_record
from constructive.layers.packed import pack, packable, unpack
from constructive.support.arrays import Array
from constructive.support.errors import shown
from constructive.support.reading import unpacked
from constructive.support.tensors import Form, load, require_only, serialized

Made = TypeVar("Made")

FORM = Form(
    "constructive decoder 1", "decoder", "a decoder", "Decoder.save or `constructive recite`"
)
PACKED = "constructive decoder 2"  # The format of packed files

# Bytes of JSON that a packed file may have; Python takes up to 64 for each of them.
MOST_TEXT = 1 << 24
_MOST_ENTRIES = 1 << 28  # Of the weights of a packed file


class Sizes(NamedTuple):
    """Bytes of a decoder and of what it recites."""

    file: int  # of the file that `Decoder.save` writes, the vocabulary included
    text: int  # of the text itself
    xz: int  # of the text, compressed by xz at its best preset


def sizes(file: int, content: bytes) -> Sizes:
    """Compare the file of a decoder with the text that it recites.

    Example:
        >>> sizes(700, b"the cat sat")
        Sizes(file=700, text=11, xz=68)
    """
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    return Sizes(file, len(content), len(packed))


def file_content(tensors: Mapping[str, Array], about: Mapping[str, Any]) -> bytes:
    """Return the content of a file: packed where all weights are integers."""
    if packable(tensors):
        packed = pack(tensors, about["record"]["seed"])
        content = {**about, "weights": packed.rules}
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        if len(text) <= MOST_TEXT and sum(a.size for a in tensors.values()) <= _MOST_ENTRIES:
            arrays: dict[str, Any] = {
                "about": np.frombuffer(zlib.compress(text, 9), np.uint8),
                "bits": np.packbits(packed.bits, bitorder="little"),
            }
            return serialized(arrays, {"format": PACKED})
    return serialized(tensors, {"format": FORM.name, FORM.key: json.dumps(about)})


def read(path: str | Path, make: Callable[..., Made]) -> Made:
    """Read a file of either kind."""

    def made(arrays: dict[str, Array], content: dict[str, Any]) -> Made:
        tokens = {name: arrays[name] for name in ("embedding", "positions", "unembedding")}
        layer = CausalLayer(*head_weights(arrays), arrays["U"], content["window"])
        require_only(arrays, {**tokens, **layer.tensors})
        if content.get("longest", 0) is None:
            raise ValueError("its longest text is null")  # the checker refuses it, too
        return make(
            tokens["embedding"],
            tokens["positions"],
            layer,
            tokens["unembedding"],
            tuple(content["vocabulary"]),
            content["unit"],
            read_record(content["record"]),
            content.get("longest"),
        )

    others = {PACKED: lambda arrays, _: made(*_unpacked(arrays))}
    return load(path, FORM, made, others)


def _unpacked(arrays: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the weights of a packed file, and what is said of them."""
    if set(arrays) != {"about", "bits"} or any(a.dtype != np.uint8 for a in arrays.values()):
        raise ValueError(f"its tensors are {sorted(arrays)}")
    content = json.loads(unpacked(arrays["about"].tobytes(), MOST_TEXT))
    rules = content["weights"]
    _require_fitting(rules, len(content["vocabulary"]))
    bits = np.unpackbits(arrays["bits"], bitorder="little")
    return unpack(rules, bits, content["record"]["seed"]), content


def _require_fitting(rules: Mapping[str, Any], count: int) -> None:
    """Raise ValueError for shapes that are not those of one decoder of V = count tokens.

    Formulas make weights of any size from a short file, so this is asked before any is made.
    """
    (heads, width, inner), (_, outputs) = (rules[n]["shape"] for n in ("W_Q", "unembedding"))
    wanted = {
        "embedding": [count, width],
        "positions": [rules["positions"]["shape"][0], width],
        "W_Q": [heads, width, inner],
        "W_K": [heads, width, inner],
        "U": [(heads + 1) * width, outputs],
        "unembedding": [count + 1, outputs],
    }
    shapes = {name: rule["shape"] for name, rule in rules.items()}
    if shapes != wanted or sum(map(math.prod, wanted.values())) > _MOST_ENTRIES:
        raise ValueError(f"its weights have shapes {shown(shapes)}, for {count} tokens")
