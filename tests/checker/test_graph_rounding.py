"""What float32 does to graphs: evaluations of all kinds are within the checker's bound."""

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instance_parts import graph_bytes, network, problem, unit_box
from refusals import refused

from constructive.instances import Atom, Box, Head, Network
from constructive.instances.rounding import output_rounding

FLOAT = np.float32
ULPS = 32 * 2.0**-23


def bounds(checker, made, box, graph="split"):
    """Of each output, and what the graph says of its rows."""
    conditions = ((Atom(np.eye(made.output_dim)[0], 0.0),),)
    read = problem(checker, graph_bytes(made, graph), box, conditions)
    rounding = checker.softmaxes.rounding_of
    found = [
        rounding(read.outputs, ((k, 1),), read.box, read.model) for k in range(made.output_dim)
    ]
    return np.array(found), read


def summed(terms, order):
    """A sum along the last axis in float32, in an order."""
    total = np.zeros(terms.shape[:-1], FLOAT)
    for k in order:
        total = (total + terms[..., k]).astype(FLOAT)
    return total


def evaluated(made, x, random, off=1.0):
    """A network in float32: sums in random orders, exp off by as much as is allowed."""
    total = np.zeros(made.output_dim, FLOAT)
    for head in made.heads:
        a, b, v = (np.float32(array) for array in (head.slopes, head.offsets, head.values))
        terms = np.hstack([(a * np.float32(x)).astype(FLOAT), b[:, None]])
        logits = summed(terms, random.permutation(terms.shape[1]))
        powers = np.exp((logits - logits.max()).astype(FLOAT).astype(np.float64))
        signs = (
            random.choice([-1.0, 1.0], len(powers)) if random.random() < 0.5 else np.sign(v[:, 0])
        )
        powers = np.where(logits == logits.max(), 1.0, powers * (1 + off * ULPS * signs)).astype(
            FLOAT
        )
        whole = summed(powers, random.permutation(len(powers)))
        if random.random() < 0.5:
            weights = (powers / whole).astype(FLOAT)
            average = summed((weights * v.T).astype(FLOAT), random.permutation(len(powers)))
        else:
            sums = summed((powers * v.T).astype(FLOAT), random.permutation(len(powers)))
            average = (sums / whole).astype(FLOAT)
        total = (total + average).astype(FLOAT)
    return total.astype(np.float64)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.5, 8.0, 100.0]))
def test_evaluations_are_within_the_bound(checker, seed, dims, size):
    made = network(3, 6, dims, 2, seed=seed, size=size)
    bound, _ = bounds(checker, made, unit_box(dims))
    random = np.random.default_rng(seed)
    for x in random.uniform(-1, 1, (4, dims)).astype(FLOAT):
        exact = made(x[None])[0]
        assert (np.abs(evaluated(made, x, random) - exact) <= bound + 1e-12).all()
    assert (bound < 2 * output_rounding(made, unit_box(dims)) + 1e-9).all()


def test_the_bound_is_not_far_from_what_evaluations_do(checker):
    random = np.random.default_rng(0)
    slopes = random.uniform(20.0, 40.0, (1, 4)).astype(FLOAT)
    made = single([*slopes, [0.0] * 4], [0.125, 0.0])
    bound, _ = bounds(checker, made, unit_box(4))
    points = random.uniform(-1, 1, (3000, 4))
    points[:, 3] = -(slopes[0, :3] @ points[:, :3].T) / slopes[0, 3]  # logits near zero
    points = points[np.abs(points[:, 3]) <= 1.0].astype(FLOAT)
    off = max(abs(evaluated(made, x, random) - made(x[None])[0]) for x in points)[0]
    assert bound[0] / 100 < off < bound[0]


def test_evaluations_in_fewer_bits_are_not_within_it(checker):
    """TF32 rounds inputs to 11 bits, so the model excludes it."""
    made = network(1, 6, 4, 1, seed=2, size=40.0)
    bound, _ = bounds(checker, made, unit_box(4))
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (300, 4))
    short = np.round(points * 2**10) / 2**10
    assert np.abs(made(points) - made(short)).max() > bound[0]


@pytest.mark.parametrize("graph", ["split", "fused", "exp"])
def test_onnxruntime_is_within_the_bound(checker, graph):
    made = network(3, 5, 4, 2, seed=6, size=3.0)
    bound, _ = bounds(checker, made, unit_box(4), graph)
    data = graph_bytes(made, graph)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for x in np.random.default_rng(0).uniform(-1, 1, (200, 4)).astype(FLOAT):
        (found,) = session.run(None, {"X": x[None]})
        assert (np.abs(found[0] - made(x[None])[0]) <= bound).all()
    assert onnx.ModelProto.FromString(data).opset_import[0].version == 13


def single(slopes, offsets, values=None):
    values = np.eye(len(offsets))[:, :1] if values is None else values
    return Network((Head(slopes, offsets, values),))


def test_exp_of_large_logits_is_refused(checker):
    box = Box([-1.0], [1.0])
    for slopes, offsets, words in (
        ([[60.0], [0.0]], [0.0, 0.0], None),
        ([[81.0], [0.0]], [0.0, 0.0], "overflow"),
        ([[0.0], [0.0]], [0.0, 80.5], "overflow"),
        ([[0.0], [0.0]], [-39.0, -90.0], None),
        ([[0.0], [0.0]], [-41.0, -90.0], "underflow"),
        ([[39.0], [-39.0]], [0.0, 0.0], None),
        ([[41.0], [-41.0]], [0.0, 0.0], "underflow"),
    ):
        made = single(slopes, offsets)
        assert bounds(checker, made, box)[0][0] < 1e-3
        with refused(words):
            assert bounds(checker, made, box, "exp")[0][0] < 1e-3


