"""Certificates of decoders: one causal layer which recites texts, token by token.

Token v at position i is x_i = embedding_v + position_i, with row i mod L' of positions where they
are periodic. Head h of position i averages the x_j up to
i, or the last `window` of them, by softmax of x_j . W_K W_Q^T x_i; U^T (x_i, averages) is the
output, and its products with the rows of the unembedding are the logits.
"""

import hashlib
import json
import math
from contextlib import suppress
from fractions import Fraction
from functools import cached_property

import numpy as np

from . import packed
from .attend import Causal, rows_at_once
from .bounds import above, below
from .claim import About, Claim, Refuted, Shown, Unshown
from .files import (
    BYTES,
    announce,
    parsed,
    read_json,
    read_weights,
    require,
    require_about,
    same,
    tensor_shapes,
    weights_header,
)
from .float_model import INTEGER_MODELS, KEPT, MODELS, of_decoders
from .integers import are_integers, integer_margins
from .margins import ENTRIES, NAMES, real_margins, unbounded
from .modular import representation
from .rank import ROUNDS

FORMATS = {
    "weights": "constructive decoder 1",
    "packed": "constructive decoder 2",
    "data": "constructive text 1",
}
KINDS = {"words": str, "bytes": int, "ids": int}


class Decoder(About):
    """Weights, and texts as numbers of tokens.

    model: of the programs that *executed* is about, whose format the weights are stored in
    prompt: tokens of each text which are given
    window: how many tokens a position sees, or None for all up to itself
    period: of positions, or None where each has a row of its own
    """

    format = "constructive decoder certificate 1"

    def __init__(self, weights, texts, model, options, prompt=1, window=None, period=None):
        self.weights, self.texts, self.model = weights, texts, model
        self.prompt, self.window, self.period = prompt, window, period
        self.hashes, self.quick, self.tell = b"", options.quick, options.tell

    @classmethod
    def read(cls, content, files, claims, options):
        """What is in these files, when they are small enough, and are those of the certificate."""
        require(len(files) == 2, "the files are CERTIFICATE WEIGHTS DATA")
        texts, prompt, unit, vocabulary, data = read_texts(files[1], options.most)
        require(same(content["data"], data), "the certificate is about other data")
        shapes, about, unpacked, read = read_about(files[0], options.most)
        window, storage = about["window"], about["record"]["storage"]
        require(window is None or (type(window) is int and window > 0), "the window is none")
        require(storage in KEPT, "the storage is none")
        fits = same(about["vocabulary"], vocabulary) and about["unit"] == unit
        require(fits, "decoder and text have different vocabularies")
        longest, period, more = max(map(len, texts)), None, {"window": window, "storage": storage}
        if "longest" in about:  # positions are periodic
            periods = about["longest"]
            require(type(periods) is int and periods >= longest, "a text has no positions")
            longest, more, period = 1, more | {"longest": periods}, shapes["positions"][1][0]
        require_shapes(shapes, len(vocabulary), longest)
        held, operations = needs_of(claims, shapes, texts, window)
        announce(held + unpacked, operations, options.most)
        usual = MODELS[f"{storage}, pairwise"]
        model = claims["executed"].model(storage) if "executed" in claims else usual
        decoder = cls(read(), texts, model, options, prompt, window, period)
        hashed = require_about(content, decoder.weights, "weights", **more)
        decoder.hashes = bytes.fromhex(data["sha256"]) + hashed
        return decoder

    def view(self):
        codes = self.weights["embedding"], self.weights["positions"]
        heads = len(self.weights["W_Q"])
        return Causal(codes, self.texts, heads, self.window, ENTRIES, self.period)

    @cached_property
    def wanted(self):
        """The rows of Z: one for each different context."""
        return different(self.texts, self.prompt, self.window)

    def rows_of_z(self):
        """A view, which of its rows Z has, and how many columns that has."""
        return self.view(), self.wanted, len(self.weights["U"])

    def modulo(self, point, columns):
        """The given columns of Z at a point, modulo a prime (`modular.representation`)."""
        view, wanted, _ = self.rows_of_z()
        return representation(self.weights, view, wanted, point, columns, self.tell)

    @cached_property
    def margins(self):
        """What is known of the margin of each position."""
        return margins_of(self, self.model)

    @property
    def places(self):
        return sum(len(ids) - self.prompt + 1 for ids in self.texts)

    def position(self, index):
        """A position that has a margin, by the number of its text and that of its token."""
        ends = np.cumsum([len(ids) for ids in self.texts])
        place = int(self.margins.places[index])
        text = int(np.searchsorted(ends, place, side="right"))
        return text, place - int(ends[text]) + len(self.texts[text])


