(* proofs/8-upper-bounds.md: Theorem 3 is Theorem 8 for the set of all examples, (d) for one *)
(* context.                                                                                  *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity differences theorem_8.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section AllExamples.

Variables (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)).
Variables (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d).

Let Z := intermediates E Q W.
Let k := tokens_dim E setT.
Let delta := differences_dim E setT.

Lemma rank_le_all : (\rank Z <= k + (H - 1) * delta)%N.
Proof. by have := rank_le_bound E Q W setT; rewrite /bound_of cardsT card_ord subnn add0n. Qed.

Lemma differences_dim_le : (delta <= k)%N.
Proof.
apply: mxrankS; apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) // genmxE; exact: differences_sub.
Qed.

(* If differences span one dimension less than tokens, heads after the first add one less. *)
Lemma rank_le_smaller m : (k <= m + 1)%N -> (delta <= m)%N -> (\rank Z <= H * m + 1)%N.
Proof.
have [H0 _ _|H0 km dm] := posnP H.
  by apply: leq_trans (rank_leq_col _) _; rewrite [X in (X * _)%N]H0 mul0n.
apply: leq_trans rank_le_all _; apply: leq_trans (leq_add km (leq_mul (leqnn _) dm)) _.
by rewrite mulnBl mul1n addnAC subnKC // leq_pmull.
Qed.

End AllExamples.

Theorem theorem_3_a : Theorem3_a.
Proof.
move=> R d T H n E Q W; have [H0|H0] := posnP H.
  by apply: leq_trans (rank_leq_col _) _; rewrite [X in (X * _)%N]H0 mul0n.
apply: leq_trans (rank_le_all E Q W) _.
rewrite -[X in (_ <= X * _)%N](subnKC H0) mulnDl mul1n leq_add2l leq_mul2l.
by rewrite differences_dim_le orbT.
Qed.

(* Tokens of which one is not orthogonal to c span more than vectors orthogonal to c. *)
Lemma rank_orthogonal (F : fieldType) d (c : 'cV[F]_d) (A B : 'M[F]_d) :
  (A <= B)%MS -> A *m c = 0 -> B *m c != 0 -> (\rank A < \rank B)%N.
Proof.
move=> AB Ac Bc; apply: rank_ltmx; rewrite /ltmx AB; apply: contra Bc => /submxP[D ->].
by rewrite -mulmxA Ac mulmx0.
Qed.

Theorem theorem_3_b : Theorem3_b.
Proof.
move=> R d T H n E Q W c Ec.
have [/existsP[t nt]|/existsPn n0] := boolP [exists t, (0 < n t)%N]; last first.
  suff e : intermediates E Q W = 0 by rewrite e mxrank0.
  apply/row_matrixP => t; rewrite rowK row0 -[RHS](linear0 (@mxvec_linear _ _ _)).
  congr mxvec; apply/row_matrixP => h; rewrite rowK row0 /head.
  by have := n0 t; rewrite -eqn0Ngt => /eqP nt; move: (E t); rewrite nt => Et;
    rewrite thinmx0 mul0mx.
suff kd : (differences_dim E setT < tokens_dim E setT)%N.
  have k0 := leq_ltn_trans (leq0n _) kd.
  by apply: rank_le_smaller; rewrite ?subnK // -ltnS subn1 prednK.
apply: (rank_orthogonal (c := c)).
- by apply/sumsmx_subP => s _; rewrite (sumsmx_sup s) // genmxE differences_sub.
- apply/sub_kermxP; apply/sumsmx_subP => s _; apply: differences_subP => i j.
  apply/sub_kermxP; rewrite mulmxBl -!row_mul Ec; apply/rowP => l; rewrite !mxE; exact: subrr.
have Et : (E t <= \sum_(s in [set: 'I_T]) <<E s>>)%MS by rewrite (sumsmx_sup t) ?genmxE.
apply/negP => /eqP/sub_kermxP/(submx_trans Et)/sub_kermxP.
by rewrite Ec => /matrixP/(_ (Ordinal nt) 0)/eqP; rewrite !mxE oner_eq0.
Qed.

Theorem theorem_3_c : Theorem3_c.
Proof.
move=> R d T H E Q W; apply: leq_trans (@rank_le_all R d T H (fun=> 1%N) E Q W) _.
rewrite (_ : differences_dim _ _ = 0%N) ?muln0 ?addn0 //; apply/eqP; rewrite mxrank_eq0 -submx0.
apply/sumsmx_subP => t _; apply: differences_subP => i j; by rewrite !ord1 subrr sub0mx.
Qed.

Theorem theorem_3_d : Theorem3_d.
Proof.
move=> R n d T H E Q W; have [n0|n0] := posnP n.
  have [T0|T0] := posnP T; first by apply: leq_trans (rank_leq_row _) _; rewrite T0.
  suff -> : intermediate (fun=> E) Q W = 0 by rewrite mxrank0.
  apply/row_matrixP => t; rewrite rowK row0 -[RHS](linear0 (@mxvec_linear _ _ _)).
  congr mxvec; apply/row_matrixP => h; rewrite rowK row0 /head; move: E; rewrite n0 => E.
  by rewrite thinmx0 mul0mx.
apply: (@rank_le_smaller R d T H (fun=> n) (fun=> E) Q W); rewrite ?subnK //.
  apply: leq_trans (rank_leq_row E); apply: mxrankS; apply/sumsmx_subP => t _.
  by rewrite genmxE.
by apply: leq_trans (rank_differences_le E); apply: mxrankS; apply/sumsmx_subP => t _.
Qed.
