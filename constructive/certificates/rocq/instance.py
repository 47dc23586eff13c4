"""The file which Rocq reads: weights and data as integers and powers of two, and theorems on them.

A float is an integer m <= 2^53 times 2^s times the power of two of its array, exactly; the file
says `Plus m s` or `Minus m s`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from constructive.exact import modular
from constructive.support.arrays import Array

ARRAYS = "contexts", "queries", "query_weights", "key_weights"
DEFINITIONS = {
    **dict.fromkeys(["modulus", "order", "point"], "int63"),
    **dict.fromkeys(["n", "d", "dh", "T", "H"], "nat"),
    **{f"{name}_exponent": "exponent" for name in ARRAYS},
    "contexts": "arrays",
    "queries": "array",
    "query_weights": "arrays",
    "key_weights": "arrays",
    "columns": "masks",
    "inverse": "inverses",
}
"""The definitions of the file in their order, with their types."""
SHARED = "shared_context"
COPIES = f"Definition contexts : arrays := nseq T {SHARED}."
MANTISSA = 53

HEAD = """\
From Coq Require Import Uint63.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Exact_rank attention_program attention_rank.
Import GRing.Theory.
Local Open Scope ring_scope.
"""
TAIL = """\
Lemma checked : check_attention modulus order point n d dh T H contexts queries query_weights
  key_weights columns inverse = true.
