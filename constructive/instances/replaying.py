"""Replaying witnesses of verifiers, as VNN-COMP does, and more strictly.

A witness is text, `((X_0 0.25) ... (Y_0 1.5))`, or `X[0,0]` in VNN-LIB 2.0; the outputs may be
missing. It is *exact* if it is in the box, and the outputs meet the property, both in onnxruntime
(float32) and in float64. It is *within tolerance* if that is true up to 1e-4, which VNN-COMP
accepts; outputs that are given may differ from those of onnxruntime by a part of 1e-3 of the
largest. Anything else is refused.
"""

import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from constructive.instances.properties import Property
from constructive.instances.radii import TOLERANCE
from constructive.support.arrays import Array
from constructive.support.errors import FormatError
from constructive.support.extras import require

DIFFERENCE = 1e-3  # By which part the outputs of a witness may differ from those of onnxruntime
_PAIR = re.compile(r"\(\s*([XY])(?:_|\[0,\s*)(\d+)\]?\s+([-+0-9.eE]+|[-+]?(?:inf|nan))\s*\)")


class Grade(Enum):
    """What a witness is worth."""

    EXACT = "exact"
    TOLERATED = "within tolerance"
    REFUSED = "refused"


class Replay(NamedTuple):
    """What a replay showed."""

    grade: Grade  # of the witness
    reason: str  # in words


def read_witness(text: str, inputs: int, outputs: int) -> tuple[Array, Array | None]:
    """Read a witness: inputs (d,), and outputs (k,) if they are given.

    Example:
        >>> read_witness("sat ((X_0 0.5) (X_1 -2) (Y_0 1.5))", 2, 1)
        (array([ 0.5, -2. ]), array([1.5]))
    """
    pairs = _PAIR.findall(text)
    rest = re.sub(r"[\s()]", "", _PAIR.sub("", text))
    found = {(role, int(index)): _number(value) for role, index, value in pairs}
    wanted = {("X", i) for i in range(inputs)}
    told = {key for key in found if key[0] == "Y"}
    right = rest in {"", "sat"} and len(found) == len(pairs)
    right = right and told in (set(), {("Y", j) for j in range(outputs)})
    values = np.array([found.get(key, np.nan) for key in sorted(wanted)])
    if not right or set(found) - told != wanted or not np.isfinite(values).all():
        raise FormatError(
            f"the witness does not name {inputs} inputs once each",
            witness=text[:80],
            suggestion="((X_0 0.25) (X_1 0.5) ... (Y_0 1.5))",
        )
    return values, np.array([found[key] for key in sorted(told)]) if told else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def outputs_of(graph: Path, point: Array) -> dict[str, Array]:
    """Evaluate an ONNX graph at one input (d,), in onnxruntime and in float64: (k,) each."""
    onnx = require("onnx", extra="instances", purpose="replaying witnesses")
    reference = require("onnx.reference", extra="instances", purpose="replaying witnesses")
    runtime = require("onnxruntime", extra="instances", purpose="replaying witnesses")
    model = onnx.load(graph)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (single,) = session.run(None, {"X": point[None].astype(np.float32)})
    numbers = onnx.numpy_helper
    for constant in model.graph.initializer:
        array = numbers.to_array(constant)
        if array.dtype == np.float32:
            constant.CopyFrom(numbers.from_array(array.astype(np.float64), constant.name))
    (double,) = reference.ReferenceEvaluator(model).run(None, {"X": point[None]})
    return {"onnxruntime": single[0].astype(np.float64), "float64": double[0]}


def replayed(graph: Path, wanted: Property, witness: str) -> Replay:
    """Replay the text of a witness on an ONNX file."""
    try:
        point, told = read_witness(witness, len(wanted.box.lower), wanted.output_dim)
    except FormatError as error:
        return Replay(Grade.REFUSED, error.problem)
    outside = np.maximum(wanted.box.lower - point, point - wanted.box.upper)
    where = int(outside.argmax())
    far = float(outside[where])
    misses = [(far, f"X_{where} is {far:.2g} outside of the box")]
    if far <= TOLERANCE:  # others are not evaluated
        outputs = outputs_of(graph, point)
        for name, each in outputs.items():
            slack = float(wanted.least_slack(each[None])[0])
            misses.append((-slack, f"outputs in {name} miss the property by {-slack:.2g}"))
        if told is not None and _differs(told, outputs["onnxruntime"]):
            misses.append((np.inf, "its outputs are not those of onnxruntime"))
    for limit, grade in ((TOLERANCE, Grade.REFUSED), (0.0, Grade.TOLERATED)):
        reasons = [reason for miss, reason in misses if not miss <= limit]
        if reasons:
            return Replay(grade, reasons[0])
    return Replay(Grade.EXACT, "in the box, and its outputs meet the property")


def _differs(told: Array, outputs: Array) -> bool:
    """Whether outputs of a witness are others than those that were computed."""
    return not np.abs(told - outputs).max() <= DIFFERENCE * np.abs(outputs).max()
