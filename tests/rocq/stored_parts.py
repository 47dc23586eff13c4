"""What the tests of `check --rocq` share: their marks, files, and instances that are changed."""

import dataclasses
import shutil
import subprocess

import pytest

from constructive import Dataset, FormatError, Text
from constructive.rocq.confirm import confirm_instances, read, require_same
from constructive.rocq.definitions import write


def version():
    """Of Rocq, or "" where it is not installed."""
    if shutil.which("coqc") is None:
        return ""
    command = ["coqc", "--print-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


needs_rocq = pytest.mark.skipif(
    not version().startswith("8.16."), reason="Rocq (coqc) 8.16 is not installed"
)


def by_rocq(test):
    """Mark a slow test of what Rocq proves or refuses, with theories that are compiled once."""
    for mark in (pytest.mark.usefixtures("compiled_once"), pytest.mark.slow, needs_rocq):
        test = mark(test)
    return test


def instance_of(theory, *subject):
    return theory.filled(theory.known_of(*subject), *subject)


def replaced(made, **values):
    return dataclasses.replace(made, values={**made.values, **values})


def one_changed(made, name, step, place=-1):
    """The instance with another number in one place of an array."""
    array = made.values[name].copy()
    array.flat[place] += step
    return replaced(made, **{name: array})


def with_evidence(certificate, **changes):
    """The certificate with other evidence of all its claims."""
    claims = tuple(
        dataclasses.replace(claim, evidence={**claim.evidence, **changes})
        for claim in certificate.claims
    )
    return dataclasses.replace(certificate, claims=claims)


def saved(folder, certificate, *things):
    """Paths of a certificate, weights (or none) and data, which are written."""
    names = {Dataset: "d.npz", Text: "t.json"}
    files = [folder / "c.json"] + [folder / names.get(type(x), "w.safetensors") for x in things]
    for thing, path in zip((certificate, *things), files, strict=True):
        thing.save(path)
    return files


def require_compared(made, known, arrays, sizes):
    """The files are of the stored numbers; another number in one place, or another size, is found.

    Returns the values that are read.
    """
    found = read(made.theory, write(made))
    assert require_same(found, known) == sum(x.size for x in known.arrays.values())
    for name in arrays:
        array = known.arrays[name] * 1
        array.flat[-1] = 3 * array.flat[-1] + 1
        with pytest.raises(FormatError, match=rf"{name}\[.*\] is .* is stored"):
            require_same(found, dataclasses.replace(known, arrays={**known.arrays, name: array}))
    for name in sizes:
        other = {**known.sizes, name: known.sizes[name] + 1}
        with pytest.raises(FormatError, match=f"{name} is .* is stored"):
            require_same(found, dataclasses.replace(known, sizes=other))
    return found.values


def require_refused(made, known):
    """Rocq refuses this instance, whose numbers are taken for the stored ones; its report."""
    believed = dataclasses.replace(
        known,
        arrays={name: made.values[name] for name in known.arrays},
        sizes={name: made.values[name] for name in known.sizes},
    )
    done = confirm_instances([(made, believed)])
    assert not done.proved
    assert done.report.endswith("NOT PROVED: Rocq refuses")
    return done.report
