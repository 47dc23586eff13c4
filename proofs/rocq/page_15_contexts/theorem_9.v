(* Theorem 9 without measure: c(E; H) is the largest rank over all queries and all weights. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions linear_algebra Capacity theorem_8 separating_direction exchange
  rado theorem_10 layer_space.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Rado's theorem with deficiency e *)
Lemma rado_deficiency (F : fieldType) d T (M : 'I_T -> 'M[F]_d) e :
  (forall J : {set 'I_T}, (#|J| <= \rank (\sum_(t in J) M t)%MS + e)%N) ->
  exists v : 'M[F]_(T, d), (forall t, (row t v <= M t)%MS) /\ (T <= \rank v + e)%N.
Proof.
move=> MJ; pose M' t : 'M[F]_(d + e) := block_mx (M t) 0 0 1%:M.
have [J _|v [vM vi]] := @rado_subspaces F (d + e) T setT M'.
  have [->|[t0 t0J]] := set_0Vmem J; first by rewrite cards0.
  set S := (\sum_(t in J) M t)%MS; set S' := (\sum_(t in J) M' t)%MS.
  apply: leq_trans (MJ J) _; rewrite -[X in (_ + X <= _)%N](mxrank1 F e) -rank_diag_block_mx.
  apply: mxrankS; rewrite col_mx_sub; apply/andP; split.
    have -> : row_mx S (0 : 'M_(d, e)) = S *m row_mx 1%:M 0 by rewrite mul_mx_row mulmx1 mulmx0.
    rewrite sumsmxMr_gen; apply/sumsmx_subP => t tJ; rewrite genmxE (sumsmx_sup t) //.
    by rewrite mul_mx_row mulmx1 mulmx0 -addsmxE addsmxSl.
  by rewrite (sumsmx_sup t0) // -addsmxE addsmxSr.
pose V := \matrix_t v t; have rV : \rank V = T.
  move: vi; rewrite /independent cardsT card_ord => vT; apply/eqP; rewrite eqn_leq rank_leq_row -[X in (X <= _)%N]vT.
  by apply: mxrankS; apply/sumsmx_subP => t _; rewrite genmxE; have := row_sub t V; rewrite rowK.
exists (lsubmx V); split=> [t|].
  have -> : row t (lsubmx V) = lsubmx (v t) by rewrite -[v t](rowK v t) ; apply/rowP => j; rewrite !mxE.
  have /submxP[w ->] := vM t; rewrite -[w]hsubmxK mul_row_block row_mxKl mulmx0 addr0; exact: submxMl.
rewrite -[X in (X <= _)%N]rV -[V in X in (X <= _)%N]hsubmxK.
have -> : row_mx (lsubmx V) (rsubmx V) = lsubmx V *m row_mx 1%:M 0 + rsubmx V *m row_mx 0 1%:M.
  by rewrite !mul_mx_row !mulmx1 !mulmx0 add_row_mx addr0 add0r.
apply: leq_trans (mxrank_add _ _) _; apply: leq_add; first exact: mxrankM_maxl.
by apply: leq_trans (mxrankM_maxl _ _) _; apply: rank_leq_col.
Qed.

Section Capacity.

Variables (F : fieldType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)).

Lemma capacity_ge r : (r <= T)%N -> (forall J, (r <= bound_of E H J)%N) -> (r <= capacity H E)%N.
Proof. by move=> rT rJ; rewrite /capacity; elim/big_ind: _ => // x y; rewrite leq_min => -> ->. Qed.

Lemma capacity_le J : (capacity H E <= bound_of E H J)%N.
Proof.
rewrite /capacity; have := mem_index_enum J; elim: (index_enum _) => // J' s IHs.
rewrite in_cons big_cons geq_min => /orP[/eqP<-|/IHs->]; by rewrite ?leqnn ?orbT.
Qed.

Lemma capacity_le_T : (capacity H E <= T)%N.
Proof. by rewrite /capacity; elim: (index_enum _) => [|J s IHs]; rewrite ?big_nil // big_cons geq_min IHs orbT. Qed.

End Capacity.

(* Query directions, no two of them parallel *)
Lemma directions (R : realType) d H : (1 < d)%N -> exists q : 'I_H -> 'cV[R]_d,
  (forall h, q h != 0) /\ forall g h, g != h -> forall c : R, q g != c *: q h.
Proof.
case: d => [|[|d]] // _; pose i1 : 'I_d.+2 := lift 0 0.
pose q (h : 'I_H) : 'cV[R]_d.+2 := \col_i (if i == 0 then 1 else h%:R).
exists q; split=> [h|g h gh].
  by apply/eqP => /matrixP/(_ 0 0)/eqP; rewrite !mxE /= oner_eq0.
move=> c; apply: contra gh => /eqP/matrixP e.
have := e 0 0; rewrite !mxE /= mulr1 => c1.
by have := e i1 0; rewrite !mxE /= -c1 mul1r => /eqP; rewrite eqr_nat.
Qed.

Theorem theorem_9_queries : Theorem9_queries.
Proof.
move=> R d T [//|H] n E a q _ Ea q0 qN.
have qq g h : g != h -> ~~ ((q g)^T <= (q h)^T)%MS.
  move=> gh; apply/negP => /submxP[D e]; have /negP := qN g h gh (D 0 0); apply; apply/eqP.
  by apply: (can_inj (@trmxK _ _ _)); rewrite e [D in LHS]mx11_scalar mul_scalar_mx linearZ.
pose c := capacity H.+1 E; have cT : (c <= T)%N := capacity_le_T _ _.
have [J|v [vM vc]] := @rado_deficiency R _ T (fun t => layer_mx H (E t)) (T - c).
  apply: leq_trans _ (leq_add (rank_layer_sum H E J) (leqnn _)).
  have := capacity_le H.+1 E J; rewrite -/c /bound_of subn1 /= => cJ.
  have JT : (#|J| <= T)%N by rewrite -[X in (_ <= X)%N]card_ord max_card.
  rewrite -(leq_add2r (T - #|J|)) subnKC // -[X in (X <= _)%N](subnKC cT).
  by rewrite [X in (_ <= X)%N]addnAC leq_add2r addnC addnA.
pose f := maxrankfun v.
pose phi t (e : 'rV[R]_d) : 'rV[R]_((1 + H) * d) := mxvec (\matrix_h head (E t) (a *m (q h)^T) e).
have [t m L vL||e ef] := @exchange R 'rV[R]_d _ _ (fun i => phi (f i)) (rowsub f v).
- apply: boolp.contrapT => /boolp.forallNP eL; move/negP: vL; apply.
  rewrite row_rowsub; apply: submx_trans (vM (f t)) _; apply: layer_spanned (Ea (f t)) q0 qq _ => e.
  by have /negP := eL e; rewrite negbK.
- exact: maxrowsub_free.
pose Q := \matrix_t (if [pick i | f i == t] is Some i then e i else 0).
have Qe i : row (f i) Q = e i.
  rewrite rowK; case: pickP => [j /eqP/maxrankfun_inj->//|/(_ i)]; by rewrite eqxx.
exists Q; apply/eqP; rewrite eqn_leq; apply/andP; split.
  by apply: capacity_ge => [|J]; [exact: rank_leq_row | exact: theorem_8].
have rv : (c <= \rank v)%N by rewrite -(leq_add2r (T - c)) subnKC.
apply: leq_trans rv _; rewrite -[X in (X <= _)%N](eqP ef).
suff -> : \matrix_i phi (f i) (e i) = rowsub f (intermediates E Q (fun h => a *m (q h)^T)).
  by rewrite rowsubE; exact: mxrankM_maxr.
by apply/row_matrixP => i; rewrite row_rowsub [LHS]rowK [RHS]rowK Qe.
Qed.

Theorem theorem_9_largest : Theorem9_largest.
Proof.
move=> R d T H n E d1 H0; split=> [Q W|].
  by apply: capacity_ge => [|J]; [exact: rank_leq_row | exact: theorem_8].
have [a Ea] := separating_direction E; have [q [q0 qq]] := @directions R d H d1.
have [Q QE] := theorem_9_queries H0 Ea q0 qq.
by exists Q, a, q.
Qed.
