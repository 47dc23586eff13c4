"""Whether a statement about a decoder is true: a judge which shares no code with what it judges.

It reads the three files by itself. *recites* and *rank* are decided in balls of 2,000 bits, by the
oracle. *executed* is about all evaluations in float32: some are tried, in random orders and
with exponentials as wrong as the statement allows, and one which fails shows that it is false; a
coarse bound of its own shows that it is true. Between these two it cannot tell.
"""

import itertools
import json
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import flint
import judges
import numpy as np
import oracle
from safetensors.numpy import load_file

BITS = 2000
# Attention weights that are larger than this do not hide a rank from so many bits.
LIGHT = 1e-87
U = 2.0**-24
TOP = (2.0 - 2.0**-23) * 2.0**127
STORED = {  # rounding, half of the smallest number, bits, exponent of the smallest normal, largest
    "float32": (0.0, 0.0, 24, -126, TOP),
    "bfloat16": (2.0**-8, 2.0**-126, 8, -126, (2.0 - 2.0**-7) * 2.0**127),
    "float16": (2.0**-11, 2.0**-25, 11, -14, 65504.0),
}
# Evaluations in float32 which are tried.
SPEND = 5
_KEPT = (
    "tokens, queries, keys, either exponentials or attention weights, averages, outputs of the "
    "layer and the last logits stored in {}; logits of heads, the product of W_K and W_Q and its "
    "products, denominators, and factors that rescale sums in float32; "
)
SAID = {
    "float32": "",
    "bfloat16": _KEPT.format("bfloat16"),
    "float16": _KEPT.format("float16, where underflow is gradual"),
}
EXECUTED = (
    "at all {} positions of S = {} texts the next token has the largest logit for every program of "
    "the model '{}, pairwise': each logit of a head computed once; products of two arrays at a "
    "time, each summed over one index (queries and keys first, or their matrix first; heads "
    "together with entries of tokens, never with tokens; averages before the readout, and that "
    "before the unembedding); sums in float32, in any order, rounding to nearest, with or without "
    "fused multiply-add; {}softmax less the largest logit so far, in one piece or in blocks of 512 "
    "tokens or more, divided by its sum once, before or after the average; underflow to zero or "
    "gradual; if exp is off by at most 32 units in the last place where it is 2^-125 or more, by "
    "2^-125 where it is less, and is 1 at 0"
)
RECITES = re.compile(
    r"at all (\d+) positions of S = (\d+) texts the next token has the largest logit, by (\S+) or "
    r"more, in real arithmetic"
)
RANK = re.compile(
    r"rank Z = R = (\d+) on the different contexts: for all Y some readout U \(\(H \+ 1\) d, "
    r"d_out\) has Z U = Y"
)


@dataclass
class Read:
    """What the files of a decoder and its texts say."""

    weights: dict
    texts: list
    prompt: int
    window: int | None
    storage: str

    def placed(self, count):
        """The first rows of positions, which may be periodic."""
        positions = self.weights["positions"]
        return positions[np.arange(count) % len(positions)]

    @property
    def view(self):
        """What each position sees, for the oracle."""
        return {"prompt": self.prompt, "window": self.window}

    def begin(self, place):
        """The first place that a position sees."""
        return max(0, place + 1 - (self.window or place + 1))

    @property
    def asked(self):
        """Text and place of each position which something follows, and what: V for the end."""
        end = len(self.weights["embedding"])
        return [
            (text, place, [*ids, end][place + 1])
            for text, ids in enumerate(self.texts)
            for place in range(self.prompt - 1, len(ids))
        ]


