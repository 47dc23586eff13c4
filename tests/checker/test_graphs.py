"""ONNX graphs as the checker reads them: what it takes, and all that it refuses."""

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from checker_parts import (
    changed,
    ints,
    network,
    problem,
    refused,
    unit_box,
)
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.graphs import written
from constructive.instances.network import LEAD, Rectified, Stacked
from constructive.instances.properties import version_1, version_2

BASE = network()
FIRST = ((Atom([1.0, 0.0], 0.0),),)
"""The first of two outputs is not negative."""


@pytest.fixture(scope="module")
def data():
    return written(BASE)


def values(checker, made, point, weights):
    """w . f at a point, from below, by the checker."""
    heads = checker.softmaxes.heads_of(made.outputs, weights)
    exact = checker.operators.integers(np.asarray(point, np.float32))
    return float(checker.softmaxes.least_at(heads, made.box, exact))


@pytest.mark.parametrize(("heads", "outputs"), [(1, 1), (2, 1), (3, 2)])
def test_graphs_are_read_as_networks(checker, heads, outputs):
    made = network(heads, 4, 3, outputs, seed=heads)
    first = ((Atom(np.eye(outputs)[0], 0.0),),)
    read = problem(checker, written(made), unit_box(3), first)
    random = np.random.default_rng(0)
    for point in random.uniform(-1, 1, (5, 3)).astype(np.float32):
        expected = made(point[None])[0]
        for k in range(outputs):
            assert abs(values(checker, read, point, ((k, 1),)) - expected[k]) < 1e-12
        if outputs > 1:
            apart = values(checker, read, point, ((0, 1), (1, -1)))
            assert abs(apart - (expected[0] - expected[1])) < 1e-12


def node(operator):
    """The first node of an operator."""

    def find(model):
        return next(each for each in model.graph.node if each.op_type == operator)

    return find


def attribute(operator, name, value):
    def change(model):
        found = node(operator)(model)
        kept = [each for each in found.attribute if each.name != name]
        del found.attribute[:]
        found.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def with_fields(where, **fields):
    """Set fields of a part of the model."""

    def change(model):
        part = where(model)
        for name, value in fields.items():
            setattr(part, name, value)

    return change


def constant(name):
    return lambda model: next(each for each in model.graph.initializer if each.name == name)


def add_constant(name, array):
    def change(model):
        model.graph.initializer.append(numpy_helper.from_array(array, name))

    return change


def edited(name, change):
    """A constant after a change of its array."""

    def edit(model):
        found = constant(name)(model)
        array = change(numpy_helper.to_array(found).copy())
        found.CopyFrom(numpy_helper.from_array(array, name))

    return edit


def zeros(shape):
    return lambda _: np.zeros(shape, np.float32)


def with_first(value):
    """The array with another first entry."""

    def change(array):
        array.flat[0] = value
        return array

    return change


def attention_as_output(model):
    found = model.graph.node[-1]
    found.op_type = "Softmax"
    found.input[:] = ["logits1"]


def relu_of(model, name):
    """The sum of Relu of a value, and itself."""
    found = next(each for each in model.graph.node if each.name == "Y")
    place = list(model.graph.node).index(found)
    model.graph.node.insert(place, helper.make_node("Relu", [name], ["relu"], name="relu"))
    found.input[0] = "relu"


def second_axis(model):
    node("Softmax")(model).attribute.append(helper.make_attribute("axis", 1))


def typed_as_float(model):
    node("Softmax")(model).attribute[0].type = onnx.AttributeProto.FLOAT


def without_value(model):
    node("Softmax")(model).attribute[0].ClearField("i")


def external(model):
    found = constant("V0")(model)
    found.ClearField("raw_data")
    found.data_location = TensorProto.EXTERNAL
    found.external_data.add(key="location", value="weights.bin")


def backwards(model):
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[::-1])


def sizes(value):
    """Of the axes of an input or an output."""
    return value.type.tensor_type.shape.dim


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


