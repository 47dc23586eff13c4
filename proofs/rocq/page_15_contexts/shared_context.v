(* Theorem 9 for one shared context of independent tokens: the largest rank is min(T, H (n - 1) + 1). *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity theorem_8 kruskal_rank corollaries.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

(* From Theorem 8 *)
Lemma shared_context_rank_le (R : realType) n d T H (E : 'M[R]_(n, d)) (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) :
  (0 < n)%N -> (0 < H)%N -> (\rank (intermediate (fun=> E) Q W) <= H * (n - 1) + 1)%N.
Proof.
move=> n0 H0; have := @theorem_8 R d T H (fun=> n) (fun=> E) Q W setT.
move=> /leq_trans; apply; rewrite /bound_of cardsT card_ord subnn add0n.
have tokens : (tokens_dim (fun=> E) [set: 'I_T] <= n)%N.
  by apply: leq_trans (rank_leq_row E); apply: mxrankS; apply/sumsmx_subP => t _; rewrite genmxE.
have diffs : (differences_dim (fun=> E) [set: 'I_T] <= n - 1)%N.
  by apply: leq_trans (rank_differences_le E); apply: mxrankS; apply/sumsmx_subP => t _.
apply: leq_trans (leq_add tokens (leq_mul (leqnn _) diffs)) _.
by rewrite mulnBl mul1n addnBA ?leq_pmull // leq_subLR addnCA subnK // addnC.
Qed.

Theorem theorem_9_shared : Theorem9_shared.
Proof.
move=> R n d T H E Q n0 H0 Ef Qn.
have upper (W : 'I_H -> 'M[R]_d) : (\rank (intermediate (fun=> E) Q W) <= minn T (H * (n - 1) + 1))%N.
  by rewrite leq_min rank_leq_row shared_context_rank_le.
split=> //; set T' := minn _ _; pose f : 'I_T' -> 'I_T := widen_ord (geq_minl _ _).
have Qf : kruskal_rank_at_least (rowsub f Q) n.
  move=> m e me ei; have := Qn m (f \o e) me.
  have fi : injective f by move=> i j /(congr1 val) /= ij; apply: val_inj.
  move=> /(_ (inj_comp fi ei)); congr (is_true (row_free _)).
  by apply/row_matrixP => i; rewrite !row_rowsub.
have En : contexts_of_rank (fun _ : 'I_T' => E) n by move=> t; apply/eqP.
have [a [b ab]] := theorem_2_rank_of_D n0 H0 Qf En (geq_minr _ _).
exists a, b; apply/eqP; rewrite eqn_leq upper /= -[X in (X <= _)%N]ab.
suff -> : intermediate (fun=> E) (rowsub f Q) (fun h => a *m (b h)^T) =
    rowsub f (intermediate (fun=> E) Q (fun h => a *m (b h)^T)).
  by rewrite rowsubE; exact: mxrankM_maxr.
by apply/row_matrixP => t; rewrite row_rowsub !rowK row_rowsub.
Qed.
