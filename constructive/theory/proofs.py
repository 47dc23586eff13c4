"""Run the literate proofs: each statement has its proof on paper, and checks that run.

A page of `proofs/` is Markdown. A section with a proof, from **Proof.** to QED, is a statement; its
`>>>` blocks check it. They hand every instance to `holds(kind, condition)`, of one of these kinds:

- ``"symbolic"``: an identity between expressions, by sympy
- ``"exact"``: an instance in exact arithmetic
- ``"certificate"``: an instance by a certificate, or another verdict, which is PROVED

A check is not a proof, and a proof is not a check: the table shows both.
"""

import doctest
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from constructive.support import tables
from constructive.support.errors import ParameterError, require
from constructive.support.verdict import Verdict
from constructive.support.work import report

Kind = Literal["symbolic", "exact", "certificate"]

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Section:
    """A section of a page: its title and its text."""

    title: str
    text: str

    @property
    def proved(self) -> bool:
        """Whether it holds a proof on paper, from **Proof.** to QED."""
        return re.search(r"\*\*Proof\.\*\*.*\bQED\b", self.text, re.DOTALL) is not None


@dataclass(frozen=True)
class CheckedStatement:
    """What running a statement gave: how many instances of each kind hold, and what failed."""

    page: str
    title: str
    proved: bool
    instances: dict[str, int]
    failure: str

    @property
    def holds(self) -> bool:
        """Whether a proof is there, and checks ran, and none of them failed."""
        return self.proved and bool(self.instances) and not self.failure


@dataclass
class Ledger:
    """Counts the instances that hold, and stops at one that does not."""

    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, kind: Kind, condition: object) -> None:
        """Count an instance. Raises ValueError unless it is True, or PROVED."""
        holds(kind, condition)
        self.counts[kind] += 1


def holds(kind: Kind, condition: object) -> None:
    """Check an instance as the pages do, which import this; run by `run`, they count it, too."""
    if kind not in get_args(Kind):
        raise ParameterError(
            f"unknown kind of check {kind!r}",
            witness=kind,
            suggestion=f"one of {', '.join(get_args(Kind))}",
        )
    # Neither "cannot tell" nor anything merely truthy counts. (sympy has a `true` of its own.)
    truths = condition is True, condition is np.True_, condition is Verdict.PROVED
    kind_of = type(condition)
    sympy_true = kind_of.__module__.startswith("sympy.") and kind_of.__name__ == "BooleanTrue"
    if not any(truths) and not sympy_true:
        raise ValueError(f"an instance does not hold: {condition}")


def pages() -> list[Path]:
    """Return the pages of proofs in reading order, of the package or of the checkout."""
    here = Path(__file__).parent.parent
    for folder in (here / "proofs", here.parent / "proofs"):
        found = sorted(folder.glob("*.md"), key=_reading_order)
        if found:
            return found
    raise ParameterError(f"no proofs in {here}", witness=str(here), suggestion="the folder proofs/")


def sections(page: Path) -> list[Section]:
    """Return the sections of a page, which start with a heading of two marks."""
    title, *rest = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    texts = [title.removeprefix("# "), *rest]
    return [Section(text.partition("\n")[0].strip(), text) for text in texts]


def run(page: Path) -> Iterator[CheckedStatement]:
    """Run the checks of a page, section after section; the sections share their names."""
    require("sympy", extra="proofs", purpose="checking the proofs")
    names: dict[str, Any] = {}
    for section in sections(page):
        names["holds"] = ledger = Ledger()
        report = io.StringIO()
        failed = _run_examples(section, page, names, report.write)
        if section.proved or failed or ledger.counts:
            failure = report.getvalue() if failed else ""
            yield CheckedStatement(
                page.stem, section.title, section.proved, dict(ledger.counts), failure
            )


def prove(chosen: Sequence[Path] | None = None) -> list[CheckedStatement]:
    """Run all pages, or some."""
    outcomes: list[CheckedStatement] = []
    every = pages() if chosen is None else list(chosen)
    for number, page in enumerate(every):
        report(page.stem, number, len(every))
        outcomes.extend(run(page))
    return outcomes


def table(outcomes: Sequence[CheckedStatement]) -> str:
    """Write a table of statements: proved on paper, checked how, on how many instances."""
    words = "statement", "proved on paper", "checked"
    rows = tables.new_table(*words, "instances", "", left=(*words, ""))
    for outcome in outcomes:
        rows.add_row(
            outcome.title,
            outcome.page if outcome.proved else "no",
            ", ".join(f"{kind} {count}" for kind, count in outcome.instances.items()) or "no",
            str(sum(outcome.instances.values())),
            "holds" if outcome.holds else "FAILED",
        )
    failures = [f"\n{outcome.title}\n{outcome.failure}" for outcome in outcomes if outcome.failure]
    return "\n".join([*tables.lines(rows, 130), *failures])


def _run_examples(
    section: Section, page: Path, names: dict[str, Any], write: Callable[[str], object]
) -> int:
    # A closing fence right after an output would be read as part of it.
    text = section.text.replace("\n```", "\n\n```")
    test = doctest.DocTestParser().get_doctest(text, names, section.title, str(page), 0)
    for example in test.examples:
        if example.options or example.exc_msg or re.search(r"\bexcept\b", example.source):
            write(f"a check may neither be skipped nor expect an error: {example.source}")
            return 1
    result = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=write, clear_globs=False)
    names.update(test.globs)
    return result.failed


def _reading_order(page: Path) -> tuple[int, str]:
    number = re.match(r"\d+", page.name)
    return (int(number[0]) if number else 0, page.name)
