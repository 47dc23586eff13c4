"""`build_sequence_memorizer`: sequences and labels in, exact weights out.

*Theorem.* Let N sequences have n tokens in Q^d each, and labels that are functions of the key of
an example (`examples`): integers in a range of C, or classes, which are numbered. Then two
token-wise ReLU networks around one layer of uniform attention, with rational weights, output
exactly the labels. With M keys below R, the second one has O(sqrt(M log(M C log R)) + log(C R))
weights, of as many bits, and the first one O(d + log(q) + log(U)) by a product hash of projections
below U (proofs/14-sequences.md).

Source: Kajitsuka and Sato (ICLR 2025) for the statement; the construction is a derivation of this
project, from Vardi, Yehudai and Shamir (ICLR 2022), and its constants may differ from theirs.
"""

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from constructive.sequences import dictionary
from constructive.sequences.constructions import (
    CONSTRUCTIONS,
    Embedded,
    Projection,
    project,
    rounding,
    smallest_modulus,
)
from constructive.sequences.dictionary import Comparison
from constructive.sequences.examples import SequenceDataset, conflict
from constructive.sequences.memorizer import BoundSizes, SequenceMemorizer, SequenceRecord
from constructive.sequences.network import Affine, Program, UniformAttention
from constructive.support.errors import (
    ParameterError,
    require_known,
    require_positive,
    require_seed,
    shown,
)

_SEEDS = 1 << 128


def build_sequence_memorizer(
    sequences: SequenceDataset | Sequence[Any],
    labels: Sequence[Any] | None = None,
    *,
    task: str | None = None,
    construction: str = "product_hash",
    max_word_bits: int | None = None,
    seed: int = 0,
) -> SequenceMemorizer:
    """Memorize a label for each sequence, or for each token of each, with about sqrt(N) weights.

    Args:
        sequences: a `SequenceDataset`, as `certify` takes it, too; or N sequences of n tokens:
            integers, Fractions or floats (taken exactly), vectors of these in Q^d, or hashable
            symbols such as words
        labels: for sequences N of them, or N times n for seq2seq; integers of any size, or hashable
            classes, which are numbered by frequency
        task: for sequences "next", the default: a label belongs to a multiset of tokens; "last": to
            that and the last token; "seq2seq": to that and the token at its position
        construction: "product_hash", the default, or "separating_set" of at most N - 1 tokens,
            which may need fewer weights, or more; for floats "float_separating_set"
        max_word_bits: of the code words in the dictionary, as far as no label alone is longer; 52
            bits suit float64; by default any number
        seed: of all random choices; each is checked before it is used, so that no label rests on
            chance

    Raises:
        ParameterError: for arguments that make no sense
        DataError: for sequences of different lengths, and for labels that are not function of the
            key, with two examples as witness
        PrecisionError: where no number of 61 bits tells the examples apart, which was never seen

    Example:
        >>> dataset = SequenceDataset.of(["abc", "abd", "aab"], ["x", "y", "z"])
        >>> memorizer = build_sequence_memorizer(dataset)
        >>> memorizer.predict(["bca", "aab"])
        ['x', 'z']
        >>> build_sequence_memorizer(["abc", "abd"], ["x", "y"]).predict(["bca"])
        ['x']
    """
    require_known("construction", construction, CONSTRUCTIONS)
    require_seed(seed)
    if max_word_bits is not None:
        require_positive(max_word_bits=max_word_bits)
        max_word_bits = index(max_word_bits)
    seed = index(seed)
    if seed >= _SEEDS:
        raise ParameterError(
            f"seed= has {seed.bit_length()} bits", witness=seed.bit_length(), suggestion="seed=0"
        )
    examples = _dataset(sequences, labels, task)
    kind = CONSTRUCTIONS[construction]
    rng = np.random.default_rng(seed)
    projected = project(examples, rng)
    embedded = kind.embed(kind.comparison, examples, projected, max_word_bits, rng)
    classifier, below, modulus = _classifier(
        examples, projected, embedded, kind.comparison, max_word_bits, rng
    )
    size, width = examples.ids.shape[1], len(embedded.program.outputs)
    return SequenceMemorizer(
        task=examples.task,
        context_size=size,
        embedding=embedded.program.network(),
        attention=UniformAttention.summing(size, width),
        classifier=classifier.network(),
        symbols=examples.symbols,
        classes=None if examples.integers else examples.classes,
        record=SequenceRecord(
            construction=kind.name,
            max_word_bits=max_word_bits,
            seed=seed,
            num_sequences=len(examples.ids),
            sizes=BoundSizes(
                keys=examples.num_keys,
                width=examples.tokens.shape[1],
                label_bits=(max(examples.values) - min(examples.values) + 1).bit_length(),
                token_bits=projected.size.bit_length(),
                residue_bits=projected.modulus.bit_length(),
                kept=embedded.kept,
                weight_bits=embedded.heaviest.bit_length(),
                sum_bits=below.bit_length(),
                key_bits=modulus.bit_length(),
            ),
        ),
    )


