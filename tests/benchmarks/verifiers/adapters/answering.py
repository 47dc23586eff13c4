"""What adapters share: problems come in as lines of JSON, and an answer of one line goes back.

A problem has "onnx" and "vnnlib" (paths), "timeout" (seconds), "lower" and "upper" (the box),
"disjuncts" (lists of atoms; an atom [w, c] means w . Y >= c), and "heads": lists [A, b, V] of
f(x) = sum_h V_h^T softmax(A_h x + b_h). "before" may have such heads g, too: the network is then
f(x + g(x)); and "units" weights w and biases c of a readout sum_j relu(w_j . f + c_j). The first
line that an adapter prints is a version.
"""

import json
import math
import os
import sys


def answer_all(version, answer):
    """Print the version, and `answer(problem)` for each problem: sat, unsat, ... and a witness."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the tool prints is not an answer
    print(version, file=replies, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = f"error,{type(error).__name__}: {error}".replace("\n", " ")[:300]
        print(reply, file=replies, flush=True)


def by_bounds(problem, upper_bounds):
    """unsat if in each disjunct the upper bound of an atom's w . Y is below its threshold.

    `upper_bounds` takes the coefficients of all atoms, one row each.
    """
    atoms = [atom for disjunct in problem["disjuncts"] for atom in disjunct]
    bounds = iter(upper_bounds([w for w, _ in atoms]))
    slacks = [[float(next(bounds)) - c for _, c in disjunct] for disjunct in problem["disjuncts"]]
    if any(math.isnan(slack) for disjunct in slacks for slack in disjunct):
        return "error,a bound is NaN"
    return "unsat" if all(min(disjunct) < 0 for disjunct in slacks) else "unknown"


def witness(x):
    return "sat,(" + " ".join(f"(X_{i} {float(v)!r})" for i, v in enumerate(x)) + ")"
