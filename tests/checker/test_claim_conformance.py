"""What the checker asks of every claim, on every kind of data, and what is asked of certify.

A new claim, or a known one of another view, is a line of `KINDS`.
"""

import base64
import contextlib
import copy
import dataclasses
import functools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from checker_parts import FILES_OF, FOLDER, altered, modules_loaded_by, said
from decoder_parts import changed, compact
from mutations import EVIL, mutate_bytes, mutate_json
from sklearn.svm import LinearSVC

import constructive.recite.claims
import constructive.sequences.claims
from constructive import (
    AttentionLayer,
    Certificate,
    Claim,
    Dataset,
    Memorizer,
    SequenceDataset,
    Text,
    TrainedRecord,
    Verdict,
    build_decoder,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    check,
    generators,
    padded,
)
from constructive.certificates import check as checking
from constructive.certificates.certify import ALL_WEIGHTS, CLAIMS, family_of
from constructive.certificates.claims.capacity import AllWeights
from constructive.certificates.claims.kind import CertifyOptions, ClaimKind
from constructive.support.work import report

UNREAD = {"retries"}
"""Fields which are for people."""


REGISTRY = CLAIMS | {
    "decoder": constructive.recite.claims.FAMILY.claims,
    "sequences": constructive.sequences.claims.FAMILY.claims,
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """Weights and data, the claims which hold of them, and what they need beside them.

    spoil: for each claim (weights, data) of which it is false
    beside: a claim which has to be there, too
    options: of certify
    """

    weights: object
    data: object
    spoil: dict
    beside: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)

    @property
    def claims(self):
        return tuple(self.spoil)

    @property
    def certificate(self):
        options = CertifyOptions(**self.options)
        return family(self.weights).prove(self.weights, self.data, self.claims, options)


def family(weights):
    """The family of weights, or of all weights."""
    return ALL_WEIGHTS if isinstance(weights, AllWeights) else family_of(weights)


def of_layer(data, *claims, model=None, beside=None, heads=3, **options):
    """Claims about one layer, and data for which each of them is false."""
    memorizer = build_memorizer(data, num_heads=heads, **options)
    targets = data.targets.copy()
    targets[..., -1:] += 1  # of the last output, or example
    moved = Dataset(data.contexts, data.queries, targets)
    index = np.arange(data.num_examples)
    index[1] = 0
    twice = data.take(index)
    spoilt = {name: (memorizer, moved if name == "error" else twice) for name in claims}
    return Kind(memorizer, data, spoilt, beside or {}, {"model": model} if model else {})


def drawn(make=generators.uniform, **sizes):
    return make(**{"num_examples": 7, "context_size": 3, "width": 5, "seed": 1} | sizes)


ASKED = ("grouping", "rank", "error")


def lengths():
    data = drawn()
    contexts = padded(data.contexts, np.arange(3) <= np.arange(7)[:, np.newaxis] % 3)
    data = Dataset(contexts, data.queries, data.targets)
    return of_layer(data, "rank", "error")


def with_labels(total, seed):
    """Random labels of three classes."""
    data = drawn(num_examples=total, width=4, seed=seed)
    labels = np.random.default_rng(seed).integers(0, 3, total)
    return Dataset.of_classes(data.contexts, data.queries, labels)


def label_layer(data, num_heads):
    """Random heads, whose readout is a linear classifier with the classes of all the data."""
    labels, sign = data.target_matrix.argmax(axis=1), np.array([-1.0, 1.0])
    scale = np.abs(data.contexts).max()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal((2, num_heads, data.width, 1))
        nothing = np.zeros((num_heads * data.width, data.target_dim))
        layer = AttentionLayer.from_effective_readout(*weights, nothing)
        z = layer.intermediate(data.contexts, data.queries) / scale
        found = LinearSVC(C=1e9, fit_intercept=False, max_iter=10**5, random_state=0)
        if found.fit(z, labels).score(z, labels) == 1.0:
            readout = found.coef_.T if len(found.coef_) > 1 else found.coef_.T * sign
            layer = AttentionLayer.from_effective_readout(*weights, readout / scale)
            return Memorizer(
                layer, TrainedRecord("LinearSVC", scalar_targets=False, constant=False)
            )
    raise ValueError("no readout of random heads was found that has these labels")


