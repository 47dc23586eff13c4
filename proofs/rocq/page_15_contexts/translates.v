(* proofs/15-contexts.md: Proposition 15.5. Contexts which are translates of one, with one query, *)
(* hold at most d + 1 examples.                                                                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Contexts lambda_t E + 1 p_t (tokens are the rows of E, scaled and moved), with queries e / *)
(* lambda_t.                                                                                  *)
Definition Translates_scaled : Prop :=
  forall (R : realType) (n d T H : nat) (E : 'M[R]_(n, d)) (e : 'rV[R]_d) (l : 'cV[R]_T) (p :
    'M[R]_(T, d))
      (W : 'I_H -> 'M[R]_d),
    (0 < n)%N -> (forall t, l t 0 != 0) ->
  (\rank (intermediate (fun t => l t 0 *: E + const_mx 1 *m row t p) (\matrix_t ((l t 0)^-1 *: e))
    W)%R
    <= \rank (row_mx l p))%N.

(* Proposition 15.5: whatever the number H of heads and their weights are *)
Definition Translates : Prop :=
  forall (R : realType) (n d T H : nat) (E : 'M[R]_(n, d)) (e : 'rV[R]_d) (p : 'M[R]_(T, d)) (W :
    'I_H -> 'M[R]_d),
    (0 < n)%N ->
  (\rank (intermediate (fun t => E + const_mx 1 *m row t p) (\matrix_(t < T) e) W)%R <= d + 1)%N.

Section Softmax.

Variable R : realType.

(* Softmax does not see a constant that is added to all logits. *)
Lemma softmax_add_const n (x : 'cV[R]_n) c : softmax (x + const_mx c) = softmax x.
Proof.
apply/colP => i; rewrite !mxE expRD.
under eq_bigr do rewrite !mxE expRD.
by rewrite -mulr_suml -mulf_div divff ?mulr1 // gt_eqF ?expR_gt0.
Qed.

Lemma head_translate n d (E : 'M[R]_(n, d)) (W : 'M[R]_d) (e p : 'rV[R]_d) (l : R) :
  (0 < n)%N -> l != 0 ->
  head (l *: E + const_mx 1 *m p) W (l^-1 *: e) = l *: head E W e + p.
Proof.
move=> n0 l0; rewrite /head.
have -> : (l *: E + const_mx 1 *m p) *m W *m (l^-1 *: e)^T =
    E *m W *m e^T + const_mx ((p *m W *m (l^-1 *: e)^T) 0 0).
  rewrite !mulmxDl linearZ /= -!scalemxAl -scalemxAr scalerA divff // scale1r; congr (_ + _).
  rewrite -!mulmxA; apply/colP => i; rewrite [LHS]mxE big_ord1 !mxE mul1r.
  by apply: eq_bigr => j _; rewrite !mxE.
rewrite softmax_add_const mulmxDr -scalemxAr mulmxA; congr (_ + _).
suff -> : (softmax (E *m W *m e^T))^T *m const_mx 1 = 1%:M :> 'M[R]_1 by rewrite mul1mx.
apply/matrixP => i j; rewrite !ord1 [LHS]mxE [RHS]mxE eqxx; apply: etrans (softmax_sum (E *m W *m
  e^T) n0).
apply: eq_bigr => k _; rewrite [_^T _ _]mxE [X in _ * X]mxE; exact: mulr1.
Qed.

End Softmax.

Theorem translates_scaled : Translates_scaled.
Proof.
move=> R n d T H E e l p W n0 l0.
pose lift (x : 'rV[R]_d) := mxvec ((const_mx 1 : 'cV_H) *m x).
have liftl : linear lift by move=> c x y; rewrite /lift mulmxDr -scalemxAr linearP.
pose z := mxvec (\matrix_h head E (W h) e).
suff -> : intermediate (fun t => l t 0 *: E + const_mx 1 *m row t p) (\matrix_t ((l t 0)^-1 *: e))
  W =
    row_mx l p *m col_mx z (lin1_mx (Linear liftl)) by apply: mxrankM_maxl.
apply/row_matrixP => t; rewrite row_mul row_row_mx mul_row_col mul_rV_lin1 rowK rowK /= /lift.
have -> : row t l = (l t 0)%:M by apply/matrixP => i j; rewrite !ord1 !mxE eqxx.
rewrite mul_scalar_mx -linearZ -linearD; congr (mxvec _); apply/row_matrixP => h.
rewrite linearD linearZ /= !rowK row_mul head_translate //; congr (_ + _).
by rewrite (_ : row h (const_mx 1) = 1%:M) ?mul1mx //; apply/matrixP => i j; rewrite !ord1 !mxE.
Qed.

Theorem translates : Translates.
Proof.
move=> R n d T H E e p W n0.
have := @translates_scaled R n d T H E e (const_mx 1) p W n0.
have -> : intermediate (fun t => (const_mx 1 : 'cV_T) t 0 *: E + const_mx 1 *m row t p)
    (\matrix_t (((const_mx 1 : 'cV_T) t 0)^-1 *: e)) W =
    intermediate (fun t => E + const_mx 1 *m row t p) (\matrix_(t < T) e) W.
  by apply/row_matrixP => t; rewrite !rowK mxE invr1 !scale1r.
move=> /(_ (fun t => _)) /leq_trans; apply => [t|]; first by rewrite mxE oner_neq0.
by apply: leq_trans (rank_leq_col _) _; rewrite addnC.
Qed.
