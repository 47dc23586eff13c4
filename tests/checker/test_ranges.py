"""Intervals of graphs of operators: no exact output and no computed one is outside."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from network_balls import enclosed

from constructive import ParameterError
from constructive.instances import Atom, Property, Refutations
from constructive.instances.graphs import OperatorGraph, graph_of, written
from constructive.instances.instance import Witness
from constructive.instances.making import FAMILIES
from constructive.instances.operator import CASES, _network

SEEDS = range(3)
KINDS = "operator", "narrow", "spelling"


def unit(values, checker):
    return [round(Fraction(float(x)) * (1 << checker.operators.UNIT)) for x in values]


def cells(box, rng):
    """The whole box, parts of it, and points."""
    ends = box.lower, box.upper
    yield ends
    for _ in range(6):
        one, other = (rng.uniform(*ends).astype(np.float32).astype(float) for _ in range(2))
        yield (
            np.maximum(np.minimum(one, other), ends[0]),
            np.minimum(np.maximum(one, other), ends[1]),
        )
    yield ends[0], ends[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_output_is_outside_of_its_interval(checker, name, seed):
    rng = np.random.default_rng(seed)
    network, box = _network(CASES[name], 2, rng)
    graph = graph_of(network)
    constants = checker.ranges.constants_of(graph)
    session = onnxruntime.InferenceSession(written(network), providers=["CPUExecutionProvider"])
    for low, high in cells(box, rng):
        try:
            (found,) = checker.ranges.outputs_on(
                graph, constants, unit(low, checker), unit(high, checker)
            )
        except checker.ranges.UnboundedError:
            continue
        least, most = float(found.a), float(found.b)
        for share in (0.0, 1.0, *rng.uniform(size=10)):
            point = np.clip((low + share * (high - low)).astype(np.float32), low, high)
            (exact,) = enclosed(network, point.tolist())
            (computed,) = session.run(None, {"X": point[None].astype(np.float32)})
            assert least < float(exact.mid()) < most
            assert least < computed[0, 0] < most
        if (low == high).all():
            assert most - least < 1e-3 * max(1.0, abs(most)), "a point has a narrow interval"


def test_the_intervals_of_one_unit_are_exact_ranges(checker):
    """But for the rounding of programs, which is below 1e-4 here: monotone pieces."""
    mpf, functions = checker.operators.INTERVALS.mpf, checker.ranges.FUNCTIONS
    for name, low, high, least, most in (
        ("Cos", -0.479, 2.539, np.cos(2.539), 1.0),
        ("Sin", 1.0, 5.0, -1.0, 1.0),
        ("Gelu", -2.0, 0.5, -0.16997, 0.34573),
        ("Gelu", -0.7515, -0.7514, -0.16998, -0.16997),
        ("Erf", -7.0, 0.25, -1.0, 0.27632),
        ("Sigmoid", -20.0, 20.0, 0.0, 1.0),
        ("Tanh", -20.0, 0.5, -1.0, np.tanh(0.5)),
        ("Log", 0.25, 16.0, np.log(0.25), np.log(16.0)),
    ):
        found = functions[name](mpf([low, high]))
        assert float(found.a) == pytest.approx(least, abs=1e-4), name
        assert float(found.b) == pytest.approx(most, abs=1e-4), name
    square = checker.ranges.OPERATORS["Pow"].compute
    two = checker.ranges.constant(np.array(2.0, np.float32))
    (found,) = square([checker.ranges.Value((1, 1), [mpf([-4.5, -0.25])]), two], {}).entries
    assert float(found.a) == pytest.approx(0.0625, abs=1e-4)
    assert float(found.b) == pytest.approx(20.25, abs=1e-4)


@pytest.fixture(scope="module")
def made():
    return [
        each
        for kind in KINDS
        for seed in SEEDS
        for each in FAMILIES[kind]().make(2, seed=seed, name=f"{kind}_{seed}")
    ]


def test_forged_proofs_are_refused(made):
    for each in made:
        if isinstance(each.proof, Witness):
            box = each.property.box
            for point in (each.proof.point[:-1], [*each.proof.point, Fraction(0)],
                          [Fraction(x) for x in (box.upper + 1.0).tolist()]):  # fmt: skip
                with pytest.raises(ParameterError, match="no proof"):
                    replace(each, proof=Witness(tuple(point)))
            continue
        parts = each.proof.parts
        atom = each.property.disjuncts[0][0]
        less = replace(
            parts[0], most=parts[0].most - 3 * Fraction(atom.threshold - float(parts[0].most))
        )
        for forged in ((), parts * 2, (replace(parts[0], atom=1), *parts[1:]), (less, *parts[1:])):
            with pytest.raises(ParameterError, match="no proof"):
                replace(each, proof=Refutations(tuple(forged)))
        lower = Atom(atom.coefficients, float(np.float32(float(less.most))))
        wanted = Property(each.property.box, ((lower,), *each.property.disjuncts[1:]))
        with pytest.raises(ParameterError, match="no proof"):
            replace(each, property=wanted)


def changed(network, **fields):
    return replace(network, **fields)


def edited(network, operator, **attributes):
    nodes = [
        n._replace(attributes=attributes) if n.operator == operator else n for n in network.nodes
    ]
    return replace(network, nodes=nodes)


def test_graphs_that_are_not_understood_are_refused(checker):
    """Attributes, shapes, constants and opsets, each of which would change what a graph is."""
    network, box = _network(CASES["pool"], 2, np.random.default_rng(0))
    numbers = dict(network.constants)
    for forged, words in (
        (edited(network, "MaxPool", kernel_shape=[2], strides=[1]), "windows"),
        (edited(network, "MaxPool", kernel_shape=[2]), "attributes"),
        (edited(network, "MaxPool", kernel_shape=[2], strides=[2], pads=[0, 0]), "attributes"),
        (edited(network, "Flatten", axis=2), "another axis"),
        (edited(network, "Flatten", axis=1.0), "attributes"),
        (edited(network, "Gemm", alpha=2.0), "factors"),
        (edited(network, "Gemm", transA=1), "transposed"),
        (edited(network, "Gemm", alpha=1), "attributes"),
        (changed(network, output_dim=2), "shape of Y"),
        (changed(network, input_dim=3), "number of inputs"),
        (changed(network, constants=numbers | {"row": np.array([1, 1, 5])}), "shape misfits"),
        (changed(network, constants=numbers | {"row": np.float32([1, 1, 4])}), "row of integers"),
        (changed(network, constants=numbers | {"c": np.float32([1e-40])}), "small"),
        (
            changed(network, constants=numbers | {"v": np.arange(2)[:, None]}),
            "float32",
        ),
    ):
        graph = graph_of(forged)
        with pytest.raises(ValueError, match=words):
            checker.ranges.outputs_on(
                graph, checker.ranges.constants_of(graph),
                unit(box.lower, checker), unit(box.upper, checker),
            )  # fmt: skip


@pytest.mark.parametrize(("operator", "opset"), [("Gelu", 13), ("LayerNormalization", 13)])
def test_operators_are_those_of_their_opset(checker, operator, opset):
    names = {"Gelu": "gelu", "LayerNormalization": "normalization"}
    network, box = _network(CASES[names[operator]], 1, np.random.default_rng(0))
    graph = graph_of(OperatorGraph(1, 1, network.nodes, network.constants, opset))
    with pytest.raises(ValueError, match="of opset 13 is refused"):
        checker.ranges.outputs_on(graph, checker.ranges.constants_of(graph), *[[0]] * 2)
    assert len(box.lower) == 1
