"""Enclosures of attention by Theorem 17 (proofs/27-kernel-intervals.md), in the order of its proof.

`read` takes the inputs, `pieces` cuts rows, `LogitErrors`, `weights` and `averages` bound errors
one after the other, and `enclose` puts it together.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.checker.bounds import gamma, up
from constructive.exact.formats import Format, nearest
from constructive.exact.kernel_model import STRETCH, KernelModel
from constructive.kernels.masks import Scalar, with_four_axes
from constructive.kernels.spec import as_float64, require_factors
from constructive.support.arrays import Array, Booleans, Integers, first_place
from constructive.support.errors import DataError, ParameterError

# Inputs of attention as float64 arrays, exactly, from numpy, torch, jax and others.


_AXES = 4  # Batch, heads, tokens and entries


@dataclass(frozen=True, eq=False)
class ExactInputs:
    """Inputs of attention."""

    q: Array  # (B, H, T_q, d), zero in rows that see no key
    k: Array  # (B, G, T_k, d), zero where no query sees the key
    v: Array  # (B, G, T_k, d_v), zero where no query sees the key
    # broadcasts to (B, H, T_q, T_k), True where a key may be seen; None where all may
    visible: Booleans | None
    judged: Booleans  # (B, H, T_q) True where a query sees a key
    # what is added to logits; each broadcasts to (B, H, T_q, T_k) and is finite
    added: tuple[Array, ...]
    sinks: Array | None  # (H,) logits without values, or None
    scale: float  # factor of logits
    softcap: float | None  # c of c tanh(logit / c), or None


def read(
    q: object,
    k: object,
    v: object,
    form: Format,
    *,
    mask: object,
    scale: float | None,
    softcap: float | None,
    bias: object,
    sinks: object,
) -> ExactInputs:
    """Read inputs of attention, and check that they make sense."""
    arrays = [as_float64(given, name) for name, given in (("q", q), ("k", k), ("v", v))]
    queries, keys, values = arrays
    misfit = _misfit(*arrays)
    if misfit is not None:
        raise DataError(
            f"{misfit}: q, k and v have shapes {queries.shape}, {keys.shape} and {values.shape}",
            witness=(queries.shape, keys.shape, values.shape),
            suggestion="(batch, heads, queries, d), (batch, KV heads, keys, d) and (batch, KV "
            "heads, keys, d_v), where the number of KV heads divides that of heads",
        )
    heads = queries.shape[1]
    whole = (*queries.shape[:3], keys.shape[2])
    require_factors(scale=scale, softcap=softcap)
    visible, added = _masked(mask, whole)
    if bias is not None:
        added += (_broadcasts("bias", as_float64(bias, "the bias"), whole),)
    judged: Booleans = np.ones(whole[:3], dtype=np.bool_)
    if visible is not None:
        judged = judged & visible.any(-1)
        queries, keys, values = _read_only_where_seen(queries, keys, values, visible, judged)
    for name, array in (("q", queries), ("k", keys), ("v", values)):
        _require_numbers(name, array, form)
    logits = None if sinks is None else as_float64(sinks, "sinks")
    if logits is not None and (logits.shape != (heads,) or not np.isfinite(logits).all()):
        raise DataError(
            f"sinks of shape {logits.shape} are not {heads} finite numbers",
            witness=logits.shape,
            suggestion="one logit for each query head",
        )
    factor = 1.0 / math.sqrt(queries.shape[3]) if scale is None else float(scale)
    return ExactInputs(
        queries, keys, values, visible, judged, added, logits, factor,
        None if softcap is None else float(softcap),
    )  # fmt: skip


def _misfit(q: Array, k: Array, v: Array) -> str | None:
    """Return which sizes do not fit each other, or None."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != _AXES:
            return f"{name} has {array.ndim} axes, not {_AXES}"
        if not array.size:
            return f"{name} has no entries"
    equal = (
        ("batch size", "q", q.shape[0], "k", k.shape[0]),
        ("batch size", "k", k.shape[0], "v", v.shape[0]),
        ("d", "q", q.shape[3], "k", k.shape[3]),
        ("number of heads", "k", k.shape[1], "v", v.shape[1]),
        ("number of keys", "k", k.shape[2], "v", v.shape[2]),
    )
    for size, first, one, second, other in equal:
        if one != other:
            return f"the {size} is {one} in {first} and {other} in {second}"
    if q.shape[1] % k.shape[1]:
        return f"the {q.shape[1]} heads of q are no multiple of the {k.shape[1]} heads of k"
    return None


