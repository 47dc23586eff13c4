"""Planted bugs against the battery, the bounds, and the tests that kernels usually have.

    python tests/benchmarks/planted/campaign.py [--only PART] [--blind FILE] [--json FILE]

For each bug: A, whether `check` finds it in a problem of the battery (by how many of the problems
that have what the bug needs); B, whether some output on random inputs leaves its `bounds`; and the
usual comparisons on normal inputs. Right kernels are judged likewise: what is found there is a
false alarm. --blind writes the diagnoses in random order and without the names of the bugs, to be
judged by someone who does not know them; --json writes everything.

With TRITON_INTERPRET=1 and Triton installed, bugs in Triton's language run, too.
"""

import argparse
import importlib.util
import json
import random
import time
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

import seam
from constructive.kernels import Report, diagnose
from backward import Backward
from cases import features, random_case
from catalogue import bugs
from comparisons import METHODS, compared, normal_cases
from eager import Eager
from flash import Flash
from options import Run
from selfcheck import gradient_for, outputs

SMALL, MOST = 100_000, 12
"""Scores and number of the problems that Triton's interpreter meets, spread over the battery."""

SHOWN = 2
"""Messages that someone who judges them sees, of different cases."""

LOGITS = {"large-logits", "sunk-logits"}
"""What some cases of a battery have: kernels are asked for all of them."""

COMPARED = 6
"""Reports on gradients whose explanations are compared."""


class Tiles(Flash):
    """A right kernel with other blocks."""

    block_q, block_k = 32, 64


class Backwards(Flash):
    """A right kernel that goes through the blocks of keys from the last to the first."""

    def key_blocks(self, run, rows, low, high):
        return reversed(list(super().key_blocks(run, rows, low, high)))


class BaseTwo(Flash):
    """A right kernel whose exponential is that of base two."""

    def exp(self, x):
        return np.exp2(x * x.dtype.type(np.log2(np.e)))


class Lazy(Flash):
    """A right kernel that keeps the old maximum unless it grows by more than eight."""

    def maximum(self, run, old, s):
        new = super().maximum(run, old, s)
        return np.where((new - old <= 8) & ~np.isneginf(old), old, new)


RIGHT = (Flash, Tiles, Backwards, BaseTwo, Lazy, Eager, Backward)
BASES = {"Flash", "Eager", "Backward", "Triton"}


def right_kernels():
    """The right kernels, Triton's where it is installed."""
    if importlib.util.find_spec("triton") is None:
        return RIGHT
    from triton_flash import Triton

    return (*RIGHT, Triton)


@dataclass
class Result:
    """What the methods said of one kernel."""

    name: str
    kernel: str
    group: str = "right"
    description: str = ""
    ran: int = 0
    found: int = 0
    diagnosis: str = ""
    bounded: int = 0
    left: int = 0
    usual: dict = field(default_factory=dict)
    compared: int = 0


@lru_cache(maxsize=1)
def _asked(words, gradients):
    """Problems with their features; bugs that need the same follow each other."""
    return [(one, features(Run(*one.case))) for one in seam.asked(set(words), gradients=gradients)]


def _work(run):
    return run.batch * run.heads * run.tq * run.tk


