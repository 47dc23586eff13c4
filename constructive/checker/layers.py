"""Certificates of one layer on one dataset, and of upper bounds for all weights."""

import math
from functools import cached_property
from itertools import tee

import numpy as np

from . import pieces
from .attend import of_lengths
from .bounds import entries
from .claim import About, Claim, Shown
from .files import (
    ARRAYS,
    LENGTHS,
    announce,
    bytes_of,
    data_shapes,
    read_data,
    read_weights,
    require,
    require_about,
    require_shapes,
    unpack,
    weights_shapes,
)
from .modular import reduce, residues, times
from .rank import CHUNK, examples
from .real import all_residuals, first_needs, in_floats

ARRAYS_OF_PIECE = 64  # which a thread may hold, of so many entries as a piece of work has
PARTS = 128  # arrays which W_V may be a sum of


class Expected:
    """What claims need, from shapes alone."""

    def __init__(self, arrays, tensors):
        self.contexts, self.shapes = arrays["contexts"][1], sizes_of(arrays, tensors)

    def needs(self, claims):
        """Bytes and operations of all claims, one after the other, from shapes alone."""
        each = [claim.needs(self) for claim in claims.values()]
        return max(held for held, _ in each), sum(operations for _, operations in each)

    def take_threads(self, left):
        """Take as many threads as there are pieces, and as memory allows: bytes for them."""
        total, size, width, _, heads, inner, *_ = self.shapes
        units = entries(size, width, heads, inner)
        each = 8 * ARRAYS_OF_PIECE * max(CHUNK, units)
        parts = -(-total // max(1, CHUNK // units))
        pieces.take(min(pieces.jobs, parts, 1 + int(min(max(left / each, 0), pieces.jobs))))
        return (pieces.jobs - 1) * each

    def real_needs(self):
        return first_needs(self.shapes)


class Layer(About):
    """Weights, or none, and data: arrays by their names, and what was computed of them.

    hashes: of data and weights;  left: bytes which may be taken
    """

    format = "constructive certificate 1"

    def __init__(self, weights, data, hashes, options, left=math.inf):
        self.weights, self.hashes, self.left = weights, hashes, left
        self.data = of_lengths(data) if LENGTHS in data else data
        self.shapes = sizes_of(*(shapes_of(arrays) for arrays in (data, weights)))
        self.quick, self.tell, self.bits = options.quick, options.tell, options.bits
        self._residuals = all_residuals(self)

    @classmethod
    def read(cls, content, files, claims, options):
        """What is in these files, when they are small enough, and are those of the certificate."""
        *weights, data = files
        described = bool(set(content["weights"]) - {"sha256"})
        require(described or not weights, "it is about all weights, and takes none")
        require(weights or not described, "it is about weights, which are not given")
        tensors = weights_shapes(*weights, options.most) if weights else {}
        arrays = data_shapes(data)
        require_shapes(content, arrays, "data")
        require_shapes(content, tensors, "weights")
        for name, claim in claims.items():
            given = weights or not claim.of_weights
            require(given, f"{name} is about weights, and there are none")
            fits = claim.of_lengths or LENGTHS not in arrays
            require(fits, f"{name} is about contexts of one length")
        filled = 8 * math.prod(arrays["contexts"][1]) * (LENGTHS in arrays)  # a copy
        read = bytes_of(arrays) + bytes_of(tensors) + filled
        expected = Expected(arrays, tensors)
        held, operations = expected.needs(claims)
        held += expected.take_threads(options.most - read - held)
        announce(read + held, operations, options.most)
        options.tell("read the files", 0, 1)
        parts = read_data(data, arrays), read_weights(*weights, tensors) if weights else {}
        about = cls(*parts[::-1], b"", options, options.most - read)
        hashes = [require_about(content, about.data, "data")]
        about.hashes = b"".join([*hashes, require_about(content, about.weights, "weights")])
        return about

    @cached_property
    def floats(self):
        """What float64 has of outputs, with bounds; or None."""
        return in_floats(self.weights, self.data, self.tell)

    def residuals(self):
        """What is known of |f - y|, nearer each time: computed once for all claims."""
        self._residuals, ours = tee(self._residuals)
        return ours

    def rows_of_z(self):
        """A view, which of its rows Z has, and how many columns that has."""
        columns = math.prod(self.weights["W_V"].shape[:2])
        return examples(self.weights, self.data), np.arange(self.shapes[0]), columns


def shapes_of(arrays):
    """The same of arrays as of what files say of them: (type, shape)."""
    return {name: (array.dtype, array.shape, None) for name, array in arrays.items()}


def sizes_of(arrays, tensors):
    """T, n, d, d_out, and H, d_h, d_v, d_o of the weights, if there are any; or refuse."""
    contexts, queries, targets = (arrays[name][1] for name in ARRAYS)
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


# The claim *impossible*: examples J whose rows of Z have too small a rank for all W_Q and W_K. So
# whichever are chosen, some targets have no readout; which ones depends on W_Q and W_K.
#
# Attention weights add up to one, so head 1 puts out an average r_t of the tokens of example t,
# and another head r_t + v with v in the span of differences of these tokens. So rows of J have
# rank kappa + (H - 1) delta at most, where the tokens of J span kappa dimensions at most, and
# differences of tokens of one context delta. Both have bounds by vectors which are orthogonal to
# them, and by counting: tokens of a part of the vocabulary which contexts connect differ by one
# dimension less than there are.

OPERATIONS = 1e11  # which products with long vectors may take, a minute or so
SMALLEST, LARGEST = 1 << 21, 1 << 22  # moduli of these products


class Impossible(Claim):
    """More different examples than rows of J can be independent for any W_Q and W_K."""

    name, of_weights = "impossible", False
    statement = (
        "for all W_Q and W_K of H = {} heads rank Z <= {} on {} different examples: "
        "whichever are chosen, some targets have no readout"
    )

    def needs(self, about):
        """Rows of tokens and of queries, which are sorted, and vectors of Python's integers."""
        contexts, total = about.contexts, about.shapes[0]
        tokens, width = math.prod(contexts[:-1]), contexts[-1]
        digits = [len(x) for vector in self.evidence["vectors"] for x in vector]
        held = 64 * (tokens + total) * (width + 8) + 160 * len(digits) + 2 * sum(digits) + (8 << 20)
        return held, 100 * (tokens + total) * width + 1000 * len(digits)

    @property
    def unshown(self):
        return f"no H = {self.evidence['heads']} heads have a readout for all targets"

    def check(self, about):
        require("count" in self.evidence, "no examples are blamed")
        return check_impossible(self.evidence, about.data)


def check_impossible(evidence, data):
    """H, the bound of the rank, and how many different examples J has."""
    heads, count = evidence["heads"], evidence["count"]
    require(type(heads) is int and heads > 0, "H is not a number of heads")
    total, width = data["queries"].shape
    require(type(count) is int and 0 < count <= total, "J is not a set of examples")
    chosen = unpack(evidence["examples"], (count,), total)
    require((np.diff(chosen) > 0).all(), "J is not increasing")
    contexts = data["contexts"][chosen] if data["contexts"].ndim == 3 else data["contexts"][None]
    tokens, ids = different(contexts.reshape(-1, width))
    ids = ids.reshape(contexts.shape[:2])
    vectors, zeros = triangular(evidence, width)
    require_orthogonal(vectors, zeros, tokens, ids)
    kappa = min(width - zeros, len(tokens))
    delta = min(width - len(vectors), len(tokens) - components(ids, len(tokens)))
    bound = kappa + (heads - 1) * delta
    inputs = different(data["queries"][chosen])[1][:, None]
    if len(ids) > 1:  # with the multiset of tokens, where that differs
        inputs = np.concatenate([inputs, np.sort(ids, axis=1)], axis=1)
    number = len(different(inputs)[0])
    require(number > bound, f"{number} different examples, and {bound} are possible")
    detail = f"tokens span {kappa} dimensions, and their differences within contexts {delta}"
    return Shown((heads, bound, number), detail)


def different(rows):
    """The different rows, with no sign at zeros, and which of them each one is: by their bytes."""
    plain = np.ascontiguousarray(rows.astype(np.float64) + 0.0)
    whole = plain.view(np.dtype((np.void, 8 * plain.shape[1]))).reshape(-1)
    _, first, ids = np.unique(whole, return_index=True, return_inverse=True)
    return plain[first], ids.reshape(-1)


def components(ids, total):
    """Into how many parts the tokens fall, if those of one context are together."""
    label = np.arange(total)
    while True:
        roots = label[ids]
        new = label.copy()  # labels are of the least token known; these join, and then jump
        np.minimum.at(new, roots, np.broadcast_to(roots.min(axis=1)[:, None], ids.shape))
        while (new[new] != new).any():
            new = new[new]
        if (new == label).all():
            return len(np.unique(label))
        label = new


def triangular(evidence, width):
    """Integer vectors, independent as each has an entry which is zero in all later ones."""
    vectors = [[int(x, 16) for x in vector] for vector in evidence["vectors"]]
    pivots, zeros = evidence["pivots"], evidence["zeros"]
    require(len(pivots) == len(vectors) <= width, "the vectors have other pivots")
    require(type(zeros) is int and 0 <= zeros <= len(vectors), "`zeros` is not a number of vectors")
    require(all(len(vector) == width for vector in vectors), "a vector has another length")
    for i, pivot in enumerate(pivots):
        require(type(pivot) is int and 0 <= pivot < width, "a pivot is not a place")
        alone = vectors[i][pivot] and not any(vector[pivot] for vector in vectors[i + 1 :])
        require(alone, "the vectors are not triangular")
    return vectors, zeros


def require_orthogonal(vectors, zeros, tokens, ids):
    """Products with tokens are 0 for the first `zeros` vectors, and constant in each context.

    As integers: what is 0 modulo moduli without a common factor is 0, if it is less than their
    product.
    """
    if not vectors:
        return
    span = reach(tokens)
    bits = max(x.bit_length() for vector in vectors for x in vector)
    bits += span + tokens.shape[1].bit_length() + 1
    moduli = primes()[: -(-bits // (SMALLEST.bit_length() - 1))]
    entries = len(vectors) * tokens.shape[1]
    each = tokens.size * (len(vectors) + 40) + entries * (500 + bits / 4)
    cost = len(moduli) * (each + 500 * span)  # with tables of powers of two
    enough = len(moduli) * (SMALLEST.bit_length() - 1) >= bits
    require(enough and cost <= OPERATIONS, "numbers so long would take more than a minute")
    for p in moduli.tolist():
        whole = residues(tokens, p)(tokens)[0]
        columns = np.array([[x % p for x in vector] for vector in vectors], dtype=np.float64)
        products = times(whole, reduce(np.ascontiguousarray(columns.T), p), p)
        products -= p * np.floor(products / p)  # balanced residues are not unique
        require(not products[:, :zeros].any(), "a vector is not orthogonal to a token")
        each = products[ids]
        require((each == each[:, :1]).all(), "a vector is not constant within a context")


def reach(tokens):
    """Bits of the integers which tokens are, times one power of two."""
    mantissas, places = np.frexp(tokens)
    lowest = int(places.min(where=mantissas != 0, initial=2000))
    highest = int(places.max(where=mantissas != 0, initial=-2000))
    return 53 + max(highest - lowest, 0)


def primes():
    """All primes between the smallest and the largest modulus."""
    sieve = np.ones(LARGEST, dtype=bool)
    for k in range(2, 1 << 11):
        if sieve[k]:
            sieve[k * k :: k] = False
    return SMALLEST + np.flatnonzero(sieve[SMALLEST:])
