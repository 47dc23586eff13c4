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

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from constructive.capacity import require_positive, require_seed
from constructive.contextual import dictionary
from constructive.contextual.dictionary import Layout
from constructive.contextual.embedding import (
    Embedding,
    power_hash,
    product_hash,
    project,
    separating_set,
    smallest_modulus,
)
from constructive.contextual.examples import (
    Examples,
    Integers,
    Task,
    conflict,
    exact_vectors,
    numbered,
    read,
    rectangular,
)
from constructive.contextual.gadgets import Comparison, remainder
from constructive.contextual.network import (
    Affine,
    Column,
    Network,
    Program,
    plain,
    residual,
)
from constructive.errors import DataError, ParameterError

Backend = Literal["plain", "residual"]
EmbeddingName = Literal["power_hash", "product_hash", "separating_set"]

_LOWERINGS: Mapping[str, Callable[[Program], Network]] = {"plain": plain, "residual": residual}
_HASHES = {"power_hash": power_hash, "product_hash": product_hash}


@dataclass(frozen=True, eq=False)
class SequenceMemorizer:
    """Two token-wise ReLU networks around one layer of uniform attention, in exact arithmetic.

    embedding:  from the d entries of a token to (h, t), or to h alone for the task next
    classifier: from (S, t), or from S alone, to the label
    context_size: n. Attention has W_Q = W_K = 0, so that it is the mean; W_V is n on h and W_O
                  puts that, S, beside (h, t), which a skip connection keeps
    symbols:    tokens which are no numbers, in the order of the integers that stand for them
    classes:    labels which are no integers, in the order of the integers that stand for them
    """

    task: Task
    context_size: int
    embedding: Network
    classifier: Network
    symbols: tuple[Hashable, ...] | None
    classes: tuple[Hashable, ...] | None

    def predict(self, sequences: Sequence[Any]) -> list[Any]:
        """The label of each sequence; for seq2seq a list of labels, one for each token.

        Exact: all numbers on the way are integers or Fractions. Tokens may be any numbers; symbols
        must be those which were memorized. Raises DataError for others, and for sequences of
        another length.
        """
        listed = rectangular(sequences)
        if len(listed[0]) != self.context_size:
            raise DataError(
                f"sequences have {len(listed[0])} tokens, not {self.context_size}",
                witness=len(listed[0]),
                suggestion=f"n={self.context_size}",
            )
        different, ids = numbered(listed)
        tokens = self._vectors(different)
        found = self._outputs([tokens[:, k] for k in range(tokens.shape[1])], ids).tolist()
        labels = found if self.classes is None else [self._class(value) for value in found]
        if self.task != "seq2seq":
            return labels
        size = self.context_size
        return [labels[start : start + size] for start in range(0, len(labels), size)]

    def _vectors(self, tokens: tuple[Hashable, ...]) -> Column:
        """Different tokens as the embedding takes them: (V, d)."""
        if self.symbols is not None:
            known = {symbol: place for place, symbol in enumerate(self.symbols)}
            unknown = [token for token in tokens if token not in known]
            if unknown:
                raise DataError(
                    f"unknown token {unknown[0]!r}",
                    witness=str(unknown[0]),
                    suggestion=f"one of the {len(known)} symbols which were memorized",
                )
            return np.array([[known[token]] for token in tokens], dtype=object)
        vectors = exact_vectors(tokens)
        width = self.embedding.layers[0].width
        if vectors is None or vectors.shape[1] != width:
            raise DataError(
                f"the tokens are no vectors of {width} numbers, as those which were memorized",
                witness=str(tokens[0]),
                suggestion="tokens of the same kind",
            )
        return vectors

    def _class(self, value: int) -> Hashable:
        """What an output stands for; None where it stands for no class (off the data)."""
        classes = self.classes or ()
        known = isinstance(value, int) and 0 <= value < len(classes)
        return classes[value] if known else None

    def _outputs(self, columns: list[Column], ids: Integers) -> Column:
        """What the classifier gives for each example."""
        embedded = self.embedding(columns)
        sums = embedded[0][ids].sum(axis=1)
        if self.task == "next":
            return self.classifier([sums])[0]
        if self.task == "last":
            return self.classifier([sums, embedded[1][ids[:, -1]]])[0]
        repeated = np.repeat(sums, self.context_size)
        return self.classifier([repeated, embedded[1][ids].reshape(-1)])[0]

    @property
    def nonzero_parameters(self) -> int:
        """Weights and biases which are not zero; the attention has two, in W_V and in W_O."""
        return self.embedding.nonzero_parameters + self.classifier.nonzero_parameters + 2

    @property
    def total_parameters(self) -> int:
        """Weights and biases of dense matrices, and the two of the attention."""
        return self.embedding.total_parameters + self.classifier.total_parameters + 2

    def __repr__(self) -> str:
        return (
            f"SequenceMemorizer({self.task}, n={self.context_size}, "
            f"{self.nonzero_parameters:,} parameters, depth "
            f"{self.embedding.depth} + {self.classifier.depth})"
        )


