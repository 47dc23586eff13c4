"""`build_sequence_memorizer`: sequences and labels in, exact weights out.

*Theorem.* Let N sequences have n tokens in Q^d each, and labels which are functions of the key of
an example (`examples`): integers in a range of C, or classes, which are numbered. Then two
token-wise ReLU networks around one layer of uniform attention, with rational weights, output
exactly the labels. With M keys below R, the second one has O(sqrt(M log(M C log R)) + log(C R))
weights, of as many bits, and the first one O(d + log(q) log(P) + log(U)) by a power hash of
projections below U (proofs/14-sequences.md).

Source: Kajitsuka and Sato (ICLR 2025) for the statement; the construction is a derivation of this
project, from Vardi, Yehudai and Shamir (ICLR 2022), and its constants may differ from theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, get_args

import numpy as np

from constructive.sequences import dictionary
from constructive.sequences.attention import UniformAttention
from constructive.sequences.bounds import Sizes
from constructive.sequences.dictionary import Costs, Layout
from constructive.sequences.embedding import (
    Embedding,
    power_hash,
    product_hash,
    project,
    separating_set,
    smallest_modulus,
)
from constructive.sequences.examples import SequenceDataset, conflict
from constructive.sequences.gadgets import Comparison, remainder
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.sequences.network import Affine, Network, Program, plain, residual
from constructive.sequences.record import SequenceRecord
from constructive.support.arguments import require_positive, require_seed
from constructive.support.errors import ParameterError, shown

Backend = Literal["plain", "residual"]
EmbeddingName = Literal["power_hash", "product_hash", "separating_set"]

_SEEDS = 1 << 128
_FLOAT64, _FLOAT32 = 53, 24
_LOWERINGS: Mapping[str, Callable[[Program], Network]] = {"plain": plain, "residual": residual}
_HASHES = {"power_hash": power_hash, "product_hash": product_hash}


def build_sequence_memorizer(
    sequences: SequenceDataset | Sequence[Any],
    labels: Sequence[Any] | None = None,
    *,
    task: str | None = None,
    embedding: str = "power_hash",
    layout: str = "deep",
    backend: str = "plain",
    step: str = "ramp",
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
        embedding: "power_hash", the default; "product_hash", which needs no remainders, and so
            fewer weights; or "separating_set" of at most N - 1 tokens, which may need fewer still,
            or more
        layout: "deep", the default: layers of at most 6 units; "wide": fewer layers
        backend: "plain", the default, without skip connections, or "residual", as the blocks of a
            transformer
        step: "ramp", the default, or "saturating": twice as deep, and kinder to floats
        max_word_bits: of the code words in the dictionary, as far as no label alone is longer; 52
            bits suit float64; by default any number
        seed: of all random choices; each is checked before it is used, so that no label rests on
            chance

    Raises:
        ParameterError: for arguments which make no sense
        DataError: for sequences of different lengths, and for labels which are no function of the
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
    given = {"embedding": (embedding, EmbeddingName), "layout": (layout, Layout),
             "backend": (backend, Backend), "step": (step, Comparison)}  # fmt: skip
    for name, (value, kind) in given.items():
        if not isinstance(value, str) or value not in get_args(kind):
            raise ParameterError(
                f"unknown {name}={shown(value)}",
                witness=shown(value),
                suggestion=" or ".join(map(repr, get_args(kind))),
            )
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
    options = _Options(layout, step, backend, max_word_bits)  # type: ignore[arg-type] # checked above
    rng = np.random.default_rng(seed)
    embedded = _embedded(examples, embedding, options, rng)
    classified = _classifier(examples, embedded, options, rng)
    lower, width = _LOWERINGS[backend], len(embedded.program.outputs)
    return SequenceMemorizer(
        task=examples.task,
        context_size=examples.ids.shape[1],
        embedding=lower(embedded.program),
        attention=UniformAttention.summing(examples.ids.shape[1], width),
        classifier=lower(classified.program),
        symbols=examples.symbols,
        classes=None if examples.integers else examples.classes,
        record=SequenceRecord(
            embedding=embedding,
            layout=layout,
            backend=backend,
            step=step,
            max_word_bits=max_word_bits,
            seed=seed,
            num_sequences=len(examples.ids),
            sizes=Sizes(
                keys=examples.num_keys,
                width=examples.tokens.shape[1],
                label_bits=(max(examples.values) - min(examples.values) + 1).bit_length(),
                token_bits=embedded.size.bit_length(),
                residue_bits=embedded.modulus.bit_length(),
                prime_bits=embedded.prime.bit_length(),
                kept=embedded.kept,
                weight_bits=embedded.heaviest.bit_length(),
                sum_bits=classified.below.bit_length(),
                key_bits=classified.modulus.bit_length(),
            ),
        ),
    )


def _dataset(
    sequences: SequenceDataset | Sequence[Any], labels: Sequence[Any] | None, task: str | None
) -> SequenceDataset:
    """What was given as a data set, which has its labels and its task, or as sequences."""
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


@dataclass(frozen=True)
class _Options:
    layout: Layout
    step: Comparison
    backend: Backend
    max_word_bits: int | None

    def noise(self, units: int) -> int:
        """Rounding in last bits of a float64; those of a float32 where words are made for it."""
        short = self.max_word_bits is not None and self.max_word_bits <= _FLOAT32
        return units << (_FLOAT64 - _FLOAT32) if short else units

    def costs(self, carried: int = 0) -> Costs:
        """Of a dictionary which is built like this."""
        residual = self.backend == "residual"
        return Costs.of(self.layout, self.step, residual=residual, carried=carried)


@dataclass(frozen=True)
class _Classifier:
    """A program from the stream to the label; keys are below R, and below Q once reduced."""

    program: Program
    below: int
    modulus: int


def _embedded(
    examples: SequenceDataset, name: str, options: _Options, rng: np.random.Generator
) -> Embedding:
    projected = project(examples, rng)
    if name in _HASHES:
        return _HASHES[name](examples, projected, options.step, rng)
    return separating_set(
        examples, projected, options.step, options.layout,
        options.costs(carried=int(examples.per_position)), options.max_word_bits,
        options.noise(4 * projected.size), rng,
    )  # fmt: skip


def _classifier(
    examples: SequenceDataset, embedded: Embedding, options: _Options, rng: np.random.Generator
) -> _Classifier:
    """From (h, S), or (h, t, S), to the label: one key, its remainder, and the dictionary."""
    sums = embedded.hashes[examples.ids].sum(axis=1)
    contexts, own = examples.with_own(sums, embedded.residues)
    below = examples.ids.shape[1] * int(embedded.hashes.max()) + 1
    inputs: tuple[str, ...] = ("h", "S")
    key, keys = Affine({"S": 1}), contexts.astype(object)
    if examples.per_position:
        inputs, key = ("h", "t", "S"), Affine({"S": embedded.modulus, "t": 1})
        keys = keys * embedded.modulus + own
        below *= embedded.modulus
    different, first = np.unique(keys, return_index=True)
    labels = examples.labels[first]
    values = [examples.values[label] for label in labels.tolist()]
    least = min(values)
    if least == max(values):
        return _Classifier(Program(inputs, {}, (), (Affine({}, least),)), below, 1)
    alone = np.zeros(len(different), dtype=np.int64)
    modulus, residues = smallest_modulus(
        different, below, lambda r: conflict(labels, alone, r) is None, rng
    )
    table = {z: value - least for z, value in zip(residues.tolist(), values, strict=True)}
    blocks = dictionary.plan(
        {z: value for z, value in table.items() if value},  # 0 is what all other integers get
        modulus,
        costs=options.costs(),
        max_word_bits=options.max_word_bits,
    )
    steps = (
        *remainder("z", modulus, below, comparison=options.step),
        *dictionary.steps(
            blocks,
            layout=options.layout,
            comparison=options.step,
            noise=options.noise((examples.ids.shape[1] + 4) * below + 4 * embedded.size),
        ),
    )
    program = Program(inputs, {"z": key}, steps, (Affine({"T": 1}, least),))
    return _Classifier(program, below, modulus)
