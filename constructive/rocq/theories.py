"""The claims that Rocq proves of stored numbers: *rank*, *onto*, *error*, *impossible*, *recites*.

Each is a `Theory`. Of a certificate only evidence is taken that Rocq need not believe: p, a and the
columns of Z; a zero point; epsilon; H, examples J and vectors; the margin.
"""

import base64
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from constructive import checker
from constructive.certificates.certificate import Certificate
from constructive.data.dataset import Dataset, different_inputs
from constructive.exact import modular
from constructive.exact.softmax import Point, Residues
from constructive.layers.attention import attend, examples
from constructive.layers.extended import ExtendedLayer
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.recite.causal import picks
from constructive.recite.corpus import Text
from constructive.recite.decoder import Decoder
from constructive.rocq.definitions import (
    FilledTheory,
    StoredNumbers,
    Theory,
    exponents,
    theorems,
    whole,
)
from constructive.support.arrays import Array, Integers
from constructive.support.errors import ConstructiveError, FormatError, ParameterError
from constructive.support.verdict import Verdict
from constructive.theory.capacity import vocabulary
from constructive.theory.free_heads import Base

Read = TypeVar("Read")


class NotConfirmableError(ParameterError):
    """A claim for which Rocq has no program, on these weights; it may hold all the same."""


def _evidence_of(
    certificate: Certificate, name: str, read: Callable[[dict[str, Any]], Read], command: str
) -> Read:
    """Read the evidence of a claim that is PROVED; the command is one that makes such certificates.

    Raises FormatError for a certificate without that claim, or with other evidence.
    """
    claims = {claim.name: claim for claim in certificate.claims}
    if name not in claims or claims[name].verdict is not Verdict.PROVED:
        raise FormatError(
            f"the certificate does not claim that {name} is PROVED",
            witness=sorted(claims),
            suggestion=f"constructive {command}",
        )
    try:
        return read(claims[name].evidence)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"the evidence of {name} cannot be read: {error}",
            witness=name,
            suggestion=f"a certificate of `constructive {command}`",
        ) from error


def _bound_of(evidence: dict[str, Any]) -> float:
    """Return the bound that evidence states, for `_evidence_of`."""
    bound = float.fromhex(evidence["bound"])
    if not 0.0 <= bound < math.inf:
        raise ValueError(f"the bound is {bound!r}")
    return bound


def _unpack(text: str) -> Integers:
    """Read integers as `support.verdict.pack` writes them, or raise TypeError or ValueError."""
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.int64)


def _not_about(name: str, what: str, witness: object) -> ParameterError:
    """Return the error for evidence of other numbers than the stored ones."""
    return ParameterError(
        f"the evidence of {name} is not about {what}",
        witness=witness,
        suggestion="the files from which the certificate was made",
    )


INPUT_ARRAYS = "contexts", "queries"
# Of layers: contexts of all examples, also where one is shared; contexts and queries in R.
_OF_EXAMPLES = """\
Definition of_examples : arrays := mkseq (fun t => nth [::] contexts (t %% size contexts)) T.
"""
_IN_REALS = """\
Let E (t : 'I_T) : 'M[R]_(n, d) := stored_matrix R contexts_exponent n d (nth [::] of_examples t).
Let Q : 'M[R]_(T, d) := stored_matrix R queries_exponent T d queries.
"""


def _sizes_of(layer: AttentionLayer, dataset: Dataset) -> dict[str, int]:
    """Return the sizes of a layer and its data; raise DataError where they do not fit."""
    layer.check_fits(dataset)
    return {
        "n": dataset.context_size,
        "d": layer.width,
        "dh": layer.head_dim,
        "T": dataset.num_examples,
        "H": layer.num_heads,
    }


# *rank*: rank Z = T of stored weights on stored data (Theorem 4).

RANK_ARRAYS = "contexts", "queries", "query_weights", "key_weights"


