"""The same row has the same bits; nothing is written outside an output."""

import numpy as np
import pytest
from kernels_of_tests import VARIANTS, attend, random_spec

from constructive.kernels import CASES, Backward, Guarded, Problem, Spec, invariance
from constructive.kernels.masks import Boolean, Causal
from constructive.kernels.problem import attempt
from constructive.support.errors import ParameterError

SPEC = Spec(batch=3, heads=(4, 2), queries=9, keys=40, masks=(Boolean(seed=1),))


def of(problem, how=None, *, splits=lambda _q: 1):
    """A kernel of q, k, v and mask; the number of splits may depend on the batch."""

    def kernel(q, k, v, mask):
        block = -(-k.shape[2] // splits(q))
        return attend(q, k, v, problem, visible=mask, **(how or {"block": block}))

    return kernel


def racing(problem):
    calls = []

    def kernel(q, k, v, mask):
        out = np.array(of(problem)(q, k, v, mask))
        calls.append(1)
        out[0, 0, -1] *= 2.0 if len(calls) % 3 == 0 else 1.0
        return out

    return kernel


def test_right_kernels_pass_on_problems():
    ran = 0
    for seed in range(40):
        problem = attempt(
            random_spec(seed, sink=False, soft_cap=None), list(CASES)[seed % len(CASES)]
        )
        if isinstance(problem, Problem):
            assert not invariance(of(problem, VARIANTS[seed % 6]), problem)
            ran += 1
    assert ran >= 20


def test_kernels_that_depend_on_the_batch():
    problem = Problem.build(SPEC, "random")
    kernel = of(problem, splits=lambda q: 8 // len(q))
    assert not invariance(kernel, problem)  # an admissible kernel
    found = invariance(kernel, problem, claims=("again", "alone", "batch"))
    assert {difference.claim for difference in found} == {"alone", "batch"}
    assert "rows have other bits" in str(found[0])
    assert not invariance(of(problem), problem, claims=("again", "order", "alone", "batch"))


def test_races_and_reads_across_the_batch():
    problem = Problem.build(SPEC, "random")
    assert invariance(racing(problem), problem)[0].claim == "again"
    wrong = of(problem)
    found = invariance(lambda q, k, v, mask: wrong(q, k, v, mask[:1] | (mask & False)), problem)
    assert "order" in {difference.claim for difference in found}
    with pytest.raises(ParameterError, match="claim"):
        invariance(wrong, problem, claims=("speed",))


def test_log_sum_exps_and_torch():
    torch = pytest.importorskip("torch")
    problem = Problem.build(Spec(queries=9, keys=9, masks=(Causal(),)), "random")

    def kernel(q, k, v, mask, base=0.0):
        logits = (q @ k.mT / 8).masked_fill(~mask, -torch.inf)
        lse = torch.logsumexp(logits, -1)
        return torch.softmax(logits, -1) @ v, lse + base * len(q)

    assert not invariance(kernel, problem, library="torch")
    found = invariance(lambda *x: kernel(*x, base=1.0), problem, library="torch")
    assert {difference.claim for difference in found} == {"batch"}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore:invalid value")  # of signalling NaNs
def test_guards(library, dtype):
    for place, written in ((-16, 0.0), (0, 0.0), (2 * 3 * 40 * 16, 1.0)):
        guarded = Guarded((2, 3, 40, 16), dtype=dtype, library=library, around=64)
        guarded._whole[64 + place : 64 + place + 16] += written
        assert bool(guarded.outside) == (place != 0)
    guarded = Guarded((2, 3, 40, 16), dtype=dtype, library=library)
    guarded.array[:, :, :30] = -0.0
    assert not guarded.outside


def gradients(backward, wrong_first=0.0, uses=0.0):
    """A backward pass whose first call adds something, or that adds what is in its workspace."""
    calls = []

    def kernel(_q, _k, _v, _mask, _d_out, workspace):
        calls.append(1)
        more = wrong_first * (len(calls) == 1) + (uses * workspace[0] if uses else 0.0)
        right = (backward.dq, backward.dk, backward.dv)
        return tuple(x + more * np.abs(x).max() for x in right)

    return kernel


def test_backward_passes_are_called_again():
    problem = Problem.build(SPEC, "ties")
    backward = Backward.of(problem)
    assert not invariance(gradients(backward), backward, workspace=4)
    for wrong in ({"wrong_first": 1.0}, {"uses": 1.0}):
        found = invariance(gradients(backward, **wrong), backward, workspace=4)
        assert {each.claim for each in found} == {"again, dq", "again, dk", "again, dv"}
    slack = 0.9 * backward.slack["dq"]  # two right passes may differ
    signs = iter((1.0, -1.0, 1.0, -1.0))
    right = backward.dq, backward.dk, backward.dv

    def rounded(*_):
        return right[0] + next(signs) * slack, *right[1:]

    assert not invariance(rounded, backward)
    with pytest.raises(ParameterError, match="claim"):
        invariance(rounded, backward, claims=["order"])
