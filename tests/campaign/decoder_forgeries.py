"""Hostile certificates, weights and texts of decoders.

An honest triple is changed somewhere, signed anew as a forger would do, and states what it states;
every function takes a random generator and a copy, and returns what to call it. A case is judged by
`decoder_judge` if the checker accepts it.
"""

import copy
import dataclasses
import functools

import decoder_judge
import judges
import numpy as np
from decoder_parts import TWO, TWO_ROWS, by_hand, compact, files_of, two_tokens
from forgeries import Case, quick, weighed
from mutations import content_of, pick, spoil

from constructive import Text, build_decoder, certify

NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
CLAIMS = ("rank", "recites", "executed")
FORMATS = ("float32", "bfloat16", "float16")


@functools.cache
def honest():
    """Small decoders, all of whose claims are proved."""
    made = []
    for text, options in (
        (Text.words("a rat sat, a cat sat"), {"width": 16}),
        (Text.bytes(b"abcabcabd"), {"width": 12, "window": 3}),
        (Text.of([3, 1, 4, 1, 5], [2, 7, 1], prompt=1), {"width": 14, "num_heads": 2}),
        (Text.of([1, 2, 3, 9], [1, 2, 4, 8], prompt=3), {"width": 10}),
        (Text.of([0, 1]), {"width": 6, "head_dim": 3}),
    ):
        decoder = build_decoder(text, **options)
        for storage in FORMATS:
            rounded = decoder.stored_as(storage)
            certificate = certify(rounded, text)
            if certificate.proved:
                made.append(files_of(rounded, text, content_of(certificate)))
    for text, options in (
        (Text.words("a rat sat, a cat sat"), {"period": 8, "heads": 6}),
        (Text.of([0, 1, 1, 0, 1, 0, 0, 1]), {"period": 8, "window": 4, "heads": 5}),
        (Text.bytes(b"abcabcabd"), {"period": 16, "outputs": 2, "spacing": 301}),
    ):
        decoder, _ = compact(text, **options)
        for some in (decoder, *[unrolled(decoder)] * (options["period"] == 8)):
            content = content_of(certify(some, text, claims=CLAIMS))
            made += [files_of(some, text, content)] * 2
    return made


def unrolled(decoder):
    """The same with a row for each position."""
    positions = decoder.placed(np.arange(decoder.longest))
    return dataclasses.replace(decoder, positions=positions, longest=None)


# What may be done to them.


def restate(files):
    """Statements with the numbers of these files, which may be false."""
    texts, claims = files.text["texts"], files.content["claims"]
    asked = sum(len(ids) - files.text["prompt"] + 1 for ids in texts)
    for name in claims:
        if name == "executed":
            kept = files.about["record"]["storage"]
            said = kept, decoder_judge.SAID[kept]
            claims[name]["statement"] = decoder_judge.EXECUTED.format(asked, len(texts), *said)
            claims[name]["evidence"] = {"model": f"{kept}, pairwise"}
        elif name == "recites":
            value = float.fromhex(claims[name]["evidence"]["bound"])
            claims[name]["statement"] = (
                f"at all {asked} positions of S = {len(texts)} texts the next token has the "
                f"largest logit, by {value!r} or more, in real arithmetic"
            )


def entries(rng, files, names=NAMES):
    """The name of a tensor, and all its entries."""
    name = pick(rng, names)
    return name, files.weights[name].reshape(-1)


def moved_entries(rng, files):
    """Some entries of a tensor, by a little or a lot."""
    name, array = entries(rng, files)
    some = rng.integers(array.size, size=rng.choice([1, 3, array.size]))
    scale = 10.0 ** rng.integers(-8, 3)
    kind = rng.integers(5)
    if kind == 0:
        array[some] = -array[some]
    elif kind == 1:
        array[some] = 0.0
    elif kind == 2:
        array[some] = np.nextafter(array[some], np.float32(pick(rng, [-9, 9])))
    else:
        array[some] += (scale * rng.standard_normal(len(some))).astype(np.float32)
    return f"entries of {name} moved"


