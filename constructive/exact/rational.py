"""Networks whose attention is exactly rational, so that f(E_t, e_t) == y_t holds as it stands.

Let the data and W_Q be rational and W_K = ln(2) K with K rational, so scaled that every logit is an
integer multiple k ln 2. Then exp(logit) = 2^k, and attention, Z, the readout and f are rational.

*Proposition.* Where real weights of some shape give Z rank T, integer W_Q and K of that shape do.
*Proof.* Multiply a minor of Z by its softmax denominators: it is a sum of c_j 2^(q_j), where each
q_j is bilinear in the entries of W_Q and K. For fixed W_Q it is a sum of exponentials of distinct
linear forms in K, and these are independent as functions on integer points; so if the sum vanishes
at all integers K it vanishes for all K. The same in W_Q. QED

So heads are drawn from small integers until Z has rank T modulo a prime, which proves rank T as in
`exact.specialize`, with 2 in the place of exp(2^s), and no transcendence is needed. Numbers stay
short while logits are small: data of small integers or of short fractions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from constructive.arrays import frozen, private
from constructive.attention import HeadShapes
from constructive.capacity import Plan, group_sizes
from constructive.dataset import Array, Dataset, ExampleShapes, check_shapes
from constructive.errors import AssumptionError, DataError, PrecisionError
from constructive.exact import modular

Fractions = npt.NDArray[Any]
"""An object array of `fractions.Fraction`."""

LARGEST_LOGIT = 1 << 12
"""Largest |k|: numbers of some thousand bits."""
_ATTEMPTS = 24


@dataclass(frozen=True, eq=False)
class RationalDataset(ExampleShapes):
    """T examples of exact rational numbers: contexts (T, n, d) or (n, d), queries and targets.

    The arrays are read-only and hold Fractions; integers, Fractions and floats are accepted, floats
    as the dyadic rationals which they are. Raises DataError for anything else, and for shapes which
    do not fit.

    >>> data = RationalDataset([[[1, 0], [1, 1]]], [[2, 3]], [Fraction(1, 3)])
    >>> data.targets
    array([Fraction(1, 3)], dtype=object)
    """

    contexts: Fractions
    queries: Fractions
    targets: Fractions

    def __post_init__(self) -> None:
        for name in ("contexts", "queries", "targets"):
            object.__setattr__(self, name, frozen(_fractions(name, getattr(self, name))))
        check_shapes(self.contexts, self.queries, self.targets)

    def context(self, example: int) -> Fractions:
        """The context of one example: (n, d)."""
        chosen: Fractions = self.contexts if self.shared_context else self.contexts[example]
        return chosen


@dataclass(frozen=True, eq=False)
class RationalLayer(HeadShapes):
    """Attention with W_Q and W_K / ln(2) rational, and a rational readout.

    query_weights: W_Q (H, d, d_h);  key_weights: W_K / ln(2), (H, d, d_h)
    readout: U (H d, d_out), with f = U^T z

    The arrays are read-only copies of what was given. Raises ParameterError for what is no array.

    >>> one = np.full((1, 1, 1), Fraction(1))
    >>> layer = RationalLayer(one, one, np.array([[Fraction(1, 2)]]))
    >>> layer([[[0], [1]]], [[1]])  # attention 1/3 and 2/3 on tokens 0 and 1
    array([[Fraction(1, 3)]], dtype=object)
    """

    query_weights: Fractions
    key_weights: Fractions
    readout: Fractions

    def __post_init__(self) -> None:
        for name, weights in tuple(vars(self).items()):
            object.__setattr__(self, name, private(name, weights))

    @property
    def target_dim(self) -> int:
        """d_out, the number of entries of the output."""
        return int(self.readout.shape[1])

    def intermediate(self, contexts: object, queries: object) -> Fractions:
        """Z, exactly: (T, H d).

        Raises DataError where a logit is no integer multiple of ln 2, or is so large that its
        power of two would take thousands of bits.
        """
        contexts, queries = _fractions("contexts", contexts), _fractions("queries", queries)
        inputs = RationalDataset(contexts, queries, _fractions("targets", [0] * len(queries)))
        if inputs.width != self.width:
            raise DataError(
                f"queries have d={inputs.width}, the layer d={self.width}",
                witness=inputs.width,
                suggestion=f"inputs with d={self.width}",
            )
        products = [
            _matrix(w_q) * _matrix(w_k).transpose()
            for w_q, w_k in zip(self.query_weights, self.key_weights, strict=True)
        ]
        rows = [_represent(inputs, example, products) for example in range(inputs.num_examples)]
        return _array(rows, (len(rows), self.num_heads * self.width))

    def __call__(self, contexts: object, queries: object) -> Fractions:
        """Evaluate f exactly: (T, d_out), Fractions. Raises DataError as `intermediate` does."""
        z = self.intermediate(contexts, queries)
        outputs = (_matrix(z) * _matrix(self.readout)).tolist()
        return _array(outputs, (len(z), self.target_dim))

    def max_error(self, dataset: RationalDataset | Dataset) -> float:
        """Largest |f - y| over the data: 0.0 if and only if they are equal."""
        outputs = self(dataset.contexts, dataset.queries)
        targets = _fractions("targets", dataset.target_matrix)
        if outputs.shape != targets.shape:
            raise DataError(
                f"targets have d_out={targets.shape[1]}, the layer {self.target_dim}",
                witness=targets.shape[1],
                suggestion=f"targets with d_out={self.target_dim}",
            )
        error = max(abs(x) for x in (outputs - targets).ravel())
        return max(float(error), math.ulp(0.0)) if error else 0.0

    def __repr__(self) -> str:
        return (
            f"RationalLayer(H={self.num_heads}, d={self.width}, d_h={self.head_dim}, "
            f"d_out={self.target_dim})"
        )


def construct(
    dataset: RationalDataset, plan: Plan, num_heads: int, rng: np.random.Generator
) -> RationalLayer:
    """Draw heads from small integers until Z has rank T, and solve Z U = Y exactly.

    Raises AssumptionError for a context of rank below n or dependent queries in a group,
    PrecisionError where logits would be too large or no small integers were found.
    """
    _check_assumptions(dataset, num_heads)
    prime = next(modular.safe_primes())
    scales = [
        math.lcm(*(x.denominator for x in array.ravel().tolist()))
        for array in (dataset.queries, dataset.contexts)
    ]
    total, width = dataset.num_examples, dataset.width
    num_targets = dataset.target_matrix.shape[1]
    rank_one = plan.construction == "rank_one"
    smallest_excess = 0
    for attempt in range(_ATTEMPTS):
        largest = 1 + attempt // 4
        w_q, w_k = rng.integers(-largest, largest + 1, size=(2, num_heads, width, plan.head_dim))
        if rank_one:
            w_q[:, :, 1:] = w_k[:, :, 1:] = 0
        weights = _fractions("W_Q", w_q) * scales[0], _fractions("W_K", w_k) * scales[1]
        readout = _fractions("readout", np.zeros((num_heads * width, num_targets)))
        layer = RationalLayer(*weights, readout)
        try:
            z = layer.intermediate(dataset.contexts, dataset.queries)
        except DataError as error:
            smallest_excess = error.witness
            continue
        factors = modular.factor(_modulo(z, prime), prime)
        if factors.rank == total:
            chosen = factors.columns.tolist()
            solution = _matrix(z[:, chosen]).solve(_matrix(dataset.target_matrix))
            readout[chosen] = _array(solution.tolist(), (total, num_targets))
            return RationalLayer(*weights, readout)
    if smallest_excess:
        raise PrecisionError(
            f"logits of {smallest_excess} ln 2 would take numbers of that many bits",
            witness=smallest_excess,
            suggestion="data of small integers or of fractions with a small common denominator",
        )
    raise PrecisionError(
        f"no integer weights up to {largest} gave Z rank T={total} in {_ATTEMPTS} attempts",
        witness=total,
        suggestion="another seed=, more heads, or arithmetic='float'",
    )


def _represent(inputs: RationalDataset, example: int, products: list[Any]) -> list[Any]:
    """The row z of one example."""
    tokens = _matrix(inputs.context(example))
    query = _matrix(inputs.queries[example][np.newaxis])
    attention = []
    for product in products:
        logits = (query * product * tokens.transpose()).entries()
        if any(k.q != 1 for k in logits):
            raise DataError(
                f"a logit of example {example} is {next(k for k in logits if k.q != 1)} ln 2",
                witness=example,
                suggestion="inputs whose denominators divide those of the data memorized",
            )
        powers = [int(k.p) for k in logits]
        lowest, highest = min(powers), max(powers)
        if highest - lowest > LARGEST_LOGIT:
            raise DataError(
                f"logits of example {example} differ by {highest - lowest} ln 2",
                witness=highest - lowest,
                suggestion=f"inputs for which they differ by at most {LARGEST_LOGIT} ln 2",
            )
        shares = [1 << (k - lowest) for k in powers]
        attention += [flint.fmpq(share, sum(shares)) for share in shares]
    rows = flint.fmpq_mat(len(products), tokens.nrows(), attention) * tokens
    return list(rows.entries())


def _check_assumptions(dataset: RationalDataset, num_heads: int) -> None:
    size = dataset.context_size
    for example in range(1 if dataset.contexts.ndim == 2 else dataset.num_examples):
        rank = _matrix(dataset.context(example)).rank()
        if rank < size:
            raise AssumptionError(
                f"the context of example {example} has rank {rank}; "
                f"Assumption 2 needs rank n={size}",
                witness=example,
                suggestion="add a positional encoding, or drop repeated tokens",
            )
    start = 0
    for count in group_sizes(dataset.num_examples, num_heads):
        members = dataset.queries[start : start + count]
        if count and _matrix(members).rank() < count:
            raise AssumptionError(
                f"the queries of examples {start} to {start + count - 1}, one group, are dependent",
                witness=tuple(range(start, start + count)),
                suggestion="drop one of these examples, or use more heads and so smaller groups",
            )
        start += count


def _modulo(matrix: Fractions, prime: int) -> Array:
    """Rational numbers modulo p, after rows are scaled by their denominators."""
    rows = []
    for row in matrix.tolist():
        scale = math.lcm(*(x.denominator for x in row))
        rows.append([int(x * scale) % prime for x in row])
    return modular.reduce(np.array(rows, dtype=np.float64), prime)


def _fractions(name: str, values: object) -> Fractions:
    """An array of Fractions with the values of integers, Fractions or floats."""
    array = np.asarray(values, dtype=object) if not isinstance(values, np.ndarray) else values
    flat = array.ravel().tolist()
    try:
        exact = [x if isinstance(x, Fraction) else Fraction(x) for x in flat]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} are not rational numbers: {error}",
            suggestion="integers, Fractions, or finite floats",
        ) from error
    return _array(exact, array.shape)


def _array(values: list[Any], shape: tuple[int, ...]) -> Fractions:
    """An object array of Fractions, from Fractions or flint's rationals in nested lists."""
    flat = np.empty(math.prod(shape), dtype=object)
    entries = [x for row in values for x in (row if isinstance(row, list) else [row])]
    flat[:] = [x if isinstance(x, Fraction) else Fraction(int(x.p), int(x.q)) for x in entries]
    return flat.reshape(shape)


def _matrix(array: Fractions) -> flint.fmpq_mat:
    rows, columns = array.shape
    entries = [flint.fmpq(x.numerator, x.denominator) for x in array.ravel().tolist()]
    return flint.fmpq_mat(rows, columns, entries)