def labels():
    data = with_labels(12, 1)
    memorizer = label_layer(data, 2)
    turned = Dataset(data.contexts, data.queries, np.roll(data.targets, 1, axis=1))
    return Kind(memorizer, data, {"labels": (memorizer, turned)})


def pairs():
    data = drawn(generators.gaussian, num_examples=31, width=8, target_dim=2, seed=4)
    return of_layer(data, *ASKED[1:], heads=12, construction="paired")


def decoder(storage="float32", model=None, **options):
    text = Text.words("a rat sat, a cat sat")
    built = build_decoder(text, width=16, **options).stored_as(storage)
    turned = dataclasses.replace(built, unembedding=built.unembedding[::-1].copy())
    same = dataclasses.replace(
        built, embedding=0 * built.embedding + 1, positions=0 * built.positions
    )
    spoilt = {"rank": (same, text), "recites": (turned, text), "executed": (turned, text)}
    return Kind(built, text, spoilt, options={"model": model} if model else {})


def decoder_of_integers():
    built, text = compact()
    flipped = changed(built, "unembedding", array=-built.unembedding)
    return Kind(built, text, dict.fromkeys(("recites", "executed"), (flipped, text)))


def several_texts():
    text = Text.bytes("abracadabra", "acrylic", "xyz", prompt=2)
    built = build_decoder(text, width=24)
    turned = dataclasses.replace(built, unembedding=built.unembedding[::-1].copy())
    false = dict.fromkeys(("recites", "executed"), (turned, text))
    return Kind(built, text, {"rank": None} | false)


def sequences(task):
    tokens = [[(1, 2), (3, 4), (1, 2)], [(1, 2), (3, 4), (3, 4)], [(5, 0)] * 3]
    labels = [[7, 8, 7], [9, 7, 7], [11, 11, 11]] if task == "seq2seq" else [7, 8, 9]
    memorizer = build_sequence_memorizer(tokens, labels, task=task)
    other = SequenceDataset.of(tokens, (np.array(labels) + 1).tolist(), task)
    spoilt = {"equality": (memorizer, other), "size": None}
    return Kind(memorizer, SequenceDataset.of(tokens, labels, task), spoilt)


def upper_bound(make):
    data = make(num_examples=30, context_size=2, width=4, seed=0)
    contexts = data.contexts.copy()
    contexts[..., -1] = 0.25
    known = Dataset(contexts, data.queries, data.targets)
    heads = AllWeights(7)
    return Kind(heads, known, {"impossible": (heads, data)})


def out_of_reach():
    """Generic data of more examples than any weights of two heads reach almost all targets of."""
    data = generators.gaussian(num_examples=40, context_size=3, width=4, seed=0)
    heads = AllWeights(2, 1)
    return Kind(heads, data, {"almost_impossible": (heads, data.take(range(20)))})


def tangent():
    data = drawn(generators.gaussian, num_examples=20, width=6)
    kind = of_layer(data, "error", "onto", "near", construction="tangent", head_dim=3)
    equal = np.repeat(data.contexts[:, :1], 3, axis=1)  # outputs are linear in one token
    twice = data.take([0, 0, *range(2, 20)])
    flat, conflict = (equal, data.queries), (twice.contexts, twice.queries)
    for name, inputs in {"onto": flat, "near": conflict}.items():
        kind.spoil[name] = kind.weights, Dataset(*inputs, data.targets)
    return kind


