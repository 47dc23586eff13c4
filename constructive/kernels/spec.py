"""What a problem is about: shapes, mask and options of an attention kernel."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from constructive.exact.formats import FORMATS, Format
from constructive.kernels.masks import (
    Boolean,
    Causal,
    Chunked,
    Grid,
    Mask,
    RightPadding,
    Window,
    require_masks,
)
from constructive.support.arrays import UNREADABLE, Array, Booleans, Integers, Tensor, as_array
from constructive.support.errors import (
    ParameterError,
    require,
    require_known,
    require_pair,
    require_positive,
    require_seed,
    shown,
)

# The formats of inputs and outputs of kernels: those of `exact.formats`, and TF32.


_TF32 = replace(FORMATS["float32"], name="tf32", digits=11, largest=(2.0 - 2.0**-10) * 2.0**127)
DTYPES = {name: FORMATS[name] for name in ("float64", "float32")}
DTYPES["tf32"] = _TF32
DTYPES |= {name: FORMATS[name] for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")}
"""Formats of q, k and v by name. TF32 is stored as float32."""
# Of formats in which no output is: float8 is storage.
_OUTPUTS = {"tf32": "float32", "float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16"}
_OF_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def format_of(name: str) -> Format:
    """Return a format by its name."""
    require_known("dtype", name, DTYPES)
    return DTYPES[name]


def output_of(name: str) -> Format:
    """Return the format of results."""
    return format_of(_OUTPUTS.get(name, name))


def stored_name(name: str) -> str:
    """Return what numpy, ml_dtypes, torch and jax call a format."""
    return "float32" if name == "tf32" else name


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the numpy type of a format; ml_dtypes is imported if it has it."""
    if name not in _OF_ML_DTYPES:
        return np.dtype(stored_name(name))
    types = require("ml_dtypes", extra="kernels", purpose=f"a numpy array of {name}")
    found: np.dtype[np.generic] = np.dtype(getattr(types, name))
    return found


