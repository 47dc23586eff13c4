"""By how much the next token leads: the checker bounds it, for builds, figures and `certify`."""

import dataclasses

import numpy as np

from constructive import checker
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder
from constructive.support.errors import ParameterError, PrecisionError, shown
from constructive.support.work import report


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
