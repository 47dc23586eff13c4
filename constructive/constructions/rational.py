"""Networks whose attention is exactly rational, so that f(E_t, e_t) == y_t holds as it stands.

Let the data and W_Q be rational and W_K = ln(2) K with K rational, so scaled that every logit is an
integer multiple k ln 2. Then exp(logit) = 2^k, and attention, Z, the readout and f are rational.

*Proposition.* Where real weights of some shape give Z rank T, integer W_Q and K of that shape do.
*Proof.* Multiply a minor of Z by its softmax denominators: it is a sum of c_j 2^(q_j), where each
q_j is bilinear in the entries of W_Q and K. For fixed W_Q it is a sum of exponentials of distinct
linear forms in K, and these are independent as functions on integer points; so if the sum vanishes
at all integers K it vanishes for all K. The same in W_Q. QED

So heads are drawn from small integers until Z has rank T modulo a prime, which proves rank T as in
`layers.residues`, with 2 in the place of exp(2^s), and no transcendence is needed. Numbers stay
short while logits are small: data of small integers or of short fractions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes, check_shapes, require_examples
from constructive.exact import modular
from constructive.exact.softmax import (
    LARGEST_LOGIT,
    Fractions,
    Rationals,
    UnfitLogitsError,
    array_of,
    matrix_of,
)
from constructive.layers.attention import attend, examples
from constructive.layers.layer import HeadShapes, check_targets
from constructive.support.arrays import Array, as_array, frozen, private
from constructive.support.errors import (
    DataError,
    PrecisionError,
    in_three_parts,
    require_positive,
    require_seed,
)
from constructive.support.work import report
from constructive.theory.bounds import require_room


@dataclass(frozen=True, eq=False)
class RationalDataset(ExampleShapes):
    """T examples of exact rational numbers, each a context of n tokens, a query and a target.

    The arrays are read-only and hold Fractions; integers, Fractions and floats are accepted, floats
    as the dyadic rationals that they are.

    Attributes:
        contexts: (T, n, d), or (n, d) for one context that all examples share
        queries: (T, d)
        targets: (T,) or (T, d_out)

    Raises:
        DataError: for what is not a rational number, and for shapes that do not fit

    Example:
        >>> data = RationalDataset([[[1, 0], [1, 1]]], [[2, 3]], [Fraction(1, 3)])
        >>> data.targets
        array([Fraction(1, 3)], dtype=object)
    """

    contexts: Fractions
    queries: Fractions
    targets: Fractions

    def __post_init__(self) -> None:
        for name in ("contexts", "queries", "targets"):
            object.__setattr__(self, name, frozen(fractions(name, getattr(self, name))))
        check_shapes(self.contexts.shape, self.queries.shape, self.targets.shape)

    @property
    def context_shape(self) -> tuple[int, ...]:
        """(T, n, d), or (n, d) for one context that all examples share."""
        return self.contexts.shape


def fractions(name: str, values: object) -> Fractions:
    """Return an array of Fractions with the values of integers, Fractions or floats."""
    if isinstance(values, np.ndarray) or hasattr(values, "detach"):
        array = as_array(values)
    else:  # lists of long integers stay what they are
        array = np.asarray(values, dtype=object)
    flat = array.ravel().tolist()
    try:
        exact = [x if isinstance(x, Fraction) else Fraction(x) for x in flat]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{name} are not rational numbers: {error}",
            suggestion="integers, Fractions, or finite floats",
        ) from error
    return array_of(exact, array.shape)


@dataclass(frozen=True, eq=False)
class RationalLayer(HeadShapes):
    """Attention with W_Q and W_K / ln(2) rational, and a rational readout.

    The arrays are read-only copies of what was given.

    Attributes:
        query_weights: W_Q (H, d, d_h)
        key_weights: W_K / ln(2), (H, d, d_h)
        readout: U (H d, d_out), with f = U^T z

    Raises:
        ParameterError: for what is not an array

    Example:
        >>> import numpy as np
        >>> from fractions import Fraction
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
        """Return Z, exactly: (T, H d), Fractions.

        Args:
            contexts: (T, n, d) or one shared (n, d), of integers, Fractions or floats
            queries: (T, d), of the same

        Raises:
            DataError: for what is not a rational number, shapes that do not fit the layer, and
                where a logit is not an integer multiple of ln 2, or so large that its power of two
                would take thousands of bits
        """
        contexts, queries = fractions("contexts", contexts), fractions("queries", queries)
        inputs = RationalDataset(contexts, queries, fractions("targets", [0] * len(queries)))
        self._check_width(inputs)
        rows = []
        weights = self.query_weights, self.key_weights
        for chunk in attend(Rationals(), weights, examples(contexts, queries)):
            for example in range(chunk.rows.start, chunk.rows.stop):
                try:
                    z = chunk.representation[example - chunk.rows.start]
                except UnfitLogitsError as error:
                    raise _unfit(example, error) from error
                rows.append(z.entries())
        return array_of(rows, (len(rows), self.num_heads * self.width))

    def __call__(self, contexts: object, queries: object) -> Fractions:
        """Evaluate f exactly: (T, d_out), Fractions.

        Args:
            contexts: (T, n, d) or one shared (n, d), of integers, Fractions or floats
            queries: (T, d), of the same

        Raises:
            DataError: as `intermediate` does
        """
        z = self.intermediate(contexts, queries)
        outputs = (matrix_of(z) * matrix_of(self.readout)).tolist()
        return array_of(outputs, (len(z), self.target_dim))

    def check_fits(self, dataset: RationalDataset | Dataset) -> None:
        """Refuse a dataset whose queries or targets have another size."""
        self._check_width(dataset)
        check_targets(dataset, self.target_dim)

    def _check_width(self, inputs: RationalDataset | Dataset) -> None:
        if inputs.width != self.width:
            raise DataError(
                f"queries have d={inputs.width}, the layer d={self.width}",
                witness=inputs.width,
                suggestion=f"inputs with d={self.width}",
            )

    def max_error(self, dataset: RationalDataset | Dataset) -> float:
        """Return the largest `|f - y|` over the data: 0.0 if and only if they are equal.

        Args:
            dataset: T examples

        Raises:
            DataError: if shapes do not fit the layer, and as `intermediate` does
        """
        return float(self.column_errors(dataset).max())

    def column_errors(self, dataset: RationalDataset | Dataset) -> Array:
        """Return the same for each entry of the output: (d_out,).

        Args:
            dataset: T examples

        Raises:
            DataError: if shapes do not fit the layer
        """
        self.check_fits(dataset)
        outputs = self(dataset.contexts, dataset.queries)
        errors = np.abs(outputs - fractions("targets", dataset.target_matrix)).max(axis=0)
        return np.array([max(float(x), math.ulp(0.0)) if x else 0.0 for x in errors])

    def __repr__(self) -> str:
        return (
            f"RationalLayer(H={self.num_heads}, d={self.width}, d_h={self.head_dim}, "
            f"d_out={self.target_dim})"
        )