def _rank_numbers(
    _certificate: Certificate | None, memorizer: Memorizer, dataset: Dataset
) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: W_Q, W_K and the data."""
    layer = memorizer.layer
    sizes, contexts = _sizes_of(layer, dataset), dataset.contexts_of(slice(None))
    arrays = contexts, dataset.queries, layer.query_weights, layer.key_weights
    return StoredNumbers(
        dict(zip(RANK_ARRAYS, arrays, strict=True)), sizes, dataset.num_examples**2
    )


def _rank_evidence(
    _known: StoredNumbers, certificate: Certificate, memorizer: Memorizer, dataset: Dataset
) -> dict[str, Any]:
    """Return p, a, marks of columns, and a right inverse modulo p.

    Raises ParameterError for weights and data of which the claim *rank* does not hold.
    """
    prime, value, chosen = _evidence_of(certificate, "rank", _columns, "certify --claims rank")
    layer = memorizer.layer
    fits = 1 < value < prime < modular.LARGEST_MODULUS and len(chosen) == dataset.num_examples
    if not (fits and (np.diff(chosen) > 0).all() and chosen[-1] < layer.num_heads * layer.width):
        raise _not_about("rank", "these weights and data", (prime, value, len(chosen)))
    rows = _cleared(layer, dataset, Point(prime, value))
    inverse = right_inverse(rows[:, chosen], prime)[1]
    return _of_rank(Point(prime, value), inverse, chosen, (layer.num_heads, layer.width))


def _of_rank(
    point: Point, inverse: Integers, chosen: Integers, shape: tuple[int, int]
) -> dict[str, Any]:
    """Return p, a, and a right inverse of chosen columns, of which each head has as many."""
    marks = np.zeros(shape, dtype=bool)
    marks.reshape(-1)[chosen] = True
    ends = np.cumsum(marks.sum(axis=1))[:-1]
    parts = [[part.tolist() for part in np.split(x, ends)] for x in inverse.T]
    numbers = {"modulus": point.prime, "order": point.prime - 1, "point": point.value}
    return {**numbers, "columns": marks.tolist(), "inverse": parts}


def _columns(evidence: dict[str, Any]) -> tuple[int, int, Integers]:
    """Return p, a and C, in ascending order."""
    return int(evidence["prime"]), int(evidence["value"]), np.sort(_unpack(evidence["columns"]))


def _cleared(layer: AttentionLayer, dataset: Dataset, point: Point) -> Array:
    """Return Z(a) modulo p (T, H d), each row times its softmax denominators, balanced."""
    units = modular.least_exponent(dataset.contexts), modular.least_exponent(dataset.queries)
    weights, prime = (layer.query_weights, layer.key_weights), point.prime
    rows = np.empty((dataset.num_examples, layer.num_heads, layer.width))
    view = examples(dataset.contexts, dataset.queries)
    for chunk in attend(Residues(point, *units), weights, view):
        sums, inverses, _ = chunk.representation
        product: Array = np.ones(len(sums))
        for denominators in modular.inverse(inverses, prime).T:
            product = modular.reduce(product * denominators, prime)
        others = modular.reduce(product[:, np.newaxis] * inverses, prime)
        rows[chunk.rows] = modular.reduce(sums * others[:, :, np.newaxis], prime)
    return rows.reshape(dataset.num_examples, -1)


def right_inverse(matrix: Array, prime: int) -> tuple[Integers, Integers]:
    """Return columns C, ascending, and M with A[:, C] M = 1 modulo p, in 0, ..., p - 1: (T, T).

    A (T, k) has balanced residues. Raises ParameterError where its rows are dependent.
    """
    factors, total = modular.factor(np.ascontiguousarray(matrix), prime), len(matrix)
    if factors.rank < total:
        raise ParameterError(
            f"rows have rank {factors.rank} modulo {prime} in {matrix.shape[1]} columns, "
            f"not {total}",
            witness=factors.rank,
            suggestion="a certificate of these very data, and of these weights if it names any",
        )
    solution, order = modular.solve(factors, np.eye(total)), np.argsort(factors.columns)
    return factors.columns[order], solution[order].astype(np.int64) % prime


RANK = Theory(
    name="checker/attention_rank",
    claim="rank",
    modules="Definitions attention_program attention_rank",
    definitions={
        **dict.fromkeys(["modulus", "order", "point"], "int63"),
        **dict.fromkeys(["n", "d", "dh", "T", "H"], "nat"),
        **exponents(RANK_ARRAYS),
        "contexts": "arrays",
        "queries": "array",
        "query_weights": "arrays",
        "key_weights": "arrays",
        "columns": "masks",
        "inverse": "inverses",
    },
    confirmed=lambda made: [
        f"rank Z = T = {made.values['T']} of the stored numbers, as real numbers;",
        "  so these W_Q and W_K have a readout for all targets",
    ],
    known_of=_rank_numbers,
    evidence_of=_rank_evidence,
    conclusion="both",
    tail=_OF_EXAMPLES
    + theorems(
        "Layer",
        """check_attention modulus order point n d dh T H of_examples queries query_weights
  key_weights columns inverse""",
        _IN_REALS
        + """\
