"""`check`: the independent checker, run on a folder of instances."""

from pathlib import Path

from constructive.certificates.check import Checked, run_checker
from constructive.support.arguments import require_positive
from constructive.support.errors import FormatError


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
