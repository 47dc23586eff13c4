(* proofs/15-contexts.md: Lemma 15.2. Independent vectors can be replaced one by one by points of *)
(* sets which span them.                                                                         *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import linear_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Exchange.

Variable F : fieldType.

(* The points f t x leave each subspace that does not contain the representative v t. *)
Lemma exchange_above (X : Type) q d (f : 'I_q -> X -> 'rV[F]_d) (v : 'M[F]_(q, d)) (U : 'M[F]_d) :
  (forall t m (L : 'M[F]_(m, d)), ~~ (row t v <= L)%MS -> exists x, ~~ (f t x <= L)%MS) ->
  (\rank U + q <= \rank (U + v)%MS)%N ->
  exists x : 'I_q -> X, (\rank U + q <= \rank (U + \matrix_t f t (x t))%MS)%N.
Proof.
elim: q f v U => [|q IHq] f v U fv Uv.
  have F0 (t : 'I_0) : False by case: t.
  by exists (fun t => match F0 t with end); rewrite addn0 mxrankS ?addsmxSl.
pose v0 := row 0 v; pose v' := \matrix_(t < q) row (lift 0 t) v.
have vE : (v <= v0 + v')%MS.
  apply/row_subP => t; case: (unliftP 0 t) => [t' ->|->]; last exact: addsmxSl.
  by apply: submx_trans (addsmxSr _ _); have := row_sub t' v'; rewrite rowK.
have rUv' : (\rank (U + v')%MS <= \rank U + q)%N.
  by apply: leq_trans (mxrank_adds_leqif _ _) _; rewrite leq_add2l rank_leq_row.
have Uv' : (\rank U + q.+1 <= \rank (v0 + (U + v'))%MS)%N.
  apply: leq_trans Uv _; apply: mxrankS; rewrite addsmx_sub; apply/andP; split.
    by apply: submx_trans (addsmxSr _ _); apply: addsmxSl.
  by apply: submx_trans vE _; apply: addsmxS => //; apply: addsmxSr.
have v0N : ~~ (v0 <= U + v')%MS.
  apply: contraL Uv' => /addsmx_idPr e; rewrite -ltnNge addnS ltnS.
  by apply: leq_trans rUv'; rewrite e.
have [x0 x0N] := fv _ _ _ v0N.
have grow : (\rank U + q.+1 <= \rank (f 0%R x0 + (U + v'))%MS)%N.
  have : (U + v' < f 0%R x0 + (U + v'))%MS by rewrite /ltmx addsmxSr addsmx_sub submx_refl andbT.
  move=> /rank_ltmx; apply: leq_trans; rewrite addnS ltnS.
  have : (\rank (v0 + (U + v'))%MS <= (\rank (U + v')%MS).+1)%N.
    by apply: leq_trans (mxrank_adds_leqif _ _) _;
      rewrite -[X in (_ <= X)%N]add1n leq_add2r rank_leq_row.
  by move=> /(leq_trans Uv'); rewrite addnS ltnS.
pose U' := (f 0%R x0 + U)%MS.
have rU' : (\rank U' = (\rank U).+1)%N.
  apply/eqP; rewrite eqn_leq; apply/andP; split.
    by apply: leq_trans (mxrank_adds_leqif _ _) _;
      rewrite -[X in (_ <= X)%N]add1n leq_add2r rank_leq_row.
  have : (\rank (f 0%R x0 + (U + v'))%MS <= \rank U' + q)%N.
    rewrite addsmxA; apply: leq_trans (mxrank_adds_leqif _ _) _.
    by rewrite leq_add2l rank_leq_row.
  by move=> /(leq_trans grow); rewrite addnS -addSn leq_add2r.
have [t m L|| x xP] := IHq (fun t => f (lift 0 t)) v' U'.
- by rewrite rowK; apply: fv.
- by rewrite rU' addSnnS; move: grow; rewrite addsmxA.
exists (fun t => if unlift 0 t is Some t' then x t' else x0).
move: xP; rewrite rU' addSnnS => /leq_trans; apply; apply: mxrankS.
set A := \matrix_t f t _; have A0 : (f 0%R x0 <= A)%MS by have := row_sub 0 A;
  rewrite rowK unlift_none.
have A' : (\matrix_t f (lift 0 t) (x t) <= A)%MS.
  by apply/row_subP => t; rewrite rowK; have := row_sub (lift 0 t) A; rewrite rowK liftK.
by rewrite !addsmx_sub addsmxSl !(submx_trans _ (addsmxSr _ _)).
Qed.

Lemma exchange (X : Type) q d (f : 'I_q -> X -> 'rV[F]_d) (v : 'M[F]_(q, d)) :
  (forall t m (L : 'M[F]_(m, d)), ~~ (row t v <= L)%MS -> exists x, ~~ (f t x <= L)%MS) ->
  row_free v -> exists x : 'I_q -> X, row_free (\matrix_t f t (x t)).
Proof.
move=> fv vf; have [|x] := exchange_above (U := 0) fv.
  by rewrite mxrank0 adds0mx (eqP vf).
rewrite mxrank0 adds0mx => xP.
by exists x; rewrite /row_free eqn_leq rank_leq_row.
Qed.

End Exchange.
