(* proofs/10-exact-rank.md: what Theorem 4 says, that one prime proves a rank. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Cleared.

Variables (n d T H : nat).

(* Integer tokens, and integer logits: those of example t in head h are delta k + const. *)
Variables (E : 'I_T -> 'M[int]_(n, d)) (k : 'I_T -> 'I_H -> 'I_n -> nat).

Definition denominator t h : {poly int} := \sum_i 'X^(k t h i).
Definition numerator t h j : {poly int} := \sum_i (E t i j)%:P * 'X^(k t h i).

(* Z with its row t multiplied by the denominators of all heads, as polynomials in exp(delta) *)
Definition cleared : 'M[{poly int}]_(T, H * d) :=
  \matrix_t mxvec (\matrix_(h, j) (numerator t h j * \prod_(h' | h' != h) denominator t h')).

End Cleared.

(* A polynomial with integer coefficients at a point of any ring *)
Definition evaluate (F : comRingType) (x : F) (q : {poly int}) : F := (map_poly intr q).[x].

Definition transcendental (R : realType) (x : R) : Prop :=
  forall q : {poly int}, q != 0 -> evaluate x q != 0.

(* Theorem 4, with denominators cleared: p need not be prime ('F_p is the field of its least     *)
(* prime factor), and no denominator need be different from zero at the point a. The step delta  *)
(* of logits is any rational number other than zero; on the page it is a power of two.           *)
Definition Theorem4 : Prop :=
  forall (R : realType) (n d T H : nat)
      (E : 'I_T -> 'M[int]_(n, d)) (k : 'I_T -> 'I_H -> 'I_n -> nat)
      (Er : 'I_T -> 'M[R]_(n, d)) (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) (sigma : R)
      (delta : rat) (c : 'I_T -> 'I_H -> R) (p : nat) (a : 'F_p),
    (0 < n)%N -> sigma != 0 -> delta != 0 -> (forall t, Er t = sigma *: map_mx intr (E t)) ->
    (forall t h i, (Er t *m W h *m (row t Q)^T) i 0 = (k t h i)%:R * ratr delta + c t h) ->
    row_free (map_mx (evaluate a) (cleared E k)) ->
  \rank (intermediate Er Q W) = T.
