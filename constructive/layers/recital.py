"""How a decoder recites: the margin of every next token, and what rounding takes of it."""

import dataclasses

import numpy as np

from constructive.data.texts import Text
from constructive.exact.float_model import EXECUTED
from constructive.layers.causal.bounded import ExactLogits, exact_logits
from constructive.layers.causal.margins import Margins, margins
from constructive.layers.decoder import Decoder, rounded
from constructive.support.errors import PrecisionError
from constructive.support.progress import Progress, silent


def exact_tokens(decoder: Decoder, text: Text) -> ExactLogits:
    """What is known of the logits of the heads at all positions of texts.

    Args:
        decoder: which has the tokens of the text
        text: one text or several

    Raises:
        PrecisionError: where tokens and positions do not add up exactly in float32, or where
            logits of heads are not exact in float64, or multiples of so small a number that there
            is no table of their exponentials
    """
    tokens, exact = decoder.every_token(text)
    if not np.array_equal(tokens, exact):
        raise PrecisionError(
            "a token and its position do not add up exactly in float32",
            witness=float(np.abs(tokens - exact).max()),
            suggestion="a decoder of build_decoder, whose entries are multiples of 1/2",
        )
    known = exact_logits(decoder.layer, tokens)
    if not known.tabulated:
        raise PrecisionError(
            f"differences of logits are up to {known.logits.largest:.1e} in units of "
            f"{known.logits.unit:.1e}: too many, or too fine, for a table of exponentials",
            witness=known.logits.bits,
            suggestion="a decoder of build_decoder, whose logits are short integers",
        )
    return known


def recital(decoder: Decoder, text: Text, *, progress: Progress = silent) -> Margins:
    """The margins at all positions which something has to follow, in the order of the texts.

    Rounding is that of the decoder's storage (`exact.float_model.EXECUTED`). It is infinite where
    logits of heads are not exact in float32, or weights, tokens, queries or keys not in storage.

    Args:
        decoder: which has the tokens of the text
        text: one text or several
        progress: called with (step, done, total)

    Raises:
        DataError: for another vocabulary, or a text which is too long
        PrecisionError: as `exact_tokens` does
    """
    decoder.require_same_tokens(text)
    known, model = exact_tokens(decoder, text), EXECUTED[decoder.record.storage]
    parts, done = [], 0
    for batch in text.batches():
        tokens = decoder.embedded(batch.ids).astype(np.float64)
        weights = decoder.layer, decoder.unembedding
        for part in margins(*weights, model, tokens, known, batch.following, batch.places):
            progress("bound the rounding", done, text.num_positions)
            done += len(part.least)
            parts.append(part)
    together = Margins.together(parts)
    stored = (
        np.abs(w).max() <= model.largest and np.array_equal(rounded(w, model.name), w)
        for w in decoder.tensors.values()
    )
    if known.exact_in(model) and all(stored):
        return together
    nothing = np.full(len(together.least), np.inf)
    return dataclasses.replace(together, error=nothing, share=nothing)
