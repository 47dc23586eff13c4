"""Mutation testing of the checker and of what certify proves with, by hand; it takes hours.

    python -m pip install mutmut
    python tests/campaign/mutants.py constructive/certificates/checker --processes 2

Every mutant is one change in one place, by the operators of mutmut: numbers, operators, keywords,
names, branches. (Its other operators put None or nothing in the place of arguments and of what is
assigned, which any run of the code sees, or alter the words of messages.) For each a process is
forked, which puts the mutant in the place of the module and runs the tests of that module until one
fails: those first which killed most mutants before. What survives is written down with its line,
and has to be killed by a new test, or explained. Counts and survivors of each module go into
mutants.json beside this file, and its table into mutants.md. A mutant with which one
test takes longer than SECONDS counts as killed. With --brief 8 the longest tests are left out, and
no test is begun after eight seconds of processor time, however busy the machine is: what survives
has yet to meet the rest, by --only REPORT.
"""

import argparse
import gc
import importlib
import math
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import mutant_records
import numpy as np
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).parent.parent.parent
CHECKER = ROOT / "constructive" / "certificates" / "checker"
LEFT_OUT = {"operator_string", "operator_arg_removal", "operator_assignment"}
UNCHANGED = "the module as it is, which has to pass"
SECONDS = 60

LOADED = "hypothesis", "hypothesis.extra.numpy", "flint", "mpmath", "scipy.linalg"
"""What the tests import, imported once and not by every fork."""

CAMPAIGN = "tests/campaign/test_campaign.py"
HONEST = f"{CAMPAIGN}::test_honest_triples_stay_true_at_any_scale"
HOSTILE = f"{CAMPAIGN}::test_nothing_false_is_accepted"
IMPOSSIBLE = "tests/campaign/test_impossible.py"
NEEDS = "tests/campaign/test_needs.py"
LONGEST = {HONEST, HOSTILE, NEEDS}
TOO_LONG = [
    "tests/checker/test_paired.py::test_thirty_thousand_examples_are_proved_and_checked",
    "tests/exact/test_extended.py::test_rank_one_heads_on_a_shared_context_of_32_tokens",
    "tests/sequences/test_sequences.py::test_parameters_grow_as_the_square_root",
]
"""Tests which no mutant meets. It does meet all others which pytest leaves out as slow."""


def checks(names: str) -> list[str]:
    return [f"tests/checker/test_{name}.py" for name in names.split()]


LAYERS = "checker claim_conformance upper_bounds"
PAIRS = checks("soundness paired_steps layers paired")
PAIRS += [HONEST, HOSTILE]
SEQUENCES = [*checks("sequence_checker soundness"), HOSTILE]
DECODERS = checks("soundness decoder_checker decoder_claims")
INTEGERS = checks("integer_claims decoder_checker decoder_claims")
PACKED = checks("packed")
FOLDERS = [f"tests/instances/test_{name}.py" for name in ("checking", "flat_graph")]
GRAPHS = [*checks("graphs"), *FOLDERS]
BOUNDS = [*checks("softmaxes"), *FOLDERS]
FLOATS = "real arithmetic checker"
REAL = checks(f"{FLOATS} arithmetic layers soundness {LAYERS}")
TESTS = {
    "certificates/checker/paired": PAIRS,
    "certificates/checker/sequences": SEQUENCES,
    "certificates/checker/decoders": [*DECODERS, *INTEGERS],
    "certificates/checker/margins": [*checks("margin_steps"), *DECODERS],
    "certificates/checker/integers": INTEGERS,
    "certificates/checker/packed": [*PACKED, *INTEGERS],
    "certificates/checker/graphs": GRAPHS,
    "certificates/checker/operators": [*GRAPHS, *BOUNDS],
    "certificates/checker/softmaxes": [*BOUNDS, *checks("graphs")],
    "certificates/checker/folder": FOLDERS,
    "certificates/checker/properties": [*checks("graphs"), *FOLDERS],
    "certificates/checker/floating": [*REAL, *DECODERS, HONEST, HOSTILE, NEEDS],
    "certificates/checker/real": [*REAL, HONEST, HOSTILE, NEEDS],
    "certificates/checker/attend": [
        *checks(f"arithmetic {LAYERS} decoder_checker paired"), HOSTILE
    ],
    "certificates/checker/executed": checks("executed claim_conformance integer_claims"),
    "certificates/checker/float_model": [
        *checks("executed"), *DECODERS, "tests/exact/test_float_model.py"
    ],
    "certificates/checker/files": [
        *checks(f"files {LAYERS} sequence_checker paired"), HONEST, HOSTILE
    ],
    "certificates/checker/command": [*checks(f"files {LAYERS} sequence_checker paired"), HOSTILE],
    "certificates/checker/bounds": [
        *checks(f"arithmetic paired_steps paired {LAYERS}"), HONEST, HOSTILE
    ],
    "certificates/checker/modular": [
        *checks(f"arithmetic layers {LAYERS} decoder_checker"), HONEST, HOSTILE
    ],
    "certificates/checker/claim": checks("checker layers executed"),
    "certificates/checker/rank": [
        *checks(f"checker layers decoder_claims {LAYERS} soundness"), HOSTILE
    ],
    "certificates/checker/layers": [
        *checks(f"soundness layers {LAYERS}"), IMPOSSIBLE, NEEDS
    ],
    "certificates/claims/recites": checks("decoder_claims decoder_checker"),
    "certificates/claims/sequences": [*checks("claims sequence_checker"), "tests/sequences"],
    "certificates/claims/impossible": [*checks("claims upper_bounds"), "tests/theorem", HOSTILE],
    "theory/context": [*checks("upper_bounds"), "tests/theorem", IMPOSSIBLE],
    "certificates/claims/paired": [*checks("paired_steps paired soundness"), HOSTILE],
    "certificates/claims/pairs": [*checks("paired_steps paired soundness"), HOSTILE],
    "certificates/claims": [*checks(f"claims {LAYERS} soundness"), HOSTILE],
    "layers/exact_logits": [
        "tests/layer/test_logit_errors.py", *checks("executed"), "tests/layer",
        "tests/programs",
    ],
    "layers/causal": ["tests/layer/test_causal.py", *checks("decoder_claims"), *DECODERS],
    "layers": ["tests/layer", *checks(f"claims {LAYERS}")],
    "exact/directed": ["tests/exact/test_directed.py", *checks("arithmetic claims paired_steps")],
    "exact/verified": checks("claims arithmetic"),
    "exact/arithmetics": ["tests/layer", *checks(f"claims executed {LAYERS}")],
    "exact/float_model": [
        "tests/exact/test_float_model.py", *checks("executed decoder_claims decoder_checker"),
        "tests/exact",
    ],
    "instances": [
        *(f"tests/instances/test_{name}.py" for name in ("interval_form", "network_bounds")),
        *FOLDERS, "tests/instances",
    ],
    "exact": ["tests/exact", *checks(f"claims arithmetic paired_steps {LAYERS}"), HOSTILE],
}  # fmt: skip
"""Which tests look at which modules, quick ones first: the longest match."""


