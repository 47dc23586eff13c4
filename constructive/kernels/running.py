"""Run an adapter on problems and count what came out; write problems for other languages."""

import json
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from constructive.kernels.adapters import GROUPS, WIDTH, Adapter, Refused
from constructive.kernels.answer import sentence
from constructive.kernels.batteries import MOST_DRAWS, STEP, Battery, problems, shapes, union
from constructive.kernels.cases import CASES
from constructive.kernels.checking import Report
from constructive.kernels.masks import Mask
from constructive.kernels.problem import Problem
from constructive.kernels.spec import TAKES, Spec
from constructive.support.arrays import Tensor
from constructive.support.errors import ParameterError
from constructive.support.files import replacing_folder
from constructive.support.tensors import serialized
from constructive.support.work import report

Outcome = Literal["exact", "wrong", "refused", "error"]
_EQUAL = (4, 4)  # heads of a library that has no grouped ones


@dataclass(frozen=True, eq=False)
class Run:
    """A problem, and what became of it."""

    shape: str  # name of the shape, a key of `suite.SUITE`
    problem: Problem  # what was to be computed
    outcome: Outcome  # "exact", "wrong", "refused" or "error"
    report: Report | None = None  # on the output, if there is one
    reason: str = ""  # why it was refused, or the error

    @property
    def summary(self) -> str:
        """What came out, in a sentence."""
        if self.report is None or self.outcome == "exact":
            return self.reason or self.outcome
        return self.report.how[0]


@dataclass(frozen=True)
class Tally:
    """How many runs there were of each outcome."""

    cases: int  # problems that were run or refused
    exact: int  # outputs that are what every admissible kernel returns
    wrong: int  # all others
    refused: int  # problems that the library or its adapter refuses
    errors: int  # exceptions of the library
    # share of hidden keys, over shapes with an output, whose leak changes an answer
    coverage: float

    @property
    def passed(self) -> bool:
        """Whether something ran, all of it exact."""
        return self.exact > 0 and self.exact + self.refused == self.cases


def suite_for(
    adapter: Adapter, dtype: str, names: Iterable[str] | None = None, seed: int = 0
) -> Battery:
    """Return the shapes that an adapter says its kernel takes, or those of some names."""
    given: dict[str, object] = {"dtype": dtype, "seed": seed}
    if GROUPS not in adapter.can:
        given["heads"] = _EQUAL
    if WIDTH not in adapter.can:
        given["value_dim"] = None
    takes = adapter.can & set(TAKES)
    found = {
        name: replace(spec, fully_masked=adapter.fully_masked)
        for name, spec in shapes(given, (), takes, names).items()
    }
    return Battery(found, tuple(CASES), takes, "the adapter does not take it")


def run_all(
    adapter: Adapter,
    specs: Mapping[str, Spec],
    device: str = "cpu",
    cases: Iterable[str] | None = None,
) -> Iterator[Run]:
    """Yield a run for each problem of each spec."""
    chosen = None if cases is None else tuple(cases)
    for count, (shape, spec) in enumerate(specs.items()):
        report(f"{spec.dtype}, {shape}", count, len(specs))
        for problem in problems(spec, cases=chosen):
            yield run_one(adapter, shape, problem, device)


def run_one(adapter: Adapter, shape: str, problem: Problem, device: str = "cpu") -> Run:
    """Run a problem; an exception of the library is an outcome."""
    reason = adapter.refuses(problem)
    if reason is not None:
        return Run(shape, problem, "refused", reason=reason)
    try:
        out = adapter.run(problem, device)
    except Refused as refusal:
        return Run(shape, problem, "refused", reason=str(refusal))
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip()
        return Run(shape, problem, "error", reason=last)
    if out.shape != problem.expected.shape:
        reason = f"the output has shape {out.shape}, not {problem.expected.shape} (B, H, T_q, d_v)"
        return Run(shape, problem, "error", reason=reason)
    report = Report(problem, out, adapter.models[problem.spec.dtype])
    return Run(shape, problem, "exact" if report.passed else "wrong", report)


def tally(runs: Iterable[Run]) -> Tally:
    """Return how many runs there were of each outcome."""
    done = list(runs)
    counts = Counter(run.outcome for run in done)
    return Tally(
        cases=len(done),
        exact=counts["exact"],
        wrong=counts["wrong"],
        refused=counts["refused"],
        errors=counts["error"],
        coverage=union(run.problem for run in done if run.report is not None),
    )


# Problems as files, for kernels where no Python runs: C++, Rust, Metal, JavaScript.
#
# A folder has a file of tensors for each problem, and `problems.json`, which says what they are.
# The same arguments give the same bytes.


