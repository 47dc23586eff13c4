(* proofs/15-contexts.md: Theorem 8, each set J of examples bounds the rank that any attention *)
(* weights can reach.                                                                          *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions softmax Capacity differences
  independent_families.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Theorem8.

Variable F : fieldType.

(* Rows with heads z_0 in the row space of A and z_h - z_0 in that of B *)
Lemma layer_space k l d H (A : 'M[F]_(k, d)) (B : 'M[F]_(l, d)) :
  exists L : 'M[F]_(k + H * l, (1 + H) * d), forall z : 'M[F]_(1 + H, d),
    (row 0 z <= A)%MS -> (forall h, (row h z - row 0 z <= B)%MS) -> (mxvec z <= L)%MS.
Proof.
pose f1 (x : 'rV[F]_k) := mxvec ((const_mx 1 : 'cV_(1 + H)) *m (x *m A)).
pose f2 (y : 'M[F]_(H, l)) := col_mx (0 : 'rV_d) (y *m B).
have f1l : linear f1 by move=> c x y; rewrite /f1 mulmxDl -scalemxAl mulmxDr -scalemxAr linearP.
have f2l : linear f2.
  by move=> c x y; rewrite /f2 mulmxDl -scalemxAl scale_col_mx add_col_mx scaler0 addr0.
exists (col_mx (lin1_mx (Linear f1l)) (lin_mx (Linear f2l))) => z /submxP[x xA] zB.
have /fin_all_exists[y yB] (h : 'I_H) := submxP (zB (rshift 1 h)).
apply/submxP; exists (row_mx x (mxvec (\matrix_h y h))).
rewrite mul_row_col mul_rV_lin1 mul_vec_lin /= /f1 /f2 -linearD; congr (mxvec _).
apply/row_matrixP => h; rewrite linearD /= -xA row_mul.
have -> : row h (const_mx 1 : 'cV_(1 + H)) = 1%:M :> 'M[F]_1 by apply/matrixP => i j;
  rewrite !ord1 !mxE eqxx.
rewrite mul1mx; case: (split_ordP h) => h' ->.
  rewrite rowKu row_id ord1 addr0; congr (row _ z); exact: val_inj.
by rewrite rowKd row_mul rowK -yB addrC subrK.
Qed.

(* Weights may add up to any number that depends on the example only. *)
Lemma combinations_bound d T H (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d))
    (p : forall t, 'I_H -> 'rV[F]_(n t)) (s : 'I_T -> F) (J : {set 'I_T}) :
  (forall t h, \sum_i p t h 0 i = s t) -> (\rank (combinations E p) <= bound_of E H J)%N.
Proof.
case: H p => [|H] p ps; first by rewrite [combinations _ _]thinmx0 mxrank0.
rewrite /bound_of subn1 /= -addnA.
have [L LP] := layer_space H (row_base (\sum_(t in J) <<E t>>)%MS)
  (row_base (\sum_(t in J) differences (E t))%MS).
set Z := combinations E p; have ZL : (Z <= span (~: J) (fun t => row t Z) + L)%MS.
  apply/row_subP => t; have [tJ|tJ] := boolP (t \in J); last first.
    by apply: submx_trans (addsmxSl _ _); rewrite /span (sumsmx_sup t) ?inE ?genmxE.
  apply: submx_trans (addsmxSr _ _); rewrite rowK; apply: LP => [|h].
    by rewrite eq_row_base rowK (sumsmx_sup t) // genmxE submxMl.
  rewrite eq_row_base !rowK -mulmxBl (sumsmx_sup t) // combination_differences //.
  by under eq_bigr do rewrite !mxE; rewrite sumrB !ps subrr.
apply: leq_trans (mxrankS ZL) _; apply: leq_trans (mxrank_adds_leqif _ _) _.
apply: leq_add; last exact: rank_leq_row.
by apply: leq_trans (rank_span_leq _ _) _; rewrite cardsCs setCK card_ord.
Qed.

End Theorem8.

Theorem theorem_8_weights : Theorem8_weights.
Proof. by move=> F d T H n E p J p1; apply: (@combinations_bound _ _ _ _ _ _ _ (fun=> 1)). Qed.

(* The bound of each set J of examples *)
Lemma rank_le_bound (R : realType) d T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) J : (\rank (intermediates E Q W) <= bound_of E H J)%N.
Proof.
apply: (@combinations_bound _ _ _ _ _ E (fun t h => (softmax (E t *m W h *m (row t Q)^T))^T)
  (fun t => (0 < n t)%N%:R)) => t h.
under eq_bigr do rewrite mxE.
case: posnP => n0; last exact: softmax_sum.
by apply: big1 => i _; have := ltn_ord i; rewrite {2}n0.
Qed.

Lemma capacity_ge (F : fieldType) d T H (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)) r :
  (r <= T)%N -> (forall J, (r <= bound_of E H J)%N) -> (r <= capacity E H)%N.
Proof.
by move=> rT rJ; rewrite /capacity; elim/big_ind: _ => // x y; rewrite leq_min => -> ->.
Qed.

Theorem theorem_8 : Theorem8.
Proof.
move=> R d T H n E Q W; apply: capacity_ge => [|J]; [exact: rank_leq_row | exact: rank_le_bound].
Qed.
