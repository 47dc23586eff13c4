"""`Decoder`: a causal layer with its tokens, which continues texts word for word.

Token v at position i is x_i = embedding_v + position_i; the layer gives f_i, and the next token is
the one with the largest logit f_i . o_v. The rows o_v of the unembedding are one for each token,
and one for the end of a text. Positions may be periodic: then position i has row i mod L' of L'.
"""

import dataclasses
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from constructive import checker
from constructive.checker.packed import read_packed, shapes_of
from constructive.exact.directed import fixed, percent
from constructive.exact.formats import STORAGES, rounded
from constructive.exact.softmax import Floats
from constructive.layers.record import typed
from constructive.recite.causal import CausalLayer
from constructive.recite.corpus import Joined, Text, Token, joined, numbers_of, require_vocabulary
from constructive.recite.packed import pack, packable
from constructive.support.arrays import Array, Integers, Rebuilt, private
from constructive.support.errors import (
    DataError,
    ParameterError,
    PrecisionError,
    require,
    require_known,
    require_positive,
    shown,
    with_article,
)
from constructive.support.files import replacing, unpacked
from constructive.support.tables import Sheet, Shown, new_table
from constructive.support.tensors import FileForm, load_tensors, require_only, serialized
from constructive.support.work import report

# How a decoder was built: its record, and how files are read for one.


@dataclass(frozen=True)
class DecoderRecord:
    """How a decoder was built, and what was measured then.

    Attributes:
        seed: of all random choices
        num_positions: R, the different contexts which it memorized
        condition: estimated condition number of Z
        margin: the smallest margin of the next token, as float64 found it, of float32 weights
        share: of the margin which rounding in float32 may take, at worst; less than one where
            every program of the model "float32, pairwise" recites
        storage: the format in which weights are stored: "float32", "bfloat16" or "float16"

    Raises:
        ParameterError: for another storage
    """

    seed: int
    num_positions: int
    condition: float
    margin: float
    share: float
    storage: str = "float32"

    def __post_init__(self) -> None:
        require_known("storage", self.storage, STORAGES)


def _read_record(content: dict[str, Any]) -> DecoderRecord:
    """The record of a file. Raises what a file may make it raise."""
    wanted = {field.name for field in dataclasses.fields(DecoderRecord)}
    if set(content) != wanted:
        raise ValueError(f"its record is about {shown(sorted(content))}")
    record: DecoderRecord = typed(DecoderRecord, content)
    return record


# Files of decoders: with every weight as float32, or, where all weights are integers, packed.
#
# A packed file has two tensors of bytes. `about` is JSON, compressed by zlib: the vocabulary, the
# unit, the window, the record, the longest text where positions are periodic, and the rules of all
# columns (`recite.packed`). `bits` are the columns themselves, the lowest bit of each byte first.


FORM = FileForm(
    "constructive decoder 1", "decoder", "a decoder", "Decoder.save or `constructive recite`"
)
PACKED = "constructive decoder 2"  # The format of packed files

# Bytes of JSON that a packed file may have; Python takes up to 64 for each of them.
MOST_TEXT = 1 << 24
_MOST_ENTRIES = 1 << 28  # Of the weights of a packed file


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


