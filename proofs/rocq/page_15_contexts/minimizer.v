(* proofs/15-contexts.md: Proposition 15.3. Rows y_t in subspaces M_t whose every set has the   *)
(* largest rank possible, and the set J of rows in dependencies: their rank is T - |J| + dim of *)
(* the sum of M_t over J, the least of these numbers over all sets.                             *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Minimizer.

Variables (F : fieldType) (d T : nat).

(* Rows in dependencies: each is in the span of the other ones. *)
Definition dependent (y : 'I_T -> 'rV[F]_d) : {set 'I_T} := [set t | (y t <= span (~: [set t])
  y)%MS].

(* Every set of the rows y has the largest rank of rows in the subspaces M. *)
Definition generic (M : 'I_T -> 'M[F]_d) (y : 'I_T -> 'rV[F]_d) : Prop :=
  (forall t, (y t <= M t)%MS) /\
  forall (y' : 'I_T -> 'rV[F]_d) (J : {set 'I_T}), (forall t, (y' t <= M t)%MS) ->
    (\rank (span J y') <= \rank (span J y))%N.

Definition subspace_bound (M : 'I_T -> 'M[F]_d) (J : {set 'I_T}) : nat := T - #|J| + \rank (\sum_(t
  in J) M
  t)%MS.

Lemma span_sub (y : 'I_T -> 'rV[F]_d) (J K : {set 'I_T}) : J \subset K -> (span J y <= span K y)%MS.
Proof. by move=> /subsetP JK; apply/sumsmx_subP => t /JK tK; rewrite (sumsmx_sup t). Qed.

Lemma row_in_span (y : 'I_T -> 'rV[F]_d) (J : {set 'I_T}) t : t \in J -> (y t <= span J y)%MS.
Proof. by move=> tJ; rewrite /span (sumsmx_sup t) ?genmxE. Qed.

(* Any set of rows adds to the others at most its number. *)
Lemma rank_span_split (y : 'I_T -> 'rV[F]_d) (J : {set 'I_T}) : (\rank (span setT y) <= T - #|J| +
  \rank (span J y))%N.
Proof.
have -> : (T - #|J| = #|~: J|)%N by rewrite [RHS]cardsCs setCK card_ord.
have sub : (span setT y <= span (~: J) y + span J y)%MS.
  apply/sumsmx_subP => t _; rewrite genmxE; have [tJ|tJ] := boolP (t \in J).
    by apply: submx_trans (addsmxSr _ _); exact: row_in_span.
  by apply: submx_trans (addsmxSl _ _); apply: row_in_span; rewrite inE.
apply: leq_trans (mxrankS sub) _; apply: leq_trans (mxrank_adds_leqif _ _) _.
rewrite leq_add2r /span; apply: leq_trans (mxrank_sum_leqif _) _; rewrite -sum1_card /=.
by apply: leq_sum => t _; rewrite mxrank_gen rank_leq_row.
Qed.

Lemma rank_le_bound M (y : 'I_T -> 'rV[F]_d) J : (forall t, (y t <= M t)%MS) -> (\rank (span setT
  y) <= subspace_bound M J)%N.
Proof.
move=> yM; apply: leq_trans (rank_span_split y J) _; rewrite leq_add2l; apply: mxrankS.
by apply/sumsmx_subP => t tJ; rewrite (sumsmx_sup t) // genmxE.
Qed.

(* Rows outside of J are in no dependency: they are independent of all others. *)
Lemma rank_outside (y : 'I_T -> 'rV[F]_d) : (\rank (span setT y) = T - #|dependent y| + \rank (span
  (dependent y) y))%N.
Proof.
set J := dependent y.
suff grow m : forall K : {set 'I_T}, J \subset K -> #|K :\: J| = m -> (\rank (span K y) = m + \rank
  (span J y))%N.
  rewrite (grow #|~: J| setT) ?subsetT //; last by rewrite setTD.
  by rewrite [#|~: _|]cardsCs setCK card_ord.
elim: m => [|m IHm] K JK Km.
  by have -> : K = J; last by []; apply/eqP; rewrite eqEsubset JK -setD_eq0 -cards_eq0 Km eqxx.
have [t tKJ] : exists t, t \in K :\: J by apply/card_gt0P; rewrite Km.
have /setDP[tK tJ] := tKJ.
have K'm : #|(K :\ t) :\: J| = m.
  have -> : (K :\ t) :\: J = (K :\: J) :\ t by apply/setP => s; rewrite !inE andbCA.
  by have := cardsD1 t (K :\: J); rewrite tKJ Km add1n => -[].
have JK' : J \subset K :\ t.
  by apply/subsetP => s sJ; rewrite !inE (subsetP JK) // andbT; apply: contraNneq tJ => <-.
rewrite addSn -(IHm _ JK' K'm).
have tN : ~~ (y t <= span (K :\ t) y)%MS.
  move: tJ; rewrite inE; apply: contra => /submx_trans; apply; apply: span_sub.
  by apply/subsetP => s; rewrite !inE => /andP[].
have e : (span K y :=: y t + span (K :\ t) y)%MS.
  by rewrite /span (big_setD1 t) //=; apply: adds_eqmx => //; exact: genmxE.
apply/eqP; rewrite e eqn_leq; apply/andP; split.
  by apply: leq_trans (mxrank_adds_leqif _ _) _; rewrite -[X in (_ <= X)%N]add1n leq_add2r
    rank_leq_row.
have : (span (K :\ t) y < y t + span (K :\ t) y)%MS by rewrite /ltmx addsmxSr addsmx_sub submx_refl
  andbT.
by move=> /rank_ltmx.
Qed.

Lemma rank_span_size (y : 'I_T -> 'rV[F]_d) (J : {set 'I_T}) : (\rank (span J y) <= #|J|)%N.
Proof.
apply: leq_trans (mxrank_sum_leqif _) _; rewrite -sum1_card /=.
by apply: leq_sum => t _; rewrite mxrank_gen rank_leq_row.
Qed.

(* Without t the rows of J have the same rank. *)
Lemma rank_without (y : 'I_T -> 'rV[F]_d) t : t \in dependent y ->
  (\rank (span (dependent y) y) <= \rank (span (dependent y :\ t) y))%N.
Proof.
move=> tJ; have := rank_outside y; set J := dependent y.
have all : (span setT y <= span (~: [set t]) y)%MS.
  apply/sumsmx_subP => s _; rewrite genmxE; have [->|st] := eqVneq s t; first by move: tJ;
    rewrite inE.
  by apply: row_in_span; rewrite !inE.
have sub : (span (~: [set t]) y <= span (~: J) y + span (J :\ t) y)%MS.
  apply/sumsmx_subP => s; rewrite in_setC in_set1 => st; rewrite genmxE;
    have [sJ|sJ] := boolP (s \in J).
    by apply: submx_trans (addsmxSr _ _); apply: row_in_span; rewrite in_setD1 st sJ.
  by apply: submx_trans (addsmxSl _ _); apply: row_in_span; rewrite in_setC.
have := mxrankS (submx_trans all sub) => le eq.
have : (\rank (span setT y) <= T - #|J| + \rank (span (J :\ t) y))%N.
  apply: leq_trans le _; apply: leq_trans (mxrank_adds_leqif _ _) _.
  rewrite leq_add2r; apply: leq_trans (rank_span_size _ _) _; by rewrite [#|~: _|]cardsCs setCK
    card_ord.
by rewrite eq leq_add2l.
Qed.

(* Proposition 15.3 *)
Theorem minimizer (M : 'I_T -> 'M[F]_d) (y : 'I_T -> 'rV[F]_d) : generic M y ->
  \rank (span setT y) = subspace_bound M (dependent y) /\ forall J, (subspace_bound M (dependent y)
    <= subspace_bound M J)%N.
Proof.
move=> [yM ymax]; set J := dependent y.
suff MJ : (\sum_(t in J) M t <= span J y)%MS.
  have e : \rank (span setT y) = subspace_bound M J.
    apply: anti_leq; rewrite rank_le_bound //= rank_outside -/J /subspace_bound leq_add2l.
    exact: mxrankS.
  by split=> // K; rewrite -e; exact: rank_le_bound.
apply/sumsmx_subP => t tJ; apply/row_subP => i; set x := row i (M t).
pose y' s := if s == t then x else y s.
have y'M s : (y' s <= M s)%MS by rewrite /y'; case: eqP => [->|_]; [exact: row_sub|exact: yM].
have same : span (J :\ t) y' = span (J :\ t) y.
  by apply: eq_bigr => s; rewrite in_setD1 /y' => /andP[/negPf->].
have sub : (span (J :\ t) y <= span J y')%MS.
  by rewrite -same; apply: span_sub; exact: subsetDl.
have le : (\rank (span J y') <= \rank (span (J :\ t) y))%N.
  by apply: leq_trans (ymax _ _ y'M) _; exact: rank_without.
have x_in : (x <= span J y')%MS by have := row_in_span y' tJ; rewrite /y' eqxx.
have back : (span J y' <= span (J :\ t) y)%MS.
  by rewrite -(geq_leqif (mxrank_leqif_sup sub)).
apply: submx_trans x_in (submx_trans back _); apply: span_sub; exact: subsetDl.
Qed.

End Minimizer.
