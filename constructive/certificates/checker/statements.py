"""What claims state, each once: a certificate has to say just this."""

_EVALUATION = (
    "sums in any order, with or without fused multiply-add, softmax less the largest logit, in one "
    "piece or in blocks of {} tokens or more, underflow to zero or gradual; if exp is off by at "
    "most {} units in the last place where it is 2^-125 or more, by 2^-125 where it is less, and "
    "is 1 at 0"
)
STATEMENTS = {
    "grouping": "all contexts have rank n = {}; the queries of each of {} groups are independent, "
    "and no group but the first has another query in its span",
    "wide_grouping": "in an order of the examples, the queries of each of {} groups are "
    "independent, and no query of an earlier group is in the span of a later one; any k examples "
    "of a group have contexts whose differences of tokens, or in the first group whose tokens, "
    "span k dimensions or more",
    "rank": "rank Z = T = {}: for all Y some effective readout U (H d, d_out) has Z U = Y",
    "error": "max |f(E_t, e_t) - y_t| <= {!r}",
    "readout": "some U' with Z U' = Y is within {!r} of the stored effective readout U "
    "(H d, d_out), entry by entry",
    "executed": "max |fl(f(E_t, e_t)) - y_t| <= {!r} in every IEEE evaluation fl, rounding to "
    "nearest, in float32, weights and data rounded to it first: each logit once{}, products of "
    "matrices in any order, " + _EVALUATION,
    "impossible": "for all weights of H = {} heads rank Z <= {} on {} different examples: "
    "none memorize every labelling",
    "rank of a decoder": "rank Z = R = {} on the different contexts: for all Y some readout U "
    "((H + 1) d, d_out) has Z U = Y",
    "recites of a decoder": "at all {} positions of S = {} texts the next token has the largest "
    "logit, by {} or more, in real arithmetic",
    "executed of a decoder": "at all {} positions of S = {} texts the next token has the largest "
    "logit in every IEEE evaluation, rounding to nearest, {}: queries and keys first or their "
    "matrix first, " + _EVALUATION,
    "equality": "f(X) == y for all {} labels of N = {} sequences of n = {} tokens",
    "size": "{} non-zero parameters <= {}: Theorem 7 for {}",
}

EXACT = " and without error"  # of logits
_STORED = (
    "in float32, with weights, tokens, queries, keys, attention weights, averages, outputs "
    "and the last logits stored in "
)
STORED = {
    "float32": "in float32",
    "bfloat16": _STORED + "bfloat16",
    "float16": _STORED + "float16, where underflow is gradual",
}
