(* proofs/16-groups.md: corollary (i) of Theorem 10 is exact for tokens on a hyperplane not *)
(* through zero, by Theorem 3 (b).                                                          *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity kruskal_rank theorem_3
  theorem_10_representatives corollaries.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Theorem corollary_10_i_exact : Corollary10_i_exact.
Proof.
move=> R d T H n E Q i1 i2 c d0 H0 Ec Qd E1 E12.
have upper (W : 'I_H -> 'M[R]_d) :
    (\rank (intermediates E Q W) <= minn T (H * (d - 1) + 1))%N.
  rewrite leq_min rank_leq_row; apply: leq_trans (theorem_3_b Q W Ec) _.
  by rewrite leq_add2r leq_mul2l leq_sub2r ?orbT // rank_leq_row.
split=> //; set T' := minn _ _; pose f : 'I_T' -> 'I_T := widen_ord (geq_minl _ _).
have fi : injective f by move=> i j /(congr1 val) /= ij; apply: val_inj.
have [|||a [b ab]] := @corollary_10_i R d T' H _ (fun t => E (f t)) (rowsub f Q)
    (fun t => i1 (f t)) (fun t => i2 (f t)) d0 H0 _ _ _ (geq_minr _ _).
- by apply: kruskal_rowsub fi _ Qd => t; rewrite row_rowsub.
- by apply: kruskal_rowsub fi _ E1 => t; rewrite !rowK.
- by apply: kruskal_rowsub fi _ E12 => t; rewrite !rowK.
exists a, b; apply/eqP; rewrite eqn_leq upper /= -[X in (X <= _)%N]ab -rowsub_intermediates rowsubE.
exact: mxrankM_maxr.
Qed.
