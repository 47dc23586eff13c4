"""Results do not depend on where they are computed; killed workers lose nothing; and Dask."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from constructive import (
    AssumptionError,
    Dataset,
    FormatError,
    OutputError,
    ParameterError,
    assumptions,
    build_memorizer,
    certify,
    generators,
)
from constructive.certificates.claims import pairs
from constructive.support.files import replacing
from constructive.support.parallel import (
    _DASK,
    Checkpoint,
    arrays_at,
    ordered_map,
    require_seen,
    shared,
)
from constructive.support.progress import progress_to

# Work for workers, which import it from here.


def fatal_elsewhere(task):
    """Kill the process it runs in, for one of the numbers, unless that is the test itself."""
    number, home = task
    if number == 3 and os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class Murdered(ProcessPoolExecutor):
    """Kills its processes as soon as it has something to do."""

    def submit(self, function, /, *args, **kwargs):
        future = super().submit(function, *args, **kwargs)
        for process in list((self._processes or {}).values()):
            with contextlib.suppress(ProcessLookupError):  # it is dead already
                os.kill(process.pid, signal.SIGKILL)
        return future


# Results do not depend on where they are computed, and a killed worker loses nothing.


HERE = os.getpid()


def square(number):
    return number * number


def failing(number):
    if number == 5:
        message = f"no square for {number}"
        raise ValueError(message)
    return number * number


class Lost(ThreadPoolExecutor):
    """Loses a worker with every second task: what is submitted then never comes back."""

    def __init__(self):
        super().__init__(1)
        self.submitted = 0

    def submit(self, function, /, *args, **kwargs):
        self.submitted += 1
        if self.submitted % 2:
            return super().submit(function, *args, **kwargs)
        lost = Future()
        lost.cancel()
        lost.set_running_or_notify_cancel()
        return lost


class Stumbling(ThreadPoolExecutor):
    """Fails, as that of dask, where a worker dies as its result arrives."""

    def __init__(self, module):
        super().__init__(1)
        own = {"__name__": module}
        exec("def deliver(result):\n    typ, exc, tb = result", own)  # noqa: S102 - the same error
        self.deliver = own["deliver"]

    def submit(self, function, /, *args, **kwargs):
        return super().submit(lambda: self.deliver(function(*args, **kwargs)))


def run(function, tasks, executor):
    return ordered_map(function, tasks, executor=executor, step="squares")


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2) as processes:
        yield processes


def test_order_is_that_of_the_tasks(pool):
    expected = [square(number) for number in range(20)]
    for executor in (None, pool, ThreadPoolExecutor(3), Lost(), Stumbling(_DASK)):
        seen = []

        def listener(_step, done, _total, seen=seen):
            seen.append(done)

        with progress_to(listener):
            assert run(square, range(20), executor) == expected
        assert seen == list(range(1, 21))


def test_an_error_of_a_task_is_no_lost_worker():
    with pytest.raises(TypeError, match="unpack"):
        run(square, [1, 2], Stumbling("a_task"))


def test_a_killed_process_loses_nothing():
    with ProcessPoolExecutor(2) as processes:
        found = run(fatal_elsewhere, [(number, HERE) for number in range(30)], processes)
        assert found == [number * number for number in range(30)]
        again = run(
            square, range(5), processes
        )  # the pool is broken for good, and that is not a harm
    assert again == [0, 1, 4, 9, 16]


def test_an_error_of_a_task_is_raised(pool):
    for executor in (None, pool):
        with pytest.raises(ValueError, match="no square for 5"):
            run(failing, range(10), executor)


def test_an_interrupt_cancels_what_has_not_begun():
    class Never(Executor):
        futures = []  # noqa: RUF012

        def submit(self, function, /, *args, **kwargs):  # noqa: ARG002
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_result(1)
            return self.futures[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    with progress_to(interrupt), pytest.raises(KeyboardInterrupt):
        run(square, range(4), Never())
    assert [future.cancelled() for future in Never.futures] == [False, True, True, True]


def test_sampling_is_the_same_everywhere(pool):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-1, 2, size=(300, 64)).astype(float)
    vectors[::3] = vectors[0]
    here = assumptions.dependent_share(vectors, 32, subsets=1000)
    assert 0 < here.dependent <= 1000
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=pool) == here
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=Lost()) == here
    with Murdered(2) as killed:
        assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=killed) == here
    with pytest.raises(ParameterError, match="executor=4"):
        assumptions.dependent_share(vectors, 32, executor=4)
    data = generators.uniform(num_examples=20, context_size=3, width=5)
    reports = [assumptions.check(data, subsets=50, executor=executor) for executor in (None, pool)]
    assert str(reports[0]) == str(reports[1])


def test_an_interrupt_while_submitting_cancels_too():
    class Interrupted(Executor):
        futures = []  # noqa: RUF012

        def submit(self, function, /, *args, **kwargs):  # noqa: ARG002
            if len(self.futures) == 2:
                raise KeyboardInterrupt
            self.futures.append(Future())
            return self.futures[-1]

    with pytest.raises(KeyboardInterrupt):
        run(square, range(4), Interrupted())
    assert [future.cancelled() for future in Interrupted.futures] == [True, True]


# Pairs that are built and certified in pieces: wherever that is, whatever dies on the way.


HEADS = 300


"""Three pieces."""


def data_of(seed=0, *, dtype=np.float64):
    data = generators.uniform(num_examples=751, context_size=3, width=7, seed=seed)
    return Dataset(data.contexts.astype(dtype), data.queries.astype(dtype), data.targets)


def build(data, **options):
    return build_memorizer(data, num_heads=HEADS, construction="paired", **options)


def same_bits(first, second):
    tensors = first.layer.tensors, second.layer.tensors
    return first.record == second.record and all(
        tensors[0][name].tobytes() == tensors[1][name].tobytes() for name in tensors[0]
    )


@pytest.mark.parametrize(("seed", "dtype"), [(0, np.float32), (0, np.float64), (2, np.float64)])
def test_bits_do_not_depend_on_the_executor(seed, dtype):
    """With seed 2 they did, by an array which was contiguous in workers only."""
    data = Dataset(data_of(seed, dtype=dtype).contexts, data_of(dtype=dtype).queries, np.ones(751))
    here = build(data)
    for executor in (ProcessPoolExecutor(2), ThreadPoolExecutor(2), Murdered(2)):
        with executor:
            assert same_bits(build(data, executor=executor), here)


def test_heads_of_full_rank_too():
    data = generators.gaussian(num_examples=400, context_size=3, width=5, seed=1)
    options = {"num_heads": 220, "head_dim": 3, "construction": "paired"}
    here = build_memorizer(data, **options)
    assert here.layer.key_weights[:, :, 1].any()
    with ProcessPoolExecutor(2) as pool:
        assert same_bits(build_memorizer(data, **options, executor=pool), here)


def test_certificates_do_not_depend_on_the_executor(monkeypatch):
    monkeypatch.setattr(pairs, "CHUNK_BYTES", 1 << 15)  # several pieces
    data = data_of()
    memorizer = build(data)
    steps = []
    with progress_to(lambda *step: steps.append(step)):
        here = certify(memorizer, data)
    assert {("read contexts", 0, 751), ("certify which pairs agree", 2, 4)} <= set(steps)
    assert here.proved
    with ProcessPoolExecutor(2) as pool:
        assert certify(memorizer, data, executor=pool) == here
    with Murdered(2) as pool:
        assert certify(memorizer, data, executor=pool) == here


def test_errors_of_pieces_are_raised():
    data = data_of()
    queries = data.queries.copy()
    queries[:] = queries[:1] * np.arange(1, 752)[:, np.newaxis]
    dependent = Dataset(data.contexts, queries, data.targets)
    with (
        ProcessPoolExecutor(2) as pool,
        pytest.raises(AssumptionError, match="one pair of heads, have rank 1"),
    ):
        build(dependent, executor=pool)


def test_what_has_no_pieces_says_so(tmp_path):
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    with ThreadPoolExecutor(1) as pool:
        for options in ({"executor": pool}, {"checkpoint": tmp_path / "kept"}):
            with pytest.raises(ParameterError, match=f"not take {next(iter(options))}") as caught:
                build_memorizer(data, num_heads=3, **options)
            assert "construction='paired' or no " in caught.value.suggestion
        memorizer = build_memorizer(data, num_heads=3)
        with pytest.raises(ParameterError, match="not proved in pieces, and have no executor="):
            certify(memorizer, data, executor=pool)
        with pytest.raises(ParameterError, match="'grouping' does not take executor="):
            certify(memorizer, data, claims="grouping", executor=pool)
    with pytest.raises(ParameterError, match="executor=4"):
        build_memorizer(data, num_heads=3, executor=4)
    with pytest.raises(ParameterError, match="executor=4"):
        certify(memorizer, data, executor=4)
    assert not (tmp_path / "kept").exists()


PROGRAM = """
    import sys
    import time
    from constructive import progress_to
    from test_executors import build, data_of

    def slowly(step, done, total):
        print(step, done, total, flush=True)
        if step == "build pairs of heads" and done == 2:
            time.sleep(60)

    with progress_to(slowly):
        build(data_of(), checkpoint=sys.argv[1])