REFUSED = {
    "domain": (with_fields(node("Softmax"), domain="com.microsoft"), "domain"),
    "opset": (with_fields(lambda m: m.opset_import[0], version=12), "one opset"),
    "version": (with_fields(lambda m: m, ir_version=3), "version"),
    "axis": (attribute("Softmax", "axis", 0), "another axis"),
    "attribute": (attribute("Softmax", "temperature", 2), "not understood"),
    "axes": (attribute("Softmax", "axis", [1]), "another axis"),
    "transA": (attribute("Gemm", "transA", 1), "not understood"),
    "axis twice": (second_axis, "given twice"),
    "attribute of a float": (typed_as_float, "not a number"),
    "attribute of nothing": (without_value, "not a number"),
    "float64": (edited("V0", np.float64), "neither float32"),
    "NaN": (edited("V0", with_first(np.nan)), "not finite"),
    "external": (external, "field"),
    "sparse": (lambda m: m.graph.sparse_initializer.add(), "field"),
    "function": (lambda m: m.functions.add(name="f", domain=""), "field"),
    "symbolic": (with_fields(lambda m: sizes(m.graph.input[0])[0], dim_param="N"), "field|static"),
    "unknown size": (lambda m: sizes(m.graph.input[0])[1].Clear(), "static"),
    "second input": (lambda m: m.graph.input.append(floats("Z", 1, 2)), "one input"),
    "second output": (
        lambda m: m.graph.output.append(floats("head0", 1, 2)), "one input and one output"
    ),
    "double": (
        with_fields(lambda m: m.graph.input[0].type.tensor_type, elem_type=TensorProto.DOUBLE),
        "not float32",
    ),
    "backwards": (backwards, "before its inputs"),
    "shadow": (lambda m: m.graph.node[0].output.__setitem__(0, "V1"), "twice"),
    "unused constant": (add_constant("more", np.zeros(2, np.float32)), "not used"),
    "repeated constant": (add_constant("V0", np.zeros((3, 2), np.float32)), "twice"),
    "another shape": (
        with_fields(lambda m: sizes(m.graph.output[0])[1], dim_value=3), "shape of Y"
    ),
    "Y from elsewhere": (with_fields(lambda m: m.graph.output[0], name="logits0"), "not used"),
    "empty input": (lambda m: node("Gemm")(m).input.append(""), "not used|not there"),
    "batch": (with_fields(lambda m: sizes(m.graph.input[0])[0], dim_value=2), "another number"),
}  # fmt: skip


@pytest.mark.parametrize("operator", ["Hardmax", "Identity", "LogSoftmax", "Mul", "Sub"])
def test_other_operators_are_refused(checker, data, operator):
    other = changed(data, with_fields(node("Softmax"), op_type=operator))
    with refused(f"the operator '{operator}' is refused"):
        problem(checker, other, unit_box(), FIRST)


@pytest.mark.parametrize("axis", [None, 1, -1])
def test_the_last_axis(checker, data, axis):
    def change(model):
        for each in model.graph.node:
            if each.op_type == "Softmax":
                del each.attribute[:]
                each.attribute.extend([helper.make_attribute("axis", axis)] if axis else [])

    read = problem(checker, changed(data, change), unit_box(), FIRST)
    assert abs(values(checker, read, [0.5, 0.25], ((0, 1),)) - BASE([[0.5, 0.25]])[0, 0]) < 1e-12


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(checker, data, name):
    change, words = REFUSED[name]
    other = changed(data, change)
    assert other != data
    with refused(words):
        problem(checker, other, unit_box(), FIRST)


def wired(name, place, other):
    """Another input of a node."""

    def change(model):
        found = next(each for each in model.graph.node if each.name == name)
        found.input[place] = other

    return change