def battery_for(needs, base):
    """The problems of the battery that have what a bug needs; those of usual logits, too."""
    needs = needs - LOGITS
    found = [
        one for one, here in _asked(tuple(sorted(needs)), "backward" in base.handles)
        if needs <= here and {"pages", "splits", "packed"} & here <= base.handles
    ]  # fmt: skip
    if base.__name__ == "Triton":  # its interpreter takes seconds
        small = [one for one in found if _work(Run(*one.case)) <= SMALL]
        return small[:: -(-len(small) // MOST) or 1]
    return found


def message(reports):
    """What a user sees: what the wrong outputs have in common, and the first messages."""
    if not isinstance(reports[0], Report):
        some = random.Random(0).sample(reports, min(COMPARED, len(reports)))  # noqa: S311
        named = [one.explanations for one in some]
        every = [name for name in named[0] if all(name in names for names in named)]
        common = "\n".join(f"IN COMMON: {words}" for words in every[:4])
        return "\n\n".join([common, *map(str, reports[:SHOWN])])
    cases = {}
    for one in reports:
        if not one.passed:
            cases.setdefault(one.problem.case, one)
    common = "\n".join(f"IN COMMON: {words}" for words in diagnose(reports)[:4])
    return "\n\n".join([common, *map(str, list(cases.values())[:SHOWN])])


def judge(kernel, base, needs, result, seeds, longer):
    """Judge a kernel by all methods, on what its bug needs."""
    made, gradients = kernel(), "backward" in base.handles
    reports = []
    for one in battery_for(needs, base):
        reports.append(seam.report(one, outputs(made, one.case, one.dout)))
        result.ran += 1
    wrong = [one for one in reports if not one.passed]
    result.found += len(wrong)
    if wrong and not result.diagnosis:
        result.diagnosis = message(wrong if gradients else reports)
    for seed in seeds if not gradients else ():
        case = random_case(needs, seed)
        left = seam.outside(case, outputs(made, case)[0], seam.model_of(kernel, base, case))
        if left is not None:
            result.bounded += 1
            result.left += left
    for case in normal_cases(needs, seeds, longer):
        dout = gradient_for(case) if gradients else None
        wrong = compared(outputs(made, case, dout), case, dout)
        result.compared += 1
        for name in METHODS:
            result.usual[name] = result.usual.get(name, 0) + (name in wrong)


def right_needs(base):
    """The options that right kernels are judged with."""
    plain = [
        "", "causal", "top-left", "bottom-right unequal", "window", "window causal", "mask", "bias",
        "alibi", "softcap", "sinks", "scale", "lengths", "lengths bottom-right", "starts causal",
        "poison", "large-logits", "empty-row", "infinite-bias", "d-tail", "one-query", "strided",
    ]  # fmt: skip
    if "splits" in base.handles:
        plain += ["splits", "empty-split causal", "pages lengths", "packed", "packed causal"]
    return [frozenset(words.split()) for words in plain]


def mark(found, ran):
    return "-" if not ran else f"{found}/{ran}"


def line(r):
    usual = "".join(f"{mark(r.usual.get(name, 0), r.compared):>9}" for name in METHODS)
    a, b = mark(r.found, r.ran), mark(r.left, r.bounded)
    return f"{r.group:10} {r.kernel:9} {r.name:44}{a:>9}{b:>7}{usual}"


def blind(results, path):
    """Write diagnoses without names, in random order; a key with the names goes beside it."""
    told = [r for r in results if r.diagnosis]
    random.Random(0).shuffle(told)  # noqa: S311
    texts = [f"### {n}\n\n{r.diagnosis}\n" for n, r in enumerate(told)]
    path.write_text("\n".join(texts), encoding="utf-8")
    key = {n: {"bug": r.name, "description": r.description} for n, r in enumerate(told)}
    path.with_suffix(".key.json").write_text(json.dumps(key, indent=1), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the names of bugs or of a group")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--longer", type=int, default=0, help="tokens added to normal inputs")
    parser.add_argument("--kernel", default="", help="Flash, Eager, Backward or Triton alone")
    parser.add_argument("--no-right", action="store_true", help="do not judge right kernels")
    parser.add_argument("--blind", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seeds, started, results, alarms = range(options.seeds), time.monotonic(), [], []
    header = "".join(f"{name:>9}" for name in METHODS)
    print(f"{'group':10} {'kernel':9} {'bug':44}{'A':>9}{'B':>7}{header}")
    chosen = [
        bug for bug in bugs()
        if (options.only in bug.name or options.only == bug.group)
        and options.kernel in {"", bug.base.__name__}
    ]  # fmt: skip
    for bug in sorted(chosen, key=lambda bug: (bug.base.__name__, sorted(bug.needs))):
        result = Result(bug.name, bug.base.__name__, bug.group, bug.description)
        judge(bug.kernel, bug.base, bug.needs, result, seeds, options.longer)
        results.append(result)
        print(line(result), flush=True)
    for kernel in () if options.no_right else right_kernels():
        base = next(c for c in kernel.__mro__ if c.__name__ in BASES)
        if options.kernel not in {"", base.__name__}:
            continue
        result = Result("right", kernel.__name__)
        for needs in right_needs(base):
            judge(kernel, base, needs, result, seeds, options.longer)
        alarms.append(result)
        print(line(result), flush=True)
        if result.diagnosis:
            print(f"  FALSE ALARM: {result.diagnosis}")
    summary(results, alarms)
    print(f"{time.monotonic() - started:.0f} s")
    if options.blind:
        blind(results, options.blind)
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in results + alarms], indent=1))


def summary(results, alarms):
    """Print how many bugs each method found, and what never ran."""
    total = len(results)
    print(f"{total} bugs")
    print(f"  A {sum(r.found > 0 for r in results)}, B {sum(r.left > 0 for r in results)}, "
          f"A or B {sum(r.found + r.left > 0 for r in results)}")  # fmt: skip
    for name in METHODS:
        once = sum(r.usual.get(name, 0) > 0 for r in results)
        always = sum(0 < r.usual.get(name, 0) == r.compared for r in results)
        print(f"  {name}: {once}, by every seed {always}")
    never = [r.name for r in results if not r.ran]
    print(f"  met no problem of the battery that has what they need: {never}")
    missed = [r.name for r in results if not r.found + r.left]
    print(f"  found by neither A nor B: {missed}")
    runs = sum(r.ran for r in alarms), sum(r.bounded for r in alarms)
    print(f"  false alarms on right kernels: A {sum(r.found for r in alarms)} of {runs[0]}, "
          f"B {sum(r.left for r in alarms)} of {runs[1]}, "
          + ", ".join(f"{n} {sum(r.usual[n] for r in alarms)}" for n in METHODS))  # fmt: skip


if __name__ == "__main__":
    main()