def exchanged_rows(rng, files):
    """Two tokens, positions or outputs in the place of each other: recitation fails."""
    name = pick(rng, ["embedding", "positions", "unembedding", "U"])
    array = files.weights[name]
    one, other = rng.integers(len(array), size=2)
    array[[one, other]] = array[[other, one]]
    return f"rows of {name} exchanged"


def repeated(rng, array):
    """A row in the place of another one."""
    array[rng.integers(len(array))] = array[rng.integers(len(array))]


def equal_rows(rng, files):
    """Two tokens alike, or no positions: contexts which no weights tell apart."""
    name = pick(rng, ["embedding", "positions", "unembedding"])
    array = files.weights[name]
    repeated(rng, array)
    if rng.random() < 0.2:
        array[:] = array[0]
    return f"rows of {name} made equal"


def blunt(rng, files):
    """Heads which see less, or nothing but the mean, or a readout of fewer directions."""
    kind = rng.integers(3)
    if kind == 0:
        files.weights["W_Q"][rng.integers(len(files.weights["W_Q"]))] = 0.0
    elif kind == 1:
        files.weights["W_K"] *= np.float32(2.0 ** rng.integers(-20, 12))
    else:
        files.weights["U"][:, rng.integers(files.weights["U"].shape[1])] = 0.0
    return "heads blunted"


def nearly_equal(rng, files):
    """Rows of the unembedding near a common one: margins shrink, what is rounded does not."""
    out = files.weights["unembedding"]
    near = np.float32(2.0 ** rng.uniform(-30, 0))
    out *= near
    out += rng.standard_normal(out.shape[1]).astype(np.float32)
    lied(rng, files)
    return "rows of the unembedding nearly equal"


def large_sums(rng, files):
    """Parts of U which cancel: as large as float32 bears, or nearly."""
    readout, size = files.weights["U"], 2.0 ** rng.integers(0, 128)
    with np.errstate(over="ignore"):
        readout += np.float32(size) * rng.choice([-1.0, 1.0], readout.shape).astype(np.float32)
    return "large sums"


def scaled(rng, files):
    """Tensors at other scales: subnormal entries, or nearly beyond all floats."""
    with np.errstate(over="ignore", under="ignore"):
        for name in NAMES:
            if rng.random() < 0.4:
                power = pick(rng, [-149, -127, -126, -125, -60, -1, 1, 40, 100, 127])
                power += int(rng.integers(-3, 4))
                files.weights[name] = np.ldexp(files.weights[name], power)
    if rng.random() < 0.5:
        power = int(rng.integers(-140, 120))
        files.weights["W_Q"] = np.ldexp(files.weights["W_Q"], power)
        files.weights["W_K"] = np.ldexp(files.weights["W_K"], -power)
    lied(rng, files)
    return "tensors at other scales"


def not_finite(rng, files):
    """An entry which is not a number."""
    name, array = entries(rng, files)
    array[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf])
    return f"{name} not finite"


def other_storage(rng, files):
    """Said to be stored in a format which the weights are, or are not."""
    files.about["record"]["storage"] = storage = pick(rng, FORMATS)
    if rng.random() < 0.5:
        for name in NAMES:
            files.weights[name] = decoder_judge.stored(files.weights[name], storage)
    if rng.random() < 0.3:
        name = pick(rng, NAMES)
        files.weights[name] = np.ldexp(files.weights[name], int(rng.integers(-30, 30)))
    if rng.random() < 0.3:
        files.weights["W_Q"] += np.float32(2.0 ** rng.integers(-12, 8))
    return f"stored in {storage}"


def long_logits(rng, files):
    """W_Q or tokens of more bits, so that logits are not exact, or only just."""
    name = pick(rng, ["W_Q", "W_K", "embedding", "positions"])
    array, unit = files.weights[name], np.float32(2.0 ** rng.integers(-24, 10))
    array += unit * rng.integers(-1, 2, array.shape).astype(np.float32)
    return f"{name} of more bits"


