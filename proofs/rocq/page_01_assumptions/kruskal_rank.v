(* Kruskal rank in terms of independent sets, and independent representatives of large subspaces. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions linear_algebra Capacity theorem_8 exchange.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Independence.

Variable F : fieldType.

Lemma eq_span d T (J : {set 'I_T}) (v w : 'I_T -> 'rV[F]_d) : (forall t, t \in J -> v t = w t) -> span J v = span J w.
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

Lemma rank_differences_ge n d (E : 'M[F]_(n, d)) : (\rank E - 1 <= \rank (differences E))%N.
Proof.
rewrite leq_subLR; case: n E => [|n] E; first by rewrite [E]flatmx0 mxrank0.
have : (E <= row 0 E + differences E)%MS.
  apply/row_subP => i; rewrite -(subrK (row 0 E) (row i E)) addmx_sub ?addsmxSl //.
  by apply: submx_trans (addsmxSr _ _); apply: difference_sub.
move=> /mxrankS/leq_trans; apply; apply: leq_trans (mxrank_adds_leqif _ _) _.
by rewrite leq_add2r rank_leq_row.
Qed.

Lemma rank_differences_le n d (E : 'M[F]_(n, d)) : (\rank (differences E) <= n - 1)%N.
Proof.
case: n E => [|n] E; first by apply: leq_trans (mxrankS (differences_sub E)) _; rewrite [E]flatmx0 mxrank0.
rewrite subn1 /=; pose D := \matrix_(i < n) (row (lift 0 i) E - row 0 E).
have iD i : (row i E - row 0 E <= D)%MS.
  case: (unliftP 0 i) => [i' ->|->]; last by rewrite subrr sub0mx.
  by have := row_sub i' D; rewrite rowK.
apply: leq_trans (rank_leq_row D); apply: mxrankS; apply: differences_subP => i j.
have -> : row i E - row j E = (row i E - row 0 E) - (row j E - row 0 E) by rewrite opprB addrA subrK.
by rewrite addmx_sub ?eqmx_opp.
Qed.

End Independence.

Section Kruskal.

Variables (R : realType) (d T : nat) (Q : 'M[R]_(T, d)) (k : nat).

Lemma kruskal_independent (J : {set 'I_T}) :
  kruskal_rank_at_least Q k -> (#|J| <= k)%N -> independent J (fun t => row t Q).
Proof.
move=> Qk Jk; apply/independentP; have := Qk _ _ Jk (@enum_val_inj _ (mem J)).
by congr (is_true (row_free _)); apply/row_matrixP => i; rewrite row_rowsub rowK.
Qed.

Lemma kruskal_not_in_span (J : {set 'I_T}) t :
  kruskal_rank_at_least Q k -> (#|J| < k)%N -> t \notin J -> ~~ (row t Q <= span J (fun s => row s Q))%MS.
Proof.
move=> Qk Jk tJ; apply/negP => tS.
have cJ : #|t |: J| = #|J|.+1 by rewrite cardsU1 tJ.
have := kruskal_independent (J := t |: J) Qk; rewrite cJ => /(_ Jk) e.
have : (span (t |: J) (fun s => row s Q) <= span J (fun s => row s Q))%MS.
  apply/sumsmx_subP => s; rewrite in_setU1 genmxE => /orP[/eqP->//|sJ].
  by rewrite /span (sumsmx_sup s) ?genmxE.
move=> /mxrankS; rewrite e cJ => /leq_trans/(_ (rank_span_leq _ _)).
by rewrite ltnn.
Qed.

End Kruskal.
