"""A folder of instances for verifiers: every row has its files and its proof, and nothing is over.

Its files:

    instances.csv      onnx/NETWORK.onnx,vnnlib/NAME.vnnlib,SECONDS    a row for each instance
    expected.csv       columns instance, answer, float32, network, margin, and others that nothing
                       proves
    onnx/ proofs/      a graph for each network, and a proof for each instance
    vnnlib/ vnnlib2/   properties in VNN-LIB 1.0, or 2.0, or both; there are no other files
    README.md          and perhaps LICENSE: not read
"""

import csv
import hashlib
import re
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

import numpy as np

from . import ranges
from .bounds import above
from .files import read_json, reading, require, size_of, text_of
from .graphs import read_graph
from .operators import UNIT, Readout, decimal_below, evaluate, exact, is_single, rounded
from .properties import Condition, read_property
from .softmaxes import (
    KNOWN,
    REFUTATIONS,
    Box,
    box_of,
    computed_most,
    doubt_of,
    heads_of,
    least_at,
    most_by_intervals,
    off_readout,
    rounding_of,
    sentence,
    steepness,
    wider,
)

# One instance for verifiers: a graph, a property, its answer, and the proof of that.
#
# The proof says which answer, for which files, and evidence: for sat an input, for unsat a
# refutation of each alternative. Everything about graph and property is read from their files.
# What is shown has a margin of twice what rounding does, so that the answer holds in every
# float32 evaluation, too. Or the proof has an answer of its own for these, with evidence: a point,
# or the box, on which each logit is one rounding.

FORMAT = "constructive instance 1"
NEAR = Fraction(1, 10**4)  # by which scorers accept witnesses outside of the box
ALWAYS = {"format", "answer", "model"}
EVIDENCE = {"sat": "witness", "unsat": "refutations"}
VERSIONS = ("vnnlib", "vnnlib2")

# answers in real arithmetic and of float32 evaluations, margin that is proved of the first, a bound
# of rounding beside it, model, and the sentence
Shown = namedtuple("Shown", "answer deployed margin rounding model sentence")


class Problem:
    """A graph on the box of a property."""

    def __init__(self, graph, wanted, model):
        ends = [[rounded(x, UNIT) for x in side] for side in (wanted.lower, wanted.upper)]
        self.outputs, self.box = evaluate(graph, *ends), box_of(*ends)
        self.alternatives, self.model, self.readout = wanted.alternatives, model, None
        if isinstance(self.outputs, Readout):
            self.readout, self.outputs = self.outputs, self.outputs.features
            self.alternatives = pieces(self.readout, wanted.alternatives)
        count = 1 if self.readout else len(self.outputs)
        require(wanted.outputs == count, "the property has another number of outputs")

    def rounding(self, condition):
        if self.readout:
            return Fraction(off_readout(self.readout, self.model))
        return Fraction(rounding_of(self.outputs, condition.weights, self.model))


def pieces(readout, alternatives):
    """Alternatives for Y >= c, Y a sum of units after Relu: its pieces reach c, one at least.

    As relu(z) = max(z, 0), the sum is the largest of the sums of any of the z. The empty one is 0.
    """
    found = []
    for conditions in alternatives:
        (condition, *others) = conditions
        require(
            not others and condition.weights == ((0, 1),), "a readout is not bounded from above"
        )
        require(condition.threshold > 0, "a readout is never below 0")
        for bits in range(1, 1 << len(readout.biases)):
            chosen = [j for j in range(len(readout.biases)) if bits >> j & 1]
            weights = enumerate(readout.weights[:, chosen].sum(axis=1).tolist())
            biases = Fraction(int(readout.biases[chosen].sum()), 1 << UNIT)
            found.append([Condition(tuple(weights), condition.threshold - biases)])
    return found


def check_instance(content, graph, properties):
    """What a proof shows of the bytes of its files.

    content: the proof, as JSON;  properties: by version, all of which say the same
    """
    for name, data in {"onnx": graph, **properties}.items():
        right = hashlib.sha256(data).hexdigest()
        require(content.get(name, right) == right, f"the proof is about another {name} file")
    wanted, *others = [read_property(data, version) for version, data in properties.items()]
    require(all(other == wanted for other in others), "the properties differ")
    return judge(content, read_graph(graph), wanted, {"onnx", *properties})


