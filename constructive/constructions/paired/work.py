"""Where pairs are built: here, or on an executor, and what a checkpoint keeps of them.

All pairs are cut into the same pieces, with the same random numbers, wherever they are built: so
weights do not depend on it. Processes read the examples themselves (`parallel.shared`); what a
piece takes along is its numbers.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.constructions.multihead.directions import KeyDirection
from constructive.constructions.options import Options
from constructive.constructions.paired_heads import TOGETHER, Block, Reader, Recipe, build
from constructive.constructions.paired_search import Coarse, Ordered
from constructive.data.dataset import Dataset
from constructive.support.arrays import Array, Integers
from constructive.support.parallel import Checkpoint, arrays_at, ordered_map, require_seen, shared
from constructive.support.progress import report
from constructive.support.stored import StoredArray
from constructive.support.version import __version__

_STEP = "build pairs of heads"
_FIELDS = tuple(field.name for field in dataclasses.fields(Block))


@dataclass(frozen=True)
class _Remote:
    """Examples that another process reads.

    place: the folder of all arrays;  stored: the contexts, if they are in a file of their own
    """

    place: str
    stored: StoredArray | None
    context_size: int
    query_exponent: int
    gap_exponent: int

    def read(self) -> Ordered:
        """Return the examples as they were sent."""
        arrays = arrays_at(self.place)
        return Ordered(
            partial(_rows, arrays["contexts"] if self.stored is None else self.stored),
            self.context_size,
            arrays["order"],
            arrays["queries"],
            KeyDirection(arrays["vector"], arrays["top_gap"], arrays["bottom_gap"]),
            arrays["radius"],
            Coarse(
                arrays["unit"],
                arrays["inverse_length"],
                self.query_exponent,
                arrays["inverse_gap"],
                self.gap_exponent,
                arrays["reach"],
            ),
            arrays["stops"],
        )


@dataclass(frozen=True, eq=False)
class _Piece:
    """The pairs from `first` to before `stop`, and who reads the extra example, if it is known."""

    examples: Ordered | _Remote
    recipe: Recipe
    first: int
    stop: int
    reader: Reader | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return f"pairs-{self.first:08d}"


def build_all(ordered: Ordered, recipe: Recipe, dataset: Dataset, options: Options) -> Block:
    """Build all pairs: on the executor, if there is one, and but for those in the checkpoint.

    Where there is an extra example, the first piece comes before all others, and is built here:
    the reader is in it.

    Raises what `pairs.build`, `ordered_map` and `Checkpoint` raise.
    """
    kept = None
    if options.checkpoint is not None:
        kept = Checkpoint.open(options.checkpoint, _about(ordered, recipe, dataset))
    ranges = [
        (first, min(first + TOGETHER, ordered.num_pairs))
        for first in range(0, ordered.num_pairs, TOGETHER)
    ]
    with _examples(ordered, dataset, options, kept) as examples:
        pieces = [_Piece(examples, recipe, *each) for each in ranges]
        done = {} if kept is None else _loaded(kept, pieces)

        def keep(index: int, block: Block) -> None:
            done[index] = block
            if kept is not None:
                kept.save(pieces[index].name, vars(block))
            report(_STEP, len(done), len(pieces))

        if ordered.has_extra and 0 not in done:
            keep(0, build(ordered, recipe, *ranges[0]))
        reader = reader_of(ordered, done.get(0))
        missing = [index for index in range(len(pieces)) if index not in done]
        ordered_map(
            _build,
            [dataclasses.replace(pieces[index], reader=reader) for index in missing],
            executor=options.executor,
            step=None,
            keep=lambda number, block: keep(missing[number], block),
        )
    return _joined([dict(vars(done.pop(index))) for index in range(len(pieces))])


def reader_of(ordered: Ordered, block: Block | None) -> Reader | None:
    """Return the head that reads the extra example, if there is one, in this block."""
    if block is None or not ordered.has_extra:
        return None
    return Reader.of(ordered, block.query_weights[0], block.key_weights[0])


def _joined(blocks: list[dict[str, Any]]) -> Block:
    """All blocks as one. Their arrays are given up one by one, as together they are large."""
    return Block(*(np.concatenate([each.pop(name) for each in blocks]) for name in _FIELDS))


def _build(piece: _Piece) -> Block:
    examples = piece.examples
    ordered = examples.read() if isinstance(examples, _Remote) else examples
    return build(ordered, piece.recipe, piece.first, piece.stop, piece.reader)


def _loaded(kept: Checkpoint, pieces: list[_Piece]) -> dict[int, Block]:
    found = ((index, kept.load(piece.name)) for index, piece in enumerate(pieces))
    return {index: Block(**arrays) for index, arrays in found if arrays is not None}


@contextmanager
def _examples(
    ordered: Ordered, dataset: Dataset, options: Options, kept: Checkpoint | None
) -> Iterator[Ordered | _Remote]:
    """The examples themselves, or how other processes get at them."""
    if options.executor is None:
        yield ordered
        return
    direction, coarse = ordered.direction, ordered.coarse
    arrays: dict[str, npt.NDArray[Any]] = {
        "order": ordered.order,
        "queries": ordered.queries,
        "vector": direction.vector,
        "top_gap": direction.top_gap,
        "bottom_gap": direction.bottom_gap,
        "radius": ordered.radius,
        "unit": coarse.unit,
        "inverse_length": coarse.inverse_length,
        "inverse_gap": coarse.inverse_gap,
        "reach": coarse.reach,
        "stops": ordered.stops,
    }
    stored = dataset.on_disk.file.elsewhere if dataset.on_disk else None
    if stored is None:
        arrays["contexts"] = dataset.contexts
    with shared(arrays, None if kept is None else kept.folder) as place:
        yield _Remote(
            place, stored, ordered.context_size, coarse.query_exponent, coarse.gap_exponent
        )


def _rows(contexts: Array | StoredArray, examples: Integers) -> Array:
    """Rows of a file that has to be the one that was opened, whatever was at its path before."""
    if isinstance(contexts, StoredArray):
        require_seen(contexts.path)
        return contexts.rows(examples).astype(np.float64, copy=False)
    return contexts[examples].astype(np.float64, copy=False)


def _about(ordered: Ordered, recipe: Recipe, dataset: Dataset) -> dict[str, Any]:
    """What decides the pairs: a checkpoint of anything else is of no use."""
    return {
        "data": dataset.fingerprint().hex(),
        "num_examples": dataset.num_examples,
        "num_heads": 2 * ordered.num_pairs,
        "head_dim": recipe.head_dim,
        "random choices of seed=": recipe.entropy,
        "arrays": ", ".join(_FIELDS),
        "constructive": __version__,
    }
