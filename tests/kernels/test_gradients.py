"""Backward passes: right ones pass, and wrong ones are caught and explained."""

import logging

import numpy as np
import pytest
from kernels_of_tests import logits_of, values_of
from pytorch import torch

from constructive.exact.formats import FORMATS, TF32, nearest
from constructive.kernels import Backward, KernelError, Problem, Spec, battery, diagnose
from constructive.kernels.masks import Boolean, Causal, VariableLengths
from constructive.support.errors import ParameterError

SPEC = Spec(batch=2, heads=(4, 2), queries=40, keys=40, head_dim=16, masks=(Causal("top-left"),))
SINGLE = np.float32


class Steps:
    """Gradients by the textbook, from logits and log-sum-exps; each step may be replaced."""

    def __init__(self, backward, real=np.float64):
        self.backward, self.problem, self.spec = backward, backward.problem, backward.problem.spec
        self.q = self.problem.q.astype(real)
        self.k = np.repeat(self.problem.k, self.spec.group, 1).astype(real)
        self.v = values_of(self.problem, real)
        self.d_out = backward.d_out.astype(real)
        self.d_lse = backward.d_lse[..., None].astype(real)
        self.z = 1.0 if backward.keep is None else backward.keep.astype(real) / backward.share
        self.sinks = np.full(self.spec.heads[0], -np.inf)
        if self.problem.sinks is not None:
            self.sinks = self.problem.sinks.astype(real)

    def logits(self):
        return logits_of(self.problem, self.q.dtype.type)

    def lse(self):
        logits, sinks = Steps.logits(self), self.sinks[:, None, None]
        top = np.maximum(logits.max(-1, keepdims=True), sinks)
        top = np.where(np.isneginf(top), 0, top)
        total = np.exp(logits - top).sum(-1, keepdims=True) + np.exp(sinks - top)
        return top + np.log(total)

    def weights(self, lse):
        return np.exp(self.logits() - np.where(np.isneginf(lse), np.inf, lse))

    def alone(self, out):
        return (self.d_out * out).sum(-1, keepdims=True)

    def of_lse(self):
        return self.d_lse

    def scores(self, p, rest, alone):
        return p * (rest - alone)

    def of_scores(self):
        return self.z

    def of_values(self):
        return self.z

    def slope(self):
        return 1.0 - self.tanh() ** 2

    def tanh(self):
        cap = self.spec.soft_cap
        return 0.0 if cap is None else np.nan_to_num(self.logits(), neginf=0) / cap

    def of_sinks(self, p, alone):
        return (p * (self.of_lse() - alone)).sum((0, 2, 3))

    def of_bias(self, scores):
        return scores.sum(0)

    def summed(self, heads):
        spec = self.spec
        return heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:]).sum(2)

    def written(self, dq, dk, dv):
        return dq, dk, dv

    def report(self):
        with np.errstate(all="ignore"):
            lse = self.lse()
            p = self.weights(lse)
            alone = self.alone((Steps.weights(self, Steps.lse(self)) * self.z) @ self.v)
            rest = (self.d_out @ self.v.swapaxes(-1, -2)) * self.of_scores() + self.of_lse()
            scores = self.scores(p, rest, alone)
            found = scores * self.slope()
            three = self.written(
                found @ self.k * self.spec.factor,
                self.summed(found.swapaxes(-1, -2) @ self.q * self.spec.factor),
                self.summed((p * self.of_values()).swapaxes(-1, -2) @ self.d_out),
            )
            sinks = np.exp(self.sinks[:, None, None] - np.where(np.isneginf(lse), np.inf, lse))
            dsink = None if self.problem.sinks is None else self.of_sinks(sinks, alone)
        return self.backward.examine(*three, dsink=dsink, dbias=self.of_bias(scores))


