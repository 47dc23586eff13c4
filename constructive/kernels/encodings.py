"""A problem as other kernels get it: in pages, with scales, by indices, with values inside keys.

An encoding has the arrays that a kernel takes, and `problem`: `check(encoding.problem, out)`. Why
outputs are still known is in proofs/19-kernels.md (Propositions 23, 25 and 27).
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from constructive.kernels.answer import tail_of_cap
from constructive.kernels.cases import CASES, codes, gap
from constructive.kernels.inputs import UNUSED, Pool, converted
from constructive.kernels.problem import Problem
from constructive.kernels.spec import Spec, holds
from constructive.support.arrays import Array, Integers, Tensor
from constructive.support.errors import (
    ParameterError,
    require_known,
    require_not_negative,
    require_positive,
)

# Stored numbers with scales: a kernel that drops, doubles or exchanges a scale returns another
# output (Proposition 23).

Kind = Literal["tensor", "head", "channel", "sequence", "token", "page", "block"]
_SHIFT = 6  # The logarithm of the mean scale of keys, or its negative
# None is 1 and all differ: a scale that is dropped, applied twice or of another group shows.
_SIGNIFICANDS = np.array([9, 10, 11, 12, 13, 14, 15]) / 8.0
_QUERY_SCALE = 16.0  # Of FP8 queries, or more


@dataclass(frozen=True)
class Form:
    """A format of stored keys and values."""

    dtype: str  # of the arrays
    low: int  # the exponents of powers of two that are stored
    high: int
    largest: float  # what lies where no kernel may read, if there is no NaN
    block: int = 32  # entries of a block
    is_odd: bool = True  # whether scales have significands

    @property
    def room(self) -> int:
        """How far exponents of stored keys are apart."""
        return self.high - self.low


# Four-bit numbers are handed over one in each entry; `packed_four_bits` puts two into a byte.
FORMS: dict[str, Form] = {
    "float8_e4m3fn": Form("float8_e4m3fn", 2, 8, np.nan),
    "float8_e5m2": Form("float8_e5m2", 2, 8, np.nan),
    "int8": Form("int8", 0, 6, 127.0),
    "int4": Form("int8", 0, 2, 7.0),
    "nvfp4": Form("float32", -1, 2, 6.0, block=16),
    "mxfp4": Form("float32", -1, 2, 6.0, is_odd=False),
}


@dataclass(frozen=True, eq=False)
class Scaled:
    """Stored numbers of keys or values, and their scales."""

    numbers: Array  # (B, G, T_k, d)
    scale: Array  # of the shape of its kind
    place: Integers  # (B, G, T_k, d) which scale an entry has
    kind: Kind

    @property
    def real(self) -> Array:
        """The numbers times their scales."""
        return np.asarray(self.numbers * self.scale.ravel()[self.place])


@dataclass(frozen=True, eq=False, repr=False)
class Quantized:
    """Keys and values of a problem as stored numbers with scales, none of which is 1.

    The kernel computes softmax(scale (q q_scale) (k k_scale)^T) (v v_scale). Scales are applied to
    entries, or to sums of products.

    Attributes:
        problem: the same in real numbers, for `check`
        q: (B, H, T_q, d); in the format of the problem
        k: (B, G, T_k, d) in the stored format
        v: (B, G, T_k, d_v) likewise
        q_scale: 1, or the scale of queries in float8
        k_scale: float32, of shape (1,) for "tensor", (G,) for "head", (G, d) for "channel", (B, G)
            for "sequence", (B, G, T_k) for "token", (B, pages) for "page", (B, G, T_k, blocks) for
            "block"
        v_scale: likewise
        form: the name of the stored format
        stored_k: keys as numbers, for `check`
        stored_v: values as numbers
        page_size: keys of a page, where scales are those of pages
    """

    problem: Problem
    q: Tensor
    k: Tensor
    v: Tensor
    q_scale: float
    k_scale: Tensor
    v_scale: Tensor
    form: str
    stored_k: Scaled
    stored_v: Scaled
    page_size: int

    @classmethod
    def of(
        cls, problem: Problem, *, form: str = "float8_e4m3fn", k: Kind = "tensor",
        v: Kind = "tensor", page_size: int = 16, library: str = "numpy", device: str = "cpu",
    ) -> "Quantized":  # fmt: skip
        """Return the keys and values of a problem as stored numbers with scales.

        Keys have scales that are powers of two, about 2^6 or 2^-6, by the seed and the case: the
        first show that a scale is dropped, the second that it is applied twice. Scales of values
        have significands from 9/8 to 15/8 (powers of two for "mxfp4").

        Args:
            problem: the problem; one in float8 has queries with a scale, too
            form: "float8_e4m3fn", "float8_e5m2", "int8", "int4", "nvfp4" (blocks of 16) or "mxfp4"
                (blocks of 32)
            k: what has a scale of its own: "tensor", "head", "channel", "sequence" (and head),
                "token", "page" or "block"
            v: likewise
            page_size: keys of a page, for scales of pages
            library: "numpy", "torch" or "jax"
            device: of torch and jax

        Raises:
            ParameterError: if there is no such format or kind, or numbers of the problem are not in
                the formats

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> problem = Problem.build(Spec(queries=3, keys=20, dtype="bfloat16"), "random")
            >>> quantized = Quantized.of(problem, form="int8", k="head", v="token")
            >>> quantized.k.dtype, quantized.k_scale.shape, quantized.v_scale.shape
            (dtype('int8'), (2,), (1, 2, 20))
        """
        require_known("form", form, FORMS)
        for name, kind in (("k", k), ("v", v)):
            require_known(name, kind, get_args(Kind))
        require_positive(page_size=page_size)
        chosen, spec = FORMS[form], problem.spec
        _require_quantizable(problem, form)
        turn = (spec.seed + list(CASES).index(problem.case)) % 2
        for shift in (_SHIFT, -_SHIFT)[:: 1 - 2 * turn]:
            keys = _scaled_keys(problem, chosen, k, shift, page_size)
            real_k = keys.real
            q = problem.q * (np.abs(problem.k).max() / np.abs(real_k).max())
            q_scale = 1.0
            if spec.inputs.digits < spec.output.digits:  # float8: its largest power of two is 2^8
                q_scale = max(_QUERY_SCALE, np.abs(q).max() / 2.0**8)
            if holds(spec.inputs, q / q_scale):
                break
        else:
            raise ParameterError(
                f"{spec.dtype} does not hold the queries of {problem.case!r} beside keys in {form}",
                witness=problem.case,
                suggestion="another case, or a spec in bfloat16",
            )
        values = _scaled_values(problem, chosen, v, page_size)
        how = f"form={form!r}, k={k!r}, v={v!r}"
        real = problem.with_numbers(q, real_k, values.real, f"Quantized.of({{}}, {how}).problem")
        return cls(
            real,
            converted(q / q_scale, library, device, spec.dtype),
            converted(keys.numbers, library, device, chosen.dtype),
            converted(values.numbers, library, device, chosen.dtype),
            q_scale,
            converted(keys.scale, library, device, "float32"),
            converted(values.scale, library, device, "float32"),
            form, keys, values, page_size,
        )  # fmt: skip


def _require_quantizable(problem: Problem, form: str) -> None:
    spec, room = problem.spec, FORMS[form].room
    if spec.dtype == "float64":
        raise ParameterError(
            "numbers of float64 are not quantized", witness=spec.dtype, suggestion="float32"
        )
    # Scales of values multiply the range of values by 8, and so the tail of Theorem 13.
    if 8.0 * tail_of_cap(spec) >= 2.0 ** -(spec.output.digits + 2):
        raise ParameterError(
            f"a soft cap of {spec.soft_cap:g} leaves weight to keys that are far below",
            witness=spec.soft_cap,
            suggestion="a larger soft cap",
        )
    if problem.v.max() > 2.0**room * problem.v.min():
        span = f"2^{np.log2(problem.v.max() / problem.v.min()):g}"
        raise ParameterError(
            f"the values of {problem.case!r} span {span}; {form} holds 2^{room}",
            witness=span,
            suggestion="leave out this case; a larger value_dim makes values of others 1 and 2",
        )


def _places(
    kind: Kind, spec: Spec, width: int, page_size: int, block: int
) -> tuple[tuple[int, ...], Integers]:
    """Return the shape of scales, and which one each entry has, (B, G, T_k, width)."""
    sequences, heads, keys = spec.batch, spec.heads[1], spec.keys
    b, g, t, c = np.indices((sequences, heads, keys, width), sparse=True)
    found: dict[str, tuple[tuple[int, ...], tuple[Integers, ...]]] = {
        "tensor": ((1,), (0 * b,)),
        "head": ((heads,), (g,)),
        "channel": ((heads, width), (g, c)),
        "sequence": ((sequences, heads), (b, g)),
        "token": ((sequences, heads, keys), (b, g, t)),
        "page": ((sequences, -(-keys // page_size)), (b, t // page_size)),
        "block": ((sequences, heads, keys, -(-width // block)), (b, g, t, c // block)),
    }
    shape, at = found[kind]
    place = np.ravel_multi_index(tuple(np.broadcast_arrays(*at)), shape)
    return shape, np.broadcast_to(place, (sequences, heads, keys, width))


def _scaled_keys(problem: Problem, form: Form, kind: Kind, shift: int, page_size: int) -> Scaled:
    """Return keys of one size: where a scale is large, stored numbers are small."""
    shape, place = _places(kind, problem.spec, problem.spec.head_dim, page_size, form.block)
    random = np.random.default_rng((problem.spec.seed, 61))
    half = form.room // 2
    if kind == "tensor":
        exponent = np.full(shape, half)
    elif kind in ("head", "sequence"):  # few: each differs from the next
        exponent = form.room * (np.indices(shape).sum(0) % 2)
    else:  # ratios of 4 and more: with one of 2 no other key wins
        exponent = 2 * random.integers(0, half + 1, shape)
    numbers = np.sign(problem.k) * np.exp2(form.high - exponent.ravel()[place])
    return Scaled(numbers, np.exp2(shift - half + exponent), place, kind)


def _scaled_values(problem: Problem, form: Form, kind: Kind, page_size: int) -> Scaled:
    """Return values whose exponents say which key they are, and significands which scale."""
    shape, place = _places(kind, problem.spec, problem.spec.d_v, page_size, form.block)
    random = np.random.default_rng((problem.spec.seed, 67))
    drawn = random.permutation(int(np.prod(shape))).reshape(shape)
    least, start = problem.v.min(), 2.0 ** min(form.low, 0)
    if form.is_odd:
        parts = _SIGNIFICANDS[drawn % len(_SIGNIFICANDS)]
        scale = parts * np.exp2(drawn // len(_SIGNIFICANDS) % 3 - 1.0)
    else:
        scale = np.array([0.5, 2.0, 4.0])[drawn % 3]
    return Scaled(problem.v / least * start, scale * least, place, kind)


def packed_four_bits(numbers: npt.ArrayLike, form: str) -> npt.NDArray[np.uint8]:
    """Return four-bit numbers two in a byte, the first in the lower half.

    Args:
        numbers: of "int4", whole numbers from -8 to 7, stored with 8 added; of "nvfp4" or "mxfp4",
            0, 1/2, 1, 3/2, 2, 3, 4, 6 and their negatives, stored as sign, exponent and mantissa
        form: the name of the format

    Example:
        >>> packed_four_bits([1, -8], "int4"), packed_four_bits([2.0, -0.5], "nvfp4")
        (array([9], dtype=uint8), array([148], dtype=uint8))
    """
    require_known("form", form, ("int4", "nvfp4", "mxfp4"))
    given = np.asarray(numbers, dtype=np.float64)
    if form == "int4":
        half = given + 8.0
    else:
        known = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
        half = np.argmax(np.abs(given)[..., None] == known, axis=-1) + 8.0 * np.signbit(given)
    whole = half.astype(np.uint8)
    return np.asarray(whole[..., ::2] | whole[..., 1::2] << 4)


# Pages: a cache of keys and values in random order.

Layout = Literal["NHD", "HND"]


@dataclass(frozen=True, eq=False, repr=False)
class Paged:
    """Keys and values of a problem in pages, as a kernel gets them.

    Attributes:
        k: (pages, page size, G, d), or (pages, G, page size, d) in the layout "HND"
        v: likewise, with d_v
        table: (B, columns) int32: the page of each block of keys; behind the last page of a
            sequence -1, or with `stale` any page
        lengths: (B,) int32: keys of each sequence
        pool: the same as numbers, for `check`
        kv: (pages, 2, ..), keys and values of a page behind each other; `k` and `v` are parts of
            it; None unless they are joined
        k_scale: of a quantized problem: scales of tokens and blocks in pages, as keys are, those of
            pages (pages,), others as in `Quantized`; else None
        v_scale: likewise
    """

    k: Tensor
    v: Tensor
    table: Tensor
    lengths: Tensor
    pool: Pool
    kv: Tensor = None
    k_scale: Tensor = None
    v_scale: Tensor = None

    @property
    def is_beside_nan(self) -> bool:
        """Whether places that no kernel may read are NaN."""
        return bool(np.isnan(self.pool.k).any())

    @classmethod
    def of(
        cls, problem: Problem | Quantized, *, page_size: int = 16,
        columns: int = 1, padding: int = 0, layout: Layout = "NHD", joined: bool = False,
        library: str = "numpy", device: str = "cpu", stale: bool = False,
    ) -> "Paged":  # fmt: skip
        """Return the keys and values of a problem in pages.

        Pages are in random order. What lies beyond the end of a sequence in its last page is NaN
        (the largest number, if stored numbers have no NaN), and so are pages of no sequence.

        Args:
            problem: the problem, or a quantized one; lengths are those of its masks
            page_size: keys of a page
            columns: columns of the table behind the last page of the longest sequence
            padding: places for keys that lie in memory between pages: strides of pages are larger
                than a page is (but not in jax, which has no strides)
            layout: "NHD", tokens before heads, or "HND"
            joined: whether keys and values are parts of one array
            library: "numpy", "torch" or "jax"
            device: of torch and jax
            stale: keys and values of other tokens in the place of NaN, as in a cache that was used
                before: `check(problem, out, memory=paged)` can then say which page was read

        Raises:
            ParameterError: if joined keys and values have other widths, or scales of pages are
                those of pages of another size

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> paged = Paged.of(Problem.build(Spec(batch=2, keys=20)), page_size=8)
            >>> paged.k.shape, paged.table.shape
            ((9, 8, 2, 64), (2, 4))
        """
        require_positive(page_size=page_size)
        require_not_negative(columns=columns, padding=padding)
        require_known("layout", layout, get_args(Layout))
        quantized = problem if isinstance(problem, Quantized) else None
        whole = problem.problem if isinstance(problem, Quantized) else problem
        pool = Pool.of(whole, page_size, columns=columns, stale=stale)
        _require_pages(whole, quantized, page_size, joined=joined)
        dtype, numbers, fill = whole.spec.dtype, (whole.k, whole.v), np.nan
        if quantized is not None:
            dtype = FORMS[quantized.form].dtype
            fill = FORMS[quantized.form].largest
            numbers = quantized.stored_k.numbers, quantized.stored_v.numbers

        axis = 1 if layout == "NHD" else 2

        def laid(array: Array, fill: float, step: int) -> Array:
            found = pool.laid(array, None if stale else fill, step)
            return found if layout == "NHD" else found.swapaxes(1, 2)

        def placed(pages: Array, axis: int, name: str, fill: float) -> Tensor:
            around = [(0, padding * (index == axis)) for index in range(pages.ndim)]
            if stale:
                padded = np.pad(pages, around, mode="wrap")
            else:
                padded = np.pad(pages, around, constant_values=fill)
            memory = converted(padded, library, device, name)
            return memory[(slice(None),) * axis + (slice(page_size),)]

        def scale_of(scaled: Scaled, step: int) -> Tensor:
            if scaled.kind in ("token", "block"):
                return placed(laid(scaled.scale, np.nan, step), axis, "float32", np.nan)
            scale = pool.paged_scale(scaled.scale) if scaled.kind == "page" else scaled.scale
            return converted(scale, library, device, "float32")

        kv, parts = None, [laid(array, fill, step) for step, array in enumerate(numbers)]
        if joined:
            kv = placed(np.stack(parts, axis=1), axis + 1, dtype, fill)
            k, v = kv[:, 0], kv[:, 1]
        else:
            k, v = (placed(part, axis, dtype, fill) for part in parts)
        k_scale = v_scale = None
        if quantized is not None:
            k_scale, v_scale = scale_of(quantized.stored_k, 0), scale_of(quantized.stored_v, 1)
        return cls(
            k, v,
            converted(pool.table, library, device, "int32"),
            converted(pool.lengths, library, device, "int32"),
            pool, kv, k_scale, v_scale,
        )  # fmt: skip


def _require_pages(
    whole: Problem, quantized: Quantized | None, page_size: int, *, joined: bool
) -> None:
    if joined and whole.spec.d_v != whole.spec.head_dim:
        raise ParameterError(
            "joined keys and values have other widths",
            witness=(whole.spec.head_dim, whole.spec.d_v),
            suggestion="joined=False, or value_dim=None",
        )
    if quantized is None or "page" not in (quantized.stored_k.kind, quantized.stored_v.kind):
        return
    if quantized.page_size != page_size:
        raise ParameterError(
            f"scales are those of pages of {quantized.page_size} keys, not {page_size}",
            witness=page_size,
            suggestion=f"Quantized.of(problem, page_size={page_size}, ..)",
        )


# Keys by their indices, as sparse attention gets them.

Unused = Literal["anywhere", "behind", "beyond"]
_MORE_IDS = 131  # More than a chunk of indices


@dataclass(frozen=True, eq=False, repr=False)
class Gathered:
    """The visible keys of each query by their indices.

    Attributes:
        problem: the problem, for `check`
        indices: (B, 1 or H, T_q, width) int32: keys in random order, and what is not a key
        counts: (B, 1 or H, T_q) int32: how many keys there are, where they come first; else None
    """

    problem: Problem
    indices: Tensor
    counts: Tensor

    @classmethod
    def of(
        cls, problem: Problem, *, width: int | None = None, unused: Unused = "anywhere",
        paged: Paged | None = None, library: str = "numpy", device: str = "cpu",
    ) -> "Gathered":  # fmt: skip
        """Return which keys each query of a problem sees, by their indices.

        Take the cases `last` and `first` too: there the ends of the cache would win, which -1 and 0
        read where they are taken for keys.

        Args:
            problem: the problem
            width: of the indices; by default 131 more than a query has keys at most, so that whole
                chunks of a row have no key
            unused: what fills a row: "anywhere", -1 in front of the keys in a third of the rows,
                behind them in another third, and between them; "behind", -1 behind the keys, for
                kernels that take `counts`; "beyond", there numbers that no key has
            paged: pages in which the keys are: indices are page * page size + place then
            library: "numpy", "torch" or "jax"
            device: of torch and jax

        Raises:
            ParameterError: if a query has more keys than `width`

        Example:
            >>> from constructive.kernels.masks import Causal
            >>> from constructive.kernels.spec import Spec
            >>> problem = Problem.build(Spec(queries=3, keys=5, masks=(Causal(),)))
            >>> Gathered.of(problem, width=7).indices[0, 0, 1:].tolist()
            [[-1, -1, -1, 3, 1, 2, 0], [0, 1, 2, 3, 4, -1, -1]]
        """
        require_known("unused", unused, get_args(Unused))
        visible = problem.visible
        counts = visible.sum(-1)
        most = int(counts.max())
        width = most + _MORE_IDS if width is None else width
        if width < most:
            raise ParameterError(
                f"a query sees {most} keys, more than width={width}",
                witness=width,
                suggestion=f"width={most} or more",
            )
        random = np.random.default_rng((problem.spec.seed, 97))
        order = np.where(visible, random.random(visible.shape), 2.0).argsort(-1)
        order = np.pad(order, [(0, 0)] * 3 + [(0, max(0, width - order.shape[-1]))])[..., :width]
        beyond = problem.spec.keys
        if paged is not None:
            pool = paged.pool
            size = pool.k.shape[1]
            page = np.minimum(order // size, pool.table.shape[1] - 1)
            sequence = np.arange(len(order))[:, None, None, None]
            order, beyond = pool.table[sequence, page] * size + order % size, len(pool.k) * size
        place = np.broadcast_to(np.arange(width), order.shape)
        rest = beyond + place * 997 if unused == "beyond" else UNUSED
        indices = np.where(place < counts[..., None], order, rest)
        if unused != "anywhere":
            of_rows = converted(counts, library, device, "int32")
            return cls(problem, converted(indices, library, device, "int32"), of_rows)
        turn = np.indices(counts.shape).sum(0)[..., None] % 3  # behind, in front, between
        to = np.select([turn == 0, turn == 1], [place, -place], random.random(order.shape))
        found = np.empty_like(indices)
        np.put_along_axis(found, to.argsort(-1), indices, -1)
        return cls(problem, converted(found, library, device, "int32"), None)


# Values that are the first entries of keys: multi-head latent attention (Proposition 25).


@dataclass(frozen=True, eq=False, repr=False)
class Latent:
    """A problem for multi-head latent attention: values are the first entries of keys.

    Attributes:
        problem: the same with keys and values apart, for `check`
        q: (B, H, T_q, d_v + d)
        kv: (B, T_k, d_v + d)
        scale: the factor of logits, which is not 1 / sqrt(d_v + d)
    """

    problem: Problem
    q: Tensor
    kv: Tensor
    scale: float

    @classmethod
    def of(
        cls, problem: Problem, *, filled: bool = True, library: str = "numpy", device: str = "cpu"
    ) -> "Latent":
        """Return a problem with one KV head as one with values inside keys.

        Values have two equal halves. Where each query reads one key, queries have opposite numbers
        there: all products add up to 0 for every key, and a part that is not read shows. Else, and
        where sums would be too large for float16, queries are 0 there.

        Args:
            problem: one of a spec such as `Spec(heads=(128, 1), head_dim=64, value_dim=512,
                scale=192**-0.5)`
            filled: whether queries may have such numbers; False where log-sum-exps are compared and
                queries are scaled in float32 before the products
            library: "numpy", "torch" or "jax"
            device: of torch and jax

        Raises:
            ParameterError: if there are several KV heads, or half of a value is too narrow

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> spec = Spec(heads=(16, 1), queries=2, keys=9, head_dim=64, value_dim=512)
            >>> latent = Latent.of(Problem.build(spec, "random"))
            >>> latent.q.shape, latent.kv.shape
            ((1, 16, 2, 576), (1, 9, 576))
        """
        spec = problem.spec
        if spec.heads[1] != 1 or spec.d_v % 2:
            raise ParameterError(
                f"{spec.heads[1]} KV heads with values of {spec.d_v} entries are not latent",
                witness=spec.heads,
                suggestion="Spec(heads=(128, 1), head_dim=64, value_dim=512)",
            )
        half = codes(replace(spec, value_dim=spec.d_v // 2)) * problem.v.min()
        v = np.concatenate([half, half], axis=-1)
        real = problem.with_numbers(problem.q, problem.k, v, "Latent.of({}).problem")
        q = np.zeros((*problem.q.shape[:3], spec.d_v))
        size = 2.0 ** np.ceil(np.log2(gap(spec) / 2.0))
        total = float(half.max()) * size * spec.d_v
        # Of larger sums in float32 a logit may be off by more than Proposition 25 (c) has room for.
        fits = total * spec.factor <= _MOST_OF_SUMS and total <= spec.inputs.largest
        if filled and fits and _is_alone(real):
            random = np.random.default_rng((spec.seed, 81))
            signs = random.choice([-size, size], (*q.shape[:3], spec.d_v // 2))
            signs = signs * (problem.q != 0.0).any(-1, keepdims=True)
            q = np.concatenate([signs, -signs], axis=-1)
            # The exponential may be off where scaled entries are rounded (Theorem 15 (c)).
            if spec.output.digits > _SHORT:
                more = 2.0**-12 * np.nan_to_num(real.expected)
                real = replace(real, answer=replace(real.answer, slack=real.answer.slack + more))
        kv = np.concatenate([v, problem.k], axis=-1)[:, 0]
        return cls(
            real,
            converted(np.concatenate([q, problem.q], axis=-1), library, device, spec.dtype),
            converted(kv, library, device, spec.dtype),
            spec.factor,
        )


_MOST_OF_SUMS = 2.0**16
_SHORT = 11  # Bits of formats in which an output that is off by 2^-12 is rounded to the right one


def _is_alone(problem: Problem) -> bool:
    """Return whether each query reads one key, and nothing else shapes its logits."""
    spec, answer = problem.spec, problem.answer
    plain = not (spec.sink or spec.alibi) and spec.soft_cap is None
    return plain and bool((answer.weights.sum(-1)[answer.checked] <= 1.0).all())


# Queries and keys before a rotary embedding (Proposition 27).

Pairs = Literal["half", "interleaved"]


@dataclass(frozen=True, eq=False, repr=False)
class Rotated:
    """Queries and keys of a problem before the rotation of a fused rotary embedding.

    Angles are multiples of a right angle, so the rotation is exact in every format.

    Attributes:
        problem: the problem after the rotation, for `check`
        q: (B, H, T_q, d)
        k: (B, G, T_k, d)
        cos: (positions, pairs), each 0, 1 or -1
        sin: likewise
        q_positions: (B, T_q) int32: the row of `cos` and `sin` of each query
        k_positions: (B, T_k) int32: that of each key
    """

    problem: Problem
    q: Tensor
    k: Tensor
    cos: Tensor
    sin: Tensor
    q_positions: Tensor
    k_positions: Tensor

    @classmethod
    def of(
        cls, problem: Problem, *, layout: Pairs = "half", rotary: int | None = None,
        library: str = "numpy", device: str = "cpu",
    ) -> "Rotated":  # fmt: skip
        """Return queries and keys that a rotation turns into those of a problem.

        Keys are at positions 0, 1, .., and queries on the diagonal of the mask; both are later by
        so much that no position is below 0.

        Args:
            problem: the problem
            layout: "half" pairs entry i with i + rotary / 2, "interleaved" 2 i with 2 i + 1
            rotary: the first entries that are rotated; all by default
            library: "numpy", "torch" or "jax"
            device: of torch and jax

        Raises:
            ParameterError: if `rotary` is odd, or more than there are entries

        Example:
            >>> from constructive.kernels.spec import Spec
            >>> rotated = Rotated.of(Problem.build(Spec(queries=3, keys=9)), rotary=32)
            >>> rotated.cos.shape, rotated.q_positions.tolist()
            ((9, 16), [[6, 7, 8]])
        """
        spec = problem.spec
        require_known("layout", layout, get_args(Pairs))
        rotary = spec.head_dim if rotary is None else rotary
        require_positive(rotary=rotary)
        if rotary % 2 or rotary > spec.head_dim:
            raise ParameterError(
                f"rotary={rotary} is odd, or more than head_dim={spec.head_dim}",
                witness=rotary,
                suggestion=f"rotary={spec.head_dim // 2 * 2}",
            )
        q_at = spec.diagonal[:, 0, :, 0]
        start = max(0, -int(q_at.min()))
        q_at = q_at + start
        k_at = np.broadcast_to(np.arange(spec.keys) + start, (spec.batch, spec.keys))
        turns = np.random.default_rng((spec.seed, 91)).integers(1, 4, rotary // 2)
        quarter = np.arange(max(q_at.max(), k_at.max()) + 1)[:, None] * turns % 4
        cos = np.array([1.0, 0.0, -1.0, 0.0])[quarter]
        sin = np.array([0.0, 1.0, 0.0, -1.0])[quarter]
        back = [
            rotate(x, cos[at][:, None], -sin[at][:, None], layout)
            for x, at in ((problem.q, q_at), (problem.k, k_at))
        ]
        arrays = [
            converted(array, library, device, name)
            for array, name in zip(
                (*back, cos, sin, q_at, k_at), 4 * (spec.dtype,) + 2 * ("int32",), strict=True
            )
        ]
        return cls(problem, *arrays)


def rotate(x: Array, cos: Array, sin: Array, layout: Pairs) -> Array:
    """Return vectors (.., d) rotated in pairs of entries by angles (.., pairs)."""
    pairs = cos.shape[-1]
    if layout == "half":
        first, second = slice(pairs), slice(pairs, 2 * pairs)
    else:
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    found = np.array(x)
    found[..., first] = x[..., first] * cos - x[..., second] * sin
    found[..., second] = x[..., first] * sin + x[..., second] * cos
    return found
