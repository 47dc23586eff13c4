"""Threads: the same bits for any number of them, none where work is small, and none left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
import threadpoolctl

from constructive import ParameterError, build_memorizer, certify, generators
from constructive.certificates.certificate import Certificate
from constructive.checker import paired
from constructive.constructions.multihead import readout
from constructive.exact import modular
from constructive.layers import attention
from constructive.support import arrays, work
from constructive.support.work import cores, in_pieces, one_blas_thread, workers
from constructive.theory import assumptions
from constructive.theory.capacity import fixed_capacity

COUNTS = 1, 2, 3, 8


@pytest.fixture
def small_pieces(monkeypatch):
    """Loops have many pieces, and take threads, also where there is little work."""
    monkeypatch.setattr(work, "_WORTH", 0)
    monkeypatch.setattr(readout, "_BLOCK", 8)
    monkeypatch.setattr(modular, "_PANEL", 16)
    monkeypatch.setattr(modular, "_TILE", (16, 16))
    monkeypatch.setattr(modular, "_COLUMNS_OF_PIECE", 8)
    monkeypatch.setattr(attention.Own, "chunk_bytes", 1 << 14)
    monkeypatch.setattr(attention.Shared, "chunk_bytes", 1 << 14)


def blas_threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if "blas" in
            pool["user_api"]}  # fmt: skip


def contents(certificate: Certificate, folder):
    certificate.save(folder / "certificate.json")
    return (folder / "certificate.json").read_bytes()


def made(seed, folder):
    """The bits of weights, of a certificate with all claims and of a capacity, on random data."""
    rng = np.random.default_rng(seed)
    size, width, heads = rng.integers(2, 7), rng.integers(8, 20), rng.integers(2, 9)
    total = int(heads * (size - 1) + 1)
    make = generators.shared_context if seed % 4 == 3 else generators.uniform
    data = make(num_examples=total, context_size=int(size), width=int(width), seed=seed)
    kinds = "saturated", "rank_one", "generic"
    memorizer = build_memorizer(
        data, num_heads=int(heads), construction=kinds[seed % 3], seed=seed, precision="auto"
    )
    memorizer.save(folder / "memorizer.safetensors")
    claims = ["rank", "error"]
    certificate = certify(memorizer, data, claims=claims, seed=seed)
    found = fixed_capacity(data, int(heads), 1, seed=seed)
    capacity = found.at_least, found.at_most, found.blamed.tobytes()
    return (folder / "memorizer.safetensors").read_bytes(), contents(certificate, folder), capacity


def agree(seeds, monkeypatch, folder):
    for seed in seeds:
        found = []
        for count in COUNTS:
            monkeypatch.setenv(work.JOBS, str(count))
            found.append(made(seed, folder))
        assert found[1:] == found[:1] * (len(COUNTS) - 1), seed


@pytest.mark.usefixtures("small_pieces")
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, tmp_path):
    agree(range(4), monkeypatch, tmp_path)


@pytest.mark.usefixtures("small_pieces")
def test_proofs_of_pairs_and_samples_do_not_depend_on_the_number_of_threads(monkeypatch, tmp_path):
    """Also where some subsets are dependent, which are decided one by one."""
    monkeypatch.setattr(paired, "CHUNK", 160)
    monkeypatch.setattr(assumptions, "row_chunks", lambda n, _: arrays.row_chunks(n, 8, 160))
    data = generators.uniform(num_examples=151, context_size=3, width=7)
    memorizer = build_memorizer(data, num_heads=60, construction="paired")
    plane = np.random.default_rng(0).integers(-1, 2, size=(40, 3)).astype(float)
    found = []
    for count in COUNTS:
        monkeypatch.setenv(work.JOBS, str(count))
        proof = contents(certify(memorizer, data), tmp_path)
        found.append((proof, assumptions.dependent_share(plane, 3, subsets=100)))
    assert 0 < found[0][1].dependent < 100
    assert found[1:] == found[:1] * (len(COUNTS) - 1)


@pytest.mark.slow
@pytest.mark.usefixtures("small_pieces")
def test_bits_of_many_data_sets_do_not_depend_on_the_number_of_threads(monkeypatch, tmp_path):
    agree(range(4, 200), monkeypatch, tmp_path)


@pytest.mark.slow
def test_bits_of_large_data_do_not_depend_on_the_number_of_threads(monkeypatch, tmp_path):
    data = generators.uniform(num_examples=621, context_size=32, width=64)
    found = []
    for count in COUNTS:
        monkeypatch.setenv(work.JOBS, str(count))
        memorizer = build_memorizer(data, num_heads=20)
        memorizer.save(tmp_path / "memorizer.safetensors")
        certificate = contents(certify(memorizer, data), tmp_path)
        found.append(((tmp_path / "memorizer.safetensors").read_bytes(), certificate))
    assert found[1:] == found[:1] * (len(COUNTS) - 1)


def test_the_threads_are_used(monkeypatch):
    monkeypatch.setenv(work.JOBS, "3")
    meeting = threading.Barrier(3, timeout=120)

    def name(_):
        meeting.wait()
        return threading.current_thread().name

    names = list(in_pieces(name, range(3)))
    assert len(set(names)) == 3
    assert all(each.startswith("constructive") for each in names)
    assert not [thread for thread in threading.enumerate() if thread.name in names]


def test_small_work_takes_neither_threads_nor_limits(monkeypatch):
    monkeypatch.setenv(work.JOBS, "4")

    def fail(*_args, **_kwargs):
        raise AssertionError

    monkeypatch.setattr(work, "ThreadPoolExecutor", fail)
    monkeypatch.setattr(threadpoolctl, "threadpool_limits", fail)
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    memorizer = build_memorizer(data, num_heads=3)
    assert certify(memorizer, data).proved
    assert list(in_pieces(abs, [-1, 2], operations=1e6)) == [1, 2]
    assert list(in_pieces(abs, [-1])) == [1]
    with pytest.raises(AssertionError):
        list(in_pieces(abs, [-1, 2], operations=1e9))


def test_blas_has_one_thread_while_any_block_is_open():
    before = blas_threads()
    outer, inner = one_blas_thread(), one_blas_thread()
    outer.__enter__()
    inner.__enter__()
    assert blas_threads() == {1}
    outer.__exit__(None, None, None)  # not in the order in which they began, as in two threads
    assert blas_threads() == {1}
    inner.__exit__(None, None, None)
    assert blas_threads() == before


def test_any_thread_may_limit_blas_and_end_the_limit_of_another():
    """Some versions of threadpoolctl leave that to the first thread that sets a limit."""

    def elsewhere(function):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function).result()

    def limited():
        with one_blas_thread():
            return blas_threads()

    before = threadpoolctl.threadpool_limits(2, user_api="blas")  # this thread is the first one
    try:
        assert elsewhere(limited) == limited() == {1}
        assert blas_threads() == {2}
        block = one_blas_thread()
        block.__enter__()
        assert blas_threads() == {1}
        elsewhere(lambda: block.__exit__(None, None, None))
        assert blas_threads() == {2}
        elsewhere(lambda: threadpoolctl.threadpool_limits(1, user_api="blas"))
        assert blas_threads() == {1}
    finally:
        before.restore_original_limits()


@pytest.mark.parametrize("count", COUNTS)
def test_blas_has_one_thread_in_pieces_for_any_number_of_workers(count, monkeypatch):
    """Or else one worker would have other bits than two."""
    monkeypatch.setenv(work.JOBS, str(count))
    before = blas_threads()
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert list(in_pieces(lambda _: blas_threads(), range(3))) == [{1}] * 3
    assert blas_threads() == before


def test_pieces_see_the_error_state_of_the_caller_and_one_thread_alone(monkeypatch):
    monkeypatch.setenv(work.JOBS, "2")
    seen = []

    def piece(_):
        np.ones(1) / 0.0
        return list(in_pieces(lambda _: threading.get_ident(), range(3)))

    with np.errstate(divide="call", call=lambda *error: seen.append(error[0])):
        found = list(in_pieces(piece, range(4)))
    assert seen == ["divide by zero"] * 4
    assert all(len(set(inner)) == 1 for inner in found)


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_ends_the_pieces_that_run_and_no_other_begins(failure, monkeypatch):
    monkeypatch.setenv(work.JOBS, "2")
    begun, ended, last = [], [], threading.Event()

    def ends(running):
        last.set()
        return wait(running)

    def piece(number):
        begun.append(number)
        if number == 1:
            raise failure
        if number > 1:  # those that run are at work until the others have been cancelled
            assert last.wait(timeout=60)
        ended.append(number)
        return number

    monkeypatch.setattr(work, "wait", ends)
    results = in_pieces(piece, range(100))
    assert next(results) == 0
    with pytest.raises(failure):
        next(results)
    assert set(begun) - set(ended) == {1}
    assert len(begun) <= 4


def test_few_pieces_are_begun_before_results_are_taken(monkeypatch):
    monkeypatch.setenv(work.JOBS, "2")
    taken = []
    results = in_pieces(abs, (taken.append(k) or k for k in range(50)))
    next(results)
    assert len(taken) <= 6
    results.close()


@pytest.mark.parametrize("words", ["0", "two", "-1", "1.5", "10000", "\u0662"])
def test_a_variable_that_is_no_number_is_refused(words, monkeypatch):
    monkeypatch.setenv(work.JOBS, words)
    with pytest.raises(ParameterError, match="number of workers") as refused:
        workers()
    assert refused.value.witness == words


def test_the_number_of_cores_is_that_of_the_process_and_its_container(monkeypatch, tmp_path):
    monkeypatch.delenv(work.JOBS, raising=False)
    monkeypatch.setattr(work, "_LIMITS", tmp_path)
    monkeypatch.setattr(work, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    assert (workers(), cores()) == (4, 12)
    (tmp_path / "cgroup").write_text("4:memory:/x\n0::/outer/inner\n")
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    for file, words, allowed in (
        ("outer/inner/cpu.max", "max 100000", 12),
        ("outer/cpu.max", "350000 100000", 4),
        ("outer/inner/cpu.max", "50000 100000", 1),
        ("outer/inner/cpu.max", "max 100000", 4),
        ("cpu/cpu.cfs_quota_us", "200000", 2),
        ("cpu/cpu.cfs_quota_us", "-1", 4),
    ):
        (tmp_path / file).write_text(f"{words}\n")
        assert cores() == allowed
    monkeypatch.setenv(work.JOBS, "7")
    assert workers() == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not copied here")
def test_a_copy_of_the_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setenv(work.JOBS, "2")
    results = in_pieces(abs, range(-9, 0))
    next(results)
    child = os.fork()
    if child == 0:
        os._exit(0 if list(in_pieces(abs, [-1, -2])) == [1, 2] else 1)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for threads that it does not have")
    assert status == 0
    results.close()


INTERRUPTED = """
    import os, signal, sys, threading
    from constructive import build_memorizer, certify, check, generators
    from constructive.support import work
    from constructive.support.work import progress_to

    # a job in the background of a script inherits that SIGINT is ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    submitted, steps = [], []

    class Pool(work.ThreadPoolExecutor):
        def submit(self, function, piece):
            submitted.append(piece)
            return super().submit(function, piece)

    def interrupt(step, done, total):
        if step.startswith(sys.argv[2]):
            steps.append((step, len(submitted)))
            os.kill(os.getpid(), signal.SIGINT)

    data = generators.uniform(num_examples=621, context_size=32, width=64)
    memorizer = build_memorizer(data, num_heads=20)
    tasks = {
        "build": lambda: build_memorizer(data, num_heads=20),
        "certify": lambda: certify(memorizer, data),
        "check": lambda: check(certify(memorizer, data), memorizer, data),
    }
    work.ThreadPoolExecutor = Pool
    try:
        with progress_to(interrupt):
            tasks[sys.argv[1]]()
    except KeyboardInterrupt:
        (step, before), = steps
        assert len(submitted) == before, submitted
        assert threading.enumerate() == [threading.main_thread()]
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # there is none
            print("interrupted at", step)
