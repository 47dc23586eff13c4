(* proofs/15-contexts.md: for Theorem 9. A functional which vanishes on the rows of all queries *)
(* for one context is constant on its tokens, head by head: heads have one separating key       *)
(* direction, and query directions of which no two are parallel.                                *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions directions softmax saturation rank_one_heads limits
  curve.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section HeadsSpan.

Variables (R : realType) (d : nat).

Lemma constant_functional n H (E : 'M[R]_(n, d)) (a : 'cV[R]_d) (q u : 'I_H -> 'cV[R]_d) h :
  separates (E *m a) E -> q h != 0 -> (forall g, g != h -> ~~ ((q g)^T <= (q h)^T)%MS) ->
  (forall e, \sum_g (head E (a *m (q g)^T) e *m u g) 0 0 = 0) ->
  exists C, forall i, (E *m u h) i 0 = C.
Proof.
move=> Ea qh qg uE; pose I := {g : 'I_H | g != h}.
have [[]|w [hw gw]] := @orthogonal_direction R [finType of I] 1 d (q h)^T (fun g => (q (val g))^T);
  first exact: qg.
have [|s sh] := @any_scores R 1 d (q h)^T (fun=> 1).
  by rewrite /row_free eqn_leq rank_leq_row lt0n mxrank_eq0 trmx_eq0.
have dot (x y : 'cV[R]_d) : (x^T *m y) 0 0 = (y^T *m x) 0 0.
  by rewrite [LHS]mxE [RHS]mxE; apply: eq_bigr => i _; rewrite [x^T _ _]mxE [y^T _ _]mxE mulrC.
have {}sh : (s^T *m q h) 0 0 = 1 by rewrite dot; have := sh 0; rewrite row_id.
have wg g : g != h -> (w^T *m q g) 0 0 != 0.
  by move=> gh; rewrite dot; exact: (gw (exist _ g gh)).
have {}hw : (w^T *m q h) 0 0 = 0 by rewrite dot hw mxE.
have /fin_all_exists[l lP] (g : 'I_H) : exists l : 'cV[R]_n, g != h -> forall s i,
    softmax ((s + k%:R * (w^T *m q g) 0 0) *: (E *m a)) i 0 @[k --> \oo] --> (l i 0 : R).
  have [_|gh] := eqVneq g h; first by exists 0.
  by have [l lP] := saturation_with_ties (E *m a) (wg g gh); exists l.
pose b := - \sum_(g | g != h) ((l g)^T *m (E *m u g)) 0 0.
exists b; apply: (@softmax_functional _ _ (E *m a)) => [i j /Ea e|k _].
  transitivity ((row i E *m u h) 0 0); first by rewrite -row_mul [RHS]mxE.
  by rewrite e -row_mul [LHS]mxE.
pose e (j : nat) := k%:R *: s^T + j%:R *: w^T.
have eE j g : head E (a *m (q g)^T) (e j) *m u g =
    (softmax ((k%:R * (s^T *m q g) 0 0 + j%:R * (w^T *m q g) 0 0) *: (E *m a)))^T *m (E *m u g).
  rewrite head_rank_one mulmxDl -!scalemxAl -mulmxA.
  by rewrite [(_ + _ : 'M_1) 0 0]mxE [(k%:R *: _ : 'M_1) 0 0]mxE [(j%:R *: _ : 'M_1) 0 0]mxE.
set c := LHS; have cE j : \sum_(g | g != h) (head E (a *m (q g)^T) (e j) *m u g) 0 0 = - c.
  have := uE (e j); rewrite (bigD1 h) //= => /(canRL (addKr _)) ->.
  by rewrite addr0 eE sh hw mulr0 addr0 mulr1.
apply: oppr_inj; rewrite opprK.
have lim1 : (\sum_(g | g != h) (head E (a *m (q g)^T) (e j) *m u g) 0 0) @[j --> \oo] --> - c.
  by under eq_fun do rewrite cE; exact: cvg_cst.
have lim2 : (\sum_(g | g != h) (head E (a *m (q g)^T) (e j) *m u g) 0 0) @[j --> \oo] -->
    \sum_(g | g != h) ((l g)^T *m (E *m u g)) 0 0.
  have mkcond (F : 'I_H -> R) : \sum_(g | g != h) F g = \sum_g (if g != h then F g else 0) by
    exact: big_mkcond.
  under eq_fun do rewrite mkcond; rewrite mkcond.
  apply: cvg_sum_seq => g; case: ifP => [gh|_]; last exact: cvg_cst.
  under eq_fun do rewrite eE.
  apply: cvg_mulmx => i0 i'; rewrite ord1 [(l g)^T _ _]mxE.
  by under eq_fun do rewrite [_^T _ _]mxE; exact: lP.
exact: (cvg_unique _ lim1 lim2).
Qed.

End HeadsSpan.