def margins_of(on, model):
    """Integers are exact. Where they decide nothing bounds may, but for models of integers."""
    if are_integers(on.weights):
        with suppress(ValueError):
            return integer_margins(on, model)
    if not model.factors:
        return real_margins(on, model)
    return unbounded(margins_of(on, MODELS[f"{model.kept}, pairwise"]))


def read_about(path, most):
    """Types and shapes of weights, what is said of them, what bits take, and what reads weights."""
    metadata = weights_header(path, most)[0]["__metadata__"]
    if metadata["format"] == FORMATS["packed"]:
        places, _ = tensor_shapes(path, ("about", "bits"), most, kinds=BYTES)
        require(all(len(shape) == 1 for _, shape, _ in places.values()), "bytes have other axes")
        (said,), (bits,) = (places[name][1] for name in ("about", "bits"))
        require(64 * said <= most, "what the weights say is too large for --max-memory")
        content = read_weights(path, {"about": places["about"]})["about"].tobytes()
        about = packed.described(content, most)
        rules, seed = about["weights"], about["record"]["seed"]
        shapes = packed.shapes_of(rules)

        def read_bits():
            return packed.read_packed(
                rules, read_weights(path, {"bits": places["bits"]})["bits"], seed
            )

        return shapes, about, packed.UNPACKED * bits, read_bits
    require(metadata["format"] == FORMATS["weights"], "the weights are not decoder")
    shapes, _ = tensor_shapes(path, NAMES, most)
    return shapes, parsed(metadata["decoder"]), 0, lambda: read_weights(path, shapes)


