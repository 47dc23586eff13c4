"""Certificates of decoders: one causal layer which recites texts, token by token.

Token v at position i is x_i = embedding_v + position_i. Head h of position i averages the x_j up to
i, or the last `window` of them, by softmax of x_j . W_K W_Q^T x_i; U^T (x_i, averages) is the
output, and its products with the rows of the unembedding are the logits.

    rank       the rows (x_i, averages) of all different contexts are independent modulo a prime
    recites    the next token has the largest logit everywhere, in real arithmetic
    executed   and for every program of the model which the statement names
"""

import hashlib
import json
import math
from collections import namedtuple

import numpy as np

from bounds import above, below
from causal import ENTRIES, blocks, rows_of, side_by_side
from exact_claims import ROUNDS, require_rank
from executed import require_model
from files import (
    announce,
    parsed,
    read_json,
    read_weights,
    require,
    require_about,
    require_bound,
    require_claims,
    require_statement,
    same,
    tensor_shapes,
    unpack,
)
from float_model import KEPT, MODELS, of_decoders
from margins import NAMES, real_margins
from modular import inverses, reduce, require_prime, residues, times
from statements import STATEMENTS

FORMAT = "constructive decoder certificate 1"
FORMATS = {"weights": "constructive decoder 1", "data": "constructive text 1"}
KINDS = {"words": str, "bytes": int, "ids": int}

About = namedtuple("About", "weights texts prompt window storage hashes quick model")


def check(content, files, options):
    """The statements which a certificate and its files prove; whatever is wrong raises."""
    claims = require_claims(content, CLAIMS, options.asked)
    require(options.epsilon == math.inf, "error: epsilon is not claimed")
    require(len(files) == 2, "the files are CERTIFICATE WEIGHTS DATA")
    texts, prompt, unit, vocabulary, data = read_texts(files[1], options.most)
    require(same(content["data"], data), "it is about other data")
    shapes, metadata = tensor_shapes(files[0], NAMES, options.most)
    require(metadata["format"] == FORMATS["weights"], "the weights are no decoder")
    about = parsed(metadata["decoder"])
    window, storage = about["window"], about["record"]["storage"]
    require(window is None or (type(window) is int and window > 0), "the window is none")
    require(storage in KEPT, "the storage is none")
    fits = same(about["vocabulary"], vocabulary) and about["unit"] == unit
    require(fits, "decoder and text have different vocabularies")
    require_shapes(shapes, len(vocabulary), max(map(len, texts)))
    held, operations = needs(claims, shapes, texts, window)
    announce(held, operations, options.most)
    weights = read_weights(files[0], shapes)
    hashed = require_about(content, weights, "weights", window=window, storage=storage)
    hashes = bytes.fromhex(data["sha256"]) + hashed
    usual = MODELS[f"{storage}, pairwise"]
    model = require_model(claims["executed"], storage) if "executed" in claims else usual
    on = About(weights, texts, prompt, window, storage, hashes, options.quick, model)
    margins = real_margins(on) if set(claims) & {"recites", "executed"} else None
    return {
        name: require_statement(claim, STATEMENTS[f"{name} of a decoder"].format(*shown))
        for name, claim in claims.items()
        for shown in [CLAIMS[name](claim, on, margins)]
    }


