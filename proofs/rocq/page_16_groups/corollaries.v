(* proofs/16-groups.md: corollaries (i) and (ii) of Theorem 10, for consecutive groups: H (k - 1) *)
(* + 1 examples with queries of Kruskal rank k.                                                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity kruskal_rank consecutive_groups differences
  independent_families theorem_10_representatives.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Corollaries.

Variables (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)).

Lemma kruskal_capacity k (v : 'I_T -> 'rV[R]_d) :
  (0 < k)%N -> (0 < H)%N -> kruskal_rank_at_least Q k -> (T <= H * (k - 1) + 1)%N ->
  (forall t : 'I_T, consecutive k t = 0%N -> (v t <= E t)%MS) ->
  (forall t : 'I_T, (0 < consecutive k t)%N -> (v t <= differences (E t))%MS) ->
  (forall h, independent [set t : 'I_T | consecutive k t == h] v) ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.
Proof.
move=> k0 H0 Qk TH vE vD vi.
pose g (t : 'I_T) := Ordinal (consecutive_ltn H0 TH (ltn_ord t)).
have gE (h : 'I_H) : [set t | g t == h] = [set t : 'I_T | consecutive k t == h].
  by apply/setP => t; rewrite !inE -val_eqE.
apply: (theorem_10_representatives (g := g) (v := v)) => [h|t h th|t t0|t t0|h]; last by rewrite gE.
- apply: kruskal_independent Qk _; rewrite gE; have [->|h0] := posnP h;
    first exact: (consecutive_first k0 TH).
  by apply: leq_trans (consecutive_later _ _ h0) _; rewrite leq_subr.
- apply: kruskal_not_in_span Qk _ _; last by rewrite inE neq_ltn th.
  rewrite gE -{2}(prednK k0) ltnS -subn1; apply: consecutive_later; exact: leq_ltn_trans th.
- exact: vE.
- exact: vD.
Qed.

(* Corollary (ii), Theorem 2 with contexts of any sizes: rank k is all that is needed. *)
Lemma rank_capacity k :
  (0 < k)%N -> (0 < H)%N -> kruskal_rank_at_least Q k -> (forall t, (k <= \rank (E t))%N) ->
  (T <= H * (k - 1) + 1)%N ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.
Proof.
move=> k0 H0 Qk Ek TH.
pose M (t : 'I_T) := if consecutive k t == 0%N then <<E t>>%MS else differences (E t).
have /fin_all_exists[w wP] (h : 'I_H) : exists v : 'I_T -> 'rV[R]_d,
    independent [set t : 'I_T | consecutive k t == h] v /\ forall t, (v t <= M t)%MS.
  apply: representatives => t; rewrite inE /M => /eqP->.
  have [->|h0] := posnP h.
    by rewrite mxrank_gen (leq_trans (consecutive_first k0 TH)).
  rewrite (leq_trans (consecutive_later _ _ h0)) //.
  by rewrite (leq_trans _ (rank_differences_ge _)) ?leq_sub2r.
pose g (t : 'I_T) := Ordinal (consecutive_ltn H0 TH (ltn_ord t)).
apply: (kruskal_capacity (v := fun t => w (g t) t) k0 H0 Qk TH) => [t t0|t t0|h].
- by have [_ /(_ t)] := wP (g t); rewrite /M t0 /= genmxE.
- by have [_ /(_ t)] := wP (g t); rewrite /M gtn_eqF.
have [hH|Hh] := ltnP h H.
  have [wi _] := wP (Ordinal hH); apply: eq_independent wi => t; rewrite inE => /eqP th.
  by congr (w _ _); apply: val_inj; rewrite /= th.
have -> : [set t : 'I_T | consecutive k t == h] = set0.
  apply/setP => t; rewrite !inE; apply/negP => /eqP e.
  by move: (consecutive_ltn H0 TH (ltn_ord t)); rewrite e ltnNge Hh.
by rewrite /independent /span big_set0 mxrank0 cards0.
Qed.

End Corollaries.

Theorem corollary_10_i : Corollary10_i.
Proof.
move=> R d T H n E Q i1 i2 d0 H0 Qd E1 E12 TH.
pose v (t : 'I_T) := if consecutive d t == 0%N then row (i1 t) (E t) else row (i1 t)
  (E t) - row (i2 t) (E t).
apply: (kruskal_capacity (v := v) d0 H0 Qd TH) => [t t0|t t0|h].
- by rewrite /v t0 row_sub.
- by rewrite /v gtn_eqF // difference_sub.
have [->|h0] := posnP h.
  apply: eq_independent (kruskal_independent E1 (consecutive_first d0 TH)) => t.
  by rewrite inE rowK /v => ->.
apply: eq_independent (kruskal_independent E12 (consecutive_later _ _ h0)) => t.
by rewrite inE rowK /v => /eqP->; rewrite gtn_eqF.
Qed.

Theorem corollary_10_ii : Corollary10_ii.
Proof. by move=> R d T H k n E Q; exact: rank_capacity. Qed.
