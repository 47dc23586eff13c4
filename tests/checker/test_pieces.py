"""Threads of the checker: its verdicts and its arrays do not depend on their number."""

import threading

import mpmath
import numpy as np
import pytest
from checker_parts import saved

from constructive import build_memorizer, generators

PRIME = 4194287


@pytest.fixture
def jobs(checker):
    """How many threads are taken; one in the end."""
    yield checker.pieces.take
    checker.pieces.take(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    data = generators.uniform(num_examples=91, context_size=4, width=8)
    return saved(tmp_path_factory.mktemp("files"), build_memorizer(data, num_heads=30), data)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_verdict_does_not_depend_on_threads(checker, files, count, jobs, monkeypatch, capsys):
    for part in (checker.rank, checker.floating, checker.layers, checker.error):
        monkeypatch.setattr(part, "CHUNK", 1 << 12)
    monkeypatch.setattr(checker.modular, "BLOCK", 16)
    taken, take = [], checker.pieces.take
    monkeypatch.setattr(checker.pieces, "take", lambda given: taken.append(given) or take(given))
    del jobs
    assert checker.main([*files, "--jobs", str(count)]) == 0
    assert taken == [count, min(count, 6)]  # there are six pieces
    output = capsys.readouterr()
    assert output.out.count("\n") == 4
    assert "PROVED" in output.out


def test_threads_are_as_many_as_pieces_and_memory_allow(checker, files, capsys):
    assert checker.main([*files, "--jobs", "8"]) == 0
    assert checker.pieces.jobs == 1  # all examples are one piece
    alone = capsys.readouterr().err
    assert checker.main([*files, "--jobs", "1"]) == 0
    assert capsys.readouterr().err == alone


@pytest.mark.parametrize("count", ["0", "65", "-1", "two"])
def test_other_numbers_of_threads_are_refused(checker, files, count, capsys):
    with pytest.raises(SystemExit) as ended:
        checker.main([*files, f"--jobs={count}"])
    assert ended.value.code == 2
    assert f"'{count}' is not a number from 1 to 64" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-1", " 2", "\u0661", "9" * 5000])
def test_what_the_variable_says_is_a_number(checker, files, count, monkeypatch, capsys):
    monkeypatch.setenv(checker.pieces.VARIABLE, count)
    with pytest.raises(SystemExit) as ended:
        checker.main(files)
    assert ended.value.code == 2
    assert "argument --jobs" in capsys.readouterr().err


def test_pieces_come_in_their_order_from_several_threads(checker, jobs):
    jobs(3)
    meeting = threading.Barrier(3, timeout=20)

    def piece(number):
        meeting.wait()
        return number, threading.get_ident(), np.geterr()["divide"]

    with np.errstate(divide="raise"):
        found = list(checker.pieces.in_pieces(piece, range(6)))
    assert [number for number, *_ in found] == list(range(6))
    assert len({thread for _, thread, _ in found}) == 3
    assert {state for *_, state in found} == {"raise"}


def test_what_a_piece_refuses_is_refused(checker, jobs):
    jobs(2)
    begun = []

    def piece(number):
        begun.append(number)
        checker.files.require(number != 1, "one is refused")

    with pytest.raises(ValueError, match="one is refused"):
        list(checker.pieces.in_pieces(piece, range(100)))
    assert len(begun) <= 6


@pytest.mark.parametrize(("words", "count"), [("3", 3), ("", 2), ("99", 64)])
def test_the_usual_number_of_threads(checker, words, count, monkeypatch):
    monkeypatch.setenv(checker.pieces.VARIABLE, words)
    monkeypatch.setattr(checker.pieces.os, "sched_getaffinity", lambda _: {1, 2}, raising=False)
    assert checker.pieces.usual() == count


@pytest.mark.parametrize("count", [1, 3])
def test_elimination_in_pieces(checker, count, jobs, monkeypatch):
    monkeypatch.setattr(checker.modular, "BLOCK", 24)
    jobs(count)
    rng = np.random.default_rng(count)
    part = checker.modular
    for total in (23, 24, 100, 131):
        matrix = part.reduce(rng.integers(PRIME, size=(total, total)).astype(float), PRIME)
        matrix[:, :5] = 0.0
        matrix[-5:, :5] = np.eye(5)  # the first columns have no pivots in the first rows
        right = part.reduce(rng.integers(PRIME, size=(total, 3)).astype(float), PRIME)
        found = part.solve(matrix.copy(), right.copy(), PRIME)
        assert not ((part.times(matrix, found, PRIME) - right) % PRIME).any()
        matrix[total // 2] = part.reduce(3 * matrix[0] - 5 * matrix[-1], PRIME)
        with pytest.raises(ValueError, match="singular modulo p"):
            part.require_nonsingular(matrix, PRIME)


@pytest.mark.parametrize("size", [1, 2, 7, 16, 17, 40, 100])
def test_inverses(checker, size):
    part, rng = checker.modular, np.random.default_rng(size)
    matrix = part.reduce(rng.integers(PRIME, size=(size, size)).astype(float), PRIME)
    found = part.inverse_of(matrix, PRIME)
    assert (part.times(matrix, found, PRIME) == np.eye(size)).all()
    matrix[:, 0] = 0.0
    assert part.inverse_of(matrix, PRIME) is None


def test_full_rank_of_large_matrices(checker):
    part, rng = checker.modular, np.random.default_rng(0)
    batch = part.reduce(rng.integers(PRIME, size=(2, 70, 90)).astype(float), PRIME)
    assert part.full_rank(batch, PRIME)
    batch[1, 69] = part.reduce(batch[1, 3] + 2 * batch[1, 5], PRIME)
    assert not part.full_rank(batch, PRIME)


def test_exponentials_are_as_near_as_they_say(checker):
    rng = np.random.default_rng(0)
    half = np.log(2.0) / 2
    edges = [0.0, -60.0, -1e-300, 1e-17, *(half * np.arange(-170, 3))]
    x = np.concatenate([rng.uniform(-60, 1, 3000), rng.uniform(1, 700, 500), edges])
    found = checker.bounds.exponentials(x)
    with mpmath.workdps(40):
        off = [
            abs(mpmath.mpf(y) / mpmath.exp(mpmath.mpf(z)) - 1)
            for y, z in zip(found.tolist(), x.tolist(), strict=True)
        ]
    assert max(off) < mpmath.mpf(2) ** -50
    assert max(off) > mpmath.mpf(2) ** -54
    below = checker.bounds.exponentials(np.array([-61.0, -1e4, -np.inf]))
    assert (below == 0.0).all()


def test_a_point_at_which_one_denominator_vanishes_is_refused(checker):
    """Where exp(1) stands for -1, logits 0 and 1 do, beside others which do not."""
    data = {"contexts": np.ones((1, 2, 2)), "queries": np.ones((1, 2))}
    part, view = checker.modular, checker.attend.Examples(data, [slice(0, 1)])
    numbers = part.Residues(view, PRIME, PRIME - 1)
    numbers.softmax(np.zeros((1, 2, 2)), None)
    with pytest.raises(checker.claim.Unshown, match="denominator vanishes") as caught:
        numbers.softmax(np.array([[[0.0, 1.0], [0.0, 0.0]]]), None)
    assert caught.value.witness == part.VANISHES