def lied(rng, files):
    """Another margin: a little above the true one, at it, below it, or far away."""
    claims = files.content["claims"]
    if "recites" not in claims:
        return "no margin to lie about"
    true = 1.0
    if rng.random() < 0.7:
        try:
            on = decoder_judge.Read(
                files.weights, files.text["texts"], files.text["prompt"], files.about["window"], ""
            )
            every = [ball for row in decoder_judge.margins(on) for ball in row]
            true = float(min(every, key=lambda ball: ball.mid()).mid())
        except (ValueError, IndexError, OverflowError):
            true = 1.0
    factor = 1.0 + pick(rng, [-1, 1]) * 2.0 ** -int(rng.integers(0, 54))
    value = abs(true) * factor if np.isfinite(true) else 1.0
    near = [value, value, value, 5e-324, 1e-300, 0.5, float(np.nextafter(value, 0.0))]
    value = pick(rng, near)
    claims["recites"]["evidence"] = {"bound": value.hex()}
    return "a margin which is a lie, or not"


def other_texts(rng, files):
    """Other words: exchanged, dropped, repeated, split, or asked for from another place on."""
    texts = files.text["texts"]
    ids = pick(rng, texts)
    kind = rng.integers(7)
    if kind == 0:
        place = rng.integers(len(ids))
        ids[place] = int(rng.integers(len(files.text["vocabulary"])))
    elif kind == 1 and len(ids) > 1:
        ids.pop(rng.integers(len(ids)))
    elif kind == 2:
        texts.append(list(ids))
    elif kind == 3:
        ids.append(int(rng.integers(len(files.text["vocabulary"]))))
    elif kind == 4:
        files.text["prompt"] = int(rng.integers(1, 5))
    elif kind == 5 and len(texts) > 1:
        texts.pop()
    else:
        listed = files.text["vocabulary"]
        listed[:] = listed[::-1]
        files.about["vocabulary"] = listed
    return "other texts"


def other_window(rng, files):
    """A window which is wider, narrower, none, or no number."""
    files.about["window"] = pick(rng, [None, 1, 2, 3, 5, 10**9, 0, -1, True, 2.0, "3"])
    return "another window"


def other_sizes(rng, files):
    """Arrays of other shapes or types, and vocabularies of other tokens."""
    name, kind = pick(rng, NAMES), rng.integers(5)
    array = files.weights[name]
    if kind == 0:
        axis = rng.integers(array.ndim)
        files.weights[name] = np.delete(array, -1, axis=axis) if array.shape[axis] > 1 else array
    elif kind == 1:
        axis = rng.integers(array.ndim)
        files.weights[name] = np.concatenate([array, array], axis=axis)
    elif kind == 2:
        files.weights[name] = array.astype(np.float64)
    elif kind == 3:
        files.weights[name] = array.reshape(*array.shape[::-1])
    else:
        listed = files.about["vocabulary"]
        listed[rng.integers(len(listed))] = rng.choice(["a", "é", ""]) if rng.random() < 0.5 else 1
    return f"{name} of other sizes"


def changed_signs(rng, files):
    """A sign or several, of a head, a token, a position or the readout."""
    name, array = entries(rng, files, NAMES[:5])
    some = rng.integers(array.size, size=rng.choice([1, 1, 2, 5]))
    array[some] = -array[some]
    return f"signs of {name} changed"


def other_integers(rng, files):
    """Integers a little larger or smaller, or heads with keys that tie."""
    name, array = entries(rng, files)
    place = rng.integers(array.size)
    kind = rng.integers(4)
    if kind == 0:
        array[place] += rng.choice([-1, 1])
    elif kind == 1:
        array[place] *= rng.choice([0, 2, 3])
    elif kind == 2:
        files.weights["W_K"] *= np.float32(2.0 ** rng.integers(-8, 9))
    else:
        files.weights["W_K"][:, rng.integers(files.weights["W_K"].shape[1])] = 0.0
    return f"integers of {name} are others"


