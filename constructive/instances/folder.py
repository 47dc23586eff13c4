"""A folder of instances in the layout of the competition of verifiers (VNN-COMP), with proofs.

::

    onnx/NETWORK.onnx            a network, which twins share
    vnnlib/NAME.vnnlib           a property, VNN-LIB 1.0
    vnnlib2/NAME.vnnlib          the same, VNN-LIB 2.0
    instances.csv                network, property, time limit in seconds; no header
    expected.csv                 answers, families, margins
    proofs/NAME.json             the proof of an answer, and the hashes of what it is about
    README.md                    what all that is, licence, versions

Tools see `onnx`, `vnnlib`, `vnnlib2` and `instances.csv`, which say nothing of the answers. For the
competition itself there is a folder without answers (`save_benchmark`)::

    1.0/ 2.0/                    onnx/, vnnlib/ and instances.csv, for each version of VNN-LIB
    generate_properties.py       makes them anew from another seed
    requirements.txt             what that needs, and perhaps the wheel of this package
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import NamedTuple

from constructive import DISTRIBUTION, __version__
from constructive.certificates.check import Checked, run_checker
from constructive.checker.instances import words_of
from constructive.instances.graphs import OPSET, AnyNetwork, OperatorGraph, written
from constructive.instances.instance import Instance
from constructive.instances.properties import text_of, version_1, version_2
from constructive.support.errors import FormatError, ParameterError, require_positive, shown
from constructive.support.files import regular_file, replacing_folder
from constructive.support.work import report

# The columns of expected.csv.
EXPECTED = (
    "instance", "answer", "float32", "family", "network", "inputs", "margin", "rounding",
)  # fmt: skip
_VERSIONS = {"vnnlib": ("1.0", version_1), "vnnlib2": ("2.0", version_2)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SECONDS = 1e-6, 999_999  # The least and the largest timeout that `instances.csv` can have
# Slopes of a network that a bound goes through in the time that it takes to start: time limits grow
# with that. Measured: bounds of auto_LiRPA 0.7.1 take 10 ms and 58 ns for each slope.
_SLOPES = 170_000
_SCRIPT = '''"""Make this benchmark anew: python generate_properties.py SEED."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMAND = {command}

with tempfile.TemporaryDirectory() as place:
    made = Path(place) / "made"
    words = [*COMMAND, "--seed", sys.argv[1], "-o", str(Path(place) / "answers")]
    words = [sys.executable, "-m", "constructive", *words, "--vnncomp", str(made)]
    subprocess.run(words, check=True)
    for version in {versions}:
        shutil.rmtree(HERE / version, ignore_errors=True)
        shutil.copytree(made / version, HERE / version)
