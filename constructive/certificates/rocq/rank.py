"""The claim *rank* for Rocq: rank Z = T of stored weights on stored data (Theorem 4)."""

from typing import Any

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.certificates.rocq.definitions import (
    IN_REALS,
    OF_EXAMPLES,
    FilledTheory,
    StoredNumbers,
    Theory,
    cleared,
    evidence_of,
    exponents,
    not_about,
    right_inverse,
    sizes_of,
    theorems,
    unpack,
)
from constructive.data.dataset import Dataset
from constructive.exact import modular
from constructive.exact.softmax import Point
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.arrays import Integers

ARRAYS = "contexts", "queries", "query_weights", "key_weights"


def confirmed(instance: FilledTheory) -> list[str]:
    """Return in lines what Rocq has proved where it accepts the files."""
    return [
        f"rank Z = T = {instance.values['T']} of the stored numbers, as real numbers;",
        "  so these W_Q and W_K memorize every labelling",
    ]


THEORY = Theory(
    name="checker/attention_rank",
    claim="rank",
    modules="Definitions attention_program attention_rank",
    definitions={
        **dict.fromkeys(["modulus", "order", "point"], "int63"),
        **dict.fromkeys(["n", "d", "dh", "T", "H"], "nat"),
        **exponents(ARRAYS),
        "contexts": "arrays",
        "queries": "array",
        "query_weights": "arrays",
        "key_weights": "arrays",
        "columns": "masks",
        "inverse": "inverses",
    },
    confirmed=confirmed,
    conclusion="both",
    tail=OF_EXAMPLES
    + theorems(
        "Layer",
        """check_attention modulus order point n d dh T H of_examples queries query_weights
  key_weights columns inverse""",
        IN_REALS
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


def known_of(
    _certificate: Certificate | None, memorizer: Memorizer, dataset: Dataset
) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: W_Q, W_K and the data."""
    layer = floats_of(memorizer.layer).leading
    sizes, contexts = sizes_of(layer, dataset), dataset.contexts_of(slice(None))
    arrays = contexts, dataset.queries, layer.query_weights, layer.key_weights
    return StoredNumbers(dict(zip(ARRAYS, arrays, strict=True)), sizes, dataset.num_examples**2)


def instance_of(certificate: Certificate, memorizer: Memorizer, dataset: Dataset) -> FilledTheory:
    """Return what Rocq has to check; of the certificate only p, a and the columns are taken.

    Raises ParameterError for weights and data of which the claim *rank* does not hold.
    """
    prime, value, chosen = evidence_of(certificate, "rank", _read, "certify --claims rank")
    known = known_of(certificate, memorizer, dataset)
    layer = floats_of(memorizer.layer).leading
    fits = 1 < value < prime < modular.LARGEST_MODULUS and len(chosen) == dataset.num_examples
    if not (fits and (np.diff(chosen) > 0).all() and chosen[-1] < layer.num_heads * layer.width):
        raise not_about("rank", "these weights and data", (prime, value, len(chosen)))
    inverse = right_inverse(cleared(layer, dataset, Point(prime, value)), chosen, prime)
    marks = np.zeros((layer.num_heads, layer.width), dtype=bool)
    marks.reshape(-1)[chosen] = True
    ends = np.cumsum(marks.sum(axis=1))[:-1]
    parts = [[part.tolist() for part in np.split(x, ends)] for x in inverse.T]
    return known.filled(
        THEORY, modulus=prime, order=prime - 1, point=value, columns=marks.tolist(), inverse=parts
    )


def _read(evidence: dict[str, Any]) -> tuple[int, int, Integers]:
    """Return p, a and C, in ascending order."""
    return int(evidence["prime"]), int(evidence["value"]), np.sort(unpack(evidence["columns"]))
