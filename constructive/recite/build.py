"""`build_decoder`: one causal layer that recites texts, from Theorem 12, without training.

`parameters="many"` solves for a real readout, here; `parameters="few"` (`compact`) for one of short
integers, with far fewer weights.
"""

import math
from typing import Any

import numpy as np

from constructive.constructions.multihead import readout as shortest
from constructive.recite.causal import CausalLayer
from constructive.recite.compact import build_few
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder, DecoderRecord, measured
from constructive.support.arrays import Array, Integers, row_chunks
from constructive.support.errors import (
    CapacityError,
    DataError,
    ParameterError,
    PrecisionError,
    in_three_parts,
    refuse,
    require_known,
    require_positive,
    require_seed,
    with_article,
)
from constructive.support.work import one_blas_thread, report
from constructive.theory.bounds import heads_in_words, require_heads

# The options that each of both takes, beside the seed.
TAKES = {
    "many": ("width", "num_heads", "head_dim", "window", "code_width"),
    "few": ("window", "outputs", "readout", "every"),
}


@in_three_parts
def build_decoder(
    text: Text,
    *,
    width: int | None = None,
    parameters: str = "many",
    num_heads: int | None = None,
    head_dim: int | None = None,
    window: int | None = None,
    code_width: int | None = None,
    outputs: int | None = None,
    readout: str | None = None,
    every: bool | None = None,
    seed: int = 0,
) -> Decoder:
    """Build a causal layer that recites texts, word for word, in greedy decoding.

    Args:
        text: one text or several
        width: d, the entries of a token; only for many parameters. Without it, many parameters are
            spent on heads of rank one with a window, which need the fewest
        parameters: "many" for a real readout, "few" for saturated heads and a readout of integers
        num_heads: H; by default a little above R / d for R positions, and more until the margins
            bear every rounding of float32; only for many parameters
        head_dim: d_h; by default d where a width is given, which is much better conditioned than
            less; only for many parameters
        window: how many tokens a position sees, itself among them; by default all up to itself
            where a width is given, else 16, and 8 for few parameters, where it is a power of two
        code_width: d_out, the entries of an output; by default d where a width is given, else 16;
            only for many parameters
        outputs: k, the numbers that choose a token; by default the fewest that work; only for few
            parameters
        readout: "int8", "int16" or "float32", the format that the integers of the readout fit;
            by default "int16"; only for few parameters
        every: whether every position has an equation of its own, so that any other labels of these
            contexts have a readout, too (the claim *rank*); only for few parameters
        seed: of all random choices

    Raises:
        ParameterError: for sizes that are not positive integers, a head dimension above d, options
            of the other construction, unknown names, and for few parameters windows that are not
            powers of two, and texts whose equations do not fit into memory
        DataError: where equal contexts have different continuations; the witness is both positions
        CapacityError: for more positions than (H + 1) d, and for more than d that see one token
            only, first ones or all in a window of one: rows of Z are dependent for all heads
        PrecisionError: where the rounded readout does not give every next token, as for widths at
            which codes of tokens are too much alike

    Source: Theorem 12 (proofs/17); Propositions 21.2 to 21.5 (proofs/21).

    Example:
        >>> from constructive import Text, build_decoder
        >>> text = Text.words("the cat sat on the mat, and the cat saw the rat")
        >>> decoder = build_decoder(text, width=64)
        >>> decoder
        Decoder(24 positions, V=10 words, H=1, d=64, d_h=64, float32)
        >>> decoder.joined(decoder.generate("the", len(text)))
        'the cat sat on the mat, and the cat saw the rat'
        >>> small = build_decoder(text, parameters="few")
        >>> small.joined(small.generate("the", len(text)))
        'the cat sat on the mat, and the cat saw the rat'
    """
    if not isinstance(text, Text):
        raise ParameterError(
            f"text is {with_article(type(text).__name__)}, not a Text",
            witness=type(text).__name__,
            suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
        )
    require_known("parameters", parameters, TAKES)
    require_seed(seed)
    options: dict[str, Any] = {
        "width": width, "num_heads": num_heads, "head_dim": head_dim, "window": window,
        "code_width": code_width, "outputs": outputs, "readout": readout, "every": every,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    foreign = {f"{name}=": given[name] for name in given if name not in TAKES[parameters]}
    if foreign:
        other = "few" if parameters == "many" else "many"
        raise refuse(foreign, f"parameters={parameters!r}", [f"parameters={other!r}"])
    with one_blas_thread():
        if parameters == "few":
            return build_few(text, seed, **given)
        return _build_many(text, seed, given)


# Decoders with many parameters: a real readout, and a bound on all that float32 rounds.
#
# Tokens and positions have codes with random signs, entries +-1/2, so that x_i has entries -1, 0,
# 1. W_Q has small random integers, and W_K is a power of two times the identity, such that logits
# have a standard deviation near 8: sharp heads are well conditioned. With these logits are
# integers below 2^24 times a power of two, in whatever order they are summed, so that float32
# makes no error in them at all; with general weights rounding in logits alone would take the
# margins.
#
# The outputs wanted are unembedding rows over d, with random signs: the next token's logit is 1,
# and others are of the size of 1/sqrt(d). Z U = Y is solved for the shortest readout, in float64,
# and the solution is rounded to float32.
#
# By Theorem 12 the rows of N positions of generic sequences have rank N as soon as (H + 1) d >= N;
# so H is a little above N / d. With the fewest heads that rank allows, the condition number can
# jump; so by default some more are taken, until rounding in float32 cannot change any token.
#
# Outputs may have fewer entries than tokens (`code_width`): then unembedding rows are points of a
# sphere, as far from each other as they get.
#
# Source: Theorem 12 (proofs/17); the construction is ours.


_DEVIATION = 8.0  # Standard deviation of logits which is aimed at
_LARGEST_ENTRY = 3  # Of the integers in W_Q
_SAMPLE = 128  # Positions on which the deviation is measured
# Heads which are tried: multiples of R / d, and some more.
#
# A single sharp head may see nothing but the last token, whose rows are nearly equal then.
_ROOM = ((1.15, 0), (1.4, 1), (1.8, 3), (2.4, 7))

_DEFAULTS = {"head_dim": 1, "window": 16, "code_width": 16}
# Of heads of rank one, where no width is given: the first one whose margins bear float32.
_DEFAULT_WIDTHS = (32, 64, 128)
_LAST_WIDTH = 256  # Of heads of full rank, where none of these does


def _build_many(text: Text, seed: int, given: dict[str, int]) -> Decoder:
    """Build a decoder of a width, or the smallest one of the default widths that works."""
    require_positive(**given)
    if "width" in given:
        return _of_width(text, seed, **given)
    for width in _DEFAULT_WIDTHS:
        try:
            found = _of_width(text, seed, width, **_DEFAULTS | given)
        except (CapacityError, DataError, PrecisionError):
            continue
        if found.record.share < 1.0:
            return found
    return _of_width(text, seed, _LAST_WIDTH, **given)


def _of_width(
    text: Text,
    seed: int,
    width: int,
    num_heads: int | None = None,
    head_dim: int | None = None,
    window: int | None = None,
    code_width: int | None = None,
) -> Decoder:
    """A decoder of a width. Raises what `build_decoder` raises."""
    head_dim = head_dim or width
    if head_dim > width:
        raise ParameterError(
            f"head_dim={head_dim} is more than the width {width}",
            witness=head_dim,
            suggestion=f"head_dim={width}, the default",
        )
    each = width * (2 * head_dim + (code_width or width) + len(text.vocabulary))
    require_heads(num_heads or 1, text.num_positions, each)
    wanted = text.different(window)
    total = len(wanted)
    alone = total if window == 1 else int(np.isin(wanted, text.starts).sum())
    if alone > width:
        raise CapacityError(
            f"{alone} positions see one token, which all heads give back: whatever weights are, "
            f"their rows have rank d={width} at most",
            witness=alone,
            suggestion=f"width={alone}" + (", or window=2" if window == 1 else ", or prompt=2"),
        )
    if num_heads is not None and total > (num_heads + 1) * width:
        raise CapacityError(
            f"{total} positions are too many for {heads_in_words(num_heads)} chosen before the "
            "text, and the skip connection: rows have "
            f"(H + 1) d = {(num_heads + 1) * width} entries",
            witness=total,
            suggestion=f"num_heads={-(-total // width)}, or None",
        )
    tried = [max(1, math.ceil(room * total / width)) + more for room, more in _ROOM]
    if num_heads is not None:
        tried = [num_heads]
    for heads in tried:
        found = _built(text, wanted, seed, (width, heads, head_dim), window, code_width)
        record = found.record
        if record.share < 1.0:
            return found
    with np.errstate(over="ignore", invalid="ignore"):  # of a readout that is not one
        recites = found.recites(text)
    if not recites:
        raise PrecisionError(
            f"{tried[-1]} heads with a readout in float32 do not give every next token: the "
            f"condition number of Z is about {record.condition:.0e} (estimate), and the smallest "
            f"margin {record.margin:.1e}",
            witness={"margin": record.margin, "condition": record.condition},
            suggestion="a larger width=, more heads, or head_dim=None",
        )
    return found


def _built(
    text: Text,
    wanted: Integers,
    seed: int,
    shape: tuple[int, int, int],
    window: int | None,
    code_width: int | None,
) -> Decoder:
    """A decoder of d, H and d_h, with what was measured of it."""
    width, heads, head_dim = shape
    rng = np.random.default_rng(seed)
    embedding = _signs(rng, (len(text.vocabulary), width)) / 2.0
    positions = _signs(rng, (text.longest, width)) / 2.0
    unembedding = (
        _signs(rng, (len(text.vocabulary) + 1, width))
        if code_width is None
        else spread_codes(rng, len(text.vocabulary) + 1, code_width)
    )
    queries, keys = _heads(rng, heads, width, head_dim)
    first = next(text.batches()).ids[0]
    keys *= _scale(queries, keys, embedding[first] + positions[: len(first)], rng)
    layer = CausalLayer(queries, keys, np.zeros(((heads + 1) * width, 1)), window=window)

    number = np.full(len(text), -1)
    number[wanted] = np.arange(len(wanted))
    z = np.empty((len(wanted), layer.inner_dim))
    done = 0
    for batch in text.batches():
        index = np.where(batch.places >= 0, number[batch.places], -1)
        tokens = embedding[batch.ids] + positions[: batch.ids.shape[1]]
        for rows, representation in layer.chunks(tokens):
            report("attend", done, len(text))
            where = index[rows]
            z[where[where >= 0]] = representation[where >= 0]
            done += where.size
    report("solve", 0, 1)
    targets = unembedding[text.following[wanted]] / (unembedding[0] @ unembedding[0])
    solution = shortest.solve(z, targets)
    del z
    # Beyond float32 it is not a readout, and will be refused for its margins.
    most = float(np.finfo(np.float32).max)
    effective = np.clip(solution.effective, -most, most)
    w_q, w_k, effective = (w.astype(np.float32) for w in (queries, keys, effective))
    decoder = Decoder(
        embedding.astype(np.float32),
        positions.astype(np.float32),
        CausalLayer(w_q, w_k, effective, window),
        unembedding.astype(np.float32),
        text.vocabulary,
        text.unit,
        DecoderRecord(seed, len(wanted), solution.condition, -math.inf, math.inf),
    )
    return measured(decoder, text)


def _signs(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Random codes with entries 1 and -1."""
    signs: Array = 2.0 * rng.integers(2, size=shape) - 1.0
    return signs


def _heads(rng: np.random.Generator, heads: int, width: int, head_dim: int) -> tuple[Array, Array]:
    """W_Q and W_K (H, d, d_h), integers; W_K the identity where that has full rank."""
    shape = heads, width, head_dim
    queries = rng.integers(-_LARGEST_ENTRY, _LARGEST_ENTRY + 1, size=shape).astype(np.float64)
    if head_dim == width:
        return queries, np.broadcast_to(np.eye(width), shape).copy()
    return queries, 2.0 * rng.integers(2, size=shape) - 1.0


def _scale(queries: Array, keys: Array, tokens: Array, rng: np.random.Generator) -> float:
    """The power of two which brings the deviation of logits nearest to what is aimed at."""
    some = tokens[rng.permutation(len(tokens))[:_SAMPLE]]
    logits = (some @ queries) @ (some @ keys).transpose(0, 2, 1)
    deviation = float(logits.std(axis=2).mean()) or 1.0
    return 2.0 ** round(math.log2(_DEVIATION / deviation))


# Codes of tokens with few entries: points of a sphere that keep away from each other.


_STEPS = 200
_PRODUCTS = 1 << 28  # Inner products in all steps together, unless these are only a few steps
_FEWEST = 20
_STEP = 0.3
# Of repulsion, at the beginning and what is added until the end: only near points count.
_SHARP = 20.0, 400.0
_ENTRIES = 1 << 22  # Of the inner products that are in memory at once


def spread_codes(rng: np.random.Generator, count: int, width: int) -> Array:
    """Return unit vectors (count, width) whose largest inner product is small, as float32 numbers.

    Each point moves away from those next to it, a little less in each step.
    """
    points = _unit(rng.standard_normal((count, width)))
    steps = max(_FEWEST, min(_STEPS, _PRODUCTS // count**2))
    for step in range(steps):
        cooled = 1.0 - step / steps
        sharp = _SHARP[0] + _SHARP[1] * (1.0 - cooled)
        moved = np.empty_like(points)
        for part in row_chunks(count, count, _ENTRIES):
            products = points[part] @ points.T
            at = np.arange(len(products))
            products[at, part.start + at] = -1.0
            nearest = products.max(axis=1, keepdims=True)
            weights = np.exp(sharp * (products - nearest))
            weights /= weights.sum(axis=1, keepdims=True)
            moved[part] = points[part] - _STEP * cooled * (1.05 - nearest) * (weights @ points)
        points = _unit(moved)
    codes: Array = points.astype(np.float32).astype(np.float64)
    return codes


def _unit(points: Array) -> Array:
    """The points, moved to the sphere."""
    scaled: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return scaled
