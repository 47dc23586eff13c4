"""Graphs with a saturated layer before, or units of Relu behind: what the checker makes of them."""

import numpy as np
import onnxruntime
import pytest
from checker_parts import (
    changed,
    problem,
    refused,
    replace_constant,
    unit_box,
)
from onnx import helper, numpy_helper

from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.graphs import written
from constructive.instances.network import LEAD, Rectified, Stacked

ABOVE = ((Atom([1.0], 0.5),),)


def stacked(lead=LEAD + 16.0, seed=0):
    """Two layers with two inputs; the first token of the first leads by about so much."""
    rng = np.random.default_rng(seed)
    slopes = np.array([[0.5, -0.25], [0.25, 0.5], [-0.5, 0.0]])
    values = rng.integers(-4, 5, (3, 2)) / 4.0
    first = Network((Head(slopes, [lead, 0.0, 1.0], values),))
    second = Head(rng.integers(-8, 9, (4, 2)) / 4.0, np.zeros(4), rng.integers(-8, 9, (4, 1)) / 8.0)
    return Stacked((second,), first)


def rectified(seed=0):
    rng = np.random.default_rng(seed)

    def drawn(*shape):
        return rng.integers(-8, 9, shape) / 8.0

    heads = [Head(drawn(3, 2), drawn(3), drawn(3, 2)) for _ in range(2)]
    units = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    return Rectified(tuple(heads), units, drawn(4))


def graph_of(model):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def outputs(session, points):
    return np.array([session.run(None, {"X": np.float32(x)[None]})[0][0, 0] for x in points])


def grid(count=200, seed=1):
    return np.float32(np.random.default_rng(seed).uniform(-1, 1, (count, 2)))


@pytest.mark.parametrize("seed", range(6))
def test_two_layers_are_the_second_of_a_shifted_input(checker, seed):
    network = stacked(seed=seed)
    read = problem(checker, written(network), unit_box(), ABOVE)
    heads = checker.softmaxes.heads_of(read.outputs, ((0, 1),))
    assert 0 < checker.softmaxes.doubt_of(heads) < 2.0**-150
    evidence = {"atom": 0, "kind": "interval"}
    most = checker.softmaxes.REFUTATIONS["interval"](heads, read.box, evidence)
    found = outputs(graph_of(written(network)), grid())
    assert found.max() <= float(most) + 1e-6
    off = float(read.rounding(read.alternatives[0][0]))
    assert np.abs(found - network(grid().astype(float))[:, 0]).max() <= off < 1e-3


@pytest.mark.parametrize("lead", [64.0, LEAD - 1.0])
def test_a_layer_that_is_not_saturated_is_refused(checker, lead):
    with refused("not saturated"):
        problem(checker, written(stacked(lead)), unit_box(), ABOVE)
    network = stacked(lead)
    assert network.error(unit_box()) == np.inf


@pytest.mark.parametrize("lead", [129.875, 130.0])
def test_the_lead_is_the_least_on_the_box(checker, lead):
    """The others come as near as 2 where x = (0, 1), and one is far below."""
    slopes = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])
    first = Network((Head(slopes, [lead, 0.0, -500.0], np.ones((3, 2))),))
    network = Stacked(stacked().heads, first)
    with refused(None if lead == 130.0 else "not saturated"):
        problem(checker, written(network), Box([0.0, 0.0], [1.0, 1.0]), ABOVE)


def test_sizes_and_roundings_of_a_sum_of_both(checker):
    """A sum has two roundings, of the average and of the sum; with an input of 0 it has one."""
    values = np.array([[5.0, -2.0], [1.0, 3.0], [-6.0, 0.0]])
    first = Head(stacked().first.heads[0].slopes, [LEAD + 16.0, 0.0, 1.0], values)
    (second,) = stacked().heads
    data = written(Stacked((second,), Network((first,))))
    for box in (unit_box(), Box([-1.0, 0.0], [1.0, 0.0])):
        read = problem(checker, data, box, ABOVE)
        (part,) = read.outputs[0]
        reach = box.upper + np.array([6.0, 3.0])
        assert np.allclose(part.logits.sizes, np.abs(second.slopes) @ reach)
        assert part.logits.steps.tolist() == (2 + (second.slopes != 0).sum(axis=1)).tolist()
        least = 6.0 * np.abs(second.slopes).sum(axis=1).max()  # values, times how steep logits are
        assert 8.0 * 2.0**-75 * least <= part.logits.lost < 9.0 * 2.0**-75 * least
        assert 3.0 * 2.0**-183 * least <= part.logits.doubt < 4.0 * 2.0**-183 * least


@pytest.mark.parametrize(
    ("start", "words"), [("query", "more than the input"), ("X", "more than two layers")]
)
def test_a_third_layer_and_other_sums_are_refused(checker, start, words):
    data = written(stacked())

    def twice(model):
        """The query of the second layer goes through the first one again."""
        nodes = list(model.graph.node)
        place = next(k for k, node in enumerate(nodes) if node.output[0] == "query") + 1
        for node in nodes[place:]:
            node.input[:] = ["query2" if name == "query" else name for name in node.input]
        again = [
            helper.make_node("Gemm", ["query", "A0_before", "b0_before"], ["logits2"]),
            helper.make_node("Softmax", ["logits2"], ["attention2"], axis=1),
            helper.make_node("MatMul", ["attention2", "V0_before"], ["before2"]),
            helper.make_node("Add", [start, "before2"], ["query2"]),
        ]
        del model.graph.node[:]
        model.graph.node.extend([*nodes[:place], *again, *nodes[place:]])

    with refused(words):
        problem(checker, changed(data, twice), unit_box(), ABOVE)

    def doubled(model):
        next(n for n in model.graph.node if n.output[0] == "query").input[0] = "before"

    with refused("weights of units"):
        problem(checker, changed(data, doubled), unit_box(), ABOVE)


