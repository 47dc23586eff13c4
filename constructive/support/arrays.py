"""Arrays as they are read, and our own, which nobody else can write to."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from constructive.support.errors import DataError, ParameterError, shown

Array = npt.NDArray[np.floating[Any]]
Single = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
Tensor: TypeAlias = Any  # an array or tensor of numpy, torch, jax or another library

# Default size of temporary arrays: large enough for BLAS, small enough to stay in a cache.
CHUNK_BYTES = 4 << 20

# What `as_array` raises: exceptions of numpy, or of what is converted.
UNREADABLE = ValueError, TypeError, RuntimeError, BufferError

_LARGEST_EXACT_INTEGER = 2**53

# Dtypes of PyTorch and of ml_dtypes, by the start of their names. All of them are in float32.
_SHORT = "bfloat16", "float8"


def row_chunks(total: int, bytes_per_row: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[slice]:
    """Cut rows into pieces of about one size in memory; a piece has at least one row."""
    step = max(1, chunk_bytes // max(1, bytes_per_row))
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def as_array(values: object) -> AnyArray:
    """Read numbers as numpy does, also tensors with gradients and arrays of other libraries.

    Tensors are read as they are now, from wherever they lie; gradients do not flow through it.
    bfloat16 and float8, which numpy does not have, become float32, exactly. Raises one of
    `UNREADABLE`.
    """
    given: Any = values
    if isinstance(given, list | tuple) and given and hasattr(given[0], "detach"):
        given = [as_array(tensor) for tensor in given]
    if hasattr(given, "detach"):  # PyTorch lets no other tensor be read
        given = given.detach().cpu()
        if str(given.dtype).removeprefix("torch.").startswith(_SHORT):
            given = given.float()
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        return np.from_dlpack(given)
    array = np.asarray(given)
    return array.astype(np.float32) if array.dtype.name.startswith(_SHORT) else array


def readable_array(name: str, values: object, suggestion: str, witness: object = None) -> AnyArray:
    """Return `as_array` of values, or raise DataError with their name."""
    try:
        return as_array(values)
    except UNREADABLE as error:
        problem = f"{name} cannot be read as an array: {error}"
        raise DataError(problem, witness=witness, suggestion=suggestion) from error


def private(name: str, values: object) -> AnyArray:
    """Return a read-only copy as an array; also of what only looks like one, such as a tensor."""
    try:
        # Not np.array(values): what converts itself may say that it made a copy, and did not.
        return frozen(as_array(values).copy("K"))
    except UNREADABLE as error:
        raise ParameterError(
            f"{name} is not an array: {error}",
            suggestion="arrays whose rows have one length; torch.stack(...) for lists of tensors",
        ) from error


def first_place(wrong: Booleans) -> tuple[int, ...]:
    """Return the index of the first True; there is one."""
    return tuple(map(int, np.argwhere(wrong)[0]))


def float_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64, as numpy calls it."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise ParameterError(
            f"dtype={shown(dtype)} is neither float32 nor float64",
            witness=shown(dtype),
            suggestion="dtype='float32'",
        )
    return kind


def frozen(array: AnyArray) -> AnyArray:
    """Return a read-only view of an array that nobody else holds, and of its bases.

    numpy makes no view writable whose base is not; so the view can be handed out.
    """
    held: object = array
    while isinstance(held, np.ndarray):
        held.flags.writeable = False
        held = held.base
    return array.view()


def with_one(array: Array) -> Array:
    """Return an entry 1 appended along the last axis."""
    return np.concatenate([array, np.ones((*array.shape[:-1], 1), array.dtype)], axis=-1)


class Rebuilt:
    """An object that its constructor makes anew when it is copied or unpickled.

    So arrays are copied, checked and read-only there as well. Fields that the constructor does not
    take are left behind.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        given = [field.name for field in fields(self) if field.init]  # type: ignore[arg-type] # dataclasses all
        return type(self), tuple(vars(self)[name] for name in given)


def checked_matrix(name: str, values: object) -> Array:
    """Read `values` as a finite matrix with at least one entry."""
    matrix = checked_array(name, values)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise DataError(
            f"{name} have shape {matrix.shape}",
            witness=matrix.shape,
            suggestion="a matrix with a row for each vector",
        )
    return matrix


def checked_array(name: str, values: object) -> Array:
    """Read `values` as a finite, read-only array of float32 or float64.

    It may be a view of what was given, for a computation at once; a `Dataset` keeps a copy.
    """
    view = finite_array(name, values, copy=False).view()
    view.flags.writeable = False
    return view


def finite_array(name: str, values: object, *, copy: bool) -> Array:
    """Read `values` as a finite array of float32 or float64. A copy is made before the check."""
    one_length = "arrays whose rows have one length; torch.stack(...) for a list of tensors"
    array = readable_array(name, values, one_length)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        index = first_place(np.ma.getmaskarray(values))
        message = f"{name}{list(index)} is masked"
        raise DataError(message, witness=index, suggestion="fill or drop masked entries")
    kind = array.dtype.newbyteorder("=")
    if kind.kind in "biu":
        if array.size and max(int(array.max()), -int(array.min())) > _LARGEST_EXACT_INTEGER:
            message = f"{name} has integers beyond 2^53, which float64 cannot hold exactly"
            raise DataError(message, suggestion="smaller integers, or floats")
        kind = np.dtype(np.float64)
    elif kind == np.float16:
        kind = np.dtype(np.float32)
    elif kind not in (np.float32, np.float64):
        raise _no_numbers(name, values, kind)
    array = array.astype(kind, copy=copy)
    finite = np.isfinite(array)
    if not finite.all():
        index = first_place(~finite)
        message = f"{name}{list(index)} is {array[index]}"
        raise DataError(message, witness=index, suggestion="finite numbers only")
    return array


def _no_numbers(name: str, values: object, kind: np.dtype[Any]) -> DataError:
    """What to say of an array of another dtype."""
    if values is None:
        return DataError(f"{name} are None", suggestion="an array of numbers")
    suggestion = "float32, float64 or integers"
    if kind.kind == "O":
        suggestion += "; array.astype(float) if all are numbers"
    if name == "targets" and kind.kind in "USTO":  # objects are strings more often than not
        suggestion += "; Dataset.of_classes(contexts, queries, labels) for class labels"
    problem = f"{name} has dtype {kind}, which is not real numbers of 64 bits or fewer"
    return DataError(problem, witness=str(kind), suggestion=suggestion)


def components(edges: npt.ArrayLike, count: int) -> Integers:
    """Return the number of the component of each vertex, (count,), by pairs of vertices (2, E)."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - a quarter of the time to import all
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    first, second = np.asarray(edges)
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(count, count))
    labels: Integers = connected_components(graph, directed=False)[1].astype(np.int64)
    return labels


def unit_rows(vectors: Array) -> tuple[Array, Array]:
    """Return lengths (k,) of the rows of a matrix, and rows of length 1 (but for zero rows)."""
    largest = np.abs(vectors).max(axis=1)
    largest[largest == 0] = 1.0
    scaled = vectors / largest[:, np.newaxis]  # squares of huge or tiny entries leave float64
    lengths = np.sqrt(np.einsum("kd,kd->k", scaled, scaled))
    lengths[lengths == 0] = 1.0
    return lengths * largest, scaled / lengths[:, np.newaxis]