def read(weights, text):
    """The files, or an exception for what fits no decoder."""
    content = Path(weights).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    if metadata["format"] == "constructive decoder 2":  # the same weights are beside it
        return read(Path(weights).with_suffix(".plain"), text)
    about, said = json.loads(metadata["decoder"]), json.loads(Path(text).read_bytes())
    tensors = load_file(weights)
    kind = {"words": str, "bytes": int, "ids": int}[said["unit"]]
    agree = [about["unit"] == said["unit"], about["vocabulary"] == said["vocabulary"]]
    agree += [type(token) is kind for token in [*about["vocabulary"], *said["vocabulary"]]]
    agree += [len(set(about["vocabulary"])) == len(tensors["embedding"])]
    agree += [len(ids) >= said["prompt"] >= 1 for ids in said["texts"]]
    agree += [type(v) is int and v >= 0 for ids in said["texts"] for v in ids]
    agree += [all(np.isfinite(w).all() and w.dtype == np.float32 for w in tensors.values())]
    heads, width, inner = tensors["W_Q"].shape
    agree += [tensors["W_K"].shape == (heads, width, inner)]
    agree += [tensors["U"].shape[0] == (heads + 1) * width]
    agree += [
        tensors["unembedding"].shape == (len(tensors["embedding"]) + 1, tensors["U"].shape[1])
    ]
    if not all(agree):
        raise ValueError("the files do not fit together")
    window = about["window"]
    if window is not None and (type(window) is not int or window < 1):
        raise ValueError("the window is none")
    most = about["longest"] if "longest" in about else len(tensors["positions"])
    if type(most) is not int or most < max(map(len, said["texts"])):
        raise ValueError("there are too few positions")
    return Read(tensors, said["texts"], said["prompt"], window, about["record"]["storage"])


def statement(name, text, files):
    """Whether what is stated of these files is true; None where that is not known."""
    on = read(*files[1:])
    count, texts = len(on.asked), len(on.texts)
    if name == "rank":
        return rank_holds(on, int(RANK.fullmatch(text)[1]))
    if name == "recites":
        said = RECITES.fullmatch(text)
        numbers = int(said[1]), int(said[2])
        return numbers == (count, texts) and margins_hold(on, float(said[3]))
    if text != EXECUTED.format(count, texts, on.storage, SAID[on.storage]):
        return False
    return executes(on)


# In real arithmetic.


def margins(on):
    """The margins of each asked position over each other token, as balls."""
    return oracle.margins(on.weights, on.texts, BITS, **on.view)


def margins_hold(on, bound):
    """Whether all margins are as large, and positive."""
    every = [ball for row in margins(on) for ball in row]
    limit = flint.arb(bound)
    if any(ball < limit or ball <= 0 for ball in every):
        return False
    return True if all(ball >= limit and ball > 0 for ball in every) else None


def rank_holds(on, total):
    """Whether there are so many different contexts, and their rows are independent."""
    met, least = {}, 1.0
    with flint.ctx.workprec(BITS):
        positions = oracle.decoded(on.weights, on.texts, **on.view)
        for (text, place, _), (x, seen, attention, _) in zip(on.asked, positions, strict=True):
            context = place, *on.texts[text][on.begin(place) : place + 1]
            met.setdefault(context, oracle.read_out(x, seen, attention))
            least = min(least, *(float(a.mid()) for row in attention for a in row.entries()))
        z = list(met.values())
        if len(z) != total or total > len(z[0]):
            return False
        scaled = []
        for row in z:
            size = max(float(abs(entry).mid()) for entry in row)
            if size == 0.0:
                return False
            scaled.append([entry / size for entry in row])
        matrix = flint.arb_mat(scaled)
        if not (matrix * matrix.transpose()).det().contains(0):
            return True
    return False if least > LIGHT else None


# In float32.


