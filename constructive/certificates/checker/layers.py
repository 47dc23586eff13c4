"""Certificates of one layer on one data set, and of upper bounds for all weights."""

import math

import real_claims
from bounds import entries
from exact_claims import CHUNK, ROUNDS, check_grouping, check_impossible, check_rank, looks_singular
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

FORMAT = "constructive certificate 1"
PARTS = 128  # arrays which W_V may be a sum of
STATEMENTS = {
    "grouping": "all contexts have rank n = {}; the queries of each of {} groups are independent, "
    "and no group but the first has another query in its span",
    "rank": "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y",
    "error": "max |f(E_t, e_t) - y_t| <= {!r}",
    "impossible": "rank Z <= {} < T = {} for all weights of H = {} heads: "
    "none memorize every labelling",
    "readout": "some U' with Z U' = Y is within {!r} of the stored effective readout U "
    "(H d, d_out), entry by entry",
}


def check(content, files, options):
    """The statements which a certificate and its files prove; whatever is wrong raises."""
    claims = require_claims(content, STATEMENTS, options.asked)
    *weights, data = files
    about = bool(set(content["weights"]) - {"sha256"})
    require(about or not weights, "it is about all weights, and takes none")
    require(weights or not about, "it is about weights, which are not given")
    tensors = weights_shapes(*weights, options.most) if weights else {}
    arrays = data_shapes(data)
    shapes = sizes_of(arrays, tensors)
    held, operations = needs(claims, arrays, tensors, shapes)
    announce(held, operations, options.most)
    data, weights = read_data(data, arrays), read_weights(*weights, tensors) if weights else {}
    hashes = b"".join(
        require_about(content, part, name) for name, part in (("data", data), ("weights", weights))
    )
    statements, bounds = {}, {}
    for name, claim in claims.items():
        evidence = claim["evidence"]
        require(weights or name == "impossible", f"{name} is about weights, and there are none")
        if name in ("error", "readout"):
            bounds[name] = require_bound(claim, name)
            shown = (bounds[name],)
        elif name == "rank":
            shown = check_rank(evidence, weights, data, hashes, options.quick)
        elif name == "grouping":
            shown = check_grouping(evidence, weights, data)
        else:
            shown = check_impossible(evidence, data)
        statements[name] = require_statement(claim, STATEMENTS[name].format(*shown))
    claimed = bounds.get("error", math.inf) <= options.epsilon
    require(claimed, "error: epsilon is not claimed, or is larger")
    if "readout" in bounds and "rank" not in claims:
        require(not looks_singular(weights, data), "readout: Z has no right inverse, as it seems")
    if bounds:
        read = bytes_of(arrays) + bytes_of(tensors)
        real_claims.check_real(bounds, weights, data, shapes, options.most - read)
    return statements


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
    """Bytes and operations of all claims, from shapes alone."""
    total, size, width, _, heads, inner, *_ = shapes
    held, operations, tokens = 0, 0, math.prod(arrays["contexts"][1]) // width
    at_once = 8 * 12 * max(CHUNK, entries(size, width, heads, inner))
    if "grouping" in claims:
        held = at_once + 8 * (3 * total * width + 4 * heads * width)
        operations += 4 * tokens * size * width + 2 * total * heads * width
    if {"rank", "readout"} & set(claims):
        held = max(held, at_once + 8 * total * (total + 4 * width + 3 * ROUNDS + 4096))
        held += 8 * 4 * heads * width * inner
        held += 8 * 2 * total * heads * width * ("rank" not in claims)
        operations += 2 * total * heads * (2 * inner * width + 2 * size * width) + total**3
    if "impossible" in claims:
        held = max(held, 48 * tokens * width + 200 * min(tokens, 1 << 10) * width)
        operations += 100 * tokens * width
    if {"error", "readout"} & set(claims):
        real, products = real_claims.first(shapes, "readout" in claims)
        held, operations = max(held, real), operations + products
    return bytes_of(arrays) + bytes_of(tensors) + held, operations
