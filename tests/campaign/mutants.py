"""Mutation testing of the checker and of what certify proves with, by hand; it takes a while.

    python tests/campaign/mutants.py constructive/checker --sample 40

A mutant is one change in one place of a function: a comparison, an operator, a number, a name such
as min or floor, a requirement or a rounding that is left out. Tests are collected once, and run
once to see which functions each of them calls. For each mutant a process is forked that runs the
tests which call its function, those first that killed most of its file and take least, until one
fails or so many seconds of processor time are over. A test that takes longer than a minute kills,
also where it waits for ever: its process and all that it started are ended.

Functions are changed where they are in memory, so that processes which tests start see nothing of
it, nor are numbers beside functions changed. What survives has to be killed by a new test, or
explained: counts and survivors go into mutants.json beside this file, its table into mutants.md.
"""

import argparse
import ast
import contextlib
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "constructive"
CHECKER = PACKAGE / "checker"
RECORDS, PAGE = (Path(__file__).parent / f"mutants.{kind}" for kind in ("json", "md"))
HEAD = ["| module | mutants | survive | run on | why |", "|---|---|---|---|---|"]
OF_CHECKER = ["tests/checker", "tests/campaign", "tests/instances"]
OF_CERTIFY = ["tests/checker", "tests/campaign", "tests/layer", "tests/exact", "tests/sequences"]
# Seconds of a test; the status of a process in which a mutant cannot be put in place.
LONGEST, UNFIT = 60, 7

# Operators.

COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
OPERATED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.USub: ast.UAdd,
}  # fmt: skip
OPPOSITE = {"min": "max", "any": "all", "minimum": "maximum", "above": "below", "floor": "ceil",
            "argmin": "argmax"}  # fmt: skip
OPPOSITE |= {other: name for name, other in OPPOSITE.items()}
# Functions that only make a number larger.
LEFT_OUT = "up", "abs"


def changes(node):
    """What may become of a node: a word for it, and how to change the node."""
    for kind, of in CHANGED.items():
        if isinstance(node, kind):
            yield from of(node)


def compared(node):
    for place, old in enumerate(node.ops):
        for new in COMPARED[type(old)]:
            yield new.__name__, lambda n, k=place, new=new: n.ops.__setitem__(k, new())


def operated(node):
    if type(node.op) in OPERATED:
        new = OPERATED[type(node.op)]
        yield new.__name__, lambda n: setattr(n, "op", new())


def other_numbers(node):
    value = node.value
    if type(value) not in (int, float, bool):
        return
    others = (not value,) if type(value) is bool else (value + 1, value - 1)
    if type(value) is float:
        others = 2.0 * value or 1.0, 0.5 * value or -1.0
    for other in others:
        yield repr(other), lambda n, other=other: setattr(n, "value", other)


def not_done(node):
    if len(node.body) == 1:
        yield "left out", lambda n: n.body.__setitem__(0, ast.Pass())


def changed_calls(node):
    called = getattr(node.func, "id", getattr(node.func, "attr", None))
    if called in OPPOSITE:
        field = "id" if isinstance(node.func, ast.Name) else "attr"
        yield OPPOSITE[called], lambda n: setattr(n.func, field, OPPOSITE[called])
    if called == "require":
        yield "left out", lambda n: n.args.__setitem__(0, ast.Constant(value=True))
    if called in LEFT_OUT and len(node.args) == 1:
        yield "left out", lambda n: setattr(n, "func", ast.parse("lambda x: x").body[0].value)


CHANGED = {
    ast.Compare: compared,
    ast.BinOp | ast.BoolOp | ast.UnaryOp: operated,
    ast.Constant: other_numbers,
    ast.Call: changed_calls,
    ast.If: not_done,
}


def said(node):
    """Nodes of what is only said: reasons of errors and of requirements, and texts."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return ast.walk(node)
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require":
        return (each for reason in node.args[1:] for each in ast.walk(reason))
    return ()


class Mutant:
    """One change of a file: the node by its place in the walk through the tree."""

    def __init__(self, path, place, number, told, line):
        self.path, self.place, self.number, self.line = path, place, number, line
        self.told = f"{path.relative_to(ROOT)}:{line} {told}"

    def code(self):
        """The compiled file with it."""
        tree = ast.parse(self.path.read_text())
        node = list(ast.walk(tree))[self.place]
        list(changes(node))[self.number][1](node)
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec")


def functions(code):
    """All code objects of functions within a code object, by name and first line."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (each.co_qualname, each.co_firstlineno), each
            yield from functions(each)


def mutants(path):
    tree = ast.parse(path.read_text())
    walked = list(ast.walk(tree))
    inside = {id(n) for f in walked if isinstance(f, ast.FunctionDef) for part in f.body
              for n in ast.walk(part)}  # fmt: skip
    left_out = {id(n) for node in walked for n in said(node)}
    for place, node in enumerate(walked):
        if id(node) in inside and id(node) not in left_out:
            for number, (word, _) in enumerate(changes(node)):
                told = " ".join(f"{ast.unparse(node)[:100]} -> {word}".split())
                yield Mutant(path, place, number, told, node.lineno)


# Running tests.


