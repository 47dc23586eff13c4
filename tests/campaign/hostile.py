"""A campaign against the checker and certify. Run: python tests/campaign/hostile.py

Hostile triples of certificate, weights and data in three families: mutations of honest ones, claims
which are built to be false, and spoilt files; and files which ask for much. What is accepted is
judged by code which shares nothing with what it judges (tests/campaign/judges.py), and so is what
is refuted. The same arrays go to certify, and what it proves the checker has to accept. Decoders
are a family of their own, with forgeries and a judge of their own.

The last columns of the table have to be 0. Files of cases which are counted there are kept with
--keep FOLDER. The same seed and number of cases make the same cases, on any number of processes.
"""

import argparse
import contextlib
import dataclasses
import importlib
import io
import itertools
import resource
import secrets
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

import decoder_forgeries
import forgeries
import instance_forgeries
import resources
import triples

import constructive
from constructive import (
    AttentionLayer,
    Dataset,
    Memorizer,
    certify,
    upper_bound_certificate,
)
from constructive.certificates.check import CHECKER
from constructive.checker.claim import Claim
from constructive.layers.record import BuildRecord, HeadRecord, TrainedRecord

COLUMNS = (
    "tried", "accepted, true", "refused", "true, refused", "not judged", "accepted, false",
    "traceback", "over memory", "over time",
)  # fmt: skip
# The last four have to stay 0, and for certify so has `true, refused`: what it proves the checker
# has to accept.
BAD = COLUMNS[5:]
# GB which a case may ask for, of which the checker is told.
MEMORY = 1.0
# Of one processor, beyond which a case takes too long: honest ones take some milliseconds.
SECONDS = 60.0


def load_checker():
    """The command of the checker, in this process."""
    return importlib.import_module("constructive.checker.command")


class Runner:
    """Runs cases one by one in a folder, counts them, and keeps the files of bad ones."""

    def __init__(self, family, keep=None):
        self.checker, self.family, self.keep = load_checker(), family, keep
        self.counts = Counter()
        self.work = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def close(self):
        shutil.rmtree(self.work)

    def count(self, *columns):
        self.counts.update(columns)

    def start(self):
        """Count a case, whose folder is empty."""
        self.count("tried")
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()

    def bad(self, column, label, files, words=""):
        """Count a case which must not be, and keep its files."""
        self.count(column)
        if self.keep is not None:
            kept = Path(self.keep) / f"{self.family}-{column}-{time.time_ns()}".replace(" ", "-")
            kept.mkdir(parents=True)
            for file in files:
                with contextlib.suppress(OSError):
                    copied = shutil.copytree if Path(file).is_dir() else shutil.copy
                    copied(file, kept / Path(file).name)
            (kept / "why.txt").write_text(f"{label}\n{words}\n")

    @contextlib.contextmanager
    def counting(self):
        """Count whatever raises, the library or a forgery or a judge; the next case follows."""
        try:
            yield
        except Exception:
            self.work.mkdir(exist_ok=True)
            self.bad("traceback", "the case itself", self.work.iterdir(), traceback.format_exc())

    def check(self, files, arguments=()):
        """Run the checker on files: its status or a traceback, and what it printed."""
        printed, start, self.refuted = io.StringIO(), time.process_time(), []
        command = [*files, *arguments, "--max-memory", str(MEMORY)]
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(io.StringIO()),
                mock.patch.object(Claim, "judge", self.watched),
            ):
                status = self.checker.main(command)
        except BaseException:  # the checker promises to raise nothing
            status = traceback.format_exc()
        seconds = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.base) / 1e6
        return status, printed.getvalue(), seconds, grown

    @property
    def watched(self):
        """How claims are judged, with all that is refuted kept."""
        judge = Claim.judge

        def watched(claim, about):
            found = judge(claim, about)
            self.refuted += [found] * (found.verdict == "REFUTED")
            return found

        return watched

    def is_done(self, label, files, status, said, seconds, size, most):
        """Whether the checker ended as it should; what it must not take is counted."""
        if status not in (0, 1):
            self.bad("traceback", label, files, f"{status}\n{said}")
            return False
        if seconds > SECONDS:
            self.bad("over time", label, files, f"{seconds} s\n{said}")
        if size > most:
            self.bad("over memory", label, files, f"{size} GB\n{said}")
            self.base += int(size * 1e6)
        return True

    def case(self, case):
        """Write, check, judge and count one case."""
        self.start()
        files = case.write(self.work)
        ended = status, printed, *_ = self.check(files, case.arguments)
        most = MEMORY + 0.2  # GB, and what Python and judges themselves take
        if not self.is_done(case.label, files, *ended, most):
            return
        false = [found for found in self.refuted if self.is_true(found, files, case)]
        if false:
            self.bad("accepted, false", case.label, files, f"REFUTED: {false[0].statement}")
            return
        if status == 1:
            self.count("refused", *["true, refused"] * (case.true is True))
            return
        verdict = self.judge(files, printed, case)
        if verdict is False:
            self.bad("accepted, false", case.label, files, printed)
        else:
            self.count("accepted, true" if verdict else "not judged")

    def judge(self, files, printed, case):
        """Whether all that was printed is true of these files."""
        if case.true is False:
            return False
        try:
            return case.judge(printed, files)
        except Exception:  # what no judge can read should not have been accepted
            return False

    def is_true(self, found, files, case):
        """Whether what was refuted is true; no judge can read statements without numbers."""
        with contextlib.suppress(Exception):
            return case.judge(f"{found.name} {found.statement}\nPROVED", files) is True
        return False

    def demand(self, rng):
        """Files which ask for much, in a process of their own: measure what it took."""
        self.start()
        label, files = resources.case(rng, self.work)
        status, said, seconds, size = resources.measured(CHECKER, files)
        status = said if "Traceback" in said else status
        if self.is_done(label, files, status, said, seconds, size, resources.MOST):
            true = label in resources.MAY_BE_TRUE
            accepted = "accepted, true" if true else "accepted, false"
            self.count("refused" if status else accepted)


