"""Files of decoders: with every weight as float32, or, where all weights are integers, packed.

A packed file has two tensors of bytes. `about` is JSON, compressed by zlib: the vocabulary, the
unit, the window, the record, the longest text where positions are periodic, and the rules of all
columns (`layers.packed`). `bits` are the columns themselves, the lowest bit of each byte first.
"""

import dataclasses
import json
import lzma
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from constructive.layers.causal.layer import CausalLayer
from constructive.layers.decoder_record import read_record
from constructive.layers.packed.packing import pack, packable, unpack
from constructive.layers.shapes import head_weights
from constructive.support.arrays import Array
from constructive.support.tensors import Form, load, serialized

if TYPE_CHECKING:
    from constructive.layers.decoder import Decoder

FORM = Form(
    "constructive decoder 1", "decoder", "a decoder", "Decoder.save or `constructive recite`"
)
PACKED = "constructive decoder 2"
"""The format of packed files."""

_MOST_BYTES = 1 << 28
"""Of JSON that a packed file may have, and entries of its weights."""


class Sizes(NamedTuple):
    """Bytes of a decoder and of what it recites.

    Attributes:
        file: of the file that `Decoder.save` writes, the vocabulary included
        text: of the text itself
        xz: of the text, compressed by xz at its best preset
    """

    file: int
    text: int
    xz: int


def sizes(decoder: "Decoder", content: bytes) -> Sizes:
    """Compare the file of a decoder with the text that it recites.

    Args:
        decoder: which is not written
        content: the text

    Example:
        >>> from constructive import Text, build_decoder
        >>> decoder = build_decoder(Text.words("the cat sat"), width=32)
        >>> found = sizes(decoder, b"the cat sat")
        >>> found.text, found.xz
        (11, 68)
    """
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    return Sizes(len(file_content(decoder)), len(content), len(packed))


def about(decoder: "Decoder") -> dict[str, Any]:
    """Return what is not an array, as JSON values.

    Args:
        decoder: that is described
    """
    return {
        "vocabulary": list(decoder.vocabulary),
        "unit": decoder.unit,
        "window": decoder.layer.window,
        "record": dataclasses.asdict(decoder.record),
    } | decoder.periodic


def file_content(decoder: "Decoder") -> bytes:
    """Return the content of a file: packed where all weights are integers.

    Args:
        decoder: that is to be written
    """
    if not packable(decoder.tensors):
        described = json.dumps(about(decoder))
        return serialized(decoder.tensors, {"format": FORM.name, FORM.key: described})
    packed = pack(decoder.tensors, decoder.record.seed)
    content = about(decoder) | {"weights": packed.rules}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    arrays: dict[str, Any] = {
        "about": np.frombuffer(zlib.compress(text.encode(), 9), np.uint8),
        "bits": np.packbits(packed.bits, bitorder="little"),
    }
    return serialized(arrays, {"format": PACKED})


def read(path: str | Path) -> "Decoder":
    """Read a file of either kind.

    Args:
        path: the file

    Raises:
        FormatError: if it is not one
        OSError: if it cannot be read
    """
    return load(path, FORM, _made, {PACKED: _unpacked})


def _unpacked(arrays: dict[str, Any], nothing: object) -> "Decoder":  # noqa: ARG001
    """Make a decoder of a packed file."""
    if set(arrays) != {"about", "bits"} or any(a.dtype != np.uint8 for a in arrays.values()):
        raise ValueError(f"its tensors are {sorted(arrays)}")
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(arrays["about"].tobytes(), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"it is damaged: {error}") from error
    if not reader.eof or reader.unused_data:
        raise ValueError("what it says is cut off, too long, or followed by something else")
    content = json.loads(text)
    shapes = [rule["shape"] for rule in content["weights"].values()]
    if sum(float(np.prod(shape)) for shape in shapes) > _MOST_BYTES:
        raise ValueError(f"its weights have shapes {shapes}")
    bits = np.unpackbits(arrays["bits"], bitorder="little")
    tensors = unpack(content["weights"], bits, content["record"]["seed"])
    return _made(tensors, content)


def _made(arrays: dict[str, Array], content: dict[str, Any]) -> "Decoder":
    """Make a decoder of its weights, and of what is said of it."""
    from constructive.layers.decoder import Decoder  # noqa: PLC0415 - it has `load`, which is this

    return Decoder(
        arrays["embedding"],
        arrays["positions"],
        CausalLayer(*head_weights(arrays), arrays["U"], content["window"]),
        arrays["unembedding"],
        tuple(content["vocabulary"]),
        content["unit"],
        read_record(content["record"]),
        content.get("longest"),
    )
