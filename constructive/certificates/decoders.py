"""Certificates of decoders: what a causal layer puts out at every position of a text."""

import numpy as np

from constructive.certificates.about import described, made_by
from constructive.certificates.certificate import DECODER_FORMAT, Certificate
from constructive.certificates.claims.decoders import CLAIMS
from constructive.certificates.claims.decoders.subject import Subject
from constructive.certificates.prover import Asked, Known
from constructive.data.texts import Text
from constructive.exact.models import model_named
from constructive.layers.causal.margins import Margins
from constructive.layers.decoder import Decoder
from constructive.layers.recital import Recital
from constructive.sequences.storage import digest


def known_claims(_decoder: Decoder) -> Known:
    """The claims which there are, and how to call them."""
    return Known(tuple(CLAIMS), tuple(CLAIMS), "claims about decoders")


def prove(decoder: Decoder, text: Text, asked: Asked) -> Certificate:
    """Judge the claims about a decoder which are asked for."""
    return _proved(decoder, text, asked, None)


def prove_recital(found: Recital) -> Certificate:
    """Judge all claims about a decoder whose margins were bounded when it was built.

    Args:
        found: decoder, text, and the margins which `layers.recital` gave for them
    """
    asked = Asked(tuple(CLAIMS))
    return _proved(found.decoder, found.text, asked, found.margins)


def _proved(decoder: Decoder, text: Text, asked: Asked, margins: Margins | None) -> Certificate:
    decoder.require_same_tokens(text)
    data = {
        "texts": text.num_texts,
        "tokens": len(text),
        "vocabulary": len(text.vocabulary),
        "sha256": digest(text.content()),
    }
    weights = described(decoder.tensors) | {
        "window": decoder.layer.window,
        "storage": decoder.record.storage,
    }
    subject = Subject(
        decoder,
        text,
        bytes.fromhex(data["sha256"] + weights["sha256"]),
        np.random.default_rng(asked.seed),
        model_named(asked.model, decoder.record.storage),
        margins,
    )
    claims = tuple(CLAIMS[name](subject) for name in asked.claims)
    return Certificate(claims, data, weights, made_by(), DECODER_FORMAT)
