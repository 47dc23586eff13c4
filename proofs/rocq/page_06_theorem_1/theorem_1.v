(* proofs/6-theorem-1.md: Theorem 1, which Theorem 2 contains: min(n, dh) <= n. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity readout theorem_2.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Lemma theorem_1_bound n dh H T :
  (T <= H * (minn n dh - 1) + 1)%N -> (T <= H * (n - 1) + 1)%N.
Proof.
by move=> TH; rewrite (leq_trans TH) // leq_add2r leq_mul2l leq_sub2r ?orbT ?geq_minl.
Qed.

Theorem theorem_1_rank : Theorem1_rank.
Proof.
move=> R n d T H dh E Q n0 H0 dh0 Qn En /theorem_1_bound TH.
have [a [b Zb]] := theorem_2_rank n0 H0 Qn En TH.
have [WQ [WK [_ _ W]]] := wide_rank_one a b dh0.
by exists WQ, (fun=> WK); rewrite W.
Qed.

Theorem theorem_1 : Theorem1.
Proof.
move=> R n d T H dh dv dout E Q Y n0 H0 dh0 od Qn En /theorem_1_bound TH.
have [WQ [WK [_ _ /(_ dv dout Y od)[WV [WO [WD mem]]]]]] := theorem_2 n0 H0 dh0 Qn En TH.
by exists (Layer WQ (fun=> WK) WV WO WD).
Qed.