KINDS = {
    "own contexts": lambda: of_layer(drawn(), *ASKED),
    "contexts of different lengths": lengths,
    "a shared context": lambda: of_layer(drawn(generators.shared_context, target_dim=2), *ASKED),
    "corrections": lambda: of_layer(drawn(), *ASKED[1:], precision=120),
    "labels": labels,
    "pairs": pairs,
    "decoder": decoder,
    "decoder, window": lambda: decoder(window=3),
    "decoder, bfloat16": lambda: decoder("bfloat16"),
    "decoder, scaled": lambda: decoder(model="float32, scaled"),
    "decoder of integers": decoder_of_integers,
    "several texts": several_texts,
    "next": lambda: sequences("next"),
    "last": lambda: sequences("last"),
    "seq2seq": lambda: sequences("seq2seq"),
    "upper bound": lambda: upper_bound(generators.uniform),
    "tangent": tangent,
    "out of reach": out_of_reach,
}


@functools.cache
def kind_of(name):
    """A kind, which is made once."""
    return KINDS[name]()


class Files:
    """Files of a certificate, in a folder, and what the checker says of others in their place."""

    def __init__(self, kind, folder, checker):
        self.kind, self.folder, self.checker = kind, folder, checker
        self.names = list(FILES_OF[type(kind.data)])
        if isinstance(kind.weights, AllWeights):
            del self.names[1]
        self.certificate = kind.certificate
        assert self.certificate.proved, str(self.certificate)
        self.save(self.certificate, kind.weights, kind.data)
        self.contents = [self.path(name).read_bytes() for name in self.names]

    def path(self, name):
        return self.folder / name

    @property
    def paths(self):
        return [self.path(name) for name in self.names]

    def save(self, *things):
        kept = [thing for thing in things if not isinstance(thing, AllWeights)]
        for name, thing in zip(self.names, kept, strict=True):
            thing.save(self.path(name))

    def restore(self):
        for name, content in zip(self.names, self.contents, strict=True):
            self.path(name).write_bytes(content)

    @property
    def content(self):
        """The certificate as JSON, anew."""
        return json.loads(self.contents[0])

    def said(self, content=None, *options):
        """The status of the checker, and what it prints, of another certificate."""
        if content is not None:
            self.path(self.names[0]).write_text(json.dumps(content))
        return said(self.checker, self.paths, *options)

    def only(self, *names):
        """A certificate of some of its claims, which are true by themselves."""
        content = self.content
        content["claims"] = {name: content["claims"][name] for name in names}
        return content

    def require_honest(self, status, printed):
        """What is proved is what was proved before, word by word."""
        lines = printed.splitlines()
        assert lines[-1].startswith("PROVED" if status == 0 else "NOT PROVED: ")
        if status == 0:
            true = {claim.statement for claim in self.certificate.claims}
            assert {line.split(maxsplit=1)[1] for line in lines[:-1]} <= true, printed


def refused(said, *words):
    status, printed = said
    assert status == 1, printed
    assert printed.startswith("NOT PROVED: ")
    assert any(word in printed for word in words or [""]), printed


def check_checker_claim(files, name):
    """A claim is proved if it is true, and refused in whatever way it is forged."""
    files.restore()
    names = sorted({name, files.kind.beside.get(name, name)})
    check_honest(files, name, names)
    check_words(files, name, names)
    check_evidence(files, name, names)
    check_bound(files, name, names)
    if files.kind.spoil[name]:
        check_false(files, name, names)


def check_honest(files, name, names):
    status, printed = files.said(files.only(*names), "--claims", name)
    assert status == 0, printed
    assert files.certificate[name].statement in printed
    files.require_honest(status, printed)
    refused(files.said(None, "--claims", "beauty"), "does not claim all that is asked")
    refused(files.said(None, "--max-memory", "1e-6"), "--max-memory")


