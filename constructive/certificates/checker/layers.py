"""Certificates of one layer on one data set, and of upper bounds for all weights."""

import math
from collections import namedtuple

import executed
import real_claims
from bounds import entries
from exact_claims import (
    CHUNK,
    ROUNDS,
    check_grouping,
    check_rank,
    check_wide_grouping,
    looks_singular,
)
from files import (
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_weights,
    require,
    require_about,
    require_bound,
    require_claims,
    require_statement,
    weights_shapes,
)
from impossible import check_impossible
from statements import STATEMENTS

FORMAT = "constructive certificate 1"
PARTS = 128  # arrays which W_V may be a sum of
Claim = namedtuple("Claim", "check needs")  # the numbers which it states; bytes and operations
About = namedtuple("About", "weights data hashes quick tell")


def check(content, files, options):
    """The statements which a certificate and its files prove; whatever is wrong raises."""
    claims = require_claims(content, CLAIMS, options.asked)
    *weights, data = files
    about = bool(set(content["weights"]) - {"sha256"})
    require(about or not weights, "it is about all weights, and takes none")
    require(weights or not about, "it is about weights, which are not given")
    tensors = weights_shapes(*weights, options.most) if weights else {}
    arrays = data_shapes(data)
    shapes = sizes_of(arrays, tensors)
    held, operations = needs(claims, arrays, tensors, shapes)
    announce(held, operations, options.most)
    options.tell("read the files", 0, 1)
    data, weights = read_data(data, arrays), read_weights(*weights, tensors) if weights else {}
    hashes = b"".join(
        require_about(content, part, name) for name, part in (("data", data), ("weights", weights))
    )
    on, shown = About(weights, data, hashes, options.quick, options.tell), {}
    for name, claim in claims.items():
        require(weights or name == "impossible", f"{name} is about weights, and there are none")
        options.tell(name, 0, 1)
        shown[name] = CLAIMS[name].check(claim, on)
    bounds = {name: shown[name][0] for name in ("error", "readout") if name in shown}
    errors = [shown[name][0] for name in ("error", "executed") if name in shown]
    claimed = max(errors, default=math.inf) <= options.epsilon
    require(claimed, "error: epsilon is not claimed, or is larger")
    if "executed" in claims:  # it rests on an error in real arithmetic
        real = executed.error_of(claims["executed"])
        bounds["error"] = min(real, bounds.get("error", math.inf))
    if "readout" in bounds and "rank" not in claims:
        options.tell("is Z singular", 0, 1)
        require(not looks_singular(weights, data), "readout: Z has no right inverse, as it seems")
    if bounds:
        read = bytes_of(arrays) + bytes_of(tensors)
        most = options.most - read
        real_claims.check_real(bounds, weights, data, shapes, most, options.tell)
    return {
        name: require_statement(claim, STATEMENTS[name].format(*shown[name]))
        for name, claim in claims.items()
    }


def sizes_of(arrays, tensors):
    """T, n, d, d_out, and H, d_h, d_v, d_o of the weights, if there are any; or refuse."""
    contexts, queries, targets = (shape for _, shape in arrays.values())
    fits = len(queries) == 2 and len(contexts) in (2, 3) and len(targets) in (1, 2)
    fits = fits and contexts[-1] == queries[1] and targets[0] == queries[0]
    require(fits and contexts[:-2] in ((), queries[:1]), "the data do not fit together")
    (total, width), size, outputs = queries, contexts[-2], math.prod(targets[1:])
    if not tensors:
        return total, size, width, outputs, 0, 0, 0, 0
    w_q, w_k, w_v, w_o, w_d, *more = (shape for _, shape, _ in tensors.values())
    require(len(w_q) == len(w_v) == 3 and len(w_o) == len(w_d) == 2, "the weights have other axes")
    heads, inner, value_dim, between = w_q[0], w_q[2], w_v[2], w_o[1]
    fits = w_q == w_k == (heads, width, inner) and w_v == (heads, width, value_dim)
    fits = fits and w_o == (heads * value_dim, between) and w_d == (between, outputs)
    fits = fits and all(shape[1:] == w_v for shape in more)
    require(fits, "the weights do not fit together, or not the data")
    require(all(shape[0] <= PARTS for shape in more), f"more than {PARTS} corrections of W_V")
    return total, size, width, outputs, heads, inner, value_dim, between


