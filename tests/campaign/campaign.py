"""Run hostile cases against the checker and against certify, and count what became of them."""

import contextlib
import dataclasses
import importlib
import io
import itertools
import json
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import decoder_forgeries
import decoder_judge
import forgeries
import instance_forgeries
import judges
import numpy as np
import resources
import triples
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

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
from constructive.layers.record import BuildRecord, HeadRecord, TrainedRecord

COLUMNS = (
    "tried",
    "accepted, true",
    "refused",
    "true, refused",
    "not judged",
    "accepted, false",
    "traceback",
    "over memory",
    "over time",
)
"""What is counted. The last four have to stay 0, and for certify so has `true, refused`: what it
proves the checker has to accept."""
BAD = COLUMNS[5:]
MEMORY = 1.0
"""GB which a case may ask for, of which the checker is told."""
SECONDS = 60.0
"""Of one processor, beyond which a case takes too long: honest ones take some milliseconds."""


def load_checker():
    """The command of the checker, in this process."""
    sys.path.insert(0, str(CHECKER))
    try:
        return importlib.import_module("command")
    finally:
        sys.path.remove(str(CHECKER))


class Runner:
    """Runs cases one by one in a folder, counts them, and keeps the files of bad ones."""

    def __init__(self, keep=None):
        self.checker, self.counts, self.keep = load_checker(), {}, keep
        self.work = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def close(self):
        shutil.rmtree(self.work)

    def count(self, family, *columns):
        self.counts.setdefault(family, Counter()).update(columns)

    def bad(self, family, column, label, files, words=""):
        """Count a case which must not be, and keep its files."""
        self.count(family, column)
        if self.keep is not None:
            kept = Path(self.keep) / f"{family}-{column}-{time.time_ns()}".replace(" ", "-")
            kept.mkdir(parents=True)
            for file in files:
                with contextlib.suppress(OSError):
                    copied = shutil.copytree if Path(file).is_dir() else shutil.copy
                    copied(file, kept / Path(file).name)
            (kept / "why.txt").write_text(f"{label}\n{words}\n")

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

    def case(self, family, case):
        """Write, check, judge and count one case."""
        shutil.rmtree(self.work)
        self.work.mkdir()
        files = case.write(self.work)
        self.count(family, "tried")
        status, printed, seconds, grown = self.check(files, case.arguments)
        if status not in (0, 1):
            self.bad(family, "traceback", case.label, files, status)
            return
        if seconds > SECONDS:
            self.bad(family, "over time", case.label, files, f"{seconds} s")
        if grown > MEMORY + 0.2:  # GB, and what Python and judges themselves take
            self.bad(family, "over memory", case.label, files, f"{grown} GB")
            self.base += int(grown * 1e6)
        if status == 1:
            self.count(family, "refused", *["true, refused"] * (case.true is True))
            return
        verdict = self.judge(files, printed, case)
        if verdict is False:
            self.bad(family, "accepted, false", case.label, files, printed)
        else:
            self.count(family, "accepted, true" if verdict else "not judged")

    def judge(self, files, printed, case):
        """Whether all that was printed is true of these files."""
        if case.judge is not None:
            return case.judge(printed)
        *lines, last = printed.splitlines()
        if last != "PROVED" or not lines or case.true is False:
            return False
        try:
            stated = dict(line.split(maxsplit=1) for line in lines)
            content = json.loads(Path(files[0]).read_bytes())
            if case.kind == "sequence":
                others = [json.loads(Path(file).read_bytes()) for file in files[1:]]
                found = [judges.sequence_statement(*pair, *others) for pair in stated.items()]
            elif case.kind == "decoder":
                found = [decoder_judge.statement(*pair, *files[1:]) for pair in stated.items()]
            else:
                weights = load_file(files[1]) if len(files) == 3 else None
                data = {k: np.array(v, dtype=float) for k, v in np.load(files[-1]).items()}
                found = [
                    judges.layer_statement(
                        name, text, weights, data, content["claims"][name]["evidence"]
                    )
                    for name, text in stated.items()
                ]
        except judges.DisagreementError:
            return None
        except Exception:  # what no judge can read should not have been accepted
            return False
        return False if False in found else None if None in found else True

    # Files which ask for much, in a process of their own.

    def demand(self, family, rng):
        """Write and run one case, and measure what it took."""
        for file in self.work.iterdir():
            file.unlink()
        label, files = resources.case(rng, self.work)
        self.count(family, "tried")
        status, said, seconds, size = resources.measured(CHECKER, files)
        if "Traceback" in said or status not in (0, 1):
            self.bad(family, "traceback", label, files, said)
            return
        if seconds > SECONDS:
            self.bad(family, "over time", label, files, f"{seconds} s\n{said}")
        if size > resources.LIMIT + resources.BASE:
            self.bad(family, "over memory", label, files, f"{size} GB\n{said}")
        true = label in resources.MAY_BE_TRUE
        self.count(family, "refused" if status else "accepted, true" if true else "accepted, false")

    # Certify, on the same forgeries.

    def certified(self, family, rng):
        """certify on arrays of a forgery: what it proves and refutes, and what the checker says.

        For data without weights, that is `upper_bound_certificate`.
        """
        triple = self.problem(rng)
        if triple is None:
            return
        self.count(family, "tried")
        try:
            if triple.weights is None:
                memorizer, dataset = None, Dataset(**triple.data)
                certificate = upper_bound_certificate(dataset, int(rng.integers(1, 4)))
            else:
                memorizer, dataset, options = objects(rng, triple)
                certificate = certify(memorizer, dataset, **options)
        except constructive.ConstructiveError:
            self.count(family, "refused")  # in words, as for data that are not data
            return
        except BaseException:
            files = triple.write(self.work)
            self.bad(family, "traceback", "certify", files, traceback.format_exc())
            return
        wrong = [claim for claim in certificate.claims if is_wrong(claim, memorizer, triple)]
        if wrong:
            words = f"{wrong[0].verdict.name} {wrong[0].statement}"
            self.bad(family, "accepted, false", "certify", triple.write(self.work), words)
            return
        proved = tuple(c for c in certificate.claims if c.verdict is Verdict.PROVED)
        names = {claim.name for claim in proved}
        if certificate.format == triples.PAIRED and "rank" not in names:
            proved = tuple(claim for claim in proved if claim.name != "readout")
        if not proved:
            self.count(family, "refused")
            return
        partial = dataclasses.replace(certificate, claims=proved)
        files = triples.of_objects(partial, memorizer, dataset).write(self.work)
        status, printed, *_ = self.check(files)
        if status != 0:
            self.bad(family, "true, refused", f"certify proves {sorted(names)}", files, printed)
        else:
            self.count(family, "accepted, true")

    def certified_decoder(self, family, rng):
        """certify on the files of a forgery, if they are a decoder and texts, and the checker."""
        for file in self.work.iterdir():
            file.unlink()
        files = decoder_forgeries.forgery(rng).write(self.work)
        self.count(family, "tried")
        try:
            decoder, text = Decoder.load(files[1]), Text.load(files[2])
            certificate = certify(decoder, text)
        except constructive.ConstructiveError:
            self.count(family, "refused")
            return
        except BaseException:
            self.bad(family, "traceback", "certify", files, traceback.format_exc())
            return
        for claim in certificate.claims:
            if claim.verdict is Verdict.UNDECIDED:
                continue
            try:
                true = decoder_judge.statement(claim.name, stated(claim), *files[1:])
            except ValueError:  # such files are no decoder and text, but they were read
                self.bad(family, "accepted, false", "certify", files, traceback.format_exc())
                return
            if true is not None and true is not (claim.verdict is Verdict.PROVED):
                words = f"{claim.verdict.name} {claim.statement}"
                self.bad(family, "accepted, false", "certify", files, words)
                return
        proved = tuple(c for c in certificate.claims if c.verdict is Verdict.PROVED)
        if not proved:
            self.count(family, "refused")
            return
        dataclasses.replace(certificate, claims=proved).save(files[0])
        status, printed, *_ = self.check(files)
        column = "accepted, true" if status == 0 else "true, refused"
        if status == 0:
            self.count(family, column)
        else:
            self.bad(family, column, "certify proves it", files, printed)

    def problem(self, rng):
        """Arrays of a triple which a forgery is made of."""
        for _ in range(9):
            build = [forgeries.mutation, forgeries.false_claim][rng.integers(2)]
            case = build(rng)
            triple = getattr(case.write, "__self__", None)
            if isinstance(triple, triples.Triple):
                return triple
        return None