def read_texts(path, most):
    """The texts as numbers of tokens, the prompt, unit and vocabulary, and what names the data."""
    content = read_json(path, "data", most)
    require(content["format"] == FORMATS["data"], "the data are no text")
    unit, prompt, vocabulary, texts = (
        content[name] for name in ("unit", "prompt", "vocabulary", "texts")
    )
    require(len(content) == 5 and unit in KINDS, "the unit is none")
    require(type(vocabulary) is list and type(texts) is list and texts, "there is no text")
    tokens = all(type(token) is KINDS[unit] for token in vocabulary)
    require(tokens and len(set(vocabulary)) == len(vocabulary), "the vocabulary is none")
    require(type(prompt) is int and prompt > 0, "the prompt is none")
    for ids in texts:
        require(type(ids) is list and len(ids) >= prompt, "a text is shorter than its prompt")
        inside = all(type(i) is int and 0 <= i < len(vocabulary) for i in ids)
        require(inside, "a token is none of the vocabulary")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    count = sum(map(len, texts))
    data = {"texts": len(texts), "tokens": count, "vocabulary": len(vocabulary)}
    data["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    return [np.array(ids) for ids in texts], prompt, unit, vocabulary, data


def require_shapes(shapes, count, longest):
    embedding, positions, w_q, w_k, u, unembedding = (shape for _, shape, _ in shapes.values())
    require(all(kind == "<f4" for kind, *_ in shapes.values()), "the weights are not float32")
    require(len(w_q) == 3 and len(u) == len(unembedding) == 2, "the weights have other axes")
    heads, width, _ = w_q
    fits = w_k == w_q and embedding == (count, width) and u[0] == (heads + 1) * width
    fits = fits and len(positions) == 2 and positions[1] == width and positions[0] >= longest
    require(fits and unembedding == (count + 1, u[1]), "the weights do not fit together")


def needs(claims, shapes, texts, window):
    """Bytes and operations, from shapes alone."""
    heads, width, inner = shapes["W_Q"][1]
    outputs, count = shapes["unembedding"][1][1], shapes["unembedding"][1][0]
    lengths = [len(ids) for ids in texts]
    total, longest, block, rows = sum(lengths), max(lengths), ENTRIES, 1
    for length in set(lengths):
        seen = min(length, window or length)
        most = rows_of(length, heads, seen)
        block, rows = max(block, heads * most * min(length, most + seen)), max(rows, most)
    held = 8 * (6 * block + 10 * rows * (heads + 1) * width + 8 * longest * width)
    held += 8 * heads * width * (6 * width + 6 * inner)
    held += 8 * max(1, ENTRIES // 8 // (count + outputs)) * (20 * (count + outputs))
    held += sum(28 * math.prod(shape) for _, shape, _ in shapes.values()) + 400 * total + (1 << 26)
    pairs = sum(length * min(length, rows + (window or length)) for length in lengths)
    once = 2 * pairs * heads * width + 2 * total * (heads + 1) * width * (width + outputs)
    once += 2 * heads * width * inner * (2 * width + 5 * total) + 10**6 * len(texts)
    operations = 0
    if "rank" in claims:
        held += 8 * total * (total + 3 * ROUNDS + 4096 + min(window or 0, longest))
        operations = once + total**3
    if set(claims) & {"recites", "executed"}:
        operations += 2 * once + 6 * total * outputs * count
    return held, operations


# --- rank ---------------------------------------------------------------------------------------


def check_rank(claim, on, _):
    """The rows of all different contexts are independent modulo p, at x = a."""
    evidence, wanted = claim["evidence"], different(on)
    total, p, a = sum(map(len, wanted)), require_prime(evidence["prime"]), evidence["value"]
    require(type(a) is int and 1 < a < p, "a is not between 1 and p")
    columns = unpack(evidence["columns"], (total,), len(on.weights["U"]))
    require(len(np.unique(columns)) == total, "a column of Z is named twice")
    z = representation(on, wanted, p, a, columns)
    require_rank(z, p, a, columns, evidence["solution"], on.hashes, on.quick)
    return (total,)


def different(on):
    """The places of each text where something has to follow a context which was not met before.

    A context is a position, and the tokens in its window.
    """
    met, found = {}, []
    whole = on.window is None or on.window >= max(map(len, on.texts))
    for ids in on.texts:
        listed, context, new = ids.tolist(), 0, []
        for i, token in enumerate(listed):
            seen = (context, token)
            if not whole:
                seen = (i, *listed[max(0, i + 1 - on.window) : i + 1])
            if seen not in met:
                met[seen] = len(met) + 1
                new += [i] * (i >= on.prompt - 1)
            context = met[seen]
        found.append(np.array(new, dtype=int))
    return found


def representation(on, wanted, p, a, columns):
    """The given columns of Z(a) modulo p at the wanted places, times one power of two."""
    m, (heads, width, _) = p - 1, on.weights["W_Q"].shape
    codes = [on.weights["embedding"], on.weights["positions"]]
    of_codes = residues(np.concatenate(codes), m, p)
    (e_m, e_p), (i_m, i_p) = (of_codes(code) for code in codes)
    small = np.array([pow(a, k, p) for k in range(2048)], dtype=np.float64)
    large = np.array([pow(a, 2048 * k, p) for k in range((p >> 11) + 1)], dtype=np.float64)
    w_q, w_k = (residues(on.weights[name], m)(on.weights[name])[0] for name in ("W_Q", "W_K"))
    absorbed = side_by_side(times(w_q, np.ascontiguousarray(w_k.transpose(0, 2, 1)), m))
    out, done = np.empty((len(columns), len(columns))), 0
    for ids, places in zip(on.texts, wanted, strict=True):
        exponents = reduce(e_m[ids] + i_m[: len(ids)], m)
        tokens = reduce(e_p[ids] + i_p[: len(ids)], p)
        for rows, keys, hidden in blocks(len(ids), heads, on.window):
            query = times(exponents[rows], absorbed, m).reshape(-1, width)
            logits = times(query, np.ascontiguousarray(exponents[keys].T), m)
            index = (logits + m * (logits < 0)).astype(np.int64)
            powers = small.take(index & 2047, mode="clip") * large.take(index >> 11, mode="clip")
            powers = reduce(powers, p).reshape(len(hidden), heads, -1)
            powers[np.broadcast_to(hidden, powers.shape)] = 0.0
            sums = reduce(powers.sum(axis=2), p)
            require(sums.all(), "a softmax denominator vanishes modulo p")
            z = times(powers.reshape(len(index), -1), tokens[keys], p).reshape(*sums.shape, width)
            z = reduce(z * inverses(sums, p)[..., None], p).reshape(len(sums), -1)
            z = np.concatenate([tokens[rows], z], axis=1)
            chosen = places[(places >= rows.start) & (places < rows.stop)] - rows.start
            out[done : done + len(chosen)] = z[chosen][:, columns]
            done += len(chosen)
    return out


# --- recites and executed ------------------------------------------------------------------------


def check_recites(claim, on, margins):
    """The least margin is what is claimed, or more."""
    bound = require_bound(claim, "recites")
    require(
        0.0 < bound <= margins[0], f"recites: the least margin is {below(margins[0], 6)}, as shown"
    )
    return places_of(on), len(on.texts), repr(bound)


def check_executed(claim, on, margins):
    """Rounding takes less than the margin everywhere."""
    require(margins[1] < 1.0, f"executed: rounding may take {above(margins[1])} of a margin")
    return places_of(on), len(on.texts), claim["evidence"]["model"], of_decoders(on.model)


def places_of(on):
    return sum(len(ids) - on.prompt + 1 for ids in on.texts)


CLAIMS = {"rank": check_rank, "recites": check_recites, "executed": check_executed}
