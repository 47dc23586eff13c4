"""Wrong steps of a backward pass, and numbers in wrong places, are named."""

import numpy as np
import pytest
from kernels_of_tests import logits_of, plain, values_of

from constructive.kernels import Backward, Problem, Spec, diagnose, examine
from constructive.kernels.backward import BackwardReport
from constructive.kernels.batteries import problems
from constructive.kernels.masks import Causal, VariableLengths

SPEC = Spec(batch=2, heads=(4, 2), queries=40, keys=40, head_dim=16, masks=(Causal(),))
ORDERS = "ties", "scale"


class Steps:
    """Gradients by the textbook; each step is a method that a test replaces."""

    def __init__(self, problem, d_out):
        self.spec, self.d_out = problem.spec, d_out
        self.q, self.k = problem.q, np.repeat(problem.k, problem.spec.group, 1)
        self.v = values_of(problem)
        logits = logits_of(problem)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        self.p = weights / weights.sum(-1, keepdims=True)

    def alone(self):
        return (self.d_out * (self.p @ self.v)).sum(-1, keepdims=True)

    def scores(self, rest, alone):
        return self.p * (rest - alone)

    def written(self, dq, dk, dv):
        return dq, dk, dv

    def summed(self, heads):
        spec = self.spec
        return heads.reshape(spec.batch, spec.heads[1], spec.group, *heads.shape[2:]).sum(2)

    def gradients(self):
        found = self.scores(self.d_out @ self.v.swapaxes(-1, -2), self.alone())
        return self.written(
            found @ self.k * self.spec.factor,
            self.summed(found.swapaxes(-1, -2) @ self.q * self.spec.factor),
            self.summed(self.p.swapaxes(-1, -2) @ self.d_out),
        )


WRONG = {
    "D is added to dP": {"alone": lambda s: -Steps.alone(s)},
    "D is that of the query before": {"alone": lambda s: np.roll(Steps.alone(s), 1, 2)},
    "D is the average over all queries": {
        "alone": lambda s: Steps.alone(s).mean(2, keepdims=True),
    },
    "not multiplied by the weights": {"scores": lambda _, rest, alone: rest - alone},
    "the diagonal of the softmax alone": {"scores": lambda s, rest, _: s.p * (1 - s.p) * rest},
    "cut off at 0": {"scores": lambda s, *a: np.maximum(Steps.scores(s, *a), 0)},
    "dq is divided by the scale": {
        "written": lambda s, dq, dk, dv: (dq / s.spec.factor**2, dk, dv),
    },
    "dk and dv are exchanged": {"written": lambda _, dq, dk, dv: (dq, dv, dk)},
    "dk has the opposite sign": {"written": lambda _, dq, dk, dv: (dq, -dk, dv)},
    "dq has heads in reverse order": {"written": lambda _, dq, dk, dv: (dq[:, ::-1], dk, dv)},
    "dv is that of the token before": {
        "written": lambda _, dq, dk, dv: (dq, dk, np.roll(dv, 1, 2)),
    },
    "dv is made of weights that are not transposed": {
        "written": lambda s, dq, dk, _: (dq, dk, s.summed(s.p @ s.d_out)),
    },
    "dk and dv are averaged over query heads of a group": {
        "summed": lambda s, heads: Steps.summed(s, heads) / s.spec.group,
    },
}  # fmt: skip


LIKE_OTHERS = {
    "D is that of the query before", "not multiplied by the weights", "dk has the opposite sign",
    "dq has heads in reverse order", "dv is that of the token before",
}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    ["right", *(pytest.param(w, marks=[pytest.mark.slow] * (w in LIKE_OTHERS)) for w in WRONG)],
)
def test_steps_of_a_backward_pass(words):
    kernel, named = type("Kernel", (Steps,), WRONG.get(words, {})), 0
    for case in ORDERS:
        backward = Backward.of(Problem.build(SPEC, case))
        report = BackwardReport(backward, *kernel(backward.problem, backward.d_out).gradients())
        assert report.passed or words != "right"
        assert report.passed or any(words in name for name in report.explanations)
        named += not report.passed
    assert named >= (words != "right")


def softmax_of(problem, scores, axis=-1):
    weights = np.exp(scores - scores.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True) @ values_of(problem)


def other_strides(problem):
    """Keys and values in (B, T, H, d) memory, read with the number of query heads per token."""
    spec = problem.spec
    found = []
    for array in (problem.k, problem.v):
        memory = array.swapaxes(1, 2).ravel()
        b, h, t, column = np.indices(array.shape)
        width = array.shape[-1]
        place = b * array[0].size + h * width + t * spec.heads[0] * width + column
        found.append(np.repeat(memory[place % memory.size], spec.group, 1))
    scores = problem.q @ found[0].swapaxes(-1, -2) * spec.factor
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ found[1]


def ordered(problem, order):
    k, v = (np.repeat(x[:, :, order], problem.spec.group, 1) for x in (problem.k, problem.v))
    scores = problem.q @ k.swapaxes(-1, -2) * problem.spec.factor
    scores = np.where(problem.visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def without_last_block(problem, size=16):
    out = plain(problem)
    out[:, :, problem.spec.queries // size * size :] = 0
    return out


def without_last_query(problem):
    out = plain(problem)
    out[np.arange(problem.spec.batch), :, problem.spec.lengths[0] - 1] = 0
    return out


PLAIN = Spec(batch=2, heads=(4, 2), queries=40, keys=40, head_dim=16)
CACHE = Spec(
    batch=2, heads=(4, 2), queries=5, keys=60, head_dim=16, masks=(Causal("bottom-right"),)
)
LENGTHS = VariableLengths((30, 17), (40, 21))
PACKED = Spec(batch=2, heads=(2, 2), queries=30, keys=40, head_dim=16, masks=(LENGTHS,))


@pytest.mark.parametrize(
    ("spec", "kernel", "words"),
    [
        (PLAIN, lambda p: softmax_of(p, logits_of(p), -2), "softmax is over queries"),
        (PLAIN, lambda p: softmax_of(p, logits_of(p).swapaxes(-1, -2)), "logits are transposed"),
        (PLAIN, other_strides, "tokens has the number of query heads"),
        (PLAIN, without_last_block, "which is not full, is not written"),
        (PACKED, without_last_query, "the last query of each sequence is not written"),
        (CACHE, lambda p: ordered(p, np.roll(np.arange(60), 5)), "in front of those of the cache"),
        (
            CACHE,
            lambda p: ordered(p, np.where(np.arange(60) == 55, 54, np.arange(60))),
            "the first new key is the last one of the cache",
        ),
    ],
)
def test_axes_strides_caches_and_rows(spec, kernel, words):
    reports = [
        examine(problem, kernel(problem)) for problem in problems(spec, cases=["random", *ORDERS])
    ]
    assert not all(report.passed for report in reports)
    assert any(words in name for name in diagnose(reports))
