"""The claims about sequence memorizers: *equality* of every label, and their *size*.

Both are statements about integers and Fractions. Equality is shown by evaluating the network on
every example. The bound in the claim size is the formula of Theorem 7 (`contextual.bounds`), with
numbers of these data and of this build; the latter stand in the record, and where they are larger
than they can be (`contextual.limits`), the claim is left UNDECIDED.
"""

import dataclasses

import numpy as np

from constructive.contextual.examples import SequenceDataset
from constructive.contextual.limits import largest_sizes
from constructive.contextual.memorizer import SequenceMemorizer, expected_outputs
from constructive.errors import shown
from constructive.verdict import Claim, Verdict


def equality(memorizer: SequenceMemorizer, dataset: SequenceDataset) -> Claim:
    """Evaluate all examples, and compare with ==."""
    count, size = dataset.ids.shape
    total = len(dataset.labels)
    statement = f"f(X) == y for all {total} labels of N = {count} sequences of n = {size} tokens"
    known = expected_outputs(memorizer.classes, dataset.classes)
    values = np.array(known, dtype=object)[dataset.labels]
    found = memorizer.outputs(*memorizer.encode_dataset(dataset))
    wrong = np.flatnonzero(found.astype(object) != values)
    if not len(wrong):
        return Claim("equality", statement, Verdict.PROVED, "by rational arithmetic, exactly")
    first = int(wrong[0])
    sequence, position = divmod(first, size)
    witness = (sequence, position) if dataset.task == "seq2seq" else first
    label = dataset.classes[dataset.labels[first]]
    (given,) = memorizer.labelled(found[first : first + 1], 1)[:1]
    given = given[0] if dataset.task == "seq2seq" else given
    detail = f"{len(wrong)} labels differ: at {witness} it is {shown(given)}, not {shown(label)}"
    return Claim("equality", statement, Verdict.REFUTED, detail, witness)


def size(memorizer: SequenceMemorizer, dataset: SequenceDataset) -> Claim:
    """Count weights, and compare with the formula."""
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
    statement = f"{weights} non-zero parameters <= {sizes.bound}: Theorem 7 for {named}"
    largest = largest_sizes(memorizer, dataset, sizes)
    beyond = {name: most for name, most in largest.items() if numbers[name] > most}
    if beyond:
        which, most = next(iter(beyond.items()))
        detail = (
            f"{which} = {numbers[which]} of the record is more than the {most} which are possible "
            "for these data; certify what was built, with the data it was built for"
        )
        return Claim("size", statement, Verdict.UNDECIDED, detail)
    detail = (
        f"{memorizer.total_parameters:,} in dense matrices; non-zero ones have "
        f"{memorizer.total_bits:,} bits in all, {memorizer.largest_bits} at most"
    )
    if weights <= sizes.bound:
        return Claim("size", statement, Verdict.PROVED, detail, evidence=numbers)
    return Claim("size", statement, Verdict.REFUTED, detail, weights, numbers)
