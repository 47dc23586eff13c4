"""All that the campaign knows of `constructive.kernels`: one place to fit to it.

`asked` gives the problems of the battery for a kernel that has some features, in the words of
options.py; `report` is what the library says of its outputs; `outside` says what `bounds` thinks of
outputs on any inputs.
"""

from dataclasses import dataclass, replace

import numpy as np

from comparisons import dense
from constructive.kernels import Backward, Paged, bounds, examine
from constructive.kernels.backward import BackwardReport
from constructive.kernels.batteries import problems
from constructive.kernels.spec import as_float64
from constructive.kernels.masks import (
    Boolean, Causal, Given, LeftPadding, Mask, RightPadding, VariableLengths, Window,
)  # fmt: skip
from constructive.kernels.spec import Spec
from constructive.support.errors import ConstructiveError, ParameterError
from flash import Flash
from options import Options, Run

BLOCK, PAGE = 16, 8

SHAPES = (
    Spec(batch=3, heads=(6, 2), queries=37, keys=59, head_dim=80, value_dim=48),
    Spec(batch=2, heads=(4, 4), queries=40, keys=40, head_dim=64, value_dim=96),
    Spec(batch=2, heads=(4, 1), queries=59, keys=37, head_dim=64),
    Spec(batch=3, heads=(8, 2), queries=1, keys=130, head_dim=128),
    Spec(batch=2, heads=(4, 2), queries=33, keys=70, head_dim=84, value_dim=43),
)
"""Grouped, plain, multi-query with fewer keys, decoding, and widths that are not multiples of 8."""

SIZES = ("uneven-lengths", "partial-lengths", "part-page", "lengths", "poison", "empty-sequence")
LAID = ("surrounded", "spread", "interleaved", "swapped")
MODELS = {"Flash": "flash", "Triton": "flash", "Eager": "eager"}


@dataclass(frozen=True, eq=False)
class Asked:
    """A problem of the battery and what a kernel is called with."""

    problem: object
    case: tuple
    backward: Backward | None
    is_packed: bool
    memory: Paged | str | None = None

    @property
    def dout(self):
        """The gradient of the output, where gradients are asked for."""
        if self.backward is None:
            return None
        return self.backward.d_out.astype(self.case[0].dtype)


def masks_of(needs, shape, turn):
    """The masks of a shape for a kernel with these features."""
    queries, keys, batch = shape.queries, shape.keys, shape.batch
    alignment = "top-left" if turn % 2 else "bottom-right"
    named = needs & {"top-left", "bottom-right"}
    alignment = next(iter(named)) if named else alignment
    masks: list[Mask] = []
    if needs & {"causal", "top-left", "bottom-right"}:
        masks.append(Causal(alignment))
    elif "empty-row" in needs:
        masks.append(Causal("bottom-right"))
    if needs & {"window", "window-left", "window-right", "window-uneven"}:
        masks.append(Window(5, None if masks else 2, alignment))
    if "packed" in needs:
        lengths = tuple(max(1, queries - 7 * n - (3 * n) % 5) for n in range(batch))
        masks.append(VariableLengths(lengths, tuple(keys - 9 * n for n in range(batch))))
    elif "empty-sequence" in needs:
        masks.append(RightPadding((keys, 0, keys - 9)[:batch]))
    elif needs & set(SIZES):
        masks.append(RightPadding((keys - 20, keys, keys - 9)[:batch]))
    if "starts" in needs:
        masks.append(LeftPadding((0, 5, 11)[:batch]))
    if needs & {"mask", "head-mask", "batch-mask"}:
        masks.append(Boolean(per_head=True))
    if "shared-bias" in needs:
        masks.append(Given(np.random.default_rng(turn).random((1, 1, queries, keys)) < 0.6))
    elif needs & {"infinite-bias"} or (needs & {"bias", "head-bias", "batch-bias"} and turn % 2):
        masks.append(Boolean(per_head=True, additive=True))
    return tuple(masks)


def formats_of(needs):
    """The formats that a kernel is asked for."""
    named = [name for name in ("float32", "float16", "bfloat16") if name in needs]
    return named or ["float16", "bfloat16"] * ("half" in needs) or ["float32", "bfloat16"]


def specs(needs):
    """The shapes, masks and options for a kernel with these features."""
    has_bias = bool(needs & {"bias", "head-bias", "batch-bias", "large-bias"})
    for dtype in formats_of(needs):
        for turn, shape in enumerate(SHAPES):
            yield replace(
                shape, dtype=dtype, masks=masks_of(needs, shape, turn), sink="sinks" in needs,
                alibi="alibi" in needs or (has_bias and turn % 2 == 0),
                soft_cap=30.0 if "softcap" in needs else None,
                scale=0.25 if "scale" in needs else None,
            )  # fmt: skip


def asked(needs, *, gradients=False):
    """Yield the problems of the battery with these features, as a kernel is called."""
    for spec in specs(needs):
        for turn, problem in enumerate(problems(spec)):
            try:
                backward = Backward.of(problem) if gradients else None
            except ParameterError:
                continue
            yield called(problem, needs, turn, backward)