# What certify takes of a forgery.


def certified(rng):
    """A case of all that certify proves of the arrays of a forgery; None where that is nothing."""
    build = [forgeries.mutation, forgeries.false_claim][rng.integers(2)]
    triple = getattr(build(rng).write, "__self__", None)
    if not isinstance(triple, triples.Triple):
        return certified(rng)
    memorizer, dataset = None, Dataset(**triple.data)
    if triple.weights is None:
        certificate = upper_bound_certificate(dataset, int(rng.integers(1, 4)))
    else:
        memorizer = memorizer_of(triple, dataset)
        certificate = certify(memorizer, dataset, seed=int(rng.integers(9)))
    proved = tuple(claim for claim in certificate.claims if claim.proved)
    if not proved:
        return None
    made = dataclasses.replace(certificate, claims=proved)
    return forgeries.of_triple("certify", triples.of_objects(made, memorizer, dataset), true=True)


def memorizer_of(triple, dataset):
    """A memorizer as certify takes it, with the groups or pairs of the certificate."""
    layer = AttentionLayer(*(triple.weights[name] for name in triples.WEIGHTS))
    record = TrainedRecord("Hostile", dataset.targets.ndim == 1, constant=False)
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        claims = triple.content["claims"]
        if triple.content["format"] == triples.PAIRED:
            rank = claims["rank"]["evidence"]
            ends = [0, *map(int, triples.unpack(rank["stops"]))]
            pairs = [((a, b), (b, b)) for a, b in itertools.pairwise(ends)]
            order, groups = triples.unpack(rank["order"]), itertools.chain(*pairs)
            record = record_of("paired", dataset, groups, order)
        else:
            groups = [(int(a), int(b)) for a, b in claims["grouping"]["evidence"]["groups"]]
            record = record_of("saturated", dataset, groups, ())
    return Memorizer(layer, record)


