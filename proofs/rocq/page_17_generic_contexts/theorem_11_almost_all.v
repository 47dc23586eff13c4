(* proofs/17-generic-contexts.md: Theorem 11 for almost all contexts, and for almost all contexts *)
(* and weights.                                                                                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts Almost_all rank_on_curves
  null_sets almost_all_ranks theorem_11.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem theorem_11_almost_all : Theorem11_almost_all.
Proof.
move=> R d T H n Q n1; split=> [W|dh].
- move=> wi pairs; have [[E r] _ _ _] := theorem_11 n1 wi pairs.
  pose I := [finType of {t : 'I_T & ('I_(n t) * 'I_d)%type}].
  have := @almost_all_ranks R I d T H n (fun t x => \matrix_(i, j) x (existT _ t (i, j)))
    (fun=> Q) _ _ d (fun _ _ => 1%:M) (fun h _ => W h) (minn T (H * d)).
  set reach := (fun x => _ <= _)%N => almost.
  have WE : (fun h => W h *m (1%:M)^T) = W by apply/funext => h; rewrite trmx1 mulmx1.
  apply: almost_all_imply (almost _ _ _ _ _) => [x|t||h|h|]; try exact: of_numbers_fixed.
  + rewrite /reach /= WE => le; apply: anti_leq.
    by rewrite [X in X && _]leq_min rank_leq_row rank_leq_col.
  + exact: of_numbers_matrix.
  exists (fun i => E (tag i) (tagged i).1 (tagged i).2).
  rewrite /reach /= WE -r; apply: eq_leq; congr (\rank _).
  by apply: intermediates_eq => // t; apply/matrixP => i j; rewrite mxE.
move=> dh0 Q0; have [[E [WQ [WK r]]] _] := theorem_11_weights H dh0 n1 Q0.
pose I := [finType of {t : 'I_T & ('I_(n t) * 'I_d)%type} + bool * 'I_H * ('I_d * 'I_dh)].
have := @almost_all_ranks R I d T H n (fun t x => \matrix_(i, j) x (inl (existT _ t (i, j))))
  (fun=> Q) _ _ dh (fun h x => \matrix_(i, j) x (inr (true, h, (i, j))))
  (fun h x => \matrix_(i, j) x (inr (false, h, (i, j)))) (minn T (H * d)).
set reach := (fun x => _ <= _)%N => almost.
apply: almost_all_imply (almost _ _ _ _ _) => [x|t||h|h|]; try exact: of_numbers_matrix.
- move=> le; apply: anti_leq; rewrite [X in X && _]leq_min rank_leq_row rank_leq_col; exact: le.
- exact: of_numbers_fixed.
exists (fun i => match i with
  | inl k => E (tag k) (tagged k).1 (tagged k).2
  | inr (true, h, (i, j)) => WQ h i j
  | inr (false, h, (i, j)) => WK h i j
  end).
rewrite /reach -r; apply: eq_leq; congr (\rank _); apply: intermediates_eq => // *.
  by apply/matrixP => i j; rewrite mxE.
by congr (_ *m _^T); apply/matrixP => i j; rewrite mxE.
Qed.