class Mutations(cst.CSTVisitor):
    """All mutants of a module: node, replacement, operator, line."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode, str, int]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.ImportFrom | cst.Import) or says_why(node):
            return False
        for kind, operator in mutation_operators:
            if isinstance(node, kind) and operator.__name__ not in LEFT_OUT:
                line = self.get_metadata(PositionProvider, node).start.line
                self.found += [(node, new, operator.__name__, line) for new in operator(node)]
        return True


def says_why(node: cst.CSTNode) -> bool:
    """Whether this is a docstring, an error, or the reason of a requirement."""
    if isinstance(node, cst.Raise):
        return True
    if isinstance(node, cst.Expr):
        return isinstance(node.value, cst.SimpleString)
    return isinstance(node, cst.FormattedString)


def without_reasons(node: cst.CSTNode, new: cst.CSTNode) -> bool:
    """Whether a mutant of a call to `require` alters more than the reason it gives."""
    called = isinstance(node, cst.Call) and isinstance(node.func, cst.Name)
    if not called or node.func.value != "require":
        return True
    return len(new.args) == len(node.args) and new.args[0] is not node.args[0]


def mutants(path: Path) -> Iterator[tuple[str, str]]:
    """Descriptions and sources of all mutants of a file."""
    wrapper = MetadataWrapper(cst.parse_module(path.read_text()))
    visitor = Mutations()
    wrapper.visit(visitor)
    for node, new, operator, line in visitor.found:
        if not without_reasons(node, new):
            continue
        source = wrapper.module.deep_replace(node, new).code
        before, after = wrapper.module.code_for_node(node), wrapper.module.code_for_node(new)
        told = f"{path.relative_to(ROOT)}:{line} {operator[9:]}: {before} -> {after}"
        yield " ".join(told.split()), source


def tests_of(path: Path, brief: float | None) -> list[str]:
    name = path.relative_to(ROOT / "constructive").with_suffix("").as_posix()
    best = max((key for key in TESTS if name.startswith(key)), key=len)
    return [test for test in TESTS[best] if not (brief and test in LONGEST)]


def overlaid(path: Path, source: str, folder: Path) -> Path:
    """A package of links to the real one, but for this file."""
    package = folder / "constructive"
    package.mkdir()
    inside = path.relative_to(ROOT / "constructive").parts
    real, made = ROOT / "constructive", package
    for depth in range(len(inside)):
        for entry in real.iterdir():
            if entry.name not in (inside[depth], "__pycache__"):
                (made / entry.name).symlink_to(entry)
        real, made = real / inside[depth], made / inside[depth]
        if depth < len(inside) - 1:
            made.mkdir()
    made.write_text(source)
    return folder


def spent() -> float:
    """Seconds of processors that this process and the programs it ran have taken."""
    return sum(os.times()[:4])


class Killers:
    """A plugin of pytest: the best tests first, an end to brief runs, and which test failed."""

    def __init__(self, kills: Counter, seconds: float) -> None:
        self.kills, self.end = kills, spent() + seconds
        self.killer = ""
        self.over = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: -self.kills[item.nodeid])

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(SECONDS)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.killer = report.nodeid if report.failed else self.killer

    def pytest_runtest_logfinish(self) -> None:
        if not self.killer and spent() > self.end:
            self.over = True
            raise KeyboardInterrupt


def run_tests(path: Path, source: str, kills: Counter, told: int, brief: float | None) -> None:
    """In a process of its own: leave with status 0 if no test fails, else tell which."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
    signal.alarm(SECONDS)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if path.parent == CHECKER:
        copied = folder / "checker"
        shutil.copytree(CHECKER, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / path.name).write_text(source)
        from constructive.certificates import check

        check.CHECKER = copied
    else:
        sys.path.insert(0, str(overlaid(path, source, folder)))
        os.environ["PYTHONPATH"] = str(folder)
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # by the process which was forked
    killers = Killers(kills, brief or math.inf)
    options = [
        "-x",
        "-q",
        "--assert=plain",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        *(f"--deselect={test}" for test in TOO_LONG),
        "-W",
        loaded,
    ]
    try:
        tests = [str(ROOT / test) for test in tests_of(path, brief)]
        status = pytest.main([*options, *tests], plugins=[killers])
    except BaseException:  # a mutant may end the run
        status = 1
    shutil.rmtree(folder, ignore_errors=True)
    os.write(told, killers.killer.encode())
    os._exit(0 if status == 0 or killers.over else 1)