MISFITS = {
    "logits of logits": (wired("logits1", 0, "logits0"), "anything but a query"),
    "a factor that varies": (wired("logits1", 1, "logits0"), "not constant"),
    "offsets that vary": (wired("logits1", 2, "logits0"), "not constant"),
    "two outputs": (lambda m: node("Gemm")(m).output.append("more"), "other inputs or outputs"),
    "no offsets": (lambda m: node("Gemm")(m).input.pop(), "other inputs or outputs"),
    "softmax of the input": (wired("attention1", 0, "X"), "anything but logits"),
    "averages of the input": (wired("head1", 0, "X"), "anything but attention"),
    "values that vary": (wired("head1", 1, "attention0"), "not constant"),
    "values of one axis": (wired("head1", 1, "b1"), "not constant"),
    "values of other tokens": (wired("head1", 1, "A1"), "weights and values"),
    "a sum with logits": (wired("Y", 1, "logits1"), "summands"),
    "a sum with a constant": (wired("Y", 1, "V1"), "summands"),
    "Y of no heads": (attention_as_output, "Y is not of heads"),
    "relu of heads": (lambda m: relu_of(m, "head0"), "anything but units"),
    "offsets of a matrix": (wired("logits1", 2, "A1"), "misfit"),
    "offsets of another length": (edited("b1", zeros(2)), "misfit"),
    "factors of another number of inputs": (edited("A1", zeros((3, 3))), "do not fit"),
    "heads of other outputs": (edited("V1", zeros((3, 1))), "summands"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_operators_take_nothing_else(checker, data, name):
    change, words = MISFITS[name]
    graph = checker.graphs.read_graph(data)
    model = onnx.ModelProto.FromString(data)
    change(model)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = [checker.graphs.node(each.SerializeToString()) for each in model.graph.node]
    # what is not used is refused before
    graph = graph._replace(constants=constants, nodes=nodes)
    with refused(words):
        checker.operators.evaluate(graph, *ints(unit_box(), checker))


def varint(value):
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def test_bytes_that_readers_may_take_in_two_ways(checker, data):
    read = checker.graphs.read_graph
    assert read(data)
    for other, words in (
        (data + data[:2], "repeated"),  # the version again
        (data + b"\x10\x01", "another type"),  # field 2 as an integer
        (data + b"\xf8\x07\x01", "understood"),  # field 127
        (data + b"\x08" + b"\xff" * 10 + b"\x01", "too long"),
        (data[:-1], "cut off"),
        (data + b"\x08", "cut off"),
        (data + b"\x12" + varint(1 << 40), "cut off"),
        (b"", "version"),
    ):
        with refused(words):
            read(other)
    for length in range(len(data)):
        with refused(" "):
            read(data[:length])


def test_integers_of_messages(checker):
    for value in (0, 1, 127, 128, 300, 2**63, 2**64 - 1):
        assert checker.graphs.varint(varint(value), 0) == (value, len(varint(value)))
    assert checker.graphs.signed(2**64 - 1) == -1
    assert checker.graphs.signed(2**63 - 1) == 2**63 - 1
    with refused("too long"):
        checker.graphs.varint(varint(2**64), 0)


def test_sizes_are_those_on_the_box(checker):
    """The larger end counts, and an input that is always zero makes no term."""
    made = network(1, 3, 2, 1, seed=1)
    head = made.heads[0]
    flush = checker.operators.FLUSH
    for low, high in (([-3.0, -0.5], [1.0, 2.0]), ([-1.0, 0.0], [3.0, 0.0])):
        read = problem(checker, written(made), Box(low, high))
        (part,) = read.outputs[0]
        reach = np.maximum(np.abs(low), np.abs(high))
        assert np.allclose(part.logits.sizes, np.abs(head.slopes) @ reach + np.abs(head.offsets))
        terms = (head.slopes[:, reach > 0] != 0).sum(axis=1) + (head.offsets != 0)
        assert part.logits.steps.tolist() == terms.tolist()
        # each number may be lost as it is loaded, and each product
        least = flush * (reach.sum() + np.abs(head.slopes).sum(axis=1).max() + len(reach))
        assert 4.0 * least <= part.logits.lost < 5.0 * least


def test_graphs_that_are_too_large_are_refused(checker, data, as_if):
    as_if("operators", MOST=9)  # three logits of two inputs, and their offsets
    assert problem(checker, data, unit_box(), FIRST)
    as_if("operators", MOST=8)
    with refused("too large"):
        problem(checker, data, unit_box(), FIRST)


# What float32 does to graphs: evaluations of all kinds are within the checker's bound.

FLOAT = np.float32


def bounds(checker, made, box):
    """Of each output, and what the graph says of its rows."""
    conditions = ((Atom(np.eye(made.output_dim)[0], 0.0),),)
    read = problem(checker, written(made), box, conditions)
    rounding = checker.softmaxes.rounding_of
    found = [rounding(read.outputs, ((k, 1),), read.model) for k in range(made.output_dim)]
    return np.array(found), read


def computed(made, points):
    """What onnxruntime returns at float32 points."""
    session = onnxruntime.InferenceSession(written(made), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"X": x[None]})[0] for x in points])


def test_onnxruntime_is_within_the_bound(checker):
    made = network(3, 5, 4, 2, seed=6, size=3.0)
    bound, _ = bounds(checker, made, unit_box(4))
    points = np.random.default_rng(0).uniform(-1, 1, (200, 4)).astype(FLOAT)
    assert (np.abs(computed(made, points) - made(points)) <= bound).all()
    assert onnx.ModelProto.FromString(written(made)).opset_import[0].version == 13


def single(slopes, offsets, values=None):
    values = np.eye(len(offsets))[:, :1] if values is None else values
    return Network((Head(slopes, offsets, values),))


