"""Contractions of arrays with named indices: trees of them, evaluated with emulated rounding.

A tree is the name of an array, or a tuple of trees, which are multiplied and summed over the
indices that only they have. Logits of pairwise programs are `(("x", "W_K"), ("W_Q", "e"))` or
another way to put brackets; `("x", "W_K", "W_Q", "e")` is one flat sum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from constructive.exact.programs.machine import Machine
from constructive.exact.programs.sums import Order, summed
from constructive.support.arrays import Array

ATTENTION = "a"  # The name of attention in trees

Tree: TypeAlias = str | tuple["Tree", ...]


class Labelled(NamedTuple):
    """An array whose axes have names."""

    array: Array  # of as many axes
    indices: str  # a letter for each


def leaves(tree: Tree) -> Iterator[str]:
    """Name the arrays of a tree."""
    if isinstance(tree, str):
        yield tree
    else:
        for part in tree:
            yield from leaves(part)


def sums(tree: Tree, indices: dict[str, str], others: str) -> Iterator[set[str]]:
    """Yield the indices that each node of a tree sums over, where `others` are those of the result.

    Example:
        >>> list(sums(("x", ("y", "z")), {"x": "i", "y": "ij", "z": "j"}, ""))
        [{'j'}, {'i'}]
    """
    if isinstance(tree, str):
        return
    inside: set[str] = set()
    for place, part in enumerate(tree):
        own = {index for name in leaves(part) for index in indices[name]}
        beside = (name for at, other in enumerate(tree) if at != place for name in leaves(other))
        seen = others + "".join(indices[name] for name in beside)
        yield from sums(part, indices, seen)
        inside |= own if isinstance(part, str) else own & set(seen)
    yield inside - set(others)


def contract(machine: Machine, parts: list[Labelled], over: str, order: Order) -> Labelled:
    """Multiply arrays, and sum over some indices at once.

    Example:
        >>> from constructive.exact.models import FLOAT32
        >>> machine = Machine(FLOAT32, np.random.default_rng(0))
        >>> two = Labelled(np.eye(2), "ij"), Labelled(np.ones((2, 3)), "jk")
        >>> contract(machine, list(two), "j", Order()).array.tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    sizes = {
        index: size
        for part in parts
        for index, size in zip(part.indices, part.array.shape, strict=True)
    }
    kept = [index for index in sizes if index not in over]
    axes = kept + [index for index in sizes if index in over]
    terms = tuple(sizes[index] for index in axes[len(kept) :])
    factors = []
    for array, indices in parts:
        there = [index for index in axes if index in indices]
        turned = array.transpose([indices.index(index) for index in there])
        shape = tuple(sizes[index] if index in indices else 1 for index in axes)
        whole = turned.reshape(shape)
        flat = np.broadcast_to(whole, (*whole.shape[: len(kept)], *terms))
        factors.append(flat.reshape(*whole.shape[: len(kept)], -1))
    return Labelled(summed(machine, factors, order), "".join(kept))


@dataclass(frozen=True, eq=False)
class Contractor:
    """How the trees of a program are evaluated."""

    machine: Machine  # which rounds
    order: Order  # of all sums
    apart: str = ""  # indices that are summed afterwards, each alone; others at once
    # what multiplies arrays with attention (of the name "a", whose array are logits), and sums over
    # some indices
    average: "Callable[[Labelled, list[Labelled], str], Labelled] | None" = None

    def evaluate(self, tree: Tree, arrays: dict[str, Labelled], others: str) -> Labelled:
        """Evaluate a tree; `others` are the indices of the result, and of arrays beside the tree.

        Example:
            >>> from constructive.exact.models import FLOAT32
            >>> machine = Machine(FLOAT32, np.random.default_rng(0))
            >>> arrays = {"x": Labelled(np.ones(2), "i"), "y": Labelled(np.eye(2), "ij")}
            >>> Contractor(machine, Order()).evaluate(("x", "y"), arrays, "j").array.tolist()
            [1.0, 1.0]
        """
        if isinstance(tree, str):
            return arrays[tree]
        parts = []
        for place, part in enumerate(tree):
            beside = (
                name for at, other in enumerate(tree) if at != place for name in leaves(other)
            )
            seen = others + "".join(arrays[name].indices for name in beside)
            parts.append(self.evaluate(part, arrays, seen))
        inside = dict.fromkeys(index for part in parts for index in part.indices)
        over = "".join(index for index in inside if index not in others)
        if self.average is not None and ATTENTION in tree:
            logits = parts.pop(tree.index(ATTENTION))
            return self.average(logits, parts, over)
        return self.reduced(parts, over)

    def reduced(self, parts: list[Labelled], over: str) -> Labelled:
        """Multiply arrays, and sum over some indices at once, and over others one by one."""
        later = [index for index in over if index in self.apart]
        if len(later) == len(over):
            later = later[1:]
        at_once = "".join(index for index in over if index not in later)
        result = contract(self.machine, parts, at_once, self.order)
        for index in later:
            result = contract(self.machine, [result], index, self.order)
        return result