def holds(numbers: Format, values: npt.ArrayLike) -> bool:
    """Return whether every value is a number of a format, bit for bit."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    sizes = sizes[sizes > 0]
    scaled = np.ldexp(np.frexp(sizes)[0], numbers.digits)
    inside = (sizes <= numbers.largest) & (sizes >= numbers.smallest)
    return bool((inside & (scaled == np.floor(scaled))).all())


def as_float64(values: object, name: str = "the output") -> Array:
    """Return the numbers of an array or tensor of any library in float64; nothing is rounded."""
    given: Tensor = values
    if given is None:
        raise ParameterError(
            f"{name} is None", witness=None, suggestion="an array that the kernel returns"
        )
    if isinstance(given, tuple) and any(hasattr(part, "shape") or part is None for part in given):
        raise ParameterError(
            f"{name} is a tuple of {len(given)}, as of a kernel that also returns sums",
            witness=type(given).__name__,
            suggestion="check(problem, out[0]): its first entry alone; or check(problem, out[0], "
            "lse=out[1])",
        )
    try:
        array = as_array(given)
        if np.iscomplexobj(array):
            raise TypeError("its entries are complex")
        found: Array = array.astype(np.float64)
    except UNREADABLE as error:
        raise ParameterError(
            f"{name} is not an array of numbers: {error}",
            witness=type(values).__name__,
            suggestion="a numpy array, or tensor.float() for a format that numpy lacks",
        ) from error
    is_wide = array.dtype.kind in "iu" or array.dtype.itemsize > found.dtype.itemsize
    if is_wide and not np.array_equal(found.astype(array.dtype), array, equal_nan=True):
        raise ParameterError(
            f"{name} has numbers that float64 lacks",
            witness=str(array.dtype),
            suggestion="numbers of 53 bits or fewer",
        )
    return found


# Beyond these, a gap in logits is lost to roundings, or numbers of cases are beyond float32
_LARGEST = {"scale": 2.0**64, "soft_cap": 2.0**16}
FullyMasked = Literal["zeros", "nan", "mean"]
Bias = Literal["bhij", "bij", "hij", "bj"]
Kind = TypeVar("Kind", bound=Mask)


def _example(name: str) -> float:
    return 50.0 if "cap" in name else 0.125


def require_factors(**factors: object) -> None:
    """Raise for what is neither None nor a positive finite number."""
    for name, value in factors.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if value is not None and not (is_number and 0.0 < float(value) < math.inf):  # type: ignore[arg-type] # a number
            raise ParameterError(
                f"{name}={shown(value)} is not a positive number",
                witness=shown(value),
                suggestion=f"{name}=None for the default, or a number such as {_example(name)}",
            )


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Shapes, masks and options of an attention problem.

    The kernel computes softmax(cap(scale q k^T) + bias) v over visible keys.

    Attributes:
        batch: number of sequences B
        heads: query heads H and KV heads G; H is a multiple of G
        queries: queries T_q of a sequence
        keys: keys T_k of a sequence
        head_dim: d, entries of a query and a key
        value_dim: entries of a value; `head_dim` by default
        masks: what hides keys; a key is visible if all masks show it
        scale: factor of logits, 1 / sqrt(head_dim) by default
        soft_cap: c of c tanh(logit / c), or None
        sink: whether each head has a sink, a logit without a value
        alibi: whether each head has a slope, the factor of the distance that is subtracted
        bias: the axes that numbers which are added to logits have: "bhij" (sequences, heads,
            queries, keys), "bij", "hij" or "bj"; they are the same along the others, or None
        dtype: format of q, k and v, a key of `formats.DTYPES`
        fully_masked: what a row without a visible key is: "zeros", "nan", or "mean", the average
            of all values
        seed: of everything that is drawn

    Raises:
        ParameterError: for shapes or options that make no sense

    Example:
        >>> from constructive.kernels.masks import Causal
        >>> Spec(queries=2, keys=3, masks=(Causal("bottom-right"),)).visible()[0, 0].astype(int)
        array([[1, 1, 0],
               [1, 1, 1]])
    """

    batch: int = 1
    heads: tuple[int, int] = (2, 2)
    queries: int = 64
    keys: int = 64
    head_dim: int = 64
    value_dim: int | None = None
    masks: tuple[Mask, ...] = ()
    scale: float | None = None
    soft_cap: float | None = None
    sink: bool = False
    alibi: bool = False
    bias: Bias | None = None
    dtype: str = "float32"
    fully_masked: FullyMasked = "zeros"
    seed: int = 0

    def __post_init__(self) -> None:
        require_pair("heads", self.heads, "(8, 2): query heads and KV heads")
        require_positive(
            batch=self.batch, queries=self.queries, keys=self.keys, head_dim=self.head_dim,
            value_dim=self.d_v, query_heads=self.heads[0], kv_heads=self.heads[1],
        )  # fmt: skip
        require_seed(self.seed)
        format_of(self.dtype)
        if self.heads[0] % self.heads[1]:
            raise ParameterError(
                f"{self.heads[0]} query heads cannot share {self.heads[1]} KV heads",
                witness=self.heads,
                suggestion="a multiple of the number of KV heads",
            )
        require_factors(scale=self.scale, soft_cap=self.soft_cap)
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if value is not None and not 1.0 / largest <= value <= largest:
                raise ParameterError(
                    f"{name}={value:g} is not between {1.0 / largest:g} and {largest:g}",
                    witness=value,
                    suggestion=f"{name}=None for the default, or a number such as {_example(name)}",
                )
        require_known("fully_masked", self.fully_masked, get_args(FullyMasked))
        if self.bias is not None:
            require_known("bias", self.bias, get_args(Bias))
        object.__setattr__(self, "masks", require_masks(self.masks))
        _ = self.lengths

    @property
    def d_v(self) -> int:
        """Entries of a value."""
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return self.heads[0] // self.heads[1]

    @property
    def factor(self) -> float:
        """The factor of logits."""
        return 1.0 / math.sqrt(self.head_dim) if self.scale is None else self.scale

    @property
    def inputs(self) -> Format:
        """The format of q, k and v."""
        return format_of(self.dtype)

    @property
    def output(self) -> Format:
        """The format of the result."""
        return output_of(self.dtype)

    @property
    def lengths(self) -> tuple[Integers, Integers]:
        """Queries and keys of each sequence in memory, (B,) each."""
        return self.grid.query_lengths, self.grid.key_lengths

    def mask(self, kind: type[Kind]) -> Kind | None:
        """Return the mask of a kind, or None.

        Args:
            kind: a class of `masks`

        Example:
            >>> from constructive.kernels.masks import Causal
            >>> Spec(masks=(Causal(),)).mask(Causal)
            Causal(alignment='bottom-right')
        """
        return next((mask for mask in self.masks if isinstance(mask, kind)), None)

    @property
    def grid(self) -> Grid:
        """The positions that masks decide about."""
        return Grid.of(self.masks, self.batch, self.heads[0], self.queries, self.keys)

    @property
    def diagonal(self) -> Integers:
        """The key on the diagonal of each query, (B, 1, T_q, 1); bottom-right without a mask."""
        mask = self.mask(Causal) or self.mask(Window) or self.mask(Chunked)
        return self.grid.diagonal("bottom-right" if mask is None else mask.alignment)

    def visible(self) -> Booleans:
        """Return which keys each query may see, (B, 1 or H, T_q, T_k).

        Example:
            >>> Spec(batch=2, queries=3, keys=4).visible().shape
            (2, 1, 3, 4)
        """
        every: Booleans = np.ones((self.batch, 1, 1, 1), dtype=np.bool_)
        return every & self.grid.visible(self.masks)

    def rows(self) -> Booleans:
        """Return which queries exist, (B, T_q): all but those beyond the length of a sequence.

        Example:
            >>> bool(Spec().rows().all())
            True
        """
        return np.asarray(np.arange(self.queries) < self.lengths[0][:, None])

    def __str__(self) -> str:
        words = [
            *map(str, self.masks),
            f"{self.batch} x {self.heads[0]}/{self.heads[1]} heads",
            f"{self.queries} x {self.keys}",
            f"d {self.head_dim}" + (f"/{self.d_v}" if self.d_v != self.head_dim else ""),
        ]
        for name, value in (("scale", self.scale), ("soft cap", self.soft_cap)):
            words += [] if value is None else [f"{name} {value:g}"]
        words += [name for name in ("sink", "alibi") if getattr(self, name)]
        words += [] if self.bias is None else [f"bias {self.bias}"]
        return ", ".join([*words, self.dtype])


