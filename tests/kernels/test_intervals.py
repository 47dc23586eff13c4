"""Intervals of attention contain what kernels of a model return, and not what others do."""

from dataclasses import replace

import kernel_programs
import numpy as np
import pytest
from kernel_programs import Program, evaluate

from constructive.exact.formats import FORMATS, nearest
from constructive.exact.kernel_model import KERNEL_MODELS, kernel_model_named
from constructive.kernels.intervals import bounds

EMULATED = [name for name in KERNEL_MODELS if name != "flash float64"]


def drawn(seed, name):
    """Inputs of one head and a program of a model."""
    random = np.random.default_rng(seed)
    queries, keys = int(random.integers(1, 6)), int(random.integers(1, 90))
    width, value_dim = int(random.choice([1, 4, 20])), int(random.integers(1, 5))
    size = float(random.choice([0.1, 1.0, 3.0, 8.0]))
    q = kernel_programs.inputs(random, name, (queries, width), size)
    k = kernel_programs.inputs(random, name, (keys, width), size)
    v = kernel_programs.inputs(random, name, (keys, value_dim))
    v = (v, np.abs(v), np.sign(v))[random.integers(3)]
    options = {"scale": float(random.choice([0.3, 1.0, width**-0.5]))}
    if random.random() < 0.6:
        visible = random.random((queries, keys)) < random.random()
        visible[:, 0] = True
        options["visible"] = visible
    if random.random() < 0.3:
        options["bias"] = nearest(
            30.0 * random.standard_normal((queries, keys)), FORMATS["float32"]
        )
    if random.random() < 0.2:
        options["softcap"] = float(random.choice([1.0, 5.0, 30.0]))
    program = kernel_programs.draw(random, name, keys)
    if random.random() < 0.2 and not program.divided_first:
        options["sink"] = float(np.float32(3.0 * random.standard_normal()))
    return q, k, v, options, program


def intervals(q, k, v, name, visible=None, sink=None, **options):
    """`bounds` of one head."""
    sinks = None if sink is None else [sink]
    return bounds(
        q[None, None], k[None, None], v[None, None], visible, model=name, sinks=sinks, **options
    )


@pytest.mark.parametrize("name", EMULATED)
@pytest.mark.parametrize("seed", range(10))
def test_programs_of_a_model_are_inside(seed, name):
    q, k, v, options, program = drawn(seed, name)
    inside = intervals(q, k, v, name, **options)
    inside.check(evaluate(program, q, k, v, **options)[None, None])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_programs_of_a_model_are_inside(seed):
    for name in EMULATED:
        test_programs_of_a_model_are_inside(seed, name)


# What left an earlier bound.


@pytest.fixture
def coarse(monkeypatch):
    """Make the model "coarse": flash in float32 with other errors."""

    def made(**errors):
        model = replace(kernel_model_named("flash float32"), name="coarse", **errors)
        monkeypatch.setitem(KERNEL_MODELS, "coarse", model)
        return model

    return made


