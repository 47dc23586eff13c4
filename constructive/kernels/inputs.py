"""What a kernel gets: q, k, v, the mask and what else shapes its logits, as arrays of a library."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from constructive.kernels.cases import Draft
from constructive.kernels.masks import Boolean
from constructive.kernels.spec import Spec, numpy_dtype, stored_name
from constructive.support.arrays import Array, Booleans, Integers, Tensor
from constructive.support.errors import ParameterError, require, require_known


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of an attention kernel, as adapters hand them on; `Problem` says its fields."""

    spec: Spec
    case: str
    draft: Draft
    v: Array
    visible: Booleans
    slopes: Array | None
    sinks: Array | None
    drawn: Array | None

    @property
    def q(self) -> Array:
        """Queries, (B, H, T_q, d), in float64."""
        return self.draft.q

    @property
    def k(self) -> Array:
        """Keys, (B, G, T_k, d), in float64."""
        return self.draft.k

    @property
    def mask(self) -> Booleans | None:
        """Which keys may be seen, (B, 1 or H, T_q, T_k); None if all are."""
        return None if self.visible.all() else self.visible

    @cached_property
    def bias(self) -> Array | None:
        """What is added to logits: ALiBi, or a bias with 1 for the axes that it lacks; or None."""
        return self.drawn if self.slopes is None else alibi(self.spec, self.slopes)

    @property
    def added(self) -> Array | None:
        """The additive mask: bias, and -inf at hidden keys; None if a boolean mask says it."""
        boolean = self.spec.mask(Boolean)
        if self.bias is None and (boolean is None or not boolean.additive):
            return None
        return self._numbers

    @property
    def _numbers(self) -> Array:
        """What is added to logits, -inf at hidden keys, in a shape that broadcasts."""
        bias = np.zeros((1, 1, 1, 1)) if self.bias is None else self.bias
        return bias if self.visible.all() else np.where(self.visible, bias, -np.inf)

    def tensors(
        self,
        library: str = "numpy",
        *,
        layout: str = "BHTd",
        device: str = "cpu",
        placed: str | None = None,
        poison: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k and v.

        Args:
            library: "numpy", "torch" or "jax"
            layout: "BHTd" (batch, heads, tokens, d), "BTHd" (batch, tokens, heads, d), or "packed"
                (tokens of all sequences, heads, d)
            device: where tensors of torch and jax are
            placed: how arrays lie in memory, a key of `inputs.PLACES`; by default "contiguous", but
                "strided" for torch, whose kernels get strides, in the cases of `inputs.STRIDED`
            poison: whether keys and values beyond the length of a sequence are NaN; for kernels
                that get lengths

        Raises:
            ParameterError: for another library, layout or place

        Example:
            >>> from constructive.kernels import Problem
            >>> problem = Problem.build(Spec(queries=3, keys=5, heads=(4, 2), head_dim=16))
            >>> [array.shape for array in problem.tensors(layout="BTHd")]
            [(1, 3, 4, 16), (1, 5, 2, 16), (1, 5, 2, 16)]
        """
        require_known("layout", layout, LAYOUTS)
        place = self.place("strided" if placed is None and self.is_strided(library) else placed)
        queries, keys = self.spec.lengths
        found = []
        for array, ends in ((self.q, queries), (self.k, keys), (self.v, keys)):
            if poison and array is not self.q:
                beyond = np.arange(array.shape[2]) >= ends[:, None]
                array = np.where(beyond[:, None, :, None], np.nan, array)  # noqa: PLW2901
            memory = place.whole(_laid_out(array, ends, layout))
            found.append(place.view(converted(memory, library, device, self.spec.dtype)))
        return found[0], found[1], found[2]

    def is_strided(self, library: str) -> bool:
        """Whether tensors of a library have strides if nothing is said."""
        return library == "torch" and self.case in STRIDED

    def place(self, placed: str | None) -> "Place":
        """Return a place by its name; "strided" has its own axis in each case."""
        placed = "contiguous" if placed is None else placed
        require_known("placed", placed, PLACES)
        return STRIDED.get(self.case, PLACES[placed]) if placed == "strided" else PLACES[placed]

    def mask_tensor(
        self, library: str = "numpy", *, additive: bool = False, placed: str | None = None
    ) -> Tensor:
        """Return the mask as an array, (B or 1, H or 1, T_q, T_k).

        Args:
            library: "numpy", "torch" or "jax"
            additive: as numbers to add, in the format of the inputs; else True is visible
            placed: for torch by default, in the same cases, rows have padding, and the shape is
                (B, H, T_q, T_k) with strides of 0; "contiguous" where it must not be
        """
        spec, numbers = self.spec, self._numbers if additive else self.visible
        name = self.spec.output.name if additive else "bool"
        if placed is not None or not self.is_strided(library):
            whole = np.broadcast_to(numbers, (*numbers.shape[:2], spec.queries, spec.keys))
            return converted(np.ascontiguousarray(whole), library, "cpu", name)
        rows = np.pad(numbers, [(0, 0)] * 3 + [(0, _MARGIN)], mode="wrap")
        padded = converted(rows, library, "cpu", name)[..., : spec.keys]
        return padded.expand(spec.batch, spec.heads[0], spec.queries, spec.keys)


def alibi(spec: Spec, slopes: Array) -> Array:
    """Return -slope |distance| of a key from the diagonal, (B, H, T_q, T_k)."""
    distance = np.abs(spec.diagonal - np.arange(spec.keys))
    return np.asarray(-slopes[:, None, None] * distance)


# Arrays as kernels get them: library, layout and format, and how they lie in memory.


LAYOUTS = ("BHTd", "BTHd", "packed")


def _laid_out(array: Array, ends: npt.NDArray[np.int64], layout: str) -> Array:
    if layout == "BHTd":
        return array
    tokens = array.transpose(0, 2, 1, 3)
    if layout == "BTHd":
        return tokens
    return np.concatenate([rows[:end] for rows, end in zip(tokens, ends, strict=True)])


def from_layout(spec: Spec, out: Array, layout: str) -> Array:
    """Return an output in the layout (B, H, T_q, d_v); rows that do not exist are NaN."""
    if layout == "BHTd":
        return out
    if layout == "BTHd":
        return out.transpose(0, 2, 1, 3)
    whole = np.full((spec.batch, spec.queries, *out.shape[1:]), np.nan)
    whole[spec.rows()] = out
    return whole.transpose(0, 2, 1, 3)


def converted(array: Tensor, library: str, device: str, dtype: str) -> Tensor:
    """Return an array of a library; torch and jax are imported when they are asked for."""
    require_known("library", library, _LIBRARIES)
    return _LIBRARIES[library](np.ascontiguousarray(array), device, dtype)


def require_device(library: str, device: str) -> None:
    """Check that a device is there, once for all problems."""
    try:
        converted(np.zeros(1), library, device, "float32")
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        first = str(error).partition("\n")[0]
        raise ParameterError(
            f"{library} cannot use device={device!r} here: {first}",
            witness=device,
            suggestion=f"--device cpu, or a build of {library} for such a device",
        ) from error


def _numpy(array: Tensor, device: str, dtype: str) -> Tensor:
    del device
    return array.astype(numpy_dtype(dtype))


def _torch(array: Tensor, device: str, dtype: str) -> Tensor:
    torch = require("torch", extra="torch", purpose="tensors of torch")
    return torch.tensor(array).to(getattr(torch, stored_name(dtype))).to(device)


def _jax(array: Tensor, device: str, dtype: str) -> Tensor:
    jax = require("jax", extra="jax", purpose="arrays of jax")
    where = jax.devices(device)[0] if device else None
    return jax.device_put(_numpy(array, device, dtype), where)


_LIBRARIES: dict[str, Callable[[Tensor, str, str], Tensor]] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
}


# How arrays lie in memory: alone, inside larger arrays, or with gaps between their rows.
#
# What lies around and between the numbers is NaN, so a kernel that reads it shows it; in `spread`
# it is rows of the array itself, so that HOW says which ones a kernel without strides reads.


_MARGIN = 3  # Places around an array that is surrounded, on each side of each axis
_PARTS = 3  # Of an array that is interleaved: q, k and v of one product


@dataclass(frozen=True)
class Place:
    """A way in which an array lies in memory."""

    # returns the memory of an array: a contiguous array that contains it
    whole: Callable[[Array], Array]
    # returns the array, of memory in numpy or torch; or a copy of it in jax
    view: Callable[[Tensor], Tensor]


def _surrounded(array: Array) -> Array:
    return np.pad(array, _MARGIN, constant_values=np.nan)


def _interleaved(array: Array) -> Array:
    gap = np.full_like(array, np.nan)
    return np.concatenate([gap, array, gap], axis=-1)


def _middle(whole: Tensor) -> Tensor:
    width = whole.shape[-1] // _PARTS
    return whole[..., width : 2 * width]


def _beside_stale(array: Array, axis: int) -> Array:
    """Return numbers of other tokens between those of an axis, counted from the last."""
    both = np.stack([array, np.roll(array, 1, -2)], axis=array.ndim + axis + 1)
    shape = list(array.shape)
    shape[axis] *= 2
    return both.reshape(shape)


def _every_second(whole: Tensor, axis: int) -> Tensor:
    at = [slice(None)] * whole.ndim
    at[axis] = slice(None, None, 2)
    return whole[tuple(at)]


def _spread(axis: int) -> Place:
    """Return the place of every second number of an axis."""
    return Place(partial(_beside_stale, axis=axis), partial(_every_second, axis=axis))


def _turned(whole: Tensor) -> Tensor:
    return whole.swapaxes(1, 2) if whole.ndim > 3 else whole


# A part of a larger array; every third part of rows, as of a product that makes q, k and v; every
# other row; every other entry (tokens or heads in some cases); axes of heads and tokens swapped.
# A new place is two functions and a line here.
PLACES: dict[str, Place] = {
    "contiguous": Place(np.ascontiguousarray, lambda whole: whole),
    "surrounded": Place(
        _surrounded, lambda whole: whole[tuple(slice(_MARGIN, -_MARGIN) for _ in whole.shape)]
    ),
    "interleaved": Place(_interleaved, _middle),
    "spread": _spread(-2),
    "strided": _spread(-1),
    "swapped": Place(lambda array: np.ascontiguousarray(_turned(array)), _turned),
}


# The axis whose every second number is the array, by case: entries, tokens, heads. Elsewhere fused
# kernels run that are not for such entries.
STRIDED = {
    "scale": _spread(-1), "slopes": _spread(-1), "bias": _spread(-1), "first": _spread(-2),
    "ties": _spread(-3),
}  # fmt: skip


# Pages: a cache of keys and values in random order. What no kernel may read is NaN, which shows
# every read; or stale, that is keys and values of other tokens, which tell where a wrong read was.

UNUSED = -1
_SPARE = 3  # pages of no sequence


@dataclass(frozen=True, eq=False)
class Pool:
    """Pages as numbers, whatever library a kernel gets them in."""

    k: Array  # (pages, page size, G, d)
    v: Array  # (pages, page size, G, d_v)
    # (B, most pages of a sequence and more): the page of each block of keys, -1 where there is none
    table: Integers
    lengths: Integers  # (B,) keys of each sequence
    owner: Integers  # (pages, page size): the sequence
    key: Integers  # (pages, page size): the key, or a stale one
    is_own: Booleans  # (pages, page size): whether the place is that of the key

    @classmethod
    def of(
        cls, problem: Inputs, page_size: int, *, columns: int = 0, stale: bool = False
    ) -> "Pool":
        """Return the keys and values of a problem in pages."""
        spec, lengths = problem.spec, problem.spec.lengths[1]
        random = np.random.default_rng((spec.seed, 17))
        counts = -(-lengths // page_size)
        order = random.permutation(int(counts.sum()) + _SPARE)
        starts = np.cumsum(counts) - counts
        column = np.arange(int(counts.max()) + columns)
        there = column < counts[:, None]
        table = np.where(there, order[np.where(there, starts[:, None] + column, 0)], UNUSED)
        sequence, block = np.nonzero(there)
        keys = block[:, None] * page_size + np.arange(page_size)
        pages = table[sequence, block]
        # Stale tokens are of the sequence whose page it is, so some queries read them if they leak.
        owner = np.zeros((len(order), page_size), dtype=np.int64)
        owner[pages] = sequence[:, None]
        drawn = np.random.default_rng((spec.seed, 19)).integers(0, spec.keys, owner.size)
        key, is_own = drawn.reshape(owner.shape), np.zeros(owner.shape, dtype=np.bool_)
        inside = keys < lengths[sequence][:, None]
        is_own[pages] = inside
        key[pages] = np.where(inside, keys, key[pages])
        if stale:  # as old tables have it: pages of others behind the last one
            old = random.integers(0, len(order), table.shape)
            table = np.where(there, table, old)
        pool = cls(problem.k, problem.v, table, lengths, owner, key, is_own)
        fill = None if stale else np.nan
        return replace(pool, k=pool.laid(problem.k, fill), v=pool.laid(problem.v, fill, 1))

    def laid(self, array: Array, fill: float | None, step: int = 0) -> Array:
        """Return what each token has, (B, G, T_k, ..), in pages, (pages, page size, G, ..)."""
        key = np.where(self.is_own, self.key, self.key + step)
        key = np.where(self.is_own, key, key % np.maximum(self.lengths[self.owner], 1))
        found: Array = array.swapaxes(1, 2)[self.owner, key]
        if fill is not None:
            found[~self.is_own] = fill
        return found

    def paged_scale(self, scale: Array) -> Array:
        """Return scales of pages, (B, pages of a sequence), as scales of the pool, (pages,)."""
        found = np.full(len(self.k), np.nan)
        there = np.arange(self.table.shape[1]) < -(-self.lengths // self.k.shape[1])[:, None]
        sequence, block = np.nonzero(there)
        found[self.table[sequence, block]] = scale[sequence, block]
        return found
