"""The claims about sequence memorizers: *equality* of every label, and their *size*.

Both are statements about integers and Fractions (docs/claims.md), which the checker proves. What
is proposed are the sizes of the build, from the record.
"""

import dataclasses
from typing import Any

from constructive import checker
from constructive.certificates.certificate import SEQUENCE_FORMAT
from constructive.certificates.certify import ClaimFamily
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.layers import Proposed
from constructive.sequences.examples import SequenceDataset, expected_outputs
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.files import digest
from constructive.support.verdict import Evidence
from constructive.support.work import report

Sequences = Subject[SequenceMemorizer, SequenceDataset]


class OfSequences(Proposed):
    """A claim about a memorizer of sequences, as the checker reads its file."""

    def about(self, subject: Sequences) -> checker.Sequences:
        """Return the memorizer and the data, which are evaluated once for all claims."""
        weights, data = subject.weights, subject.data
        return subject.once(
            checker.Sequences,
            lambda: checker.sequence_memorizer(weights.content(), data.content(), tell=report),
        )


class Equality(OfSequences):
    """The claim *equality*."""

    name = "equality"

    def propose(self, subject: Sequences) -> Evidence:  # noqa: ARG002 - all is in the files
        """Return nothing, as nothing is needed."""
        return {}


class Size(OfSequences):
    """The claim *size*."""

    name = "size"

    def propose(self, subject: Sequences) -> Evidence:
        """Return the sizes of the build, and those of the data."""
        memorizer, dataset = subject.weights, subject.data
        outputs = expected_outputs(memorizer.classes, dataset.classes)
        known = [value for value in outputs if value is not None]
        labels = max(known) - min(known) + 1 if known else 1
        sizes = dataclasses.asdict(memorizer.record.sizes) | {
            "keys": dataset.num_keys,
            "width": memorizer.width,
            "label_bits": labels.bit_length(),
        }
        del sizes["prime_bits"]
        return sizes


EQUALITY, SIZE = Equality(), Size()


# What a certificate says that it is about.


def _describe(
    weights: SequenceMemorizer, data: SequenceDataset
) -> tuple[dict[str, Any], dict[str, Any]]:
    weights.encode_dataset(data)  # DataError for other data
    count, size = data.ids.shape
    about_data = {
        "sequences": count,
        "context_size": size,
        "tokens": len(data.tokens),
        "task": data.task,
        "sha256": digest(data.content()),
    }
    about_weights = {
        "nonzero": weights.nonzero_parameters,
        "embedding_depth": weights.embedding.depth,
        "classifier_depth": weights.classifier.depth,
        "sha256": digest(weights.content()),
    }
    return about_data, about_weights


FAMILY = ClaimFamily(
    "sequences",
    SequenceDataset,
    SEQUENCE_FORMAT,
    {kind.name: kind for kind in (EQUALITY, SIZE)},
    _describe,
)
