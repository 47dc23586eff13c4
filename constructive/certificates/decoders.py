"""Certificates of decoders whose margins were bounded when they were built."""

from constructive.certificates.certificate import Certificate
from constructive.certificates.claims.options import CertifyOptions
from constructive.certificates.families import DECODERS
from constructive.layers.causal.margins import Margins
from constructive.layers.recital import Recital


def prove_recital(found: Recital) -> Certificate:
    """Judge all claims about a decoder and a text, whose margins are not bounded again.

    Args:
        found: decoder, text, and the margins that `layers.recital` gave for them
    """
    names = tuple(DECODERS.available(found.decoder))
    known = {Margins: found.margins}
    return DECODERS.prove(found.decoder, found.text, names, CertifyOptions(), known)
