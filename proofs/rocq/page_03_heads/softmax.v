(* proofs/3-heads.md: what softmax is used for: positive weights that add up to one, and the same *)
(* ones when a constant is added to all logits.                                                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Softmax.

Variable R : realType.

Lemma expsum_gt0 n (x : 'cV[R]_n) : (0 < n)%N -> 0 < \sum_j expR (x j 0).
Proof.
case: n x => // n x _; rewrite big_ord_recl ltr_spaddl ?expR_gt0 //.
by apply: sumr_ge0 => i _; rewrite ltW ?expR_gt0.
Qed.

Lemma softmax_sum n (x : 'cV[R]_n) : (0 < n)%N -> \sum_i softmax x i 0 = 1.
Proof.
move=> n0; under eq_bigr do rewrite mxE.
by rewrite -mulr_suml divff // gt_eqF ?expsum_gt0.
Qed.

Lemma softmax_shift n (x : 'cV[R]_n) (c : R) i :
  softmax x i 0 = expR (x i 0 - c) / \sum_j expR (x j 0 - c).
Proof.
have n0 : (0 < n)%N by case: n i {x} => // -[].
rewrite mxE; under [X in _ = _ / X]eq_bigr do rewrite expRD.
by rewrite -mulr_suml expRD -mulf_div divff ?mulr1 // gt_eqF ?expR_gt0.
Qed.

End Softmax.