def needs(claims, arrays, tensors, shapes):
    """Bytes and operations of all claims, one after the other, from shapes alone."""
    each = [CLAIMS[name].needs(claims, arrays["contexts"][1], shapes) for name in claims]
    held = bytes_of(arrays) + bytes_of(tensors) + max(held for held, _ in each)
    return held, sum(operations for _, operations in each)


def at_once(shapes):
    _, size, width, _, heads, inner, *_ = shapes
    return 8 * 12 * max(CHUNK, entries(size, width, heads, inner))


def grouping_needs(_, contexts, shapes):
    total, size, width, _, heads, *_ = shapes
    held = at_once(shapes) + 8 * (3 * total * width + 4 * heads * width)
    return held, 4 * math.prod(contexts) * size + 2 * total * heads * width


def wide_grouping_needs(_, contexts, shapes):
    total, _, width, _, heads, *_ = shapes
    held = at_once(shapes) + 8 * (5 * total * width + 4 * heads * width)
    return held, 4 * math.prod(contexts) + 4 * total * width * (width + heads)


def rank_needs(claims, _, shapes):
    """Elimination; also for the claim readout alone, which looks whether Z is singular."""
    total, size, width, _, heads, inner, *_ = shapes
    held = at_once(shapes) + 8 * total * (total + 4 * width + 3 * ROUNDS + 4096)
    held += 8 * 4 * heads * width * inner + 8 * 2 * total * heads * width * ("rank" not in claims)
    return held, 2 * total * heads * (2 * inner * width + 2 * size * width) + total**3


def error_needs(claims, _, shapes):
    return (0, 0) if "readout" in claims else real_claims.first(shapes, keep=False)


def readout_needs(claims, contexts, shapes):
    real, products = real_claims.first(shapes, keep=True)
    held, operations = (0, 0) if "rank" in claims else rank_needs(claims, contexts, shapes)
    return max(held, real), operations + products


def executed_needs(claims, contexts, shapes):
    """Those of an error, and of attention with bounds."""
    real, products = (0, 0) if "error" in claims else error_needs(claims, contexts, shapes)
    held, operations = executed.needs(shapes)
    return max(held, real), operations + products


def impossible_needs(claims, contexts, shapes):
    """Rows of tokens and of queries, which are sorted, and vectors of Python's integers."""
    tokens, width, total = math.prod(contexts[:-1]), contexts[-1], shapes[0]
    vectors = claims["impossible"]["evidence"]["vectors"] if claims["impossible"] else []
    digits = [len(x) for vector in vectors for x in vector]
    held = 64 * (tokens + total) * (width + 8) + 160 * len(digits) + 2 * sum(digits) + (8 << 20)
    return held, 100 * (tokens + total) * width + 1000 * len(digits)


CLAIMS = {
    "grouping": Claim(
        lambda claim, on: check_grouping(claim["evidence"], on.weights, on.data), grouping_needs
    ),
    "wide_grouping": Claim(
        lambda claim, on: check_wide_grouping(claim["evidence"], on.weights, on.data),
        wide_grouping_needs,
    ),
    "rank": Claim(
        lambda claim, on: check_rank(
            claim["evidence"], on.weights, on.data, on.hashes, on.quick, on.tell
        ),
        rank_needs,
    ),
    "error": Claim(lambda claim, _: (require_bound(claim, "error"),), error_needs),
    "readout": Claim(lambda claim, _: (require_bound(claim, "readout"),), readout_needs),
    "executed": Claim(
        lambda claim, on: executed.check_executed(claim, on.weights, on.data), executed_needs
    ),
    "impossible": Claim(
        lambda claim, on: check_impossible(claim["evidence"], on.data), impossible_needs
    ),
}  # error and readout are shown together, when all else is, and the error on which executed rests
