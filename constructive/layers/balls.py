"""A layer in ball arithmetic: attention (`exact.arithmetics.balls`), and the readout.

What is enclosed is the layer in real arithmetic, all operations included.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from flint import arb, arb_mat

from constructive.data.dataset import Dataset
from constructive.exact.arithmetics.balls import Balls
from constructive.exact.ball import exact_matrix
from constructive.exact.precision import working_precision
from constructive.layers.attend import attend
from constructive.layers.attention import AttentionLayer
from constructive.layers.views import examples
from constructive.support.arrays import Array


class _Enclosable(Protocol):
    """Floats, and what is added to their W_V exactly: arrays (H, d, d_v)."""

    @property
    def leading(self) -> AttentionLayer: ...

    @property
    def corrections(self) -> Iterable[Array]: ...


class Enclosed(NamedTuple):
    """One example in balls."""

    example: int  # its index
    representation: arb_mat  # z as a row, (1, H d)
    output: arb_mat  # f(E, e), (1, d_out)


@dataclass(frozen=True, eq=False)
class BallLayer:
    """A layer ready for evaluation in balls of `prec` bits. Use `enclose`."""

    layer: AttentionLayer  # the floats of what is enclosed, with all of W_Q and W_K
    prec: int  # bits of the balls
    readout: arb_mat  # U, (H d, d_out), with f = U^T z

    def __call__(self, dataset: Dataset) -> Iterator[Enclosed]:
        """Enclose the layer on each example of a data set."""
        weights = self.layer.query_weights, self.layer.key_weights
        view = examples(dataset.contexts, dataset.queries)
        for chunk in attend(Balls(self.prec), weights, view):
            for example, z in enumerate(chunk.representation, chunk.rows.start):
                flat = arb_mat(1, z.nrows() * z.ncols(), z.entries())
                with working_precision(self.prec):
                    output = flat * self.readout
                yield Enclosed(example, flat, output)


def enclose(layer: _Enclosable, prec: int) -> BallLayer:
    """Return the layer in balls, all bits of its readout included."""
    with working_precision(prec):
        readout = effective_readout(layer)
    return BallLayer(layer.leading, prec, readout)


def effective_readout(layer: _Enclosable) -> arb_mat:
    """Return U with f = U^T z: (H d, d_out), at the precision in force."""
    floats = layer.leading
    output = floats.output_weights.reshape(floats.num_heads, floats.value_dim, -1)
    last = exact_matrix(floats.readout_weights)
    entries: list[arb] = []
    for head in range(floats.num_heads):
        values = exact_matrix(floats.value_weights[head])
        for correction in layer.corrections:
            values += exact_matrix(correction[head])
        entries += (values * (exact_matrix(output[head]) * last)).entries()
    return arb_mat(floats.num_heads * floats.width, floats.target_dim, entries)


def intermediate(enclosed: BallLayer, dataset: Dataset) -> arb_mat:
    """Return Z in balls: (T, H d)."""
    entries: list[arb] = []
    for row in enclosed(dataset):
        entries += row.representation.entries()
    return arb_mat(dataset.num_examples, len(entries) // dataset.num_examples, entries)
