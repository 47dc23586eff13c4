"""What tests of instances need: the laws of families, a toy, networks, points, files of folders."""

import itertools
import json
import re
from fractions import Fraction
from hashlib import sha256
from typing import ClassVar

import numpy as np
import pytest

from constructive import ParameterError
from constructive.instances import Answer, Atom, Box, Head, Instance, Network, Property, Witness
from constructive.instances.instance import MARGIN, Family, Option, Refutations
from constructive.instances.properties import read_property, version_1, version_2
from constructive.instances.refutations import refute_by_heads

# What every family of instances keeps: `check_family` tests one by a line.


POINTS = 400
SAT, UNSAT = Answer


def check_family(family, dims=(2, 5), seeds=(0,), **options):
    check_facts(family)
    check_refusals(family, dims[0])
    for answers in ((SAT, UNSAT), (UNSAT, UNSAT), (SAT, SAT)):
        for group in [
            family.make(d, seed=s, answers=answers, **options) for d in dims for s in seeds
        ]:
            check_group(family, group, answers)
    check_seeds(family, dims[0], options)


def check_facts(family):
    assert re.fullmatch("[a-z]+", family.name)
    assert family.purpose.isprintable()
    for name, option in family.options.items():
        assert name.isidentifier()
        assert option.least <= option.default <= option.most
        assert option.meaning
        assert option.drawn is None or option.least <= min(option.drawn) <= max(option.drawn)


def check_refusals(family, dim):
    with pytest.raises(ParameterError, match="does not take no_such_option="):
        family.make(dim, no_such_option=1.0)
    for name, option in family.options.items():
        part = [option.least + 0.5] if option.whole else []
        for value in (option.least - 1.0, 2.0 * option.most + 1.0, float("nan"), "1", *part):
            with pytest.raises(ParameterError, match=name):
                family.make(dim, **{name: value})
    for size in (0, 2.5, 10**30):
        with pytest.raises(ParameterError, match="dim"):
            family.make(size)
    with pytest.raises(ParameterError, match="seed"):
        family.make(dim, seed=-1)


def check_group(family, group, answers=(Answer.SAT, Answer.UNSAT)):
    assert tuple(each.answer for each in group) == answers, "a group has other answers"
    assert len({id(each.network) for each in group}) == 1, "a group has one network"
    assert [each.name for each in group] == [f"{family.name}_{x}" for x in "ab"], "names differ"
    assert summary(group[0])[4:] != summary(group[1])[4:], "an instance is there twice"
    for each in group:
        assert each.family == family.name
        assert each.margin >= 2.0 * each.rounding > 0.0
        check_answer(each)


def check_answer(instance):
    """By points of the box: none may contradict the answer, and a witness has to be one."""
    box = instance.property.box
    random = np.random.default_rng(1)
    points = random.uniform(box.lower, box.upper, (POINTS, len(box.lower)))
    points[: POINTS // 4] = np.where(points[: POINTS // 4] > 0, box.lower, box.upper)
    points = np.clip(points.astype(np.float32), box.lower, box.upper)
    if isinstance(instance.proof, Witness):
        witness = np.array([[float(x) for x in instance.proof.point]])
        assert (witness.astype(np.float32) == witness).all(), "a witness is float32 numbers"
        slack = instance.property.least_slack(instance.network(witness))[0]
        assert slack >= instance.margin - 1e-12, "the witness is not one"
        in_float32 = instance.network(witness, np.float32).astype(np.float64)
        assert instance.property.least_slack(in_float32)[0] > 0.0
    else:
        slacks = instance.property.least_slack(instance.network(points))
        assert slacks.max() <= -instance.margin + 1e-12, "a point meets what is called unsat"
    off = np.abs(instance.network(points, np.float32) - instance.network(points)).max(axis=0)
    assert (off <= instance.rounding).all()


def check_seeds(family, dim, options):
    one, same, other = (family.make(dim, seed=seed, **options) for seed in (3, 3, 4))
    assert list(map(summary, one)) == list(map(summary, same)), "a seed gives one group"
    assert list(map(summary, one)) != list(map(summary, other)), "seeds give different groups"


def summary(instance):
    return (
        instance.name,
        instance.answer,
        instance.proof.document(),
        [
            (h.slopes.tolist(), h.offsets.tolist(), h.values.tolist())
            for h in instance.network.heads
        ],
        instance.property.box.lower.tolist(),
        [(a.coefficients.tolist(), a.threshold) for d in instance.property.disjuncts for a in d],
    )


# The smallest family there is: a sigmoid, largest at one end of an interval.


class Toy(Family):
    name = "toy"
    purpose = "one token against another"
    options: ClassVar = {"margin": MARGIN, "steep": Option(4.0, 1.0, 8.0, "the slope")}

    def thresholds(self, options):
        """Below one half, where the maximum is, and above."""
        return 0.5 - options["margin"], 0.5 + options["margin"]

    def draw(self, names, dim, random, options):
        slopes = np.zeros((2, dim))
        slopes[0] = round(options["steep"]) * random.choice([-1.0, 1.0], dim)
        network = Network((Head(slopes, np.zeros(2), np.array([[1.0], [0.0]])),))
        signs = np.sign(slopes[0])
        box = Box(np.minimum(-signs, 0.0), np.maximum(-signs, 0.0))
        point = Witness(tuple(Fraction(0) for _ in range(dim)))
        made = []
        for number, (name, answer) in enumerate(names.items()):
            below, above = self.thresholds(options)
            threshold = below - 0.01 * number if answer is SAT else above + 0.01 * number
            wanted = Property(box, ((Atom([1.0], float(np.float32(threshold))),),))
            slabs = refute_by_heads(network, box, wanted.disjuncts[0][0])
            proof = point if answer is SAT else Refutations((slabs,))
            made.append(Instance(name, network, wanted, answer, proof, "toy"))
        return made


# Networks, points of boxes, and files of folders.


def float32(array):
    return np.asarray(array, np.float32).astype(float)


def drawn_network(rng, *, heads, tokens, dim, outputs, scale=1.0):
    """A network of float32 numbers; logits have the scale."""
    return Network(
        tuple(
            Head(
                float32(scale * rng.normal(size=(tokens, dim))),
                float32(scale * rng.normal(size=tokens)),
                float32(rng.normal(size=(tokens, outputs))),
            )
            for _ in range(heads)
        )
    )


def corners(box):
    """The corners of a box, or some thousands of them."""
    ends = itertools.product(*zip(box.lower, box.upper, strict=True))
    return np.array(list(itertools.islice(ends, 4096)))


def points_of(box, rng, number=200):
    """Points of the box, and its corners."""
    return np.vstack([rng.uniform(box.lower, box.upper, (number, len(box.lower))), corners(box)])


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Files:
    """The files of an instance in a folder; `write` makes hashes consistent, as a forger would."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.wanted = read_property((folder / f"vnnlib/{name}.vnnlib").read_text())
        self.path = folder / f"proofs/{name}.json"
        self.proof = json.loads(self.path.read_text())

    def write(self, wanted=None, second=None):
        wanted = wanted or self.wanted
        texts = {"vnnlib": version_1(wanted), "vnnlib2": version_2(second or wanted)}
        for part in texts.keys() & self.proof.keys():
            (self.folder / part / f"{self.name}.vnnlib").write_text(texts[part])
            self.proof[part] = sha256(texts[part].encode()).hexdigest()
        self.path.write_text(json.dumps(self.proof))