def judge(content, graph, wanted, files):
    """What a proof shows of a graph and a property.

    files: names of the files that these are from, whose hashes are entries of the proof
    """
    answer, model = content.get("answer"), content.get("model")
    require(answer in EVIDENCE, "the answer is neither sat nor unsat")
    own = set() if model == ranges.MODEL else {"rounding"}
    names = ALWAYS | own | {EVIDENCE[answer], *files}
    require(set(content) - ({"float32"} if own else set()) == names, "the proof has other entries")
    require(content["format"] == FORMAT, "the format of the proof is another")
    if not own:
        return judge_operators(content, graph, wanted)
    require(model in KNOWN, "the model of float32 is not known")
    problem = Problem(graph, wanted, KNOWN[model])
    prove = {"sat": satisfied, "unsat": refuted}[answer]
    pairs, sentence = prove(problem, content[EVIDENCE[answer]])
    stated = exact(content["rounding"])
    require(stated >= 0, "the bound of rounding is negative")
    margins = [margin for _, margin in pairs]
    if "float32" in content:
        deployed, least = in_float32(problem, content["float32"])
        sentence += (
            f", by a margin of {decimal_below(min(margins))}; {deployed} in every float32 "
            f"evaluation, by a margin of {decimal_below(least)} ({model})"
        )
        return Shown(answer, deployed, min(margins), Fraction(0), model, sentence)
    roundings = [problem.rounding(condition) for condition, _ in pairs]
    enough = all(
        margin >= 2 * max(stated, off) for margin, off in zip(margins, roundings, strict=True)
    )
    require(enough, "the margin is less than twice what rounding does")
    margin, rounding = min(margins), max(roundings)
    sentence += (
        f", by a margin of {decimal_below(margin)}; float32 is off by at most {above(rounding)} "
        f"({model})"
    )
    return Shown(answer, answer, margin, rounding, model, sentence)


def judge_operators(content, graph, wanted):
    """The same of a graph of operators, whose intervals have what programs compute."""
    answer = content["answer"]
    require(graph.output[1] == (1, wanted.outputs), "the property has another number of outputs")
    ends = [[rounded(x, UNIT) for x in side] for side in (wanted.lower, wanted.upper)]
    if answer == "sat":
        point = point_of(box_of(*ends), content["witness"]).tolist()
        margin, words = ranges.least_margin(graph, wanted, point), "an input of the box meets"
        require(margin > 0, "the witness does not meet the conditions")
    else:
        margin = ranges.refuted_margin(graph, wanted, ends, content["refutations"])
        words = "no input of the box meets"
    sentence = (
        f"{answer}: {words} the conditions, by a margin of {decimal_below(margin)} in real "
        f"arithmetic and in every float32 evaluation ({content['model']})"
    )
    return Shown(answer, answer, margin, Fraction(0), content["model"], sentence)


def in_float32(problem, content):
    """The answer of float32 evaluations where each logit is one rounding, and its margin."""
    require(problem.readout is None, "a readout has no answer of its own in float32")
    answer = content["answer"]
    require(answer in EVIDENCE, "the answer in float32 is neither sat nor unsat")
    names = {"answer", "witness"} if answer == "sat" else {"answer"}
    require(set(content) == names, "the proof in float32 has other entries")

    def most(weights, box):
        return computed_most(problem.outputs, weights, box, problem.model)

    margins = []
    if answer == "sat":
        point = point_of(problem.box, content["witness"])
        box = Box(point, point, problem.box.varying)
    for conditions in problem.alternatives:
        if answer == "unsat":
            found = [each.threshold - most(each.weights, problem.box) for each in conditions]
        else:
            turned = [[(output, -weight) for output, weight in each.weights] for each in conditions]
            found = [
                -most(weights, box) - each.threshold
                for weights, each in zip(turned, conditions, strict=True)
            ]
        margins.append(max(found) if answer == "unsat" else min(found))
    margin = min(margins) if answer == "unsat" else max(margins)
    require(margin > 0, "the answer in float32 is not shown")
    return answer, margin


def point_of(box, witness):
    """An input of the box, in units of 2^-149."""
    right = type(witness) is list and len(witness) == len(box.lower)
    require(right, "the witness has another length")
    entries = [exact(entry) for entry in witness]
    require(all(map(is_single, entries)), "the witness is not made of float32 numbers")
    point = np.array([rounded(x, UNIT) for x in entries], dtype=object)
    inside = (point >= box.lower).all() and (point <= box.upper).all()
    require(inside, "the witness is outside of the box")
    return point