def check_words(files, name, names):
    """Verdicts, statements, and what it is about."""
    changes = [
        (lambda c: c["claims"][name].update(statement="all"), "does not state"),
        (
            lambda c: c["claims"][name].update(verdict="UNDECIDED"),
            f"not all claims are PROVED: {name}",
        ),
        (lambda c: c["claims"][name].pop("evidence"), "evidence"),
        (lambda c: c["claims"].update(beauty=c["claims"][name]), "nothing known"),
        (lambda c: c.update(claims={}), "claims nothing"),
        (lambda c: c.update(verdict="REFUTED"), "its verdict is not PROVED"),
        (lambda c: c.update(format="constructive certificate 0"), "format"),
        (lambda c: c["data"].update(sha256="0" * 64), "other data"),
        (lambda c: c["data"].update(more=1), "other data", "something else"),
    ]
    if len(files.names) == 3:
        changes.append((lambda c: c["weights"].update(sha256="0" * 64), "other weights"))
    for change, *words in changes:
        content = files.only(*names)
        change(content)
        refused(files.said(content), *words)


def packed(text):
    """Integers which a certificate packs, or None."""
    with contextlib.suppress(ValueError, TypeError):
        values = np.frombuffer(base64.b64decode(text, validate=True), "<u4")
        return values if len(values) > 1 else None
    return None


def check_evidence(files, name, names):
    """Each field dropped, of another kind, or off: refused, or the same is stated."""
    evidence = files.content["claims"][name]["evidence"] or {}
    for place, (field, value) in enumerate(evidence.items()):
        if field not in UNREAD:
            content = files.only(*names)
            del content["claims"][name]["evidence"][field]
            refused(files.said(content))
        some = EVIL[(place + len(name)) % 6 :: 6]  # each of them, for some field of some claim
        others = [x for x in some if x != value or type(x) is not type(value)]
        numbers = packed(value)
        if numbers is not None:
            changes = numbers[::-1], np.roll(numbers, 1), numbers[:-1], 0 * numbers, numbers + 1
            others += [base64.b64encode(x.astype("<u4").tobytes()).decode() for x in changes]
        if type(value) is int:
            others += [value + 1, value - 1, 2 * value, float(value)]
        for other in others:
            content = files.only(*names)
            content["claims"][name]["evidence"][field] = copy.deepcopy(other)
            files.require_honest(*files.said(content))


def check_bound(files, name, names):
    """A bound which is far too good, with the statement which it would prove."""
    evidence = files.content["claims"][name]["evidence"] or {}
    if "bound" not in evidence:
        return
    bound = float.fromhex(evidence["bound"])
    far = 1e9 if name in ("recites", "labels") else 1e-60
    for better in (bound * far, bound * far**2):
        content = files.only(*names)
        claim = content["claims"][name]
        claim["evidence"]["bound"] = float(better).hex()
        assert repr(bound) in claim["statement"]
        claim["statement"] = claim["statement"].replace(repr(bound), repr(float(better)))
        refused(files.said(content), f"{name}: ", "not shown")
    for none in ("nan", "inf", "-0x1p-9"):
        content = files.only(*names)
        content["claims"][name]["evidence"]["bound"] = none
        refused(files.said(content), f"bound of {name} is not a number")


def check_false(files, name, names):
    """Other weights or data, of which the claim is false, though the certificate is about them."""
    weights, data = files.kind.spoil[name]
    files.save(files.certificate, weights, data)
    refused(files.said(files.only(*names)), "the certificate is about other")
    about = family(weights).describe(weights, data)
    content = files.only(*names) | dict(zip(("data", "weights"), about, strict=True))
    for quick in ((), ("--quick",)):
        status, printed = files.said(content, *quick)
        refused((status, printed))
        assert "about other" not in printed
    files.restore()