def test_logits_that_may_overflow_are_refused(checker):
    for made in (
        single([[2.0**120], [0.0]], [0.0, 0.0]),
        single([[0.0], [0.0]], [2.0**101, 0.0]),
        single([[2.0**99], [0.0]], [2.0**99, 0.0]),
    ):
        with refused("on the way"):
            problem(checker, written(made), unit_box(1))


def test_numbers_that_may_overflow_are_refused(checker):
    for made in (
        single([[1.0], [0.0]], [0.0, 0.0], [[2.0**120], [0.0]]),
        single([[2.0**98]] + [[0.0]] * 7, [0.0] * 8),
    ):
        with refused("overflow"):
            bounds(checker, made, unit_box(1))


def test_errors_of_logits_averages_and_sums_multiply(checker):
    """Of two heads, whose values are of size 3."""
    head = Head([[2.0**20], [0.0]], [0.0, 0.0], [[3.0], [0.0]])
    bound, read = bounds(checker, Network((head, head)), unit_box(1))
    model, (part, _) = checker.float_model, read.outputs[0]
    logits = 2.0**20 * model.gamma_of(read.model, 3)
    larger = float(model.growth(np.float64(2.0 * logits)))
    zeta = float(model.averaged(read.model, np.float64(2.0))[0])
    others = float(model.gamma_of(read.model, part.steps))
    whole = 2 * 3.0 * ((1.0 + larger) * (1.0 + zeta) * (1.0 + others) - 1.0)
    assert min(larger, 1e7 * others) > 0.3
    assert whole <= bound[0] < whole * (1.0 + 1e-6)


# Graphs with a saturated layer before, or units of Relu behind.

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
    found = computed(network, grid())[:, 0]
    assert found.max() <= float(most) + 1e-6
    off = float(read.rounding(read.alternatives[0][0]))
    assert np.abs(found - network(grid().astype(float))[:, 0]).max() <= off < 1e-3


@pytest.mark.parametrize("lead", [64.0, LEAD - 1.0])
def test_a_layer_that_is_not_saturated_is_refused(checker, lead):
    with refused("not saturated"):
        problem(checker, written(stacked(lead)), unit_box(), ABOVE)


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

    with refused("weights of units"):
        problem(checker, changed(data, wired("query", 0, "before")), unit_box(), ABOVE)


@pytest.mark.parametrize("seed", range(6))
def test_a_readout_is_the_largest_of_its_pieces(checker, seed):
    network = rectified(seed)
    read = problem(checker, written(network), unit_box(), ABOVE)
    assert len(read.alternatives) == 15
    heads, pieces = network.reduced(Property(unit_box(), ABOVE))
    for (ours,), (theirs,) in zip(pieces.disjuncts, read.alternatives, strict=True):
        assert float(theirs.threshold) == ours.threshold
        assert dict(theirs.weights) == dict(enumerate(ours.coefficients))
    values = heads(grid().astype(float))
    found = computed(network, grid())[:, 0]
    largest = np.max([values @ a.coefficients + (0.5 - a.threshold) for (a,) in pieces.disjuncts],
                     axis=0)  # fmt: skip
    assert np.abs(np.maximum(largest, 0.0) - found).max() < 1e-5
    off = float(read.rounding(read.alternatives[0][0]))
    assert np.abs(found - network(grid().astype(float))[:, 0]).max() <= off < 1e-3


def without_relu(model):
    nodes = [node for node in model.graph.node if node.op_type != "Relu"]
    nodes[-1].input[0] = "before_relu"
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def more_units(model):
    for name, array in (
        ("units", np.eye(2, 11)),
        ("biases", np.ones(11)),
        ("ones", np.ones((11, 1))),
    ):
        edited(name, lambda _, array=array: array.astype(np.float32))(model)


def computed_ones(model):
    """Ones are sums 2^30 + 1 - 2^30, which float32 programs may find to be zeros."""
    terms = np.full((4, 3), [2.0**30, 1.0, -(2.0**30)], np.float32)
    edited("ones", lambda _: terms)(model)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 1), np.float32), "terms"))
    model.graph.node.insert(0, helper.make_node("MatMul", ["ones", "terms"], ["sums"]))
    model.graph.node[-1].input[1] = "sums"