def satisfied(problem, witness):
    """Conditions that hold at an input, with their margins, and the sentence."""
    point, shown = point_of(problem.box, witness), []
    for conditions in problem.alternatives:
        margins = [slack(problem, condition, point) for condition in conditions]
        shown.append(list(zip(conditions, margins, strict=True)))
    best = max(shown, key=lambda pairs: min(margin for _, margin in pairs))
    require(min(margin for _, margin in best) > 0, "the witness does not meet the conditions")
    return best, "sat: an input of the box meets the conditions"


def slack(problem, condition, point):
    heads = heads_of(problem.outputs, condition.weights)
    return least_at(heads, problem.box, point) - doubt_of(heads) - condition.threshold


def refuted(problem, refutations):
    """A condition of each alternative that no input meets, with its margin, and the sentence."""
    alternatives, beyond = problem.alternatives, True
    listed = type(refutations) is list and len(refutations) == len(alternatives)
    require(listed, "there is not one refutation of each alternative")
    shown = []
    for conditions, evidence in zip(alternatives, refutations, strict=True):
        place, kind = evidence["atom"], evidence["kind"]
        known = type(place) is int and 0 <= place < len(conditions) and kind in REFUTATIONS
        require(known, "a refutation is of no condition, or of an unknown kind")
        heads = heads_of(problem.outputs, conditions[place].weights)
        most = REFUTATIONS[kind](heads, problem.box, evidence) + doubt_of(heads)
        margin = conditions[place].threshold - most
        require(margin > 0, "a refutation does not reach the threshold")
        shown.append((conditions[place], margin))
        beyond = beyond and holds_beyond(problem, conditions[place], heads, margin)
    near = "within 1e-4 of the box meets the conditions within 1e-4"
    return shown, f"unsat: no input {near if beyond else 'of the box meets the conditions'}"


def holds_beyond(problem, condition, heads, margin):
    """Whether inputs 1e-4 outside of the box miss a condition by more than 1e-4, too.

    Scorers accept witnesses up to that. Where inputs do not vary, they are constants here, and
    nothing is shown; nor where a first layer is known on the box alone.
    """
    if len(problem.box.varying) < len(problem.box.lower) or doubt_of(heads):
        return False
    if margin - NEAR * steepness(heads) > NEAR:
        return True
    most = most_by_intervals(heads, wider(problem.box, NEAR), {"atom": 0, "kind": "interval"})
    return condition.threshold - most > NEAR


NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
ROW = re.compile(
    rf"onnx/({NAME})\.onnx,(vnnlib2?)/({NAME})\.vnnlib,[0-9]{{1,6}}(?:\.[0-9]{{1,6}})?"
)
TABLES = {"instances.csv", "expected.csv"}
WORDS = {"README.md", "LICENSE"}
ENDS = {"onnx": ".onnx", "proofs": ".json"} | dict.fromkeys(VERSIONS, ".vnnlib")
COLUMNS = {"instance", "answer", "float32", "network", "margin"}
DIGITS = Fraction(1001, 1000)  # margins in expected.csv are rounded to four digits

# folders: those of properties that are there
Row = namedtuple("Row", "name network answer deployed margin folders")


def check_folder(folder, jobs, most, tell):
    """The lines about each instance, and whether all is proved. What is wrong with files raises."""
    folder = Path(folder)
    rows = rows_of(folder, most)
    check, found = partial(outcome, folder, most), []
    tell("instances", 0, len(rows))
    for made in mapped(check, rows, jobs):
        found.append(made)
        tell("instances", len(found), len(rows))
    width = max(len(row.name) for row in rows)
    lines = [f"{row.name:{width}} {words}" for row, (_, _, words) in zip(rows, found, strict=True)]
    models = sorted({model for _, model, _ in found if model})
    lines += [f"a float32 evaluation is {words_of(model)}" for model in models]
    wrong = [line for line, (proved, _, _) in zip(lines, found, strict=False) if not proved]
    counts = [sum(row.answer == answer for row in rows) for answer in ("sat", "unsat")]
    lines.append(
        f"{len(rows) - len(wrong)} of {len(rows)} answers are proved "
        f"(the folder says {counts[0]} sat, {counts[1]} unsat)"
    )
    return lines, not wrong


def words_of(model):
    return ranges.SENTENCE if model == ranges.MODEL else sentence(model)


