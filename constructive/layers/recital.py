"""How a decoder recites: the margin of every next token, and what rounding takes of it."""

import dataclasses

import numpy as np

from constructive.data.texts import Text
from constructive.exact.float_model import EXECUTED
from constructive.layers.causal.bounded import ExactLogits, exact_logits, has_table
from constructive.layers.causal.margins import Margins, margins
from constructive.layers.decoder import Decoder
from constructive.support.errors import PrecisionError
from constructive.support.progress import Progress, silent


def logits_of(decoder: Decoder, text: Text) -> ExactLogits:
    """What is known of the logits of the heads at all positions of texts.

    Args:
        decoder: which has the tokens of the text
        text: one text or several
    """
    return exact_logits(decoder.layer, decoder.every_token(text))


def recital(decoder: Decoder, text: Text, *, progress: Progress = silent) -> Margins:
    """The margins at all positions which something has to follow, in the order of the texts.

    Rounding is that of the decoder's storage (`exact.float_model.EXECUTED`). It is infinite where
    logits of heads are not exact in float32, or their factors in the format of storage.

    Args:
        decoder: which has the tokens of the text
        text: one text or several
        progress: called with (step, done, total)

    Raises:
        DataError: for another vocabulary, or a text which is too long
        PrecisionError: where logits of heads are not exact in float64, or are multiples of so small
            a number that there is no table of their exponentials
    """
    decoder.require_same_tokens(text)
    known, model = logits_of(decoder, text), EXECUTED[decoder.record.storage]
    if not has_table(known):
        raise PrecisionError(
            f"logits of heads are integers of {known.bits} bits times {known.unit:.0e}, too many "
            "or too fine for a table of their exponentials",
            witness=known.bits,
            suggestion="a decoder of build_decoder, whose logits are short integers",
        )
    parts, done = [], 0
    for batch in text.batches():
        tokens = decoder.embedded(batch.ids).astype(np.float64)
        weights = decoder.layer, decoder.unembedding
        for part in margins(*weights, model, tokens, known, batch.following, batch.places):
            progress("bound the rounding", done, text.num_positions)
            done += len(part.least)
            parts.append(part)
    together = Margins.together(parts)
    if known.exact_in(model):
        return together
    nothing = np.full(len(together.least), np.inf)
    return dataclasses.replace(together, error=nothing, share=nothing)