def _unpacked(arrays: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the weights of a packed file, and what is said of them."""
    if set(arrays) != {"about", "bits"} or any(a.dtype != np.uint8 for a in arrays.values()):
        raise ValueError(f"its tensors are {sorted(arrays)}")
    content = json.loads(unpacked(arrays["about"].tobytes(), MOST_TEXT))
    rules = content["weights"]
    shapes_of(rules)  # or refuse
    _require_fitting(rules, len(content["vocabulary"]))
    return read_packed(rules, arrays["bits"], content["record"]["seed"]), content


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


if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Decoder(Rebuilt, Shown):
    """One causal attention layer which recites texts. Made by `build_decoder`.

    `repr` is one line, `str` a table, which notebooks show. All arrays are float32, and
    read-only.

    Attributes:
        embedding: a row for each token (V, d)
        positions: a row for each position (L, d)
        layer: the weights; its window is that of the decoder
        unembedding: a row for each token, and one for the end of a text (V + 1, d)
        vocabulary: the tokens
        unit: what a token is: "words", "bytes" or "ids"
        record: how it was built
        longest: the most tokens of a text, where positions are periodic; None where each position
            has a row of its own
        remembered: what was computed of these weights and is asked for again, such as margins

    Raises:
        ParameterError: for arrays whose shapes or dtypes do not fit, an unknown unit, a vocabulary
            of another unit, and a longest text that is not a positive integer
    """

    embedding: Array
    positions: Array
    layer: CausalLayer
    unembedding: Array
    vocabulary: tuple[Token, ...]
    unit: str
    record: DecoderRecord
    longest: int | None = None
    remembered: dict[str, Any] = field(default_factory=dict, init=False)

    claimed_by: ClassVar[str] = "constructive.recite.claims"

    def __post_init__(self) -> None:
        for name in ("embedding", "positions", "unembedding"):
            object.__setattr__(self, name, private(name, getattr(self, name)))
        object.__setattr__(self, "vocabulary", tuple(self.vocabulary))
        require_vocabulary(self.vocabulary, self.unit)
        if self.longest is not None:
            require_positive(longest=self.longest)
        self._require_parts()

    def _require_parts(self) -> None:
        """Require arrays that fit the tokens: ParameterError."""
        layer, tensors, count = self.layer, self.tensors, len(self.vocabulary)
        shapes = {name: array.shape for name, array in tensors.items()}
        positions = len(self.positions)
        wanted = {
            "embedding": (count, layer.width),
            "positions": (positions, layer.width),
            "unembedding": (count + 1, layer.target_dim),
        }
        if not positions or any(shapes[name] != shape for name, shape in wanted.items()):
            raise ParameterError(
                f"arrays have shapes {shapes}, for {count} tokens",
                witness=shapes,
                suggestion="embedding (V, d), positions (L, d), unembedding (V + 1, d_out)",
            )
        kinds = {str(array.dtype) for array in tensors.values()}
        finite = all(np.isfinite(array).all() for array in tensors.values())
        if kinds != {"float32"} or not finite:
            raise ParameterError(
                f"arrays are {', '.join(sorted(kinds))}{'' if finite else ', not all finite'}",
                witness=tuple(sorted(kinds)),
                suggestion="finite float32",
            )

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them."""
        return {
            "embedding": self.embedding,
            "positions": self.positions,
            **self.layer.tensors,
            "unembedding": self.unembedding,
        }

    @property
    def num_parameters(self) -> int:
        """The number of entries of all weights."""
        return sum(array.size for array in self.tensors.values())

    @property
    def num_stored(self) -> int:
        """The number of entries that a file stores: all, but for those that a formula gives."""
        return self._stored[0]

    @property
    def num_bits(self) -> int:
        """The bits of those entries: 32 each, or fewer where all weights are integers.

        The vocabulary is not counted.
        """
        return self._stored[1]

    @property
    def _stored(self) -> tuple[int, int]:
        """Numbers and bits, which are counted once."""
        if "stored" not in self.remembered:
            plain = self.num_parameters, 32 * self.num_parameters
            if packable(self.tensors):
                packed = pack(self.tensors, self.record.seed)
                plain = packed.num_stored, packed.num_bits
            self.remembered["stored"] = plain
        numbers, bits = self.remembered["stored"]
        return numbers, bits

    @property
    def num_positions(self) -> int:
        """L, the longest text which it knows positions for."""
        return len(self.positions) if self.longest is None else self.longest

    @property
    def end(self) -> int:
        """The number which stands for the end of a text: V."""
        return len(self.vocabulary)

    @property
    def float_model(self) -> str:
        """The model of floating-point programs that `generate`, `logits` and exports belong to."""
        return f"{self.record.storage}, pairwise"

    def embedded(self, ids: npt.ArrayLike) -> Array:
        """The tokens of sequences as vectors, with their positions: (S, N, d)."""
        numbers = np.asarray(ids)
        whole = numbers.ndim == 2 and numbers.dtype.kind in "iu" and numbers.size
        if not whole or numbers.min() < 0 or numbers.max() >= self.end:
            raise DataError(
                "ids are not numbers of tokens (S, N)",
                witness=shown(numbers.shape),
                suggestion=f"integers from 0 to {self.end - 1}; `ids` finds them",
            )
        length, most = numbers.shape[1], self.num_positions
        if length > most:
            raise DataError(
                f"{length} tokens are more than the {most} positions of this decoder",
                witness=length,
                suggestion=f"sequences of at most {most} tokens",
            )
        embedded: Array = self.embedding[numbers] + self.placed(np.arange(numbers.shape[1]))
        return embedded

    def placed(self, places: npt.ArrayLike) -> Array:
        """Return the rows of positions: (..., d)."""
        numbers = np.asarray(places)
        rows: Array = self.positions[
            numbers if self.longest is None else numbers % len(self.positions)
        ]
        return rows

    def ids(self, tokens: "str | bytes | Sequence[Token]") -> Integers:
        """The numbers of tokens (N,).

        Args:
            tokens: of the vocabulary; or a string of words, or bytes, if those are the tokens

        Raises:
            DataError: for a token that is not in the vocabulary, for none, and for no sequence
        """
        return numbers_of(tokens, self.vocabulary, self.unit)

    def logits(self, tokens: "str | bytes | Sequence[Token]") -> Array:
        """The logits at each position of a text: (N, V + 1), the last one for the end of a text.

        Args:
            tokens: as for `ids`

        Raises:
            DataError: for tokens it does not know, none, or too many
        """
        outputs = self.layer(self.embedded(self.ids(tokens)[np.newaxis]))
        logits: Array = outputs[0] @ self.unembedding.T
        return logits

    def generate(
        self, prompt: "str | bytes | Sequence[Token]", length: int | None = None
    ) -> tuple[Token, ...]:
        """Continue a prompt greedily, until the end of a text or so many tokens.

        What a position sees is kept, so that each token costs one row of attention.

        Args:
            prompt: one token or more, as for `ids`
            length: of what is returned, the prompt included; by default as many tokens as there
                are positions

        Returns:
            the prompt, and what follows (`joined` makes a string of it)

        Raises:
            DataError: for tokens it does not know, or none
            ParameterError: for a length which is not a positive integer, or more than there are
                positions
        """
        length = self.num_positions if length is None else length
        require_positive(length=length)
        if length > self.num_positions:
            raise ParameterError(
                f"length={length} is more than the {self.num_positions} positions of this decoder",
                witness=length,
                suggestion=f"length={self.num_positions} or less",
            )
        ids = self.ids(prompt)[:length].tolist()
        self._continue(ids, length)
        return tuple(self.vocabulary[number] for number in ids)

    def _continue(self, ids: list[int], length: int) -> None:
        """Append what follows, until the end of a text or so many tokens."""
        layer, floats = self.layer, Floats(np.float32)
        weights = floats.weights(layer.query_weights, layer.key_weights)
        outputs = np.ascontiguousarray(self.unembedding.T)
        seen = np.empty((length, layer.width), np.float32)
        seen[: len(ids)] = self.embedded([ids])[0]
        while len(ids) < length:
            report("decode", len(ids), length)
            last = len(ids) - 1
            begin = 0 if layer.window is None else max(0, last + 1 - layer.window)
            keys = seen[np.newaxis, begin : last + 1]
            attention = floats.softmax(floats.logits(weights, seen[np.newaxis, last], keys), None)
            z = np.concatenate([seen[last], floats.averages(attention, keys).reshape(-1)])
            following = int((z @ layer.readout_weights @ outputs).argmax())
            if following == self.end:
                return
            seen[len(ids)] = self.embedding[following] + self.placed(len(ids))
            ids.append(following)

    def recites(self, text: Text) -> bool:
        """Whether the next token is the largest at each position of texts, as this evaluates it.

        That is greedy decoding from each prompt, all positions at once. `certify` proves it.

        Args:
            text: what it was built for

        Raises:
            DataError: for another vocabulary, or a text which is too long
        """
        self.require_same_tokens(text)
        for batch in text.batches():
            outputs, asked = self.layer(self.embedded(batch.ids)), batch.following >= 0
            chosen = (outputs[asked] @ self.unembedding.T).argmax(axis=1)
            if not np.array_equal(chosen, batch.following[asked]):
                return False
        return True

    def require_same_tokens(self, text: object) -> None:
        """Refuse another text than that which it may have been built for."""
        if not isinstance(text, Text):
            raise DataError(
                f"the text is {with_article(type(text).__name__)}, not a Text",
                witness=type(text).__name__,
                suggestion="Text.words(string), Text.bytes(string) or Text.load(path)",
            )
        if (text.vocabulary, text.unit) != (self.vocabulary, self.unit):
            raise DataError(
                f"the text has other tokens than the decoder: {text!r}",
                witness=(text.unit, len(text.vocabulary)),
                suggestion="the text which it was built for",
            )
        if text.longest > self.num_positions:
            raise DataError(
                f"the text has {text.longest} tokens, and the decoder {self.num_positions} "
                "positions",
                witness=text.longest,
                suggestion="the text which it was built for",
            )

    def joined(self, tokens: Sequence[Token]) -> Joined:
        """Tokens one after the other: a string of words, bytes, or a tuple of token ids.

        Args:
            tokens: of the vocabulary
        """
        return joined(tokens, self.unit)

    def stored_as(self, storage: str) -> "Decoder":
        """The same decoder with weights rounded to fewer bits, as float32 arrays of such numbers.

        Args:
            storage: "float32", "bfloat16" or "float16"

        Raises:
            ParameterError: for another format, and for weights beyond its range
        """
        record = dataclasses.replace(self.record, storage=storage)
        readout = rounded(self.layer.readout_weights, storage)
        layer = dataclasses.replace(self.layer, readout_weights=readout)
        return dataclasses.replace(self, layer=layer, record=record)

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, whole or not at all.

        Tensors embedding, positions, W_Q, W_K, U and unembedding; the vocabulary, the window and
        the record are JSON in the metadata. Where all weights are integers, they are packed into
        few bits, and reading the file gives the same arrays.

        Args:
            path: the file, .safetensors; an old one of that name is replaced

        Raises:
            OutputError: where it cannot be written
        """
        content = file_content(self.tensors, self.about())
        with replacing(path) as file:
            file.write(content)

    def about(self) -> dict[str, Any]:
        """Return what is not an array, as JSON values."""
        return {
            "vocabulary": list(self.vocabulary),
            "unit": self.unit,
            "window": self.layer.window,
            "record": dataclasses.asdict(self.record),
        } | self.periodic

    @property
    def periodic(self) -> dict[str, int]:
        """What files and certificates say of positions: nothing unless they are periodic."""
        return {} if self.longest is None else {"longest": self.longest}

    @classmethod
    def load(cls, path: str | Path) -> "Decoder":
        """Read a file written by `save`.

        Args:
            path: the file

        Raises:
            FormatError: if it is not one
            OSError: if it cannot be read
        """

        def made(arrays: dict[str, Array], content: dict[str, Any]) -> "Decoder":
            tokens = {name: arrays[name] for name in ("embedding", "positions", "unembedding")}
            layer = CausalLayer(arrays["W_Q"], arrays["W_K"], arrays["U"], content["window"])
            require_only(arrays, {**tokens, **layer.tensors})
            if content.get("longest", 0) is None:
                raise ValueError("its longest text is null")  # the checker refuses it, too
            return cls(
                **tokens,
                layer=layer,
                vocabulary=tuple(content["vocabulary"]),
                unit=content["unit"],
                record=_read_record(content["record"]),
                longest=content.get("longest"),
            )

        others = {PACKED: lambda arrays, _: made(*_unpacked(arrays))}
        return load_tensors(path, FORM, made, others)

    def to_torch(self) -> "torch.nn.Module":
        """The decoder as a PyTorch module: `forward(ids)` of shape (S, N) gives logits.

        Raises:
            MissingExtraError: without torch
        """
        require("torch", extra="torch", purpose="Decoder.to_torch")
        from constructive.interop import pytorch  # noqa: PLC0415 - torch is optional

        return pytorch.DecoderModule(
            self.tensors,
            window=self.layer.window,
            float_model=self.float_model,
            longest=self.longest,
        )

    def to_onnx(self, path: str | Path) -> None:
        """Write an ONNX model, whole or not at all: ids (S, N) to logits (S, N, V + 1).

        Args:
            path: the file, .onnx; an old one of that name is replaced

        Raises:
            MissingExtraError: without onnx
            OutputError: where the file cannot be written
        """
        require("onnx", extra="onnx", purpose="Decoder.to_onnx")
        from constructive.interop import onnx_graph  # noqa: PLC0415 - onnx is optional

        model = onnx_graph.decoder_model(
            self.tensors,
            window=self.layer.window,
            float_model=self.float_model,
            longest=self.longest,
        )
        with replacing(path) as file:
            file.write(model.SerializeToString())

    def __repr__(self) -> str:
        return f"Decoder({self._summary()})"

    def _summary(self) -> str:
        layer = self.layer
        window = "" if layer.window is None else f", window {layer.window}"
        return (
            f"{self.record.num_positions} positions, V={len(self.vocabulary)} {self.unit}, "
            f"H={layer.num_heads}, d={layer.width}, d_h={layer.head_dim}{window}, "
            f"{self.record.storage}"
        )

    def _sheet(self) -> Sheet:
        return _sheet_of(self._summary(), self.record, self.tensors)


def _sheet_of(summary: str, record: DecoderRecord, tensors: Mapping[str, Array]) -> Sheet:
    """Return a few facts of a decoder, and a row for each tensor; the summary is one line."""
    built = "" if record.storage == "float32" else ", as built in float32"
    facts = (
        ("parameters", f"{sum(array.size for array in tensors.values()):,}"),
        ("condition of Z", f"{record.condition:.0e} (estimate)"),
        ("smallest margin", f"{fixed(record.margin, 2, above=False)} (measured{built})"),
        ("of it float32 may take", f"{percent(record.share, 0)} at worst{built}"),
        ("seed", str(record.seed)),
    )
    table = new_table("tensor", "shape", "what")
    what = {
        "embedding": "a row for each token",
        "positions": "a row for each position",
        "W_Q": "queries of each head",
        "W_K": "keys of each head",
        "U": f"effective readout of x and {len(tensors['W_Q'])} heads",
        "unembedding": "a row for each token, and for the end",
    }
    for name, array in tensors.items():
        table.add_row(name, " x ".join(map(str, array.shape)), what[name])
    return Sheet(f"Decoder: {summary}", facts, table)


# By how much the next token leads: the checker bounds it, for builds, figures and `certify`.


def model_of(decoder: Decoder, name: str | None) -> str:
    """Return the model of that name, or the usual one. ParameterError for another storage."""
    storage, models = decoder.record.storage, checker.MODELS | checker.INTEGER_MODELS
    known = [model for model, row in models.items() if row.kept == storage]
    wanted = decoder.float_model if name is None else name
    if wanted not in known:
        raise ParameterError(
            f"model={shown(name)} is not a model of evaluations stored in {storage}",
            witness=shown(name),
            suggestion="one of " + ", ".join(map(repr, known)),
        )
    return wanted


def judged(decoder: Decoder, text: Text, model: str | None = None) -> checker.Decoder:
    """Return the decoder on a text as the checker has it, with what that has computed.

    The decoder remembers the last one, so that margins are bounded once for all uses.
    """
    decoder.require_same_tokens(text)
    named = model_of(decoder, model)
    last, found = decoder.remembered.get("judged", ((), None))
    if found is None or last[0] is not text or last[1] != named:
        found = checker.decoder(
            decoder.tensors,
            np.split(text.ids, text.starts[1:]),
            named,
            prompt=text.prompt,
            window=decoder.layer.window,
            period=None if decoder.longest is None else len(decoder.positions),
            tell=report,
        )
        decoder.remembered["judged"] = (text, named), found
    about: checker.Decoder = found
    return about


def recital(decoder: Decoder, text: Text, *, model: str | None = None) -> checker.Margins:
    """Return the margins at all positions that something has to follow, in their order.

    Rounding is infinite where logits of heads are far from exact, or weights, tokens, queries or
    keys are not numbers of the model's storage, or where logits depend on subnormal weights, which
    some machines read as zeros. Raises PrecisionError where margins are not known at all.
    """
    try:
        margins: checker.Margins = judged(decoder, text, model).margins
    except ValueError as failure:
        raise PrecisionError(
            f"margins are not known: {failure}",
            suggestion="a decoder of build_decoder, whose logits are short integers",
        ) from failure
    return margins


def measured(decoder: Decoder, text: Text, *, whole: bool = False) -> Decoder:
    """Return the decoder with its least margin in the record, and what float32 may take of one.

    Margins that are whole are integers, and each bound is less than one below its margin.
    """
    seen = recital(decoder, text)
    least = seen.least.min()
    margin, share = float(np.ceil(least) if whole else least), float(seen.share.max())
    record = dataclasses.replace(decoder.record, margin=margin, share=share)
    found = dataclasses.replace(decoder, record=record)
    found.remembered.update(decoder.remembered)  # as the weights are the same
    return found
