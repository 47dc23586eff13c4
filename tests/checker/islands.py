"""What the tests of the checker share: imports of its sources, and mutations of files."""

import ast
import copy
import json
import subprocess
import sys

import numpy as np

from constructive.certificates.check import CHECKER as FOLDER

SOURCES = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
PARTS = sorted(set(SOURCES) - {"__main__"})


def foreign_imports(source):
    """Modules which a source imports beyond the standard library, numpy, mpmath and its folder."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    roots = {name.partition(".")[0] for name in found}
    return roots - set(sys.stdlib_module_names) - {"numpy", "mpmath", *PARTS}


def modules_loaded_by(path, arguments):
    """Modules of this package and of its dependencies which a run of a checker loads."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = {[str(path), *arguments]!r}\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: status = end.code\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "suspects = {'constructive', 'flint', 'scipy', 'safetensors', 'rich', 'typer', 'sympy'}\n"
        "print('status', status, 'loaded', sorted(names & suspects))\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()[-1]


EVIL = (
    None, True, False, 0, 1, -1, 2, 4194287, 4194301, 2**22, 10**30, -(10**400), 0.5, 1e308, "",
    "PROVED", "REFUTED", "0x1p-1000", "0x1p+10", "inf", "nan", "AAAA", "é", [], {}, [[0, 7]],
    [0] * 1000, {"prime": 7},
)  # fmt: skip


def leaves(content, trail=()):
    """All paths into a JSON value."""
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield (*trail, key)
            yield from leaves(value, (*trail, key))


def mutate_fields(rng, content):
    for _ in range(rng.integers(1, 3)):
        trails = list(leaves(content))
        trail = trails[rng.integers(len(trails))]
        part = content
        for key in trail[:-1]:
            part = part[key]
        kind = rng.integers(4)
        if kind == 0 and isinstance(part, dict):
            part.pop(trail[-1])
        elif kind == 1 and isinstance(part[trail[-1]], str) and len(part[trail[-1]]) > 3:
            text = list(part[trail[-1]])
            i, j = rng.integers(len(text), size=2)
            text[i], text[j] = text[j], text[i]
            part[trail[-1]] = "".join(text)
        elif kind == 2:
            other = content
            for key in trails[rng.integers(len(trails))]:
                other = other[key]
            part[trail[-1]] = copy.deepcopy(other)
        else:
            part[trail[-1]] = copy.deepcopy(EVIL[rng.integers(len(EVIL))])
    return json.dumps(content).encode()


def mutate_bytes(rng, content):
    content = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        return bytes(content[: rng.integers(len(content))])
    if kind == 1:
        start, stop = np.sort(rng.integers(len(content), size=2))
        return bytes(content[:start] + content[stop:])
    if kind == 2:
        start, stop = np.sort(rng.integers(len(content), size=2))
        return bytes(content[:stop] + content[start:])
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    return bytes(content)