def build_sequence_memorizer(
    sequences: Sequence[Any],
    labels: Sequence[Any],
    *,
    task: str = "next",
    embedding: str = "power_hash",
    layout: str = "deep",
    backend: str = "plain",
    step: str = "ramp",
    max_word_bits: int | None = None,
    seed: int = 0,
) -> SequenceMemorizer:
    """Memorize a label for each sequence, or for each token of each, with about sqrt(N) weights.

    sequences: N sequences of n tokens: integers, Fractions or floats (taken exactly), vectors of
               these in Q^d, or hashable symbols such as words
    labels:    N of them, or N times n for seq2seq; integers of any size, or hashable classes
    task:      "next": a label belongs to a multiset of tokens; "last": to that and the last token;
               "seq2seq": to that and the token at its position
    embedding: "power_hash", or "separating_set" of at most N - 1 tokens
    layout:    "deep": width 6, or 7 where a residue is carried beside; "wide": fewer layers
    backend:   "plain", without skip connections, or "residual", as the blocks of a transformer
    step:      "ramp", or "saturating": twice as deep, and kinder to floats
    max_word_bits: of the code words in the dictionary, as far as no label alone is longer; 53 bits
               fit a float64
    seed:      of all random choices; each is checked before it is used, so that no label rests on
               chance

    Raises ParameterError for arguments which make no sense, DataError for sequences of different
    lengths and for labels which are no function of the key, with two examples as witness, and
    PrecisionError where no number of 61 bits tells the examples apart, which was never seen.

    >>> memorizer = build_sequence_memorizer(["abc", "abd", "aab"], ["x", "y", "z"])
    >>> memorizer.predict(["bca", "aab"])
    ['x', 'z']
    """
    given = {"embedding": (embedding, EmbeddingName), "layout": (layout, Layout),
             "backend": (backend, Backend), "step": (step, Comparison)}  # fmt: skip
    for name, (value, kind) in given.items():
        if not isinstance(value, str) or value not in get_args(kind):
            raise ParameterError(
                f"unknown {name}={value!r}",
                witness=value,
                suggestion=" or ".join(map(repr, get_args(kind))),
            )
    require_seed(seed)
    if max_word_bits is not None:
        require_positive(max_word_bits=max_word_bits)
    examples = read(sequences, labels, task)
    options = _Options(layout, step, max_word_bits)  # type: ignore[arg-type] # checked above
    rng = np.random.default_rng(seed)
    embedded = _embedded(examples, embedding, options, rng)
    lower = _LOWERINGS[backend]
    return SequenceMemorizer(
        task=examples.task,
        context_size=examples.ids.shape[1],
        embedding=lower(embedded.program),
        classifier=lower(_classifier(examples, embedded, options, rng)),
        symbols=examples.symbols,
        classes=None if examples.integers else examples.classes,
    )


@dataclass(frozen=True)
class _Options:
    layout: Layout
    step: Comparison
    max_word_bits: int | None


def _embedded(
    examples: Examples, name: str, options: _Options, rng: np.random.Generator
) -> Embedding:
    projected = project(examples, rng)
    if name != "separating_set":
        return _HASHES[name](examples, projected, options.step, rng)
    return separating_set(
        examples, projected, options.step, options.layout, options.max_word_bits, rng
    )


def _classifier(
    examples: Examples, embedded: Embedding, options: _Options, rng: np.random.Generator
) -> Program:
    """The program from S, or (S, t), to the label: one key, its remainder, and the dictionary."""
    sums = embedded.hashes[examples.ids].sum(axis=1)
    contexts, own = examples.with_own(sums, embedded.residues)
    below = examples.ids.shape[1] * int(embedded.hashes.max()) + 1
    inputs: tuple[str, ...] = ("S",)
    key, keys = Affine({"S": 1}), contexts.astype(object)
    if examples.per_position:
        inputs, key = ("S", "t"), Affine({"S": embedded.modulus, "t": 1})
        keys = keys * embedded.modulus + own
        below *= embedded.modulus
    different, first = np.unique(keys, return_index=True)
    labels = examples.labels[first]
    values = [examples.values[label] for label in labels.tolist()]
    least = min(values)
    if least == max(values):
        return Program(inputs, {}, (), (Affine({}, least),))
    alone = np.zeros(len(different), dtype=np.int64)
    modulus, residues = smallest_modulus(
        different, below, lambda r: conflict(labels, alone, r) is None, rng
    )
    table = {z: value - least for z, value in zip(residues.tolist(), values, strict=True)}
    blocks = dictionary.plan(
        {z: value for z, value in table.items() if value},  # 0 is what all other integers get
        modulus,
        max_word_bits=options.max_word_bits,
    )
    steps = (
        *remainder("z", modulus, below, comparison=options.step),
        *dictionary.steps(blocks, layout=options.layout, comparison=options.step),
    )
    return Program(inputs, {"z": key}, steps, (Affine({"T": 1}, least),))