class Runner:
    """A plugin of pytest, whose loop runs the tests for each mutant in a process of its own."""

    def __init__(self, listed, options):
        self.listed, self.options = listed, options
        self.failed, self.seconds = set(), Counter()
        self.kills, self.counts = Counter(), defaultdict(Counter)
        self.left = defaultdict(list)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtestloop(self, session):
        calls = self.calls_of(session.items)
        if self.failed:
            raise SystemExit(f"tests fail without any mutant: {sorted(self.failed)[:3]}")
        gc.freeze()  # forks need not look through what is here already
        for mutant in self.listed:
            killer = self.killer_of(mutant, session.items, calls)
            if killer is None:
                continue
            name = mutant.path
            self.counts[name]["killed" if killer else "survived"] += 1
            self.kills[name, killer] += 1
            if not killer:
                self.left[name].append(mutant.told)
            print(f"{killer or 'SURVIVES':60.60} {mutant.told}", flush=True)
        return True

    def calls_of(self, items):
        """For each test the functions it calls in files with mutants, by a run of all tests."""
        files, calls = {str(mutant.path) for mutant in self.listed}, {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen = calls[item.nodeid] = set()

            def traced(frame, event, _, seen=seen):
                code = frame.f_code
                if event == "call" and code.co_filename in files:
                    seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))

            sys.settrace(traced)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
        return calls

    def killer_of(self, mutant, items, calls):
        """The test that fails with it, in a fork; or "". None if it cannot be put in place."""
        new = dict(functions(mutant.code()))
        old = dict(functions(compile(mutant.path.read_text(), str(mutant.path), "exec")))
        changed = [(str(mutant.path), *key) for key in new if new[key] != old.get(key)]
        chosen = [item for item in items if calls[item.nodeid] & set(changed)]

        def order(item):
            kills = self.kills[mutant.path, item.nodeid]
            return -(kills + 0.05) / (self.seconds[item.nodeid] + 0.02)

        chosen.sort(key=order)
        with tempfile.TemporaryFile("w+", buffering=1) as told:
            child = os.fork()
            if child == 0:
                try:
                    os.setpgid(0, 0)
                    put_in_place(mutant.path, new)
                    self.run(chosen, told)
                finally:
                    os._exit(UNFIT)
            code = status_of(child, told)
            told.seek(0)
            last = told.read().split("\n")[-2:][0]
        return None if code == UNFIT else last if code else ""

    def run(self, chosen, told):
        """Tests until one fails; leave the process with a status."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        start = time.process_time()
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            told.write(f"{item.nodeid}\n")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.nodeid in self.failed:
                os._exit(1)
            if time.process_time() - start > self.options.seconds:
                break
        os._exit(0)


def status_of(child, told):
    """The status of a process, which is killed where it is too long about one test.

    A fork may wait for a lock that a thread of its parent held, where no handler of signals runs.
    """
    try:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            if time.time() - os.fstat(told.fileno()).st_mtime > LONGEST:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # also what tests started and left behind


def put_in_place(path, codes):
    """Let functions of a file that are in memory do what these code objects say."""
    gc.unfreeze()
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        code = function.__code__
        key = code.co_qualname, code.co_firstlineno
        if code.co_filename == str(path) and key in codes:
            function.__code__ = codes[key]


# Records, of which `why` is written by hand in mutants.json.


def add(path, counts, left, *, sampled):
    """Record a run of all mutants of a module, or of a sample, and write the page.

    Records of modules that are not there any more are dropped.
    """
    records = json.loads(RECORDS.read_text())
    records = {name: kept for name, kept in records.items() if (PACKAGE / f"{name}.py").exists()}
    name = path.relative_to(PACKAGE).with_suffix("").as_posix()
    records[name] = {
        "day": str(datetime.now(tz=UTC).date()),
        "mutants": counts.total(),
        "survived": counts["survived"],
        "tested_since": 0,
        "sampled": sampled,
        "why": records.get(name, {}).get("why", ""),
        "survivors": left,
    }
    RECORDS.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text(), records))


def table(records):
    """The lines of the table: a star where mutants are a sample."""
    rows = []
    for name, found in sorted(records.items()):
        count = f"{found['mutants']}{'*' * found['sampled']}"
        since = f" ({found['tested_since']})" if found["tested_since"] else ""
        cells = f"`{name}`", count, f"{found['survived']}{since}", found["day"], found["why"]
        rows.append(f"| {' | '.join(cells)} |")
    return [*HEAD, *rows]


def page(text, records):
    """The page with its table written anew."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| module |"))
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    return "\n".join([*lines[:start], *table(records), *lines[stop:]]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="modules, or folders of them")
    parser.add_argument("--tests", nargs="+", help="other tests than usual: nothing is recorded")
    parser.add_argument("--sample", type=int, help="so many mutants of each file at most")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, default=30, help="for the tests of a mutant")
    parser.add_argument("--slow", action="store_true", help="run slow tests, too")
    options = parser.parse_args()
    given = [path.resolve() for path in options.paths]
    files = [f for path in given for f in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    listed = []
    for file in dict.fromkeys(files):
        if file.name not in ("__init__.py", "__main__.py"):
            every = list(mutants(file))
            count = min(len(every), options.sample or len(every))
            some = np.random.default_rng(options.seed).permutation(len(every))[:count]
            listed += [every[k] for k in sorted(some)]
    of_checker = all(CHECKER in file.parents for file in files)
    tests = options.tests or (OF_CHECKER if of_checker else OF_CERTIFY)
    runner = Runner(listed, options)
    os.chdir(ROOT)
    quiet = ["-q", "-n", "0", "-p", "no:cacheprovider", *(["-m", ""] if options.slow else [])]
    pytest.main([*quiet, *tests], plugins=[runner])
    for file, counts in runner.counts.items() if not options.tests else ():
        add(file, counts, runner.left[file], sampled=options.sample is not None)


if __name__ == "__main__":
    main()
