"""The command line as a user meets it: exit status, messages, files."""

import re

import numpy as np
import pytest

from constructive import Dataset, Memorizer


def test_generate_build_predict(run, tmp_path):
    run("generate", "gaussian", "-T", 19, "-n", 4, "-d", 6, "-o", "data.npz")
    text = run("build", "data.npz", "--heads", 6, "-o", "weights.safetensors")
    assert "bound H(min(n, d_h) - 1) + 1 = 19 (Theorem 1)" in text
    text = run("predict", "weights.safetensors", "data.npz", "-o", "predictions.npy")
    assert "19 examples, max error" in text
    data = Dataset.load(tmp_path / "data.npz")
    predictions = np.load(tmp_path / "predictions.npy")
    assert np.abs(predictions - data.targets).max() < 1e-9
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"data.npz", "weights.safetensors", "predictions.npy"}


def test_options_of_build_reach_the_construction(run, tmp_path):
    run("generate", "shared", "-T", 13, "-n", 4, "-d", 6, "--target-dim", 2, "--seed", 5)
    run(
        "build", "data.npz", "-H", 4, "--head-dim", 2, "--value-dim", 3, "--seed", 7,
        "--construction", "rank_one",
    )  # fmt: skip
    memorizer = Memorizer.load(tmp_path / "memorizer.safetensors")
    assert memorizer.record.construction == "rank_one"
    assert memorizer.record.seed == 7
    assert (memorizer.layer.head_dim, memorizer.layer.value_dim) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--heads", 2], "CapacityError: 19 examples are too many for 2 heads, whatever their"),
        (
            ["--heads", 5, "--construction", "saturated"],
            "CapacityError: 19 examples are too many for 5 saturated heads",
        ),
        (["--heads", 0], "num_heads is the option --heads"),
        (["--heads", 6, "--construction", "magic"], "'magic'"),
        (["--heads", 6, "--value-dim", 0], "ParameterError: value_dim=0"),
        (["--heads"], "requires an argument"),
    ],
)
def test_bad_input_ends_with_status_2_and_no_file(run, tmp_path, arguments, text):
    run("generate", "gaussian", "-T", 19, "-n", 4, "-d", 6)
    assert text in run("build", "data.npz", *arguments, status=2)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("dta.npz", "data.npz"), ("zz.npz", "data.npz or more.npz"),
     ("folder/x.npz", "another path: there is no folder folder"), ("x", "another path: there is")],
)  # fmt: skip
def test_files_that_are_not_there(run, tmp_path, name, suggestion):
    """The error names the file, and what is there."""
    for there in ("data.npz", "more.npz"):
        (tmp_path / there).write_text("")
    for words in (["build", name], ["predict", name, "more.npz"], ["recite", name],
                  ["sequence", "ask", name, "x"], ["export", name]):  # fmt: skip
        text = run(*words, status=2)
        assert text.startswith(f"FileNotFoundError: No such file or directory\n  witness: {name}\n")
        assert f"  try: {suggestion}" in text


def test_a_name_with_another_ending_says_what_it_will_be(program):
    program("generate", "gaussian", "-T", 7, "-n", 3, "-d", 5)
    said = program("build", "data.npz", "--heads", 3, "-o", "m.txt").stderr
    assert "m.txt will be a file of safetensors, usually named *.safetensors" in said
    for name, more in (("m", []), ("m.safetensors", []), ("other.txt", ["--quiet"])):
        assert not program("build", "data.npz", "--heads", 3, "-o", name, *more).stderr


def test_more_processes_than_any_machine_has(run, tmp_path):
    for words in (["build", "data.npz"], ["instances", "make", "-o", "folder"]):
        assert "1024" in run(*words, "--jobs", 10**21, status=2)
    assert not list(tmp_path.iterdir())


def test_missing_and_damaged_files(run, tmp_path):
    (tmp_path / "data.npz").write_text("nonsense")
    assert "FormatError" in run("build", "data.npz", "--heads", 2, status=2)
    assert "FormatError" in run("predict", "data.npz", "data.npz", status=2)


def test_outputs_which_cannot_be_written_are_refused_before_the_work(run, tmp_path):
    # The data are nonsense: that the output is named shows that it was looked at first.
    (tmp_path / "nonsense.npz").write_text("nonsense")
    arguments = ["build", "nonsense.npz", "--heads", 2, "--output"]
    assert "OutputError: cannot write missing/x" in run(*arguments, "missing/x", status=2)
    assert f"cannot write {tmp_path}: it is a folder" in run(*arguments, tmp_path, status=2)
    (tmp_path / "file").write_text("precious")
    assert "cannot write file: it is not a folder" in run("demo", "-o", "file", status=2)