def test_one_visible_key_in_each_block(coarse):
    """There are as many rescalings as visible keys, not as a sixteenth of them."""
    n = 64
    keys = 16 * n
    q, k = np.ones((1, 1)), np.zeros((keys, 1))
    k[::16, 0] = np.arange(n) / 64.0  # each block has a larger logit than those before
    v = np.zeros((keys, 1))
    v[: keys // 2 : 16] = 1.0
    visible = np.zeros((1, keys), dtype=bool)
    visible[0, ::16] = True
    blocks = tuple((j, j + 16) for j in range(0, keys, 16))
    program = Program(coarse(rescale_error=2.0**-16), blocks=blocks, rescaling=1.0)
    out = evaluate(program, q, k, v, scale=1.0, visible=visible)[None, None]
    assert intervals(q, k, v, "coarse", visible=visible, scale=1.0).contains(out)
    # As if 64 visible keys were in 4 blocks and one more.
    assert not intervals(q, k, v, "coarse", visible=visible, scale=1.0, block=256).contains(out)


@pytest.mark.parametrize("size", [3001.3, 1e4 + 0.7])
def test_a_bias_that_cancels_the_logit(size):
    """Logits and biases are multiplied by log2 e, and rounded, one by one."""
    size = float(np.float32(size))
    q, k = np.array([[1.0]]), np.array([[size], [0.0]])
    v = np.array([[1.0], [0.0]])
    bias = np.array([[-size, 0.0]])
    program = Program(kernel_model_named("flash float32"), exponent="apart")
    inside = intervals(q, k, v, "flash float32", bias=bias, scale=1.0)
    inside.check(evaluate(program, q, k, v, bias=bias, scale=1.0)[None, None])
    # One of the two constants off by a unit: 2^-24 of a number that cancels.
    wrong = np.exp(size * 2.0**-24)
    out = wrong / (1.0 + wrong)
    assert abs(out - 0.5) > 4e-5
    assert inside.contains(np.float32(out)[None, None, None, None])


def test_a_logit_by_cancellation_has_the_hull_of_values():
    """The logits are 0 and -760, and float32 sees another order of them."""
    large = 2.0**34
    q = np.array([[large, large, 1.0]])
    k = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, -760.0]])
    v = np.array([[1.0, -3.0], [2.0, 5.0]])
    program = Program(kernel_model_named("flash float32"), order="backward")
    out = evaluate(program, q, k, v, scale=1.0)[None, None]
    assert out[0, 0, 0, 0] == 1.5  # exactly it is 1
    inside = intervals(q, k, v, "flash float32", scale=1.0)
    assert inside.contains(out)
    assert (inside.lower <= [1.0, -3.0]).all()
    assert (inside.upper >= [2.0, 5.0]).all()
    assert not inside.contains(out + np.array([2.0, 0.0]))


@pytest.mark.parametrize(
    ("name", "tensor", "keys", "large", "small", "narrow"),
    [
        ("flash float32", 0, 4096, 64, 0.99 * 64 * 2.0**-24, {"block": 4096, "depth": 32}),
        ("tensor bfloat16", 16, 1 << 16, 1, 0.99 * 2.0**-23, None),
        ("hopper float8_e5m2", 32, 1024, 16, 1.75 * 2.0**-10, {"name": "tensor bfloat16"}),
    ],
)
def test_sums_that_lose_every_term(name, tensor, keys, large, small, narrow):
    """Beside large values, 1, the others are lost or cut off."""
    q, k = np.zeros((1, 1)), np.zeros((keys, 1))
    v = np.full((keys, 1), small)
    v[:large] = 1.0
    v = nearest(v, kernel_model_named(name).storage)
    program = Program(kernel_model_named(name), tensor=tensor)
    out = evaluate(program, q, k, v, scale=1.0)[None, None]
    assert out == large / keys < nearest(v.mean(keepdims=True), program.model.output)
    assert intervals(q, k, v, name).contains(out)
    assert intervals(q, k, v, name, block=keys).contains(out)
    if narrow is not None:
        narrow = {"name": name, "block": keys} | narrow
        assert not intervals(q, k, v, **narrow).contains(out)


def test_exponentials_of_weights_too_small_for_the_format():
    """Weights of 2^-26 become 0 in float16, and there are many of them."""
    keys = 2048
    q, k = np.ones((1, 1)), np.full((keys, 1), -18.03)
    k[0] = 0.0
    k = nearest(k, FORMATS["float16"])
    v = np.ones((keys, 1))
    v[0] = 0.0
    program = Program(kernel_model_named("flash float16"), stored=True)
    out = evaluate(program, q, k, v, scale=1.0)[None, None]
    assert out == 0.0
    assert intervals(q, k, v, "flash float16", scale=1.0).contains(out)


