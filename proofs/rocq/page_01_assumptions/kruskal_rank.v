(* proofs/1-assumptions.md: Lemma 1.2, what Kruskal rank gives: independent groups, and no query *)
(* of another group in the span of a small one.                                                  *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity independent_families.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Kruskal.

Variables (R : realType) (d T : nat) (Q : 'M[R]_(T, d)) (k : nat).

Lemma kruskal_independent (J : {set 'I_T}) :
  kruskal_rank_at_least Q k -> (#|J| <= k)%N -> independent J (fun t => row t Q).
Proof.
move=> Qk Jk; apply/independentP; have := Qk _ _ Jk (@enum_val_inj _ (mem J)).
by congr (is_true (row_free _)); apply/row_matrixP => i; rewrite row_rowsub rowK.
Qed.

Lemma kruskal_not_in_span (J : {set 'I_T}) t :
  kruskal_rank_at_least Q k -> (#|J| < k)%N -> t \notin J ->
    ~~ (row t Q <= span J (fun s => row s Q))%MS.
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

(* Any choice of different queries has the same Kruskal rank at least. *)
Lemma kruskal_rowsub m (f : 'I_m -> 'I_T) (A : 'M[R]_(m, d)) :
  injective f -> (forall i, row i A = row (f i) Q) ->
  kruskal_rank_at_least Q k -> kruskal_rank_at_least A k.
Proof.
move=> fi AQ Qk l e lk ei; have := Qk l (f \o e) lk (inj_comp fi ei).
by congr (is_true (row_free _)); apply/row_matrixP => i; rewrite !row_rowsub AQ.
Qed.

End Kruskal.