def check_mutants(files, seed, count=24):
    """Random changes of a field or of bytes: what is proved is what was proved before."""
    rng, proved = np.random.default_rng(seed), 0
    for step in range(count):
        files.restore()
        which = 0 if step % 2 else int(rng.integers(len(files.names)))
        path = Path(files.path(files.names[which]))
        if step % 2:
            content = files.content
            mutate_json(rng, content)
            path.write_text(json.dumps(content))
        else:
            path.write_bytes(mutate_bytes(rng, files.contents[which]))
        status, printed = files.said()
        files.require_honest(status, printed)
        proved += status == 0
    files.restore()
    assert proved < count  # the mutants are seen


# `check_claim`: what every kind of claim has to do, whatever it claims.

OPTIONS = {field.name for field in dataclasses.fields(CertifyOptions)}
FORGED = "123456789"


def certified(name, subject, **options):
    """A certificate with that claim (and those that it brings with it)."""
    weights, data = subject
    return family(weights).prove(weights, data, (name,), CertifyOptions(**options))


def checked(certificate, subject):
    """What the independent checker says of a certificate about these weights and data."""
    weights, data = subject
    return check(certificate, None if isinstance(weights, AllWeights) else weights, data)


def check_claim(kind, holds, fails, *, statements, folder):
    """Look at all that is asked of a kind: of what holds, and of what is false or not proved."""
    name = kind.name
    # What it says of itself.
    assert family(holds[0]).available(holds[0])[name] is kind
    assert kind.options <= OPTIONS
    # What holds is proved, in the words of its sentence, twice the same, and survives a file.
    certificate = certified(name, holds)
    claim = certificate[name]
    assert (claim.name, claim.verdict, claim.witness) == (name, Verdict.PROVED, None)
    known = [re.sub(r"\\\{(!r)?\\\}", ".*", re.escape(words)) for words in statements.values()]
    assert any(re.fullmatch(places, claim.statement) for places in known)
    assert claim.detail
    assert json.loads(json.dumps(claim.evidence)) == claim.evidence
    assert certified(name, holds) == certificate
    if "seed" in kind.options:
        assert certified(name, holds, seed=5)[name].proved
    certificate.save(folder / "c.json")
    assert Certificate.load(folder / "c.json") == certificate
    # What does not hold is not proved: a witness refutes it, or words say what to try.
    failing = certified(name, fails)
    assert failing[name].verdict is not Verdict.PROVED, "it is PROVED where it is false"
    assert failing[name].verdict is not Verdict.REFUTED or failing[name].witness is not None
    assert failing[name].detail
    # A checker does not have to trust it.
    assert checked(certificate, holds).proved, "the checker refuses what holds"
    statement = re.sub(r"\d+", FORGED, claim.statement, count=1)
    assert statement != claim.statement
    assert not checked(altered(certificate, name, statement=statement), holds).proved
    if claim.evidence:
        assert not checked(altered(certificate, name, evidence={}), holds).proved
    forged = dataclasses.replace(failing, claims=certificate.claims, format=certificate.format)
    assert not checked(forged, fails).proved


# Every claim passes the same suites: of the checker, on every kind of data, and of certify.


OF_KIND = {
    "own contexts": ("grouping", "rank", "error"),
    "contexts of different lengths": ("rank", "error"),
    "a shared context": ("grouping", "rank", "error"),
    "corrections": ("rank", "error"),
    "labels": ("labels",),
    "pairs": ("rank", "error"),
    "decoder": ("rank", "recites", "executed"),
    "decoder, window": ("rank", "recites", "executed"),
    "decoder, bfloat16": ("rank", "recites", "executed"),
    "decoder, scaled": ("rank", "recites", "executed"),
    "several texts": ("rank", "recites", "executed"),
    "decoder of integers": ("recites", "executed"),
    "next": ("equality", "size"),
    "last": ("equality", "size"),
    "seq2seq": ("equality", "size"),
    "upper bound": ("impossible",),
    "tangent": ("error", "onto", "near"),
    "out of reach": ("almost_impossible",),
}


