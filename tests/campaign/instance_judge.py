"""Whether what the checker printed of a folder of instances is true: by ONNX's own evaluator.

It shares nothing with the checker. Networks are evaluated by `onnx.reference` in float64, and by
onnxruntime; properties are read by expressions that know only the forms that are written. What an
honest folder says of its own network is believed: its witness, and the bound below its threshold.
"""

import csv
import re
from fractions import Fraction
from hashlib import sha256

import numpy as np
import onnx
import onnxruntime
from judges import all_of
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

LINE = re.compile(
    r"(\S+) +(sat|unsat): .* by a margin of (\S+); float32 is off by at most (\S+) \((.*)\)"
)
BOTH = re.compile(
    r"(\S+) +(sat|unsat): .* by a margin of (\S+); "
    r"(sat|unsat) in every float32 evaluation, by a margin of (\S+) \((.*)\)"
)
OPERATORS = re.compile(
    r"(\S+) +(sat|unsat): .* by a margin of (\S+) "
    r"in real arithmetic and in every float32 evaluation \((.*)\)"
)
ASSERT = re.compile(r"\(([<>]=) ([XY])(?:_|\[0,)(\d+)\]? (?:(-?[0-9.]+)|Y(?:_|\[0,)(\d+)\]?)\)")
POINTS = 120
SLACK = 1e-9  # of float64
ROUGH = 1e-6  # of float64, for logits of 2^32


def all_true(base, folder, printed, _files=None):
    """Whether all lines are: True, False, or None where this cannot tell."""
    lines = printed.splitlines()
    forms = LINE, BOTH, OPERATORS
    matches = [found for line in lines for form in forms if (found := form.fullmatch(line))]
    stated = {found[1]: found for found in matches}
    rows, names = rows_of(folder), {row["instance"] for row in rows_of(base)}
    told = f"{len(rows)} of {len(rows)} answers are proved"
    files = [set(each.files) - {"README.md"} for each in (base, folder)]
    listed = [sorted(pairs_of(each)) for each in (base, folder)]
    whole = (
        lines[-1] == "PROVED" and lines[-2].startswith(told) and files[0] == files[1]
        and listed[0] == listed[1] and sorted(row["instance"] for row in rows) == sorted(names)
        and set(stated) == names
    )  # fmt: skip
    if not whole:
        return False
    network = Network(folder.files[f"onnx/{folder.network}.onnx"])
    return all_of([instance(base, folder, network, row, stated[row["instance"]]) for row in rows])


def pairs_of(folder):
    """Network and property of each row, whatever the timeout."""
    lines = folder.files["instances.csv"].decode().splitlines()
    return [line.rpartition(",")[0] for line in lines]


def rows_of(folder):
    return list(csv.DictReader(folder.files["expected.csv"].decode().splitlines()))


class Network:
    """A graph in float64 and in onnxruntime."""

    def __init__(self, data):
        model = onnx.ModelProto.FromString(data)
        onnx.checker.check_model(model, full_check=True)
        self.session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        for each in model.graph.initializer:
            array = numpy_helper.to_array(each)
            if array.dtype == np.float32:
                each.CopyFrom(numpy_helper.from_array(array.astype(np.float64), each.name))
        self.double = ReferenceEvaluator(model)
        sizes = {each.name: each.dims[-1] for each in model.graph.initializer if each.dims}
        before = {each.output[0]: each.input for each in model.graph.node}
        relus = [each.input[0] for each in model.graph.node if each.op_type == "Relu"]
        relus = relus if any(each.op_type == "Softmax" for each in model.graph.node) else []
        # of a sum of m units after Relu: as many pieces as sets of units, but for none
        self.pieces = 2 ** sizes[before[relus[0]][2]] - 1 if relus else 1

    def __call__(self, x):
        return self.double.run(None, {"X": np.float64(x)[None]})[0][0]

    def single(self, x):
        return self.session.run(None, {"X": np.float32(x)[None]})[0][0]


def property_of(text):
    """Box, and disjuncts of (weights, threshold), of a text in the usual form."""
    ends, outputs = {}, [[]]
    for line in re.sub(r";.*", "", text).splitlines():
        if "(assert" not in line:
            continue
        groups = line.split("(and ") if "(or " in line else [line]
        atoms = [found for part in groups if (found := ASSERT.findall(part))]
        if atoms and atoms[0][0][1] == "X":
            for side, _, i, value, _ in (atom for part in atoms for atom in part):
                ends[side, int(i)] = Fraction(value)
        elif "(or " in line:
            outputs += atoms
        else:
            outputs[0] += atoms[0]
    count = len(ends) // 2
    lower, upper = ([ends[side, i] for i in range(count)] for side in (">=", "<="))
    return lower, upper, [part for part in outputs if part]