READOUTS = {
    "of three features": (edited("units", lambda w: np.vstack([w, w[:1]])), "units misfit"),
    "eleven": (more_units, "too many"),
    "two outputs": (with_fields(lambda m: sizes(m.graph.output[0])[1], dim_value=2), "shape of Y"),
    "computed": (computed_ones, "anything but attention or units"),
    "half": (edited("units", lambda w: w / np.float32(2)), "not -1, 0, 1"),
    "less of one": (
        edited("ones", lambda w: w * np.float32([[1], [1], [1], [0.5]])),
        "not the sum",
    ),
    "no relu": (without_relu, "not the sum"),
    "relu of heads": (
        lambda m: node("Relu")(m).input.__setitem__(0, "features"),
        "not used|anything but units",
    ),
}


@pytest.mark.parametrize("name", READOUTS)
def test_other_readouts_are_refused(checker, name):
    change, words = READOUTS[name]
    with refused(words):
        problem(checker, changed(written(rectified()), change), unit_box(), ABOVE)


@pytest.mark.parametrize(
    "atoms", [(Atom([-1.0], -0.5),), (Atom([1.0], 0.0),), (Atom([1.0], 0.5), Atom([1.0], 0.25))]
)
def test_other_questions_about_a_readout_are_refused(checker, atoms):
    with refused("from above|never below"):
        problem(checker, written(rectified()), unit_box(), (atoms,))


# VNN-LIB as the checker reads it: two versions, exact decimals, and all that it refuses.

VERSION_1 = """; a comment ( that is left out
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 -0.5))
(assert (<= X_0 0.25))
(assert (>= X_1 0.0))
(assert (<= X_1 1))
(assert (>= Y_0 0.171875))
"""
VERSION_2 = """(vnnlib-version <2.0>)
(declare-network N
    (declare-input X float32 [1, 2])
    (declare-output Y float32 [1, 2])
)
(assert (>= X[0,0] -0.5)) (assert (<= X[0, 0] 0.25))
(assert (>= X[0,1] 0.0)) (assert (<= X[0,1] 1))
(assert (>= Y[0,0] 0.171875))
"""
TEXTS = {"vnnlib": VERSION_1, "vnnlib2": VERSION_2}


def read(checker, text, version="vnnlib"):
    return checker.properties.read_property(text.encode(), version)


@pytest.mark.parametrize("version", TEXTS)
def test_a_property_is_read(checker, version):
    found = read(checker, TEXTS[version], version)
    assert found.lower == [Fraction(-1, 2), 0]
    assert found.upper == [Fraction(1, 4), 1]
    ((condition,),) = found.alternatives
    assert condition == (((0, 1),), Fraction(11, 64))
    assert found.outputs == 2


def test_forms_of_conditions(checker):
    last = "(assert (>= Y_0 0.171875))"
    for text, expected in {
        "(<= Y_1 0.5)": [[(((1, -1),), Fraction(-1, 2))]],
        "(>= Y_1 Y_0)": [[(((1, 1), (0, -1)), 0)]],
        "(<= Y_1 Y_0)": [[(((1, -1), (0, 1)), 0)]],
        "(and (>= Y_0 1) (<= Y_1 0))": [[(((0, 1),), 1), (((1, -1),), 0)]],
        "(or (and (>= Y_0 1) (<= Y_1 0)) (>= Y_1 2))": [
            [(((0, 1),), 1), (((1, -1),), 0)], [(((1, 1),), 2)],
        ],
    }.items():  # fmt: skip
        assert read(checker, VERSION_1.replace(last, f"(assert {text})")).alternatives == expected
    both = read(checker, f"{VERSION_1}(assert (<= Y_1 0.5))")
    assert [len(conditions) for conditions in both.alternatives] == [2]


NUMBERS = st.floats(-4.0, 4.0, width=32)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4),
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans(), NUMBERS), min_size=1, max_size=3),
             min_size=1, max_size=3),
)  # fmt: skip
def test_what_is_written_is_read(checker, ends, drawn):
    box = Box(*zip(*(sorted(pair) for pair in ends), strict=True))
    disjuncts = tuple(
        tuple(Atom([(1.0 if up else -1.0) * (j == k) for k in range(3)], c) for j, up, c in atoms)
        for atoms in drawn
    )
    wanted = Property(box, disjuncts)
    one = read(checker, version_1(wanted))
    assert one == read(checker, version_2(wanted), "vnnlib2")
    assert one.lower == [Fraction(x) for x in box.lower.tolist()]
    assert one.upper == [Fraction(x) for x in box.upper.tolist()]
    assert one.outputs == 3
    for atoms, conditions in zip(disjuncts, one.alternatives, strict=True):
        for atom, condition in zip(atoms, conditions, strict=True):
            ((output, sign),) = condition.weights
            assert atom.coefficients[output] == sign
            assert Fraction(atom.threshold) == condition.threshold


