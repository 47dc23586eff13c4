(* proofs/24-free-heads.md: Theorem 34. For integer query weights and readouts, examples of two   *)
(* tokens or more have rows that span all H d dh dimensions.                                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Free_heads readout theorem_11 zero_points
  lone_examples.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Span.

Variables (R : realType) (d H dh : nat).

Definition example_row n (E : 'M[R]_(n, d)) (e : 'rV[R]_d) (WQ : 'I_H -> 'M[R]_(d, dh))
    (u : 'I_H -> 'cV[R]_d) : 'rV[R]_(H * (d * dh)) :=
  mxvec (\matrix_h mxvec (uniform_covariance E *m u h *m (e *m WQ h))).

(* What a functional b is on the row of an example: the matrices B h are its parts. *)
Lemma example_row_functional n (E : 'M[R]_(n, d)) e WQ u (b : 'cV[R]_(H * (d * dh))) :
  (example_row E e WQ u *m b) 0 0 =
    \sum_h (e *m WQ h *m (vec_mx (row h (vec_mx b^T)))^T *m (uniform_covariance E *m u h)) 0 0.
Proof.
rewrite mxvec_mul; apply: eq_bigr => h _; set B := vec_mx (row h _).
transitivity ((mxvec (uniform_covariance E *m u h *m (e *m WQ h)) *m (mxvec B)^T) 0 0).
  rewrite [RHS]mxE; apply: eq_bigr => i _; rewrite [X in X * _]mxE; congr (_ * _).
  by rewrite [RHS]mxE /B vec_mxK !mxE.
by rewrite mxvec_dot -mulmxA mxtrace_mulC /mxtrace big_ord1.
Qed.

End Span.

Section Weights.

Variables (R : realType) (d K dh : nat).
Hypotheses (K0 : (0 < K)%N) (Kd : (K <= d)%N) (dhd : (dh + dh <= d)%N).

(* Readouts: minus the sum of the first K basis vectors, and these vectors *)
Definition basis_readout (h : 'I_K.+1) : 'cV[R]_d :=
  \col_j (if h == ord0 then - (j < K)%:R else (j.+1 == h :> nat)%:R).

(* Query weights: the identity above h times the identity *)
Definition two_blocks (h : 'I_K.+1) : 'M[R]_(d, dh) :=
  \matrix_(i, k) ((i == k :> nat)%:R + h%:R * (i == (dh + k)%N :> nat)%:R).

Lemma sum_basis_readout (f : 'I_K.+1 -> R) j :
  \sum_h basis_readout h j 0 * f h = (j < K)%:R * (f (inord j.+1) - f ord0).
Proof.
rewrite big_ord_recl mxE eqxx.
have [jK|Kj] := ltnP j K; last first.
  rewrite oppr0 !mul0r add0r big1 // => h _; rewrite mxE /= /bump /=.
  by rewrite eqSS gtn_eqF ?mul0r // (leq_trans (ltn_ord h)).
rewrite (bigD1 (Ordinal jK)) //= big1 => [|h hj].
  rewrite addr0 mxE /= /bump /= eqSS eqxx !mul1r mulN1r addrC; congr (f _ - _).
  by apply: val_inj; rewrite /= inordK.
rewrite mxE /= /bump /= eqSS; have -> : (j == h :> nat) = false.
  by apply: contraNF hj => /eqP jh; apply/eqP/val_inj.
by rewrite mul0r.
Qed.

Lemma basis_readout_sum : \sum_h basis_readout h = 0.
Proof.
apply/colP => j; rewrite summxE [RHS]mxE.
transitivity (\sum_h basis_readout h j 0 * 1); first by apply: eq_bigr => h _; rewrite mulr1.
by rewrite (sum_basis_readout (fun=> 1)) subrr mulr0.
Qed.

(* The only vectors v h with both sums antisymmetric are zero. *)
Lemma antisymmetric_zero (v : 'I_K.+1 -> 'I_d -> R) :
  let S c i j := \sum_h basis_readout h i 0 * (c h * v h j) in
  (forall i j, S (fun=> 1) i j + S (fun=> 1) j i = 0) ->
  (forall i j, S (fun h => h%:R) i j + S (fun h => h%:R) j i = 0) ->
  forall h j, v h j = 0.
Proof.
move=> S A0 A1.
have {}A0 (i j : 'I_d) : (i < K)%:R * (v (inord i.+1) j - v ord0 j) +
    (j < K)%:R * (v (inord j.+1) i - v ord0 i) = 0.
  by rewrite -(A0 i j) /S !sum_basis_readout !mul1r.
have {}A1 (i j : 'I_d) : (i < K)%:R * (i.+1%:R * v (inord i.+1) j) +
    (j < K)%:R * (j.+1%:R * v (inord j.+1) i) = 0.
  have small (k a : 'I_d) : (k < K)%:R * (k.+1%:R * v (inord k.+1) a) =
      (k < K)%:R * ((inord k.+1 : 'I_K.+1)%:R * v (inord k.+1) a).
    by have [kK|_] := ltnP k K; rewrite ?mul0r // inordK.
  by rewrite -(A1 i j) /S !sum_basis_readout !mul0r !subr0 !small.
have n0 k : k.+1%:R != 0 :> R by rewrite pnatr_eq0.
have half (x : R) : x + x = 0 -> x = 0.
  by move/eqP; rewrite -mulr2n mulrn_eq0 => /eqP.
have diag (j : 'I_d) : (j < K)%N -> v (inord j.+1) j = 0.
  move=> jK; have := half _ (A1 j j); rewrite jK mul1r => /eqP.
  by rewrite mulf_eq0 (negPf (n0 _)) => /eqP.
have high (i j : 'I_d) : (i < K)%N -> (K <= j)%N -> v (inord i.+1) j = 0.
  move=> iK Kj; have := A1 i j; rewrite iK (leq_gtF Kj) mul0r addr0 mul1r => /eqP.
  by rewrite mulf_eq0 (negPf (n0 _)) => /eqP.
have v0 j : v ord0 j = 0.
  have [jK|Kj] := ltnP j K.
    by have := half _ (A0 j j); rewrite jK mul1r diag // sub0r => /eqP; rewrite oppr_eq0 => /eqP.
  pose i := Ordinal (leq_trans K0 Kd).
  have iK : (i < K)%N by [].
  have := A0 i j; rewrite (leq_gtF Kj) mul0r addr0 iK mul1r high // sub0r => /eqP.
  by rewrite oppr_eq0 => /eqP.
move=> h j; have [->//|h0] := eqVneq h ord0.
have hK : (h.-1 < K)%N by have := ltn_ord h; rewrite -[X in (X < _)%N -> _]prednK ?lt0n.
pose i := Ordinal (leq_trans hK Kd); have -> : h = inord i.+1.
  by apply: val_inj; rewrite /= inordK prednK ?lt0n.
have iK : (i < K)%N by [].
have [jK|Kj] := ltnP j K; last exact: high.
have [->|ij] := eqVneq j i; first exact: diag.
have := A1 i j; have := A0 i j; rewrite iK jK !v0 !subr0 !mul1r => /eqP.
rewrite addr_eq0 => /eqP->; rewrite mulrN addrC -mulrBl => /eqP.
rewrite mulf_eq0 subr_eq0 eqr_nat eqSS => /orP[/eqP e|/eqP->]; last by rewrite oppr0.
by case/eqP: ij; apply: val_inj.
Qed.

Lemma two_blocks_row (i : 'I_d) (h : 'I_K.+1) (k : 'I_dh) (c : R) :
  (forall l : 'I_dh, two_blocks h i l = c * (k == l)%:R) ->
  forall (B : 'M[R]_(d, dh)) j, ((delta_mx 0 i : 'rV[R]_d) *m two_blocks h *m B^T) 0 j = c * B j k.
Proof.
move=> row B j; rewrite -rowE mxE (bigD1 k) //= big1 ?addr0 => [|l lk].
  by rewrite mxE row eqxx mulr1 mxE.
by rewrite mxE row eq_sym (negPf lk) mulr0 mul0r.
Qed.

(* A functional that is zero on the rows of all examples is zero. *)
Lemma functional_zero n (b : 'cV[R]_(K.+1 * (d * dh))) : (1 < n)%N ->
  (forall a e, (example_row (lone n a) e two_blocks basis_readout *m b) 0 0 = 0) -> b = 0.
Proof.
case: n => [|[|n]] // _ b0; pose B h : 'M[R]_(d, dh) := vec_mx (row h (vec_mx b^T)).
pose x h (e : 'rV[R]_d) := e *m two_blocks h *m (B h)^T.
pose q : R := n.+2%:R^-1; have q0 : q - q ^+ 2 != 0.
  rewrite expr2 -[X in X - _]mulr1 -mulrBr mulf_neq0 // ?invr_eq0 ?pnatr_eq0 //.
  by rewrite subr_eq0 eq_sym invr_eq1 pnatr_eq1.
have S0 e i j : \sum_h basis_readout h i 0 * x h e 0 j + \sum_h basis_readout h j 0 * x h e 0 i = 0.
  have entry (a c : 'I_d) : (\sum_h basis_readout h *m x h e) a c = \sum_h basis_readout h a 0 * x
    h e 0 c.
    by rewrite summxE; apply: eq_bigr => h _; rewrite mxE big_ord1.
  rewrite -!entry; apply: quadratic_zero => a; apply: (mulfI q0); rewrite mulr0 -(b0 a e).
  rewrite example_row_functional mulmx_sumr mulmx_suml summxE mulr_sumr; apply: eq_bigr => h _.
  rewrite -/(B h) -/(x h e) /uniform_covariance covariance_lone [const_mx _ _ _]mxE -/q.
  rewrite -scalemxAl -scalemxAr [RHS]mxE; congr (_ * _).
  move: (x h e) (basis_readout h) => y u.
  transitivity (((a *m u) *m (y *m a^T)) 0 0); first by rewrite !mulmxA.
  transitivity (((y *m a^T) *m (a *m u)) 0 0); last by rewrite !mulmxA.
  by rewrite [LHS]mxE [RHS]mxE !big_ord1 mulrC.
have Bzero h j k : B h j k = 0.
  have kd : (k < d)%N by rewrite (leq_trans (ltn_ord k)) // (leq_trans (leq_addr dh dh)).
  have dkd : (dh + k < d)%N by rewrite (leq_trans _ dhd) // ltn_add2l.
  move: h j; apply: antisymmetric_zero => i j.
    have xE h a : x h (delta_mx 0 (Ordinal kd)) 0 a = 1 * B h a k.
      apply: two_blocks_row => l; rewrite mxE /= mul1r (ltn_eqF (ltn_addr _ _)) ?ltn_ord //.
      by rewrite mulr0 addr0.
    rewrite -[RHS](S0 (delta_mx 0 (Ordinal kd)) i j).
    by congr (_ + _); apply: eq_bigr => h _; rewrite xE.
  have xE h a : x h (delta_mx 0 (Ordinal dkd)) 0 a = h%:R * B h a k.
    apply: two_blocks_row => l; rewrite mxE /= eqn_add2l gtn_eqF ?add0r //.
    by rewrite (leq_trans (ltn_ord l)) ?leq_addr.
  rewrite -[RHS](S0 (delta_mx 0 (Ordinal dkd)) i j).
  by congr (_ + _); apply: eq_bigr => h _; rewrite xE.
apply: (can_inj (@trmxK _ _ _)); apply: (can_inj vec_mxK); rewrite trmx0 linear0.
apply/row_matrixP => h; apply: (can_inj vec_mxK); rewrite -/(B h) row0 linear0.
by apply/matrixP => j k; rewrite Bzero mxE.
Qed.

End Weights.
