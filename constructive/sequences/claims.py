"""The claims about sequence memorizers: *equality* of every label, and their *size*.

Both are statements about integers and Fractions (docs/claims.md). Sizes of the build stand in the
record; where they are larger than they can be (`largest_sizes`), the size is left UNDECIDED.
"""

import dataclasses
import json
from math import lcm
from typing import Any

import numpy as np

from constructive.certificates.certificate import SEQUENCE_FORMAT
from constructive.certificates.certify import ClaimFamily
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.sequences.examples import SequenceDataset, expected_outputs
from constructive.sequences.memorizer import BoundSizes, SequenceMemorizer
from constructive.sequences.network import Column, combination
from constructive.sequences.storage import encoded
from constructive.support.errors import shown
from constructive.support.files import digest
from constructive.support.verdict import Claim, Verdict
from constructive.support.work import report

Sequences = Subject[SequenceMemorizer, SequenceDataset]


class Equality(ClaimKind):
    """The claim *equality*."""

    name = "equality"
    statement = "f(X) == y for all {} labels of N = {} sequences of n = {} tokens"

    def judge(self, subject: Sequences) -> Claim:
        """Evaluate all examples, and compare with ==."""
        report("judge the equality", 0, 1)
        memorizer, dataset = subject.weights, subject.data
        count, size = dataset.ids.shape
        total = len(dataset.labels)
        statement = self.statement.format(total, count, size)
        known = expected_outputs(memorizer.classes, dataset.classes)
        values = np.array(known, dtype=object)[dataset.labels]
        found = memorizer.outputs(*memorizer.encode_dataset(dataset))
        wrong = np.flatnonzero(found.astype(object) != values)
        if not len(wrong):
            other = _other_kind(memorizer, dataset)
            verdict = Verdict.UNDECIDED if other else Verdict.PROVED
            return Claim("equality", statement, verdict, other or "by rational arithmetic, exactly")
        first = int(wrong[0])
        sequence, position = divmod(first, size)
        witness = (sequence, position) if dataset.task == "seq2seq" else first
        label = dataset.classes[dataset.labels[first]]
        (given,) = memorizer.labeled(found[first : first + 1], 1)[:1]
        given = given[0] if dataset.task == "seq2seq" else given
        detail = (
            f"{len(wrong)} labels differ: at {witness} it is {shown(given)}, not {shown(label)}"
        )
        return Claim("equality", statement, Verdict.REFUTED, detail, witness)


class Size(ClaimKind):
    """The claim *size*."""

    name = "size"
    statement = "{} non-zero parameters <= {}: Theorem 7 for {}"

    def judge(self, subject: Sequences) -> Claim:
        """Count weights, and compare with the formula."""
        report("judge the size", 0, 1)
        memorizer, dataset = subject.weights, subject.data
        outputs = expected_outputs(memorizer.classes, dataset.classes)
        known = [value for value in outputs if value is not None]
        labels = max(known) - min(known) + 1 if known else 1
        sizes = dataclasses.replace(
            memorizer.record.sizes,
            keys=dataset.num_keys,
            width=memorizer.width,
            label_bits=labels.bit_length(),
        )
        weights = memorizer.nonzero_parameters
        numbers = dataclasses.asdict(sizes)
        named = ", ".join(f"{name} {value}" for name, value in numbers.items())
        statement = self.statement.format(weights, sizes.bound, named)
        largest = largest_sizes(memorizer, dataset, sizes)
        other = _other_kind(memorizer, dataset)
        if other:
            return Claim("size", statement, Verdict.UNDECIDED, other)
        beyond = {name: most for name, most in largest.items() if numbers[name] > most}
        if beyond:
            which, most = next(iter(beyond.items()))
            detail = (
                f"{which} = {numbers[which]} of the record is more than the {most} which are "
                "possible for these data; certify what was built, with the data it was built for"
            )
            return Claim("size", statement, Verdict.UNDECIDED, detail)
        detail = (
            f"{memorizer.total_parameters:,} in dense matrices; non-zero ones have "
            f"{memorizer.total_bits:,} bits in all, {memorizer.largest_bits} at most"
        )
        if weights <= sizes.bound:
            return Claim("size", statement, Verdict.PROVED, detail, evidence=numbers)
        return Claim("size", statement, Verdict.REFUTED, detail, weights, numbers)