def test_a_soft_cap_whose_constant_is_stored():
    """tanh is saturated, and the capped logit is off by the constant, by tanh and by storage."""
    cap = 4.0 * (1.0 + 2.0**-7 + 2.0**-8 - 2.0**-20)
    sign = np.where(np.arange(2826)[:, None] == 0, 1.0, -1.0)
    q, k = np.ones((1, 1)), 15.3125 * sign
    model = kernel_model_named("eager bfloat16")
    program = Program(model, stored=True, divided_first=True, sign=-1.0)
    out = evaluate(program, q, k, sign, scale=1.0, softcap=cap)[None, None]
    intervals(q, k, sign, model.name, scale=1.0, softcap=cap).check(out)
    # Another cap is outside.
    wrong = evaluate(program, q, k, sign, scale=1.0, softcap=0.9 * cap)[None, None]
    assert not intervals(q, k, sign, model.name, scale=1.0, softcap=cap).contains(wrong)


@pytest.mark.parametrize("size", [0.25, 0.5, 1.0])
def test_tanh_is_off_by_a_part_of_what_is_computed(size, coarse):
    """Logits that cancel are not 0, and tanh is off by a part of what they are."""
    unit, cap = 2.0**-6, 2.0**14
    coarse(operand_unit=unit, tanh_error=0.25)
    k, v = np.array([[size, -size]] * 2), np.array([[1.0], [-1.0]])
    inside = intervals(np.ones((1, 2)), k, v, "coarse", scale=1.0, softcap=cap)
    found = 1.25 * cap * np.tanh(size * ((1.0 + unit) ** 2 - (1.0 - unit) ** 2) / cap)
    weights = np.exp([found, -found])
    out = weights @ [(1.0 + unit) ** 2, -((1.0 - unit) ** 2)] / weights.sum()
    inside.check(np.float32(out).reshape(1, 1, 1, 1))


def test_a_sink_may_be_a_block(coarse):
    """With one block of keys there is a rescaling then; and with none before."""
    coarse(rescale_error=2.0**-10)
    q, k, v = (
        np.ones((1, 4)),
        *(kernel_programs.inputs(np.random.default_rng(0), "coarse", (16, 4)) for _ in "kv"),
    )
    plain, sink = (intervals(q, k, v, "coarse", sink=sink) for sink in (None, -50.0))
    assert ((sink.upper - sink.lower) > 1.5 * (plain.upper - plain.lower)).all()


def test_the_size_of_a_sink_below_all_logits_counts(coarse):
    model = coarse(constants=8000)
    zero, one = np.zeros((1, 1, 1, 4)), np.ones((1, 1, 1, 1))
    found = bounds(zero, zero, one, model="coarse", sinks=[-3.0])
    kappa = 2.0 * 3.0 * 8000 * model.unit  # g B and gamma X of Theorem 17
    share = np.exp(-3.0) / (1.0 + np.exp(-3.0))
    distance = np.sqrt(share) * np.expm1(kappa) * np.sqrt(share * (1.0 - share))  # G sd
    assert found.upper - found.lower >= 2.0 * distance


def test_constants_may_stretch_numbers_that_underflow():
    """q times 2^-16 is below the smallest normal number, and becomes 0."""
    q, v = np.array([[1.25 * 2.0**-111]]), np.array([[1.0], [-1.0], [2.0], [0.5]])
    k = np.array([[1.25], [1.0], [0.5], [0.75]]) * 2.0**111
    assert 0.0 < q.item() * 2.0**-16 < FORMATS["float32"].smallest
    out = np.full((1, 1, 1, 1), v.mean())
    assert intervals(q, k, v, "flash float32", scale=1.0).contains(out)
    assert not intervals(q * 2.0**40, k / 2.0**40, v, "flash float32", scale=1.0).contains(out)


@pytest.mark.parametrize(("ulps", "inside"), [(1, True), (64, True), (1 << 14, False)])
def test_logarithms_of_splits(ulps, inside):
    """Two splits, of 48 and 16 keys, are merged by logsumexp."""
    q, k, v = np.ones((1, 1)), np.zeros((64, 1)), np.repeat([1.0, -1.0], [48, 16])[:, None]
    model = kernel_model_named("split float32")
    assert model.exp_error == 64 * 2.0**-24
    logs = np.log([48.0, 16.0]) + ulps * model.unit * (1.0 + np.log([48.0, 16.0])) * [1, -1]
    whole = np.log(np.exp(logs).sum()) - ulps * model.unit * (1.0 + np.log(64.0))
    out = (np.exp(logs - whole) @ [1.0, -1.0]).reshape(1, 1, 1, 1)
    assert intervals(q, k, v, model.name).contains(out) == inside