@pytest.fixture(scope="module")
def files(checker, tmp_path_factory):
    """Files of a kind, which are made once."""
    made = {}

    def of(kind):
        if kind not in made:
            made[kind] = Files(kind_of(kind), tmp_path_factory.mktemp("kind"), checker)
        return made[kind]

    return of


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in KINDS for name in OF_KIND[k]])
def test_claims(files, kind, name):
    check_checker_claim(files(kind), name)


@pytest.mark.parametrize("kind", KINDS)
def test_mutants(files, kind):
    check_mutants(files(kind), seed=len(kind))


@pytest.mark.usefixtures("evidence_is_malformed")
@pytest.mark.parametrize("kind", KINDS)
def test_malformed_evidence_is_refused_in_process(files, kind, checker):
    """Nothing is raised, and nothing else is proved; of a true claim nothing is refuted."""
    made, verify = files(kind), checker.verify
    made.restore()
    content = made.content
    claims = content["claims"]
    of = verify.KINDS[content["format"]]
    known = {claim.name: claim for claim in verify.CLAIMS[of]}
    options = verify.Options(quick=False, asked=(), epsilon=math.inf, most=8e9)
    about = of.read(content, made.paths[1:], {x: known[x](claims[x]) for x in claims}, options)
    for name, claim in claims.items():
        evidence = claim["evidence"] or {}
        others = (None, {}, [], [None], "x", "nan", -1, 1.5)
        wrong = [{field: value} for field in evidence for value in others]
        for given in ({}, *others, *(evidence | field for field in wrong)):
            found = verify.verify(name, given, about)
            assert found.verdict != "REFUTED", (name, given)
            assert found.verdict == "UNDECIDED" or found.statement == claim["statement"]
            assert found.detail or found.verdict == "PROVED", (name, given)
        if name == "error":
            assert "KeyError('bound')" in verify.verify(name, {}, about).detail


@pytest.mark.parametrize("kind", ["own contexts", "pairs", "decoder", "next", "upper bound"])
def test_a_run_loads_nothing_of_the_package(files, kind):
    made = files(kind)
    made.restore()
    assert modules_loaded_by(FOLDER, map(str, made.paths)) == "status 0 loaded []"


def test_all_claims_are_tried(files, checker):
    tried = {
        (files(kind).content["format"], name) for kind in KINDS for name in files(kind).kind.claims
    }
    known = checker.verify.CLAIMS.items()
    assert tried == {(about.format, claim.name) for about, claims in known for claim in claims}


# And every kind of claim passes `check_claim`: one line for each, and for each of its proofs.


def boasting(*_):
    """Other sequences, and a record with a size beyond what they have."""
    other = kind_of("last")
    sizes = dataclasses.replace(other.weights.record.sizes, token_bits=10**6)
    record = dataclasses.replace(other.weights.record, sizes=sizes)
    return dataclasses.replace(other.weights, record=record), other.data


def fewer(heads, data):
    """As many examples as tokens have entries."""
    return heads, data.take(range(data.width))


CASES = {
    "layer": ["own contexts", "labels", "pairs", "tangent"],
    "decoder": ["decoder", "decoder of integers"],
    "sequences": ["seq2seq"],
    "all weights": ["upper bound", "out of reach"],
}
"""Kinds of the suite that have all claims of a family, and all proofs of them."""
UNPROVED = {
    ("seq2seq", "size"): boasting,
    ("upper bound", "impossible"): fewer,
}
"""What certify cannot prove, where the checker has other data for that."""


@pytest.mark.parametrize(
    ("row", "kind", "name"),
    [(row, kind, name) for row in CASES for kind in CASES[row] for name in OF_KIND[kind]],
)
def test_a_claim_does_what_all_claims_do(row, kind, name, checker, tmp_path):
    made = kind_of(kind)
    holds = made.weights, made.data
    spoil = UNPROVED.get((kind, name))
    fails = spoil(*holds) if spoil else made.spoil[name]
    known = checker.verify.CLAIMS.values()
    statements = {claim: claim.statement for claims in known for claim in claims}
    check_claim(REGISTRY[row][name], holds, fails, statements=statements, folder=tmp_path)


