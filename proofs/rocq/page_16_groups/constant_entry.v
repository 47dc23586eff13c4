(* Corollary (i) of Theorem 10 is exact for tokens on a hyperplane not through zero. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity theorem_8 theorem_10 corollaries.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

(* From Theorem 8 *)
Lemma constant_entry_rank_le (R : realType) d T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) (c : 'cV[R]_d) :
  c != 0 -> (0 < H)%N -> (forall t i j, (row i (E t) - row j (E t)) *m c = 0) ->
  (\rank (intermediates E Q W) <= H * (d - 1) + 1)%N.
Proof.
move=> c0 H0 Ec; have d0 : (0 < d)%N by case: d c c0 {E Ec Q W} => // c; rewrite [c]flatmx0 eqxx.
have := theorem_8 E Q W setT; move=> /leq_trans; apply; rewrite /bound_of cardsT card_ord subnn add0n.
have diffs : (differences_dim E [set: 'I_T] <= d - 1)%N.
  have -> : (d - 1)%N = \rank (kermx c).
    by rewrite mxrank_ker; have := rank_leq_col c; rewrite -mxrank_eq0 in c0; case: (\rank c) c0 => [|[]].
  apply: mxrankS; apply/sumsmx_subP => t _; apply: differences_subP => i j.
  by apply/sub_kermxP; apply: Ec.
apply: leq_trans (leq_add (rank_leq_row _) (leq_mul (leqnn _) diffs)) _.
by rewrite mulnBl mul1n addnBA ?leq_pmull // leq_subLR addnCA subnK // addnC.
Qed.

Theorem corollary_10_i_exact : Corollary10_i_exact.
Proof.
move=> R d T H n E Q i1 i2 c d0 H0 Ec Qd E1 E12.
have upper (W : 'I_H -> 'M[R]_d) : (\rank (intermediates E Q W) <= minn T (H * (d - 1) + 1))%N.
  rewrite leq_min rank_leq_row /=; have [T0|T0] := posnP T.
    by apply: leq_trans (rank_leq_row _) _; rewrite T0.
  apply: (@constant_entry_rank_le _ _ _ _ _ _ _ _ c) => // [|t i j].
    apply/eqP => c0; have := Ec (Ordinal T0); rewrite c0 mulmx0 => /matrixP/(_ (i1 _) 0)/eqP.
    by rewrite !mxE eq_sym oner_eq0.
  rewrite mulmxBl -!row_mul Ec; apply/eqP; rewrite subr_eq0; apply/eqP/rowP => k.
  by rewrite !mxE.
split=> //; set T' := minn _ _; pose f : 'I_T' -> 'I_T := widen_ord (geq_minl _ _).
have fi : injective f by move=> i j /(congr1 val) /= ij; apply: val_inj.
have kf k (A : 'M[R]_(T, d)) (B : 'M[R]_(T', d)) :
    (forall t, row t B = row (f t) A) -> kruskal_rank_at_least A k -> kruskal_rank_at_least B k.
  move=> AB Ak m e me ei; have := Ak m (f \o e) me (inj_comp fi ei); congr (is_true (row_free _)).
  by apply/row_matrixP => i; rewrite !row_rowsub AB.
have [|||a [b ab]] := @corollary_10_i R d T' H _ (fun t => E (f t)) (rowsub f Q)
    (fun t => i1 (f t)) (fun t => i2 (f t)) d0 H0 _ _ _ (geq_minr _ _).
- by apply: kf Qd => t; rewrite row_rowsub.
- by apply: kf E1 => t; rewrite !rowK.
- by apply: kf E12 => t; rewrite !rowK.
exists a, b; apply/eqP; rewrite eqn_leq upper /= -[X in (X <= _)%N]ab -rowsub_intermediates rowsubE.
exact: mxrankM_maxr.
Qed.