Y = "(assert (>= Y_0 0.171875))"
NO_PROPERTY = {
    "not float32": (Y, "(assert (>= Y_0 0.1))"),
    "too large": (Y, f"(assert (>= Y_0 {2**128}))"),
    "two numbers": (Y, "(assert (>= Y_0 1.5.0))"),
    "strict": (Y, "(assert (> Y_0 0.5))"),
    "not": (Y, "(assert (not (>= Y_0 0.5)))"),
    "sum": (Y, "(assert (>= (+ Y_0 Y_1) 0.5))"),
    "numbers alone": (Y, "(assert (<= 0.5 0.75))"),
    "input and output": (Y, "(assert (>= Y_0 X_0))"),
    "output and input": (Y, "(assert (>= X_0 Y_0))"),
    "the same": (Y, "(assert (>= Y_0 Y_0))"),
    "word": (Y, "(assert Y_0)"),
    "two conditions": (Y, "(assert (>= Y_0 0.5) (>= Y_1 0.5))"),
    "nothing": (Y, ""),
    "empty or": (Y, "(assert (or))"),
    "empty alternative": (Y, "(assert (or (and) (>= Y_0 0.5)))"),
    "condition beside or": (Y, f"{Y}(assert (or (>= Y_1 1)))"),
    "two ors": (Y, "(assert (or (>= Y_0 1)))(assert (or (>= Y_1 1)))"),
    "input in or": (Y, "(assert (or (and (>= X_0 0) (>= Y_0 1))))"),
    "no lower bound": ("(assert (>= X_1 0.0))", ""),
    "bounded twice": ("(assert (<= X_1 1))", "(assert (<= X_1 1))(assert (<= X_1 0.5))"),
    "the other way around": ("(assert (>= X_1 0.0))", "(assert (>= X_1 2.0))"),
    "Int": ("(declare-const X_1 Real)", "(declare-const X_1 Int)"),
    "function": ("(declare-const X_1 Real)", "(declare-fun X_1 () Real)"),
    "declared twice": ("(declare-const X_1 Real)", "(declare-const X_0 Real)"),
    "a gap": ("(declare-const X_1 Real)", "(declare-const X_2 Real)"),
    "no outputs": ("(declare-const Y_0 Real)\n(declare-const Y_1 Real)", ""),
    "later declaration": (Y, f"{Y}(declare-const Y_2 Real)"),
    "open": (Y, Y[:-1]),
    "closed twice": (Y, f"{Y})"),
    "nothing in parentheses": (Y, f"{Y}()"),
    "outside": (Y, f"{Y} sat"),
    "deep": (Y, f"(assert {'(' * 20}>= Y_0 1{')' * 20})"),
    "hidden from some readers by CR": (Y, f"; a note\r(assert (>= Y_0 100.0))\n{Y}"),
    "hidden from some readers by NUL": (Y, f"; a note\x00\n{Y}"),
    "not ascii": (Y, "(assert (>= Y_\u0660 0.5))"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PROPERTY)
def test_properties_that_are_refused(checker, name):
    old, new = NO_PROPERTY[name]
    assert old in VERSION_1
    with pytest.raises((ValueError, TypeError, UnicodeDecodeError)):
        read(checker, VERSION_1.replace(old, new))


NO_PROPERTY_2 = {
    "first version": (VERSION_2, VERSION_1),
    "version": ("<2.0>", "<2.1>"),
    "no version": ("(vnnlib-version <2.0>)", ""),
    "two inputs": ("(declare-input X", "(declare-input Z float32 [1, 2]) (declare-input X"),
    "double": ("X float32", "X float64"),
    "batch": ("X float32 [1, 2]", "X float32 [2, 2]"),
    "flat": ("X float32 [1, 2]", "X float32 [2]"),
    "other names": ("declare-output Y", "declare-output Z"),
    "another row": ("X[0,1] 0.0", "X[1,1] 0.0"),
    "more outputs than conditions know": ("Y[0,0]", "Y[0,2]"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PROPERTY_2)
def test_properties_of_the_second_version_that_are_refused(checker, name):
    old, new = NO_PROPERTY_2[name]
    assert old in VERSION_2
    with pytest.raises((ValueError, TypeError)):
        read(checker, VERSION_2.replace(old, new), "vnnlib2")
    with pytest.raises((ValueError, TypeError)):
        read(checker, VERSION_2, "vnnlib")