def executes(on):
    """Whether the next token has the largest logit in all evaluations."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for _ in range(SPEND):
            if not recited(on, rng):
                return False
        return True if surely(on) or exactly(on) else None


def exactly(on):
    """Whether integers show it: saturated heads, no sum of 2^24, and margins beyond rounding."""
    weights = on.weights
    if on.storage != "float32" or any((np.rint(w) != w).any() for w in weights.values()):
        return False
    u, out = (integers(weights[name]) for name in ("U", "unembedding"))
    if (np.abs(u).sum(axis=0) >= 2**24).any():
        return False
    for text, ids in enumerate(on.texts):
        x = integers(weights["embedding"][ids]) + integers(on.placed(len(ids)))
        seen = saturated(x, weights, on) if (np.abs(x) == 1).all() else None
        if seen is None:
            return False
        z = np.concatenate([x, *(x[tokens] for tokens in seen)], axis=1)
        for of, place, right in on.asked:
            if of == text and not wins(z[place] @ u, out, right):
                return False
    return True


def integers(array):
    """Integers of any size."""
    return np.asarray(array).astype(np.int64).astype(object)


def saturated(x, weights, on):
    """The token that each position reads, for each head; None where one does not lead by 128."""
    found = []
    for w_q, w_k in zip(integers(weights["W_Q"]), integers(weights["W_K"]), strict=True):
        if 2 * (np.abs(w_q).sum(axis=0) * np.abs(w_k).sum(axis=0)).sum() >= 2**24:
            return None
        logits, tokens = (x @ w_q) @ (x @ w_k).T, []
        for i, row in enumerate(logits):
            order = sorted(range(on.begin(i), i + 1), key=lambda j, row=row: row[j])
            if len(order) > 1 and row[order[-1]] - row[order[-2]] < 128:
                return None
            tokens.append(order[-1])
        found.append(tokens)
    return found


def wins(outputs, out, right):
    """Whether a logit is the largest by more than what the last product may round."""
    logits, sizes = out @ outputs, np.abs(out) @ np.abs(outputs)
    gamma = Fraction(101 * len(outputs), 100 * 2**24)
    off = [0 if size < 2**24 else gamma * size for size in sizes]
    others = [v for v in range(len(out)) if v != right]
    return all(logits[right] - logits[v] > off[right] + off[v] for v in others)


def stored(array, storage):
    """Rounded to the format of storage, as float32."""
    array = np.asarray(array, np.float32)
    if storage == "float16":
        return array.astype(np.float16).astype(np.float32)
    if storage == "bfloat16":
        bits = array.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return array


def product(rng, left, right, flush):
    """(m, k) (k, n) in float32, in some order, fused or not, subnormal numbers flushed or not."""
    out = np.zeros((left.shape[0], right.shape[1]), np.float32)
    fused = rng.random() < 0.5
    for k in rng.permutation(left.shape[1]):
        if fused:
            out = (left[:, k, None].astype(float) * right[k].astype(float) + out).astype(np.float32)
        else:
            out = flush(left[:, k, None] * right[k]) + out
        out = flush(out)
    return out


def attended(rng, row, x, flush, keep):
    """The average of tokens (n, d) with these logits (n,): divided before or afterwards."""
    below = row - row.max()
    wrong = 1 + rng.choice([-62, 0, 62], len(below)) * U
    shares = np.where(below == 0, 1.0, np.exp(below.astype(float)) * wrong)
    shares = flush(shares.astype(np.float32))
    total = shares.sum(dtype=np.float32)
    if rng.random() < 0.5:
        return keep(product(rng, keep(shares / total)[None], x, flush))[0]
    return keep(product(rng, shares[None], x, flush) / total)[0]


def recited(on, rng):
    """Whether one evaluation recites."""
    zeros = rng.random() < 0.5

    def flush(array):
        return np.where(np.abs(array) < 2.0**-126, np.float32(0), array) if zeros else array

    def keep(array):
        return flush(stored(array, on.storage))

    weights = {name: keep(w) for name, w in on.weights.items()}
    for text, ids in enumerate(on.texts):
        x = keep(flush(weights["embedding"][ids] + keep(on.placed(len(ids)))))
        parts = [x]
        for w_q, w_k in zip(weights["W_Q"], weights["W_K"], strict=True):
            if rng.random() < 0.5:
                left, right = (keep(product(rng, x, w, flush)) for w in (w_q, w_k))
                logits = product(rng, left, right.T, flush)
            else:
                matrix = product(rng, w_q, w_k.T, flush)
                logits = product(rng, product(rng, x, matrix, flush), x.T, flush)
            seen = [slice(on.begin(i), i + 1) for i in range(len(ids))]
            rows = zip(logits, seen, strict=True)
            parts.append(np.array([attended(rng, row[s], x[s], flush, keep) for row, s in rows]))
        outputs = keep(product(rng, np.concatenate(parts, axis=1), weights["U"], flush))
        logits = keep(product(rng, outputs, weights["unembedding"].T, flush))
        for of, place, right in on.asked:
            if of == text and not (logits[place, right] > np.delete(logits[place], right)).all():
                return False
    return True


def surely(on):
    """Whether a coarse bound shows that all evaluations recite."""
    unit, tiny, digits, least, top = STORED[on.storage]
    weights = on.weights
    fits = [np.array_equal(stored(w, on.storage), w) for w in weights.values()]
    small = [np.abs(w[w != 0]).min(initial=1.0) for w in list(weights.values())]
    if not all(fits) or min(small[:6]) < 2.0**-126 or not exact_logits(on, digits, least, top):
        return False
    terms, wide = weights["U"].shape
    positions = oracle.decoded(weights, on.texts, **on.view)
    for row, (x, tokens, _, right) in zip(margins(on), positions, strict=True):
        seen, averages = len(tokens), np.abs(tokens).max(axis=0)  # no average is larger
        sizes = np.concatenate([np.abs(x), np.tile(averages, len(weights["W_Q"]))])
        zeta = 1.02 * (2 * ((1 + -(-(seen - 1) // 512)) * 65 + seen) * U + 2 * (U + unit))
        most = max(1.0, sizes.max())
        absolute = [np.abs(weights[name].astype(float)) for name in ("U", "unembedding")]
        off = zeta * sizes + 2 * (seen + 1) * tiny + 1e-30 * most
        off[: weights["embedding"].shape[1]] = 0.0
        outputs = sizes @ absolute[0]
        moved = 1.01 * (off @ absolute[0] + 1.01 * terms * U * outputs + 1e-30 * most)
        moved = 1.01 * (moved + unit * outputs + tiny)
        reach = (outputs + moved) @ absolute[1].T
        wrong = 1.01 * (moved @ absolute[1].T + (1.01 * wide * U + unit) * reach + tiny + 1e-30)
        within = max(2 * reach.max(), seen * 2 * most, (outputs + moved).max() * 2) < top
        others = zip(row, np.delete(wrong, right), strict=True)
        wins = all(float(ball.lower()) > wrong[right] + other for ball, other in others)
        if not (wins and within and np.isfinite(wrong).all()):
            return False
    return True


def exact_logits(on, digits, least, top):
    """Whether all sums on the way to logits are short, by integers."""
    every = {(v, i) for ids in on.texts for i, v in enumerate(ids)}
    tokens = [
        [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(*pair, strict=True)]
        for pair in ((on.weights["embedding"][v], on.placed(i + 1)[i]) for v, i in sorted(every))
    ]
    if any(Fraction(float(np.float32(float(x)))) != x for x in itertools.chain(*tokens)):
        return False
    x, in_x = judges.whole(np.array([[float(entry) for entry in row] for row in tokens]))
    q, in_q = judges.whole(on.weights["W_Q"])
    k, in_k = judges.whole(on.weights["W_K"])
    size = abs(x)
    for w_q, w_k in zip(q, k, strict=True):
        asking, keys, matrix = size @ abs(w_q), size @ abs(w_k), abs(w_q) @ abs(w_k).T
        sums = [
            (asking, in_x + in_q), (keys, in_x + in_k), (matrix, in_q + in_k),
            (size @ matrix, in_x + in_q + in_k), (matrix @ size.T, in_x + in_q + in_k),
            (2 * (size @ matrix @ size.T), 2 * in_x + in_q + in_k),
        ]  # fmt: skip
        kept = [(size, in_x), (abs(x @ w_q), in_x + in_q), (abs(x @ w_k), in_x + in_k)]
        for listed, bits, lowest, largest in (
            (sums, 24, -126, TOP), (kept, digits, least, top)
        ):  # fmt: skip
            for array, unit in listed:
                most = int(array.max())
                if most > 2**bits or (most and unit < lowest):
                    return False
                if Fraction(most) * Fraction(2) ** unit > Fraction(largest):
                    return False
    return True
