"""Certificates of layers with all claims, and records of layers that nobody built."""

from constructive import certify
from constructive.certificates.certify import family_of
from constructive.layers.record import BuildRecord, HeadRecord


def certified(memorizer, data, **options):
    """What `certify` makes if *readout* is asked for besides the usual claims."""
    known = family_of(memorizer).available(memorizer)
    names = [name for name, kind in known.items() if kind.is_usual(memorizer) or name == "readout"]
    return certify(memorizer, data, claims=names, **options)


def record_of(construction, data, groups, order):
    """A record of heads with these groups (start, stop), of which nothing else is known."""
    return BuildRecord(
        construction=construction,
        shared_keys=False,
        num_examples=data.num_examples,
        context_size=data.context_size,
        capacity=data.num_examples,
        seed=0,
        saturated_fraction=0.0,
        scalar_targets=data.targets.ndim == 1,
        condition=1.0,
        max_error=0.0,
        largest_target=1.0,
        heads=tuple(HeadRecord(start, stop, 0.0, 0.0, stop) for start, stop in groups),
        order=tuple(map(int, order)),
    )
