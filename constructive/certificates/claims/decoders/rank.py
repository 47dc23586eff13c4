"""The claim *rank* of a decoder: any other continuations of its contexts are within reach, too.

Contexts at one position with the same tokens in their window are one. Z, with a row for each
different context, has as many independent rows modulo a prime, as in `claims.rank`, of which this
takes the evidence, and the reasons why it is one.
"""

import numpy as np

from constructive.certificates.claims.decoders.subject import Subject
from constructive.certificates.claims.rank import judged
from constructive.exact import modular
from constructive.exact.arithmetics.residues import Integers, Point, Residues
from constructive.layers import residues
from constructive.layers.recital import added_tokens
from constructive.layers.views import Causal
from constructive.support.arrays import Array
from constructive.support.errors import PrecisionError
from constructive.support.progress import report
from constructive.support.verdict import Claim, Verdict

STATEMENT = (
    "rank Z = R = {} on the different contexts: for all Y some readout U ((H + 1) d, d_out) has "
    "Z U = Y"
)


def prove(subject: Subject) -> Claim:
    """Prove or refute it.

    Args:
        subject: decoder and text
    """
    layer = subject.decoder.layer
    wanted = subject.text.different(layer.window)
    total, statement = len(wanted), STATEMENT.format(len(wanted))
    if total > layer.inner_dim:
        detail = f"Z has {layer.inner_dim} columns, fewer than {total} contexts"
        return Claim("rank", statement, Verdict.REFUTED, detail, layer.inner_dim)
    try:  # residues are of sums of two, which have to be those of float32
        added_tokens(subject.decoder, subject.text)
    except PrecisionError as failure:
        detail = f"{failure.problem}; {failure.suggestion}"
        return Claim("rank", statement, Verdict.UNDECIDED, detail)
    found = residues.search_rows(
        lambda point, columns: _rows(subject, wanted, point, columns),
        total,
        (layer.num_heads + 1, layer.width),
        subject.rng,
    )
    return judged(found, total, statement, subject.fingerprints, "more heads")


def _rows(subject: Subject, wanted: Integers, point: Point, columns: Integers) -> Array:
    """Some columns of Z(a) modulo p, with a row for each place: (R, columns)."""
    decoder, text = subject.decoder, subject.text
    number = np.full(len(text) + 1, -1)  # the last one stands for what is filled up
    number[wanted] = np.arange(len(wanted))
    codes = np.concatenate([decoder.embedding, decoder.positions])
    exponent = modular.least_exponent(codes)  # sums of these are multiples of it, too
    arithmetic = Residues(point, exponent, exponent)
    weights = decoder.layer.query_weights, decoder.layer.key_weights
    rows, done = np.empty((len(wanted), len(columns))), 0
    for batch in text.batches():
        index = number[batch.places]
        view = Causal(decoder.embedded(batch.ids), decoder.layer.window)
        for at, z in residues.attended(arithmetic, weights, view, columns, skip=True):
            report("attend modulo a prime", done, len(text))
            where = index[at]
            rows[where[where >= 0]] = z[where >= 0]
            done += where.size
    report("eliminate modulo a prime", 0, 1)
    return rows