def _other_kind(memorizer: SequenceMemorizer, dataset: SequenceDataset) -> str:
    """Name the value that is equal in Python but has two encodings in files, or "".

    To Python 1, 1.0 and True are equal; in files they are of different kinds.
    """
    suggestion = "; symbols and labels as they were memorized"
    if memorizer.symbols is not None and dataset.symbols is None:
        return f"the tokens of the data are numbers, and the memorizer reads symbols{suggestion}"
    pairs = [("symbol", memorizer.symbols, dataset.symbols or ())]
    if memorizer.classes is not None:
        pairs.append(("label", memorizer.classes, dataset.classes))
    for name, known, given in pairs:
        kinds = {json.dumps(encoded(value)) for value in known or ()}
        for value in given:
            if json.dumps(encoded(value)) not in kinds:
                return f"the {name} {shown(value)} is none of the memorizer's{suggestion}"
    if memorizer.classes is None:
        for label in dataset.classes:
            if not isinstance(label, int):
                return f"the label {shown(label)} is not an integer{suggestion}"
    return ""


# How large the sizes of Theorem 7 can be for some data and some network, whatever a record says.
#
# The formula grows with its sizes, so large ones make a weak claim. What they may be follows from
# the data and from what the network computes; `SPARE` bits are for the chance by which a search
# missed the least number. (The checker of sequences has the same limits, of its own.)

SPARE = 8


def largest_sizes(
    memorizer: SequenceMemorizer, dataset: SequenceDataset, sizes: BoundSizes
) -> dict[str, int]:
    """Return the largest possible value of each size but for `keys`, `width` and `label_bits`."""
    columns, ids = memorizer.encode_dataset(dataset)
    contexts, _ = dataset.keys(np.arange(len(dataset.tokens)))
    hashes = _bits_of_hashes(memorizer, columns)
    pairs = 2 * len(ids).bit_length() + SPARE
    longest = memorizer.context_size.bit_length()
    longest += max(sizes.residue_bits, 1) * (pairs + SPARE)
    return {
        "token_bits": _bits_of_tokens(memorizer, columns),
        "residue_bits": sizes.token_bits,
        "prime_bits": min(hashes, pairs + sizes.residue_bits) + SPARE,
        "kept": max(len(np.unique(contexts)) - 1, 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + sizes.residue_bits + 1,
        "key_bits": min(sizes.sum_bits, 2 * sizes.keys.bit_length() + SPARE),
    }


def _bits_of_tokens(memorizer: SequenceMemorizer, columns: list[Column]) -> int:
    """Return bits of U: of what a projection reaches, and of what units of the first layer span.

    One of these units holds the projection, and one three times it; or none holds anything.
    """
    count, width = len(columns[0]), len(columns)
    entries = [x for column in columns for x in column.tolist()]
    unit = lcm(*(x.denominator for x in entries))
    reach = (2 * width * int(max(abs(x * unit) for x in entries)) + 1).bit_length()
    reach += 0 if width == 1 else 2 * count.bit_length() + SPARE
    units = (unit.tolist() for unit in memorizer.embedding.layers[0](columns, count))
    spans = (int(max(unit) - min(unit) + 1) for unit in units if max(unit) > min(unit))
    return min([reach, *(span.bit_length() for span in spans)])


def _bits_of_hashes(memorizer: SequenceMemorizer, columns: list[Column]) -> int:
    """Return bits of n times the largest hash of a token, which attention reads."""
    read = combination(memorizer.embedding(columns), memorizer.attention.value_weights)
    return int(max(*read.tolist(), 0)).bit_length()


EQUALITY, SIZE = Equality(), Size()


# What a certificate says that it is about.


def _describe(
    weights: SequenceMemorizer, data: SequenceDataset
) -> tuple[dict[str, Any], dict[str, Any]]:
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
