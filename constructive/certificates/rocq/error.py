"""The claim *error* for Rocq: |f(E_t, e_t) - y_t| <= epsilon for a stored layer on stored data."""

import math
from fractions import Fraction

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.certificates.rocq.definitions import (
    IN_REALS,
    OF_EXAMPLES,
    FilledTheory,
    NotConfirmableError,
    StoredNumbers,
    Theory,
    bound_of,
    evidence_of,
    exponents,
    sizes_of,
    theorems,
)
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer

ARRAYS = (
    "contexts", "queries", "query_weights", "key_weights", "value_weights", "output_weights",
    "readout_weights", "targets", "epsilon",
)  # fmt: skip
# How exp is enclosed, and averages: what Rocq proves does not depend on them.
PRECISION = "digits", "halvings", "terms", "places"
DIGIT = 31  # Bits of a digit of the integers of Rocq's program
_MATRICES = {"queries", "readout_weights", "targets", "epsilon"}
_GUARD = 24  # Bits beyond those that the sizes of tokens and weights need
_MOST_BITS = 1 << 14


def confirmed(instance: FilledTheory) -> list[str]:
    """Return in lines what Rocq has proved where it accepts the files."""
    epsilon = float(instance.values["epsilon"][0, 0])
    return [
        f"max |f(E_t, e_t) - y_t| <= {epsilon!r} of the stored layer on {instance.values['T']} "
        "examples, in real arithmetic"
    ]


THEORY = Theory(
    name="checker/error_checker",
    claim="error",
    modules="Definitions attention_program attention_residues attention_rank error_checker",
    definitions={
        **dict.fromkeys(PRECISION, "nat"),
        **dict.fromkeys(["n", "d", "dh", "dv", "dout", "T", "H"], "nat"),
        **exponents(ARRAYS),
        **{name: "array" if name in _MATRICES else "arrays" for name in ARRAYS},
    },
    confirmed=confirmed,
    conclusion="error_bound",
    tail=OF_EXAMPLES
    + "Definition most : dyadic := nth zero_dyadic (nth [::] epsilon 0%N) 0%N.\n"
    + theorems(
        "Layer",
        """check_stored_error digits halvings terms places contexts_exponent queries_exponent
  query_weights_exponent key_weights_exponent value_weights_exponent output_weights_exponent
  readout_weights_exponent targets_exponent epsilon_exponent n d dh dv dout T H of_examples queries
  query_weights key_weights value_weights output_weights readout_weights targets most""",
        IN_REALS
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


def known_of(certificate: Certificate, memorizer: Memorizer, dataset: Dataset) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: all weights, the data and epsilon.

    W_O is given by its H blocks, one for each head, as they lie one above the other. Raises
    NotConfirmableError for numbers beyond float64, and for W_O of another shape than H d_v x d_v.
    """
    layer, epsilon = memorizer.layer, evidence_of(certificate, "error", bound_of, "certify")
    shape = ""
    if isinstance(layer, AttentionLayer):
        shape = f", W_O {' x '.join(map(str, layer.output_weights.shape))}"
    if not isinstance(layer, AttentionLayer) or layer.output_weights.shape[1] != layer.value_dim:
        raise NotConfirmableError(
            "the claim error is confirmed for float layers with W_O of shape H d_v x d_v",
            witness=type(layer).__name__ + shape,
            suggestion="check without --rocq",
        )
    sizes = sizes_of(layer, dataset)
    targets = np.asarray(dataset.targets).reshape(dataset.num_examples, -1)
    blocks = layer.output_weights.reshape(layer.num_heads, layer.value_dim, -1)
    arrays = (
        dataset.contexts_of(slice(None)), dataset.queries, layer.query_weights, layer.key_weights,
        layer.value_weights, blocks, layer.readout_weights, targets, np.array([[epsilon]]),
    )  # fmt: skip
    sizes |= {"dv": layer.value_dim, "dout": targets.shape[1]}
    return StoredNumbers(dict(zip(ARRAYS, arrays, strict=True)), sizes)


def instance_of(certificate: Certificate, memorizer: Memorizer, dataset: Dataset) -> FilledTheory:
    """Return what Rocq has to check; of the certificate only epsilon is taken."""
    known = known_of(certificate, memorizer, dataset)
    return known.filled(THEORY, **dict(zip(PRECISION, precision(known), strict=True)))


def precision(known: StoredNumbers) -> tuple[int, int, int, int]:
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
    while (1 << DIGIT * digits) // factorial + 2 > 16 ** (terms + 1):
        terms += 1
        factorial *= terms
    unit = modular.least_exponent(arrays["contexts"]) - math.log2(largest)
    return digits, halvings, terms, _digits(max(0, accurate + math.ceil(unit)))


def _digits(bits: int) -> int:
    return -(-bits // DIGIT)
