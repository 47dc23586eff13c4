"""The claim *executed* of a layer: |f - y| as any program of a model may evaluate it.

The evidence is a bound of |f - y| in real arithmetic, which real_claims shows; what is left of the
claimed bound has to be enough for rounding. With U_h = W_V W_O W_D of a head, by examples:

    s_j    = min(1, a_j (exp(2 eps) - 1))                              attention a_j (`float_model`)
    moved  = sum_h min(sum_j s_j |v_j - c|, max v - min v)             values v_j = U_h^T x_j, any c
    summed = ((1 + zeta)(1 + gamma_k) - 1) sum_h (|W_V||W_O||W_D|)_h^T max_j |x_j|

with k roundings as the model counts them (float_model: output_steps). First logits are exchanged
for those that were computed: attention sums to one before and after, so any c may be taken from the
values. (Where parts are merged by logsumexp, it does not: so c = 0, no share is cut at one, and
sizes that are summed grow by a part exp(2 eps) - 1.) Then exact logits are averaged as floats do
(float_model).
"""

import math
from fractions import Fraction

import numpy as np

from .attend import Examples, Heads, attend, beside
from .bounds import LONGEST, above, chunks, gamma, granularity, up
from .claim import Claim
from .files import require
from .float_model import (
    FLOAT64,
    MODELS,
    SINGLE,
    Logits,
    Side,
    averaged,
    gamma_of,
    growth,
    held,
    logit_steps,
    of_layers,
    output_steps,
    softmax,
)
from .floating import Floats

ENTRIES = 1 << 19  # of the largest array
VACUOUS = " (vacuous, as no target is larger than {!r})"  # of a bound that is no less


class OfModel(Claim):
    """A claim about programs of a model, which its evidence names."""

    name, models = "executed", MODELS

    def model(self, kept):
        """The model, of numbers stored in a format."""
        name = self.evidence["model"]
        require(type(name) is str and name in self.models, "executed: its model is none")
        require(self.models[name].kept == kept, f"executed: its model does not store in {kept}")
        return self.models[name]


class Executed(OfModel):
    """*executed* of a layer: rounding takes no more than what the claim leaves for it."""

    of_lengths = True
    statement = "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}"

    @property
    def error(self):
        return self.bound

    @property
    def real(self):
        """The bound of |f - y| in real arithmetic on which it rests."""
        return self.number("real", "real bound")

    def needs(self, about):
        """Those of an error, and of attention with bounds."""
        error, operations = needs(about.shapes)
        real, products = (0, 0) if "error" in about.names else about.real_needs()
        return max(error, real), operations + products

    def check(self, about):
        bound, real, model = self.bound, self.real, self.model("float32")
        weights, data = about.weights, about.data
        single = "W_V_corrections" not in weights
        require(single, "executed: a readout of several arrays is not float32")
        with np.errstate(all="ignore"):  # what is infinite, or not a number, is not proved
            found, exact = rounding(weights, data, model)
        enough = found < math.inf and Fraction(real) + Fraction(found) <= Fraction(bound)
        require(enough, f"executed: rounding may be {above(found, 6)}, more than is left for it")
        largest = float(np.abs(data["targets"]).max())
        vacuous = bound >= largest
        wanted = {"vacuous": largest.hex()} if vacuous else {}
        marked = {name: self.evidence[name] for name in self.evidence if name == "vacuous"}
        require(marked == wanted, "executed: it does not say whether its bound is vacuous")
        said = VACUOUS.format(largest) if vacuous else ""
        return bound, said, self.evidence["model"], of_layers(model, exact)


def needs(shapes):
    """Bytes and operations, from shapes alone."""
    total, size, width, outputs, heads, inner, value_dim, between = shapes
    each = entries_of(shapes)
    held = 8 * 12 * max(ENTRIES, each)
    held += 8 * heads * width * (4 * width + 4 * inner + 4 * value_dim + 4 * outputs)
    between_them = heads * value_dim * (between + outputs) + between * outputs
    held += 8 * 3 * (between_them + total * (width + outputs))
    products = total * heads * width * (2 * width + 4 * size) + total * size * width * outputs
    products += 2 * heads * width * (inner * width + value_dim * (between + outputs))
    return held, 2 * products + 60 * total * each


def entries_of(shapes):
    """Entries of one example in the largest array: of logits, or of values."""
    _, size, width, outputs, heads, *_ = shapes
    return heads * max(size * max(outputs, 1), width) + size * width


class Shares(Floats):
    """Bounds of attention from above, and of each head the sizes (B, H) of sums of its logits."""

    def softmax(self, logits, hidden):
        values = logits.values if hidden is None else np.where(hidden, -np.inf, logits.values)
        sizes = logits.sizes.max(axis=2, initial=0.0, where=True if hidden is None else ~hidden)
        return softmax(values), sizes


