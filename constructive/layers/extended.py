"""A layer whose readout carries more bits than float64.

Its W_V is a sum of float64 arrays, value_weights + corrections, each about 2^-53 of the one before.
So every weight is an exact dyadic rational, stored in a format that everybody reads; and
the layer is evaluated in balls, since a float64 evaluation would throw those bits away.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from constructive.data.dataset import Dataset
from constructive.exact import balls
from constructive.exact.balls import Balls, exact_matrix
from constructive.exact.directed import upper, working_precision
from constructive.layers.attention import attend, examples
from constructive.layers.layer import (
    FLOAT64_BITS,
    ArithmeticOf,
    AttentionLayer,
    Outputs,
    drawn,
)
from constructive.support.arrays import CHUNK_BYTES, Array, Integers, private
from constructive.support.errors import ParameterError, PrecisionError, is_integer

# A layer in ball arithmetic: attention (`exact.balls`), and the readout.
#
# What is enclosed is the layer in real arithmetic, all operations included.


class Enclosed(NamedTuple):
    """One example in balls."""

    example: int  # its index
    representation: arb_mat  # z as a row, (1, H d)
    output: arb_mat  # f(E, e), (1, d_out)


@dataclass(frozen=True, eq=False)
class BallLayer:
    """A layer ready for evaluation in balls of `prec` bits. Use `enclose`."""

    layer: AttentionLayer
    prec: int  # bits of the balls
    readout: arb_mat  # U, (H d, d_out), with f = U^T z

    def __call__(self, dataset: Dataset) -> Iterator[Enclosed]:
        """Enclose the layer on each example of a dataset."""
        weights = self.layer.query_weights, self.layer.key_weights
        view = examples(dataset.contexts, dataset.queries)
        for chunk in attend(Balls(self.prec), weights, view):
            for example, z in enumerate(chunk.representation, chunk.rows.start):
                flat = arb_mat(1, z.nrows() * z.ncols(), z.entries())
                with working_precision(self.prec):
                    output = flat * self.readout
                yield Enclosed(example, flat, output)


def enclose(layer: AttentionLayer, prec: int) -> BallLayer:
    """Return the layer in balls, all bits of its readout included."""
    with working_precision(prec):
        readout = effective_readout(layer)
    return BallLayer(layer, prec, readout)


def effective_readout(layer: AttentionLayer) -> arb_mat:
    """Return U with f = U^T z: (H d, d_out), at the precision in force."""
    output = layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)
    last = exact_matrix(layer.readout_weights)
    corrections = layer.corrections if isinstance(layer, ExtendedLayer) else ()
    entries: list[arb] = []
    for head in range(layer.num_heads):
        values = exact_matrix(layer.value_weights[head])
        for correction in corrections:
            values += exact_matrix(correction[head])
        entries += (values * (exact_matrix(output[head]) * last)).entries()
    return arb_mat(layer.num_heads * layer.width, layer.target_dim, entries)


def intermediate(enclosed: BallLayer, dataset: Dataset) -> arb_mat:
    """Return Z in balls: (T, H d)."""
    entries: list[arb] = []
    for row in enclosed(dataset):
        entries += row.representation.entries()
    return arb_mat(dataset.num_examples, len(entries) // dataset.num_examples, entries)


_GUARD_BITS = 64
# Bits that a readout may have. A solve starts with twice as many and more (`solve`).
MOST_BITS = 1 << 12
_WIDEST = 1 << 14  # Bits of working precision after which a solve is given up


@dataclass(frozen=True, eq=False)
class ExtendedLayer(AttentionLayer):
    """Multi-head attention whose values are sums of float64 arrays.

    `layer(...)` and `max_error` are in balls, of `precision` + 64 bits or more; what else a layer
    has leaves corrections out. They are kept as a read-only copy.

    Attributes:
        query_weights: W_Q, and so on as for `AttentionLayer`
        key_weights: W_K
        value_weights: W_V, but for corrections
        output_weights: W_O
        readout_weights: W_D
        corrections: (k, H, d, d_v), float64; `W_V = value_weights + corrections.sum(axis=0)`,
            exactly
        precision: bits of the readout

    Raises:
        ParameterError: for corrections that do not fit, or are not finite
    """

    corrections: Array
    precision: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "corrections", private("corrections", self.corrections))
        shape = self.value_weights.shape
        fits = (
            self.corrections.ndim == 4
            and self.corrections.shape[1:] == shape
            and self.corrections.dtype == self.value_weights.dtype == np.float64
            and np.isfinite(self.corrections).all()
        )
        bits = self.precision
        if not is_integer(bits) or not FLOAT64_BITS < bits <= MOST_BITS:
            raise ParameterError(
                f"precision={bits!r} is not a number of bits beyond a float64",
                witness=bits,
                suggestion=f"from {FLOAT64_BITS + 1} to {MOST_BITS} bits",
            )
        if not fits:
            raise ParameterError(
                f"corrections {self.corrections.shape} do not fit values {shape}",
                witness=self.corrections.shape,
                suggestion="finite float64 corrections (k, H, d, d_v) to float64 weights",
            )

    @property
    def in_words(self) -> str:
        """In what numbers the weights are, in words."""
        return f"{super().in_words}, readout of {self.precision} bits"

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them."""
        return {**super().tensors, "W_V_corrections": self.corrections}

    @property
    def num_parameters(self) -> int:
        """The number of weights, each counted once however many bits it has."""
        return super().num_parameters - self.corrections.size

    def with_outputs(self, rng: np.random.Generator) -> "ExtendedLayer":
        """Return the same f with random W_O and W_D; W_V undoes them exactly (`drawn`)."""
        values = self.value_weights, *self.corrections
        given = Outputs(values, self.output_weights, self.readout_weights)
        (first, *corrections), output, readout = drawn(given, rng)
        weights = self.query_weights, self.key_weights, first, output, readout
        return ExtendedLayer(*weights, np.stack(corrections), self.precision)

    def __call__(
        self,
        contexts: npt.ArrayLike,
        queries: npt.ArrayLike,
        *,
        chunk_bytes: int = CHUNK_BYTES,  # noqa: ARG002 - one example is evaluated at a time
    ) -> Array:
        """Evaluate f in balls, and round to float64: (T, d_out).

        Args:
            contexts: (T, n, d) or one shared (n, d)
            queries: (T, d)
            chunk_bytes: as for `AttentionLayer`, of no effect

        Raises:
            DataError: if shapes do not fit the layer
            PrecisionError: if an output cannot be enclosed
        """
        inputs = self.checked_inputs(contexts, queries)
        nothing = np.zeros(len(inputs[1]))
        rows = enclose(self, self.precision + _GUARD_BITS)(Dataset(*inputs, nothing))
        outputs = np.array([[float(x) for x in row.output.entries()] for row in rows])
        if not np.isfinite(outputs).all():
            example = int(np.argwhere(~np.isfinite(outputs))[0][0])
            raise PrecisionError(
                f"the output of example {example} cannot be enclosed in float64",
                witness=example,
                suggestion="inputs of the size of the data that were memorized",
            )
        return outputs

    def column_errors(
        self,
        dataset: Dataset,
        arithmetic: ArithmeticOf | None = None,  # noqa: ARG002 - it is that of balls
    ) -> Array:
        """Return an upper bound of `|f - y|` for each entry of the output, from balls: (d_out,)."""
        self.check_fits(dataset)
        enclosed = enclose(self, self.precision + _GUARD_BITS)
        bounds = [arb(0)] * dataset.target_dim
        for row in enclosed(dataset):
            target = exact_matrix(dataset.target_matrix[row.example][np.newaxis])
            with working_precision(enclosed.prec):
                errors = (row.output - target).entries()
                bounds = [
                    bound.max(error.abs_upper())
                    for bound, error in zip(bounds, errors, strict=True)
                ]
        return np.array([upper(bound) for bound in bounds])

    def __repr__(self) -> str:
        return f"ExtendedLayer({super().__repr__()}, precision={self.precision})"