def _unfit(example: int, error: UnfitLogitsError) -> DataError:
    if error.fraction is not None:
        return DataError(
            f"a logit of example {example} is {error.fraction} ln 2",
            witness=example,
            suggestion="inputs whose denominators divide those of the data memorized",
        )
    return DataError(
        f"logits of example {example} differ by {error.spread} ln 2",
        witness=error.spread,
        suggestion=f"inputs for which they differ by at most {LARGEST_LOGIT} ln 2",
    )


# Heads of small integers, drawn until Z has rank T; and the readout, solved exactly.


_ATTEMPTS = 24


@in_three_parts
def build_rational(
    dataset: Dataset | RationalDataset, *, num_heads: int, head_dim: int = 1, seed: int = 0
) -> RationalLayer:
    """Build a layer whose outputs are the targets: f(E_t, e_t) == y_t, as Fractions.

    Args:
        dataset: T examples, of integers or short rational numbers
        num_heads: H
        head_dim: d_h
        seed: of W_Q and W_K

    Raises:
        ParameterError: for what is no dataset, and for counts that are not positive integers
        CapacityError: for more examples than any contexts of these shapes allow
        PrecisionError: where no small integers give Z rank T, such as for repeated inputs, and
            where logits would be too large

    Source: the proposition above (ours).

    Example:
        >>> from fractions import Fraction
        >>> queries, targets = [[1, 2], [2, 1], [1, 1]], [Fraction(1, 3), 0, 7]
        >>> data = RationalDataset([[1, 0], [0, 1]], queries, targets)
        >>> layer = build_rational(data, num_heads=2)
        >>> bool((layer(data.contexts, data.queries)[:, 0] == data.targets).all())
        True
    """
    require_examples(dataset)
    require_positive(num_heads=num_heads, head_dim=head_dim)
    require_seed(seed)
    if not isinstance(dataset, RationalDataset):
        dataset = RationalDataset(dataset.contexts, dataset.queries, dataset.targets)
    require_room(dataset, num_heads)
    rng = np.random.default_rng(seed)
    prime = next(modular.safe_primes())
    scales = [
        math.lcm(*(x.denominator for x in array.ravel().tolist()))
        for array in (dataset.queries, dataset.contexts)
    ]
    total, width = dataset.num_examples, dataset.width
    num_targets = dataset.target_matrix.shape[1]
    smallest_excess, evaluated = 0, False
    for attempt in range(_ATTEMPTS):
        report("draw heads from small integers", attempt, _ATTEMPTS)
        largest = 1 + attempt // 4
        w_q, w_k = rng.integers(-largest, largest + 1, size=(2, num_heads, width, head_dim))
        weights = fractions("W_Q", w_q) * scales[0], fractions("W_K", w_k) * scales[1]
        readout = fractions("readout", np.zeros((num_heads * width, num_targets)))
        layer = RationalLayer(*weights, readout)
        try:
            z = layer.intermediate(dataset.contexts, dataset.queries)
        except DataError as error:
            smallest_excess = error.witness
            continue
        evaluated = True
        factors = modular.factor(_modulo(z, prime), prime)
        if factors.rank == total:
            chosen = factors.columns.tolist()
            solution = matrix_of(z[:, chosen]).solve(matrix_of(dataset.target_matrix))
            readout[chosen] = array_of(solution.tolist(), (total, num_targets))
            return RationalLayer(*weights, readout)
    if not evaluated:
        raise PrecisionError(
            f"logits of {smallest_excess} ln 2 would take numbers of that many bits",
            witness=smallest_excess,
            suggestion="data of small integers or of fractions with a small common denominator",
        )
    raise PrecisionError(
        f"no integer weights up to {largest} gave Z rank T={total} in {_ATTEMPTS} attempts",
        witness=total,
        suggestion="another seed=, more heads, or build_memorizer, in floats",
    )


def _modulo(matrix: Fractions, prime: int) -> Array:
    """Return rational numbers modulo p, after rows are scaled by their denominators."""
    rows = []
    for row in matrix.tolist():
        scale = math.lcm(*(x.denominator for x in row))
        rows.append([int(x * scale) % prime for x in row])
    return modular.reduce(np.array(rows, dtype=np.float64), prime)