def called(problem, needs, turn, backward=None):
    """A problem as a kernel is called: dense, strided, packed or in pages; in splits or not."""
    spec, o = problem.spec, options_of(problem, slopes="alibi" in needs)
    if needs & {"splits", "uneven-splits", "empty-split"}:
        blocks = -(-spec.keys // BLOCK)
        even = 3 if "uneven-splits" in needs else 2
        o = o.but(splits=blocks + 2 if "empty-split" in needs else even)
    if "packed" in needs:
        q, k, v = (x.swapaxes(0, 1)[None] for x in problem.tensors("numpy", layout="packed"))
        ends = [np.concatenate([[0], np.cumsum(length)]) for length in spec.lengths]
        o = o.but(key_lengths=None, query_offsets=ends[0], key_offsets=ends[1])
        return Asked(problem, (q, k, v, o), backward, is_packed=True)
    if needs & {"pages", "part-page"}:
        paged = Paged.of(problem, page_size=PAGE, stale=turn % 2 == 1)
        o = widened(o, spec.keys, paged.table.shape[1] * PAGE)
        o = o.but(block_table=paged.table, key_lengths=paged.lengths.astype(int))
        case = problem.tensors("numpy")[0], paged.k.swapaxes(1, 2), paged.v.swapaxes(1, 2), o
        return Asked(problem, case, backward, is_packed=False, memory=paged)
    placed = LAID[turn % len(LAID)] if "strided" in needs else "contiguous"
    tensors = problem.tensors("numpy", placed=placed, poison="poison" in needs)
    return Asked(problem, (*tensors, o), backward, is_packed=False, memory=placed)


def options_of(problem, *, slopes):
    """The options of a problem in the words of options.py; slopes as such, or as a bias."""
    spec, given = problem.spec, {}
    for mask in spec.masks:
        match mask:
            case Causal():
                given["causal"] = mask.alignment
            case Window():
                given |= {"window": (mask.left, mask.right), "alignment": mask.alignment}
            case RightPadding() | VariableLengths():
                given["key_lengths"] = spec.lengths[1]
            case LeftPadding():
                given["key_starts"] = np.array(mask.starts)
            case Boolean(additive=True) | Given():
                given["bias"] = problem.mask_tensor(additive=True)
                if isinstance(mask, Given):
                    given["bias"] = given["bias"][:1, :1]
            case Boolean():
                given["mask"] = problem.visible
            case _:
                raise NotImplementedError(str(mask))
    if problem.slopes is not None and slopes:
        given["slopes"] = problem.slopes
    elif problem.slopes is not None:
        given["bias"] = problem.mask_tensor(additive=True)
    return Options(**given, scale=spec.scale, softcap=spec.soft_cap, sinks=problem.sinks)


def widened(o, keys, wide):
    """Widen a mask and a bias to the padded number of keys."""
    wider = lambda x: np.pad(x, [(0, 0)] * 3 + [(0, wide - keys)])  # noqa: E731
    tables = {name: getattr(o, name) for name in ("mask", "bias")}
    return o.but(**{name: wider(x) for name, x in tables.items() if x is not None})


def report(one, outs):
    """What the library says of an output, or of three gradients."""
    if one.backward is not None:
        return BackwardReport(one.backward, *map(as_float64, outs))
    if one.is_packed:
        return examine(one.problem, outs[0][0].swapaxes(0, 1), layout="packed")
    return examine(one.problem, outs[0], memory=one.memory)


def outside(case, out, model):
    """Whether an output lies outside its bounds; None where `bounds` refuses such inputs."""
    left, first = False, 0
    for q, k, v, o in dense(*case):
        part = out[:, :, first : first + q.shape[2]]
        first += q.shape[2]
        run = Run(q, k, v, o)
        try:
            inside = bounds(
                q, k, v, visible(run), o.scale, model, softcap=o.softcap, bias=added(run),
                sinks=o.sinks, fully_masked=None,
            )  # fmt: skip
        except ConstructiveError:
            return None
        left |= not inside.contains(part)
    return left


def model_of(kernel, base, case):
    """The row of the model of floating point that a right kernel of this kind has."""
    name = "split" if case[3].splits > 1 else MODELS[base.__name__]
    if case[0].dtype == np.float32:
        return f"{name.replace('eager', 'flash')} float32"
    return f"{'lazy' if kernel.__name__ == 'Lazy' else name} {case[0].dtype}"


def visible(run):
    """Which keys a query sees, by all masks of a run."""
    seen = Flash().visible(run, np.arange(run.tq), np.arange(run.tk))
    seen = np.broadcast_to(seen, (run.batch, run.heads, run.tq, run.tk))
    return seen if run.o.bias is None else seen & ~np.isneginf(run.o.bias.astype(np.float64))


def added(run):
    """All that is added to the logits of a run, or None."""
    rows, keys, found = np.arange(run.tq), np.arange(run.tk), None
    if run.o.bias is not None:
        bias = Flash().bias(run, rows, keys).astype(np.float64)
        found = np.where(np.isneginf(bias), 0.0, bias)
    if run.o.slopes is not None:
        slopes = Flash().alibi(run, rows, keys).astype(np.float64)
        found = slopes if found is None else found + slopes
    return found