@pytest.mark.parametrize("seed", range(6))
def test_a_readout_is_the_largest_of_its_pieces(checker, seed):
    network = rectified(seed)
    read = problem(checker, written(network), unit_box(), ABOVE)
    assert len(read.alternatives) == 15
    heads, pieces, _ = network.reduced(Property(unit_box(), ABOVE))
    for (ours,), (theirs,) in zip(pieces.disjuncts, read.alternatives, strict=True):
        assert float(theirs.threshold) == ours.threshold
        assert dict(theirs.weights) == dict(enumerate(ours.coefficients))
    values = heads(grid().astype(float))
    found = outputs(graph_of(written(network)), grid())
    largest = np.max([values @ a.coefficients + (0.5 - a.threshold) for (a,) in pieces.disjuncts],
                     axis=0)  # fmt: skip
    assert np.abs(np.maximum(largest, 0.0) - found).max() < 1e-5
    off = float(read.rounding(read.alternatives[0][0]))
    assert np.abs(found - network(grid().astype(float))[:, 0]).max() <= off < 1e-3


def weights(name, change):
    def edit(model):
        array = next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name)
        replace_constant(model, name, change(array.copy()).astype(np.float32))

    return edit


def without_relu(model):
    nodes = [node for node in model.graph.node if node.op_type != "Relu"]
    nodes[-1].input[0] = "before_relu"
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def relu_of_features(model):
    next(n for n in model.graph.node if n.op_type == "Relu").input[0] = "features"


def more_units(model):
    for name, array in (
        ("units", np.eye(2, 11)),
        ("biases", np.ones(11)),
        ("ones", np.ones((11, 1))),
    ):
        replace_constant(model, name, array.astype(np.float32))


def wider(model):
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2


def computed_ones(model):
    """Ones are sums 2^30 + 1 - 2^30, which float32 programs may find to be zeros."""
    replace_constant(model, "ones", np.full((4, 3), [2.0**30, 1.0, -(2.0**30)], np.float32))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 1), np.float32), "terms"))
    model.graph.node.insert(0, helper.make_node("MatMul", ["ones", "terms"], ["sums"]))
    model.graph.node[-1].input[1] = "sums"


REFUSED = {
    "of three features": (weights("units", lambda w: np.vstack([w, w[:1]])), "units misfit"),
    "eleven": (more_units, "too many"),
    "two outputs": (wider, "shape of Y"),
    "computed": (computed_ones, "anything but attention or units"),
    "half": (weights("units", lambda w: w / 2.0), "not -1, 0, 1"),
    "less of one": (weights("ones", lambda w: w * [[1.0], [1.0], [1.0], [0.5]]), "not the sum"),
    "no relu": (without_relu, "not the sum"),
    "relu of heads": (relu_of_features, "not used|anything but units"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_readouts_are_refused(checker, name):
    change, words = REFUSED[name]
    with refused(words):
        problem(checker, changed(written(rectified()), change), unit_box(), ABOVE)


@pytest.mark.parametrize(
    "atoms", [(Atom([-1.0], -0.5),), (Atom([1.0], 0.0),), (Atom([1.0], 0.5), Atom([1.0], 0.25))]
)
def test_other_questions_about_a_readout_are_refused(checker, atoms):
    with refused("from above|never below"):
        problem(checker, written(rectified()), unit_box(), (atoms,))


# Answers of float32 programs: what they compute of rows of one product and one sum.


def constant(slopes, offsets=(0.0, 0.0), values=((1.0,), (0.0,))):
    return Network((Head(np.array(slopes), np.array(offsets), np.array(values)),))


def computed(checker, network, box, disjuncts=ABOVE):
    read = problem(checker, written(network), box, disjuncts)
    return float(checker.softmaxes.computed_most(read.outputs, ((0, 1),), read.box, read.model))


@pytest.mark.parametrize("row", [[3.0, 0.0], [0.5, 0.0], [1.0, 1.0], [1.0, -2.0]])
def test_logits_of_more_than_one_rounding_are_refused(checker, row):
    with refused("not one rounding"):
        computed(checker, constant([row, [0.0, 0.0]]), unit_box())
    assert computed(checker, constant([[4.0, 0.0], [0.0, -1.0]]), unit_box()) < 1.0


HALF = constant(np.zeros((2, 2)))
AT_LEAST = {c: Atom([1.0], c) for c in (0.25, 0.75)}
LITTLE = Atom([-1.0], -0.25)


@pytest.mark.parametrize(
    ("disjuncts", "sat", "unsat"),
    [
        (((AT_LEAST[0.25],),), True, False),
        (((AT_LEAST[0.75],),), False, True),
        (((AT_LEAST[0.25], LITTLE),), False, True),
        (((AT_LEAST[0.75],), (AT_LEAST[0.25],)), True, False),
        (((AT_LEAST[0.25], LITTLE), (AT_LEAST[0.75],)), False, True),
    ],
)
def test_conditions_hold_together_and_alternatives_one_by_one(checker, disjuncts, sat, unsat):
    """All programs return one half, but for some roundings."""
    read = problem(checker, written(HALF), unit_box(), disjuncts)
    for answer, right in (("sat", sat), ("unsat", unsat)):
        content = {"answer": answer} | ({"witness": ["0", "0"]} if answer == "sat" else {})
        if right:
            assert checker.folder.in_float32(read, content)[1] > 0.2
        else:
            with refused("not shown"):
                checker.folder.in_float32(read, content)