def _read_only_where_seen(
    q: Array, k: Array, v: Array, visible: Booleans, judged: Booleans
) -> tuple[Array, Array, Array]:
    """Put zeros where nothing is read, which may be a NaN."""
    batch, groups, keys = k.shape[:3]
    heads = visible.shape[1]
    seen = np.broadcast_to(visible.any(2), (batch, heads, keys))
    if heads > 1:
        seen = np.asarray(seen.reshape(batch, groups, heads // groups, keys).any(2))
    hidden = ~seen[..., None]
    return np.where(judged[..., None], q, 0.0), np.where(hidden, 0.0, k), np.where(hidden, 0.0, v)


def _require_numbers(name: str, array: Array, form: Format) -> None:
    if not np.isfinite(array).all() or not np.array_equal(nearest(array, form), array):
        wrong = ~(np.isfinite(array) & (nearest(array, form) == array))
        index = first_place(wrong)
        raise DataError(
            f"{name}{list(index)} is {array[index]}, which is not a number of {form.name}",
            witness=index,
            suggestion=f"the arrays that the kernel reads, in {form.name}; or another model",
        )


def _masked(
    mask: object, whole: tuple[int, int, int, int]
) -> tuple[Booleans | None, tuple[Array, ...]]:
    """Who sees whom, and what is added to logits."""
    if mask is None:
        return None, ()
    added = as_float64(mask, "the mask")
    kind = str(getattr(mask, "dtype", np.asarray(mask).dtype))
    if "bool" in kind:
        return _broadcasts("mask", added > 0.0, whole), ()
    if "int" in kind:
        raise DataError(
            "a mask of integers may hide keys, or be added to logits",
            witness=kind,
            suggestion="a boolean mask (True is visible), or floating-point numbers to add",
        )
    hidden = np.isneginf(added)
    shown = _broadcasts("mask", ~hidden, whole)
    bias = np.where(hidden, 0.0, added)
    return shown, (_broadcasts("mask", bias, whole),) if bias.any() else ()


def _broadcasts(
    name: str, array: npt.NDArray[Scalar], whole: tuple[int, ...]
) -> npt.NDArray[Scalar]:
    """Give an array four axes, and check that it broadcasts and is finite."""
    found = with_four_axes(name, array, whole)
    wrong = ~np.isfinite(array)
    if wrong.any():
        index = first_place(wrong)
        raise DataError(
            f"{name}{list(index)} is {array[index]}, which is not finite",
            witness=index,
            suggestion="finite numbers; -inf hides a key in a mask",
        )
    return found


# Inputs in pieces: some queries at a time, and the keys that one of them sees.


_ENTRIES = 1 << 18  # Of a matrix of logits that is computed at once: two megabytes
_PARTS = 4  # Of the queries under a mask: fewer of them see fewer keys, and others are left out


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some queries of P pairs (sequence, KV head), and the keys that one of them sees."""

    place: tuple[Integers, Integers, slice, slice]  # where they are in (B, G, H / G, T_q)
    q: Array  # (P, R, d) queries, times the scale
    k: Array  # (P, T, d)
    v: Array  # (P, T, d_v)
    sizes_of_k: Array  # (P, T, d) |k| / 2^e in float32
    sizes_of_v: Array  # (P, T, 2 d_v) |v| / 2^e and its square
    exponents: tuple[int, int, int]  # e of q, k and v, so that no size is more than 1
    visible: Booleans | None  # (P, R, T), or None where all is
    added: tuple[Array, ...]  # (P, R, T) each
    sinks: Array | None  # (P, R, 1), or None
    keys: int  # T_k, seen or not


def pieces(given: ExactInputs) -> Iterator[RowBlock]:
    """Yield all rows, so many at once that a matrix of logits has about `_ENTRIES`."""
    batch, heads, queries, width = given.q.shape
    groups, keys = given.k.shape[1:3]
    share = heads // groups
    q = (given.q * given.scale).reshape(batch, groups, share, queries, width)
    of_q, of_k, of_v = (_exponent(each) for each in (q, given.k, given.v))
    sizes_of_k = np.ldexp(np.abs(given.k), -of_k).astype(np.float32)
    sizes = np.ldexp(np.abs(given.v), -of_v)
    sizes_of_v = np.concatenate([sizes, sizes * sizes], axis=-1, dtype=np.float32)
    whole, split = (batch, heads, queries, keys), (batch, groups, share, queries, keys)
    added = [np.broadcast_to(each, whole).reshape(split) for each in given.added]
    visible = None
    if given.visible is not None:
        visible = np.broadcast_to(given.visible, whole).reshape(split)
    sinks = None if given.sinks is None else given.sinks.reshape(groups, share, 1)
    entries = _ENTRIES
    if visible is not None:
        entries = min(entries, max(entries // _PARTS, share * queries * keys // _PARTS))
    for pair, group, rows in _places(batch, groups, share, queries, keys, entries):
        place = (pair, group, slice(None), rows)
        some = q[place]
        flat = (len(pair), some.shape[1] * some.shape[2])
        seen, columns = None, slice(None)
        if visible is not None:
            seen, columns = _seen(visible[place].reshape(*flat, keys))
        parts = (
            each[pair, group][:, columns] for each in (given.k, given.v, sizes_of_k, sizes_of_v)
        )
        k, v, some_of_k, some_of_v = parts
        biases = tuple(each[place].reshape(*flat, keys)[..., columns] for each in added)
        logits = None
        if sinks is not None:
            logits = np.broadcast_to(sinks[group], some.shape[:3]).reshape(*flat, 1)
        yield RowBlock(
            place, some.reshape(*flat, width), k, v, some_of_k, some_of_v, (of_q, of_k, of_v),
            seen, biases, logits, keys,
        )  # fmt: skip


def above(left: Array, right: Array, factor: float = 1.0) -> Array:
    """Bound a product of matrices, times a factor, from above, by float32, which is twice as fast.

    Each of k products has two factors that are rounded, a rounding of its own and k - 1 additions
    or fewer; what underflows is less than 2^-147.
    """
    terms = left.shape[-1] + 4
    found = (left.astype(np.float32) @ right).astype(np.float64)
    found *= (1.0 + terms * 2.0**-23) * factor
    found += terms * 2.0**-145 * factor
    return found


def _exponent(values: Array) -> int:
    """The least e with all sizes up to 2^e."""
    return math.frexp(max(float(values.max()), -float(values.min())))[1]


def _places(
    batch: int, groups: int, share: int, queries: int, keys: int, entries: int
) -> Iterator[tuple[Integers, Integers, slice]]:
    """Pairs and queries of a piece."""
    several = max(1, entries // (share * queries * keys))
    length = max(1, entries // (share * keys))
    for first in range(0, batch * groups, several):
        pair: Integers = np.arange(first, min(first + several, batch * groups), dtype=np.int64)
        for start in range(0, queries, length):
            yield pair // groups, pair % groups, slice(start, start + length)


def _seen(visible: Booleans) -> tuple[Booleans | None, slice]:
    """Who sees whom among the columns that one row sees; None if all do."""
    columns = np.flatnonzero(visible.any((0, 1)))
    if not len(columns):
        return visible[..., :1], slice(1)
    part = slice(int(columns[0]), int(columns[-1]) + 1)
    seen = visible[..., part]
    return None if seen.all() else seen, part


# Errors of logits: sums, constants, storage, soft cap and bias.


OWN = 2.0**-51  # Our roundings of a logit, of a bias and of l - m, relative to the largest of them
OWN_EXP = 2.0**-46  # Our exponentials and tanh: 64 units in the last place, far more than numpy's
_LARGE = 2.0**100  # In place of what is infinite, as a factor


@dataclass(frozen=True, eq=False)
class Logits:
    """Our logits, and how far those of a kernel may be from them."""

    values: Array  # (P, R, T), -inf where hidden
    errors: Array  # (P, R, T) but for what a row has in common
    largest: Array  # (P, R, 1) the largest size that is not hidden
    worst: Array  # (P, R, 1) the largest error


class LogitErrors:
    """How errors of logits follow from inputs and a model."""

    def __init__(self, given: ExactInputs, model: KernelModel) -> None:
        self._model, self._cap = model, given.softcap
        self._unscaled = max(1.0, 1.0 / given.scale)
        width, keys = given.q.shape[3], given.k.shape[2]
        q, k, v = (float(np.abs(each).max()) for each in (given.q, given.k, given.v))
        entries, values = max(q, k) * max(1.0, given.scale), 2.0 * keys * math.exp(model.lag) * v
        self._require("entries of q and k, scaled,", entries, model.logit_overflow)
        self._require("sums of values", values, model.overflow)
        capped, stored = given.softcap is not None, 1.0 + model.logit_unit
        entry = 1.0 + model.entry_unit
        self.rounded = float(model.gamma(model.constants))  # gamma_k of the roundings by constants
        of_sum, self._of_logit = self._sums(width)
        # Raw and scaled, by two constants; divided by c, a third one.
        first = (stored * entry) ** (2 + capped) * (1.0 + self.rounded * capped) - 1.0
        self._of_sum = min(of_sum * (1.0 + first), _LARGE)
        self._of_logit = min(self._of_logit * (1.0 + first) + first + OWN, _LARGE)
        biased = bool(given.added) or given.sinks is not None
        # of roundings after a soft cap or a bias, relative to sizes; with `rounded`
        self.last = stored ** (3 * biased) * (1.0 + self.rounded) * (1.0 + OWN) - 1.0
        # tanh is stored, and its product with c, a constant: the slope of the cap is before that.
        tanh = (1.0 + model.tanh_error) * (1.0 + model.unit) ** 6 * stored**2 * entry
        self._tanh = tanh * (1.0 + OWN_EXP) - 1.0
        # Five losses an entry, two a rescaling and 14 more, stretched by constants, and less than
        # doubled by later errors; eight of storage, and two an entry (page 27).
        lost = 32.0 * (width + keys) * STRETCH * model.smallest
        lost += 8.0 * width * model.stored_tiny * model.stores_logits
        both = (1.0 + q) * (1.0 + k) * (1.0 + given.scale)
        # what underflow and storage near zero add to an error
        self.flushed = lost * both * (1.0 + (given.softcap or 0.0)) * (1.0 + self.last)

    def _sums(self, width: int) -> tuple[float, float]:
        """Coefficients of S and |l|: gamma_d (S + |l|) / 2 in any order, or gamma_depth S."""
        model = self._model
        order = float(model.sums(width))
        levels = math.inf if model.depth is None else float(model.sums(min(model.depth, width)))
        of_sum, of_logit = (levels, 0.0) if levels <= order / 2.0 else (order / 2.0, order / 2.0)
        return of_sum + (1.0 + min(order, levels)) * model.term_error + gamma(width + 4), of_logit

    def of(self, rows: RowBlock) -> Logits:
        """Return logits of rows and their errors."""
        hidden = None if rows.visible is None else ~rows.visible
        linear = self._cap is None and not rows.added
        of_sum = self._of_sum * (1.0 + self.last * linear)
        errors = self._errors_of_sums(rows, of_sum)
        with np.errstate(over="ignore", invalid="ignore"):  # where keys are hidden
            values = rows.q @ rows.k.swapaxes(-1, -2)
        sizes = np.abs(values)
        if hidden is not None:
            values[hidden] = sizes[hidden] = errors[hidden] = 0.0
        largest = sizes.max(-1, keepdims=True)
        sums = float(errors.max()) / of_sum * self._unscaled
        self._require("sums of products of q and k", sums, self._model.overflow)
        if linear:
            sizes *= self._of_logit * (1.0 + self.last) + self.last
            errors += sizes
        else:
            errors += self._of_logit * sizes + self.flushed
            self._require_logits(float((sizes + errors).max()))
            if self._cap is not None:
                near = np.maximum(sizes * (1.0 - OWN) - errors, 0.0) / self._cap
                values = self._cap * np.tanh(values / self._cap)
                sizes = np.abs(values)
                errors *= 1.0 - np.tanh(near) ** 2 + 4.0 * OWN_EXP
                errors += self._tanh * (sizes + errors)
            for bias in rows.added:
                values += bias
                sizes += np.abs(bias)
            errors += self.last * (sizes + errors)
            if hidden is not None:
                values[hidden] = errors[hidden] = 0.0
            largest = np.abs(values).max(-1, keepdims=True)
        worst = errors.max(-1, keepdims=True)
        most = float(((largest + worst) if linear else values + errors).max())
        self._require_logits(most + self.flushed)
        if hidden is not None:
            values[hidden] = -np.inf
        return Logits(values, errors, largest, worst)

    @staticmethod
    def _errors_of_sums(rows: RowBlock, of_sum: float) -> Array:
        """S times its coefficient."""
        of_q, of_k, _ = rows.exponents
        with np.errstate(over="ignore", invalid="ignore"):
            factor = float(np.ldexp(of_sum, of_q + of_k))
            sizes = np.ldexp(np.abs(rows.q), -of_q)
            return above(sizes, rows.sizes_of_k.swapaxes(-1, -2), factor)

    def _require_logits(self, most: float) -> None:
        name = "logits, raw or scaled,"
        self._require(name, most * self._unscaled, self._model.logit_overflow)

    def _require(self, name: str, reached: float, limit: float) -> None:
        """Refuse inputs for which the model, which has no overflow, says nothing."""
        if not reached < limit:
            raise ParameterError(
                f"{name} may reach {reached:.3g}, where a kernel of the model "
                f"{self._model.name!r} may overflow (beyond {limit:.3g})",
                witness=reached,
                suggestion="smaller inputs; or the model 'flash ...' for a kernel that keeps "
                "logits in float32",
            )


# Weights: exponentials of our logits, and kappa, how far those of a kernel may be from them.


WIDE = 50.0  # Where kappa is more, only the hull of values bounds an average
FAR = 100.0  # Keys whose exponents are lower by more have no weight that matters
_HALF = 0.5  # By which the exponent of the largest logit may be off: beyond it nothing is proved
_NARROW = 0.125  # Where kappa is less, exp(kappa) - 1 <= kappa / (1 - kappa / 2) is as good


@dataclass(frozen=True, eq=False)
class WeightBounds:
    """Weights of reference, and how far those of a kernel may be from them; rows are (P, R, 1)."""

    p: Array  # (P, R, T) exponentials of our logits less the largest
    total: Array  # their sum, with that of a sink
    mean: Array  # of kappa, by weight
    root: Array  # G, the root of the mean of (exp(kappa) - 1)^2; infinite where kappa is wide
    least: Array  # a lower bound of a kernel's denominator
    count: Array  # n, visible keys and a sink
    blocks: Array  # R, those with a visible key
    merges: Array  # what merging by logsumexp does to weights, as a part of them


def weights(
    rows: RowBlock, logits: Logits, of_logits: LogitErrors, model: KernelModel
) -> WeightBounds:
    """Return weights and their errors; the arrays of `logits` are used up."""
    values, errors, sinks = logits.values, logits.errors, rows.sinks
    count, top = _counted(rows, values)
    blocks = np.minimum(count, math.ceil(rows.keys / model.block) + 1.0 + (sinks is not None))
    largest = np.maximum(logits.largest, np.abs(top)) if sinks is not None else logits.largest
    worst = logits.worst
    shared = _shared(largest + worst, blocks, of_logits, model)
    below = largest > np.abs(top) + 2.0 * FAR
    if (below | (worst + shared > WIDE)).any():
        _drop_far(values, errors, shared + _merging(largest + worst, count, model))
        largest = np.abs(np.where(np.isinf(values), 0.0, values)).max(-1, keepdims=True)
        if sinks is not None:
            largest = np.maximum(largest, np.abs(top))
        worst = errors.max(-1, keepdims=True)
        shared = _shared(largest + worst, blocks, of_logits, model)
    kappa = up(worst + shared)
    apart, sink = np.zeros_like(top), np.zeros_like(top)
    if sinks is not None:
        # X of Theorem 17 where it is the size of a sink below all logits: only its weight has it.
        size = OWN + of_logits.rounded + 6.0 * model.unit * model.merged
        apart = up((of_logits.last + size) * np.abs(sinks))
        far = shared + 2.0 * _merging(largest + np.abs(sinks), count, model)  # for both
        matters = sinks + apart + far >= top - kappa - FAR
        apart = np.where(matters, apart, 0.0)
        sink = np.where(matters, np.exp(sinks - top), 0.0)
        kappa = np.maximum(kappa, up(apart + shared))
    p = np.exp(np.subtract(values, top, out=values), out=values)
    total = p.sum(-1, keepdims=True) + sink
    total[total == 0.0] = 1.0  # no key is seen
    weighted = p * errors
    mean = (weighted.sum(-1, keepdims=True) + sink * apart) / total
    if (kappa <= _NARROW).all():
        squares = np.einsum("prt,prt->pr", weighted, errors)[..., None] + sink * apart**2
        root = np.sqrt(up(squares / total + shared * (2.0 * mean + shared)))
        root = up(root / (1.0 - kappa / 2.0))
    else:
        grown = np.expm1(np.minimum(errors + shared, WIDE))
        squares = np.einsum("prt,prt,prt->pr", p, grown, grown)[..., None]
        squares += sink * np.expm1(np.minimum(apart + shared, WIDE)) ** 2
        root = up(np.sqrt(up(squares / total)))
    wide = kappa > WIDE
    fallen = of_logits.rounded * (largest + worst + 2.0 * model.lag) + _exponentials(blocks, model)
    least = _least(
        up(fallen),
        np.where(wide, 0.0, total * np.exp(-mean - shared - kappa)),
        count,
        model,
    )
    mean, root = np.where(wide, 0.0, up(mean + shared)), np.where(wide, np.inf, root)
    # A sink may be put in at the end, by another exponential of a difference of logarithms.
    merging = _merging(largest + kappa, count, model) * (1.0 + (sinks is not None))
    merges = up(np.expm1(np.minimum(merging, WIDE)))
    return WeightBounds(p, total, mean, root, least, count, blocks, merges)


def _counted(rows: RowBlock, values: Array) -> tuple[Array, Array]:
    """How many keys a row sees, and the largest of its logits."""
    top = values.max(-1, keepdims=True)
    count = np.full(top.shape, float(values.shape[-1]))
    if rows.visible is not None:
        count = np.count_nonzero(rows.visible, axis=-1, keepdims=True).astype(np.float64)
        top = np.where(count > 0.0, top, 0.0)
    return (count, top) if rows.sinks is None else (count + 1.0, np.maximum(top, rows.sinks))


def _shared(largest: Array, blocks: Array, of_logits: LogitErrors, model: KernelModel) -> Array:
    """Bound what the keys of a row have in common in kappa."""
    near = largest + 2.0 * model.lag
    parts = np.maximum(_exponentials(blocks, model), 0.0)
    own = OWN * largest + OWN_EXP
    return np.asarray(up(of_logits.rounded * near + parts + own + of_logits.flushed))


def _exponentials(blocks: Array, model: KernelModel) -> Array:
    """Bound the logarithm of what errors of exponentials do to a weight."""
    parts = model.exp_error + (blocks - 1.0) * model.rescale_error
    # |log(1 + x)| <= |x| / (1 - |x|); and two roundings to spare.
    return parts / (1.0 - max(model.exp_error, model.rescale_error)) + 2.0 * model.unit


def _drop_far(values: Array, errors: Array, shared: Array) -> None:
    """Hide keys that have no weight, whatever the errors are."""
    low = (values - errors).max(-1, keepdims=True) - shared
    far = values + errors + shared < low - FAR
    values[far], errors[far] = -np.inf, 0.0


def _least(fallen: Array, total: Array, count: Array, model: KernelModel) -> Array:
    """Bound a denominator from below, as it is summed from weights before or after storage.

    The largest logit has the exponential 1, or with a fused l - m that of a rounding.
    """
    least = np.exp(-np.minimum(fallen, _HALF)) * (1.0 - model.stored_unit) * (1.0 - OWN_EXP)
    if not model.stores_divided:
        kept = total * (1.0 - model.weight_error) * (1.0 - OWN_EXP) - count * model.stored_tiny
        least = np.maximum(least, kept)
    return np.where(fallen <= _HALF, least, 0.0)


def _merging(logits: Array, count: Array, model: KernelModel) -> Array:
    """Bound what merging by logsumexp does to the exponent of a weight.

    Six roundings of logits and all that logarithms do (`KernelModel.exponents`; sums are from 1/2
    to 2 n), and two exponentials that rescale, with -log(1 - x) <= 3 x / 2 for x <= 1/3.
    """
    if not model.merged:
        return np.zeros_like(logits)
    return 6.0 * model.unit * logits + model.exponents(2.0 * count) + 3.0 * model.rescale_error


# Errors of averages of values: weights, their storage, sums and divisions.


_LARGE_ERROR = 0.5  # Beyond it a relative error is not small


def averages(rows: RowBlock, weights: WeightBounds, model: KernelModel) -> tuple[Array, Array]:
    """Return averages by our weights, and how far a kernel's may be from them, unrounded."""
    inverse, unit = 1.0 / weights.total, np.ldexp(1.0, rows.exponents[2])
    center = weights.p @ rows.v
    center *= inverse
    sizes = above(weights.p, rows.sizes_of_v)
    sizes *= inverse
    mean, square = np.split(sizes, 2, axis=-1)  # of |v| and of v^2, in units
    own, reduced = gamma(rows.v.shape[1] + 8), center / unit
    # The square of `center` is off by 4 own square; and |o| + sd is covered below.
    deviation = np.sqrt(up(np.maximum(square - reduced * reduced, 0.0) + 16.0 * own * square))
    deviation *= unit
    mean *= unit
    bottom, top = rows.v.min(-2, keepdims=True), rows.v.max(-2, keepdims=True)
    if rows.sinks is not None:
        bottom, top = np.minimum(bottom, 0.0), np.maximum(top, 0.0)
    spread, most = up(top - bottom), np.maximum(top, -bottom)
    grown, root = np.exp(weights.mean) * (1.0 + OWN_EXP), weights.root
    with np.errstate(invalid="ignore"):  # infinite times zero; fmin takes the other bound then
        moved = np.fmin(grown * root * deviation, spread)
        terms = np.fmin(grown * (mean + root * (deviation + np.abs(center))), most)
        apart = np.fmin(grown * (1.0 + root) * deviation + moved, spread)
        theta = model.weight_error
        stored = theta / (1.0 - theta) * np.maximum(terms, apart)
        terms *= (1.0 + theta) / (1.0 - theta)
        # A weight that is divided before it meets a value has a rounding of its own.
        each = (1.0 + model.unit) ** 2 * (1.0 + model.operand_unit) * (1.0 + weights.merges) - 1.0
        stored += each * terms
        lost = (1.0 + each) * _lost(weights, model, most)
        terms = terms * (1.0 + each) + lost
        reached = np.abs(center) + moved + stored + lost
        summed, divided = _sums(terms, reached, weights, model)
        ratio = (1.0 + model.gamma(4 + 2 * model.merged)) / (
            1.0 - np.minimum(divided, _LARGE_ERROR)
        ) - 1.0
        ratio = np.where(divided < _LARGE_ERROR, ratio, np.inf)
        summed += lost
        distance = up(moved + stored + (1.0 + ratio) * summed + ratio * reached + 4.0 * own * mean)
    return center, np.where(np.isnan(distance), np.inf, distance)


def _sums(
    terms: Array, reached: Array, weights: WeightBounds, model: KernelModel
) -> tuple[Array, Array]:
    """Bound the error of a numerator, and the relative one of a denominator."""
    rescaled = 2.0 * (1 + model.merged) * weights.blocks
    rounded = weights.count + rescaled
    summed = model.sums(rounded) / 2.0 * (terms + reached)
    divided = model.gamma(rounded)
    if model.depth is not None:
        levels = np.minimum(model.depth + rescaled, rounded)
        summed = np.fmin(summed, model.sums(levels) * terms)
        divided = np.minimum(divided, model.gamma(levels))
    return summed, divided


def _lost(weights: WeightBounds, model: KernelModel, most: Array) -> Array:
    """Bound what underflows in sums and in storage, and what keys without weight may add."""
    count = weights.count + 1.0
    flushed = 2.0**13 * count * (weights.blocks + 1.0) * model.smallest * (1.0 + most)
    with np.errstate(divide="ignore"):
        lost: Array = (flushed + 2.0 * count * model.stored_tiny * most) / weights.least
    lost += 2.0**-FAR * most
    return lost


# Intervals of all outputs, a piece at a time.


def enclose(given: ExactInputs, model: KernelModel) -> tuple[Array, Array]:
    """Return bounds (B, H, T_q, d_v) of every admissible output; infinite in rows not judged."""
    batch, heads, queries, _ = given.q.shape
    groups, width = given.k.shape[1], given.v.shape[3]
    share, whole = heads // groups, (batch, heads, queries, width)
    lower, upper = np.empty((2, batch, groups, share, queries, width))
    errors = LogitErrors(given, model)
    for rows in pieces(given):
        piece = (len(rows.q), share, -1, width)
        center, distance = averages(rows, weights(rows, errors.of(rows), errors, model), model)
        # Rounding here is within what `averages` adds for our own.
        lower[rows.place] = (center - distance).reshape(piece)
        upper[rows.place] = (center + distance).reshape(piece)
    lower, upper = lower.reshape(whole), upper.reshape(whole)
    lower[~given.judged], upper[~given.judged] = -np.inf, np.inf
    return _stored(lower, model, -1.0), _stored(upper, model, 1.0)


def _stored(bounds: Array, model: KernelModel, side: float) -> Array:
    """Bounds in the format of outputs; what is nearly zero may have become zero."""
    found = nearest(bounds, model.output)
    if not model.output.gradual:
        found[(np.abs(bounds) < model.output.smallest) & (bounds * side < 0.0)] = 0.0
    return found
