"""All that the campaign knows of `constructive.kernels`: one place to fit to it.

`asked` gives the problems of the battery for a kernel with some options, in the words of
options.py; `wrong` is the diagnosis of `check`; `outside` says what `bounds` thinks of outputs.
"""

import importlib.util
import inspect
from dataclasses import dataclass
from functools import cache

import numpy as np

from options import Options, Run

HEADS = ((6, 2), (4, 4), (4, 1))
"""Heads and KV heads that the battery is asked for: grouped (three to one), plain, multi-query."""

ARGUMENTS = {
    "causal": {"causal": "bottom-right"},
    "top-left": {"causal": "top-left"},
    "bottom-right": {"causal": "bottom-right"},
    "window": {"window": (5, 2)},
    "mask": {"mask": "boolean"},
    "bias": {"mask": "additive"},
    "alibi": {"alibi": True},
    "softcap": {"softcap": 3.0},
    "sinks": {"sinks": True},
    "scale": {"scale": 0.25},
    "lengths": {"padding": "right"},
    "starts": {"padding": "left"},
    "backward": {"backward": True},
}
"""Arguments of `battery` for a feature."""

INSTEAD_OF = {
    "window-left": "window", "window-right": "window", "window-uneven": "window",
    "head-mask": "mask", "batch-mask": "mask",
    "infinite-bias": "bias", "large-bias": "bias", "head-bias": "bias", "batch-bias": "bias",
    "shared-bias": "bias", "uneven-lengths": "lengths", "partial-lengths": "lengths",
    "part-page": "lengths", "empty-sequence": "lengths", "poison": "lengths", "packed": "lengths",
    "empty-row": "bottom-right",
}  # fmt: skip
"""The feature whose arguments another one needs."""

DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class Asked:
    """A problem of the battery: what a kernel is called with, and the problem itself."""

    case: tuple
    dout: np.ndarray | None
    problem: object


def available():
    """Whether constructive.kernels can be imported."""
    return importlib.util.find_spec("constructive.kernels") is not None


def arguments(needs):
    """The arguments of `battery` for a kernel that has the features: a dict without dtype."""
    known = {}
    for need in sorted(needs):
        known |= ARGUMENTS.get(INSTEAD_OF.get(need, need), {})
    return known


@cache
def _tell_once(words):
    print(words)


def asked(needs):
    """Yield the problems of the battery with these features; nothing if it has no such argument."""
    from constructive.kernels import battery

    options = arguments(needs)
    parameters = inspect.signature(battery).parameters
    unknown = set(options) - set(parameters)
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        _tell_once(f"  the battery has no argument {', '.join(sorted(unknown))}")
        return
    for dtype in DTYPES:
        for heads in HEADS:
            for problem in battery(heads=heads, dtype=dtype, **options):
                yield Asked(
                    case=(*problem.tensors("numpy"), options_of(problem)),
                    dout=getattr(problem, "dout", None) if "backward" in needs else None,
                    problem=problem,
                )


def options_of(problem):
    """The options of a problem in the words of options.py.

    A word that is not known there raises TypeError: no option may be dropped silently.
    """
    return Options(**problem.options("numpy"))


def wrong(problem, outs):
    """The diagnosis of outputs, or None if they are right: one output, or three gradients."""
    from constructive.kernels import check

    try:
        check(problem, outs[0] if len(outs) == 1 else outs)
    except AssertionError as error:
        return str(error)
    return None


def outside(case, out, model):
    """Whether an output lies outside its bounds; None where `bounds` has no such option."""
    from constructive.kernels import bounds

    q, k, v, o = case
    if o.block_table is not None or o.query_offsets is not None:
        return None
    run, options = Run(q, k, v, o), {"mask": None, "scale": o.scale, "model": model}
    options |= {
        name: value for name, value in (("softcap", o.softcap), ("sinks", o.sinks))
        if value is not None
    }  # fmt: skip
    if set(options) - set(inspect.signature(bounds).parameters):
        return None
    options["mask"] = additive(run)
    return not bool(bounds(q, k, v, **options).contains(out))


def additive(run):
    """All masks and biases of a run as one: booleans if there is no bias, else numbers."""
    from flash import Flash

    flash, rows, keys = Flash(), np.arange(run.tq), np.arange(run.tk)
    whole = (run.batch, run.heads, run.tq, run.tk)
    seen = np.broadcast_to(flash.visible(run, rows, keys), whole)
    if run.o.bias is None and run.o.slopes is None:
        return seen
    bias = np.zeros(whole, run.real)
    if run.o.bias is not None:
        bias = bias + flash.bias(run, rows, keys)
    if run.o.slopes is not None:
        bias = bias + flash.alibi(run, rows, keys)
    return np.where(seen, bias, -np.inf).astype(run.real)
