"""What claims state, each once: a certificate has to say just this."""

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
    "executed": "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}",
    "impossible": "for all weights of H = {} heads rank Z <= {} on {} different examples: "
    "none memorize every labelling",
    "rank of a decoder": "rank Z = R = {} on the different contexts: for all Y some readout U "
    "((H + 1) d, d_out) has Z U = Y",
    "recites of a decoder": "at all {} positions of S = {} texts the next token has the largest "
    "logit, by {} or more, in real arithmetic",
    "executed of a decoder": "at all {} positions of S = {} texts the next token has the largest "
    "logit for every program of the model {!r}: {}",
    "equality": "f(X) == y for all {} labels of N = {} sequences of n = {} tokens",
    "size": "{} non-zero parameters <= {}: Theorem 7 for {}",
}

VACUOUS = " (vacuous, as no target is larger than {!r})"  # of a bound that is no less
