"""Certificates of sequence memorizers: their claims are exact."""

from constructive.certificates.about import made_by
from constructive.certificates.certificate import SEQUENCE_FORMAT, Certificate
from constructive.certificates.claims import sequences
from constructive.certificates.prover import Asked, Known
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.sequences.storage import digest
from constructive.support.progress import report

CLAIMS = {"equality": sequences.equality, "size": sequences.size}


def known_claims(_memorizer: SequenceMemorizer) -> Known:
    """The claims which there are, and how to call them."""
    return Known(tuple(CLAIMS), tuple(CLAIMS), "claims about sequences")


def prove(memorizer: SequenceMemorizer, dataset: SequenceDataset, asked: Asked) -> Certificate:
    """Judge the claims about a sequence memorizer which are asked for."""
    done = []
    for index, name in enumerate(asked.claims):
        report(f"judge the {name}", index, len(asked.claims))
        done.append(CLAIMS[name](memorizer, dataset))
    report("hash data and weights", len(asked.claims), len(asked.claims))
    count, size = dataset.ids.shape
    data = {
        "sequences": count,
        "context_size": size,
        "tokens": len(dataset.tokens),
        "task": dataset.task,
        "sha256": digest(dataset.content()),
    }
    weights = {
        "nonzero": memorizer.nonzero_parameters,
        "embedding_depth": memorizer.embedding.depth,
        "classifier_depth": memorizer.classifier.depth,
        "sha256": digest(memorizer.content()),
    }
    return Certificate(tuple(done), data, weights, made_by(), SEQUENCE_FORMAT)
