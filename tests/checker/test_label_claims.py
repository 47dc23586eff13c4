"""Labels that are attained, and labels that no readout of some heads attains: both are proved."""

import base64
import dataclasses
from itertools import product

import numpy as np
import pytest
from checker_parts import said, saved
from claim_parts import label_layer

from constructive import (
    AttentionLayer,
    Certificate,
    Claim,
    Dataset,
    Verdict,
    build_memorizer,
    certify,
    generators,
)
from constructive.certificates.certify import LAYERS, made_by
from constructive.certificates.claims import outputs
from constructive.constructions.separation import separate
from constructive.support.verdict import pack
from constructive.theory.labelings import cover

TOTAL, WIDTH = 7, 3
NO_VECTORS = {"vectors": [], "pivots": [], "zeros": 0}


def with_labels(data, labels, classes=2):
    """The data with one-hot targets, also where not all classes occur."""
    return Dataset(data.contexts, data.queries, np.eye(classes)[np.asarray(labels)])


@pytest.fixture(scope="module")
def drawn():
    return generators.gaussian(num_examples=TOTAL, context_size=2, width=WIDTH, seed=2)


@pytest.fixture(scope="module")
def heads(drawn):
    """One head, with a readout for four examples."""
    labels = Dataset.of_classes(drawn.contexts, drawn.queries, [0, 1, 1, 0, 1, 1, 1]).take(range(4))
    return label_layer(labels, 1)


def reading(memorizer, effective):
    """The same heads with another readout."""
    layer = memorizer.layer
    weights = layer.query_weights, layer.key_weights
    return dataclasses.replace(
        memorizer, layer=AttentionLayer.from_effective_readout(*weights, effective)
    )


def z_of(memorizer, data):
    return memorizer.layer.intermediate(data.contexts, data.queries)


def test_every_labeling_is_attained_or_refuted_and_as_many_as_counted(drawn, heads):
    z, attained = z_of(heads, drawn), 0
    for others in product((0, 1), repeat=TOTAL - 1):
        labels = 0, *others  # half of them, for all labels may be turned around
        data = with_labels(drawn, labels)
        verdict = certify(heads, data, claims=["inseparable"])["inseparable"].verdict
        found = separate(z, data.target_matrix.argmax(axis=1), 2)
        if verdict is Verdict.REFUTED:
            attained += 1
            assert certify(reading(heads, found.effective), data, claims=["labels"]).proved
        else:
            assert verdict is Verdict.PROVED
            assert found.effective is None
    assert 2 * attained == cover(TOTAL, WIDTH)


def forged(name, evidence, memorizer, data):
    """A certificate about these very files, which claims what it likes."""
    if name == "labels":
        statement = outputs.LABELS.statement.format(float.fromhex(evidence["bound"]))
    else:
        statement = outputs.INSEPARABLE.statement.format(len(data))
    claim = Claim(name, statement, Verdict.PROVED, "forged", evidence=evidence)
    return Certificate((claim,), *LAYERS.describe(memorizer, data), made_by())


def refused(checker, folder, certificate, memorizer, data):
    status, printed = said(checker, saved(folder, memorizer, data, certificate))
    assert (status == 1) == printed.startswith("NOT PROVED: ")
    return status == 1


def forge(rng, drawn, heads):
    """A false certificate with its files, of either claim."""
    z = z_of(heads, drawn)
    labels = rng.integers(0, 2, TOTAL)
    data, found = with_labels(drawn, labels), separate(z, labels, 2)
    others = np.arange(2) != labels[:, None]
    if found.effective is None:  # not attained: so no readout is right, such as that of neighbours
        near = labels.copy()
        near[rng.integers(TOTAL)] ^= 1
        guess = separate(z, near, 2).effective
        guess = rng.standard_normal((WIDTH, 2)) if guess is None else guess
        guess += rng.choice([0.0, 1e-9, 0.1]) * rng.standard_normal((WIDTH, 2))
        bound = float(rng.choice([5e-324, 1e-300, 1e-16, 0.5]))
        memorizer = reading(heads, guess * 10.0 ** rng.integers(-9, 9))
        return forged("labels", {"bound": bound.hex()}, memorizer, data), memorizer, data
    kind = rng.integers(4)  # attained: so no combination is zero
    if kind == 0:
        sizes = rng.integers(1, 1 << 32, TOTAL)
    elif kind == 1:
        sizes = np.full(TOTAL, 1 << rng.integers(32))
    else:  # as near to zero as positive ones get
        signed = np.where(labels, 1.0, -1.0)[:, None] * z
        best = np.linalg.svd(signed)[0][:, -1]
        sizes = np.maximum(np.rint(np.abs(best) * 4e9), 1 if kind == 2 else 0).astype(np.int64)
    evidence = {"multipliers": pack(sizes[:, None] * others), **NO_VECTORS}
    return forged("inseparable", evidence, heads, data), heads, data


