"""How a decoder recites: the margin of every next token, and what rounding takes of it."""

import dataclasses

import numpy as np

from constructive.data.corpus import Text
from constructive.exact.float_model import FloatModel
from constructive.exact.models import model_named
from constructive.layers.causal.integers import integer_margins, require_integers
from constructive.layers.causal.margins import Margins, margins
from constructive.layers.decoder import Decoder
from constructive.layers.exact_logits import ExactLogits, exact_positions
from constructive.support.arrays import Array, first_place
from constructive.support.errors import PrecisionError, shown
from constructive.support.progress import report


def exact_tokens(decoder: Decoder, text: Text, model: FloatModel) -> ExactLogits:
    """What is known of the logits of the heads at all positions of texts."""
    layer = decoder.layer
    weights = layer.query_weights, layer.key_weights
    known = exact_positions(weights, added_tokens(decoder, text), model)
    if not known.tabulated:
        raise PrecisionError(
            f"differences of logits are up to {known.most:.1e} in units of {known.unit:.1e}: "
            "too many, or too fine, for a table of exponentials",
            witness=int(known.logits().bits.max()),
            suggestion="a decoder of build_decoder, whose logits are short integers",
        )
    return known


def added_tokens(decoder: Decoder, text: Text) -> Array:
    """Each different token of texts at each position it has there, which float32 adds exactly.

    Float64 may round as float32 does; the sum is exact where each part is what is left of it
    without the other (Knuth's TwoSum).
    """
    places = np.arange(len(text)) - np.repeat(text.starts, text.lengths)
    pairs = np.unique(np.stack([text.ids, places]), axis=1)
    token = decoder.embedding[pairs[0]].astype(np.float64)
    position = decoder.placed(pairs[1]).astype(np.float64)
    with np.errstate(over="ignore"):
        added = token + position
        tokens: Array = added.astype(np.float32)
        filled = decoder.embedding[0] + decoder.placed(np.arange(text.longest))
    rest = added - token
    exact = (tokens == added) & (rest == position) & (added - rest == token)
    if not exact.all() or not np.isfinite(filled).all():
        raise PrecisionError(
            "a token and its position do not add up exactly in float32",
            witness=shown(None if exact.all() else first_place(~exact)),
            suggestion="a decoder of build_decoder, whose entries are multiples of 1/2",
        )
    return tokens


def _normal(weights: Array) -> bool:
    """Whether all entries are normal numbers or zero, so that no machine reads zeros for them."""
    sizes = np.abs(weights[weights != 0])
    return bool((sizes >= np.finfo(np.float32).smallest_normal).all())


def recital(decoder: Decoder, text: Text, *, model: FloatModel | None = None) -> Margins:
    """The margins at all positions which something has to follow, in the order of the texts.

    The decoder remembers those of the last text, so that they are bounded once for all uses.

    Rounding is infinite where logits of heads are far from exact, or weights, tokens, queries or
    keys are not numbers of the model's storage, or where logits depend on subnormal weights, which
    some machines read as zeros.
    """
    decoder.require_same_tokens(text)
    if model is None:
        model = model_named(None, decoder.record.storage, decoder=True)
    last, bounded = decoder.remembered.get("margins", ((), None))
    if bounded is None or last[0] is not text or last[1] != model:
        bounded = _bounded(decoder, text, model)
        decoder.remembered["margins"] = (text, model), bounded
    found: Margins = bounded
    return found


def _bounded(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Take integers where they decide it, and bounds where they do not."""
    try:
        return _of_integers(decoder, text, model)
    except PrecisionError:
        if model.factors is not None:  # nothing else is known of it
            raise
        return _by_bounds(decoder, text, model)


def _of_integers(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Margins of a decoder of integers. Raises PrecisionError for others."""
    require_integers(decoder.tensors, model)
    added_tokens(decoder, text)  # raises where float32 does not add them exactly
    parts = []
    for number, start in enumerate(text.starts.tolist()):
        report("read the tokens of saturated heads", number, text.num_texts)
        places = np.arange(start, start + int(text.lengths[number]))
        ids = text.ids[places]
        following = np.append(ids[1:], text.end)
        following[: text.prompt - 1] = -1
        tokens = decoder.embedded(ids[np.newaxis])[0]
        asked = decoder.layer.window, following, places
        parts.append(integer_margins(decoder.tensors, model, tokens, *asked))
    return Margins.together(parts)


def _by_bounds(decoder: Decoder, text: Text, model: FloatModel) -> Margins:
    """Margins of any decoder with exact logits of heads."""
    known = exact_tokens(decoder, text, model)
    parts, done = [], 0
    for batch in text.batches():
        tokens = decoder.embedded(batch.ids).astype(np.float64)
        weights, asked = (decoder.layer, decoder.unembedding), (batch.following, batch.places)
        for part in margins(*weights, model, tokens, known, *asked, text.longest):
            report("bound the rounding", done, text.num_positions)
            done += len(part.least)
            parts.append(part)
    together = Margins.together(parts)
    of_logits = decoder.embedding, decoder.positions, *list(decoder.layer.tensors.values())[:2]
    stored = map(model.storage.holds, decoder.tensors.values())
    if all(stored) and all(map(_normal, of_logits)):
        return together
    nothing = np.full(len(together.least), np.inf)
    return dataclasses.replace(together, error=nothing, share=nothing)
