"""Hypothesis strategies for data that the theorems hold for, valid by construction.

Needs hypothesis (`pip install ".[strategies]"`). No dataset is filtered or assumed away (Hypothesis
itself discards draws of lists in which an entry is there twice):
contexts have rank n and queries have Kruskal rank min(T, d) exactly, by the proofs below, so every
drawn example is used. Entries are small integers, stored as float64, and shrink towards zero.

A test that fails prints datasets and problems as calls with all their numbers, which can be
pasted: `Dataset(contexts=[[[1.0, 0.0]]], queries=..., targets=...)`.

Example:
    >>> from hypothesis import given
    >>> from constructive import build_memorizer, strategies
    >>> @given(strategies.memorizable())
    ... def test_what_the_theorem_promises(problem):
    ...     assert problem.build().max_error(problem.dataset) < 1e-6
    >>> test_what_the_theorem_promises()
"""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from constructive.support.errors import MissingExtraError, hint, require_known

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as arrays
except ImportError as error:
    raise MissingExtraError(
        "constructive.strategies needs hypothesis, which is not installed",
        witness="hypothesis",
        suggestion=hint("strategies"),
    ) from error

from constructive.constructions.build import build_memorizer
from constructive.constructions.tangent import TANGENT
from constructive.data.dataset import Dataset
from constructive.data.generators import gaussian, moment_curve_points
from constructive.instances.instance import Twins
from constructive.instances.making import PLANTED, planted
from constructive.layers.memorizer import Memorizer
from constructive.sequences.build import build_sequence_memorizer
from constructive.sequences.examples import Task
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.arrays import Array
from constructive.theory.bounds import SATURATED, THEOREMS, Theorem
from constructive.theory.free_heads import Dimensions, zero_point

Made = TypeVar("Made")

# Nodes of the moment curve for so many examples or fewer; a prime: entries are at most 15 then.
_NODES = 31
# Tokens of a triangular block of a context: entries of the inverse of one grow up to 3^7.
_TRIANGLE = 8
# Rank-one heads on contexts of more tokens often have readouts that float64 cannot carry.
_RANK_ONE_TOKENS = 8


class LayerProblem(NamedTuple):
    """A dataset, and the sizes of a layer that memorizes it.

    Attributes:
        dataset: T examples, contexts (T, n, d) or one shared (n, d)
        num_heads: H
        head_dim: d_h
        construction: the theorem that is meant, "saturated" (Theorem 1) or "rank_one" (Theorem 2),
            or "tangent" (Theorem 33)
    """

    dataset: Dataset
    num_heads: int
    head_dim: int
    construction: Theorem | Literal["tangent"]

    def build(self) -> Memorizer:
        """Build the memorizer of this problem."""
        return build_memorizer(
            self.dataset,
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            construction=self.construction,
        )


@st.composite
def contexts(  # noqa: D417 - Hypothesis fills in draw
    draw: st.DrawFn,
    *,
    min_contexts: int = 1,
    max_contexts: int = 4,
    min_size: int = 1,
    max_size: int = 4,
    max_extra_width: int = 2,
) -> Array:
    """Contexts (T, n, d) of rank n, with n <= d <= n + max_extra_width.

    *Proof.* Up to the order of columns, each holds an n x n unit lower triangular block. QED

    Args:
        min_contexts: the smallest T
        max_contexts: the largest T
        min_size: the smallest n
        max_size: the largest n
        max_extra_width: the largest d - n

    Example:
        >>> from hypothesis import find
        >>> find(contexts(min_size=2), lambda found: True)
        array([[[1., 0.],
                [0., 1.]]])
    """
    count = draw(st.integers(min_contexts, max_contexts))
    size = draw(st.integers(min_size, max_size))
    return draw(_contexts_of_shape(count, size, size + draw(st.integers(0, max_extra_width))))


@st.composite
def queries(  # noqa: D417 - Hypothesis fills in draw
    draw: st.DrawFn,
    *,
    min_examples: int = 1,
    max_examples: int = 10,
    min_width: int = 1,
    max_width: int = 6,
) -> Array:
    """Queries (T, d) of Kruskal rank exactly min(T, d).

    They are points of the moment curve modulo a prime (`generators.moment_curve` has the proof).
    Their entries are at most 15; those of more than 31 queries are about T / 2 at most.

    Args:
        min_examples: the smallest T
        max_examples: the largest T
        min_width: the smallest d
        max_width: the largest d

    Example:
        >>> from hypothesis import find
        >>> find(queries(min_examples=2, min_width=2), lambda found: True)
        array([[1., 0.],
               [1., 1.]])
    """
    count = draw(st.integers(min_examples, max_examples))
    return draw(_queries_of_shape(count, draw(st.integers(min_width, max_width))))