MASKS = {
    "none": (),
    "causal": (Causal("bottom-right"),),
    "rows without keys": (Boolean(empty=True),),
    "packed": (VariableLengths((17, 5), (33, 9)), Causal("bottom-right")),
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize(
    ("dtype", "sink"),
    [("float32", True), ("bfloat16", False), ("bfloat16", True), ("float64", False)],
)
def test_right_gradients_pass_at_all_levels(masks, dtype, sink):
    shape = {"queries": 17, "keys": 33, "head_dim": 64, "heads": (4, 2)}
    given = list(battery(**shape, masks=MASKS[masks], dtype=dtype, sink=sink))
    found = set()
    for d_lse, keep in ((False, None), (True, None), (True, 0.5)):
        for backward in Backward.each(given, d_lse=d_lse, keep=keep):
            report = Steps(backward, np.float64 if dtype == "float64" else SINGLE).report()
            assert report.passed, str(report)
            found.add(backward.problem.case)
            exact = backward.slack["dq"].max() < 2.0**-20
            assert d_lse == bool(backward.dq.any()) or not exact
    assert {"last", "ties", "uniform", "levels", "low", "scale"} <= found


class BaseTwo(Steps):
    """Logits and log-sum-exps are multiplied by log2(e) in float32, so a level is rounded."""

    def weights(self, lse):
        lse = np.where(np.isneginf(lse), np.inf, lse)
        return np.exp2(self.logits() * SINGLE(np.log2(np.e)) - lse * SINGLE(1.4426951))


def test_levels_may_be_rounded_in_logits_and_in_log_sum_exps():
    shape = {"queries": 17, "keys": 33, "head_dim": 40, "heads": (4, 2), "cases": ["levels", "low"]}
    for backward in Backward.each(battery(**shape), d_lse=True):
        for factor in (1.0, 1.0 + 2.0**-21):
            BaseTwo.lse = lambda self, factor=factor: Steps.lse(self) * SINGLE(factor)
            report = BaseTwo(backward, SINGLE).report()
            assert report.passed, str(report)
        BaseTwo.lse = lambda self: Steps.lse(self) * SINGLE(1.001)
        assert not BaseTwo(backward, SINGLE).report().passed


LEVELS = {"cases": ["levels", "low"]}
LSE, KEEP = {"d_lse": True}, {"d_lse": True, "keep": 0.5}
BUGS = {
    # arguments of the battery, those of the backward pass, words, and what is replaced
    "no difference": (
        LEVELS, {}, "so exp(S) overflows unless lse is subtracted",
        {"weights": lambda s, lse: np.exp(s.logits().astype(SINGLE)) / np.exp(lse.astype(SINGLE))},
    ),
    "masked logits are -10000": (
        {"cases": ["low"], "head_dim": 64}, {}, "dv",
        {"logits": lambda s: np.maximum(logits_of(s.problem), -1e4)},
    ),
    "rows without keys are averages": (
        {"masks": [Boolean(empty=True)]}, {}, "dv",
        {"weights": lambda s, lse: np.where(np.isneginf(lse), 1 / 40, Steps.weights(s, lse))},
    ),
    "lse in 16 bits": (
        LEVELS, {}, "dv", {"lse": lambda s: nearest(Steps.lse(s), FORMATS["bfloat16"])},
    ),
    "lse, base two": (
        {}, {}, "HOW: dv", {"lse": lambda s: Steps.lse(s) / np.log(2)},
    ),
    "d(lse) negated": (
        {}, LSE, "all of these rows are right, times -1",
        {"of_lse": lambda s: -s.d_lse},
    ),
    "dropout, not of dv": (
        {}, KEEP, "HOW: dv", {"of_values": lambda s: 1.0},
    ),
    "bias, of the last sequence": ({}, LSE, "dbias", {"of_bias": lambda _, x: x[-1]}),
    "the scale is missing": ({}, {}, "times 4", {
        "written": lambda s, dq, dk, dv: (dq, dk / s.spec.factor, dv)}),
    "the scale, twice": ({}, {}, "times 0.25", {
        "written": lambda s, dq, dk, dv: (dq * s.spec.factor, dk, dv)}),
    "twice": ({}, {}, "times 2", {"written": lambda _, dq, dk, dv: (dq, dk, 2 * dv)}),
    "of the last head of a group": ({}, {}, "HOW: dv", {
        "summed": lambda s, heads: heads.reshape(2, 2, 2, *heads.shape[2:])[:, :, -1]}),
    "the slope": ({"soft_cap": 30.0, "head_dim": 64}, {}, "HOW: dq", {
        "slope": lambda s: 1 - np.abs(s.tanh())}),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_wrong_backward_passes_are_caught_and_explained(name):
    arguments, options, words, steps = BUGS[name]
    kernel, found = type("Wrong", (Steps,), steps), []
    shape = {"batch": 2, "heads": (4, 2), "queries": 40, "keys": 40, "head_dim": 16}
    for backward in Backward.each(
        battery(**(shape | {"causal": "top-left"} | arguments)), **options
    ):
        assert Steps(backward).report().passed
        report = kernel(backward).report()
        if not report.passed:
            assert len(report.lines) <= 12
            found.append(str(report))
        if any(words in text for text in found):
            return
    raise AssertionError(found)


def test_backward_passes_are_compared():
    given = list(
        Backward.each(
            battery(queries=20, keys=20, takes=["top-left"], cases=["last", "ties", "uniform"])
        )
    )
    right = [each.examine(each.dq, each.dk, each.dv) for each in given]
    assert diagnose(right) == ()
    wrong = [each.examine(each.dq / each.problem.spec.factor, each.dk, each.dv) for each in given]
    said = diagnose(wrong)
    assert said[0].startswith(f"FAIL: {sum(not each.passed for each in wrong)} of {len(given)}")
    assert any("all of these rows are right, times 8" in line for line in said)
    other = [each.examine(each.dq, each.dk, each.dv + 5.0) for each in given]
    assert any("HOW: dv of sequence 0" in line for line in diagnose(other))


@pytest.mark.parametrize("case", ["last", "ties", "uniform", "scale"])
def test_gradients_of_torch_are_right(case):
    """Each step is rounded to 16 bits."""
    spec = Spec(batch=2, heads=(4, 2), queries=30, keys=45, masks=(Causal(),), dtype="bfloat16")
    problem = Problem.build(spec, case)
    backward = Backward.of(problem)
    q, k, v = (tensor.requires_grad_() for tensor in problem.tensors("torch"))
    scores = q @ k.repeat_interleave(2, 1).mT * spec.factor
    weights = scores.masked_fill(~problem.mask_tensor("torch"), -torch.inf).softmax(-1)
    (weights @ v.repeat_interleave(2, 1)).backward(torch.tensor(backward.d_out).to(q.dtype))
    backward.check(q.grad, k.grad, v.grad)
    assert backward.dv.any()
    assert backward.dq.any() == (case != "last")


class Operands(Steps):
    """What products are made of is rounded to TF32."""

    def weights(self, lse):
        return nearest(Steps.weights(self, lse), TF32)

    def scores(self, p, rest, alone):
        return nearest(Steps.scores(self, p, rest, alone), TF32)


@pytest.mark.parametrize("case", ["last", "ties", "uniform", "scale"])
def test_gradients_may_be_made_of_operands_in_tf32(case):
    spec = Spec(heads=(4, 2), queries=20, keys=20, head_dim=16, masks=(Causal(),), dtype="tf32")
    backward = Backward.of(Problem.build(spec, case))
    report = Operands(backward).report()
    assert report.passed, str(report)
    dq, dk, dv = (report.found[name] for name in ("dq", "dk", "dv"))
    with pytest.raises(AssertionError, match="dv"):
        backward.check(dq, dk, 1.25 * dv)


@pytest.mark.parametrize("power", [0, 50])
def test_gradients_of_one_winner_vanish_but_for_faint_weights(power):
    spec = Spec(queries=4, keys=16, head_dim=16, heads=(1, 1), scale=2.0**power)
    backward = Backward.of(Problem.build(spec, "last"))
    report = Steps(backward).report()
    assert report.passed, str(report)
    dq, dk, dv = (report.found[name] for name in ("dq", "dk", "dv"))
    assert dq.any()
    with pytest.raises(AssertionError, match="dq"):
        backward.check(dq + 2.0**-20 * spec.factor * backward.problem.k.max(), dk, dv)


def test_wrong_gradients_are_named():
    problem = Problem.build(Spec(batch=2, heads=(4, 2), queries=30, keys=45), "random")
    backward = Backward.of(problem)
    dq, dk, dv = backward.dq, backward.dk, backward.dv
    with pytest.raises(KernelError, match="dq of sequence") as caught:
        backward.check(dq + 1, dk, dv)
    assert "error.report.wrong" in caught.value.suggestion
    with pytest.raises(ParameterError, match="shape"):
        backward.check(dq, dk, dv[:1])
    with pytest.raises(ParameterError, match="dq is None"):
        backward.check(None, dk, dv)


def test_gradients_of_noise_are_not_multiples():
    spec = Spec(heads=(2, 2), queries=20, keys=40, masks=(Causal("bottom-right"),))
    backward = Backward.of(Problem.build(spec, "ties"))
    random = np.random.default_rng(0)
    right = backward.dq, backward.dk, backward.dv
    noise = [random.standard_normal(each.shape) * 1e35 for each in right]
    assert "times" not in str(backward.examine(*noise))
    noise[0][:, :, ::3] = np.inf
    assert "times" not in str(backward.examine(*noise))
    assert "NaN or infinite" in str(backward.examine(*(each * np.nan for each in right)))


def test_problems_without_gradients_are_left_out_and_named(caplog):
    given = list(battery(queries=20, keys=20, cases=["large values", "ties"]))
    assert [each.problem.case for each in Backward.each(given)] == ["ties"]
    assert "1 problems (large values): values are larger than 8" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING
    with pytest.raises(ParameterError, match="values are larger"):
        Backward.of(given[0] if given[0].case == "large values" else given[1])


def test_gradients_in_other_shapes_and_options_are_refused():
    backward = Backward.of(Problem.build(SPEC, "ties"), d_lse=True)
    right = backward.dq, backward.dk, backward.dv
    whole = backward.expected["dbias"]
    for bias in (whole, whole.sum(0), whole.sum((0, 1)), whole.sum(2, keepdims=True)):
        backward.check(*right, dbias=bias)
        with pytest.raises(KernelError, match="dbias"):
            backward.check(*right, dbias=2 * bias)
    with pytest.raises(ParameterError, match="dbias has shape"):
        backward.check(*right, dbias=whole[:, :, :3])
    with pytest.raises(ParameterError, match="no sinks"):
        backward.check(*right, dsink=np.zeros(4))
    with pytest.raises(ParameterError, match=r"keep=0\.3"):
        Backward.of(backward.problem, keep=0.3)
    assert eval(repr(backward)).d_lse.any()  # noqa: S307


def test_rows_of_which_one_is_infinite_are_not_called_multiples():
    backward = Backward.of(Problem.build(Spec(queries=6, keys=6, masks=(Causal("top-left"),))))
    dv = backward.dv.copy()
    dv[0, 0, 1] *= 3.0
    assert "times 3" in str(backward.examine(backward.dq, backward.dk, dv))
    dv[0, 0, 2] = np.inf
    assert "times" not in str(backward.examine(backward.dq, backward.dk, dv))


def test_an_iteration_without_gradients_is_an_error():
    with pytest.raises(ParameterError, match="no problem are known: values are larger"):
        list(Backward.each(battery(queries=9, keys=9, cases=["large values"])))
    with pytest.raises(ParameterError, match="there is none"):
        list(Backward.each([]))


@pytest.mark.parametrize("causal", [None, "top-left"])
def test_gradients_with_slopes_are_exact(causal):
    given = battery(queries=20, keys=30, heads=(4, 2), alibi=True, causal=causal)
    caught = 0
    for backward in Backward.each(given, d_lse=True):
        assert Steps(backward, SINGLE).report().passed
        wrong = type("Wrong", (Steps,), {"logits": lambda s: logits_of(s.problem) * 0.5})
        caught += not wrong(backward).report().passed
    assert caught >= 2


@pytest.mark.parametrize("bias", ["bhij", "bij", "hij", "bj"])
def test_gradients_of_biases_are_summed_over_what_shares_them(bias):
    shape = {"queries": 20, "keys": 30, "heads": (4, 2), "bias": bias}
    caught = 0
    for backward in Backward.each(battery(**shape), d_lse=True):
        assert Steps(backward, SINGLE).report().passed
        shared = tuple(axis for axis, n in enumerate(backward.problem.bias.shape) if n == 1)
        right = backward.dq, backward.dk, backward.dv
        dbias = backward.expected["dbias"].sum(shared, keepdims=True)
        backward.check(*right, dbias=dbias)
        caught += not backward.examine(*right, dbias=np.roll(dbias, 1, -1)).passed
    assert caught >= 2


def test_the_first_backward_problem_of_each_shape_has_gradients_of_queries():
    shapes = set()
    for backward in Backward.each(battery()):
        spec = Spec(**vars(backward.problem.spec) | {"seed": 0})
        if spec not in shapes:
            assert backward.problem.case == "ties"
            assert backward.dq.any()
            assert backward.dk.any()
            shapes.add(spec)
    assert len(shapes) >= 10
