"""One instance for verifiers: a graph, a property, its answer, and the proof of that.

The proof says which answer, for which files, and evidence: for sat an input, for unsat a refutation
of each alternative. Everything about graph and property is read from their files. What is shown has
a margin of twice what rounding does, so that the answer holds in every float32 evaluation, too.
"""

import hashlib
from collections import namedtuple
from fractions import Fraction

import numpy as np

from bounds import above
from dyadic import UNIT, decimal_below, exact, is_single, rounded
from files import require
from graph_rounding import KNOWN, rounding_of
from graphs import read_graph
from operators import evaluate
from properties import read_property
from softmaxes import (
    REFUTATIONS,
    box_of,
    heads_of,
    least_at,
    most_by_intervals,
    steepness,
    wider,
)

FORMAT = "constructive instance 1"
NEAR = Fraction(1, 10**4)  # by which scorers accept witnesses outside of the box
ALWAYS = {"format", "answer", "onnx", "model", "rounding"}
EVIDENCE = {"sat": "witness", "unsat": "refutations"}

# answer, margin that is proved, bound of rounding (both Fractions), model, and the sentence
Shown = namedtuple("Shown", "answer margin rounding model sentence")


class Problem:
    """A graph on the box of a property."""

    def __init__(self, graph, wanted, model):
        ends = [[rounded(x, UNIT) for x in side] for side in (wanted.lower, wanted.upper)]
        self.outputs, self.box = evaluate(graph, *ends), box_of(*ends)
        require(wanted.outputs == len(self.outputs), "the property has another number of outputs")
        self.wanted, self.model = wanted, model

    def rounding(self, condition):
        return Fraction(rounding_of(self.outputs, condition.weights, self.box, self.model))


def check_instance(content, graph, properties):
    """What a proof shows of the bytes of its files.

    content: the proof, as JSON;  properties: by version, all of which say the same
    """
    answer = content.get("answer")
    require(answer in EVIDENCE, "the answer is neither sat nor unsat")
    names = ALWAYS | {EVIDENCE[answer], *properties}
    require(set(content) == names, "the proof has other entries")
    require(content["format"] == FORMAT, "the format of the proof is another")
    for name, data in {"onnx": graph, **properties}.items():
        fits = content[name] == hashlib.sha256(data).hexdigest()
        require(fits, f"the proof is about another {name} file")
    wanted, *others = [read_property(data, version) for version, data in properties.items()]
    require(all(other == wanted for other in others), "the properties differ")
    require(content["model"] in KNOWN, "the model of float32 is not known")
    problem = Problem(read_graph(graph), wanted, KNOWN[content["model"]])
    prove = {"sat": satisfied, "unsat": refuted}[answer]
    pairs, sentence = prove(problem, content[EVIDENCE[answer]])
    stated = exact(content["rounding"])
    require(stated >= 0, "the bound of rounding is negative")
    roundings = [problem.rounding(condition) for condition, _ in pairs]
    margins = [margin for _, margin in pairs]
    enough = all(
        margin >= 2 * max(stated, off) for margin, off in zip(margins, roundings, strict=True)
    )
    require(enough, "the margin is less than twice what rounding does")
    margin, rounding = min(margins), max(roundings)
    sentence += (
        f", by a margin of {decimal_below(margin)}; float32 is off by at most {above(rounding)} "
        f"({content['model']})"
    )
    return Shown(answer, margin, rounding, content["model"], sentence)


def satisfied(problem, witness):
    """Conditions that hold at an input, with their margins, and the sentence."""
    box = problem.box
    right = type(witness) is list and len(witness) == len(box.lower)
    require(right, "the witness has another length")
    entries = [exact(entry) for entry in witness]
    require(all(map(is_single, entries)), "the witness is not made of float32 numbers")
    point = np.array([rounded(x, UNIT) for x in entries], dtype=object)
    inside = (point >= box.lower).all() and (point <= box.upper).all()
    require(inside, "the witness is outside of the box")
    shown = []
    for conditions in problem.wanted.alternatives:
        margins = [slack(problem, condition, point) for condition in conditions]
        shown.append(list(zip(conditions, margins, strict=True)))
    best = max(shown, key=lambda pairs: min(margin for _, margin in pairs))
    require(min(margin for _, margin in best) > 0, "the witness does not meet the conditions")
    return best, "sat: an input of the box meets the conditions"


def slack(problem, condition, point):
    heads = heads_of(problem.outputs, condition.weights, problem.box)
    return least_at(heads, problem.box, point) - condition.threshold


def refuted(problem, refutations):
    """A condition of each alternative that no input meets, with its margin, and the sentence."""
    alternatives, beyond = problem.wanted.alternatives, True
    listed = type(refutations) is list and len(refutations) == len(alternatives)
    require(listed, "there is not one refutation of each alternative")
    shown = []
    for conditions, evidence in zip(alternatives, refutations, strict=True):
        place, kind = evidence["atom"], evidence["kind"]
        known = type(place) is int and 0 <= place < len(conditions) and kind in REFUTATIONS
        require(known, "a refutation is of no condition, or of an unknown kind")
        heads = heads_of(problem.outputs, conditions[place].weights, problem.box)
        most = REFUTATIONS[kind](heads, problem.box, evidence)
        margin = conditions[place].threshold - most
        require(margin > 0, "a refutation does not reach the threshold")
        shown.append((conditions[place], margin))
        beyond = beyond and holds_beyond(problem, conditions[place], heads, margin)
    near = "within 1e-4 of the box meets the conditions within 1e-4"
    return shown, f"unsat: no input {near if beyond else 'of the box meets the conditions'}"


def holds_beyond(problem, condition, heads, margin):
    """Whether inputs 1e-4 outside of the box miss a condition by more than 1e-4, too.

    Scorers accept witnesses up to that. Where inputs do not vary, they are constants here, and
    nothing is shown.
    """
    if len(problem.box.varying) < len(problem.box.lower):
        return False
    if margin - NEAR * steepness(heads) > NEAR:
        return True
    most = most_by_intervals(heads, wider(problem.box, NEAR), {"atom": 0, "kind": "interval"})
    return condition.threshold - most > NEAR
