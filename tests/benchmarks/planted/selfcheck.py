"""Check that every planted bug is one: that it differs from the right kernel by more than rounding.

    python tests/benchmarks/planted/selfcheck.py

A bug is what makes some output worse than the right kernel does, by more than half as much again
and by more than 3/4 of a step of the output's format, on random inputs with the features that the
bug needs. Outputs far smaller than the values that they average are not looked at.
"""

import argparse
import time

import numpy as np

from cases import features, random_case
from catalogue import bugs
from exact import exact, exact_gradients
from options import Run


def outputs(kernel, case, dout=None):
    """What a kernel returns, as a tuple: (out,) or (dq, dk, dv)."""
    if "backward" in kernel.handles:
        return kernel(*case, dout)
    return (kernel(*case),)


def gradient_for(case):
    """The gradient of the output, of the same format."""
    q, _, v, _ = case
    shape = (*q.shape[:3], v.shape[3])
    rng = np.random.default_rng(7)
    return rng.standard_normal(shape).astype(np.float32).astype(q.dtype)


def steps(out, right):
    """The largest error of `out`, in steps of its format at the element in question."""
    worst = 0.0
    for got, wanted in zip(out, right, strict=True):
        size = np.abs(wanted)
        looked = size >= 0.1 * size.max()
        if not np.isfinite(got.astype(np.float64)).all():
            return np.inf
        step = np.spacing(wanted.astype(got.dtype)[looked]).astype(np.float64)
        error = np.abs(got.astype(np.float64)[looked] - wanted[looked]) / np.abs(step)
        worst = max(worst, float(error.max(initial=0.0)))
        empty = np.abs(got.astype(np.float64)[size == 0])
        if empty.max(initial=0.0) > 1e-3 * size.max():
            return np.inf
    return worst


def truth(kernel, case, dout):
    if "backward" in kernel.handles:
        return exact_gradients(*case, dout)
    return (exact(*case),)


def differs(bug, seeds):
    """(is a bug, error of the mutant, error of the right kernel) in steps; the worst seed."""
    best = (False, 0.0, 0.0)
    for seed in seeds:
        case = random_case(bug.needs, seed)
        missing = bug.needs - features(Run(*case))
        if missing:
            raise LookupError(f"{bug.name}: random inputs lack {sorted(missing)}")
        dout = gradient_for(case) if "backward" in bug.base.handles else None
        right = truth(bug.base(), case, dout)
        mine, good = (
            steps(outputs(kernel(), case, dout), right) for kernel in (bug.kernel, bug.base)
        )
        best = max(best, (mine > 0.75 and mine > 1.5 * good, mine, good))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the names of bugs")
    arguments = parser.parse_args()
    planted = [bug for bug in bugs() if arguments.only in bug.name]
    started, harmless = time.monotonic(), []
    for bug in planted:
        is_bug, mine, good = differs(bug, range(arguments.seeds))
        line = f"{bug.group:10} {bug.base.__name__:9} {bug.name:45} {mine:10.3g} {good:10.3g}"
        print(line, flush=True)
        if not is_bug:
            harmless.append((bug, mine, good))
    groups = {g: sum(b.group == g for b in planted) for g in sorted({b.group for b in planted})}
    print(f"{len(planted)} bugs in {time.monotonic() - started:.0f} s: {groups}")
    print(f"{len(harmless)} that never differ by more than rounding:")
    for bug, mine, good in harmless:
        print(
            f"  {bug.name} ({bug.group}, {bug.base.__name__}): {mine:.3g} steps, right {good:.3g}"
        )
    return bool(harmless)


if __name__ == "__main__":
    raise SystemExit(main())