@pytest.mark.parametrize(
    "tries", [60, pytest.param(2000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_no_forged_certificate_is_proved(drawn, heads, checker, tmp_path, tries):
    rng, seen = np.random.default_rng(tries), set()
    for _ in range(tries):
        certificate, memorizer, data = forge(rng, drawn, heads)
        seen.add(certificate.claims[0].name)
        assert refused(checker, tmp_path, certificate, memorizer, data)
    assert seen == {"labels", "inseparable"}


@pytest.mark.parametrize("power", [-300, -40, 0, 40, 300])
def test_the_scale_of_contexts_does_not_matter(drawn, checker, tmp_path, power):
    contexts, queries = drawn.contexts * 2.0**power, drawn.queries * 2.0**-power
    data = Dataset.of_classes(contexts, queries, [0, 1, 1, 0, 1, 0, 1])
    memorizer = label_layer(data, 2)
    certificate = certify(memorizer, data, claims=["labels"])
    assert certificate.proved
    assert not refused(checker, tmp_path, certificate, memorizer, data)


def test_what_is_claimed_by_default(drawn, heads):
    data = with_labels(drawn, [0, 1, 1, 0, 1, 1, 1]).take(range(4))
    assert "labels" not in [claim.name for claim in certify(heads, data).claims]
    assert certify(heads, data, claims=["labels"]).proved
    exact = build_memorizer(data, num_heads=2)
    assert "labels" not in [claim.name for claim in certify(exact, data).claims]
    proved = certify(exact, data, claims=["labels"])["labels"]
    assert proved.statement == outputs.LABELS.statement.format(0.5)


def test_who_is_to_blame(drawn, heads):
    """The first example whose label does not lead, or whose target is no class."""
    right = heads.layer(drawn.contexts, drawn.queries).argmax(axis=1)
    wrong = right.copy()
    wrong[4:] ^= 1
    refuted = certify(heads, with_labels(drawn, wrong), claims=["labels"])["labels"]
    assert (refuted.verdict, refuted.witness) == (Verdict.REFUTED, 4)
    targets = np.eye(2)[right]
    targets[3] = 0.5
    data = Dataset(drawn.contexts, drawn.queries, targets)
    for claim in certify(heads, data, claims=["labels", "inseparable"]).claims:
        assert (claim.verdict, claim.witness) == (Verdict.REFUTED, 3)


def dependent(kind):
    """Contexts for which columns of Z are dependent, and more than twice as many examples."""
    if kind == "shared":
        return generators.shared_context(num_examples=30, context_size=3, width=5, seed=0)
    data = generators.integers(num_examples=30, context_size=3, width=3, seed=1)
    if kind == "constant":
        return data.with_constant()
    mixing = np.array([[1, 2, 0, 1], [0, 1, 1, -1], [3, 0, 1, 1]])  # three dimensions of four
    return Dataset(data.contexts @ mixing, data.queries @ mixing, data.targets)


@pytest.mark.parametrize("kind", ["shared", "constant", "plane"])
def test_columns_that_depend_on_others_are_left_out(kind, checker, tmp_path):
    """Their vectors are needed, and no other columns may be left out."""
    drawn = dependent(kind)
    labels = np.random.default_rng(2).integers(0, 2, len(drawn))
    data = with_labels(drawn, labels)
    few = Dataset.of_classes(drawn.contexts, drawn.queries, labels).take(range(4))
    heads = label_layer(few, 2)
    found = certify(heads, data, claims=["inseparable"])["inseparable"]
    assert found.verdict is Verdict.PROVED, found.detail
    assert found.evidence["vectors"]
    evidence = found.evidence

    def says(**changes):
        wrong = forged("inseparable", {**evidence, **changes}, heads, data)
        return not refused(checker, tmp_path, wrong, heads, data)

    assert says()
    assert not says(vectors=[], pivots=[], zeros=0)
    vectors, width = evidence["vectors"], drawn.width
    assert not says(vectors=[["0x1"] * width, *vectors[1:]])
    assert not says(zeros=evidence["zeros"] + 1)
    assert not says(pivots=[evidence["pivots"][0]] * len(vectors) if len(vectors) > 1 else [width])


def test_a_column_that_one_head_has_to_keep_is_kept(checker, tmp_path):
    """All labels are equal: the constant entry of the first head has them, and no other columns."""
    drawn = dependent("constant")
    labels = np.ones(len(drawn), dtype=np.int64)
    data, width = with_labels(drawn, labels), drawn.width
    few = with_labels(drawn, np.arange(len(drawn)) % 2).take(range(4))
    few = Dataset.of_classes(few.contexts, few.queries, [0, 1, 0, 1])
    heads = label_layer(few, 2)
    assert certify(heads, data, claims=["inseparable"])["inseparable"].verdict is Verdict.REFUTED
    # Rows as the checker scales them: contexts have size one.
    size = np.frexp(np.abs(drawn.contexts).max(axis=(1, 2)))[1]
    z = np.ldexp(z_of(heads, drawn), -size[:, np.newaxis])
    others = np.delete(z, [width - 1, 2 * width - 1], axis=1)
    sizes = np.maximum(-separate(others, labels, 2).combination, 0.0)
    multipliers = np.rint(sizes * (4e9 / sizes.max())).astype(np.int64)
    vectors = [[hex(int(place == width - 1)) for place in range(width)]]
    evidence = {"multipliers": pack(multipliers), "vectors": vectors, "pivots": [width - 1]}
    for zeros in (0, 1):
        wrong = forged("inseparable", {**evidence, "zeros": zeros}, heads, data)
        assert refused(checker, tmp_path, wrong, heads, data)


@pytest.fixture(scope="module")
def kept(drawn, heads):
    """Files of a true certificate of each claim."""
    z, made = z_of(heads, drawn), {}
    for labels in product((0, 1), repeat=TOTAL):
        data, found = with_labels(drawn, labels), separate(z, np.array(labels), 2)
        name = "inseparable" if found.effective is None else "labels"
        if name not in made:
            memorizer = heads if found.effective is None else reading(heads, found.effective)
            made[name] = certify(memorizer, data, claims=[name]), memorizer, data
    return made


@pytest.mark.parametrize("name", ["labels", "inseparable"])
def test_rounding_and_the_errors_of_z_are_paid_for(
    name, kept, checker, as_if, monkeypatch, tmp_path
):
    """Were they larger, nothing would be proved: by certify, and by the checker."""
    certificate, memorizer, data = kept[name]
    assert not refused(checker, tmp_path, certificate, memorizer, data)
    as_if("labels", gamma=lambda terms: 1e9 * terms)
    assert refused(checker, tmp_path, certificate, memorizer, data)
    monkeypatch.undo()
    exact = checker.labels.residuals_in_floats
    for off in (1e9, np.inf, np.nan):
        monkeypatch.setattr(
            checker.labels, "residuals_in_floats", lambda *given, off=off: (*exact(*given)[:3], off)
        )
        assert refused(checker, tmp_path, certificate, memorizer, data)
    monkeypatch.undo()
    assert not refused(checker, tmp_path, certificate, memorizer, data)
    monkeypatch.setattr(outputs, "gamma", lambda terms: 1e9 * terms)
    assert certify(memorizer, data, claims=[name])[name].verdict is Verdict.UNDECIDED
    monkeypatch.undo()
    found = outputs.Evaluations.__iter__

    def rough(self):
        return (dataclasses.replace(each, radius=1e9) for each in found(self))

    monkeypatch.setattr(outputs.Evaluations, "__iter__", rough)
    assert certify(memorizer, data, claims=[name])[name].verdict is Verdict.UNDECIDED


def bound(times):
    """A bound that is so many times the lead, as float64 finds it: it may be above the truth."""

    def change(_evidence, memorizer, data):
        outputs = z_of(memorizer, data) @ memorizer.layer.effective_readout
        own = data.targets == 1
        lead = float((outputs[own] - outputs[~own]).min())
        return {"bound": (times * lead).hex()}, data

    return change


def multiplier(example, value, *, of_label):
    """One of another size: rows of B do not sum to zero, or a lead has no part."""

    def change(evidence, _memorizer, data):
        sizes = np.frombuffer(base64.b64decode(evidence["multipliers"]), "<u4").reshape(TOTAL, 2)
        label = data.targets[example].argmax()
        sizes = sizes.copy()
        sizes[example, label if of_label else 1 - label] = value
        return evidence | {"multipliers": pack(sizes)}, data

    return change


def targets(of):
    """Targets that are not classes."""
    return lambda evidence, _, data: (
        evidence, Dataset(data.contexts, data.queries, of(data.targets))
    )  # fmt: skip


NO_CLASSES = {
    "targets of 2": targets(lambda y: y * 2),
    "targets below 0": targets(lambda y: y - 1),
    "all classes": targets(np.ones_like),
    "no class": targets(np.zeros_like),
}
FORGERIES = {
    "labels": NO_CLASSES | {
        "no lead": bound(0.0),
        "the lead itself leaves no room": bound(1.0),
        "more than the lead": bound(1 + 1e-9),
    },
    "inseparable": NO_CLASSES | {
        "a multiplier at a label": multiplier(0, 1, of_label=True),
        "a lead without a part": multiplier(3, 0, of_label=False),
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "forgery"), [(n, f) for n in FORGERIES for f in FORGERIES[n]])
def test_what_is_false_by_a_little_is_not_proved(name, forgery, kept, checker, tmp_path):
    certificate, memorizer, data = kept[name]
    honest = certificate[name].evidence if name == "inseparable" else {"bound": (0.25).hex()}
    if name == "labels":
        honest, _ = bound(1 - 1e-9)(honest, memorizer, data)
    evidence, other = FORGERIES[name][forgery](honest, memorizer, data)
    for given, about, proved in ((honest, data, True), (evidence, other, False)):
        made = forged(name, given, memorizer, about)
        assert refused(checker, tmp_path, made, memorizer, about) != proved


@pytest.mark.parametrize(("power", "part"), [(-1023, 0.6), (-1000, 0.9), (-1000, 5.0)])
def test_a_lead_that_rounds_up_to_a_bound_is_below_it(checker, tmp_path, power, part):
    """Leads are multiples of 2^-1074 where contexts are so small."""
    signs = np.array([[[1.0]], [[-1.0]]])
    queries = np.ones((2, 1))
    made = label_layer(Dataset.of_classes(signs, queries, [0, 1]), 1)
    data = Dataset(signs * 2.0**power, queries, np.eye(2))
    memorizer = reading(made, np.array([[part * 2.0 ** (-1074 - power), 0.0]]))
    least = 2.0**-1074
    certificate = forged("labels", {"bound": least.hex()}, memorizer, data)
    assert refused(checker, tmp_path, certificate, memorizer, data) == (part < 2.0)
    claim = certify(memorizer, data, claims=["labels"])["labels"]
    assert claim.verdict is (Verdict.UNDECIDED if part < 2.0 else Verdict.PROVED)


@pytest.mark.parametrize(
    ("sizes", "errors", "too_large"),
    [
        ((10**9, 10**9 + 1, 1), (0.0, 1e-11), 4e-9),  # the least one is lost in the rest
        ((1 << 31, 1 << 31), (0.0, 1e-4), 0.1),  # Z^T may have no right inverse
    ],
)
def test_errors_of_z_count_twice(checker, sizes, errors, too_large):
    """One column: signed rows are 1 and -1 in turn, and their combination is exactly zero."""
    labels = np.zeros(len(sizes), dtype=np.int64)
    multipliers = np.stack([0 * np.array(sizes), sizes], axis=1)
    z = np.array([[1.0], [-1.0], [1.0]][: len(sizes)])
    claim = checker.labels.Inseparable({"evidence": {"multipliers": pack(multipliers)}})
    for small in errors:
        assert claim.combined(labels, 2, z, small) == (len(sizes),)
    with pytest.raises(ValueError, match=r"shown to be zero|right inverse"):
        claim.combined(labels, 2, z, too_large)
