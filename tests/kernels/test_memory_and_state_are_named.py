"""Wrong addresses, strides, bits, biases and state are named; what is something else is not."""

import numpy as np
import pytest
from kernels_of_tests import flash, logits_of, plain, softmax_average, values_of, with_mask

from constructive import ParameterError
from constructive.kernels import Backward, Paged, Problem, Spec, battery, diagnose, examine
from constructive.kernels.backward import BackwardReport
from constructive.kernels.batteries import problems
from constructive.kernels.masks import Causal, LeftPadding, RightPadding
from constructive.kernels.mistakes.bits import read_as
from constructive.kernels.places import PLACES

CASES = ["last", "random", "ties", "uniform"]
LENGTHS = (70, 33, 8)
PAGED = Spec(batch=3, heads=(4, 2), queries=9, keys=70, head_dim=32, masks=(RightPadding(LENGTHS),))


def said(reports):
    assert not all(report.passed for report in reports)
    return diagnose(reports)


def tokens_of(paged, problem, page, place):
    """Keys and values at places of pages; zeros behind the end of a sequence."""
    exists = np.arange(problem.spec.keys) < paged.lengths[:, None]
    places = page * paged.k.shape[1] + place
    found = []
    for pages in (paged.k, paged.v):
        flat = pages.reshape(-1, *pages.shape[2:])
        inside = exists & (places >= 0) & (places < len(flat))
        tokens = flat[np.where(inside, places, 0)]
        found.append(np.where(inside[..., None, None], tokens, 0.0).swapaxes(1, 2))
    return found


def paged_kernel(address):
    """Attention that finds page and place of each key by a function of the table and the key."""

    def kernel(paged, problem):
        size, width = paged.k.shape[1], paged.table.shape[1]
        key = np.broadcast_to(np.arange(problem.spec.keys), (3, problem.spec.keys))
        page, place = address(paged.table, key, size, width)
        k, v = tokens_of(paged, problem, page, place)
        group = problem.spec.group
        repeated = (np.repeat(array, group, 1) for array in (k, v))
        with np.errstate(all="ignore"):
            return softmax_average(problem.q, *repeated, problem.visible, problem.spec.factor)

    return kernel


def in_table(table, row, column):
    return np.take(table.ravel(), row * table.shape[1] + column, mode="clip")