INDEX = "problems.json"
# Tensors of a file, and what they are.
_TENSORS = {
    "q": "queries (batch, heads, queries, head_dim)",
    "k": "keys (batch, kv_heads, keys, head_dim)",
    "v": "values (batch, kv_heads, keys, value_dim)",
    "visible": "1 where a key may be seen (batch, 1 or heads, queries, keys); absent if all may",
    "bias": "what is added to logits after scale and soft cap (batch, heads, queries, keys, or 1)",
    "sinks": "logits of sinks (heads)",
    "expected": "the output in float64 (batch, heads, queries, value_dim); 0 where not checked",
    "tolerance": "how far outputs may be off (last axis value_dim or 1); 0 is bit for bit",
    "checked": "1 for rows that have an answer (batch, heads, queries)",
}
_MEANING = (
    "softmax(cap(scale q k^T) + bias) v over visible keys, cap(x) = soft_cap tanh(x / soft_cap); "
    "query head h reads KV head h / (heads / kv_heads); a sink is a logit without a value; "
    "an empty row sees no key and is what fully_masked says"
)


def export(
    folder: str | Path,
    specs: Mapping[str, Spec],
    *,
    cases: Iterable[str] | None = None,
) -> int:
    """Write the problems of several specs into a folder, whole or not at all."""
    chosen = None if cases is None else tuple(cases)
    entries: list[dict[str, object]] = []
    with replacing_folder(folder, file_names(specs)) as new:
        for done, (shape, spec) in enumerate(specs.items()):
            report(f"export {shape}", done, len(specs))
            for problem in problems(spec, cases=chosen):
                name = _name(shape, problem.case, (problem.spec.seed - spec.seed) // STEP)
                file = f"{name}.safetensors"
                (new / file).write_bytes(
                    serialized(_tensors(problem), {"format": "constructive.kernels 1"})
                )
                entries.append({"file": file, "shape": shape} | _described(problem))
        if not entries:
            raise ParameterError(
                "no case applies to these shapes", witness=chosen, suggestion="other cases"
            )
        index = {
            "format": "constructive.kernels 1",
            "computes": _MEANING,
            "tensors": _TENSORS,
            "assumed": {shape: sentence(spec) for shape, spec in specs.items()},
            "problems": entries,
        }
        (new / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n", "utf-8")
    return len(entries)


def file_names(specs: Iterable[str]) -> list[str]:
    """Return the names that files of an export may have."""
    return [INDEX] + [
        f"{_name(shape, case, draw)}.safetensors"
        for shape in specs
        for case in CASES
        for draw in range(MOST_DRAWS)
    ]


def _name(shape: str, case: str, draw: int) -> str:
    words = f"{shape} {case} {draw}".lower()
    return "-".join("".join(c if c.isalnum() else " " for c in words).split())


def _tensors(problem: Problem) -> dict[str, Tensor]:
    """Return the tensors of a problem by name."""
    found = dict(zip("qkv", problem.tensors(), strict=True))
    if problem.mask is not None:
        found["visible"] = problem.mask.astype(np.uint8)
    for name in ("bias", "sinks"):
        values = getattr(problem, name)
        if values is not None:
            found[name] = values.astype(np.float32)
    answer = problem.answer
    found["expected"] = np.where(answer.checked[..., None], answer.expected, 0.0)
    found["tolerance"] = answer.slack
    found["checked"] = answer.checked.astype(np.uint8)
    return found


def _described(problem: Problem) -> dict[str, object]:
    """Return the options of a problem."""
    spec = problem.spec
    return {
        "case": problem.case,
        "batch": spec.batch,
        "heads": spec.heads[0],
        "kv_heads": spec.heads[1],
        "queries": spec.queries,
        "keys": spec.keys,
        "head_dim": spec.head_dim,
        "value_dim": spec.d_v,
        "dtype": spec.dtype,
        "output_dtype": spec.output.name,
        "scale": spec.factor,
        "soft_cap": spec.soft_cap,
        "fully_masked": spec.fully_masked,
        "masks": [{"kind": mask.name} | _fields(mask) for mask in spec.masks],
        "query_lengths": spec.lengths[0].tolist(),
        "key_lengths": spec.lengths[1].tolist(),
        "bit_for_bit": not problem.answer.slack.any(),
        "seed": spec.seed,
    }


def _fields(mask: Mask) -> dict[str, object]:
    return {name: value for name, value in vars(mask).items() if not hasattr(value, "shape")}
