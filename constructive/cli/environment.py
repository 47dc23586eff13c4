"""What runs here: versions, BLAS and threads, for bug reports."""

import os
import platform
from importlib.metadata import PackageNotFoundError, requires, version

import numpy as np

from constructive import DISTRIBUTION, __version__

_THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip


def environment() -> dict[str, str]:
    """Names and versions of what this package uses, the BLAS of numpy, and threads.

    >>> environment()["constructive"] == __version__
    True
    """
    packages = sorted({_name(line) for line in requires(DISTRIBUTION) or ()} - {DISTRIBUTION})
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    limits = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    return {
        "constructive": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(_cores()),
        "BLAS of numpy": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "threads": ", ".join(limits) or "not limited",
        **{name: version_of(name) for name in packages},
    }


def _name(requirement: str) -> str:
    """The name at the start of a requirement such as "numpy>=1.26" or "torch; extra == 'x'"."""
    stop = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), None)
    return requirement[:stop].lower()


def version_of(name: str) -> str:
    """The version of a package that is installed, or that it is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
