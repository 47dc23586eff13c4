"""What is done of a long computation, in a folder, so that it can go on after its end.

Each result is a file, which has its name only when it is whole (`support.files`). What the
computation is about is in `about.json`: a folder of another one is refused. Each file has a SHA-256
of that, its name and its arrays: so what is damaged is refused, and a result of another computation
which began in the same folder at the same moment, too. Who can write to the folder, and means to,
can change results.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constructive.support.errors import FormatError, OutputError, ParameterError, shown
from constructive.support.files import replacing
from constructive.support.fingerprint import fingerprint

_ABOUT = "about.json"
_SHA256 = "sha256"


@dataclass(frozen=True)
class Checkpoint:
    """A folder with results.

    Attributes:
        folder: where it is
        about: what the computation is about, as text
    """

    folder: Path
    about: str

    @classmethod
    def open(cls, folder: str | Path, about: Mapping[str, Any]) -> "Checkpoint":
        """A new folder, or one of the same computation.

        Args:
            folder: its path; made where there is none
            about: what the computation is about, as JSON has it: texts and numbers by name

        Raises:
            ParameterError: if the folder is of another computation, or holds other things
            FormatError: if what it is about cannot be read
            OutputError: if it cannot be made

        Example:
            >>> import tempfile
            >>> folder = Path(tempfile.mkdtemp()) / "kept"
            >>> kept = Checkpoint.open(folder, {"seed": 1})
            >>> kept.save("sums", {"of": np.arange(3)})
            >>> Checkpoint.open(folder, {"seed": 1}).load("sums")["of"].tolist()
            [0, 1, 2]
            >>> Checkpoint.open(folder, {"seed": 2})  # doctest: +ELLIPSIS
            Traceback (most recent call last):
                ...
            constructive.ParameterError: the checkpoint ... is of another computation: seed was 1...
              witness: {'seed': (1, 2)}
              try: the same arguments and data as then, or another folder
        """
        folder = Path(folder)
        try:
            folder.mkdir(exist_ok=True)
            present = {file.name for file in folder.iterdir()}
        except OSError as error:
            raise OutputError(
                f"cannot make the checkpoint {folder}: {error.strerror}",
                witness=str(folder),
                suggestion="the path of a folder, in one which exists",
            ) from error
        if _ABOUT in present:
            _require_same(folder, _read(folder / _ABOUT), about)
        elif present:
            raise ParameterError(
                f"{folder} is no checkpoint, and not empty",
                witness=min(present),
                suggestion="a new folder, or an empty one",
            )
        else:
            with replacing(folder / _ABOUT) as file:
                file.write(json.dumps(dict(about), indent=1).encode())
        return cls(folder, json.dumps(dict(about), sort_keys=True))

    def load(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """The arrays of a result, or None where there is none.

        Args:
            name: of the result

        Raises:
            FormatError: if its file is damaged, or is of another computation
        """
        path = self.folder / f"{name}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
            found = arrays.pop(_SHA256).tobytes()
        except FileNotFoundError:
            return None
        except Exception as error:  # readers of zip and npy raise nearly everything
            raise _damaged(path, str(error)) from error
        if found != self._hashed(name, arrays):
            raise _damaged(path, "its SHA-256 is not that of its arrays in this computation")
        return arrays

    def save(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep a result.

        Args:
            name: of the result
            arrays: what it is, by name

        Raises:
            OutputError: where it cannot be written
        """
        with replacing(self.folder / f"{name}.npz") as file:
            hashed = np.frombuffer(self._hashed(name, arrays), np.uint8)
            np.savez(file, **arrays, **{_SHA256: hashed})  # type: ignore[arg-type] # no options

    def _hashed(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
        about = np.frombuffer(f"{self.about} {name}".encode(), np.uint8)
        return fingerprint({_ABOUT: about} | {key: arrays[key] for key in sorted(arrays)})


def _damaged(path: Path, problem: str) -> FormatError:
    return FormatError(
        f"{path} is damaged: {problem}",
        witness=str(path),
        suggestion="remove this file; what it held is computed again",
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_bytes())
        if isinstance(about, dict):
            return about
        problem = "no object"
    except (OSError, ValueError) as error:
        problem = str(error)
    raise FormatError(
        f"{path} does not say what the checkpoint is about: {problem}",
        witness=str(path),
        suggestion="another folder",
    )


def _require_same(folder: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    names = [*now, *(name for name in then if name not in now)]
    unlike = {
        name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)
    }
    if unlike:
        name, (old, new) = next(iter(unlike.items()))
        raise ParameterError(
            f"the checkpoint {folder} is of another computation: {name} was {shown(old)}, and is "
            f"{shown(new)} now",
            witness=unlike,
            suggestion="the same arguments and data as then, or another folder",
        )
