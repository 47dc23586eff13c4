"""Families of operators, and an exact evaluation of every answer of folders that are made."""

import numpy as np
import pytest
from instance_parts import check_facts, check_refusals, points_of
from network_balls import enclosed, slack

from constructive.instances import FAMILIES, Answer, check, make, save
from constructive.instances.instance import Witness

KINDS = "operator", "narrow", "spelling"
POINTS = 25


def check_exactly(instance):
    """No point contradicts the answer, and a witness is one, in balls."""
    wanted = instance.property
    if isinstance(instance.proof, Witness):
        exact = slack(wanted, enclosed(instance.network, instance.proof.point))
        assert instance.answer is Answer.SAT
        assert exact >= instance.margin * (1.0 - 1e-9) > 0.0
        return
    rng = np.random.default_rng(0)
    drawn = points_of(wanted.box, rng, POINTS)
    drawn = drawn[rng.permutation(len(drawn))[:POINTS]].astype(np.float32)
    drawn = np.clip(drawn, wanted.box.lower, wanted.box.upper)
    best = max(slack(wanted, enclosed(instance.network, x)) for x in drawn.tolist())
    assert instance.answer is Answer.UNSAT
    assert best <= -instance.margin * (1.0 - 1e-9) < 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_laws(kind):
    family = FAMILIES[kind]()
    check_facts(family)
    check_refusals(family, 2)
    one, same, other = (
        [(each.name, each.answer, each.claims()) for each in family.make(2, seed=seed)]
        for seed in (3, 3, 4)
    )
    assert one == same != other


@pytest.mark.parametrize("kind", ["operator", "narrow"])
@pytest.mark.parametrize("answers", ["su", "ss", "uu", "u"])
def test_answers_are_those_that_were_asked_for(kind, answers):
    wanted = [{"s": Answer.SAT, "u": Answer.UNSAT}[each] for each in answers]
    group = FAMILIES[kind]().make(2, seed=1, answers=wanted)
    assert [each.answer for each in group] == wanted
    assert len({id(each.network) for each in group}) == 1
    for each in group:
        check_exactly(each)


def test_spellings_are_of_one_function_and_one_question(tmp_path):
    """Points have the same outputs, up to balls; texts are read as one property."""
    for seed in range(4):
        group = FAMILIES["spelling"]().make(2, seed=seed, name="spelling_0")
        assert len(group) == 4
        assert len({each.answer for each in group}) == 1
        assert len({each.network_name for each in group}) == 4
        box = group[0].property.box
        for x in np.random.default_rng(0).uniform(box.lower, box.upper, (5, 2)):
            first, *others = (enclosed(each.network, x) for each in group)
            for other in others:
                assert all(
                    abs(float((a - b).mid())) < 1e-30 for a, b in zip(first, other, strict=True)
                )
        save(tmp_path / f"{seed}", group)
        texts = {(tmp_path / f"{seed}/vnnlib/{each.name}.vnnlib").read_text() for each in group}
        assert len(texts) > 1
        assert check(tmp_path / f"{seed}").proved


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_exact_evaluation_of_every_answer_of_a_folder(tmp_path, seed):
    made = make(42, dims=(2, 6), seed=seed)
    save(tmp_path / "folder", made)
    checked = check(tmp_path / "folder", jobs=2)
    assert checked.proved
    assert f"{len(made)} of {len(made)} answers are proved" in checked.report
    assert len({each.family for each in made}) == 7
    for each in made:
        check_exactly(each)