def slack(atoms, values):
    """By how much outputs meet all conditions of a disjunct."""
    found = []
    for side, _, i, value, other in atoms:
        apart = values[int(i)] - (values[int(other)] if other else float(value))
        found.append(apart if side == ">=" else -apart)
    return min(found)


def instance(base, folder, network, row, line):
    """One line of the checker."""
    name = line[1]
    proof, texts = folder.proof(name), folder.texts(name)
    properties = [property_of(text) for text in texts.values()]
    wanted = properties[0]
    drawn = points(base, *(np.array([float(x) for x in side]) for side in wanted[:2]))
    right = [
        all(proof[part] == sha256(text.encode()).hexdigest() for part, text in texts.items()),
        all(other == wanted for other in properties),
        line[2] == row["answer"] == proof["answer"],
        float(row["margin"]) <= float(line[3]) * 1.02,  # of three digits, rounded down
    ]
    if not all(right):
        return False
    judge = {LINE: one_answer, BOTH: both_answers, OPERATORS: of_operators}[line.re]
    return judge(base, folder, network, row, line, proof, wanted, drawn)


def one_answer(base, _, network, row, line, proof, wanted, drawn):
    """An answer in real arithmetic that float32 does not change."""
    name, said, margin, rounding, _ = line.groups()
    margin, rounding = float(margin), float(rounding)
    off = max(np.abs(network.single(x) - network(x)).max() for x in drawn[:20])
    if not (said == row["float32"] and margin >= 2 * rounding and off <= rounding * 1.001):
        return False
    lower, upper, disjuncts = wanted
    if said == "sat":
        return witness_is_right(network, proof["witness"], lower, upper, disjuncts, margin)
    best = max(slack(atoms, network(x)) for x in drawn for atoms in disjuncts)
    count = len(disjuncts) * network.pieces
    if best > -margin + SLACK or len(proof["refutations"]) != count:
        return False
    parts = zip(proof["refutations"], disjuncts, strict=True) if network.pieces == 1 else ()
    if not all(slabs_are_right(network, *part, lower, upper, drawn) for part in parts):
        return False
    return True if is_known(base, name, network, wanted, margin) else None


def of_operators(base, _, network, row, line, proof, wanted, drawn):
    """One answer for real arithmetic and for all programs, by intervals of operators."""
    name, said, margin, _ = line.groups()
    (lower, upper, disjuncts), margin = wanted, float(margin)
    if said != row["float32"] or "rounding" in proof:
        return False
    if said == "sat":  # whatever other inputs have: on a larger box a logarithm may have none
        point = [float(Fraction(x)) for x in proof["witness"]]
        off = ROUGH * max(1.0, float(np.abs(network(point)).max()))
        computed = max(slack(atoms, network.single(point)) for atoms in disjuncts)
        right = witness_is_right(network, proof["witness"], lower, upper, disjuncts, margin - off)
        return right and computed > 0
    real, programs = ([run(x) for x in drawn] for run in (network, network.single))
    if not np.isfinite(real).all():
        return False
    off = ROUGH * max(1.0, float(np.abs(real).max()))
    best = max(slack(atoms, y) for y in real for atoms in disjuncts)
    computed = max(slack(atoms, y) for y in programs for atoms in disjuncts)
    if best > -margin + off or computed >= 0 or len(proof["refutations"]) != len(disjuncts):
        return False
    for part, atoms in zip(proof["refutations"], disjuncts, strict=True):
        side, _, _, value, _ = atom = atoms[part["atom"]]
        c = float(value or 0) * (1 if side == ">=" else -1)
        if Fraction(part["most"]) < max(slack([atom], y) for y in real) + c - off:
            return False
    return True if is_known(base, name, network, wanted, margin) else None


