"""A campaign against the checker and certify. Run: python tests/campaign/hostile.py

Hostile triples of certificate, weights and data in three families: mutations of honest ones, claims
which are built to be false, and spoilt files; and files which ask for much. What is accepted is
judged by code which shares nothing with what it judges (tests/campaign/judges.py). The same arrays
go to certify: what it proves and refutes is judged, and what it proves the checker has to accept.
Decoders are a family of their own, with forgeries and a judge of their own; every fifth is
certify's.

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

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

import decoder_forgeries
import decoder_judge
import forgeries
import instance_forgeries
import judges
import resources
import triples
from claim_parts import record_of

import constructive
from constructive import (
    AttentionLayer,
    Dataset,
    Decoder,
    Memorizer,
    Text,
    Verdict,
    certify,
    upper_bound_certificate,
)
from constructive.certificates.check import CHECKER
from constructive.layers.record import TrainedRecord

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
        printed, start = io.StringIO(), time.process_time()
        command = [*files, *arguments, "--max-memory", str(MEMORY)]
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                status = self.checker.main(command)
        except BaseException:  # the checker promises to raise nothing
            status = traceback.format_exc()
        seconds = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.base) / 1e6
        return status, printed.getvalue(), seconds, grown

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

    def certified(self, subject):
        """certify on what a forgery is made of: what it proves and refutes, and the checker."""
        try:
            certificate = subject.certify()
        except constructive.ConstructiveError:
            self.count("refused")  # in words, as for data that are not data
            return
        except BaseException:
            self.bad("traceback", "certify", subject.write(self.work), traceback.format_exc())
            return
        wrong = [words for claim in certificate.claims if (words := wrong_of(subject, claim))]
        if wrong:
            self.bad("accepted, false", "certify", subject.write(self.work), wrong[0])
            return
        proved = tuple(c for c in certificate.claims if c.verdict is Verdict.PROVED)
        names = {claim.name for claim in proved}
        if not proved:
            self.count("refused")
            return
        files = subject.write(self.work, dataclasses.replace(certificate, claims=proved))
        status, printed, *_ = self.check(files)
        if status != 0:
            self.bad("true, refused", f"certify proves {sorted(names)}", files, printed)
        else:
            self.count("accepted, true")


# What certify takes of a forgery.


def wrong_of(subject, claim):
    """What a claim says that is PROVED and false, or REFUTED and true; or ""."""
    if claim.verdict is Verdict.UNDECIDED:
        return ""
    try:
        true = subject.truth(claim)
    except ValueError:  # such files were read, but they are none
        return traceback.format_exc()
    is_wrong = true is not None and true is not (claim.verdict is Verdict.PROVED)
    return f"{claim.verdict.name} {claim.statement}" * is_wrong


class OfDecoder:
    """The files of a forgery, if they are a decoder and texts."""

    def __init__(self, files):
        self.files = files

    def certify(self):
        return certify(Decoder.load(self.files[1]), Text.load(self.files[2]))

    def truth(self, claim):
        statement = claim.statement
        if claim.name == "recites" and claim.verdict is Verdict.REFUTED:  # that there is a margin
            statement = statement.replace("by 0.0 or more", "by 5e-324 or more")
        return decoder_judge.statement(claim.name, statement, self.files)

    def write(self, _, certificate=None):
        if certificate is not None:
            certificate.save(self.files[0])
        return self.files


class OfTriple:
    """Arrays of a triple; of data without weights there is an upper bound."""

    def __init__(self, rng, triple):
        self.rng, self.triple, self.memorizer = rng, triple, None

    def certify(self):
        self.dataset, options = Dataset(**self.triple.data), {}
        if self.triple.weights is None:
            return upper_bound_certificate(self.dataset, int(self.rng.integers(1, 4)))
        self.memorizer, options = memorizer_of(self.rng, self.triple, self.dataset)
        return certify(self.memorizer, self.dataset, **options)

    def truth(self, claim):
        arrays = {k: np.asarray(array, dtype=float) for k, array in self.triple.data.items()}
        record = getattr(self.memorizer, "record", None)
        groups = [(head.start, head.stop) for head in getattr(record, "heads", ())]
        order = getattr(record, "order", ()) or range(len(arrays["queries"]))
        evidence = claim.evidence or {"groups": groups, "order": triples.pack(list(order))}
        weights = self.triple.weights
        return judges.layer_statement(claim.name, claim.statement, weights, arrays, evidence)

    def write(self, folder, certificate=None):
        if certificate is None:
            return self.triple.write(folder)
        return triples.of_objects(certificate, self.memorizer, self.dataset).write(folder)


def problem(rng):
    """Arrays of a triple which a forgery is made of."""
    for _ in range(9):
        build = [forgeries.mutation, forgeries.false_claim][rng.integers(2)]
        triple = getattr(build(rng).write, "__self__", None)
        if isinstance(triple, triples.Triple):
            return triple
    return None


def memorizer_of(rng, triple, dataset):
    """A memorizer as certify takes it, and what to ask."""
    content, weights = triple.content, triple.weights
    if "W_V_corrections" in weights:
        weights = {k: v for k, v in weights.items() if k != "W_V_corrections"}
        triple.weights = weights
    layer = AttentionLayer(*(weights[name] for name in triples.WEIGHTS))
    claims = content.get("claims", {})
    claims = claims if isinstance(claims, dict) else {}
    options = {"max_prec": int(rng.choice([128, 4096], p=[0.3, 0.7])), "seed": int(rng.integers(9))}
    with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
        epsilon = float.fromhex(claims["error"]["evidence"]["bound"])
        if rng.random() < 0.7 and 0 <= epsilon < np.inf:
            options["epsilon"] = epsilon
    scalar = dataset.targets.ndim == 1
    record = TrainedRecord("Hostile", scalar, constant=False)
    evidence = claims.get("grouping", {})
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        if content["format"] == triples.PAIRED:
            rank = claims["rank"]["evidence"]
            ends = [0, *map(int, triples.unpack(rank["stops"]))]
            pairs = [((a, b), (b, b)) for a, b in itertools.pairwise(ends)]
            order, groups = triples.unpack(rank["order"]), itertools.chain(*pairs)
            record = record_of("paired", dataset, groups, order)
        elif "groups" in evidence.get("evidence", {}):
            groups = [(int(a), int(b)) for a, b in evidence["evidence"]["groups"]]
            record = record_of("saturated", dataset, groups, ())
    return Memorizer(layer, record), options


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
    triple = problem(rng)
    if triple is not None:
        runner.start()
        runner.certified(OfTriple(rng, triple))


def of_decoders(runner, rng):
    """Every fifth is certify's."""
    case = decoder_forgeries.forgery(rng)
    if runner.counts["tried"] % 5:
        runner.case(case)
    else:
        runner.start()
        runner.certified(OfDecoder(case.write(runner.work)))


# Shares of all cases, how many are run at a time, and what one is; files are drawn by Hypothesis.
FAMILIES = {
    "mutations": (0.40, 250, lambda runner, rng: runner.case(forgeries.mutation(rng))),
    "false claims": (0.38, 250, lambda runner, rng: runner.case(forgeries.false_claim(rng))),
    "fuzzed files": (0.15, 250, None),
    "large demands": (0.002, 10, Runner.demand),
    "certify": (0.068, 100, of_certify),
    "decoders": (0.05, 100, of_decoders),
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
    bad = sum(total[column] for column in BAD) + sum(
        counts[family]["true, refused"] for family in ("certify", "decoders") if family in counts
    )
    return 1 if bad or not total["accepted, true"] else 0


if __name__ == "__main__":
    sys.exit(main())