def mapped(function, rows, jobs):
    """Results in order, from processes where the system can copy this one."""
    if jobs == 1 or len(rows) == 1 or "fork" not in get_all_start_methods():
        yield from map(function, rows)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(function, rows, chunksize=min(8, 1 + len(rows) // (4 * jobs)))


def outcome(folder, most, row):
    """Whether an answer is proved, in which model, and what to print."""
    try:
        shown = check_row(folder, most, row)
    except Exception as failure:  # hostile files make readers raise nearly everything
        return False, None, f"NOT PROVED: {failure!a:.300}"
    return True, shown.model, shown.sentence


def check_row(folder, most, row):
    content = read_json(folder / "proofs" / f"{row.name}.json", "proof", most)
    graph = bytes_of(folder / "onnx" / f"{row.network}.onnx", most)
    stored = {part: bytes_of(folder / part / f"{row.name}.vnnlib", most) for part in row.folders}
    shown = check_instance(content, graph, stored)
    agree = shown.answer == row.answer and shown.deployed == row.deployed
    require(agree, "expected.csv says another answer than the proof")
    enough = row.margin <= shown.margin * DIGITS
    require(enough, "expected.csv says a larger margin than is proved")
    return shown


def bytes_of(path, most):
    require(64 * size_of(path, "file") <= most, f"the file {path} is too large for --max-memory")
    with reading(path, "file"):
        return path.read_bytes()


def rows_of(folder, most):
    """The rows of both tables together, if they and the files agree."""
    require(folder.is_dir() and not folder.is_symlink(), f"{folder} is not a folder")
    there = names_in(folder, folders=set(ENDS))
    versions = [part for part in VERSIONS if part in there] or VERSIONS[:1]
    wanted = TABLES | {"onnx", "proofs", *versions}
    agree(there - WORDS, wanted, "")
    found = [instance_row(line.rstrip("\n")) for line in lines_of(folder / "instances.csv", most)]
    require(found, "instances.csv has no rows")
    require({part for _, part, _ in found} == {versions[0]}, f"rows are not of {versions[0]}/")
    expected = expected_rows(folder / "expected.csv", most)
    names = [name for *_, name in found]
    require(len(set(names)) == len(names), "instances.csv names an instance twice")
    require(set(names) == set(expected), "instances.csv and expected.csv have other instances")
    stems = dict.fromkeys(("proofs", *versions), names) | {"onnx": [row[0] for row in found]}
    for part, some in stems.items():
        agree(names_in(folder / part), {stem + ENDS[part] for stem in some}, f"{part}/")
    rows = []
    for network, _, name in found:
        answer, deployed, of, margin = expected[name]
        require(of == network, f"expected.csv says another network of {name}")
        rows.append(Row(name, network, answer, deployed, margin, tuple(versions)))
    return rows


def agree(there, wanted, part):
    """Require that these are the files, without others."""
    over, missing = sorted(there - wanted), sorted(wanted - there)
    require(not over, f"no row is about the file {part}{''.join(over[:1])}")
    require(not missing, f"the file {part}{''.join(missing[:1])} is not there")


def names_in(folder, folders=()):
    """Names in a folder: files, and folders of these names; no links."""
    names = set()
    for path in folder.iterdir():
        right = path.is_dir() if path.name in folders else path.is_file()
        require(right and not path.is_symlink(), f"{path.name} is a link, or of another kind")
        names.add(path.name)
    return names


def lines_of(path, most):
    return text_of(bytes_of(path, most)).splitlines(keepends=True)


def instance_row(line):
    found = ROW.fullmatch(line)
    require(found is not None, f"instances.csv has the row {line[:60]!r}")
    return found.groups()


def expected_rows(path, most):
    """Answer, network and margin of each instance."""
    header, *rows = list(csv.reader(lines_of(path, most), strict=True)) or [[]]
    known = set(header) >= COLUMNS and len(set(header)) == len(header)
    require(known, f"expected.csv has not the columns {', '.join(sorted(COLUMNS))}")
    found = {}
    for row in rows:
        require(len(row) == len(header), "a row of expected.csv has another length")
        entry = dict(zip(header, row, strict=True))
        name, answer, deployed = entry["instance"], entry["answer"], entry["float32"]
        require(name not in found, f"expected.csv names {name[:60]} twice")
        for said in (answer, deployed):
            require(said in EVIDENCE, f"expected.csv says {said[:60]!r} of {name[:60]}")
        margin = margin_of(entry["margin"])
        found[name] = answer, deployed, entry["network"], margin
    return found


def margin_of(text):
    """A decimal, perhaps with an exponent of two digits."""
    digits, _, exponent = text.partition("e")
    small = re.fullmatch("(?:[-+]?[0-9]{1,2})?", exponent) is not None
    require(small and bool(exponent) == ("e" in text), f"{text[:30]!r} is not a margin")
    margin = exact(digits) * Fraction(10) ** int(exponent or 0)
    require(margin > 0, f"{text[:30]!r} is not a margin")
    return margin