Proof. vm_cast_no_check (erefl true). Qed.
Section Layer.
Variable R : realType.
Let E (t : 'I_T) : 'M_(n, d) := stored_matrix R contexts_exponent n d (nth [::] contexts t).
Let Q : 'M_(T, d) := stored_matrix R queries_exponent T d queries.
Let WQ (h : 'I_H) : 'M_(d, dh) :=
  stored_matrix R query_weights_exponent d dh (nth [::] query_weights h).
Let WK (h : 'I_H) : 'M_(d, dh) :=
  stored_matrix R key_weights_exponent d dh (nth [::] key_weights h).
Hypothesis hermite : transcendental (expR (2%:R ^ (contexts_exponent + key_weights_exponent +
  query_weights_exponent + queries_exponent)) : R).
Theorem rank_of_Z : \\rank (intermediate E Q (fun h => WK h *m (WQ h)^T)) = T.
Proof. exact: check_attention_sound checked hermite. Qed.
Theorem memorizes_all_labels (dv dout : nat) (Y : 'M[R]_(T, dout)) : (dout <= dv)%N ->
  exists WV WO WD, memorizes (@Layer R d H dh dv dout WQ WK WV WO WD) E Q Y.
Proof. exact: check_attention_memorizes checked hermite _ _ _. Qed.
End Layer.
Definition both := (rank_of_Z, memorizes_all_labels).
Print Assumptions both.
"""


@dataclass(frozen=True, eq=False)
class Instance:
    """A layer's W_Q and W_K, the data, and a right inverse of T columns of Z modulo p.

    Attributes:
        contexts: (T, n, d), or (n, d) for one which all examples share
        queries: (T, d)
        query_weights: W_Q (H, d, d_h)
        key_weights: W_K (H, d, d_h)
        prime: p
        value: a, at which Z is evaluated modulo p
        columns: T columns of Z(a), ascending
        inverse: (T, T), of these columns, times the softmax denominators, modulo p
    """

    contexts: Array
    queries: Array
    query_weights: Array
    key_weights: Array
    prime: int
    value: int
    columns: npt.NDArray[np.int64]
    inverse: npt.NDArray[np.int64]

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by their names in the file."""
        return {name: getattr(self, name) for name in ARRAYS}


def write(instance: Instance) -> str:
    """The text of the file.

    Args:
        instance: what it is about

    Example:
        >>> ones = np.ones((1, 1, 1))
        >>> tiny = Instance(ones, ones[0], ones, ones, 7, 3, np.array([0]), np.array([[1]]))
        >>> for line in write(tiny).splitlines()[6:22]:
        ...     print(line)
        Definition modulus : int63 := 7%uint63.
        Definition order : int63 := 6%uint63.
        Definition point : int63 := 3%uint63.
        Definition n : nat := 1%N.
        Definition d : nat := 1%N.
        Definition dh : nat := 1%N.
        Definition T : nat := 1%N.
        Definition H : nat := 1%N.
        Definition contexts_exponent : exponent := (- 52%:Z)%R.
        Definition queries_exponent : exponent := (- 52%:Z)%R.
        Definition query_weights_exponent : exponent := (- 52%:Z)%R.
        Definition key_weights_exponent : exponent := (- 52%:Z)%R.
        Definition contexts : arrays := [::[::[::Plus 4503599627370496 0]]]%uint63.
        Definition queries : array := [::[::Plus 4503599627370496 0]]%uint63.
        Definition query_weights : arrays := [::[::[::Plus 4503599627370496 0]]]%uint63.
        Definition key_weights : arrays := [::[::[::Plus 4503599627370496 0]]]%uint63.
    """
    (heads, width, inner), total = instance.query_weights.shape, len(instance.queries)
    chosen = np.zeros(heads * width, dtype=bool)
    chosen[instance.columns] = True
    chosen = chosen.reshape(heads, width)
    masks = [["true" if x else "false" for x in row] for row in chosen]
    ends = np.cumsum(chosen.sum(axis=1))[:-1]
    inverse = [[part.tolist() for part in np.split(column, ends)] for column in instance.inverse.T]
    values = {
        "modulus": f"{instance.prime}%uint63",
        "order": f"{instance.prime - 1}%uint63",
        "point": f"{instance.value}%uint63",
        "n": f"{instance.contexts.shape[-2]}%N",
        "d": f"{width}%N",
        "dh": f"{inner}%N",
        "T": f"{total}%N",
        "H": f"{heads}%N",
        **{f"{name}_exponent": _signed(array) for name, array in instance.arrays.items()},
        **{name: dyadic(array) for name, array in instance.arrays.items()},
        "columns": _listed(masks),
        "inverse": f"{_listed(inverse)}%uint63",
    }
    lines = [f"Definition {name} : {kind} := {values[name]}." for name, kind in DEFINITIONS.items()]
    if instance.contexts.ndim == 2:
        place = list(DEFINITIONS).index("contexts")
        lines[place] = f"Definition {SHARED} : array := {values['contexts']}.\n{COPIES}"
    return "\n".join([HEAD + lines[0], *lines[1:], TAIL])


def dyadic(array: Array) -> str:
    """Floats as integers and powers of two, beside that of the array.

    Args:
        array: of two axes or more

    Example:
        >>> dyadic(np.array([[1.0, -0.5, 0.0]]))
        '[::[::Plus 4503599627370496 1;Minus 4503599627370496 0;Plus 0 0]]%uint63'
    """
    mantissas, powers = np.frexp(array.astype(np.float64, copy=False))
    whole = np.ldexp(mantissas, MANTISSA).astype(np.int64)
    shifts = powers.astype(np.int64) - MANTISSA - modular.least_exponent(array)
    shifts[whole == 0] = 0
    texts = np.where(whole < 0, "Minus ", "Plus ").astype(object)
    for part in (np.abs(whole).astype(str), " ", shifts.astype(str)):
        texts = texts + (part if isinstance(part, str) else part.astype(object))
    return f"{_listed(texts.tolist())}%uint63"


def _listed(rows: object) -> str:
    """Lists in lists as Rocq writes them: [:: a; b]."""
    return f"[::{';'.join(map(_listed, rows))}]" if isinstance(rows, list) else str(rows)


def _signed(array: Array) -> str:
    exponent = modular.least_exponent(array)
    return f"({'- ' if exponent < 0 else ''}{abs(exponent)}%:Z)%R"
