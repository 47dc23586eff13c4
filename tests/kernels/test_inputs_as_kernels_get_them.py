"""Layouts, memory and pages."""

import subprocess
import sys

import numpy as np
import pytest
from kernels_of_tests import softmax_average
from pytorch import torch

from constructive.kernels import (
    Problem,
    Spec,
    battery,
    check,
    diagnose,
    examine,
)
from constructive.kernels.inputs import PLACES
from constructive.kernels.masks import Boolean, Causal, VariableLengths
from constructive.support.errors import ParameterError

SPEC = Spec(batch=2, heads=(4, 2), queries=9, keys=21)
PROBLEM = Problem.build(SPEC, "random")


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e5m2"])
def test_tensors_hold_the_numbers(library, dtype):
    problem = Problem.build(Spec(heads=(4, 2), queries=9, keys=21, dtype=dtype))
    q, _, v = problem.tensors(library)
    assert str(q.dtype).removeprefix("torch.") == dtype
    as_numbers = q.double().numpy() if library == "torch" else q.astype(np.float64)
    assert np.array_equal(as_numbers, problem.q)
    assert tuple(v.shape) == problem.v.shape


def test_layouts_and_outputs_in_them():
    problem = PROBLEM
    q, k, _ = problem.tensors(layout="BTHd")
    assert np.array_equal(q, problem.q.swapaxes(1, 2))
    assert k.shape == (2, 21, 2, 64)
    check(problem, problem.expected.swapaxes(1, 2))
    check(problem, problem.expected.swapaxes(1, 2), layout="BTHd")
    with pytest.raises(ParameterError, match="shape"):
        check(problem, problem.expected[..., :5])
    with pytest.raises(ParameterError, match="shape"):
        check(problem, problem.expected, layout="BTHd")
    with pytest.raises(ParameterError, match="layout"):
        problem.tensors(layout="TBHd")


def test_packed_sequences():
    masks = (VariableLengths((9, 4), (21, 6)), Causal("bottom-right"))
    problem = Problem.build(Spec(batch=2, queries=9, keys=21, masks=masks), "random")
    q, k, v = problem.tensors(layout="packed")
    assert q.shape == (13, 2, 64)
    assert k.shape == v.shape == (27, 2, 64)
    outs = []
    for rows, keys in ((slice(0, 9), slice(0, 21)), (slice(9, 13), slice(21, 27))):
        parts = [array[part].swapaxes(0, 1) for array, part in ((q, rows), (k, keys), (v, keys))]
        n, m = (part.shape[1] for part in parts[:2])
        outs.append(softmax_average(*parts, np.tri(n, m, m - n), 0.125).swapaxes(0, 1))
    check(problem, np.concatenate(outs))


