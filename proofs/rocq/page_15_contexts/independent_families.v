(* proofs/15-contexts.md: independent families of vectors, and of representatives of subspaces. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import linear_algebra Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Independence.

Variable F : fieldType.

Lemma span_enum d T (J : {set 'I_T}) (v : 'I_T -> 'rV[F]_d) :
  (span J v :=: \matrix_(i < #|J|) v (enum_val i))%MS.
Proof.
apply/eqmxP/andP; split.
  apply/sumsmx_subP => t tJ; rewrite genmxE.
  by have := row_sub (enum_rank_in tJ t) (\matrix_(i < #|J|) v (enum_val i));
    rewrite rowK enum_rankK_in.
by apply/row_subP => i; rewrite rowK /span (sumsmx_sup (enum_val i)) ?genmxE ?enum_valP.
Qed.

Lemma independentP d T (J : {set 'I_T}) (v : 'I_T -> 'rV[F]_d) :
  independent J v <-> row_free (\matrix_(i < #|J|) v (enum_val i)).
Proof. by rewrite /independent span_enum /row_free; split=> [->|/eqP]. Qed.

Lemma rank_span_leq d T (J : {set 'I_T}) (v : 'I_T -> 'rV[F]_d) : (\rank (span J v) <= #|J|)%N.
Proof.
apply: leq_trans (mxrank_sum_leqif _) _; rewrite -sum1_card /=.
by apply: leq_sum => t _; rewrite mxrank_gen rank_leq_row.
Qed.

Lemma eq_span d T (J : {set 'I_T}) (v w : 'I_T -> 'rV[F]_d) :
    (forall t, t \in J -> v t = w t) -> span J v = span J w.
Proof. by move=> vw; rewrite /span; under eq_bigr => t /vw-> do []. Qed.

Lemma eq_independent d T (J : {set 'I_T}) (v w : 'I_T -> 'rV[F]_d) :
  (forall t, t \in J -> v t = w t) -> independent J v -> independent J w.
Proof. by rewrite /independent => /eq_span->. Qed.

(* Subspaces of dimension at least #|J| have independent representatives. *)
Lemma representatives d T (J : {set 'I_T}) (M : 'I_T -> 'M[F]_d) :
  (forall t, t \in J -> (#|J| <= \rank (M t))%N) ->
  exists v : 'I_T -> 'rV[F]_d, independent J v /\ forall t, (v t <= M t)%MS.
Proof.
move=> MJ; have [J0|[t0 t0J]] := set_0Vmem J.
  exists (fun=> 0); split=> [|t]; last exact: sub0mx.
  by rewrite /independent /span J0 big_set0 mxrank0 cards0.
have [i m L mJ|x xf] := @greedy_rows F 'I_d #|J| d (fun i x => row x (M (enum_val i))).
  apply/row_subPn; apply: contraTN mJ => /mxrankS/leq_trans/(_ (rank_leq_row L)).
  by rewrite -leqNgt; apply: leq_trans; apply: MJ; apply: enum_valP.
exists (fun t => row (x (enum_rank_in t0J t)) (M t)); split=> [|t]; last exact: row_sub.
apply/independentP; move: xf; congr (is_true (row_free _)).
by apply/row_matrixP => i; rewrite !rowK enum_valK_in.
Qed.

End Independence.