# What a bias is: 0 for half of the keys of its rows, of which winners are chosen, for the others a
# number that outweighs products by which they would win. In one case a quarter is at -1.


def kinds_of_bias(spec: Spec, *, near: bool) -> Integers:
    """Return 0 for keys without a bias, 1 for those at -1, 2 for others, in the bias's shape."""
    sizes = {"b": spec.batch, "h": spec.heads[0], "i": spec.queries, "j": spec.keys}
    shape = tuple(n if axis in (spec.bias or "") else 1 for axis, n in sizes.items())
    drawn = np.random.default_rng((spec.seed, 43)).random(shape)
    drawn[..., 0] = 0.0  # the first key, which a causal mask shows to all
    return np.digitize(drawn, [0.5, 0.75 if near else 0.5])


# Which heads have a slope, or a sink at 0: all cases together tell every head from every other one.
#
# A head has a number, and a case takes one of its bits. The lowest bit says which half of the heads
# it is in, so it differs somewhere from that of head h % k, h // k, h + k or H - 1 - h. The others
# are those of a random rank in that half.


# Which bit a case takes; 0 where nothing is said. Answers of `uniform`, `slopes` and `ties` depend
# on slopes, those of all cases but `levels` and `low` on sinks.
_BITS = {"slopes": 1, "random": 1, "ties": 2, "last": 3, "first": 4, "scale": 5}


def chosen_heads(spec: Spec, case: str) -> Booleans:
    """Return which heads a case chooses, (H,): about half of them, and the first one if H is 1."""
    heads = spec.heads[0]
    half = -(-heads // 2)
    random = np.random.default_rng((spec.seed, 37))
    ranks = np.concatenate([random.permutation(half) for _ in range(2)])[:heads]
    numbers = 2 * ranks + np.arange(heads) // half
    bits = 1 + (half - 1).bit_length()
    return np.asarray((numbers >> _BITS.get(case, 0) % bits) % 2 == 0)


# What a kernel may be given beside q, k and v, by the names of `takes`.
TAKES = {
    "mask": "any boolean mask",
    "bias": "numbers to add to logits",
    "top-left": "a causal mask where the first query sees the first key",
    "bottom-right": "a causal mask where the last query sees the last key",
    "window": "how many keys before and after the diagonal are seen",
    "lengths": "keys of each sequence",
    "left padding": "the first key of each sequence",
    "variable lengths": "queries and keys of each sequence",
    "prefix": "keys that all queries of a sequence see",
    "chunked": "the size of chunks of keys, of which a query sees its own",
    "scale": "a factor of logits",
    "soft cap": "a soft cap",
    "sink": "a logit without a value for each head",
    "ALiBi": "a slope for each head",
}


def needs(spec: Spec) -> list[frozenset[str]]:
    """Return what a kernel has to take for a spec: of each set one name, keys of `TAKES`."""
    found = []
    for mask in spec.masks:
        names = {"mask", mask.name}
        if isinstance(mask, Causal):
            equal = spec.queries == spec.keys and not any(each.has_sizes for each in spec.masks)
            names = {"mask"} | ({"top-left", "bottom-right"} if equal else {mask.alignment})
        elif isinstance(mask, RightPadding):
            names |= {"lengths", "variable lengths"}
        elif isinstance(mask, Boolean) and mask.additive:
            names = {"bias"}
        found.append(frozenset(names))
    options = (
        ({"scale"}, spec.scale is not None), ({"soft cap"}, spec.soft_cap is not None),
        ({"sink"}, spec.sink), ({"ALiBi", "bias"}, spec.alibi), ({"bias"}, spec.bias is not None),
    )  # fmt: skip
    return found + [frozenset(names) for names, is_needed in options if is_needed]