@pytest.mark.parametrize("placed", PLACES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_memory_around_inputs_is_poison(placed, library):
    problem = Problem.build(SPEC, "random")
    q, k, v = problem.tensors(library, placed=placed)
    assert np.array_equal(np.asarray(k), problem.k)
    if library == "torch":
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    else:
        k, v = (np.repeat(array, 2, axis=1) for array in (k, v))
        out = softmax_average(q, k, v, np.array(True), problem.spec.factor)  # noqa: FBT003
    check(problem, out)
    if library == "numpy" and placed in {"surrounded", "interleaved"}:
        assert np.isnan(q.base).any()


def test_padding_can_be_poison():
    masks = (VariableLengths((5, 2), (9, 4)),)
    q, k, _ = Problem.build(Spec(batch=2, queries=5, keys=9, masks=masks)).tensors(poison=True)
    assert np.isfinite(q).all()
    assert np.isnan(k[1, :, 4:]).all()
    assert np.isfinite(k[0]).all()


def test_additive_masks_and_options_of_torch():
    problem = Problem.build(Spec(queries=4, keys=6, masks=(Boolean(additive=True),)))
    mask = problem.options("torch")["attn_mask"]
    assert np.array_equal(np.isinf(mask.numpy()), ~np.broadcast_to(problem.visible, mask.shape))
    with pytest.raises(ParameterError, match="unknown adapter"):
        problem.options("no such library")


def test_only_numpy_is_imported():
    code = "import sys; from constructive.kernels import battery, check; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    slow = {"scipy", "flint", "torch", "jax", "ml_dtypes", "matplotlib", "rich", "hypothesis"}
    assert "numpy" in loaded
    assert not loaded & slow
    assert not any(name.startswith("constructive.certificates") for name in loaded)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: next(iter(battery(dtype=np.float16))), "'bfloat16'"),
        (lambda: next(iter(battery(causal=True))), "bottom-right"),
        (lambda: check(next(iter(battery())), (np.zeros(3), None)), "lse=out[1]"),
        (lambda: check(next(iter(battery())), None), "an array"),
        (lambda: check("last", np.zeros(3)), "not a problem"),
        (lambda: check(PROBLEM, PROBLEM.expected.astype(complex)), "complex"),
        (lambda: examine(PROBLEM, PROBLEM.expected, memory="nowhere"), "nowhere"),
        (lambda: examine(PROBLEM, PROBLEM.expected, model="fast"), "fast"),
    ],
)
def test_what_users_pass_in_place_of_names_and_outputs(wrong, words):
    with pytest.raises(ParameterError) as caught:
        wrong()
    assert words in f"{caught.value} {caught.value.suggestion}"


class AsContiguous:
    """A kernel of torch that takes what it is given as contiguous, from an axis on."""

    def __init__(self, what, first=0):
        self.what, self.first = what, first

    def read(self, name, x):
        if name != self.what:
            return x
        strides = list(x.stride())
        packed = torch.empty(x.shape).stride()
        strides[self.first :] = packed[self.first :]
        return x.as_strided(x.shape, strides, x.storage_offset())

    def __call__(self, problem, mask=None):
        given = dict(zip("qkv", problem.tensors("torch"), strict=True))
        q, k, v = (self.read(name, x) for name, x in given.items())
        k, v = (x.repeat_interleave(problem.spec.group, 1) for x in (k, v))
        if mask is not None:
            mask = self.read("mask", mask)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("what", "qkv")
@pytest.mark.parametrize("first", [0, 3])
def test_tensors_of_torch_have_strides_by_default(what, first):
    reports = []
    for problem in battery(queries=20, keys=33, heads=(4, 2), head_dim=16):
        check(problem, AsContiguous(None)(problem))
        report = examine(problem, AsContiguous(what, first)(problem))
        assert report.passed or problem.case in {"scale", "ties", "first"}
        reports.append(report)
        if problem.case == "scale":
            assert not report.passed
    assert "all with memory strided" in diagnose(reports)[0] or first


@pytest.mark.parametrize("additive", [False, True])
def test_masks_of_torch_have_padded_rows_and_strides_of_0(additive):
    failed = 0
    bias = {"bias": "bj"} if additive else {"masks": [Boolean()]}
    for problem in battery(queries=20, keys=33, heads=(4, 2), head_dim=16, batch=2, **bias):
        mask = problem.mask_tensor("torch", additive=additive)
        check(problem, AsContiguous(None)(problem, mask))
        if problem.case == "scale":
            assert mask.shape == (2, 4, 20, 33)
            assert mask.stride()[1] == 0
            assert mask.stride()[2] == (0 if additive else 36)
            plain_mask = problem.mask_tensor("torch", additive=additive, placed="contiguous")
            assert plain_mask.is_contiguous()
            assert (plain_mask == mask).all()
        if problem.case == "scale":  # read as if it were as large as its shape
            memory = mask.as_strided((mask.untyped_storage().nbytes() // mask.itemsize,), (1,))
            wrong = memory.repeat(99)[: mask.numel()].reshape(mask.shape)
            failed += not examine(problem, AsContiguous(None)(problem, wrong)).passed
    assert failed >= 1