def stated(claim):
    """A statement, or where a margin is refuted that which says that there is one."""
    if claim.name == "recites" and claim.verdict is Verdict.REFUTED:
        return claim.statement.replace("by 0.0 or more", "by 5e-324 or more")
    return claim.statement


def is_wrong(claim, memorizer, triple):
    """Whether a claim is PROVED and false, or REFUTED and true."""
    if claim.verdict is Verdict.UNDECIDED:
        return False
    arrays = {name: np.asarray(array, dtype=float) for name, array in triple.data.items()}
    record = getattr(memorizer, "record", None)
    groups = [(head.start, head.stop) for head in getattr(record, "heads", ())]
    order = getattr(record, "order", ()) or range(len(arrays["queries"]))
    evidence = claim.evidence or {"groups": groups, "order": triples.pack(list(order))}
    try:
        true = judges.layer_statement(claim.name, claim.statement, triple.weights, arrays, evidence)
    except judges.DisagreementError:
        return False
    return true is not None and true is not (claim.verdict is Verdict.PROVED)


def objects(rng, triple):
    """A memorizer and its data as certify takes them, and what to ask."""
    content, weights = triple.content, triple.weights
    dataset = Dataset(**triple.data)
    if "W_V_corrections" in weights:
        weights = {k: v for k, v in weights.items() if k != "W_V_corrections"}
        triple.weights = weights
    layer = AttentionLayer(*(weights[name] for name in triples.WEIGHTS))
    claims = content.get("claims", {})
    claims = claims if isinstance(claims, dict) else {}
    options = {"max_prec": int(rng.choice([128, 4096], p=[0.3, 0.7])), "seed": int(rng.integers(9))}
    for name, option in (("error", "epsilon"), ("readout", "delta")):
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            options[option] = float.fromhex(claims[name]["evidence"]["bound"])
            if rng.random() < 0.3:
                options.pop(option)
    options = {k: v for k, v in options.items() if k not in ("epsilon", "delta") or 0 <= v < np.inf}
    scalar = dataset.targets.ndim == 1
    record = TrainedRecord("Hostile", scalar, constant=False)
    wide = "wide_grouping" in claims
    evidence = claims.get("wide_grouping" if wide else "grouping", {})
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        if content["format"] == triples.PAIRED:
            rank = claims["rank"]["evidence"]
            record = paired_record(dataset, triples.unpack(rank["order"]), rank["stops"], scalar)
        elif "groups" in evidence.get("evidence", {}):
            groups = [(int(a), int(b)) for a, b in evidence["evidence"]["groups"]]
            order = triples.unpack(evidence["evidence"]["order"]) if wide else ()
            kind = "rank_one" if wide else "saturated"
            record = built_record(kind, dataset, groups, order, scalar)
    return Memorizer(layer, record), dataset, options