def require_float_layer(layer: AttentionLayer, purpose: str) -> AttentionLayer:
    """Return a layer of floats as it is. Raises ParameterError, with the purpose, for others."""
    if isinstance(layer, AttentionLayer) and not isinstance(layer, ExtendedLayer):
        return layer
    kind = type(layer).__name__
    raise ParameterError(
        f"{purpose} hold floats, not the weights of {kind}",
        witness=kind,
        suggestion="a memorizer built with precision=53",
    )


def solve(
    layer: AttentionLayer, dataset: Dataset, columns: Integers, *, precision: int
) -> tuple[Array, ...]:
    """Solve Z U = Y in balls, and return U as a sum of float64 arrays (H d, d_out).

    U is zero but on T independent columns of Z. The sum carries so many bits; the working precision
    is raised until balls give them. Raises PrecisionError where 2^14 bits do not suffice, or U
    leaves the range of float64.
    """
    parts = -(-precision // FLOAT64_BITS)
    prec = 2 * precision + _GUARD_BITS
    while prec <= _WIDEST:
        z = intermediate(enclose(layer, prec), dataset)
        with working_precision(prec):
            chosen = columns.tolist()
            square = arb_mat([[row[c] for c in chosen] for row in z.tolist()])
            solution = balls.solve(square, exact_matrix(dataset.target_matrix), prec)
            if solution is not None and all(
                _is_sharp(column, parts) for column in zip(*solution.tolist(), strict=True)
            ):
                return _split(solution, columns, z.ncols(), parts)
        prec *= 2
    raise PrecisionError(
        f"the readout cannot be enclosed to {precision} bits with {_WIDEST} bits at work",
        witness=precision,
        suggestion="more heads, or construction='saturated'",
    )


def _is_sharp(column: Sequence[arb], parts: int) -> bool:
    """Whether the radii of a column of U are below the last bit of so many floats of its size."""
    size = max(x.abs_upper() for x in column)
    wide = max(x.rad() for x in column)
    return bool(wide <= size * arb(2) ** -(parts * FLOAT64_BITS))


def _split(solution: arb_mat, columns: Integers, width: int, parts: int) -> tuple[Array, ...]:
    """Return midpoints as sums of float64 numbers, each the rounding of what is left."""
    rest = [x.mid() for x in solution.entries()]
    arrays = []
    for _ in range(parts):
        part = [float(x) for x in rest]
        rest = [(x - arb(y)).mid() for x, y in zip(rest, part, strict=True)]
        array = np.zeros((width, solution.ncols()))
        array[columns] = np.reshape(part, (len(columns), -1))
        arrays.append(array)
    if not np.isfinite(arrays[0]).all():
        raise PrecisionError(
            "the readout is too large for float64",
            suggestion="targets or contexts scaled to size one",
        )
    return tuple(arrays)