def test_numbers_that_may_overflow_are_refused(checker):
    for made in (
        single([[2.0**120], [0.0]], [0.0, 0.0]),
        single([[1.0], [0.0]], [0.0, 0.0], [[2.0**120], [0.0]]),
        single([[2.0**98]] + [[0.0]] * 7, [0.0] * 8),
    ):
        with refused("overflow"):
            bounds(checker, made, unit_box(1))


def graph(nodes, inputs, **given):
    """The bytes of a graph with these nodes and constants."""
    helper, numbers = onnx.helper, onnx.numpy_helper
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, count])
        for name, count in (("X", inputs), ("Y", 1))
    ]
    arrays = [numbers.from_array(np.asarray(array), name) for name, array in given.items()]
    made = helper.make_graph(nodes, "g", ends[:1], ends[1:], arrays)
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


def not_bounded(checker, data, box):
    """Whether onnxruntime gives no number at a corner of the box, and the checker no bound."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"X": box.upper[None].astype(FLOAT)})
    read = problem(checker, data, box)
    with refused("overflow"):
        checker.softmaxes.rounding_of(read.outputs, ((0, 1),), read.box, read.model)
    return bool(np.isnan(found).all())


def test_numbers_that_overflow_on_the_way_are_refused(checker):
    """A sum that is infinite, and then multiplied by zero."""
    node, large = onnx.helper.make_node, FLOAT(1.02 * 2.0**127)
    nodes = [
        node("Gemm", ["X", "A", "b"], ["sums"]),
        node("MatMul", ["sums", "zeros"], ["logits"]),
        node("Softmax", ["logits"], ["weights"], axis=1),
        node("MatMul", ["weights", "V"], ["Y"]),
    ]
    value = np.array([[1.0], [0.0]], FLOAT)
    given = {"A": [[large]], "b": [large], "zeros": np.zeros((1, 2), FLOAT), "V": value}
    data = graph(nodes, 1, **given)
    with refused("overflow on the way"):
        not_bounded(checker, data, Box([0.5], [1.0]))


def test_logits_that_only_roundings_make_large_are_refused(checker):
    """Logits of 79.6, which ten roundings of 0.94 each make 89: exp of them is infinite."""
    node = onnx.helper.make_node
    nodes = [
        node("Gemm", ["X", "A", "b"], ["logits"]),
        node("Exp", ["logits"], ["powers"]),
        node("ReduceSum", ["powers", "axes"], ["sum"], keepdims=1),
        node("Div", ["powers", "sum"], ["weights"]),
        node("MatMul", ["weights", "V"], ["Y"]),
    ]
    slopes = np.full((11, 2), 1.0625, FLOAT)
    slopes[0] = 2.0**24
    offsets = np.full(2, 69.0 - 2.0**24, FLOAT)
    value = np.array([[1.0], [0.0]], FLOAT)
    data = graph(nodes, 11, A=slopes, b=offsets, axes=np.array([1]), V=value)
    assert not_bounded(checker, data, Box(np.ones(11), np.ones(11)))


def test_a_difference_is_off_by_both_outputs(checker):
    made = network(2, 4, 2, 2, seed=1)
    bound, read = bounds(checker, made, unit_box())
    both = checker.softmaxes.rounding_of(read.outputs, ((0, 1), (1, -1)), read.box, read.model)
    assert np.isclose(both, bound.sum(), rtol=1e-6)
    assert both >= bound.sum()


def test_the_bound_grows_with_all_it_depends_on(checker):
    base = network(2, 4, 3, 1, seed=4)
    bound = bounds(checker, base, unit_box(3))[0][0]
    wide = bounds(checker, base, Box([-4.0] * 3, [4.0] * 3))[0][0]
    steep = Network(tuple(Head(8 * h.slopes, h.offsets, h.values) for h in base.heads))
    high = Network(tuple(Head(h.slopes, h.offsets, 8 * h.values) for h in base.heads))
    assert bound < min(
        wide, bounds(checker, steep, unit_box(3))[0][0], bounds(checker, high, unit_box(3))[0][0]
    )
    assert np.isclose(bounds(checker, high, unit_box(3))[0][0], 8 * bound, rtol=1e-3)


def test_models_that_are_known(checker):
    """Those whose programs evaluate operators one by one, in float32 throughout."""
    known = checker.softmaxes.KNOWN
    assert set(known) == {"float32, pairwise", "float32, pairwise, blocks of 16"}
    for name in known:
        words = checker.softmaxes.sentence(name)
        assert words.startswith(name)
        assert "TF32" in words
        assert "any order" in words


def test_errors_of_logits_and_of_averages_multiply(checker):
    made = single([[2.0**20], [0.0]], [0.0, 0.0])
    bound, read = bounds(checker, made, unit_box(1))
    model = checker.float_model
    logits = 2.0**20 * model.gamma_of(read.model, 3)
    larger = float(checker.float_model.growth(np.float64(2.0 * logits)))
    zeta = float(model.averaged(read.model, np.float64(2.0))[0])
    whole = (1.0 + larger) * (1.0 + zeta) - 1.0
    assert larger > 0.3
    assert whole <= bound[0] < whole * (1.0 + 1e-6)


def test_what_underflow_takes_counts(checker):
    """A value that is not a normal number may be read as zero."""
    made = single([[0.0], [0.0]], [20.0, 0.0], [[2.0**-127], [0.0]])
    bound, _ = bounds(checker, made, unit_box(1))
    assert 2.0**-127 < bound[0] < 2.0**-90