def test_no_kind_is_left_out():
    registered = {(row, name) for row, kinds in REGISTRY.items() for name in kinds}
    tried = {(row, name) for row in CASES for kind in CASES[row] for name in OF_KIND[kind]}
    assert tried == registered


# The smallest claim there is, how many targets are not zero; and two that break the rules.


class Toy(ClaimKind):
    name = "toy"
    statement = "{} of the targets are not zero"
    usual = False

    def judge(self, subject):
        report("play", 0, 1)
        count = int(np.count_nonzero(subject.data.targets))
        if not count:
            statement = self.statement.format("some")
            return Claim("toy", statement, Verdict.REFUTED, "all are zero", 0)
        statement, evidence = self.statement.format(count), {"count": count}
        return Claim("toy", statement, Verdict.PROVED, "counted", evidence=evidence)


class Liar(Toy):
    """It calls everything PROVED."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), verdict=Verdict.PROVED, witness=None)


class Reckless(Toy):
    """It forgets what a checker needs."""

    def judge(self, subject):
        return dataclasses.replace(super().judge(subject), evidence={})


TOY, LIAR, RECKLESS = Toy(), Liar(), Reckless()

# A new claim is a file and a line in the package, and a file and a line in the checker.

CLAIM = f"""
from .claim import Claim
from .files import require


class Toy(Claim):
    name, statement = "toy", {TOY.statement!r}

    def check(self, about):
        count = int((about.data["targets"] != 0).sum())
        require(self.evidence == {{"count": count}}, "toy: the count is another")
        return (count,)
"""
FIRST = "    Layer: ("


@pytest.fixture(scope="module")
def data():
    return generators.uniform(num_examples=7, context_size=3, width=5)


@pytest.fixture(scope="module")
def memorizer(data):
    return build_memorizer(data, num_heads=3)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(CLAIMS["layer"], "toy", TOY)


@pytest.fixture
def taught(tmp_path, monkeypatch):
    """A checker which knows it, too."""
    folder = tmp_path / "checker"
    shutil.copytree(checking.CHECKER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "toy.py").write_text(CLAIM)
    command = (folder / "verify.py").read_text()
    assert FIRST in command
    command = command.replace(FIRST, f"{FIRST}Toy, ")
    (folder / "verify.py").write_text(f"from .toy import Toy\n{command}")
    monkeypatch.setattr(checking, "CHECKER", folder)


@pytest.mark.usefixtures("taught", "own_process")
@pytest.mark.parametrize(("toy", "words"), [(TOY, None), (LIAR, "false"), (RECKLESS, "checker")])
def test_what_a_claim_has_to_do(data, memorizer, monkeypatch, tmp_path, toy, words):
    """One that lies does not pass, nor does one whose evidence shows nothing."""
    zeros = Dataset(data.contexts, data.queries, np.zeros(7))
    monkeypatch.setitem(CLAIMS["layer"], "toy", toy)
    statements = {"toy": toy.statement}
    with pytest.raises(AssertionError, match=words) if words else contextlib.nullcontext():
        check_claim(
            toy, (memorizer, data), (memorizer, zeros), statements=statements, folder=tmp_path
        )


@pytest.mark.usefixtures("toy")
def test_a_checker_which_does_not_know_it_refuses(data, memorizer):
    report = check(certify(memorizer, data, claims=["toy"]), memorizer, data)
    assert not report.proved
    assert "nothing known" in report.report


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("usual", [False, True])
def test_it_is_made_always_if_it_says_so(data, memorizer, monkeypatch, usual):
    monkeypatch.setattr(Toy, "usual", usual)
    assert ("toy" in [claim.name for claim in certify(memorizer, data).claims]) == usual