def built_record(construction, dataset, groups, order, scalar):
    heads = tuple(HeadRecord(start, stop, 0.0, 0.0, stop) for start, stop in groups)
    total, size = dataset.num_examples, dataset.context_size
    order = tuple(int(i) for i in order)
    return BuildRecord(
        construction=construction,
        shared_keys=False,
        num_examples=total,
        context_size=size,
        capacity=total,
        seed=0,
        saturated_fraction=0.0,
        scalar_targets=scalar,
        condition=1.0,
        max_error=0.0,
        largest_target=1.0,
        heads=heads,
        order=order,
    )


def paired_record(dataset, order, stops, scalar):
    ends = [0, *map(int, triples.unpack(stops))]
    groups = []
    for start, stop in itertools.pairwise(ends):
        groups += [(start, stop), (stop, stop)]
    return built_record("paired", dataset, groups, order, scalar)


# Families.

BUILT = {
    "mutations": forgeries.mutation,
    "false claims": forgeries.false_claim,
    "instances": instance_forgeries.forgery,
}


def run(family, number, cases, keep=None):
    """Run so many cases of a family with one seed; the counts by family."""
    runner, rng = Runner(keep), np.random.default_rng(number)
    try:
        if family == "fuzzed files":
            fuzz(runner, family, number, cases)
            return runner.counts
        for place in range(cases):
            with counting(runner, family):
                if family == "large demands":
                    runner.demand(family, rng)
                elif family == "certify":
                    runner.certified(family, rng)
                elif family == "decoders" and place % 5:
                    runner.case(family, decoder_forgeries.forgery(rng))
                elif family == "decoders":
                    runner.certified_decoder(family, rng)
                else:
                    runner.case(family, BUILT[family](rng))
        return runner.counts
    finally:
        runner.close()


@contextlib.contextmanager
def counting(runner, family):
    """Whatever raises, the library or a forgery or a judge, is counted; the next case follows."""
    try:
        yield
    except Exception:
        runner.work.mkdir(exist_ok=True)
        files, words = list(runner.work.iterdir()), traceback.format_exc()
        runner.bad(family, "traceback", "the case itself", files, words)


def fuzz(runner, family, number, cases):
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
        with counting(runner, family):
            runner.case(family, forgeries.fuzzed(which, scale, edits))

    one()
