"""The weights of a decoder in few bits, and the same weights again, bit for bit."""

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from constructive.layers.packed.registry import FLOATS, RULES
from constructive.layers.packed.rules import LARGEST, BitArray, Bits, Matrix, Stored
from constructive.support.arguments import is_integer
from constructive.support.arrays import Array, Integers

# In the order in which they are read: the unembedding gives the order of tokens.
NAMES = ("unembedding", "embedding", "positions", "W_Q", "W_K", "U")
MOST_COLUMNS = 4096  # Of a matrix; with more of them weights are not packed

_PARAMETER_BITS = 32  # That a parameter of a rule counts for


class Packed(NamedTuple):
    """Weights in few bits."""

    # by tensor, its shape and runs of columns: how many, the rule and its parameters
    rules: dict[str, Any]
    bits: BitArray  # of all columns, one after the other
    num_stored: int  # how many numbers are stored, parameters of rules among them

    @property
    def num_bits(self) -> int:
        """The bits of all numbers that are stored; a parameter of a rule counts 32."""
        runs = (run for about in self.rules.values() for run in about["columns"])
        return len(self.bits) + _PARAMETER_BITS * sum(len(run) - 2 for run in runs)


def packable(tensors: Mapping[str, Array]) -> bool:
    """Whether weights are packed: integers, and not too many columns of them."""
    return all(
        _matrix_shape(name, array.shape, len(tensors["W_Q"]))[1] <= MOST_COLUMNS
        and bool((np.rint(array) == array).all())
        for name, array in tensors.items()
    )


def pack(tensors: Mapping[str, Array], seed: int) -> Packed:
    """Store each column of each tensor by the rule that takes the fewest bits.

    Example:
        >>> signs = np.array([[1.0, -3.0], [-1.0, -3.0]], np.float32)
        >>> tensors = dict.fromkeys(NAMES, signs) | {"U": np.vstack([signs, signs])}
        >>> tensors["W_Q"] = tensors["W_K"] = signs[np.newaxis, :, :1]
        >>> packed = pack(tensors, 0)
        >>> packed.rules["embedding"]
        {'shape': [2, 2], 'columns': [[1, 'drawn', 1], [1, 'constant', -3]]}
        >>> unpack(packed.rules, packed.bits, 0)["U"].tolist()
        [[1.0, -3.0], [-1.0, -3.0], [1.0, -3.0], [-1.0, -3.0]]
    """
    rules: dict[str, Any] = {}
    bits: list[BitArray] = []
    order, count = None, 0
    heads = len(tensors["W_Q"])
    for name in NAMES:
        array = tensors[name]
        columns = array.reshape(_matrix_shape(name, array.shape, heads))
        matrix, listed = Matrix(name, columns.shape, seed, order), []
        for index, values in enumerate(columns.T):
            key, best = min(_candidates(values, index, matrix), key=_size)
            listed.append((key, *best.parameters))
            bits.append(best.bits)
            count += RULES[key].counted(len(values))
            if order is None:  # the first column of the unembedding gives it to all others
                order = order_of(values)
                matrix = dataclasses.replace(matrix, order=order)
        runs = [[len(list(same)), *rule] for rule, same in groupby(listed)]
        count += sum(len(run) - 2 for run in runs)
        rules[name] = {"shape": list(array.shape), "columns": runs}
    return Packed(rules, np.concatenate(bits), count)


def unpack(rules: Mapping[str, Any], bits: BitArray, seed: int) -> dict[str, Array]:
    """Read weights that `pack` stored."""
    if set(rules) != set(NAMES):
        raise ValueError(f"its tensors are {sorted(rules)}")
    given, order, tensors = Bits(bits), None, {}
    heads = next(iter(rules["W_Q"]["shape"]))
    for name in NAMES:
        shape = tuple(rules[name]["shape"])
        rows, count = _matrix_shape(name, shape, heads)
        listed = [(run[1], tuple(run[2:])) for run in rules[name]["columns"] for _ in range(run[0])]
        whole = all(is_integer(value) for _, parameters in listed for value in parameters)
        if len(listed) != count or not whole:
            raise ValueError(f"its rules for {name} are not those of {count} columns")
        matrix, columns = Matrix(name, (rows, count), seed, order), np.empty((rows, count))
        for index, (key, parameters) in enumerate(listed):
            rule = RULES[key]
            column = rule.read(parameters, given, index, matrix)
            if rule is not FLOATS and not (np.abs(column) <= LARGEST).all():
                raise ValueError(f"{name} has integers beyond 2^24, which float32 rounds")
            columns[:, index] = column
            if order is None:
                order = order_of(column)
                matrix = dataclasses.replace(matrix, order=order)
        tensors[name] = columns.astype(np.float32).reshape(shape)
    if given.left >= 8 or given.take(given.left).any():
        raise ValueError("it has more bits than its columns")
    return tensors


def order_of(values: Array) -> Integers:
    """Return the place of each value in the descending order, the first of equal ones first.

    Example:
        >>> order_of(np.array([2.0, 5.0, 2.0])).tolist()
        [1, 0, 2]
    """
    order = np.empty(len(values), np.int64)
    order[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return order


def _matrix_shape(name: str, shape: tuple[int, ...], heads: int) -> tuple[int, int]:
    """Return rows and columns: a row for each token, position or head; U also has one for x."""
    whole = all(is_integer(size) and size > 0 for size in shape)
    if not whole or len(shape) != (3 if name in {"W_Q", "W_K"} else 2):
        raise ValueError(f"the shape of {name} is {shape}")
    if name == "U" and heads:
        if shape[0] % (heads + 1):
            raise ValueError(f"the shape of U is {shape}")
        return heads + 1, shape[0] // (heads + 1) * shape[1]
    return shape[0], int(np.prod(shape[1:]))


def _candidates(values: Array, index: int, matrix: Matrix) -> Iterator[tuple[str, Stored]]:
    """Yield the rules that give a column bit for bit; only one of them knows minus zero."""
    for key, rule in RULES.items():
        if rule is FLOATS or not (np.signbit(values) & (values == 0)).any():
            stored = rule.store(values, index, matrix)
            if stored is not None:
                yield key, stored


def _size(stored: tuple[str, Stored]) -> int:
    """The bits that a column takes."""
    return len(stored[1].bits) + _PARAMETER_BITS * len(stored[1].parameters)
