"""ONNX graphs as the checker reads them: what it takes, and all that it refuses."""

from fractions import Fraction

import numpy as np
import onnx
import pytest
from instance_parts import changed, graph_bytes, ints, network, problem, replace_constant, unit_box
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from refusals import refused

from constructive.instances import Atom, Box

BASE = network()
FIRST = ((Atom([1.0, 0.0], 0.0),),)
"""The first of two outputs is not negative."""


@pytest.fixture(scope="module")
def data():
    return graph_bytes(BASE)


def values(checker, made, point, weights):
    """w . f at a point, from below, by the checker."""
    heads = checker.softmaxes.heads_of(made.outputs, weights, made.box)
    exact = checker.operators.integers(np.asarray(point, np.float32))
    return float(checker.softmaxes.least_at(heads, made.box, exact))


@pytest.mark.parametrize("graph", ["split", "fused", "exp"])
@pytest.mark.parametrize(("heads", "outputs"), [(1, 1), (2, 1), (3, 2)])
def test_graphs_are_read_as_networks(checker, graph, heads, outputs):
    made = network(heads, 4, 3, outputs, seed=heads)
    box = unit_box(3)
    read = problem(
        checker,
        graph_bytes(made, graph),
        box,
        ((Atom(np.eye(outputs)[0], 0.0),),),
    )
    random = np.random.default_rng(0)
    for point in random.uniform(-1, 1, (5, 3)).astype(np.float32):
        expected = made(point[None])[0]
        for k in range(outputs):
            assert abs(values(checker, read, point, ((k, 1),)) - expected[k]) < 1e-12
        if outputs > 1:
            apart = values(checker, read, point, ((0, 1), (1, -1)))
            assert abs(apart - (expected[0] - expected[1])) < 1e-12


def test_inputs_that_do_not_vary_are_constants(checker, data):
    box = Box([-1.0, 0.5], [1.0, 0.5])
    read = problem(checker, data, box, FIRST)
    assert read.box.varying.tolist() == [0]
    (part, *_) = read.outputs[0]
    assert part.row.logits.slopes.shape == (3, 1)
    for x in (-1.0, 0.25):
        found = values(checker, read, [x, 0.5], ((0, 1),))
        assert abs(found - BASE([[x, 0.5]])[0, 0]) < 1e-12


