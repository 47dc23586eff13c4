"""What the shapes of examples say, in any arithmetic, and whether they fit together."""

from abc import abstractmethod

import numpy as np

from constructive.data.labels import Label, same_classes
from constructive.support.arrays import AnyArray, Integers, Rebuilt
from constructive.support.errors import DataError, ParameterError, with_article

ARRAYS = "contexts", "queries", "targets"  # The arrays of a dataset, by their names in files
LENGTHS = "lengths"  # The array of how many tokens each context has, where these are different


class ExampleShapes(Rebuilt):
    """What the shapes of contexts, queries and targets say, whatever their entries are."""

    queries: AnyArray
    targets: AnyArray
    classes: tuple[Label, ...] = ()

    @property
    @abstractmethod
    def context_shape(self) -> tuple[int, ...]:
        """(T, n, d), or (n, d) for one context that all examples share."""

    @property
    def lengths(self) -> Integers | None:
        """The number of tokens of each context (T,), or None where all have n."""
        return None

    @property
    def num_examples(self) -> int:
        """T."""
        return len(self.queries)

    @property
    def context_size(self) -> int:
        """n, of the longest context."""
        return self.context_shape[-2]

    @property
    def width(self) -> int:
        """The width d."""
        return int(self.queries.shape[1])

    @property
    def target_dim(self) -> int:
        """d_out."""
        return self.targets.size // len(self.targets)

    @property
    def shared_context(self) -> bool:
        """Whether all examples have one context."""
        return len(self.context_shape) == 2

    @property
    def target_matrix(self) -> AnyArray:
        """The targets as (T, d_out), also where they were given as (T,)."""
        return self.targets.reshape(len(self.targets), -1)

    def __len__(self) -> int:
        return self.num_examples

    def __eq__(self, other: object) -> bool:
        """Return whether shapes, dtypes, all entries and names of classes are the same."""
        if not isinstance(other, ExampleShapes):
            return NotImplemented
        one, two = self.arrays, other.arrays
        same = same_classes(self.classes, other.classes) and one.keys() == two.keys()
        return same and all(
            one[name].dtype == two[name].dtype and np.array_equal(one[name], two[name])
            for name in one
        )

    @property
    def arrays(self) -> dict[str, AnyArray]:
        """The arrays by their names in files."""
        return {name: getattr(self, name) for name in ARRAYS}

    def __hash__(self) -> int:
        shapes = self.context_shape, self.queries.shape, self.targets.shape
        return hash((*shapes, *self.queries[0].tolist()))

    def largest_product(self, num_heads: int) -> float:
        """Return how many multiplications a product takes at most, in a build or a proof."""
        longest = max(self.num_examples, self.context_size, self.width)
        return float(self.num_examples) * longest * num_heads * self.width


def require_examples(dataset: object, kind: type = ExampleShapes) -> None:
    """Raise ParameterError for what is not a dataset of that kind."""
    if not isinstance(dataset, kind):
        raise ParameterError(
            f"dataset is {with_article(type(dataset).__name__)}, not a Dataset",
            witness=type(dataset).__name__,
            suggestion=_of_torch(dataset) or "Dataset(contexts, queries, targets)",
        )


def _of_torch(dataset: object) -> str:
    """What to do with a PyTorch dataset, or ""."""
    bases = {base.__module__.partition(".data")[0] for base in type(dataset).__mro__}
    return "Dataset.from_torch(dataset)" if "torch.utils" in bases else ""


def check_shapes(
    contexts: tuple[int, ...], queries: tuple[int, ...], targets: tuple[int, ...]
) -> None:
    """Raise DataError for shapes of arrays that are not those of a dataset."""
    suggestion = "contexts (T, n, d) or (n, d), queries (T, d), targets (T,) or (T, d_out)"

    def refuse(problem: str) -> DataError:
        shapes = {"contexts": contexts, "queries": queries, "targets": targets}
        return DataError(problem, witness=shapes, suggestion=suggestion)

    if len(queries) != 2:
        raise refuse(f"queries have {len(queries)} axes, not (T, d)")
    if len(contexts) not in (2, 3):
        raise refuse(f"contexts have {len(contexts)} axes, not (T, n, d) or (n, d)")
    if len(targets) not in (1, 2):
        raise refuse(f"targets have {len(targets)} axes, not (T,) or (T, d_out)")
    if 0 in queries + contexts + targets:
        raise refuse("the dataset is empty: an axis has length 0")
    if contexts[-1] != queries[1]:
        if len(contexts) == 2 and contexts[0] == queries[0] and contexts[1] % queries[1] == 0:
            shape = contexts[0], contexts[1] // queries[1], queries[1]
            suggestion = f"contexts.reshape{shape}, if a row is an example; {suggestion}"
        raise refuse(f"tokens have d={contexts[-1]} entries, but queries have d={queries[1]}")
    if targets[0] != queries[0]:
        raise refuse(f"{queries[0]} queries have {targets[0]} targets")
    if len(contexts) == 3 and contexts[0] != queries[0]:
        raise refuse(f"{queries[0]} queries have {contexts[0]} contexts")