"""


def test_a_killed_build_goes_on(tmp_path):
    folder = tmp_path / "kept"
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent.parent}"},
    )
    for line in process.stdout:
        if line.startswith("build pairs of heads 2 "):
            break
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["about.json", "pairs-00000000.npz", "pairs-00000064.npz"]
    written = [file.stat().st_mtime_ns for file in sorted(folder.glob("pairs*"))]
    time.sleep(0.01)
    steps = []
    with progress_to(lambda *step: steps.append(step)):
        again = build(data_of(), checkpoint=folder)
    assert [step for step in steps if step[0] == "build pairs of heads"] == [
        ("build pairs of heads", 3, 3)
    ]
    assert written == [file.stat().st_mtime_ns for file in sorted(folder.glob("pairs*"))][:2]
    assert same_bits(again, build(data_of()))


def test_checkpoints_of_other_builds_are_refused(tmp_path):
    folder = tmp_path / "kept"
    build(data_of(), checkpoint=folder)
    data = data_of()
    moved = Dataset(data.contexts, data.queries, data.targets + 1.0)
    for what, call in {
        "data was": lambda: build(moved, checkpoint=folder),
        "random choices of seed= was": lambda: build(data, seed=1, checkpoint=folder),
        "num_heads was 300, and is 302": lambda: build_memorizer(
            data, num_heads=302, construction="paired", checkpoint=folder
        ),
        "head_dim was 1, and is 9": lambda: build(data, head_dim=9, checkpoint=folder),
    }.items():
        with pytest.raises(ParameterError, match="of another computation") as caught:
            call()
        assert what in str(caught.value)
        assert "another folder" in str(caught.value)
    (folder / "pairs-00000064.npz").write_bytes(b"PK, cut off")
    with pytest.raises(FormatError, match="is damaged") as caught:
        build(data, checkpoint=folder)
    assert "remove this file" in str(caught.value)
    (folder / "about.json").write_text("[]")
    with pytest.raises(FormatError, match="does not say what"):
        build(data, checkpoint=folder)
    (folder / "about.json").unlink()
    with pytest.raises(ParameterError, match="not empty") as caught:
        build(data, checkpoint=folder)
    assert "pairs-00000000.npz" in str(caught.value)
    with pytest.raises(OutputError, match="cannot make the checkpoint"):
        build(data, checkpoint=tmp_path / "no" / "such")


def test_forged_pieces_are_refused(tmp_path):
    """Without its coupling a piece would give wrong weights, whose own blocks look right."""
    folder, data = tmp_path / "kept", data_of()
    build(data, checkpoint=folder)
    first, second = sorted(folder.glob("pairs-*"))[:2]
    whole = second.read_bytes()
    arrays = dict(np.load(second))
    none = {name: arrays[name][:0] for name in ("positions", "pairs", "coupled")}
    scaled = {"coupled": 1.5 * arrays["coupled"]}
    single = {"query_weights": arrays["query_weights"].astype(np.float32)}
    for forged in ({**arrays, **none}, {**arrays, **scaled}, {**arrays, **single}, np.load(first)):
        np.savez(second, **forged)
        with pytest.raises(FormatError, match="SHA-256"):
            build(data, checkpoint=folder)
    for missing in ("sha256", "sharpness"):
        np.savez(second, **{name: array for name, array in arrays.items() if name != missing})
        with pytest.raises(FormatError, match="is damaged"):
            build(data, checkpoint=folder)
    second.write_bytes(whole)
    assert same_bits(build(data, checkpoint=folder), build(data))


def test_results_of_another_computation_in_the_folder_are_refused(tmp_path):
    """Two which begin at the same moment both see an empty folder; one says what it is about."""
    kept = Checkpoint.open(tmp_path, {"seed": 1})
    (tmp_path / "about.json").unlink()
    other = Checkpoint.open(tmp_path, {"seed": 2})
    kept.save("sums", {"of": np.arange(3)})
    assert kept.load("sums")["of"].tolist() == [0, 1, 2]
    with pytest.raises(FormatError, match="in this computation") as caught:
        other.load("sums")
    assert "remove this file" in str(caught.value)


def test_a_file_that_is_being_written_does_not_count(tmp_path):
    """Of another process, which begins in the same folder and may be killed in that instant."""
    with replacing(tmp_path / "about.json") as file:
        (left,) = tmp_path.iterdir()
        file.write(b'{"seed": 1}')
        Checkpoint.open(tmp_path, {"seed": 1}).save("sums", {"of": np.arange(3)})
    left.touch()
    assert Checkpoint.open(tmp_path, {"seed": 1}).load("sums")["of"].tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match="of another computation"):
        Checkpoint.open(tmp_path, {"seed": 2})


@pytest.mark.parametrize("kind", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_workers_read_the_file_that_is_there_now(tmp_path, kind):
    """Other data were at the same path before, which the worker has read."""
    folder = tmp_path / "data"
    with kind(1) as executor:
        for seed in (1, 2):
            data = data_of(seed)
            Dataset(data.contexts, data_of().queries, data_of().targets).save_folder(folder)
            stored = Dataset.open(folder)
            assert same_bits(build(stored, executor=executor), build(stored))


def test_workers_see_that_a_file_has_changed(tmp_path):
    folder = tmp_path / "data"
    data_of().save_folder(folder)
    elsewhere = Dataset.open(folder).on_disk.file.elsewhere
    assert elsewhere.identity[:2] == (None, None)  # machines number files in their own ways
    assert elsewhere.rows(np.array([3])).tolist() == [data_of().contexts[3].tolist()]
    time.sleep(0.01)
    np.save(folder / "contexts.npy", data_of(1).contexts)
    with pytest.raises(FormatError, match="its time of the last change"):
        elsewhere.rows(np.array([3]))


def test_a_worker_which_sees_no_folder_says_so(tmp_path):
    with pytest.raises(ParameterError, match="a worker cannot read /no/such") as caught:
        arrays_at("/no/such")
    assert "all machines" in str(caught.value)
    with pytest.raises(ParameterError, match=r"a worker cannot read /no/such\.npy"):
        require_seen("/no/such.npy")
    with pytest.raises(OutputError, match="cannot write"), shared({}, tmp_path / "gone"):
        pass


def test_shared_folders_are_removed(tmp_path):
    with shared({"a": np.arange(2)}, tmp_path) as place:
        assert arrays_at(place)["a"].tolist() == [0, 1]
        assert Path(place).parent == tmp_path
    assert not list(tmp_path.iterdir())


# The same on a real Dask cluster on this machine.


@pytest.fixture
def client(tmp_path):
    import distributed  # noqa: PLC0415 - takes seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True,
                dashboard_address=None, local_directory=str(tmp_path),
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own
def test_results_are_those_of_one_process(client):
    executor = client.get_executor()
    vectors = np.random.default_rng(0).integers(-1, 2, size=(300, 64)).astype(float)
    vectors[::3] = vectors[0]
    here = assumptions.dependent_share(vectors, 32, subsets=1000)
    assert assumptions.dependent_share(vectors, 32, subsets=1000, executor=executor) == here


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own
def test_killed_workers_lose_nothing(client):
    """Dask starts them anew, and gives a task up which kills four of them; it is done here."""
    tasks = [(number, os.getpid()) for number in range(6)]
    found = ordered_map(fatal_elsewhere, tasks, executor=client.get_executor(), step="squares")
    assert found == [0, 1, 4, 9, 16, 25]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own
def test_pairs_are_the_same_bits(client, tmp_path):
    data = generators.uniform(num_examples=751, context_size=3, width=7)
    options = {"num_heads": 300, "construction": "paired"}
    here = build_memorizer(data, **options)
    executor = client.get_executor()
    folder = tmp_path / "kept"
    there = build_memorizer(data, **options, executor=executor, checkpoint=folder)
    assert len(list(folder.glob("pairs-*.npz"))) == 3
    assert there.record == here.record
    for name, tensor in here.layer.tensors.items():
        assert there.layer.tensors[name].tobytes() == tensor.tobytes()
    proved = certify(there, data, executor=executor)
    assert proved.proved
    assert proved == certify(here, data)