def record_of(construction, data, groups, order):
    """A record of heads with these groups (start, stop), of which nothing else is known."""
    return BuildRecord(
        construction=construction,
        num_examples=data.num_examples,
        context_size=data.context_size,
        capacity=data.num_examples,
        seed=0,
        saturated_fraction=0.0,
        scalar_targets=data.targets.ndim == 1,
        condition=1.0,
        max_error=0.0,
        largest_target=1.0,
        heads=tuple(HeadRecord(start, stop, 0.0, 0.0, stop) for start, stop in groups),
        order=tuple(map(int, order)),
    )


# Families.


def fuzz(runner, number, cases):
    """Structure-aware fuzzing of all three formats, by Hypothesis."""

    @seed(number)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.lists(forgeries.EDITS, min_size=1, max_size=3),
    )
    def one(which, scale, edits):
        with runner.counting():
            runner.case(forgeries.fuzzed(which, scale, edits))

    one()


def of_certify(runner, rng):
    try:
        case = certified(rng)
    except constructive.ConstructiveError:
        case = None  # in words, as for data that are not data
    if case is None:
        runner.count("tried", "refused")
    else:
        runner.case(case)


# Shares of all cases, how many are run at a time, and what one is; files are drawn by Hypothesis.
FAMILIES = {
    "mutations": (0.40, 250, lambda runner, rng: runner.case(forgeries.mutation(rng))),
    "false claims": (0.38, 250, lambda runner, rng: runner.case(forgeries.false_claim(rng))),
    "fuzzed files": (0.15, 250, None),
    "large demands": (0.002, 10, Runner.demand),
    "certify": (0.068, 100, of_certify),
    "decoders": (0.05, 100, lambda runner, rng: runner.case(decoder_forgeries.forgery(rng))),
    "instances": (0.02, 50, lambda runner, rng: runner.case(instance_forgeries.forgery(rng))),
}


def run(family, number, cases, keep=None):
    """Run so many cases of a family with one seed, and count what became of them."""
    rng, one = np.random.default_rng(number), FAMILIES[family][2]
    with contextlib.closing(Runner(family, keep)) as runner, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, where forgeries overflow
        if one is None:
            fuzz(runner, number, cases)
        for _ in range(cases if one else 0):
            with runner.counting():
                one(runner, rng)
        return runner.counts


def tasks(cases, seed, only):
    """Families, numbers for the generators, and cases: pieces of equal size, in turns."""
    made = []
    for place, (family, (share, size, _)) in enumerate(FAMILIES.items()):
        if family not in only:
            continue
        count = max(1, round(cases * share / size))
        made += [(i / count, family, 10**6 * seed + 10**5 * place + i, size) for i in range(count)]
    return [task[1:] for task in sorted(made)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=110_000, help="hostile triples, about")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="by default a new one, which the table names")
    parser.add_argument("--keep", help="folder for the files of cases which must not be")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(10**6)
    counts = {family: Counter() for family in options.only}
    start, pieces = time.time(), tasks(options.cases, options.seed, options.only)
    with (
        ProcessPoolExecutor(options.processes) as pool,
        Progress(console=Console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("hostile cases", total=sum(piece[2] for piece in pieces))
        running = {pool.submit(run, *piece, options.keep): piece for piece in pieces}
        for done in as_completed(running):
            family, _, size = running[done]
            counts[family].update(done.result())
            bar.advance(task, size)
    minutes = (time.time() - start) / 60
    day = datetime.now(tz=UTC).date()
    table = Table(box=None, title=f"{day}, seed {options.seed}, {minutes:.0f} minutes")
    for heading in ("family", *COLUMNS):
        table.add_column(heading, justify="left" if heading == "family" else "right")
    total = sum(counts.values(), Counter())
    for family, found in [*counts.items(), ("all", total)]:
        table.add_row(family, *(f"{found[column]:,}" for column in COLUMNS))
    Console(width=150).print(table)
    bad = sum(total[column] for column in BAD)
    bad += counts.get("certify", Counter())["true, refused"]
    return 1 if bad or not total["accepted, true"] else 0


if __name__ == "__main__":
    sys.exit(main())
