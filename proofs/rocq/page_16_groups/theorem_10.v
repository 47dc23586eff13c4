(* proofs/16-groups.md: Theorem 10. Where dimensions are large enough, Rado's theorem gives the *)
(* representatives.                                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity independent_families rado
  theorem_10_representatives.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Theorem theorem_10 : Theorem10.
Proof.
move=> R d T H n E Q g /= gQ gP gJ.
pose M (h : 'I_H) t := if h == 0%N :> nat then <<E t>>%MS else differences (E t).
have /fin_all_exists[w wP] (h : 'I_H) : exists v : 'I_T -> 'rV[R]_d,
    (forall t, (v t <= M h t)%MS) /\ independent [set t | g t == h] v.
  apply: rado_subspaces => J JS; apply: leq_trans (gJ h J JS) _.
  by rewrite /M /tokens_dim /differences_dim; case: eqP.
apply: (theorem_10_representatives (v := fun t => w (g t) t) gQ gP) => [t t0|t t0|h].
- by have [/(_ t)] := wP (g t); rewrite /M t0 /= genmxE.
- by have [/(_ t)] := wP (g t); rewrite /M gtn_eqF.
by have [_] := wP h; apply: eq_independent => t; rewrite inE => /eqP->.
Qed.