def _dataset(
    sequences: SequenceDataset | Sequence[Any], labels: Sequence[Any] | None, task: str | None
) -> SequenceDataset:
    """What was given as a dataset, which has its labels and its task, or as sequences."""
    if not isinstance(sequences, SequenceDataset):
        if labels is None:
            raise ParameterError(
                "sequences without labels",
                witness=type(sequences).__name__,
                suggestion="build_sequence_memorizer(sequences, labels), or a SequenceDataset",
            )
        return SequenceDataset.of(sequences, labels, "next" if task is None else task)
    other = task is not None and not (isinstance(task, str) and task == sequences.task)
    if labels is not None or other:
        raise ParameterError(
            f"a SequenceDataset has its labels, and its task {sequences.task!r}",
            witness="labels" if labels is not None else shown(task),
            suggestion="build_sequence_memorizer(dataset)",
        )
    return sequences


def _classifier(
    examples: SequenceDataset,
    projected: Projection,
    embedded: Embedded,
    comparison: Comparison,
    max_word_bits: int | None,
    rng: np.random.Generator,
) -> tuple[Program, int, int]:
    """From (h, S), or (h, t, S), to the label: one key, its remainder, and the dictionary.

    Return the program, R above the keys, and Q above them once they are reduced.
    """
    sums = embedded.hashes[examples.ids].sum(axis=1)
    contexts, own = examples.with_own(sums, projected.residues)
    below = examples.ids.shape[1] * int(embedded.hashes.max()) + 1
    inputs: tuple[str, ...] = ("h", "S")
    key, keys = Affine({"S": 1}), contexts.astype(object)
    if examples.per_position:
        inputs, key = ("h", "t", "S"), Affine({"S": projected.modulus, "t": 1})
        keys = keys * projected.modulus + own
        below *= projected.modulus
    different, first = np.unique(keys, return_index=True)
    labels = examples.labels[first]
    values = [examples.values[label] for label in labels.tolist()]
    least = min(values)
    if least == max(values):
        return Program(inputs, {}, (), (Affine({}, least),)), below, 1
    alone = np.zeros(len(different), dtype=np.int64)
    modulus, residues = smallest_modulus(
        different, below, lambda r: conflict(labels, alone, r) is None, rng
    )
    table = {z: value - least for z, value in zip(residues.tolist(), values, strict=True)}
    blocks = dictionary.plan(
        {z: value for z, value in table.items() if value},  # 0 is what all other integers get
        modulus,
        comparison=comparison,
        max_word_bits=max_word_bits,
    )
    noise = rounding((examples.ids.shape[1] + 4) * below + 4 * projected.size, max_word_bits)
    steps = (
        *comparison.remainder("z", modulus, below),
        *dictionary.steps(blocks, comparison, noise),
    )
    program = Program(inputs, {"z": key}, steps, (Affine({"T": 1}, least),))
    return program, below, modulus
