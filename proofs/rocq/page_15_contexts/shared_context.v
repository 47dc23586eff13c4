(* proofs/15-contexts.md: Theorem 9 for one shared context of independent tokens. The largest *)
(* rank is min(T, H (n - 1) + 1).                                                             *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity kruskal_rank theorem_2 theorem_3.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Theorem theorem_9_shared : Theorem9_shared.
Proof.
move=> R n d T H E Q n0 H0 Ef Qn.
have upper (W : 'I_H -> 'M[R]_d) :
    (\rank (intermediate (fun=> E) Q W) <= minn T (H * (n - 1) + 1))%N.
  by rewrite leq_min rank_leq_row theorem_3_d.
split=> //; set T' := minn _ _; pose f : 'I_T' -> 'I_T := widen_ord (geq_minl _ _).
have fi : injective f by move=> i j /(congr1 val) /= ij; apply: val_inj.
have Qf : kruskal_rank_at_least (rowsub f Q) n.
  by apply: kruskal_rowsub fi _ Qn => i; rewrite row_rowsub.
have En : contexts_of_rank (fun _ : 'I_T' => E) n by move=> t; apply/eqP.
have [a [b ab]] := theorem_2_rank n0 H0 Qf En (geq_minr _ _).
exists a, b; apply/eqP; rewrite eqn_leq upper /= -[X in (X <= _)%N]ab.
suff -> : intermediate (fun=> E) (rowsub f Q) (fun h => a *m (b h)^T) =
    rowsub f (intermediate (fun=> E) Q (fun h => a *m (b h)^T)).
  by rewrite rowsubE; exact: mxrankM_maxr.
by apply/row_matrixP => t; rewrite row_rowsub !rowK row_rowsub.
Qed.