# Outside of the model.


def large_inputs(name, seed=0):
    random = np.random.default_rng(seed)
    shapes = (8, 32), (64, 32), (64, 4)
    return [kernel_programs.inputs(random, name, shape, 2.0) for shape in shapes]


def test_less_precise_exponentials_are_outside():
    q, k, v = large_inputs("flash float32")
    inside = intervals(q, k, v, "flash float32", depth=64, block=64)
    program = Program(kernel_model_named("flash float32"))
    inside.check(evaluate(program, q, k, v, scale=32**-0.5)[None, None])
    worse = replace(program, exp_error=2.0**-13)
    assert not inside.contains(evaluate(worse, q, k, v, scale=32**-0.5)[None, None])


@pytest.mark.parametrize(("other", "size"), [("eager bfloat16", 4.0), ("flash float8_e4m3", 0.25)])
def test_kernels_of_another_model_are_outside(other, size):
    """Logits stored in 16 bits, and weights stored in 8."""
    q, k, v = (size * array for array in large_inputs(other))
    program = Program(kernel_model_named("flash bfloat16"), stored=True)
    model = replace(kernel_model_named(other), output=FORMATS["bfloat16"])
    inside = intervals(q, k, v, "flash bfloat16")
    inside.check(evaluate(program, q, k, v, scale=32**-0.5)[None, None])
    worse = replace(program, model=model)
    assert not inside.contains(evaluate(worse, q, k, v, scale=32**-0.5)[None, None])


@pytest.mark.parametrize("name", ["flash float32", "flash bfloat16", "flash float16"])
def test_mistakes_are_outside(name):
    q, k, v = large_inputs(name)
    program = Program(kernel_model_named(name))
    inside = intervals(q, k, v, name)
    right = evaluate(program, q, k, v, scale=32**-0.5)[None, None]
    inside.check(right)
    hidden = np.ones((8, 64), dtype=bool)
    hidden[:, -1] = False
    for out in (
        evaluate(program, q, k, v, scale=1.05 * 32**-0.5),
        evaluate(program, q, k, v, scale=32**-0.5, visible=hidden),
        evaluate(program, q, k, v, scale=32**-0.5, softcap=20.0),
        evaluate(program, q, k, v, scale=32**-0.5, sink=8.0),
    ):
        assert not inside.contains(out[None, None])
    right[0, 0, 3, 1] = np.nan
    assert inside.outside(right).sum() == 1
    right[0, 0, 3, 1] = np.inf
    assert not inside.contains(right)


@pytest.mark.parametrize(
    "field",
    ["matrix_unit", "operand_unit", "exp_error", "rescale_error", "unit", "constants", "lag"],
)
def test_larger_errors_give_wider_intervals(field, coarse):
    q, k, v = (array[None, None] for array in large_inputs("flash float32"))
    plain = kernel_model_named("flash float32")
    more = {"operand_unit": 1e-3, "lag": 5.0, "constants": 800}.get(
        field, getattr(plain, field) * 64
    )
    coarse(**{field: more})
    narrow, wide = bounds(q, k, v, model="flash float32"), bounds(q, k, v, model="coarse")
    assert ((wide.upper - wide.lower) > (narrow.upper - narrow.lower)).mean() > 0.9


def test_nothing_is_proved_of_huge_logits():
    """Where l - m is fused, the exponent of the largest logit is a rounding: 2^-24 of 2^24."""
    q, k, v = np.array([[1.0]]), np.array([[2.0**24], [0.0]]), np.array([[1.0], [0.0]])
    inside = intervals(q, k, v, "flash float32", scale=1.0)
    assert np.isneginf(inside.lower).all()
    assert np.isposinf(inside.upper).all()
    assert not inside.contains(np.full((1, 1, 1, 1), np.nan))
    small = intervals(q, k / 2.0**9, v, "flash float32", scale=1.0)
    assert np.isfinite(small.lower).all()
