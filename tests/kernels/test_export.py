"""Exported problems: read without this library, right, and the same bytes every time."""

import json

import numpy as np
import pytest
from kernels_of_tests import average
from safetensors.numpy import load_file

from constructive.kernels import Spec
from constructive.kernels.answer import sentence
from constructive.kernels.masks import Boolean, Causal
from constructive.kernels.running import export
from constructive.support.errors import ParameterError

SPECS = {
    "causal": Spec(heads=(4, 2), queries=5, keys=9, head_dim=16, masks=(Causal("bottom-right"),)),
    "boolean": Spec(queries=5, keys=9, head_dim=16, masks=(Boolean(empty=True),)),
    "wide": Spec(queries=5, keys=9, head_dim=16, dtype="float64"),
    "slopes": Spec(queries=5, keys=5, head_dim=16, alibi=True, sink=True, masks=(Causal(),)),
}
CASES = ["last", "ties"]


def attention(tensors, options):
    """Attention as `computes` says it, in float64."""
    group = options["heads"] // options["kv_heads"]
    q, k, v = (tensors[name].astype(np.float64) for name in "qkv")
    k, v = (x.repeat(group, axis=1) for x in (k, v))
    logits = options["scale"] * q @ k.swapaxes(-1, -2) + tensors.get("bias", 0.0)
    if "visible" in tensors:
        logits = np.where(tensors["visible"], logits, -np.inf)
    return average(logits, v, tensors.get("sinks"))


def test_files_say_all_that_a_kernel_needs(tmp_path):
    folder = tmp_path / "problems"
    count = export(folder, SPECS, cases=CASES)
    index = json.loads((folder / "problems.json").read_text())
    assert len(index["problems"]) == count >= 6
    assert index["assumed"] == {name: sentence(spec) for name, spec in SPECS.items()}
    assert {file.name for file in folder.iterdir()} == {
        "problems.json", *(entry["file"] for entry in index["problems"])
    }  # fmt: skip
    for entry in index["problems"]:
        file = folder / entry["file"]
        tensors = load_file(file)
        assert set(tensors) <= set(index["tensors"])
        out = attention(tensors, entry)
        rows = tensors["checked"].astype(bool)
        error = np.abs(out - tensors["expected"])
        assert rows.any()
        assert (error <= tensors["tolerance"] + 1e-15)[rows].all()
        assert not (np.abs(out[:, ::-1] - tensors["expected"]) <= tensors["tolerance"])[rows].all()


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    found = []
    for name in ("one", "two"):
        export(tmp_path / name, SPECS, cases=CASES)
        found.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert found[0] == found[1]


def test_short_formats_are_stored_as_they_are(tmp_path):
    spec = Spec(queries=3, keys=5, head_dim=16, dtype="bfloat16")
    export(tmp_path / "short", {"tiny": spec}, cases=["last"])
    q = load_file(tmp_path / "short" / "tiny-last-0.safetensors")["q"]
    assert str(q.dtype) == "bfloat16"


def test_nothing_is_written_where_an_argument_is_wrong(tmp_path):
    with pytest.raises(ParameterError, match="no case"):
        export(tmp_path / "b", SPECS, cases=["soft cap"])
    assert not list(tmp_path.iterdir())
