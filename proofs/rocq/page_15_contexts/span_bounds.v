(* proofs/15-contexts.md: Lemma 15.4, what bounds the dimensions k_J and delta_J of a set J of *)
(* examples: vectors orthogonal to tokens and to differences, or that tokens are few.          *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import Capacity differences.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Bounds.

Variables (F : fieldType) (d T : nat) (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)).
Variable J : {set 'I_T}.

(* Each vector has an entry which is zero in all later ones. *)
Lemma triangular_free m (X : 'M[F]_(m, d)) (pivot : 'I_m -> 'I_d) :
  (forall i, X i (pivot i) != 0) -> (forall i j : 'I_m, (i < j)%N -> X j (pivot i) = 0) ->
  row_free X.
Proof.
move=> X0 Xlater; apply: inj_row_free => v vX.
suff v0 k (i : 'I_m) : (i < k)%N -> v 0 i = 0 by apply/rowP => i; rewrite mxE (v0 m).
elim: k i => // k IHk i; rewrite ltnS => ik.
have := congr1 (fun x : 'rV_d => x 0 (pivot i)) vX; rewrite !mxE (bigD1 i) //= big1 ?addr0.
  by move=> /eqP; rewrite mulf_eq0 (negPf (X0 i)) orbF => /eqP.
move=> j ji; have [lt|ge] := ltnP j i; first by rewrite IHk ?mul0r // (leq_trans lt).
by rewrite Xlater ?mulr0 // ltn_neqAle ge andbT eq_sym.
Qed.

Lemma orthogonal_dim k m (S : 'M[F]_(k, d)) (X : 'M[F]_(m, d)) :
  row_free X -> (S <= kermx X^T)%MS -> (\rank S <= d - m)%N.
Proof.
move=> Xm /sub_kermxP/mulmx0_rank_max; rewrite mxrank_tr (eqP Xm) => Sd.
by rewrite -(leq_add2r m) subnK // (leq_trans _ Sd) // leq_addl.
Qed.

Lemma tokens_dim_vectors m (X : 'M[F]_(m, d)) :
  row_free X -> (forall t, t \in J -> E t *m X^T = 0) -> (tokens_dim E J <= d - m)%N.
Proof.
move=> Xm EX; apply: (orthogonal_dim Xm).
by apply/sumsmx_subP => t tJ; rewrite genmxE; apply/sub_kermxP; exact: EX.
Qed.

Lemma differences_dim_vectors m (X : 'M[F]_(m, d)) : row_free X ->
  (forall t i j, t \in J -> row i (E t) *m X^T = row j (E t) *m X^T) ->
  (differences_dim E J <= d - m)%N.
Proof.
move=> Xm EX; apply: (orthogonal_dim Xm).
apply/sumsmx_subP => t tJ; apply: differences_subP => i j; apply/sub_kermxP.
by rewrite mulmxBl (EX t i j tJ) subrr.
Qed.

(* There are V different tokens, the rows of w. *)
Variables (V : nat) (w : 'M[F]_(V, d)).

Lemma tokens_dim_words : (forall t i, t \in J -> exists k, row i (E t) = row k w) ->
  (tokens_dim E J <= V)%N.
Proof.
move=> Ew; apply: leq_trans (rank_leq_row w); apply: mxrankS; apply/sumsmx_subP => t tJ.
by rewrite genmxE; apply/row_subP => i; have [k ->] := Ew t i tJ; exact: row_sub.
Qed.

(* Those of one context have one root: differences are combinations of those to roots. *)
Lemma differences_dim_words (root : 'I_V -> 'I_V) :
  (forall t i j, t \in J -> exists k l,
    [/\ row i (E t) = row k w, row j (E t) = row l w & root k = root l]) ->
  (differences_dim E J <= #|[pred k | root k != k]|)%N.
Proof.
move=> Ew; pose v k := row k w - row (root k) w.
have vS k : (v k <= \sum_(l | root l != l) <<v l>>)%MS.
  have [kk|kk] := eqVneq (root k) k; first by rewrite /v kk subrr sub0mx.
  by rewrite (sumsmx_sup k) ?genmxE.
have -> : #|[pred k | root k != k]| = (\sum_(k | root k != k) 1)%N by rewrite sum1_card.
apply: (@leq_trans (\rank (\sum_(l | root l != l) <<v l>>)%MS)).
  apply: mxrankS; apply/sumsmx_subP => t tJ; apply: differences_subP => i j.
  have [k [l [-> -> kl]]] := Ew t i j tJ.
  have -> : row k w - row l w = v k - v l by rewrite /v kl opprB addrA subrK.
  by rewrite addmx_sub ?eqmx_opp.
apply: leq_trans (mxrank_sum_leqif _).1 _; apply: leq_sum => k _.
by rewrite /= mxrank_gen rank_leq_row.
Qed.

End Bounds.