def cancelling(rng, files):
    """Entries of U for constants that cancel, near the largest sum that is exact."""
    u, heads = files.weights["U"], len(files.weights["W_Q"])
    width, column = len(u) // (heads + 1), rng.integers(u.shape[1])
    one, other = rng.integers(heads + 1, size=2) * width
    room = 2.0**24 - float(np.abs(u[:, column]).sum())  # far below 0 after other forgeries
    more = (room // 2 + rng.integers(-2, 3)) * rng.choice([1, 1, 2, 0.5])
    u[one, column] += np.float32(more)
    u[other, column] -= np.float32(more)
    return "entries of U that cancel"


def nearer(rng, files):
    """The line of the unembedding with points that are nearer: margins near rounding, or none."""
    out = files.weights["unembedding"]
    if rng.random() < 0.5:
        repeated(rng, out)
    else:
        out[:] = np.rint(out * np.float32(2.0 ** rng.integers(1, 12)))
    return "rows of the unembedding nearer"


def other_period(rng, files):
    """Positions that are periodic where they were not, or for texts of other lengths."""
    periods = [1, 2, 5, 8, 9, 12, 20, 10**9, 0, -1, True, 8.0, None, "8"]
    files.about["longest"] = pick(rng, periods)
    if rng.random() < 0.3:
        files.weights["positions"] = files.weights["positions"][: rng.integers(1, 9)]
    return "another period"


def as_packed(rng, files):
    """Packed, and perhaps with a few bits that are others."""
    files.packed, files.spoilt = True, pick(rng, [0, 0, 1, 2, 20])
    return "packed" + ", and spoilt" * (files.spoilt > 0)


def other_evidence(rng, files):
    """A column, a point or a prime that is another, and anything anywhere."""
    trail, value = spoil(rng, files.content)
    return f"{trail[-1]} of the certificate is {value!r:.20}"


def other_words(rng, files):
    """Anything anywhere in what is said of texts and weights."""
    trail, value = spoil(rng, files.text if rng.random() < 0.5 else files.about)
    return f"{trail[-1]} of the files is {value!r:.20}"


def fewer_claims(rng, files):
    """Some claims only, which says less."""
    claims = files.content["claims"]
    claims.pop(pick(rng, claims))
    return "fewer claims"


def nothing(_rng, _files):
    """The honest files."""
    return "honest"


WAYS = (
    (moved_entries, 4), (exchanged_rows, 2), (equal_rows, 2), (blunt, 2), (nearly_equal, 4),
    (large_sums, 2), (scaled, 3), (not_finite, 1), (other_storage, 3), (long_logits, 2), (lied, 4),
    (other_texts, 3), (other_window, 2), (other_sizes, 2), (other_evidence, 2), (other_words, 2),
    (fewer_claims, 1), (nothing, 1), (changed_signs, 2), (other_integers, 2), (cancelling, 2),
    (nearer, 2), (other_period, 2), (as_packed, 3),
)  # fmt: skip


def two_tokens_of(rng):
    """A decoder by hand, with small margins."""
    unit, out = 2.0 ** rng.integers(-126, 100), 2.0 ** rng.uniform(-28, 2)
    common = rng.choice([0.0, 1.0]) * rng.standard_normal(2)
    weights = two_tokens(unit, unembedding=common + out * TWO_ROWS)
    decoder = by_hand(TWO, weights, storage=pick(rng, FORMATS))
    content = copy.deepcopy(honest()[0].content)
    content["claims"].pop("rank")
    files = files_of(decoder, TWO, content)
    lied(rng, files)
    return files


JUDGE = judges.of_lines(decoder_judge.statement)


def forgery(rng, ways=WAYS):
    """A case."""
    if rng.random() < 0.15:
        files, words = two_tokens_of(rng), ["two tokens"]
        chosen = []
    else:
        files, words = copy.deepcopy(pick(rng, honest())), []
        chosen = weighed(rng, ways, pick(rng, [1, 1, 2]))
    signed = rng.random() < 0.95
    with np.errstate(all="ignore"):
        for way in chosen:
            try:
                words.append(way(rng, files))
            except (KeyError, TypeError, ValueError, IndexError, AttributeError):
                words.append("of what is spoilt already")
    if signed:
        try:
            restate(files)
            files.signed()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            words.append("not signed")
    return Case("; ".join(words), files.write, JUDGE, arguments=quick(rng, 0.1))