Let WQ (h : 'I_H) : 'M[R]_(d, dh) :=
  stored_matrix R query_weights_exponent d dh (nth [::] query_weights h).
Let WK (h : 'I_H) : 'M[R]_(d, dh) :=
  stored_matrix R key_weights_exponent d dh (nth [::] key_weights h).
Theorem rank_of_Z : \\rank (intermediate E Q (fun h => WK h *m (WQ h)^T)) = T.
Proof. exact: check_attention_sound checked. Qed.
Theorem memorizes_all_labels (dv dout : nat) (Y : 'M[R]_(T, dout)) : (dout <= dv)%N ->
  exists WV WO WD, memorizes (@Layer R d H dh dv dout WQ WK WV WO WD) E Q Y.
Proof. exact: check_attention_memorizes checked _ _ _. Qed.
""",
    )
    + "Definition both := (rank_of_Z, memorizes_all_labels).\n",
)


# *onto*: for all targets some weights, by the rank of a derivative (Proposition 25.1).


def _onto_numbers(
    certificate: Certificate, _memorizer: Memorizer, dataset: Dataset
) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: different examples, and the sizes of heads."""

    def read(told: dict[str, Any]) -> tuple[int, int]:
        return sum(told["groups"]), int(told["head_dim"])

    heads, inner = _evidence_of(certificate, "onto", read, "certify --claims onto")
    examples = different_inputs(dataset)
    known = stored_examples(dataset.filled, examples, heads)
    sizes = {**known.sizes, "dh": inner, "m": dataset.target_dim}
    lengths = np.full(len(examples), sizes.pop("n"))
    arrays = {**known.arrays, "lengths": lengths}
    if dataset.lengths is not None:
        arrays["lengths"] = dataset.lengths[examples]
    return StoredNumbers(arrays, sizes, (sizes["T"] * sizes["m"]) ** 2)


def _onto_evidence(
    known: StoredNumbers, certificate: Certificate, _memorizer: Memorizer, dataset: Dataset
) -> dict[str, Any]:
    """Return p, a, a zero point, marks of unit directions, and a right inverse modulo p.

    Raises ParameterError for data of which the claim *onto* does not hold at this point.
    """
    sizes = known.sizes

    def read(evidence: dict[str, Any]) -> tuple[Point, int, Base]:
        query, key, readouts, groups = checker.zero_point(evidence, sizes["d"], sizes["m"])
        point = Point(int(evidence["prime"]), int(evidence["value"]))
        uniform = int(evidence["groups"][0]) if evidence["uniform"] else 0
        return point, uniform, Base(query, key, readouts, groups)

    point, uniform, base = _evidence_of(certificate, "onto", read, "certify --claims onto")
    if not 1 < point.value < point.prime < modular.LARGEST_MODULUS:
        raise _not_about("onto", "these data", point)
    rows, squares = _unit_directions(base, dataset.take(different_inputs(dataset)), point)
    chosen, inverse = right_inverse(rows, point.prime)
    inverse = inverse * squares % point.prime  # Rocq's rows are not divided by sums of powers
    leaders = [group.stop - 1 for group in base.groups for _ in range(group.start, group.stop)]
    return {
        **_of_rank(point, inverse, chosen, (sizes["H"], rows.shape[1] // sizes["H"])),
        "uniform": uniform,
        "leaders": leaders,
        "query_weights": base.query_weights,
        "key_weights": base.key_weights,
        "readouts": base.readouts,
    }


def _unit_directions(base: Base, dataset: Dataset, point: Point) -> tuple[Array, Integers]:
    """Return the derivative of outputs in all entries of keys, queries and readouts, modulo p.

    Entries of a head are together. Also returns for each row the inverse of what Rocq multiplies it
    by: of the square of the product of all sums of powers.
    """
    prime, (heads, width, outputs) = point.prime, base.readouts.shape
    filled = dataset.filled.contexts
    units = modular.least_exponent(filled), modular.least_exponent(dataset.queries)
    arithmetic, view = Residues(point, *units), examples(dataset.contexts, dataset.queries)
    query, key, readouts = (modular.residues(weights, prime) for weights in base[:3])
    total = dataset.num_examples
    rows = np.zeros((total, outputs, heads, 2 * width * query.shape[2] + width * outputs))
    squares = np.ones((total, outputs), dtype=np.int64)
    for chunk in attend(arithmetic, (base.query_weights, base.key_weights), view):
        tokens = arithmetic.values(view.tokens[chunk.block.groups])[:, chunk.block.keys]
        queries = modular.residues(view.queries[chunk.rows], prime, units[1])[:, np.newaxis]
        for inverse in chunk.attention.inverses.T.astype(np.int64):
            squares[chunk.rows] = squares[chunk.rows] * (inverse**2 % prime)[:, np.newaxis] % prime
        inverses = chunk.attention.inverses[..., np.newaxis]
        shares = modular.reduce(chunk.attention.numerators * inverses, prime)
        averages = modular.reduce(chunk.representation.numerators * inverses, prime)
        for head in range(heads):
            average = averages[:, head, np.newaxis]
            centred = modular.reduce(tokens - average, prime)
            seen = modular.product(centred, readouts[head], prime)
            seen = modular.reduce(seen * shares[:, head, :, np.newaxis], prime)
            moved = modular.product(seen.transpose(0, 2, 1), centred, prime)  # rows (C U)_j
            asked = modular.product(queries, query[head], prime)[:, :, np.newaxis]
            keyed = modular.product(moved, key[head], prime)[:, :, np.newaxis]
            parts = (
                modular.reduce(moved[..., np.newaxis] * asked, prime),
                modular.reduce(queries[..., np.newaxis] * keyed, prime),
                average[..., np.newaxis] * np.eye(outputs)[:, np.newaxis],
            )
            flat = [part.reshape(*moved.shape[:2], -1) for part in parts]
            rows[chunk.rows, :, head] = np.concatenate(flat, axis=2)
    return rows.reshape(total * outputs, -1), squares.reshape(-1)


ONTO = Theory(
    name="checker/onto_checker",
    claim="onto",
    modules="Definitions attention_program attention_rank onto_program onto_checker",
    definitions={
        **dict.fromkeys(["modulus", "order", "point"], "int63"),
        **dict.fromkeys(["d", "dh", "T", "H", "m", "uniform"], "nat"),
        **exponents([*INPUT_ARRAYS, "query_weights", "key_weights", "readouts"]),
        "queries": "array",
        **dict.fromkeys(["contexts", "query_weights", "key_weights", "readouts"], "arrays"),
        **dict.fromkeys(["lengths", "leaders"], "numbers"),
        "columns": "masks",
        "inverse": "inverses",
    },
    confirmed=lambda made: [
        "for all Y of T = {T} targets with d_out = {m} some weights of H = {H} heads with d_h = "
        "{dh}".format_map(made.values),
        "  and d_v = d_out return Y exactly on the different stored examples, in real arithmetic",
    ],
    known_of=_onto_numbers,
    evidence_of=_onto_evidence,
    conclusion="returns_all_targets",
    tail="""\
Definition of_examples : arrays :=
  mkseq (fun t => take (nth 0%N lengths t) (nth [::] contexts (t %% size contexts))) T.
Definition n (t : nat) : nat := size (nth [::] of_examples t).
"""
    + theorems(
        "Data",
        """check_onto modulus order point d dh T H m of_examples queries uniform leaders
  query_weights key_weights readouts columns inverse""",
        """\
Let E t : 'M[R]_(n t, d) := stored_matrix R contexts_exponent (n t) d (nth [::] of_examples t).
Let Q : 'M[R]_(T, d) := stored_matrix R queries_exponent T d queries.
Theorem returns_all_targets (dv : nat) (Y : 'M[R]_(T, m)) : (m <= dv)%N ->
  exists L : layer R d H dh dv m, forall t : 'I_T, output L (E t) (row t Q) = row t Y.
Proof. exact: (check_onto_sound _ _ checked). Qed.
""",
    ),
)


# *error*: |f(E_t, e_t) - y_t| <= epsilon for a stored layer on stored data.

ERROR_ARRAYS = (
    "contexts", "queries", "query_weights", "key_weights", "value_weights", "output_weights",
    "readout_weights", "targets", "epsilon",
)  # fmt: skip
# How exp is enclosed, and averages: what Rocq proves does not depend on them.
_PRECISION = "digits", "halvings", "terms", "places"
_DIGIT = 31  # Bits of a digit of the integers of Rocq's program
_MATRICES = {"queries", "readout_weights", "targets", "epsilon"}
_GUARD = 24  # Bits beyond those that the sizes of tokens and weights need
_MOST_BITS = 1 << 14


def _error_numbers(
    certificate: Certificate, memorizer: Memorizer, dataset: Dataset
) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: all weights, the data and epsilon.

    W_O is given by its H blocks, one for each head, as they lie one above the other. Raises
    NotConfirmableError for numbers beyond float64, and for W_O of another shape than H d_v x d_v.
    """
    layer, epsilon = memorizer.layer, _evidence_of(certificate, "error", _bound_of, "certify")
    extended = isinstance(layer, ExtendedLayer)
    if extended or layer.output_weights.shape[1] != layer.value_dim:
        shape = "" if extended else f", W_O {' x '.join(map(str, layer.output_weights.shape))}"
        raise NotConfirmableError(
            "the claim error is confirmed for float layers with W_O of shape H d_v x d_v",
            witness=type(layer).__name__ + shape,
            suggestion="check without --rocq",
        )
    sizes = _sizes_of(layer, dataset)
    targets = np.asarray(dataset.targets).reshape(dataset.num_examples, -1)
    blocks = layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)
    arrays = (
        dataset.contexts_of(slice(None)), dataset.queries, layer.query_weights, layer.key_weights,
        layer.value_weights, blocks, layer.readout_weights, targets, np.array([[epsilon]]),
    )  # fmt: skip
    sizes |= {"dv": layer.value_dim, "dout": targets.shape[1]}
    return StoredNumbers(dict(zip(ERROR_ARRAYS, arrays, strict=True)), sizes)


def _precision(known: StoredNumbers, *_: object) -> dict[str, int]:
    """Return with how many digits, halvings of arguments and terms of its series exp is enclosed.

    The last number is how many digits averages have more than tokens. Rocq proves its answer for
    any of them; too few would make it refuse. Raises NotConfirmableError beyond 2^14 bits.
    """
    arrays = known.arrays
    largest = float(np.abs(arrays["contexts"]).max(initial=0.0)) or 1.0
    # Bounds of the sizes of W_V W_O W_D (H, d, d_out).
    names = "value_weights", "output_weights", "readout_weights"
    values, blocks, last = (np.abs(arrays[name].astype(np.float64)) for name in names)
    readout = float((values @ blocks @ last).sum(axis=(0, 1)).max(initial=0.0)) or 1.0
    epsilon = float(arrays["epsilon"][0, 0])
    needed = [math.log2(x) for x in (largest, readout, known.sizes["n"])]
    most = math.inf if epsilon <= 0 else sum(needed) - math.log2(epsilon)
    if not most < _MOST_BITS:
        raise NotConfirmableError(
            f"epsilon = {epsilon!r} is too small for weights of this size",
            witness=epsilon,
            suggestion="a larger epsilon",
        )
    accurate = max(32, math.ceil(most) + _GUARD)
    halvings = 4 + max(6, math.ceil(math.log2(accurate)))
    digits = _digits(accurate + halvings + 8)
    terms, factorial = 1, Fraction(1)
    while (1 << _DIGIT * digits) // factorial + 2 > 16 ** (terms + 1):
        terms += 1
        factorial *= terms
    unit = modular.least_exponent(arrays["contexts"]) - math.log2(largest)
    places = _digits(max(0, accurate + math.ceil(unit)))
    return dict(zip(_PRECISION, (digits, halvings, terms, places), strict=True))


def _digits(bits: int) -> int:
    return -(-bits // _DIGIT)


ERROR = Theory(
    name="checker/error_checker",
    claim="error",
    modules="Definitions attention_program attention_residues attention_rank error_checker",
    definitions={
        **dict.fromkeys(_PRECISION, "nat"),
        **dict.fromkeys(["n", "d", "dh", "dv", "dout", "T", "H"], "nat"),
        **exponents(ERROR_ARRAYS),
        **{name: "array" if name in _MATRICES else "arrays" for name in ERROR_ARRAYS},
    },
    confirmed=lambda made: [
        f"max |f(E_t, e_t) - y_t| <= {float(made.values['epsilon'][0, 0])!r} of the stored layer "
        f"on {made.values['T']} examples, in real arithmetic"
    ],
    known_of=_error_numbers,
    evidence_of=_precision,
    conclusion="error_bound",
    tail=_OF_EXAMPLES
    + "Definition most : dyadic := nth zero_dyadic (nth [::] epsilon 0%N) 0%N.\n"
    + theorems(
        "Layer",
        """check_stored_error digits halvings terms places contexts_exponent queries_exponent
  query_weights_exponent key_weights_exponent value_weights_exponent output_weights_exponent
  readout_weights_exponent targets_exponent epsilon_exponent n d dh dv dout T H of_examples queries
  query_weights key_weights value_weights output_weights readout_weights targets most""",
        _IN_REALS
        + """\
Let Y : 'M[R]_(T, dout) := stored_matrix R targets_exponent T dout targets.
Let L := @Layer R d H dh dv dout
  (fun h => stored_matrix R query_weights_exponent d dh (nth [::] query_weights h))
  (fun h => stored_matrix R key_weights_exponent d dh (nth [::] key_weights h))
  (fun h => stored_matrix R value_weights_exponent d dv (nth [::] value_weights h))
  (stacked (fun h => stored_matrix R output_weights_exponent dv dv (nth [::] output_weights h)))
  (stored_matrix R readout_weights_exponent dv dout readout_weights).
Theorem error_bound (t : 'I_T) (l : 'I_dout) : (`|output L (E t) (row t Q) 0 l - Y t l| <=
  (int_of_dyadic most)%:~R * 2%:R ^ epsilon_exponent)%R.
Proof. exact: (check_error_sound R checked). Qed.
""",
    ),
)


# *impossible*: stored data hold fewer inputs than they are (Theorem 8).

MODULUS = (1 << 31) - 1  # Of fingerprints, which tell inputs apart
_ATTEMPTS = 32


def stored_examples(dataset: Dataset, examples: Integers, num_heads: int) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: examples J of the data, ascending."""
    part = dataset.take(examples)
    contexts = part.contexts[np.newaxis] if part.shared_context else part.contexts
    sizes = {"n": part.context_size, "d": part.width, "T": len(examples), "H": num_heads}
    return StoredNumbers({"contexts": contexts, "queries": part.queries}, sizes)


def examples_of(certificate: Certificate, dataset: Dataset) -> tuple[int, Integers]:
    """Return H, and the examples J of the claim *impossible*; those that are one input, once.

    Raises ParameterError for examples that these data do not have.
    """
    heads, examples = _evidence_of(certificate, "impossible", _heads_and_examples, "upper-bound")
    ascending = len(examples) > 0 and (np.diff(examples) > 0).all()
    if heads < 1 or not ascending or examples[-1] >= dataset.num_examples:
        raise _not_about("impossible", "these data", (heads, len(examples)))
    return heads, examples[different_inputs(dataset.take(examples))]


def _impossible_numbers(certificate: Certificate, dataset: Dataset) -> StoredNumbers:
    """Return the numbers of `stored_examples`, with H and J of a certificate."""
    heads, examples = examples_of(certificate, dataset)
    return stored_examples(dataset, examples, heads)


def _impossible_evidence(
    known: StoredNumbers, certificate: Certificate, dataset: Dataset
) -> dict[str, Any]:
    """Return vectors, or words and their roots, and a key of fingerprints.

    Raises ParameterError for data of which the claim does not hold.
    """
    heads, total = known.sizes["H"], known.sizes["T"]
    contexts, width = known.arrays["contexts"], dataset.width
    vectors, pivots, zeros = _evidence_of(certificate, "impossible", _vectors, "upper-bound")
    tokens, differences = width - zeros, width - len(vectors)
    words, parts = vocabulary(contexts)
    roots = np.unique(parts, return_index=True)[1][parts].tolist()  # the first of each part
    joined = len(words) - len(set(roots))
    if len(words) >= tokens and joined >= differences:
        words, roots = words[:0], []  # they show nothing that vectors do not
    else:
        tokens, differences = min(tokens, len(words)), min(differences, joined)
    bound = tokens + (heads - 1) * differences
    if not 0 <= zeros <= len(vectors) <= width or bound >= total:
        raise _not_about("impossible", "these data", (heads, bound, total))
    base, start = _separating_key(contexts, known.arrays["queries"])
    return {
        "modulus": MODULUS, "base": base, "start": start, "bound": bound, "zeros": zeros,
        "vectors": vectors, "pivots": pivots, "words": words, "roots": roots,
    }  # fmt: skip


def _separating_key(contexts: Array, queries: Array) -> tuple[int, int]:
    """Return two numbers with which all fingerprints of examples (T, n, d), (T, d) are different.

    The fingerprint of an example is the product over its tokens of a polynomial with the entries of
    query and token as coefficients, modulo `MODULUS`. Raises ParameterError where none was found.
    """
    tokens, rows = _residues(contexts), _residues(queries)
    rng = np.random.default_rng(len(rows))
    for base, start in rng.integers(1, MODULUS, size=(_ATTEMPTS, 2)).tolist():
        state: Integers = np.full(len(rows), start)
        for j in range(rows.shape[1]):
            state = (state * base + rows[:, j]) % MODULUS
        found: Integers = np.ones(len(rows), dtype=np.int64)
        for i in range(tokens.shape[1]):
            each = state
            for j in range(tokens.shape[2]):
                each = (each * base + tokens[:, i, j]) % MODULUS
            found = found * each % MODULUS
        if len(np.unique(found)) == len(rows):
            return base, start
    raise ParameterError(
        f"{len(rows)} examples have no fingerprints modulo {MODULUS} that tell them apart",
        witness=len(rows),
        suggestion="different examples, and fewer of them",
    )


def _residues(array: Array) -> Integers:
    """Return the numbers of an array as integers times one power of two, modulo `MODULUS`."""
    integers, shifts = whole(array, modular.least_exponent(array))
    powers = np.array([pow(2, k, MODULUS) for k in range(int(shifts.max(initial=0)) + 1)])
    found: Integers = integers % MODULUS * powers[shifts] % MODULUS
    return found


def _heads_and_examples(evidence: dict[str, Any]) -> tuple[int, Integers]:
    return int(evidence["heads"]), _unpack(evidence["examples"])


def _vectors(evidence: dict[str, Any]) -> tuple[list[list[int]], list[int], int]:
    """Return vectors, their pivots, and how many of them are orthogonal to tokens."""
    vectors = [[int(x, 16) for x in vector] for vector in evidence["vectors"]]
    return vectors, [int(x) for x in evidence["pivots"]], int(evidence["zeros"])


IMPOSSIBLE = Theory(
    name="checker/upper_bound",
    claim="impossible",
    modules="Definitions attention_program attention_rank upper_bound_program upper_bound",
    definitions={
        **dict.fromkeys(["modulus", "base", "start"], "int63"),
        **dict.fromkeys(["n", "d", "T", "H", "bound", "zeros"], "nat"),
        **exponents(INPUT_ARRAYS),
        "contexts": "arrays",
        "queries": "array",
        "vectors": "integers",
        "pivots": "numbers",
        "words": "array",
        "roots": "numbers",
    },
    shares={"words": "contexts"},
    confirmed=lambda made: [
        "for all real W_Q and W_K of H = {H} heads rank Z <= {bound} on {T} stored examples, "
        "different inputs:".format_map(made.values),
        "  whichever are chosen, some targets are not memorized by any W_V, W_O and W_D",
    ],
    known_of=_impossible_numbers,
    evidence_of=_impossible_evidence,
    conclusion="all_three",
    tail=theorems(
        "Examples",
        """check_upper_bound modulus base start n d T H bound contexts queries zeros vectors
  pivots words roots""",
        """\
Let E (t : 'I_T) : 'M[R]_(n, d) :=
  stored_matrix R contexts_exponent n d (nth [::] contexts (t %% size contexts)).
Let Q : 'M[R]_(T, d) := stored_matrix R queries_exponent T d queries.
Theorem different_inputs (s t : 'I_T) : s != t -> ~ same_input E Q s t.
Proof. by move=> st; refine (check_upper_bound_different checked st). Qed.
Theorem rank_of_Z (W : 'I_H -> 'M[R]_d) : (\\rank (intermediate E Q W) <= bound)%N.
Proof. by refine (check_upper_bound_rank _ _ checked W). Qed.
Theorem misses_labels (dh dout : nat) (WQ WK : 'I_H -> 'M[R]_(d, dh)) : (0 < dout)%N ->
  exists Y : 'M[R]_(T, dout), forall dv WV WO WD,
    ~ memorizes (@Layer R d H dh dv dout WQ WK WV WO WD) E Q Y.
Proof. by move=> dout0; refine (check_upper_bound_sound _ _ checked WQ WK dout0). Qed.
""",
    )
    + "Definition all_three := (different_inputs, rank_of_Z, misses_labels).\n",
)


# *recites*: a stored decoder of integers recites stored texts.

# Additions of integers that a head makes for a token, over all: hours of Rocq's machine.
_MOST_STEPS = 10**10
_WHOLE = 2.0**53


def _recites_confirmed(instance: FilledTheory) -> list[str]:
    values = instance.values
    lengths, ((margin,),) = values["lengths"], values["margin"]
    positions = sum(int(length) - values["prompt"] + 1 for length in lengths)
    bound = float(Fraction(int(margin), 1 << values["margin_bits"]))
    return [
        f"at all {positions} positions of S = {len(lengths)} texts the next token has the largest "
        f"logit, by {bound!r} or more,",
        "  in real arithmetic, of the stored decoder",
    ]


def stored_decoder(decoder: Decoder, text: Text, bound: float) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: all weights, the texts and the least margin.

    U is given by its blocks: that of the token itself, and one for each head. Raises
    NotConfirmableError unless the decoder has integers, tokens of signs and saturated heads, and
    for more heads and tokens than Rocq can look at in hours.
    """
    decoder.require_same_tokens(text)
    weights = {name: _integers_of(name, array) for name, array in decoder.tensors.items()}
    heads, width, inner = weights["W_Q"].shape
    outputs = weights["U"].shape[1]
    steps = len(text) * heads * width * (2 * inner + outputs)
    if steps > _MOST_STEPS:
        raise NotConfirmableError(
            f"{len(text):,} tokens and {heads:,} heads take Rocq too long",
            witness=f"{steps:.1e} additions, and {_MOST_STEPS:.0e} are the most",
            suggestion="a shorter text, or no --rocq",
        )
    _require_saturated(decoder, text)
    readout = weights["U"].reshape(heads + 1, width, outputs)
    margin = Fraction(bound)
    arrays = {
        "margin": np.array([[margin.numerator]]),
        "embedding": weights["embedding"],
        "positions": weights["positions"],
        "query_weights": weights["W_Q"],
        "key_weights": weights["W_K"],
        "skip": readout[0],
        "readouts": readout[1:],
        "unembedding": weights["unembedding"],
        "lengths": text.lengths,
        "ids": text.ids,
    }
    sizes = {
        "d": width,
        "dh": inner,
        "H": heads,
        "k": outputs,
        "V": text.end,
        "window": decoder.layer.window or text.longest,
        "prompt": text.prompt,
        "margin_bits": margin.denominator.bit_length() - 1,
    }
    # Rocq counts tokens, lengths and room for sums in units, which take no more than a number.
    units = sizes["window"] * outputs * (heads + 1) * width
    units += int(text.ids.sum()) + int(text.lengths.sum())
    return StoredNumbers(arrays, sizes, units)


def _recites_numbers(certificate: Certificate, decoder: Decoder, text: Text) -> StoredNumbers:
    """Return the numbers of `stored_decoder`, with the margin of a certificate."""
    return stored_decoder(decoder, text, _evidence_of(certificate, "recites", _margin_of, "recite"))


def _margin_of(evidence: dict[str, Any]) -> float:
    """The margin that evidence states: a tie is not a lead."""
    margin = _bound_of(evidence)
    if margin == 0.0:
        raise ValueError(f"the bound is {margin!r}")
    return margin


def _integers_of(name: str, array: Array) -> Array:
    """Return the integers that an array holds."""
    if not ((np.abs(array) < _WHOLE) & (np.rint(array) == array)).all():
        raise NotConfirmableError(
            "the claim recites is confirmed for decoders of integers",
            witness=f"{name} has other entries",
            suggestion="a decoder of build_decoder(text, parameters='few'), or no --rocq",
        )
    integers: Array = array.astype(np.int64)
    return integers


def _require_saturated(decoder: Decoder, text: Text) -> None:
    """Require tokens of signs, and heads whose largest logit leads by 128 or more."""
    weights = decoder.layer.query_weights, decoder.layer.key_weights
    for ids in np.split(text.ids, np.cumsum(text.lengths)[:-1]):
        try:
            picks(decoder.embedded(ids[np.newaxis])[0], *weights, decoder.layer.window)
        except ConstructiveError as error:
            raise NotConfirmableError(
                f"the claim recites is confirmed for saturated heads: {error.problem}",
                witness=error.witness,
                suggestion="a decoder of build_decoder(text, parameters='few'), or no --rocq",
            ) from error


RECITES = Theory(
    name="checker/recites_checker",
    claim="recites",
    modules="Definitions decoders recites_program recites_checker",
    definitions={
        **dict.fromkeys(["d", "dh", "H", "k", "V", "window", "prompt", "margin_bits"], "nat"),
        **dict.fromkeys(["margin", "embedding", "positions"], "integers"),
        **dict.fromkeys(["query_weights", "key_weights"], "blocks"),
        "skip": "integers",
        "readouts": "blocks",
        "unembedding": "integers",
        **dict.fromkeys(["lengths", "ids"], "numbers"),
    },
    confirmed=_recites_confirmed,
    known_of=_recites_numbers,
    conclusion="recites_all",
    tail="Definition all_texts : texts := reshape lengths ids.\n"
    "Definition least_margin : Z := nth Z0 (nth [::] margin 0%N) 0%N.\n"
    + theorems(
        "Decoder",
        """check_recites d dh H k V window prompt least_margin margin_bits embedding positions
  query_weights key_weights skip readouts unembedding all_texts""",
        """\
Let D := stored_decoder R d H dh k V window embedding positions query_weights key_weights skip
  readouts unembedding.
Let m := stored_margin R least_margin margin_bits.
Theorem recites_all : 0 < m /\\ forall text, text \\in all_texts -> recites D text prompt m.
Proof. exact: check_recites_sound checked. Qed.
""",
    ),
)
