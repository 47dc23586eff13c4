(* proofs/15-contexts.md: Theorem 9 for almost all queries, and for almost all queries and       *)
(* weights.                                                                                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Almost_all readout theorem_8 theorem_9
  rank_on_curves null_sets almost_all_ranks.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem theorem_9_almost_all : Theorem9_almost_all.
Proof.
move=> R d T H n E H0; split=> [a q|dh].
- move=> Ea q0 qN; have [Q r] := theorem_9_queries H0 Ea q0 qN.
  have := @almost_all_ranks R [finType of 'I_T * 'I_d] d T H n (fun t _ => E t)
    (fun x => \matrix_(t, j) x (t, j)) _ _ 1 (fun h _ => q h) (fun _ _ => a) (capacity E H).
  set reach := (fun x => _ <= _)%N => almost.
  apply: almost_all_imply (almost _ _ _ _ _) => [x le|t||h|h|]; try exact: of_numbers_fixed.
  + by apply: anti_leq; rewrite [X in X && _]theorem_8; exact: le.
  + exact: of_numbers_matrix.
  exists (fun i => Q i.1 i.2); apply: eq_leq; apply: etrans (esym r) (congr1 mxrank _).
  by apply: intermediates_eq => //; apply/matrixP => t j; rewrite mxE.
move=> d1 dh0; have [_ [Q [a [b r]]]] := theorem_9_largest E d1 H0.
have [WQ [WK [_ _ W]]] := wide_rank_one a b dh0.
pose I := [finType of 'I_T * 'I_d + bool * 'I_H * ('I_d * 'I_dh)].
have := @almost_all_ranks R I d T H n (fun t _ => E t) (fun x => \matrix_(t, j) x (inl (t, j)))
  _ _ dh (fun h x => \matrix_(i, j) x (inr (true, h, (i, j))))
  (fun h x => \matrix_(i, j) x (inr (false, h, (i, j)))) (capacity E H).
set reach := (fun x => _ <= _)%N => almost.
apply: almost_all_imply (almost _ _ _ _ _) => [x le|t||h|h|]; try exact: of_numbers_matrix.
- by apply: anti_leq; rewrite [X in X && _]theorem_8; exact: le.
- exact: of_numbers_fixed.
exists (fun i => match i with
  | inl (t, j) => Q t j
  | inr (true, h, (i, j)) => WQ h i j
  | inr (false, h, (i, j)) => WK i j
  end).
apply: eq_leq; apply: etrans (esym r) (congr1 mxrank _).
rewrite -W; apply: intermediates_eq => // [|h].
  by apply/matrixP => t j; rewrite mxE.
by congr (_ *m _^T); apply/matrixP => i j; rewrite mxE.
Qed.
