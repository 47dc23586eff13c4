"""Certificates of layers with all claims of a default certificate, and *readout*."""

from constructive import certify
from constructive.certificates.certify import family_of


def certified(memorizer, data, **options):
    """What `certify` makes if *readout* is asked for besides the usual claims."""
    known = family_of(memorizer).available(memorizer)
    names = [name for name, kind in known.items() if kind.is_usual(memorizer) or name == "readout"]
    return certify(memorizer, data, claims=names, **options)
