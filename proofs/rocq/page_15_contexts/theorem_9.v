(* proofs/15-contexts.md: Theorem 9 without measure. c(E; H) is the largest rank over all queries *)
(* and all weights.                                                                              *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions Capacity directions exchange rado theorem_8
  layer_space.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma capacity_le (F : fieldType) d T H (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)) J :
    (capacity E H <= bound_of E H J)%N.
Proof.
rewrite /capacity; have := mem_index_enum J; elim: (index_enum _) => // J' s IHs.
rewrite in_cons big_cons geq_min => /orP[/eqP<-|/IHs->]; by rewrite ?leqnn ?orbT.
Qed.

Lemma capacity_le_T (F : fieldType) d T H (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)) :
    (capacity E H <= T)%N.
Proof. by rewrite /capacity; elim: (index_enum _) => [|J s IHs];
  rewrite ?big_nil // big_cons geq_min IHs orbT. Qed.

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
pose c := capacity E H.+1; have cT : (c <= T)%N := capacity_le_T _ _.
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
  exact: theorem_8.
have rv : (c <= \rank v)%N by rewrite -(leq_add2r (T - c)) subnKC.
apply: leq_trans rv _; rewrite -[X in (X <= _)%N](eqP ef).
suff -> : \matrix_i phi (f i) (e i) = rowsub f (intermediates E Q (fun h => a *m (q h)^T)).
  by rewrite rowsubE; exact: mxrankM_maxr.
by apply/row_matrixP => i; rewrite row_rowsub [LHS]rowK [RHS]rowK Qe.
Qed.

Theorem theorem_9_largest : Theorem9_largest.
Proof.
move=> R d T H n E d1 H0; split=> [Q W|]; first exact: theorem_8.
have [a Ea] := separating_direction E; have [q [q0 qq]] := @directions R d H d1.
have [Q QE] := theorem_9_queries H0 Ea q0 qq.
by exists Q, a, q.
Qed.