"""


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ("build", "evaluate heads"),
        ("certify", "outputs in float64"),
        ("check", "check: rank"),
    ],
)
def test_an_interrupt_leaves_no_thread_no_process_and_no_file(what, step, tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), what, step],
        check=False, capture_output=True, text=True, timeout=300, cwd=tmp_path,
        env={**os.environ, work.JOBS: "3", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert run.stdout.startswith(f"interrupted at {step}"), run.stdout + run.stderr
    assert not [*tmp_path.iterdir()]


LEFT = """
    import gc, threading
    from constructive.support.work import in_pieces
    left = threading.Event()
    def piece(number):
        if number == 2:
            left.wait()
            gc.collect()
        return number
    def leave():
        results = in_pieces(piece, range(9))
        next(results)
        cycle = [results]
        cycle.append(cycle)
    gc.disable()
    leave()
    left.set()
"""


def test_a_piece_may_collect_the_loop_it_is_of():
    """As after an error that somebody keeps: it would wait for itself, and the process for it."""
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LEFT)],
        check=True, timeout=60, env={**os.environ, work.JOBS: "2"},
    )  # fmt: skip


@pytest.mark.parametrize("total", [5, 8, 9, 30, 41])
def test_blocks_are_what_numpy_and_lapack_find(total, monkeypatch):
    monkeypatch.setattr(readout, "_BLOCK", 8)
    monkeypatch.setattr(work, "_WORTH", 0)
    monkeypatch.setenv(work.JOBS, "3")
    rows = np.random.default_rng(total).standard_normal((total, 50))
    gram = readout.gram(rows)
    assert np.allclose(gram, rows @ rows.T, rtol=1e-13, atol=1e-13)
    assert (gram == gram.T).all()
    factor = readout.cholesky(gram.copy())
    lower = np.tril(factor)
    assert np.allclose(lower @ lower.T, gram, rtol=1e-12, atol=1e-12)
    assert factor.flags.f_contiguous
    gram[-1] = gram[:, -1] = gram[0]
    gram[-1, -1] = gram[0, 0] - 1.0  # not positive definite
    assert readout.cholesky(gram) is None


def test_a_readout_of_many_blocks_solves_its_equations(monkeypatch):
    monkeypatch.setattr(readout, "_BLOCK", 16)
    rng = np.random.default_rng(3)
    z, targets = rng.standard_normal((70, 90)), rng.standard_normal((70, 2))
    found = readout.solve(z, targets)
    assert found.residuals.max() < 1e-12
    assert found.ranks(np.array([70])) == (70,)
