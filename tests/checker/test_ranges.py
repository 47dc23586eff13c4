"""Intervals of graphs of operators: no exact output and no computed one is outside."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from network_balls import enclosed

from constructive import ParameterError
from constructive.instances import Atom, Property, Refutations
from constructive.instances.graphs import Drawing, OperatorGraph, graph_of, written
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


# Graphs whose values have more axes or more rows than one: operators along axis 1 see less.
CUBE, COLUMN, TWO_ROWS = np.zeros((1, 1, 1)), np.zeros((2, 1)), np.array([[0.0, 4.0], [2.0, 1.0]])


def joined(made, x):
    first, second = made.split(x)
    return made.node("Concat", second, first, axis=1)


def averaged(made, x):
    return made.node("ReduceMean", x, axes=[1], keepdims=1)


def attended(made, x):
    return made.node("Softmax", x, axis=1)


def scaled(made, x, scale):
    return made.node("LayerNormalization", x, made.constant("s", scale), made.constant("b", [0, 0]))


def pooled(made, x, size):
    return made.node("MaxPool", x, kernel_shape=[size], strides=[size])


def clipped(made, x):
    return made.node("Clip", x, made.constant("low", CUBE), made.constant("high", CUBE + 1.0))


def flat(made, x):
    return made.node("Flatten", x, axis=1)


@pytest.mark.parametrize(
    ("inputs", "operator", "number", "after", "words"),
    [
        (2, "Add", CUBE, attended, "not a row"),
        (2, "Add", CUBE, averaged, "not a row"),
        (1, "Add", COLUMN, averaged, "not a row"),
        (1, "Max", TWO_ROWS, joined, "not a row"),
        (2, "Add", CUBE, lambda made, x: scaled(made, x, [1, 1]), "not a row"),
        (2, "Add", [0, 0], lambda made, x: scaled(made, x, COLUMN), "misfit"),
        (1, "Add", COLUMN, flat, "several rows"),
        (1, "Add", COLUMN[None], lambda made, x: pooled(made, x, 1), ""),
        (1, "Add", np.zeros((2, 1, 2)), lambda made, x: pooled(made, x, 2), "windows"),
        (2, "Add", [0, 0], clipped, "not numbers"),
        (2, "Pow", CUBE + 3.0, attended, "neither 2 nor 3"),
        (2, "Add", CUBE, lambda made, x: attended(made, flat(made, x)), ""),
        (2, "Add", [0, 0], attended, ""),
    ],
)  # fmt: skip
def test_values_have_the_axes_that_onnx_gives_them(checker, inputs, operator, number, after, words):
    made = Drawing()
    after(made, made.node(operator, "X", made.constant("c", number)))
    made.node("Reshape", made.nodes[-1].outputs[0], made.constant("r", [1, 2], np.int64))
    made.end()
    graph = graph_of(OperatorGraph(inputs, 2, made.nodes, made.constants, 17))
    asked = graph, checker.ranges.constants_of(graph), [0] * inputs, [1] * inputs
    if words:
        with pytest.raises(ValueError, match=words):
            checker.ranges.outputs_on(*asked)
    else:
        assert len(checker.ranges.outputs_on(*asked)) == 2


@pytest.mark.parametrize(("operator", "opset"), [("Gelu", 13), ("LayerNormalization", 13)])
def test_operators_are_those_of_their_opset(checker, operator, opset):
    names = {"Gelu": "gelu", "LayerNormalization": "normalization"}
    network, box = _network(CASES[names[operator]], 1, np.random.default_rng(0))
    graph = graph_of(OperatorGraph(1, 1, network.nodes, network.constants, opset))
    with pytest.raises(ValueError, match="of opset 13 is refused"):
        checker.ranges.outputs_on(graph, checker.ranges.constants_of(graph), *[[0]] * 2)
    assert len(box.lower) == 1
