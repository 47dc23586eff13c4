"""The claim *size* of sequence memorizers: they have no more parameters than Theorem 7 says."""

from math import isqrt

import numpy as np

from claim import Claim
from columns import Column, affine, common, in_parts
from files import require

NAMES = (
    "keys", "width", "label_bits", "token_bits", "residue_bits", "prime_bits", "kept",
    "weight_bits", "sum_bits", "key_bits",
)  # fmt: skip
SPARE = 8  # bits by which chance may miss the least prime or modulus


class Size(Claim):
    """The formula, for numbers which are possible for these data and this network."""

    name = "size"
    statement = "{} non-zero parameters <= {}: Theorem 7 for {}"

    def check(self, about):
        return check_size(self.evidence, *about.problem)


def check_size(evidence, memorizer, tokens, ids, expected, work):
    """Theorem 7's formula, for numbers which are possible for these data and this network."""
    sizes = dict(evidence)
    require(set(sizes) == set(NAMES), "the evidence names other sizes")
    require(all(type(x) is int and x >= 0 for x in sizes.values()), "a size is not a number")
    context = np.unique(np.sort(ids, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    keys = context[:, None]
    if memorizer.task != "next":
        own = ids if memorizer.task == "seq2seq" else ids[:, -1:]
        keys = np.stack([np.repeat(context, own.shape[1]), own.reshape(-1)], axis=1)
    keys, width = len(np.unique(keys, axis=0)), tokens.shape[1]
    labels = (max(expected) - min(expected) + 1).bit_length()
    true = {"keys": keys, "width": width, "label_bits": labels}
    require(all(sizes[name] == true[name] for name in true), f"the sizes of the data are {true}")
    hashes, spans = extents(memorizer, tokens, work)
    unit = common(tokens.ravel().tolist(), "the common denominator of tokens is too long", work)
    reach = (2 * width * int(max(abs(x * unit) for x in tokens.ravel())) + 1).bit_length()
    reach += 0 if width == 1 else 2 * len(tokens).bit_length() + SPARE  # for the projection
    pairs, residue_bits = 2 * len(ids).bit_length() + SPARE, sizes["residue_bits"]
    longest = memorizer.size.bit_length() + max(residue_bits, 1) * (pairs + SPARE)
    allowed = {
        "token_bits": min([reach, *spans]),  # z is there, and three times z; or nothing
        "residue_bits": sizes["token_bits"],
        "prime_bits": min(hashes, pairs + residue_bits) + SPARE,
        "kept": max(int(context.max()), 1),
        "weight_bits": min(hashes + 1, pairs),
        "sum_bits": min(hashes + 1, longest) + residue_bits + 1,
        "key_bits": min(sizes["sum_bits"], 2 * keys.bit_length() + SPARE),
    }
    require(all(sizes[name] <= allowed[name] for name in allowed), f"sizes are above {allowed}")
    bound = 4 * (width + 1) + 14 * sizes["token_bits"] + 2
    bound += 14 * (sizes["sum_bits"] + sizes["key_bits"]) + 8
    bound += dictionary_bound(keys, labels, sizes["key_bits"])
    if sizes["kept"]:
        bound += dictionary_bound(sizes["kept"], sizes["weight_bits"], sizes["residue_bits"])
        bound += 14 * sizes["residue_bits"]
    else:
        bound += 40 * sizes["residue_bits"]
        if sizes["prime_bits"]:
            bound += 14 * sizes["residue_bits"] * (sizes["prime_bits"] + 1)
    require(memorizer.nonzero <= bound, f"size: {memorizer.nonzero} parameters, above {bound}")
    return memorizer.nonzero, bound, ", ".join(f"{name} {sizes[name]}" for name in NAMES)


def extents(memorizer, tokens, work):
    """Bits of n times the largest hash, and of the spans of the units of the first layer."""

    def of(part):
        rows = tokens[part.start : part.stop]
        columns = [Column(rows[:, k]) for k in range(tokens.shape[1])]
        units = affine(memorizer.embedding.layers[0][1], columns, len(rows), work)
        ends = [(unit.entries.min(), unit.entries.max()) for unit in units]
        return ends, memorizer.values(memorizer.streams(rows, work), work).max()

    parts, largest = zip(*(found for _, found in in_parts(of, len(tokens))), strict=True)
    ends = [(min(a for a, _ in unit), max(b for _, b in unit)) for unit in zip(*parts, strict=True)]
    spans = [int(high - low + 1).bit_length() for low, high in ends if high > low]
    return int(max(0, *largest)).bit_length(), spans


def dictionary_bound(keys, label_bits, key_bits):
    """The least of 14 m + 15 ((k - 1) f + k), and 40, for m blocks of at most k keys."""
    reach, found = label_bits + key_bits, []
    for entries in range(1, 4 * isqrt(keys) + 2):  # with fewer bits, 28 k blocks cost 15 (k - 1)
        for bits in range(max(1, reach - entries.bit_length() - 2), reach + 1):
            blocks = (keys + entries - 1) // entries + 2 ** (reach - bits) + 1
            found.append(14 * blocks + 15 * ((entries - 1) * bits + entries))
    return min(found) + 40
