"""Labels that lead: what is proved of them, by whom, and at which edge."""

from types import SimpleNamespace

import drawn
import numpy as np
import pytest
from checker_parts import said, saved

from constructive import (
    AttentionLayer,
    Certificate,
    Claim,
    Dataset,
    Memorizer,
    Verdict,
    build_memorizer,
    certify,
    generators,
)
from constructive import checker as judge
from constructive.certificates.certify import LAYERS, made_by


@pytest.fixture(scope="module")
def leading():
    """Two heads that separate three classes, and the data."""
    data = generators.gaussian(num_examples=7, context_size=2, width=4, seed=2)
    labels = Dataset.of_classes(data.contexts, data.queries, [0, 1, 2, 0, 1, 1, 2])
    return build_memorizer(labels, num_heads=2, construction="generic"), labels


def forged(bound, memorizer, data):
    """A certificate about these very files, which claims that lead."""
    statement = judge.STATEMENTS["labels"].format(bound)
    claim = Claim("labels", statement, Verdict.PROVED, "forged", evidence={"bound": bound.hex()})
    return Certificate((claim,), *LAYERS.describe(memorizer, data), made_by())


def proved(checker, folder, certificate, memorizer, data):
    status, printed = said(checker, saved(folder, memorizer, data, certificate))
    assert (status == 1) == printed.startswith("NOT PROVED: ")
    return status == 0


def test_half_the_least_lead_is_claimed(leading):
    claim = certify(*leading, claims=["labels"])["labels"]
    assert claim.proved
    assert claim.statement == judge.STATEMENTS["labels"].format(0.5)
    assert "lead by 0.9" in claim.detail or "lead by 1.0" in claim.detail


@pytest.mark.parametrize("power", [-300, -40, 0, 40, 300])
def test_the_scale_of_contexts_does_not_matter(leading, checker, tmp_path, power):
    memorizer, data = leading
    scaled = Dataset(data.contexts * 2.0**power, data.queries * 2.0**-power, data.targets)
    certificate = certify(memorizer, scaled, claims=["labels"])
    assert certificate.proved
    assert proved(checker, tmp_path, certificate, memorizer, scaled)


def test_who_is_to_blame(leading):
    """The first example whose label does not lead, or whose target is not a class."""
    memorizer, data = leading
    for targets, at in ((np.roll(data.targets, 1, axis=1), 0), (data.targets.copy(), 3)):
        if at:
            targets[at:] = np.roll(targets[at:], 1, axis=1)
        wrong = certify(memorizer, Dataset(data.contexts, data.queries, targets), claims=["labels"])
        assert (wrong.verdict, wrong["labels"].witness) == (Verdict.REFUTED, at)
    targets = data.targets.copy()
    targets[3] = 0.5
    other = Dataset(data.contexts, data.queries, targets)
    claim = certify(memorizer, other, claims=["labels"])["labels"]
    assert (claim.verdict, claim.witness) == (Verdict.REFUTED, 3)


@pytest.mark.parametrize(("part", "right"), [(0.99, True), (1 - 1e-9, True), (1 + 1e-9, False)])
def test_no_larger_lead_is_proved(leading, checker, tmp_path, part, right):
    memorizer, data = leading
    bound = float(part)  # the least lead is 1, but for rounding
    certificate = forged(bound, memorizer, data)
    assert proved(checker, tmp_path, certificate, memorizer, data) == right


@pytest.mark.parametrize(("power", "part"), [(-1023, 0.6), (-1000, 0.9), (-1000, 5.0)])
def test_a_lead_that_rounds_up_to_a_bound_is_below_it(checker, tmp_path, power, part):
    """Leads are multiples of 2^-1074 where contexts are so small."""
    zeros = np.zeros((1, 1, 1))
    layer = AttentionLayer.from_effective_readout(
        zeros, zeros, np.array([[part * 2.0 ** (-1074 - power), 0.0]])
    )
    contexts = np.array([[[1.0]], [[-1.0]]]) * 2.0**power
    data = Dataset(contexts, np.ones((2, 1)), np.eye(2))
    memorizer, least = Memorizer(layer, drawn.DRAWN), 2.0**-1074
    certificate = forged(least, memorizer, data)
    assert proved(checker, tmp_path, certificate, memorizer, data) == (part > 2.0)
    claim = certify(memorizer, data, claims=["labels"])["labels"]
    assert claim.verdict is (Verdict.UNDECIDED if part < 2.0 else Verdict.PROVED)


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(1.01, "PROVED"), (0.99, "UNDECIDED"), (-0.99, "UNDECIDED"), (-1.01, "REFUTED")],
)
def test_what_is_not_known_of_both_outputs_counts(checker, ahead, verdict):
    """Each is off by a half, one way or the other."""
    outputs = np.array([[3.0, 0.0], [3.0, 0.0], [ahead, 0.0]])
    found = checker.error.InFloats(0 * outputs, 0.5 + 0 * outputs, np.zeros(3, int), outputs)
    about = SimpleNamespace(data={"targets": np.array([[1, 0]] * 3)}, floats=found)
    said = checker.error.Labels({"evidence": {"bound": (1e-9).hex()}}).judge(about)
    assert (said.verdict, said.witness) == (verdict, 2 if verdict == "REFUTED" else None)
