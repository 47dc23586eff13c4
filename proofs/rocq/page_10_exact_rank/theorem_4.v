(* proofs/10-exact-rank.md: Theorem 4, full row rank modulo one prime, at one point, proves that *)
(* of the real Z.                                                                               *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax readout hermite.
From Memorization Require Export Exact_rank.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* A minor which one image of a ring shows to be nonzero is nonzero in each injective image. *)
Lemma row_free_transfer (A0 : comRingType) (F1 F2 : fieldType) (phi : {rmorphism A0 -> F1})
    (psi : {rmorphism A0 -> F2}) m n (A : 'M[A0]_(m, n)) :
  (forall c, c != 0 -> psi c != 0) -> row_free (map_mx phi A) -> row_free (map_mx psi A).
Proof.
move=> psi0 Af; have Af' : row_full (map_mx phi A)^T by rewrite /row_full mxrank_tr.
have := fullrowsub_unit Af'; set f := fullrankfun Af'.
rewrite map_trmx -map_mxsub unitmxE det_map_mx unitfE => d0.
have : psi (\det (rowsub f A^T)) != 0 by apply/psi0/(contraNneq _ d0) => ->; rewrite rmorph0.
rewrite -det_map_mx -unitfE -unitmxE map_mxsub -map_trmx => u.
have mr : (m <= \rank (rowsub f (map_mx psi A)^T))%N.
  by move: u; rewrite -row_free_unit /row_free eqn_leq => /andP[].
rewrite /row_free -mxrank_tr eqn_leq rank_leq_col (leq_trans mr) //.
by rewrite rowsubE mxrankM_maxr.
Qed.

(* For any step delta with transcendental exp(delta) *)
Lemma rank_of_step (R : realType) (n d T H : nat) (E : 'I_T -> 'M[int]_(n, d))
    (k : 'I_T -> 'I_H -> 'I_n -> nat) (Er : 'I_T -> 'M[R]_(n, d)) (Q : 'M[R]_(T, d))
    (W : 'I_H -> 'M[R]_d) (sigma delta : R) (c : 'I_T -> 'I_H -> R) (p : nat) (a : 'F_p) :
  (0 < n)%N -> sigma != 0 -> transcendental (expR delta) ->
  (forall t, Er t = sigma *: map_mx intr (E t)) ->
  (forall t h i, (Er t *m W h *m (row t Q)^T) i 0 = (k t h i)%:R * delta + c t h) ->
  row_free (map_mx (evaluate a) (cleared E k)) -> \rank (intermediate Er Q W) = T.
Proof.
move=> n0 s0 tr ErE kE cf; set x := expR delta in tr.
pose phi := [rmorphism of horner_eval a \o map_poly (intr : int -> 'F_p)].
pose psi := [rmorphism of horner_eval x \o map_poly (intr : int -> R)].
have {}cf : row_free (map_mx psi (cleared E k)) by
  apply: (@row_free_transfer _ _ _ phi psi _ _ _ tr) cf.
have eD t h : psi (denominator k t h) = \sum_i x ^+ k t h i.
  by rewrite rmorph_sum; apply: eq_bigr => i _; rewrite /= map_polyXn /horner_eval hornerXn.
have eN t h j : psi (numerator E k t h j) = \sum_i (E t i j)%:~R * x ^+ k t h i.
  rewrite rmorph_sum; apply: eq_bigr => i _.
  by rewrite rmorphM /= map_polyC map_polyXn /horner_eval hornerXn hornerC.
pose D t := \prod_h psi (denominator k t h).
suff zE : map_mx psi (cleared E k) = diag_mx (\row_t (D t / sigma)) *m intermediate Er Q W.
  apply/eqP; rewrite eqn_leq rank_leq_row /= -[X in (X <= _)%N](eqP cf) zE; exact: mxrankM_maxr.
rewrite mul_diag_mx; apply/matrixP => t hj; case/mxvec_indexP: hj => h j.
rewrite [LHS]mxE [cleared _ _ _ _]mxE mxvecE [fun_of_matrix _ h j]mxE [RHS]mxE
  [intermediate _ _ _ _ _]mxE mxvecE.
have d0 h' : psi (denominator k t h') != 0.
  rewrite eD gt_eqF //; have := expsum_gt0 (\col_i ((k t h' i)%:R * delta)) n0.
  by congr (0 < _); apply: eq_bigr => i _; rewrite mxE expRMm.
have sE i : softmax (Er t *m W h *m (row t Q)^T) i 0 = x ^+ k t h i / psi (denominator k t h).
  rewrite mxE kE eD; under [X in _ / X]eq_bigr do rewrite kE expRD expRMm.
  by rewrite -mulr_suml expRD expRMm -mulf_div divff ?mulr1 // gt_eqF ?expR_gt0.
have hE : head (Er t) (W h) (row t Q) 0 j = sigma *
  (psi (numerator E k t h j) / psi (denominator k t h)).
  rewrite /head mxE eN mulr_suml mulr_sumr; apply: eq_bigr => i _.
  by rewrite [_^T _ _]mxE sE ErE [X in _ * X]mxE [X in _ * (_ * X)]mxE [LHS]mulrC -!mulrA.
rewrite rmorphM rmorph_prod [(\row__ _) _ _]mxE [(\matrix__ _) h j]mxE hE [RHS]mulrA divfK //.
have -> : D t = psi (denominator k t h) * \prod_(i | i != h) psi (denominator k t i)
  by rewrite /D (bigD1 h).
by rewrite [RHS]mulrC -mulrA mulKf.
Qed.

Theorem theorem_4 : Theorem4.
Proof.
move=> R n d T H E k Er Q W sigma delta c p a n0 s0 d0 ErE kE; apply: rank_of_step n0 s0 _ ErE kE.
exact: hermite.
Qed.