def both_answers(base, folder, network, row, line, proof, wanted, drawn):
    """Answers of its own in real arithmetic and in float32."""
    name, said, margin, deployed, least, _ = line.groups()
    if not deployed == row["float32"] == proof["float32"]["answer"]:
        return False
    lower, upper, disjuncts = wanted
    for answer, evidence, most, run, slack_of in (
        (said, proof, float(margin), network, ROUGH),
        (deployed, proof["float32"], float(least), network.single, 0.0),
    ):
        if answer == "sat":
            point = [float(Fraction(x)) for x in evidence["witness"]]
            inside = all(a <= Fraction(x) <= b for x, a, b in zip(point, lower, upper, strict=True))
            value = max(slack(atoms, run(point)) for atoms in disjuncts)
            right = inside and value >= most - slack_of
        else:
            best = max(slack(atoms, run(x)) for x in drawn for atoms in disjuncts)
            right = best <= -most + slack_of
        if not right:
            return False
    honest = Network(base.files[f"onnx/{base.network}.onnx"])
    known = base.names == folder.names and base.texts(name) == folder.texts(name)
    same = known and all(abs(network(x) - honest(x)).max() < ROUGH for x in drawn[:40])
    return True if same and proof["answer"] == base.proof(name)["answer"] else None


def points(base, low, high):
    """Points of a box: the honest witness, near it, at random, and corners."""
    rng = np.random.default_rng(0)
    t = [float(Fraction(x)) for x in base.proof(base.of("sat"))["witness"]]
    drawn = rng.uniform(low, high, (POINTS, len(low)))
    drawn[::4] = np.where(rng.random(drawn[::4].shape) < 0.5, low, high)
    if len(t) == len(low):
        near = np.array(t) + rng.normal(size=(POINTS // 4, len(low))) * 0.01 * (high - low)
        drawn[1::4] = near
        drawn[1] = t
    return np.clip(np.clip(drawn, low, high).astype(np.float32).astype(float), low, high)


def witness_is_right(network, witness, lower, upper, disjuncts, margin):
    point = [Fraction(x) for x in witness]
    inside = len(point) == len(lower) and all(
        low <= x <= high for low, x, high in zip(lower, point, upper, strict=True)
    )
    if not inside or any(Fraction(float(np.float32(float(x)))) != x for x in point):
        return False
    values = network([float(x) for x in point])
    return max(slack(atoms, values) for atoms in disjuncts) >= margin - SLACK


def slabs_are_right(network, part, atoms, lower, upper, drawn):
    """Slabs cover the box, and no point has an output above the sum of bounds on its slab."""
    if part["kind"] != "slabs":
        return True
    g = [Fraction(x) for x in part["direction"]]
    ends = [sorted((a * low, a * high)) for a, low, high in zip(g, lower, upper, strict=True)]
    at, end = (sum(side) for side in zip(*ends, strict=True))
    listed = [
        (Fraction(slab["from"]), Fraction(slab["to"]),
         float(sum(Fraction(head["bound"]) for head in slab["heads"])))
        for slab in part["slabs"]
    ]  # fmt: skip
    listed.sort()
    reached = [listed[0][0] if listed else at + 1]
    for a, b, _ in listed:
        if a > reached[-1]:
            return False
        reached.append(max(reached[-1], b))
    if reached[0] > at or reached[-1] < end:
        return False
    side, _, _, value, _ = atom = atoms[part["atom"]]
    c = float(value or 0) * (1 if side == ">=" else -1)
    outputs = np.array([slack([atom], network(x)) + c for x in drawn])
    along = drawn @ np.array([float(x) for x in g])
    return not any(
        ((along >= float(a)) & (along <= float(b)) & (outputs > most + SLACK)).any()
        for a, b, most in listed
    )


def is_known(base, name, network, wanted, margin):
    """Whether this follows from the honest folder: the same network, a smaller box or property."""
    lower, upper, disjuncts = property_of(base.texts(base.of("unsat"))["vnnlib"])
    honest = Network(base.files[f"onnx/{base.network}.onnx"])
    if len(lower) != len(wanted[0]):
        return False
    low, high = (np.array([float(x) for x in side]) for side in (lower, upper))
    drawn = points(base, low, high)[:40]
    same = all(np.allclose(network(x), honest(x), SLACK, SLACK) for x in drawn)
    within = all(
        a <= x and y <= b for a, b, x, y in zip(lower, upper, wanted[0], wanted[1], strict=True)
    )
    if not same or not within or name != base.of("unsat"):
        return False
    if wanted[2] == disjuncts:
        return True
    (old, *more), (new, *others) = disjuncts[0], wanted[2][0]
    plain = not more and not others and len(disjuncts) == len(wanted[2]) == 1
    rows = {row["instance"]: float(row["margin"]) for row in rows_of(base)}
    if not (plain and old[:3] == new[:3] and not old[4] and not new[4]):
        return False
    farther = (float(new[3]) - float(old[3])) * (1 if old[0] == ">=" else -1)
    return farther - margin >= -rows[name] * 0.999
