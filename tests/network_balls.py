"""An oracle: what networks of instances return at one point, in balls of python-flint.

It shares nothing with the checker: heads are evaluated from their numbers, graphs of operators node
by node, from the definitions of the operators.
"""

from fractions import Fraction

import flint
from flint import arb, fmpq

from constructive.instances.graphs import OperatorGraph
from constructive.instances.network import Rectified, Stacked


def ball(value):
    return arb(fmpq(*Fraction(value).as_integer_ratio()))


def enclosed(network, point):
    """The outputs at a point, balls."""
    with flint.ctx.workprec(300):
        x = [ball(value) for value in point]
        return (
            by_operators(network, x) if isinstance(network, OperatorGraph) else by_heads(network, x)
        )


def dot(left, right, start=0.0):
    """A sum of products of balls with numbers."""
    return sum((a * ball(b) for a, b in zip(left, right, strict=True)), ball(start))


def heads_at(heads, x):
    total = [arb(0)] * heads[0].values.shape[1]
    for head in heads:
        rows = zip(head.slopes.tolist(), head.offsets.tolist(), strict=True)
        logits = [dot(x, row, offset) for row, offset in rows]
        top = max(float(each.mid()) for each in logits)  # any shift is right
        weights = [(each - top).exp() for each in logits]
        whole = sum(weights, arb(0))
        total = [
            before + dot(weights, column) / whole
            for before, column in zip(total, head.values.T.tolist(), strict=True)
        ]
    return total


def by_heads(network, x):
    if isinstance(network, Stacked):
        added = heads_at(network.first.heads, x)
        x = [a + b for a, b in zip(x, added, strict=True)]
    found = heads_at(network.heads, x)
    if isinstance(network, Rectified):
        rows = zip(network.units.tolist(), network.biases.tolist(), strict=True)
        units = [dot(found, row, bias) for row, bias in rows]
        return [sum((unit.max(arb(0)) for unit in units), arb(0))]
    return found


def normalized(x, scale, bias, given):
    epsilon = given["epsilon"]
    middle = sum(x, arb(0)) / len(x)
    spread = (sum(((a - middle) ** 2 for a in x), arb(0)) / len(x) + ball(epsilon)).sqrt()
    return [
        (a - middle) / spread * ball(s) + ball(b)
        for a, s, b in zip(x, scale.tolist(), bias.tolist(), strict=True)
    ]


def gelu(x):
    return x / 2 * (1 + (x / arb(2).sqrt()).erf())


ONE = {
    "Relu": lambda x: x.max(arb(0)), "Abs": abs, "Neg": lambda x: -x, "Identity": lambda x: x,
    "Sigmoid": lambda x: 1 / (1 + (-x).exp()), "Tanh": lambda x: x.tanh(), "Exp": lambda x: x.exp(),
    "Log": lambda x: x.log(), "Sin": lambda x: x.sin(), "Cos": lambda x: x.cos(), "Gelu": gelu,
    "Erf": lambda x: x.erf(), "Sqrt": lambda x: x.sqrt(), "Reciprocal": lambda x: 1 / x,
}  # fmt: skip
TWO = {
    "Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y,
    "Div": lambda x, y: x / y, "Max": lambda x, y: x.max(y), "Min": lambda x, y: x.min(y),
}  # fmt: skip


def gemm(x, weights, offsets=None, given=None):
    weights = weights.T if (given or {}).get("transB") else weights
    offsets = [0.0] * weights.shape[1] if offsets is None else offsets.tolist()
    columns = zip(weights.T.tolist(), offsets, strict=True)
    return [dot(x, column, offset) for column, offset in columns]


def softmax(x):
    powers = [a.exp() for a in x]
    return [power / sum(powers, arb(0)) for power in powers]


def clip(x, low, high, _):
    return [a.max(ball(low.item())).min(ball(high.item())) for a in x]


# Of values, arrays of constants, and attributes.
ROWS = {
    "Gemm": gemm,
    "MatMul": lambda x, weights, _: gemm(x, weights),
    "LeakyRelu": lambda x, given: [a.max(a * ball(given["alpha"])) for a in x],
    "Clip": clip,
    "Pow": lambda x, exponent, _: [a ** int(exponent.item()) for a in x],
    "Softmax": lambda x, _: softmax(x),
    "ReduceMean": lambda x, _: [sum(x, arb(0)) / len(x)],
    "LayerNormalization": normalized,
    "MaxPool": lambda x, _: [a.max(b) for a, b in zip(x[::2], x[1::2], strict=True)],
    "Reshape": lambda x, *_: x,
    "Flatten": lambda x, _: x,
}


def by_operators(graph, x):
    arrays, values = graph.constants, {"X": x}

    def of(name):
        if name in values:
            return values[name]
        return [ball(v) for v in arrays[name].reshape(-1).tolist()]

    for each in graph.nodes:
        operator, (first, *others) = each.operator, each.inputs
        if operator in ONE:
            found = [ONE[operator](a) for a in of(first)]
        elif operator in TWO:
            one, other = of(first), of(others[0])
            count = max(len(one), len(other))
            pairs = zip(one * (count // len(one)), other * (count // len(other)), strict=True)
            found = [TWO[operator](a, b) for a, b in pairs]
        elif operator == "Concat":
            found = of(first) + of(others[0])
        elif operator == "Split":
            half = len(of(first)) // 2
            values[each.outputs[1]], found = of(first)[half:], of(first)[:half]
        else:
            given = [each.attributes] if operator != "Gemm" else []
            named = {"given": each.attributes} if operator == "Gemm" else {}
            found = ROWS[operator](of(first), *(arrays[name] for name in others), *given, **named)
        values[each.outputs[0]] = found
    return values["Y"]


def slack(wanted, outputs):
    """By how much outputs meet the best disjunct of a property, as a float."""

    def of(atom):
        return float(dot(outputs, atom.coefficients.tolist(), -atom.threshold).mid())

    return max(min(map(of, atoms)) for atoms in wanted.disjuncts)
