"""The claims about decoders: *rank*, *recites* and *executed* (docs/claims.md).

What is proposed here is not believed: the checker judges it.
"""

import numpy as np

from constructive import checker
from constructive.certificates.certificate import DECODER_FORMAT, Described
from constructive.certificates.certify import ClaimFamily, describe_arrays
from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.layers import Proposed, claim_of, judged_rank
from constructive.checker.bounds import below
from constructive.exact.softmax import Point, VanishingDenominatorError
from constructive.layers import residues
from constructive.layers.residues import Search
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder, judged, model_of
from constructive.support.arrays import Array, Integers
from constructive.support.files import digest
from constructive.support.verdict import Claim, Evidence

Decoders = Subject[Decoder, Text]

# The share of a margin that is stated, so that a machine whose sums round otherwise reaches it.
_ROOM = 1.0 - 2.0**-20


class OfDecoder(Proposed):
    """A claim about a decoder, as the checker has it."""

    def about(self, subject: Decoders) -> checker.Decoder:
        """Return the decoder on its text, with what the checker has computed of it."""
        return judged(subject.weights, subject.data, subject.options.model)


class DecoderRank(ClaimKind):
    """The claim *rank*, with a row for each different context.

    Contexts at one position with the same tokens in their window are one.
    """

    name = "rank"
    options = frozenset({"seed"})

    def is_usual(self, weights: Decoder) -> bool:
        """Return whether the construction promises the rank.

        Few parameters, whose positions are periodic, promise that the text is recited: positions
        with inequalities alone, and tokens in a row, may leave Z with fewer independent rows.
        """
        enough = weights.layer.inner_dim >= weights.record.num_positions
        return weights.longest is None and enough

    def judge(self, subject: Decoders) -> Claim:
        """Let the checker eliminate. DataError where equal contexts have different followers."""
        layer, rng, model = subject.weights.layer, subject.rng, subject.options.model
        wanted = len(subject.data.different(layer.window))
        rows = wanted, (layer.num_heads + 1, layer.width)
        about = judged(subject.weights, subject.data, model)
        about.hashes = subject.fingerprints

        def some(point: Point, columns: Integers) -> Array:
            try:
                z: Array = about.modulo((point.prime, point.value), columns).astype(np.float32)
            except ValueError as failure:
                raise VanishingDenominatorError from failure
            return z

        def search() -> Search:
            return residues.search_rows(some, *rows, rng)

        more = "more heads, or every=True for few parameters"
        return claim_of(*judged_rank(about, rows, rng, search, more))


class Recites(OfDecoder):
    """The claim *recites*."""

    name = "recites"

    def propose(self, subject: Decoders) -> Evidence:
        """Return the least margin, or a little less."""
        try:
            least = float(self.about(subject).margins.least.min())
        except ValueError:  # which the checker says again
            return {}
        return {"bound": float(below(least * _ROOM, 2)).hex()} if least > 0.0 else {}


class DecoderExecuted(OfDecoder):
    """The claim *executed*: so it has for every program of a model."""

    name = "executed"
    options = frozenset({"model"})

    def require_options(self, weights: Decoder, options: CertifyOptions) -> None:
        """Refuse an unknown model. Raises ParameterError."""
        model_of(weights, options.model)

    def propose(self, subject: Decoders) -> Evidence:
        """Return the model that is asked for, or that of the decoder's storage."""
        return {"model": model_of(subject.weights, subject.options.model)}


DECODER_RANK, RECITES, DECODER_EXECUTED = DecoderRank(), Recites(), DecoderExecuted()


# What a certificate says that it is about.


def _describe(weights: Decoder, data: Text) -> tuple[Described, Described]:
    weights.require_same_tokens(data)
    about_text = {
        "texts": data.num_texts,
        "tokens": len(data),
        "vocabulary": len(data.vocabulary),
        "sha256": digest(data.content()),
    }
    more = {"window": weights.layer.window, "storage": weights.record.storage}
    return about_text, describe_arrays(weights.tensors) | more | weights.periodic


FAMILY = ClaimFamily(
    "decoders",
    Text,
    DECODER_FORMAT,
    {kind.name: kind for kind in (DECODER_RANK, RECITES, DECODER_EXECUTED)},
    _describe,
)