def bilinear(batch=1):
    """A graph whose input has keys, values and a query: products of two parts of the input."""
    n, d, k = 3, 2, 1
    nodes = [
        helper.make_node("Split", ["X", "sizes"], ["keys", "values", "query"], axis=1),
        helper.make_node("Reshape", ["keys", "by_token"], ["K"]),
        helper.make_node("Reshape", ["values", "by_value"], ["V"]),
        helper.make_node("Transpose", ["K"], ["K_turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["query", "W"], ["q"]),
        helper.make_node("MatMul", ["q", "K_turned"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["weights"], axis=1),
        helper.make_node("MatMul", ["weights", "V"], ["Y"]),
    ]
    given = {
        "sizes": np.array([n * d, n * k, d]), "by_token": np.array([n, d]),
        "by_value": np.array([n, k]), "W": np.array([[1.5, 0.25], [-0.5, 2.0]], np.float32),
    }  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "bilinear",
        [value("X", TensorProto.FLOAT, [batch, n * d + n * k + d])],
        [value("Y", TensorProto.FLOAT, [1, k])],
        [numpy_helper.from_array(array, name) for name, array in given.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), given["W"]


def test_products_of_inputs_where_one_of_them_does_not_vary(checker):
    model, w = bilinear()
    onnx.checker.check_model(model, full_check=True)
    random = np.random.default_rng(3)
    context = np.round(random.normal(size=9) * 8) / 8
    box = Box([*context, -1.0, -1.0], [*context, 1.0, 1.0])
    read = problem(checker, model.SerializeToString(), box)
    keys, stored = context[:6].reshape(3, 2), context[6:]
    for query in ([1.0, -0.5], [0.125, 0.75]):
        logits = keys @ (w.T.astype(float) @ query)
        weights = np.exp(logits) / np.exp(logits).sum()
        found = values(checker, read, [*context, *query], ((0, 1),))
        assert abs(found - weights @ stored) < 1e-12
    wide = Box([*context[:-1], -1.0, -1.0, -1.0], [*context[:-1], 1.0, 1.0, 1.0])
    with refused("values vary"):
        problem(checker, model.SerializeToString(), wide)
    wide = Box([-9.0, *context[1:], -1.0, -1.0], [9.0, *context[1:], 1.0, 1.0])
    with refused("both factors vary"):
        problem(checker, model.SerializeToString(), wide)


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


def stored_as(kind):
    def change(model):
        found = constant("V0")(model)
        found.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(found).astype(kind), "V0"))

    return change


def replaced(name, index, value):
    def change(model):
        array = numpy_helper.to_array(constant(name)(model)).copy()
        array[index] = value
        replace_constant(model, name, array)

    return change


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
    "operator": (with_fields(node("Softmax"), op_type="Sigmoid"), "is refused"),
    "hardmax": (with_fields(node("Softmax"), op_type="Hardmax"), "is refused"),
    "domain": (with_fields(node("Softmax"), domain="com.microsoft"), "domain"),
    "opset": (with_fields(lambda m: m.opset_import[0], version=12), "opset 13"),
    "opsets": (lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2)), "opset 13"),
    "version": (with_fields(lambda m: m, ir_version=3), "version"),
    "axis": (attribute("Softmax", "axis", 0), "another axis"),
    "axis of float": (attribute("Softmax", "axis", 1.0), "of another type"),
    "attribute": (attribute("Softmax", "temperature", 2), "not understood"),
    "alpha": (attribute("Gemm", "alpha", 2.0), "factor"),
    "beta": (attribute("Gemm", "beta", 0.0), "factor"),
    "transA": (attribute("Gemm", "transA", 1), "factor"),
    "transB": (attribute("Gemm", "transB", 1), "fit"),
    "subgraph": (attribute("Softmax", "body", helper.make_graph([], "inner", [], [])), "field"),
    "float16": (stored_as(np.float16), "neither float32"),
    "float64": (stored_as(np.float64), "neither float32"),
    "integers": (stored_as(np.int64), "not affine"),
    "NaN": (replaced("V0", (0, 0), np.nan), "not finite"),
    "infinity": (replaced("A0", (0, 0), -np.inf), "not finite"),
    "external": (external, "field"),
    "sparse": (lambda m: m.graph.sparse_initializer.add(), "field"),
    "function": (lambda m: m.functions.add(name="f", domain=""), "field"),
    "symbolic": (with_fields(lambda m: sizes(m.graph.input[0])[0], dim_param="N"), "field|static"),
    "unknown size": (lambda m: sizes(m.graph.input[0])[1].Clear(), "static"),
    "second input": (lambda m: m.graph.input.append(floats("Z", 1, 2)), "one input"),
    "input and constant": (lambda m: m.graph.input.append(floats("V0", 3, 2)), "one input"),
    "second output": (
        lambda m: m.graph.output.append(floats("head0", 1, 2)), "one input and one output"
    ),
    "double": (
        with_fields(lambda m: m.graph.input[0].type.tensor_type, elem_type=TensorProto.DOUBLE),
        "not float32",
    ),
    "backwards": (backwards, "before its inputs"),
    "loop": (
        lambda m: node("Add")(m).input.__setitem__(0, "Y"), "before its inputs|not used"
    ),
    "same output": (
        lambda m: m.graph.node[3].output.__setitem__(0, m.graph.node[0].output[0]),
        "twice|not used",
    ),
    "shadow": (lambda m: m.graph.node[0].output.__setitem__(0, "V1"), "twice"),
    "unused constant": (add_constant("more", np.zeros(2, np.float32)), "not used"),
    "repeated constant": (add_constant("V0", np.zeros((3, 2), np.float32)), "twice"),
    "unused node": (
        lambda m: m.graph.node.append(helper.make_node("Add", ["head0", "head1"], ["more"])),
        "not used",
    ),
    "another shape": (
        with_fields(lambda m: sizes(m.graph.output[0])[1], dim_value=3), "shape of Y"
    ),
    "Y from elsewhere": (with_fields(lambda m: m.graph.output[0], name="logits0"), "not used"),
    "metadata": (lambda m: m.metadata_props.add(key="a", value="b"), "field"),
    "missing input": (lambda m: node("Gemm")(m).input.pop(), "not used|other inputs"),
    "empty input": (lambda m: node("Gemm")(m).input.append(""), "not used|not there"),
    "Exp alone": (with_fields(node("Softmax"), op_type="Exp"), "attribute|operand"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(checker, data, name):
    change, words = REFUSED[name]
    other = changed(data, change)
    assert other != data
    with refused(words):
        problem(checker, other, unit_box(), FIRST)


def exp_graph():
    return graph_bytes(BASE, "exp")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_fields(node("Div"), op_type="Mul"), "is refused"),
        (attribute("ReduceSum", "keepdims", 0), "ReduceSum"),
        (attribute("ReduceSum", "noop_with_empty_axes", 1), "not understood"),
        (replaced("axes0", 0, 0), "another axis"),
        (lambda m: node("Div")(m).input.reverse(), "Div"),
        (with_fields(node("ReduceSum"), op_type="ReduceMax"), "is refused"),
    ],
)
def test_what_is_refused_of_softmax_written_out(checker, change, words):
    with refused(words):
        problem(checker, changed(exp_graph(), change), unit_box(), FIRST)