SEQUENCE = np.arange(3)[:, None]
ADDRESSES = {
    "right": lambda t, j, s, _: (in_table(t, SEQUENCE, j // s), j % s),
    "pages are taken in order": lambda _, j, s, w: (SEQUENCE * w + j // s, j % s),
    "pages are those of sequence 0": lambda t, j, s, _: (in_table(t, 0 * SEQUENCE, j // s), j % s),
    "the page changes one key too late": lambda t, j, s, _: (
        in_table(t, SEQUENCE, np.maximum(j - 1, 0) // s), j % s,
    ),
    "the place in a page is always the first": lambda t, j, s, _: (
        in_table(t, SEQUENCE, j // s), 0 * j,
    ),
    "pages are taken to have 16 keys, not 8": lambda t, j, *_: (
        in_table(t, SEQUENCE, j // 16), j % 16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", ADDRESSES)
def test_pages(words):
    kernel, reports = paged_kernel(ADDRESSES[words]), []
    for problem in problems(PAGED, cases=["last", "first", "random", "uniform"]):
        paged = Paged.of(problem, page_size=8, stale=True)
        reports.append(examine(problem, kernel(paged, problem), memory=paged))
    if words == "right":
        assert all(report.passed for report in reports)
    else:
        assert any(words in name for name in said(reports))


def test_keys_beyond_the_end_of_a_sequence_in_its_last_page():
    def kernel(paged, problem):
        ends = -(-paged.lengths // 8) * 8
        k, v = tokens_of(
            Paged(paged.k, paged.v, paged.table, ends, paged.pool), problem,
            in_table(paged.table, SEQUENCE, np.arange(72) // 8)[:, :70], np.arange(70) % 8,
        )  # fmt: skip
        k, v = (np.repeat(array, 2, 1) for array in (k, v))
        seen = np.arange(70) < ends[:, None, None, None]
        return softmax_average(problem.q, k, v, seen, problem.spec.factor)

    spec = Spec(batch=3, heads=(4, 2), queries=9, keys=70, masks=(RightPadding((64, 33, 8)),))
    reports = []
    for problem in problems(spec, cases=["last", "random", "uniform"]):
        paged = Paged.of(problem, page_size=8, stale=True)
        reports.append(examine(problem, kernel(paged, problem), memory=paged))
    assert "the last page of each sequence is read to its end" in said(reports)[0]


@pytest.mark.parametrize("placed", ["spread", "swapped"])
@pytest.mark.parametrize(
    ("what", "words"),
    [("q", "strides of queries"), ("k", "strides of keys"), ("v", "strides of values")],
)
def test_strides_that_are_ignored(placed, what, words):
    def kernel(problem):
        arrays = {"q": problem.q, "k": problem.k, "v": problem.v}
        arrays[what] = PLACES[placed].flat(arrays[what])
        k, v = (np.repeat(arrays[name], 2, 1) for name in "kv")
        return softmax_average(arrays["q"], k, v, problem.visible, problem.spec.factor)

    given = battery(queries=20, keys=33, head_dim=16, heads=(4, 2), cases=CASES)
    found = said([examine(each, kernel(each), memory=placed) for each in given])
    assert words in found[0]
    assert "ignored" in found[0]


def test_memory_is_a_place_or_pages():
    problem = Problem.build(Spec(queries=3, keys=5, head_dim=16))
    with pytest.raises(ParameterError, match="nowhere"):
        examine(problem, problem.expected, memory="nowhere")
    with pytest.raises(ParameterError, match="fast"):
        examine(problem, problem.expected, model="fast")


@pytest.mark.parametrize(("dtype", "other"), [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_bits_of_another_format(dtype, other):
    def of_values(problem):
        v = read_as(problem.v, dtype, other)
        k, v = repeated(problem, problem.k, v)
        return softmax_average(problem.q, k, v, problem.visible, problem.spec.factor)

    def of_output(problem):
        return read_as(plain(problem), other, dtype)

    for kernel, words in ((of_values, "bits of values"), (of_output, "bits of the output")):
        given = battery(queries=20, keys=33, head_dim=16, dtype=dtype, cases=["last", "ties"])
        assert words in said([examine(each, kernel(each)) for each in given])[0]


@pytest.mark.parametrize("pair", [("float16", "bfloat16"), ("float8_e4m3fn", "float8_e5m2")])
def test_bits_are_those_of_ml_dtypes(pair):
    types = pytest.importorskip("ml_dtypes")
    kinds = [np.dtype(getattr(types, name, name)) for name in pair]
    random = np.random.default_rng(0)
    values = random.standard_normal(999) * 2.0 ** random.integers(-12, 5, 999)
    values[:9] = 0.0
    for written, read, kind, other in (*[(*pair, *kinds)], (*pair[::-1], *kinds[::-1])):
        stored = values.astype(kind)
        wanted = stored.view(other).astype(np.float64)
        found = read_as(stored.astype(np.float64), written, read)
        finite = np.isfinite(wanted)
        assert np.array_equal(found[finite], wanted[finite])
        assert not np.isfinite(found[~finite]).any()


def repeated(problem, *arrays):
    return [np.repeat(array, problem.spec.group, 1) for array in arrays]


def without_reset(problem, kept, block=16):
    """Attention in blocks of queries that goes on with what the block before ended with."""
    scores, v = logits_of(problem), values_of(problem)
    out = np.empty_like(problem.expected)
    state = {}
    for start in range(0, scores.shape[2], block):
        rows = scores[:, :, start : start + block]
        count = rows.shape[2]
        before = {name: array[:, :, :count] for name, array in state.items()}
        top = before["top"] if start and "top" in kept else np.full((*rows.shape[:3], 1), -np.inf)
        total = before["total"] if start and "total" in kept else 0.0
        acc = before["acc"] if start and "acc" in kept else 0.0
        new = np.maximum(top, rows.max(-1, keepdims=True))
        fade = np.exp(top - new)
        weights = np.exp(rows - new)
        total = total * fade + weights.sum(-1, keepdims=True)
        acc = acc * fade + weights @ v
        state = {"top": new, "total": total, "acc": acc}
        out[:, :, start : start + block] = acc / total
    return out


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ({"top", "total"}, "the sum of weights"),
        ({"top", "acc"}, "the accumulator"),
        ({"top", "total", "acc"}, "the sum of weights and the accumulator"),
    ],
)
def test_state_that_is_not_reset(kept, words):
    given = battery(queries=41, keys=33, head_dim=16, cases=["random", "ties", "low level"])
    found = said([examine(each, without_reset(each, kept)) for each in given])
    assert words in found[0]
    assert "not reset between blocks of queries" in found[0]
    assert all(
        examine(each, without_reset(each, set())).passed
        for each in battery(queries=41, keys=33, head_dim=16, cases=CASES)
    )


def of_splits(problem, shown):
    return with_mask(problem, problem.visible & shown(np.arange(problem.spec.keys)))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda each: of_splits(each, lambda j: j < 68), "the size of splits is rounded down"),
        (lambda each: of_splits(each, lambda j: j < 64), "the number of blocks"),
        (lambda each: of_splits(each, lambda j: j < 35), "only the first split"),
        (
            lambda each: softmax_average(
                each.q, *repeated(each, each.k, each.v), each.visible, each.spec.factor
            )[:, :, np.arange(41)[::-1]],
            "queries of the output are in reverse order",
        ),
    ],
)
def test_keys_of_splits_that_are_lost(kernel, words):
    reports = [
        examine(each, kernel(each))
        for each in battery(queries=41, keys=70, head_dim=16, cases=CASES)
    ]
    assert any(words in name for name in said(reports))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda logits, bias: logits * bias, "multiplied with the logits"),
        (lambda logits, bias: logits - bias, "opposite sign"),
        (lambda logits, bias: logits + bias / 4, "multiplied by the scale"),
        (lambda logits, bias: logits + 0 * bias, "the bias is ignored"),
    ],
)
def test_biases(change, words):
    def kernel(problem):
        k, v = repeated(problem, problem.k, problem.v)
        logits = problem.q @ k.swapaxes(-1, -2) * problem.spec.factor
        scores = np.where(problem.visible, change(logits, problem.bias), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    given = battery(queries=41, keys=41, head_dim=16, alibi=True, causal="top-left", cases=CASES)
    assert any(words in name for name in said([examine(each, kernel(each)) for each in given]))


def test_left_padding_on_the_right():
    starts = (0, 5, 11)

    def kernel(problem):
        ends = 41 - np.array(starts)[:, None, None, None]
        return with_mask(problem, np.arange(41) < ends)

    given = battery(
        queries=41, keys=41, head_dim=16, batch=3, masks=[LeftPadding(starts)], cases=CASES
    )
    found = said([examine(each, kernel(each)) for each in given])
    assert found[0] == "left padding is taken to be on the right"


def test_tiles_of_weights_that_are_transposed():
    def kernel(problem):
        scores, v = logits_of(problem), values_of(problem)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        turned = weights.reshape(*weights.shape[:2], 3, 16, 4, 16).swapaxes(3, 5)
        return turned.reshape(weights.shape) @ v / weights.sum(-1, keepdims=True)

    given = battery(queries=48, keys=64, head_dim=16, cases=CASES)
    found = said([examine(each, kernel(each)) for each in given])
    assert "weights are transposed in tiles of 16 x 16" in found[0]


def test_what_is_something_else_has_no_name():
    """Noise, values that are shuffled, and a kernel that is right but in some rows at random."""
    random = np.random.default_rng(0)
    order = random.permutation(17)

    def noise(problem):
        return problem.expected + random.standard_normal(problem.expected.shape)

    def shuffled(problem):
        return softmax_average(
            problem.q, *repeated(problem, problem.k, problem.v[:, :, order]), problem.visible,
            problem.spec.factor,
        )  # fmt: skip

    def sometimes(problem):
        wrong = random.random(problem.expected.shape[:3]) < 0.3
        return np.where(wrong[..., None], noise(problem), plain(problem))

    for kernel in (noise, shuffled, sometimes):
        reports = [
            examine(each, kernel(each), memory="swapped")
            for each in battery(
                queries=12, keys=17, head_dim=16, cases=["random", "ties", "uniform"]
            )
        ]
        assert all(report.explanations == () for report in reports)
        assert all("% of wrong rows" in name for name in said(reports))


def test_a_right_kernel_is_named_by_none_of_the_new_mistakes():
    """Right but for one row: a mistake that leads to right rows must not explain the wrong one."""
    for problem in battery(queries=41, keys=33, head_dim=16, causal="bottom-right", alibi=True):
        out = flash(problem).astype(np.float64)
        assert examine(problem, out).passed
        out[0, 0, 40] = problem.v[1, 0, 3]
        report = examine(problem, out)
        assert not any(each.is_whole for each in report.explanations)


def test_the_slope_of_a_soft_cap_shows_in_gradients():
    """A slope of 1 - |tanh| leaves the slack, and is named; the right one stays inside."""
    spec = Spec(heads=(2, 2), queries=20, keys=40, soft_cap=30.0)
    problem = Problem.build(spec, "soft cap ties")
    backward = Backward.of(problem)
    q, k, v = problem.q, problem.k, problem.v
    raw = q @ k.swapaxes(-1, -2) * spec.factor
    weights = np.exp(30.0 * np.tanh(raw / 30.0) - 30.0 * np.tanh(raw / 30.0).max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    rest = backward.d_out @ v.swapaxes(-1, -2)
    score = weights * (rest - (weights * rest).sum(-1, keepdims=True))
    for slope, is_right in (
        (1 - np.tanh(raw / 30) ** 2, True),
        (1 - abs(np.tanh(raw / 30)), False),
    ):
        found = score * slope * spec.factor
        report = BackwardReport(
            backward,
            found @ k,
            found.swapaxes(-1, -2) @ q,
            weights.swapaxes(-1, -2) @ backward.d_out,
        )
        assert report.passed == is_right
        if not is_right:
            assert "1 - |tanh|" in str(report)


def test_large_gradients_of_something_else_have_no_name():
    """Some mistakes lead to infinite numbers, which must not match whatever is finite."""
    spec = Spec(heads=(2, 2), queries=20, keys=40, masks=(Causal("bottom-right"),))
    backward = Backward.of(Problem.build(spec, "ties"))
    random = np.random.default_rng(0)
    noise = [
        random.standard_normal(each.shape) * 1e35
        for each in (backward.dq, backward.dk, backward.dv)
    ]
    assert BackwardReport(backward, *noise).explanations == ()
    noise[0][:, :, ::3] = np.inf
    assert BackwardReport(backward, *noise).explanations == ()