def test_data_which_does_not_fit_the_memorizer(run):
    run("generate", "gaussian", "-T", 7, "-n", 3, "-d", 5)
    run("build", "data.npz", "--heads", 3)
    run("generate", "gaussian", "-T", 7, "-n", 3, "-d", 6, "-o", "other.npz")
    text = run("predict", "memorizer.safetensors", "other.npz", status=2)
    assert "DataError" in text
    assert "d=5" in text


def test_help_has_examples(run):
    assert "build" in run("--help")
    for command in ("build", "predict", "certify", "check", "generate", "demo"):
        assert f"constructive {command}" in run(command, "--help")


@pytest.mark.parametrize(
    "arguments",
    [
        ["capacity", "-T", 621, "-n", 32, "-d", 64],
        ["build", "nothing.npz", "--heads", 2],
        ["build", "damaged.npz", "--heads", 2],
        ["build"],
    ],
    ids=["done", "OSError", "ConstructiveError", "usage"],
)
def test_in_this_process_it_is_the_same_program(program, start, tmp_path, arguments):
    """Most tests of commands start no process; status and output are those of one."""
    (tmp_path / "damaged.npz").write_text("nonsense")
    here, there = program(*arguments), start(*arguments, text=True)
    assert here.returncode == there.returncode == (0 if arguments[0] == "capacity" else 2)
    assert here.stdout == there.stdout
    usage = "python -m constructive", "constructive"
    assert here.stderr == there.stderr.replace(*usage)


@pytest.mark.parametrize("count", [16, 1798, "few"])
def test_a_demo_of_no_such_size_is_refused(run, tmp_path, count):
    assert "--examples" in run("demo", "--examples", count, status=2)
    assert not list(tmp_path.iterdir())


def test_a_demo_of_few_images(run, tmp_path):
    pytest.importorskip("sklearn")
    text = run("demo", "--examples", 17, "-o", "few")
    assert text.count("17/17") == 3
    assert "fails for 17 of 17" in text
    assert text.splitlines()[-1] == "PROVED"
    assert Dataset.open(tmp_path / "few" / "digits.npz").num_examples == 17


@pytest.mark.slow
def test_the_demo_reproduces_every_label(start, tmp_path):
    folder = tmp_path / "constructive-demo"
    folder.mkdir()
    for name in ("digits-saturation.png", "digits.npz"):
        (folder / name).write_bytes(b"old")
    done = start("demo", "--force", text=True)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert text.count("1797/1797") == 3
    assert "fails for 1797 of 1797" in text
    assert "Certificate: PROVED" in text
    assert done.stdout.splitlines()[-1] == "PROVED"  # the checker's last word
    assert list(tmp_path.iterdir()) == [folder]
    assert {"digits.npz", "digits.safetensors", "digits.json"} <= {p.name for p in folder.iterdir()}
    said = re.search(r"All (\d+) MB of it are in the folder constructive-demo\.", text)
    assert round(sum(p.stat().st_size for p in folder.iterdir()) / 1e6) == int(said[1])
    picture = (folder / "digits-saturation.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_a_build_keeps_finished_pairs(program, tmp_path):
    sizes = ("-T", 30, "-n", 3, "-d", 7, "-o", "small.npz")
    assert program("generate", "uniform", *sizes).returncode == 0
    build = ("build", "small.npz", "--heads", 12, "--checkpoint", "kept")
    refused = program(*build)
    assert refused.returncode == 2
    assert "does not take checkpoint=" in refused.stderr
    for name in ("first", "second"):
        done = program(*build, "--construction", "paired", "-o", f"{name}.safetensors")
        assert done.returncode == 0
    assert (tmp_path / "kept" / "pairs-00000000.npz").exists()
    files = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("first", "second")]
    assert files[0] == files[1]


def test_more_processes_build_and_prove_the_same(program, tmp_path):
    sizes = ("-T", 751, "-n", 3, "-d", 7, "-o", "data")
    assert program("generate", "uniform", *sizes).returncode == 0
    for jobs in ("1", "2"):
        given = ("-H", 300, "--construction", "paired", "--jobs", jobs)
        assert program("build", "data", *given, "-o", f"{jobs}.safetensors").returncode == 0
        proof = program("certify", f"{jobs}.safetensors", "data", "-j", jobs, "-o", f"{jobs}.json")
        assert proof.returncode == 0
    for ending in ("safetensors", "json"):
        files = [(tmp_path / f"{jobs}.{ending}").read_bytes() for jobs in ("1", "2")]
        assert files[0] == files[1]
    refused = program("build", "data", "--construction", "rank_one", "--jobs", 2, "-o", "3.st")
    assert refused.returncode == 2
    assert "executor is the option --jobs" in refused.stderr