def without_line(told: str) -> str:
    """What a report says of a mutant, wherever its line has moved to."""
    return re.sub(r":[0-9]+ ", " ", told, count=1)


def chosen(path: Path, options: argparse.Namespace) -> list[tuple[str, str]]:
    """All mutants, or those which a report names, or so many at random."""
    listed = list(mutants(path))
    if options.only:
        named = {without_line(told) for told in options.only.read_text().splitlines()}
        listed = [mutant for mutant in listed if without_line(mutant[0]) in named]
    some = np.random.default_rng(options.seed).permutation(len(listed))[: options.sample]
    return [listed[k] for k in sorted(some)]


def load(path: Path, tests: list[str]) -> None:
    """Import what the tests of a file import, and make what they all need, once."""
    for name in LOADED:
        importlib.import_module(name)
    if path.parent != CHECKER:
        return
    import constructive  # these mutants do not change the package

    for name in constructive.__all__:
        getattr(constructive, name)
    if any("campaign" in test for test in tests):
        sys.path.insert(0, str(ROOT / "tests" / "campaign"))
        import triples

        for honest in (triples.honest_layers, triples.honest_pairs, triples.honest_bounds):
            honest()
        triples.honest_sequences()


def survivors(path: Path, options: argparse.Namespace) -> tuple[Counter, list[str]]:
    """Run all mutants of a file, and write down those which no test kills."""
    load(path, tests_of(path, options.brief))
    gc.freeze()  # forks need not look through what is here already
    counts, kills, running, left = Counter(), Counter(), {}, []
    waiting = [*chosen(path, options)[::-1], (UNCHANGED, path.read_text())]  # from the end
    while waiting or running:
        while waiting and len(running) < options.processes:
            told, source = waiting.pop()
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                run_tests(path, source, kills, writing, options.brief)
            os.close(writing)
            running[child] = told, reading
        child, status = os.wait()
        told, reading = running.pop(child)
        with os.fdopen(reading) as file:
            kills[file.read()] += 1
        survived = os.waitstatus_to_exitcode(status) == 0
        if told == UNCHANGED:
            if not survived:
                raise SystemExit(f"the tests of {path} fail without any mutant")
            continue
        counts["survived" if survived else "killed"] += 1
        if survived:
            left.append(told)
            with options.report.open("a") as file:
                file.write(told + "\n")
    return counts, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="modules, or folders of them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report", type=Path, default=Path("survivors.txt"))
    parser.add_argument("--only", type=Path, help="a report: run the mutants it names again")
    parser.add_argument("--brief", type=float, help="seconds of tests, without the longest ones")
    parser.add_argument("--sample", type=int, help="so many mutants of each file at most")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args()
    listed = [path.resolve() for path in options.paths]
    files = [f for p in listed for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
    for path in files:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        start = time.time()
        counts, left = survivors(path, options)
        some = options.sample is not None or options.only is not None
        mutant_records.add(path, counts, left, sampled=some)
        name = path.relative_to(ROOT)
        minutes = (time.time() - start) / 60
        print(
            f"{name}: {counts['killed']} killed, {counts['survived']} survived, {minutes:.0f} min"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