def test_sums_of_another_softmax_are_refused(checker):
    def other(model):
        sums = [each for each in model.graph.node if each.op_type == "ReduceSum"]
        divisions = [each for each in model.graph.node if each.op_type == "Div"]
        for division, total in zip(divisions, sums[::-1], strict=True):
            division.input[1] = total.output[0]
        order = ["Gemm", "Exp", "ReduceSum", "Div", "MatMul", "Add"]
        nodes = sorted(model.graph.node, key=lambda each: order.index(each.op_type))
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    with refused("Div"):
        problem(checker, changed(exp_graph(), other), unit_box(), FIRST)


def test_the_same_head_twice_counts_twice(checker, data):
    def twice(model):
        node("Add")(model).input[:] = ["head0", "head0"]
        kept = [n for n in model.graph.node if n.name not in ("logits1", "attention1", "head1")]
        names = {name for n in kept for name in n.input}
        constants = [each for each in model.graph.initializer if each.name in names]
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(constants)

    box = unit_box()
    other = changed(data, twice)
    session = ReferenceEvaluator(onnx.ModelProto.FromString(other))
    (expected,) = session.run(None, {"X": np.array([[0.5, -0.25]], np.float32)})
    read = problem(checker, other, box, FIRST)
    assert abs(values(checker, read, [0.5, -0.25], ((0, 1),)) - expected[0, 0]) < 1e-5


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


def test_steps_and_sizes_of_logits(checker):
    """Rounding of a product counts its terms that are not zero."""
    made = network(1, 3, 2, 1, seed=1)
    read = problem(checker, graph_bytes(made), unit_box())
    (part,) = read.outputs[0]
    head = made.heads[0]
    terms = (head.slopes != 0).sum(axis=1) + (head.offsets != 0)
    assert part.row.logits.steps.tolist() == terms.tolist()
    sizes = np.abs(head.slopes).sum(axis=1) + np.abs(head.offsets)
    assert (part.row.logits.sizes >= sizes).all()
    assert np.allclose(part.row.logits.sizes, sizes)
    assert part.size == np.abs(head.values).max()
    assert Fraction(part.values[0], 2**part.unit) == Fraction(head.values[0, 0])


def test_a_box_with_another_number_of_inputs(checker, data):
    with refused("another number of inputs"):
        problem(checker, data, unit_box(3), FIRST)
    with refused("another number of outputs"):
        problem(checker, data, unit_box(), ((Atom([1.0], 0.0),),))
    lower, upper = ints(unit_box(), checker)
    graph = checker.graphs.read_graph(data)
    assert len(checker.operators.evaluate(graph, lower, upper)) == 2