def read_texts(path, most):
    """The texts as numbers of tokens, the prompt, unit and vocabulary, and what names the data."""
    content = read_json(path, "data", most)
    require(content["format"] == FORMATS["data"], "the data are not text")
    unit, prompt, vocabulary, texts = (
        content[name] for name in ("unit", "prompt", "vocabulary", "texts")
    )
    require(len(content) == 5 and unit in KINDS, "the unit is none")
    require(type(vocabulary) is list and type(texts) is list and texts, "there is no text")
    tokens = all(type(token) is KINDS[unit] for token in vocabulary)
    require(tokens and len(set(vocabulary)) == len(vocabulary), "the vocabulary is none")
    require(type(prompt) is int and prompt > 0, "the prompt is none")
    for ids in texts:
        require(type(ids) is list and len(ids) >= prompt, "a text is shorter than its prompt")
        inside = all(type(i) is int and 0 <= i < len(vocabulary) for i in ids)
        require(inside, "a token is none of the vocabulary")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    count = sum(map(len, texts))
    data = {"texts": len(texts), "tokens": count, "vocabulary": len(vocabulary)}
    data["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    return [np.array(ids) for ids in texts], prompt, unit, vocabulary, data


def require_shapes(shapes, count, longest):
    embedding, positions, w_q, w_k, u, unembedding = (shapes[name][1] for name in NAMES)
    require(all(kind == "<f4" for kind, *_ in shapes.values()), "the weights are not float32")
    require(len(w_q) == 3 and len(u) == len(unembedding) == 2, "the weights have other axes")
    heads, width, _ = w_q
    fits = w_k == w_q and embedding == (count, width) and u[0] == (heads + 1) * width
    fits = fits and len(positions) == 2 and positions[1] == width and positions[0] >= longest
    require(fits and unembedding == (count + 1, u[1]), "the weights do not fit together")


def needs_of(claims, shapes, texts, window):
    """Bytes and operations, from shapes alone."""
    heads, width, inner = shapes["W_Q"][1]
    outputs, count = shapes["unembedding"][1][1], shapes["unembedding"][1][0]
    lengths = [len(ids) for ids in texts]
    total, longest, block, rows = sum(lengths), max(lengths), ENTRIES, 1
    for length in set(lengths):
        seen = min(length, window or length)
        most = rows_at_once(length, heads, seen, ENTRIES)
        block, rows = max(block, heads * most * min(length, most + seen)), max(rows, most)
    held = 8 * (6 * block + 10 * rows * (heads + 1) * width + 8 * longest * width)
    held += 8 * heads * width * (6 * width + 6 * inner)
    held += 8 * max(1, ENTRIES // 8 // (count + outputs)) * (20 * (count + outputs))
    held += sum(28 * math.prod(shape) for _, shape, _ in shapes.values()) + 400 * total + (1 << 26)
    pairs = sum(length * min(length, rows + (window or length)) for length in lengths)
    once = 2 * pairs * heads * width + 2 * total * (heads + 1) * width * (width + outputs)
    once += 2 * heads * width * inner * (2 * width + 5 * total) + 10**6 * len(texts)
    held += 8 * longest * heads  # which tokens heads read
    operations = 0
    if "rank" in claims:
        held += 8 * total * (total + 3 * ROUNDS + 4096 + min(window or 0, longest))
        operations = once + total**3
    if set(claims) & {"recites", "executed"}:
        operations += 2 * once + 6 * total * outputs * count
    return held, operations


def different(texts, prompt, window):
    """The places, of all texts one after the other, whose contexts were not met before.

    They are those where something has to follow. A context is a position, and the tokens in its
    window.
    """
    met, found, start = {}, [], 0
    whole = window is None or window >= max(map(len, texts))
    for ids in texts:
        listed, context = ids.tolist(), 0
        for i, token in enumerate(listed):
            seen = (context, token)
            if not whole:
                seen = (i, *listed[max(0, i + 1 - window) : i + 1])
            if seen not in met:
                met[seen] = len(met) + 1
                found += [start + i] * (i >= prompt - 1)
            context = met[seen]
        start += len(listed)
    return np.array(found, dtype=int)


# The claims *recites* and *executed* of a decoder: margins of the next token, everywhere.


class Recites(Claim):
    """The least margin is what is claimed, or more."""

    name = "recites"
    statement = (
        "at all {} positions of S = {} texts the next token has the largest "
        "logit, by {} or more, in real arithmetic"
    )

    def numbers(self, about):
        return about.places, len(about.texts), repr(self.bound if "bound" in self.evidence else 0.0)

    def check(self, about):
        margins = about.margins
        worst = int(margins.least.argmin())
        least, place = float(margins.least[worst]), about.position(worst)
        if "bound" in self.evidence and 0.0 < self.bound <= least:
            detail = f"the smallest margin is that after token {place[1]} of text {place[0]}"
            return Shown(self.numbers(about), detail)
        beaten = int(margins.most.argmin())
        if margins.most[beaten] <= 0.0:
            place = about.position(beaten)
            raise Refuted(
                f"after token {place[1]} of text {place[0]} another logit is as large, or larger "
                f"by up to {above(-float(margins.least[beaten]))}",
                place,
            )
        words = f"the least margin is {below(least, 6)}, as shown, after token {place[1]} of text "
        raise Unshown(f"{words}{place[0]}; more heads, or a larger width", place)


class Executed(Claim):
    """Rounding takes less than the margin everywhere, in programs of a model."""

    name = "executed"
    statement = (
        "at all {} positions of S = {} texts the next token has the largest "
        "logit for every program of the model {!r}: {}"
    )

    def model(self, kept):
        """The model that its evidence names, of numbers stored in a format."""
        name, models = self.evidence["model"], MODELS | INTEGER_MODELS
        require(type(name) is str and name in models, "executed: its model is none")
        require(models[name].kept == kept, f"executed: its model does not store in {kept}")
        return models[name]

    def numbers(self, about):
        sizes = about.places, len(about.texts)
        return *sizes, self.evidence["model"], of_decoders(about.model)

    def check(self, about):
        require(self.model(about.model.kept) == about.model, "margins are of another model")
        share = about.margins.share
        index, over = int(share.argmax()), int((share >= 1.0).sum())
        text, token = about.position(index)
        after, taken = f"after token {token} of text {text}", float(share[index])
        if taken == math.inf:
            raise Unshown(
                f"vacuous: nothing bounds rounding {after}: logits of heads or stored weights are "
                "not exact, sums may be out of range or longer than 2^20 terms, or no margin is "
                "known",
                (text, token),
            )
        part = f"{above(100 * Fraction(taken))}% of"
        if over:
            detail = f"{after} rounding may take {part} the margin; {over} positions are like that"
            raise Unshown(f"{detail}; more heads, or more bits in storage", (text, token))
        return Shown(self.numbers(about), f"rounding takes {part} a margin at most, {after}")