@st.composite
def datasets(  # noqa: D417 - Hypothesis fills in draw
    draw: st.DrawFn,
    *,
    min_examples: int = 1,
    max_examples: int = 10,
    min_context_size: int = 1,
    max_context_size: int = 4,
    max_extra_width: int = 2,
    max_target_dim: int = 3,
    shared_context: bool | None = None,
) -> Dataset:
    """Datasets that satisfy Assumptions 1 and 2, with own contexts or a shared one.

    Args:
        min_examples: the smallest T
        max_examples: the largest T
        min_context_size: the smallest n
        max_context_size: the largest n
        max_extra_width: the largest d - n
        max_target_dim: the largest d_out of targets (T, d_out); targets (T,) are drawn as well
        shared_context: whether the context is shared; by default it is or is not

    Example:
        >>> from hypothesis import find
        >>> find(datasets(min_examples=2), lambda found: True)
        Dataset(T=2, n=1, d=1, d_out=1, own contexts, float64)
    """
    count = draw(st.integers(min_examples, max_examples))
    size = draw(st.integers(min_context_size, max_context_size))
    width = size + draw(st.integers(0, max_extra_width))
    shared = draw(st.booleans()) if shared_context is None else shared_context
    return draw(
        _datasets_of_shape(count, size, width, max_target_dim=max_target_dim, shared=shared)
    )


@st.composite
def memorizable(  # noqa: D417 - Hypothesis fills in draw
    draw: st.DrawFn,
    *,
    max_heads: int = 3,
    min_context_size: int = 1,
    max_context_size: int = 4,
    max_extra_width: int = 2,
    max_target_dim: int = 3,
    construction: Theorem | Literal["tangent"] | None = None,
    at_bound: bool = True,
) -> LayerProblem:
    """Datasets with H and d_h of a layer that memorizes them: at its bound, or up to it.

    Head dimensions go from 1 to n + 1, and contexts are own ones or a shared one. For heads that
    may depend on the targets, "tangent", data are Gaussian numbers of a seed, as such heads
    memorize almost all data and no proof names these; the bound is four fifths of their number.

    Args:
        max_heads: the largest H; T is at most H(n - 1) + 1
        min_context_size: the smallest n
        max_context_size: the largest n
        max_extra_width: the largest d - n
        max_target_dim: the largest d_out of targets (T, d_out); targets (T,) are drawn as well
        construction: which theorem is meant, "saturated", "rank_one" or "tangent"; by default the
            first two are drawn, and "saturated" alone for n > 8. Rank-one heads on contexts of more
            tokens are drawn where you ask for them, but float64 often cannot carry their readouts
        at_bound: whether T is exactly the bound; if not, it is drawn from 1 to the bound

    Example:
        >>> from hypothesis import find
        >>> problem = find(memorizable(min_context_size=3), lambda p: p.num_heads == 2)
        >>> problem.dataset.num_examples, problem.head_dim, problem.construction
        (1, 1, 'saturated')
    """
    free = construction == TANGENT.name
    num_heads = draw(st.integers(1 + free, max(max_heads, 1 + free)))
    size = draw(st.integers(max(min_context_size, 1 + free), max(max_context_size, 1 + free)))
    width = size + draw(st.integers(0, max_extra_width))
    head_dim = draw(st.integers(1, size + 1))
    if free:
        data = Dimensions.of_sizes(size, width, shared_context=False)
        bound = zero_point(num_heads, head_dim, data).rank * 4 // 5
        count = bound if at_bound else draw(st.integers(1, bound))
        seed = draw(st.integers(0, 10**6))
        dataset = gaussian(num_examples=count, context_size=size, width=width, seed=seed)
        made = {"dataset": dataset, "num_heads": num_heads, "head_dim": head_dim}
        return draw(_called(LayerProblem, **made, construction=TANGENT.name))
    names = tuple(THEOREMS) if size <= _RANK_ONE_TOKENS else (SATURATED.name,)
    chosen: Any = draw(st.sampled_from(names)) if construction is None else construction
    require_known("construction", chosen, THEOREMS)
    bound = THEOREMS[chosen].capacity(num_heads, size, head_dim)
    count = bound if at_bound else draw(st.integers(1, bound))
    shared = draw(st.booleans())
    dataset = draw(
        _datasets_of_shape(count, size, width, max_target_dim=max_target_dim, shared=shared)
    )
    return draw(
        _called(
            LayerProblem,
            dataset=dataset,
            num_heads=num_heads,
            head_dim=head_dim,
            construction=chosen,
        )
    )


class SequenceProblem(NamedTuple):
    """Sequences with a label for each key, and what a label may depend on.

    Attributes:
        sequences: N sequences of n tokens each
        labels: a label for each sequence; for "seq2seq" a list of n labels for each
        task: what a label may depend on (`sequences.examples`)
    """

    sequences: list[list[Any]]
    labels: list[Any]
    task: Task

    def build(self, **options: Any) -> SequenceMemorizer:  # noqa: ANN401 - those of the builder
        """Build the memorizer of this problem.

        Args:
            **options: of `build_sequence_memorizer`, but for the task
        """
        return build_sequence_memorizer(self.sequences, self.labels, task=self.task, **options)