'''
_MOST_SECONDS = 6 * 3600  # Of all instances of a benchmark together, in the rules of 2026
_README = """# Instances for verifiers of neural networks, with proved answers

Made by {distribution} {version}: {count} instances, {sat} of them sat.
Families: {families}.

- `onnx/`: networks with one input X, one output Y, batch 1. Those of opset {opset} are sums of
  softmax heads f(x) = sum_h V_h^T softmax(A_h x + b_h) (Gemm, Softmax, MatMul, Add, and Relu where
  there is a readout) or small graphs of one operator or a few; others have opset 17 or 20.
- {properties}: the property of each instance. It is
  *sat* if some input of the box has outputs that meet the conditions, else *unsat*.
- `instances.csv`: network, property and time limit in seconds.
- `expected.csv`: the answer of each instance in real arithmetic and of float32 programs, the margin
  by which the first holds, and a bound of what float32 rounds.
- `proofs/`: a proof of each answer. `constructive instances check FOLDER` checks them.

Each answer holds in real arithmetic, by the margin in `expected.csv`. The answer in the column
`float32` holds for every float32 evaluation of the model that the proof names. Where it is the
same, the margin is at least twice the bound of rounding, or holds for computed outputs, too; the
family `rounding` has others, with proofs of their own.

{models}

Execution in TF32 or bfloat16 is not an evaluation of these models.

Licence: Apache-2.0.
"""


def _require_names(instances: Sequence[Instance]) -> None:
    """Require names of files, all different, and one network for each name of a network."""
    networks: dict[str, Instance] = {}
    names: set[str] = set()
    for instance in instances:
        if not _NAME.fullmatch(instance.name):
            raise ParameterError(
                f"{shown(instance.name)} cannot be the name of a file",
                witness=instance.name,
                suggestion="letters, digits, `_`, `.` and `-`, and NETWORK_a, NETWORK_b for twins",
            )
        first = networks.setdefault(instance.network_name, instance)
        if first.network is not instance.network:
            raise ParameterError(
                f"{shown(first.name)} and {shown(instance.name)} have different networks of one "
                f"name, {shown(instance.network_name)}",
                witness=(first.name, instance.name),
                suggestion="another name for one of them: NETWORK_a and NETWORK_b are for twins",
            )
        if instance.name in names:
            raise ParameterError(
                "two instances have the same name",
                witness=instance.name,
                suggestion="a name for each instance",
            )
        names.add(instance.name)


def save(
    folder: str | Path,
    instances: Sequence[Instance],
    *,
    timeout: float = 30.0,
) -> None:
    """Write a folder of instances, whole or not at all. The same instances give the same bytes.

    Args:
        folder: its path; an old folder of instances is replaced
        instances: with different names
        timeout: of small networks, in seconds from 1e-6 to 999,999; larger ones have more, as far
            as a bound takes longer

    Raises:
        MissingExtraError: without onnx
        OutputError: where the folder cannot be written
        ParameterError: for no instances, names that do not fit, and a timeout out of its range

    Example:
        >>> import tempfile
        >>> from constructive import instances
        >>> folder = Path(tempfile.mkdtemp()) / "folder"
        >>> instances.save(folder, instances.planted(dim=2, scale=16.0))
        >>> sorted(file.name for file in folder.iterdir())[:3]
        ['README.md', 'expected.csv', 'instances.csv']
    """
    require_positive(instances=len(instances))
    _require_names(instances)
    _require_seconds(timeout)
    files: dict[str, bytes] = {}
    for done, instance in enumerate(instances):
        report("write instances", done, len(instances))
        graph = f"onnx/{instance.network_name}.onnx"
        files[graph] = files.get(graph) or written(instance.network)
        hashes = {"onnx": _hash(files[graph])}
        for kind, (_, in_version) in _VERSIONS.items():
            text = in_version(instance.property, instance.style).encode()
            files[f"{kind}/{instance.name}.vnnlib"], hashes[kind] = text, _hash(text)
        proof = json.dumps(proof_document(instance, hashes), indent=None)
        files[f"proofs/{instance.name}.json"] = f"{proof}\n".encode()
    report("write instances", len(instances), len(instances))
    files["instances.csv"] = _table(_rows(instances, timeout))
    files["expected.csv"] = _table([EXPECTED, *map(_expected, instances)])
    models = sorted({str(each.claims()["model"]) for each in instances})
    about = _README.format(
        distribution=DISTRIBUTION,
        version=__version__,
        count=len(instances),
        sat=sum(each.answer == "sat" for each in instances),
        families=", ".join(sorted({each.family for each in instances})),
        opset=OPSET,
        properties=" and ".join(
            f"`{kind}/` (VNN-LIB {version})" for kind, (version, _) in _VERSIONS.items()
        ),
        models="\n".join(f"- {words_of(name)}" for name in models),
    )
    files["README.md"] = about.encode()
    _write(folder, files, _named_in(folder))


def _write(folder: str | Path, files: Mapping[str, bytes], old: Sequence[str] = ()) -> None:
    """Write files in place of these and of old ones, all or none."""
    names = [*files, *(name for name in old if name not in files)]
    with replacing_folder(folder, names) as new:
        for name, content in files.items():
            (new / name).write_bytes(content)


def save_benchmark(
    folder: str | Path,
    instances: Sequence[Instance],
    *,
    command: Sequence[str],
    timeout: float = 30.0,
    wheel: str | Path | None = None,
) -> None:
    """Write a benchmark as VNN-COMP takes it, in both versions of VNN-LIB, without answers.

    Args:
        folder: its path; there must be nothing, or an old benchmark of these files
        instances: with different names
        command: words of `constructive` that make these instances, without a seed and paths
        timeout: of small networks, in seconds
        wheel: a file of this package, until it is on an index; `requirements.txt` then names it

    Raises:
        MissingExtraError: without onnx
        OutputError: where the folder cannot be written
        ParameterError: as `save` does, and if all instances may take more than six hours
    """
    _require_names(instances)
    _require_seconds(timeout)
    rows = _rows(instances, timeout)
    seconds = sum(float(limit) for *_, limit in rows)
    if seconds > _MOST_SECONDS:
        raise ParameterError(
            f"the time limits of {len(instances)} instances are more than 6 hours together",
            witness=seconds,
            suggestion="fewer instances, or a smaller timeout",
        )
    graphs = {each.network_name: each.network for each in instances}
    versions = [version for version, _ in _VERSIONS.values()]
    needs = f"./{Path(wheel).name}[instances]" if wheel else f"{DISTRIBUTION}[instances]"
    files = {
        "generate_properties.py": _SCRIPT.format(command=[*command], versions=versions).encode(),
        "requirements.txt": f"{needs}\n".encode(),
    }
    if wheel:
        files[Path(wheel).name] = regular_file(Path(wheel)).read_bytes()
    for version, in_version in _VERSIONS.values():
        files[f"{version}/instances.csv"] = _table(rows)
        for name, network in graphs.items():
            files[f"{version}/onnx/{name}.onnx"] = written(network)
        for each in instances:
            text = in_version(each.property, each.style)
            files[f"{version}/vnnlib/{each.name}.vnnlib"] = text.encode()
    _write(folder, files)


def _require_seconds(timeout: float) -> None:
    number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not (number and _SECONDS[0] <= timeout <= _SECONDS[1]):
        raise ParameterError(
            f"timeout={shown(timeout)} is not a number of seconds",
            witness=shown(timeout),
            suggestion="timeout=60; from 0.000001 to 999999",
        )


def _named_in(folder: str | Path) -> list[str]:
    """Return the files that the answers of an old folder are about; () if it has none."""
    try:
        rows = expected_rows(folder)
    except FormatError:
        return []
    parts = [f"{part}/{name}.vnnlib" for part in _VERSIONS for name in rows]
    proofs = [f"proofs/{name}.json" for name in rows]
    graphs = {f"onnx/{row.network}.onnx" for row in rows.values()}
    return [*parts, *proofs, *graphs]


def proof_document(instance: Instance, hashes: dict[str, str]) -> dict[str, object]:
    """Return what the proof file says; `hashes` are the SHA-256 of the other files."""
    claims = instance.claims() | hashes
    if "rounding" in claims:
        claims["rounding"] = text_of(instance.rounding)
    return claims


def _seconds(timeout: float, network: AnyNetwork) -> str:
    """The time limit of an instance."""
    heads = () if isinstance(network, OperatorGraph) else network.heads
    slopes = sum(head.slopes.size for head in heads)
    limit = min(timeout * round(1.0 + slopes / _SLOPES, 1), _SECONDS[1])
    return f"{limit:.6f}".rstrip("0").rstrip(".")


def _rows(instances: Sequence[Instance], timeout: float) -> list[tuple[str, str, str]]:
    """The rows of instances.csv."""
    return [
        (
            f"onnx/{each.network_name}.onnx",
            f"vnnlib/{each.name}.vnnlib",
            _seconds(timeout, each.network),
        )
        for each in instances
    ]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _expected(instance: Instance) -> tuple[str, ...]:
    return (
        instance.name, str(instance.answer), str(instance.deployed), instance.family,
        instance.network_name, str(instance.network.input_dim), f"{instance.margin:.4g}",
        f"{instance.rounding:.2g}",
    )  # fmt: skip


def _table(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


class Expected(NamedTuple):
    """A row of expected.csv.

    Attributes:
        name: of the instance
        answer: "sat" or "unsat", in real arithmetic
        float32: the same, of float32 programs
        family: its kind
        network: the name of its network, which twins share
    """

    name: str
    answer: str
    float32: str
    family: str
    network: str


def expected_rows(folder: str | Path) -> dict[str, Expected]:
    """Read expected.csv of a folder: rows by the names of instances."""
    path = Path(folder) / "expected.csv"
    rows = {}
    try:
        with regular_file(path).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, strict=True):
                name, answers = row["instance"], (row["answer"], row["float32"])
                rows[name] = Expected(name, *answers, row["family"], row["network"])
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise FormatError(
            f"{path} cannot be read as the answers of instances",
            witness=type(error).__name__,
            suggestion="a folder of `constructive instances`",
        ) from error
    return rows


def check(folder: str | Path, *, jobs: int = 1, max_memory: float = 8.0) -> Checked:
    """Run the independent checker on a folder of instances, in a process of its own.

    It reads networks and properties from their ONNX and VNN-LIB files, and shows each answer by its
    proof: in real arithmetic, and by a margin of twice what float32 evaluations are off by. Every
    row and every file of the folder has to be accounted for.

    Args:
        folder: as `save` writes it
        jobs: how many processes the checker runs
        max_memory: GB that each of them may take

    Returns:
        What it said: a line for each instance, and the model of float32 evaluations.

    Raises:
        FormatError: for what is not a folder, and for one without instances
        ParameterError: for a number of processes or a size that is not positive

    Example:
        >>> import tempfile
        >>> from constructive import instances
        >>> folder = Path(tempfile.mkdtemp()) / "folder"
        >>> instances.save(folder, instances.planted(dim=2, scale=16.0))
        >>> print(instances.check(folder).report)  # doctest: +ELLIPSIS
        needle_a ... by a margin of ...; float32 is off by at most ...
        needle_b ...
        a float32 evaluation is float32, pairwise: each operator of the graph once, ...
        2 of 2 answers are proved (the folder says 1 sat, 1 unsat)
        PROVED
        <BLANKLINE>
    """
    require_positive(jobs=jobs)
    path = Path(folder)
    if not path.is_dir():
        raise FormatError(
            f"{folder} is not a folder",
            witness=str(folder),
            suggestion="a folder of `constructive instances`",
        )
    if not any((path / name).exists() for name in ("instances.csv", "expected.csv")):
        raise FormatError(
            f"{folder} is not a folder of instances: it has no instances.csv",
            witness=str(folder),
            suggestion="a folder of `constructive instances`",
        )
    words = ["instances", str(path.resolve()), "--jobs", str(jobs)]
    return run_checker(words, max_memory=max_memory)
