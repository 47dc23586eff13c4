"""The claim *impossible* for Rocq: stored data hold fewer inputs than they are (Theorem 8)."""

from typing import Any

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.certificates.rocq.definitions import (
    FilledTheory,
    StoredNumbers,
    Theory,
    evidence_of,
    exponents,
    not_about,
    theorems,
    unpack,
    whole,
)
from constructive.data.dataset import Dataset, different_inputs, token_numbers
from constructive.exact import modular
from constructive.support.arrays import Array, Integers, components
from constructive.support.errors import ParameterError

ARRAYS = "contexts", "queries"
MODULUS = (1 << 31) - 1  # Of fingerprints, which tell inputs apart
_ATTEMPTS = 32


def confirmed(instance: FilledTheory) -> list[str]:
    """Return in lines what Rocq has proved where it accepts the files."""
    heads, bound, total = (instance.values[name] for name in ("H", "bound", "T"))
    return [
        f"for all real weights of H = {heads} heads rank Z <= {bound} on {total} stored examples, "
        "different inputs:",
        "  whatever W_Q and W_K are, some labels are not memorized by any W_V, W_O and W_D",
    ]


THEORY = Theory(
    name="checker/upper_bound",
    claim="impossible",
    modules="Definitions attention_program attention_rank upper_bound_program upper_bound",
    definitions={
        **dict.fromkeys(["modulus", "base", "start"], "int63"),
        **dict.fromkeys(["n", "d", "T", "H", "bound", "zeros"], "nat"),
        **exponents(ARRAYS),
        "contexts": "arrays",
        "queries": "array",
        "vectors": "integers",
        "pivots": "numbers",
        "words": "array",
        "roots": "numbers",
    },
    shares={"words": "contexts"},
    confirmed=confirmed,
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


def stored(dataset: Dataset, examples: Integers, num_heads: int) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: examples J of the data, ascending."""
    part = dataset.take(examples)
    contexts = part.contexts[np.newaxis] if part.shared_context else part.contexts
    sizes = {"n": part.context_size, "d": part.width, "T": len(examples), "H": num_heads}
    return StoredNumbers({"contexts": contexts, "queries": part.queries}, sizes)


def examples_of(certificate: Certificate, dataset: Dataset) -> tuple[int, Integers]:
    """Return H, and the examples J of the claim *impossible*; those that are one input, once.

    Raises ParameterError for examples that these data do not have.
    """
    heads, examples = evidence_of(certificate, "impossible", _heads_and_examples, "upper-bound")
    ascending = len(examples) > 0 and (np.diff(examples) > 0).all()
    if heads < 1 or not ascending or examples[-1] >= dataset.num_examples:
        raise not_about("impossible", "these data", (heads, len(examples)))
    return heads, examples[different_inputs(dataset.take(examples))]


def known_of(certificate: Certificate, dataset: Dataset) -> StoredNumbers:
    """Return the numbers of `stored`, with H and J of the claim *impossible* of a certificate."""
    heads, examples = examples_of(certificate, dataset)
    return stored(dataset, examples, heads)


def instance_of(certificate: Certificate, dataset: Dataset) -> FilledTheory:
    """Return what Rocq has to check; of the certificate only H, J and the vectors are taken.

    Words, their roots and a key of fingerprints are made here. Raises ParameterError for data of
    which the claim does not hold.
    """
    known = known_of(certificate, dataset)
    heads, total = known.sizes["H"], known.sizes["T"]
    contexts, width = known.arrays["contexts"], dataset.width
    vectors, pivots, zeros = evidence_of(certificate, "impossible", _vectors, "upper-bound")
    tokens, differences = width - zeros, width - len(vectors)
    words, roots = vocabulary(contexts)
    joined = sum(root != k for k, root in enumerate(roots))
    if len(words) >= tokens and joined >= differences:
        words, roots = words[:0], []  # they show nothing that vectors do not
    else:
        tokens, differences = min(tokens, len(words)), min(differences, joined)
    bound = tokens + (heads - 1) * differences
    if not 0 <= zeros <= len(vectors) <= width or bound >= total:
        raise not_about("impossible", "these data", (heads, bound, total))
    base, start = separating_key(contexts, known.arrays["queries"])
    return known.filled(
        THEORY, modulus=MODULUS, base=base, start=start, bound=bound, zeros=zeros,
        vectors=vectors, pivots=pivots, words=words, roots=roots,
    )  # fmt: skip


def vocabulary(contexts: Array) -> tuple[Array, list[int]]:
    """Return the different tokens (V, d), and for each one the first that contexts join it with."""
    numbers = token_numbers(contexts)
    _, first = np.unique(numbers, return_index=True)
    words = contexts.reshape(-1, contexts.shape[2])[first] + 0.0
    edges = np.stack([np.repeat(numbers[:, :1], numbers.shape[1], axis=1), numbers]).reshape(2, -1)
    parts = components(edges, len(words))
    _, least = np.unique(parts, return_index=True)
    return words, [int(k) for k in least[parts]]


def separating_key(contexts: Array, queries: Array) -> tuple[int, int]:
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
    return int(evidence["heads"]), unpack(evidence["examples"])


def _vectors(evidence: dict[str, Any]) -> tuple[list[list[int]], list[int], int]:
    """Return vectors, their pivots, and how many of them are orthogonal to tokens."""
    vectors = [[int(x, 16) for x in vector] for vector in evidence["vectors"]]
    return vectors, [int(x) for x in evidence["pivots"]], int(evidence["zeros"])