@st.composite
def sequence_problems(  # noqa: D417 - Hypothesis fills in draw
    draw: st.DrawFn,
    *,
    max_sequences: int = 7,
    max_context_size: int = 4,
    tasks: st.SearchStrategy[Task] | None = None,
    tokens: st.SearchStrategy[Any] | None = None,
    labels: st.SearchStrategy[Any] | None = None,
) -> SequenceProblem:
    """Sequences of one length, and labels that are a function of the key (`sequences.examples`).

    Sequences may repeat, and differ in the order of tokens or in their multiplicity only.

    Args:
        max_sequences: the largest N
        max_context_size: the largest n
        tasks: draws what a label may depend on; by default any task
        tokens: draws a token; by default integers, Fractions, floats, vectors or symbols, of one
            kind in a problem
        labels: draws a label; by default small or long integers or strings, of one kind in a
            problem

    Example:
        >>> from hypothesis import find
        >>> find(sequence_problems(), lambda problem: len(problem.sequences) == 2)
        SequenceProblem(sequences=[[0], [0]], labels=[0, 0], task='next')
    """
    task = draw(st.sampled_from(get_args(Task)) if tasks is None else tasks)
    size = draw(st.integers(1, max_context_size))
    token = draw(st.sampled_from(_TOKENS)) if tokens is None else tokens
    label = draw(st.sampled_from(_LABELS)) if labels is None else labels
    rows = st.lists(token, min_size=size, max_size=size)
    drawn = draw(st.lists(rows, min_size=1, max_size=max_sequences))
    known: dict[Hashable, Any] = {}
    labeled: list[Any] = []
    for row in drawn:
        context = frozenset(Counter(row).items())
        found = []
        for own in row if task == "seq2seq" else row[-1:]:
            key = context if task == "next" else (context, own)
            if key not in known:
                known[key] = draw(label)
            found.append(known[key])
        labeled.append(found if task == "seq2seq" else found[0])
    return SequenceProblem(drawn, labeled, task)


_TOKENS: list[st.SearchStrategy[Any]] = [
    st.integers(-3, 3),
    st.fractions(0, 2, max_denominator=7),
    st.floats(-2, 2, width=16),
    st.tuples(st.integers(-2, 2), st.integers(0, 1), st.fractions(0, 1, max_denominator=3)),
    st.sampled_from("abcd"),
    st.sampled_from([b"x", ("y", 1), "z", None]),
]
_LABELS: list[st.SearchStrategy[Any]] = [
    st.integers(-3, 12),
    st.integers(0, 1 << 80),
    st.sampled_from(["cat", "dog", "cow"]),
    st.integers(0, 1),
    st.just(7),
]


@st.composite
def _contexts_of_shape(draw: st.DrawFn, count: int, size: int, width: int) -> Array:
    entries = draw(arrays.arrays(np.int64, (count, size, width), elements=st.integers(-2, 2)))
    row, column = np.indices((size, size)) // _TRIANGLE
    lower = np.tril(entries[:, :, :size], k=-1) * (row == column)
    blocks = lower + np.eye(size, dtype=np.int64)
    columns = draw(st.permutations(range(width)))
    return np.concatenate([blocks, entries[:, :, size:]], axis=2)[:, :, columns].astype(float)


@st.composite
def _queries_of_shape(draw: st.DrawFn, count: int, width: int) -> Array:
    if count > _NODES:  # a run of nodes: one number to draw, and to shrink
        nodes = np.arange(count) + draw(st.integers(0, _NODES))
    else:
        choices = st.sampled_from(range(_NODES))
        nodes = np.array(draw(st.lists(choices, min_size=count, max_size=count, unique=True)))
    return moment_curve_points(nodes, width)


@st.composite
def _datasets_of_shape(
    draw: st.DrawFn, count: int, size: int, width: int, *, max_target_dim: int, shared: bool
) -> Dataset:
    tokens = draw(_contexts_of_shape(1 if shared else count, size, width))
    target_dim = draw(st.integers(0, max_target_dim))
    shape = (count, target_dim) if target_dim else (count,)
    targets = draw(arrays.arrays(np.int64, shape, elements=st.integers(-9, 9)))
    return draw(
        _called(
            Dataset,
            contexts=(tokens[0] if shared else tokens).tolist(),
            queries=draw(_queries_of_shape(count, width)).tolist(),
            targets=targets.astype(float).tolist(),
        )
    )


def _called(make: Callable[..., Made], **arguments: Any) -> st.SearchStrategy[Made]:  # noqa: ANN401
    """What is made of these arguments; Hypothesis prints it as this call.

    Arguments are numbers and lists, as numpy leaves entries of long arrays out.
    """
    return st.builds(make, **{name: st.just(value) for name, value in arguments.items()})


# Twins with proved answers.


_LARGEST_SEED = 2**16


def twins(
    *, max_inputs: int = 8, scales: tuple[float, float] = (4.0, 256.0), margin: float = 0.05
) -> st.SearchStrategy[Twins]:
    """Twins of all kinds with a planted maximum: one network, two thresholds, opposite answers."""
    return st.builds(
        planted,
        dim=st.integers(1, max_inputs),
        scale=st.floats(*scales),
        kind=st.sampled_from(PLANTED),
        margin=st.just(margin),
        seed=st.integers(0, _LARGEST_SEED),
    )