def rounding(weights, data, model):
    """The most that rounding does to any output, and whether all logits are exact."""
    w_v, w_o, w_d = (weights[name].astype(np.float64) for name in ("W_V", "W_O", "W_D"))
    (heads, width, value_dim), between = w_v.shape, len(w_d)
    inner, outputs = weights["W_Q"].shape[2], w_d.shape[1]
    total, size = len(data["queries"]), data["contexts"].shape[-2]
    longest = max(heads * (width + value_dim), size, inner, between)
    require(longest <= LONGEST, "executed: sums are too long")
    w_o = w_o.reshape(heads, value_dim, between)
    readout = beside(w_v @ (w_o @ w_d))
    reach = up(up(np.abs(w_v) @ up(np.abs(w_o) @ np.abs(w_d))).sum(axis=0))

    sizes = heads, size, width, value_dim, between
    zeta, flushed = averaged(model, np.float64(size))
    logits = logits_of(weights, data)
    exact_heads, in_range = logits.exact(model), up(2.0 * size * logits.reach(model)) <= SINGLE.top
    lost = underflow(weights, data, float(flushed)) if in_range else math.inf
    ours = gamma(logit_steps(FLOAT64, width, inner))
    last = gamma_of(model, output_steps(model, *sizes))
    relative = (size + 2) * gamma(output_steps(FLOAT64, *sizes))
    relative = float(up(zeta + (1.0 + zeta) * last + relative))

    shapes, worst = (total, size, width, outputs, heads, inner, value_dim, between), 0.0
    view, numbers = Examples(data, chunks(total, entries_of(shapes), ENTRIES)), Shares()
    all_exact = True
    for group, _, tokens, (attention, sizes) in attend(numbers, Heads(numbers, weights), view):
        exact = exact_heads & held(logits.units, 2.0 * sizes)
        grows = growth(2.0 * np.where(exact, 0.0, logits.off(model, sizes, size, ours)))
        all_exact = all_exact and bool(exact.all())
        values = (tokens @ readout).reshape(len(tokens), size, heads, outputs)
        shape = len(group.queries), heads, size, outputs
        values = np.broadcast_to(values.transpose(0, 2, 1, 3), shape)
        summed = up(np.abs(tokens).max(axis=1) @ reach)
        if model.merged:
            each = up(attention * grows[..., None])[..., None, :] @ np.abs(values)
            moved = up(up(each).sum(axis=1))[:, 0]
            summed = up(summed * (1.0 + grows.max(axis=1))[:, None])
        else:
            moved = apart_by_head(attention, grows, values)
        summed = up(relative * summed + lost)
        found = float(up(moved + summed).max())
        worst = max(worst, found) if found < math.inf else math.inf  # which a NaN becomes, too
    return worst, all_exact


def logits_of(weights, data):
    """Units and sizes of the sums before logits: by the largest entries of tokens and queries."""
    w_q, w_k = (np.abs(weights[name].astype(np.float64)) for name in ("W_Q", "W_K"))
    matrix = up(w_q @ w_k.transpose(0, 2, 1))
    sides = []
    for name, w, turned in (("contexts", w_k, matrix.transpose(0, 2, 1)), ("queries", w_q, matrix)):
        flat = data[name].reshape(-1, data[name].shape[-1])
        most = np.maximum(flat.max(axis=0), -flat.min(axis=0)).astype(np.float64)
        read = up(most @ w)
        sides.append(Side(granularity(flat), most, read, up(most @ turned), read))
    return Logits(weights, matrix, *sides)


def apart_by_head(attention, grows, values):
    """How far outputs move, where attention sums to one before and after."""
    share = np.minimum(up(attention * grows[..., None]), 1.0)
    center = (attention[..., None, :] @ values)[..., 0, :]
    center /= attention.sum(axis=2, keepdims=True)
    away = up(share[..., None, :] @ np.abs(values - center[:, :, None]))[..., 0, :]
    apart = up(values.max(axis=2) - values.min(axis=2))
    return up(np.minimum(away, apart).sum(axis=1))


def underflow(weights, data, flushed):
    """What it takes from an output; infinite where numbers may leave float32."""
    tops = {name: max(1.0, float(np.abs(x).max())) for name, x in (weights | data).items()}
    heads, width, value_dim = weights["W_V"].shape
    between, size = len(weights["W_D"]), data["contexts"].shape[-2]
    output = float(heads * width * value_dim * between) * tops["contexts"]
    output *= tops["W_V"] * tops["W_O"] * tops["W_D"]
    if not up(2.0 * size * output) <= SINGLE.top:
        return math.inf
    return float(up((flushed + 2.0**-120) * output))
