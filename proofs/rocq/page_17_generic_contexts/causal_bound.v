(* proofs/17-generic-contexts.md: Theorem 12, its upper bounds. No sequences and no weights of a *)
(* causal layer have a larger rank than in the table.                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Causal.

Variable F : fieldType.

(* The context of position i of a sequence: its first i + 1 tokens (the rows of X) *)
Definition context n d (X : 'M[F]_(n, d)) (i : 'I_n) : 'M[F]_(i.+1, d) := rowsub (widen_ord
  (ltn_ord i)) X.

(* The dimensions of the spans of the rows f t i of all positions i of T sequences, and of all *)
(* but the first ones                                                                          *)
Definition rank_all T n m (f : 'I_T -> 'I_n -> 'rV[F]_m) : nat := \rank (\sum_t \sum_i <<f t
  i>>)%MS.
Definition rank_later T n m (f : 'I_T -> 'I_n -> 'rV[F]_m) : nat :=
  \rank (\sum_t \sum_(i < n | (0 < i)%N) <<f t i>>)%MS.

(* Row of position i: over the heads, the combination of the tokens up to i with weights p t i h; *)
(* with a skip connection the token itself stands before it.                                      *)
Definition causal_row T n d H (X : 'I_T -> 'M[F]_(n, d)) (p : forall t (i : 'I_n), 'I_H ->
  'rV[F]_i.+1) t i :
    'rV[F]_(H * d) := mxvec (\matrix_h (p t i h *m context (X t) i)).
Definition skip_row T n d H (X : 'I_T -> 'M[F]_(n, d)) (p : forall t (i : 'I_n), 'I_H ->
  'rV[F]_i.+1) t i :
    'rV[F]_(d + H * d) := row_mx (row i (X t)) (causal_row X p t i).

End Causal.

(* For any weights that add up to one at first positions (there one token is seen), over any *)
(* field                                                                                     *)
Definition Theorem12_bound : Prop :=
  forall (F : fieldType) (T n d H : nat) (X : 'I_T -> 'M[F]_(n, d)) (p : forall t (i : 'I_n), 'I_H
    -> 'rV[F]_i.+1),
    (0 < n)%N -> (forall t i h, \sum_j p t i h 0 j = 1) ->
  [/\ (rank_all (causal_row X p) <= minn (H * d) (minn T d + T * (n - 1)))%N,
      (rank_later (causal_row X p) <= minn (H * d) (T * (n - 1)))%N,
      (rank_all (skip_row X p) <= minn (H.+1 * d) (minn T d + T * (n - 1)))%N
    & (rank_later (skip_row X p) <= minn (H.+1 * d) (T * (n - 1)))%N].

Section Bound.

Variable F : fieldType.

Lemma rank_later_le T n m (f : 'I_T -> 'I_n -> 'rV[F]_m) : (rank_later f <= T * (n - 1))%N.
Proof.
rewrite /rank_later; apply: leq_trans (mxrank_sum_leqif _) _ => /=.
rewrite -[X in (_ <= X * _)%N]card_ord -sum_nat_const; apply: leq_sum => t _.
apply: (@leq_trans (\sum_(i < n | (0 < i)%N) 1)).
  by apply: leq_sum => i _; rewrite mxrank_gen rank_leq_row.
rewrite sum1_card; case: n {f} => [|n].
  by rewrite (eq_card0 (A := _)) // => -[].
have -> : #|[pred i : 'I_n.+1 | (0 < i)%N]| = #|predC1 (0 : 'I_n.+1)|.
  by apply: eq_card => i; rewrite !inE lt0n.
by rewrite cardC1 card_ord subn1.
Qed.

(* Rows of first positions are images of first tokens under one linear map. *)
Lemma rank_all_le T n d m (X : 'I_T -> 'M[F]_(n, d)) (f : 'I_T -> 'I_n -> 'rV[F]_m) (L : 'M[F]_(d,
  m)) :
  (forall t (i : 'I_n), i = 0%N :> nat -> f t i = row i (X t) *m L) ->
  (rank_all f <= minn T d + T * (n - 1))%N.
Proof.
case: n X f => [|n] X f fL.
  rewrite /rank_all (eq_bigr (fun=> 0)) => [|t _]; last by rewrite big_ord0.
  by rewrite big1 ?mxrank0.
pose A := \matrix_t row ord0 (X t).
have sub : (\sum_t \sum_i <<f t i>> <= A *m L + \sum_t \sum_(i < n.+1 | (0 < i)%N) <<f t i>>)%MS.
  apply/sumsmx_subP => t _; apply/sumsmx_subP => i _; rewrite genmxE.
  have [i0|i0] := posnP i.
    apply: submx_trans (addsmxSl _ _); rewrite fL //.
    have -> : i = ord0 by apply: val_inj.
    by apply: submxMr; have := row_sub t A; rewrite rowK.
  apply: submx_trans (addsmxSr _ _); rewrite (sumsmx_sup t) // (sumsmx_sup i) //.
  by rewrite genmxE.
apply: leq_trans (mxrankS sub) _; apply: leq_trans (mxrank_adds_leqif _ _) _.
apply: leq_add; last exact: rank_later_le.
apply: leq_trans (mxrankM_maxl _ _) _; by rewrite leq_min rank_leq_row rank_leq_col.
Qed.

(* At a first position all heads give the token itself. *)
Lemma causal_row_first T n d H (X : 'I_T -> 'M[F]_(n, d)) (p : forall t (i : 'I_n), 'I_H ->
  'rV[F]_i.+1) t (i : 'I_n) :
  (forall h, \sum_j p t i h 0 j = 1) -> i = 0%N :> nat ->
  causal_row X p t i = row i (X t) *m lin1_mx (mxvec \o mulmx (const_mx 1 : 'cV[F]_H)).
Proof.
move=> p1 i0; rewrite mul_rV_lin1 /= /causal_row; congr (mxvec _); apply/row_matrixP => h.
rewrite rowK row_mul (_ : row h (const_mx 1) = 1%:M) ?mul1mx; last first.
  by apply/matrixP => j k; rewrite !ord1 !mxE.
rewrite mulmx_sum_row; under eq_bigr => j _.
  have -> : row j (context (X t) i) = row i (X t).
    apply/rowP => k; rewrite !mxE; congr (X t _ k); apply: val_inj => /=.
    have := ltn_ord j; rewrite ltnS => ji; apply/eqP; rewrite eqn_leq ji /=.
    by apply: leq_trans (leq0n _); rewrite leqn0; apply/eqP.
  over.
by rewrite -scaler_suml p1 scale1r.
Qed.

End Bound.

Theorem theorem_12_bound : Theorem12_bound.
Proof.
move=> F T n d H X p n0 p1.
have first t (i : 'I_n) (i0 : i = 0%N :> nat) := causal_row_first X (p1 t i) i0.
split; rewrite leq_min.
- rewrite rank_leq_col; apply: rank_all_le => t i; exact: first.
- by rewrite rank_leq_col rank_later_le.
- rewrite mulSn rank_leq_col; apply: (rank_all_le (X := X)
    (L := row_mx 1%:M (lin1_mx (mxvec \o mulmx (const_mx 1 : 'cV[F]_H))))) => t i i0.
  by rewrite mul_mx_row mulmx1 /skip_row first.
- by rewrite mulSn rank_leq_col rank_later_le.
Qed.
