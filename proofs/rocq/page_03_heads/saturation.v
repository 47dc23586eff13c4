(* proofs/3-heads.md: Lemma 3.3 for rank-one heads. In the limit softmax is uniform on the tokens *)
(* of largest score, whatever multiple of the scores is added; scores may be equal.              *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions softmax limits.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Saturation.

Variable R : realType.

(* The limit depends on the sign of g and not on s; scores may be equal. *)
Lemma saturation_with_ties n (v : 'cV[R]_n) (g : R) : g != 0 ->
  exists l : 'cV[R]_n, forall s i, softmax ((s + k%:R * g) *: v) i 0 @[k --> \oo] --> l i 0.
Proof.
move=> g0; have [n0|n0] := posnP n; first by exists 0 => s i; have := ltn_ord i; rewrite {2}n0.
pose top := [arg max_(i > Ordinal n0) (g * v i 0)]%O.
have gap i : v i 0 != v top 0 -> g * (v i 0 - v top 0) < 0.
  move=> vi; rewrite mulrBr subr_lt0 lt_neqAle (inj_eq (mulfI g0)) vi /=.
  by rewrite /top; case: arg_maxP => //= j _; apply.
pose e i : R := (v i 0 == v top 0)%:R.
exists (\col_i (e i / \sum_j e j)) => s i; rewrite mxE.
have lim j : expR (((s + k%:R * g) *: v) j 0 - ((s + k%:R * g) *: v) top 0) @[k --> \oo] --> e j.
  under eq_fun do rewrite mxE [X in expR (_ - X)]mxE -mulrBr.
  rewrite /e; have [->|vj] := eqVneq.
    by under eq_fun do rewrite subrr mulr0 expR0; exact: cvg_cst.
  set q := expR (g * (v j 0 - v top 0)).
  have q1 : `|q| < 1 by rewrite ger0_norm ?expR_lt1 ?gap // ltW ?expR_gt0.
  under eq_fun do rewrite mulrDl expRD -mulrA expRMm.
  have q0 : q ^+ k @[k --> \oo] --> (0 : R) by apply: cvg_expr.
  have := cvgMr (a := expR (s * (v j 0 - v top 0))) q0; rewrite mulr0; exact.
have S0 : \sum_j e j != 0.
  rewrite gt_eqF // (bigD1 top) //= /e eqxx ltr_spaddl ?ltr01 //.
  by apply: sumr_ge0 => j _; apply: ler0n.
have shift (k : nat) := softmax_shift ((s + k%:R * g) *: v) (((s + k%:R * g) *: v) top 0) i.
under eq_fun do rewrite shift.
by apply: cvgM; [exact: lim | apply: cvgV => //; apply: cvg_sum_seq => j; exact: lim].
Qed.

End Saturation.
