(* proofs/17-generic-contexts.md: Proposition 17.3. With one query, contexts of sums A_i + B_j *)
(* hold at most l + m - 1 examples.                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity softmax.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The context of all sums of a token of A and a token of B (one row for each pair of rows) *)
Definition sums (F : fieldType) d a b (A : 'M[F]_(a, d)) (B : 'M[F]_(b, d)) :
    'M[F]_(#|{: 'I_a * 'I_b}|, d) :=
  \matrix_k (row (enum_val k).1 A + row (enum_val k).2 B).

(* Example t has the context A_i + B_j with i = f t, j = g t. All have one and the same query e. *)
Definition Sums_of_contexts : Prop :=
  forall (R : realType) (d T H l m : nat) (a : 'I_l -> nat) (b : 'I_m -> nat)
      (A : forall i, 'M[R]_(a i, d)) (B : forall j, 'M[R]_(b j, d)) (f : 'I_T -> 'I_l) (g : 'I_T ->
        'I_m)
      (e : 'rV[R]_d) (W : 'I_H -> 'M[R]_d),
    (forall i, (0 < a i)%N) -> (forall j, (0 < b j)%N) ->
  (\rank (intermediates (fun t => sums (A (f t)) (B (g t))) (\matrix_t e) W) <= l + m - 1)%N.

(* So the rows of four contexts A + B, C + D, A + C, B + D are dependent, head by head. *)
Definition Four_sums : Prop :=
  forall (R : realType) (d a b c m : nat) (A : 'M[R]_(a, d)) (B : 'M[R]_(b, d)) (C : 'M[R]_(c, d))
    (D : 'M[R]_(m, d))
      (e : 'rV[R]_d) (W : 'M[R]_d),
    (0 < a)%N -> (0 < b)%N -> (0 < c)%N -> (0 < m)%N ->
  head (sums A B) W e + head (sums C D) W e = head (sums A C) W e + head (sums B D) W e.

Section Sums.

Variable R : realType.

Lemma sum_pairs a b (V : lmodType R) (F : 'I_a * 'I_b -> V) :
  \sum_(k < #|{: 'I_a * 'I_b}|) F (enum_val k) = \sum_i \sum_j F (i, j).
Proof. by rewrite pair_bigA /= -big_enum_val /=; apply: eq_bigr => -[]. Qed.

(* The weight of a + b among the sums is the product of the weights of a and of b. *)
Lemma head_sums d a b (A : 'M[R]_(a, d)) (B : 'M[R]_(b, d)) (W : 'M[R]_d) (e : 'rV[R]_d) :
  (0 < a)%N -> (0 < b)%N -> head (sums A B) W e = head A W e + head B W e.
Proof.
move=> a0 b0; pose w := W *m e^T; rewrite /head -!(mulmxA _ W) -/w.
pose x i := expR ((A *m w) i 0); pose y j := expR ((B *m w) j 0).
have x0 : \sum_i x i != 0 by rewrite gt_eqF ?(expsum_gt0 (A *m w)).
have y0 : \sum_j y j != 0 by rewrite gt_eqF ?(expsum_gt0 (B *m w)).
have xy k : expR ((sums A B *m w) k 0) = x (enum_val k).1 * y (enum_val k).2.
  rewrite /x /y -expRD; congr expR.
  have dot p (M : 'M[R]_(p, d)) i : (M *m w) i 0 = (row i M *m w) 0 0 by rewrite -row_mul [RHS]mxE.
  by rewrite (dot _ (sums A B)) rowK mulmxDl [LHS]mxE (dot _ A) (dot _ B).
have total : \sum_k expR ((sums A B *m w) k 0) = (\sum_i x i) * (\sum_j y j).
  under eq_bigr do rewrite xy.
  rewrite (sum_pairs (fun k => x k.1 * y k.2 : R^o)) mulr_suml; apply: eq_bigr => i _.
  by rewrite mulr_sumr.
have sx k : softmax (sums A B *m w) k 0 = softmax (A *m w) (enum_val k).1 0 * softmax (B *m w)
  (enum_val k).2 0.
  by rewrite [LHS]mxE total xy [in RHS]mxE [softmax (B *m w) _ _]mxE mulf_div.
rewrite !mulmx_sum_row.
under eq_bigr => k _ do rewrite /sums rowK [_^T _ _]mxE sx.
rewrite (sum_pairs (fun k => (softmax (A *m w) k.1 0 * softmax (B *m w) k.2 0) *: (row k.1 A + row
  k.2 B))) /=.
under eq_bigr => i _ do under eq_bigr => j _ do rewrite scalerDr.
under eq_bigr => i _ do rewrite big_split /=.
rewrite big_split /=; congr (_ + _).
  apply: eq_bigr => i _; rewrite -scaler_suml -mulr_sumr softmax_sum // mulr1.
  by rewrite [_^T _ _]mxE.
rewrite exchange_big; apply: eq_bigr => j _ /=; rewrite -scaler_suml -mulr_suml softmax_sum //
  mul1r.
by rewrite [_^T _ _]mxE.
Qed.

End Sums.

Theorem four_sums : Four_sums.
Proof. by move=> *; rewrite !head_sums // addrACA [X in _ + X]addrC addrACA [X in _ + X]addrC. Qed.

Theorem sums_of_contexts : Sums_of_contexts.
Proof.
move=> R d T H l m a b A B f g e W a0 b0.
have [T0|T0] := posnP T; first by apply: leq_trans (rank_leq_row _) _; rewrite T0.
pose Z n (C : 'M[R]_(n, d)) := mxvec (\matrix_h head C (W h) e).
pose F : 'M[R]_(T, l) := \matrix_t delta_mx 0 (f t).
pose G : 'M[R]_(T, m) := \matrix_t delta_mx 0 (g t).
have -> : intermediates (fun t => sums (A (f t)) (B (g t))) (\matrix_t e) W =
    row_mx F G *m col_mx (\matrix_i Z _ (A i)) (\matrix_j Z _ (B j)).
  apply/row_matrixP => t; rewrite row_mul row_row_mx mul_row_col !rowK -!rowE !rowK -linearD;
    congr (mxvec _).
  by apply/row_matrixP => h; rewrite linearD /= !rowK head_sums.
apply: leq_trans (mxrankM_maxl _ _) _.
pose v : 'rV[R]_(l + m) := row_mx (const_mx 1) (const_mx (-1)).
have vFG : ((row_mx F G)  <= kermx v^T)%MS.
  apply/row_subP => t; apply/sub_kermxP; rewrite row_row_mx !rowK tr_row_mx mul_row_col.
  by rewrite -!rowE; apply/rowP => j; rewrite !mxE subrr.
apply: leq_trans (mxrankS vFG) _; rewrite mxrank_ker mxrank_tr leq_sub2l // lt0n mxrank_eq0.
have l0 : (0 < l)%N by case: (l) (f (Ordinal T0)) => // -[].
by apply/eqP => /rowP/(_ (lshift m (Ordinal l0)))/eqP; rewrite row_mxEl !mxE oner_eq0.
Qed.
