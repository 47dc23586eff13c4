(* proofs/17-generic-contexts.md: Theorem 12. Tokens chosen one after the other along T *)
(* sequences: the rank grows by one with each until it is all.                          *)
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Growth.

Variables (F : fieldType) (N : nat).

(* One token more of each sequence *)
Lemma grow (X : Type) (x0 : X) T (f : 'I_T -> X -> 'rV[F]_N) (U : 'M[F]_N) :
  (forall t (L : 'M[F]_N), ~~ row_full L -> exists x, ~~ (f t x <= L)%MS) ->
  exists x : 'I_T -> X, (minn N (\rank U + T) <= \rank (U + \sum_t <<f t (x t)>>)%MS)%N.
Proof.
elim: T f => [|T IHT] f fL.
  by exists (fun=> x0); rewrite addn0 geq_min mxrankS ?addsmxSl ?orbT.
have [t L Lf|x] := IHT (fun t => f (lift ord0 t)); first exact: fL.
set V := (U + _)%MS => xV.
have [y yV] : exists y, (minn N (\rank U + T.+1) <= \rank (f ord0 y + V)%MS)%N.
  have [Vf|VN] := boolP (row_full V).
    exists x0; apply: leq_trans (geq_minl _ _) _.
    by apply: leq_trans (eq_leq (esym (eqP Vf))) _; rewrite mxrankS ?addsmxSr.
  have [y yV] := fL ord0 V VN.
  exists y; have : (V < f ord0 y + V)%MS by rewrite /ltmx addsmxSr addsmx_sub submx_refl andbT.
  move=> /rank_ltmx; apply: leq_trans; apply: leq_trans (geq_minr _ _) _.
  rewrite addnS ltnS; move: xV; rewrite geq_min => /orP[NV|//].
  by case/negP: VN; rewrite /row_full eqn_leq rank_leq_col.
exists (fun t => if unlift ord0 t is Some t' then x t' else y).
apply: leq_trans yV _; apply: mxrankS; rewrite big_ord_recl unlift_none.
rewrite !addsmx_sub addsmxSl; apply/andP; split.
  by apply: submx_trans (addsmxSr _ _); apply: submx_trans (addsmxSl _ _); rewrite genmxE.
apply: submx_trans (addsmxSr _ _); apply: submx_trans (addsmxSr _ _).
by apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) // liftK.
Qed.

Variables (d T : nat) (r : (nat -> 'rV[F]_d) -> nat -> 'rV[F]_N).

Definition update (s : nat -> 'rV[F]_d) i x := fun j => if j == i then x else s j.

(* Row i depends on the tokens 0, ..., i; after any tokens the rows of the next one are in no *)
(* proper subspace.                                                                           *)
Hypothesis local : forall s s' i, (forall j, (j <= i)%N -> s j = s' j) -> r s i = r s' i.
Hypothesis spans : forall s i (L : 'M[F]_N), ~~ row_full L -> exists x, ~~ (r (update s i.+1 x)
  i.+1 <= L)%MS.

Lemma grow_sequences (s : 'I_T -> nat -> 'rV[F]_d) (U : 'M[F]_N) m :
  exists s' : 'I_T -> nat -> 'rV[F]_d, (forall t, s' t 0%N = s t 0%N) /\
    (minn N (\rank U + T * m) <= \rank (U + \sum_t \sum_(i < m) <<r (s' t) i.+1>>)%MS)%N.
Proof.
elim: m => [|m [s' [s'0 s'r]]].
  by exists s; split=> //; rewrite muln0 addn0 geq_min mxrankS ?addsmxSl ?orbT.
set V := (U + _)%MS in s'r.
have [t L|x xV] := @grow _ (0 : 'rV[F]_d) T (fun t x => r (update (s' t) m.+1 x) m.+1) V;
  first exact: spans.
exists (fun t => update (s' t) m.+1 (x t)); split=> [t|]; first by rewrite /update s'0.
apply: leq_trans (leq_trans _ xV) _.
  rewrite leq_min geq_minl /= mulnSr addnA.
  have [NV|VN] := leqP N (\rank U + T * m).
    have := s'r; rewrite (minn_idPl NV) => NV'; apply: leq_trans (geq_minl _ _) _.
    by apply: leq_trans NV' (leq_addr _ _).
  have := s'r; rewrite (minn_idPr (ltnW VN)) => V'; apply: leq_trans (geq_minr _ _) _.
  by rewrite leq_add2r.
apply: mxrankS; rewrite !addsmx_sub addsmxSl /=; apply/andP; split.
  apply: submx_trans (addsmxSr _ _); apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) //.
  rewrite big_ord_recr /=; apply: submx_trans (addsmxSl _ _).
  apply/sumsmx_subP => i _; rewrite (sumsmx_sup i) //.
  rewrite (@local (s' t) (update (s' t) m.+1 (x t))) // => j ji.
  by rewrite /update ltn_eqF // ltnS (leq_trans ji).
apply: submx_trans (addsmxSr _ _); apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) //.
by rewrite big_ord_recr /= addsmxSr.
Qed.

Lemma later_rows m : exists s : 'I_T -> nat -> 'rV[F]_d,
  (minn N (T * m) <= \rank (\sum_t \sum_(i < m.+1 | (0 < i)%N) <<r (s t) i>>)%MS)%N.
Proof.
have [s [_ sr]] := grow_sequences (fun _ _ => 0) 0 m; exists s.
move: sr; rewrite mxrank0 add0n => /leq_trans; apply; apply: mxrankS.
rewrite addsmx_sub sub0mx /=; apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) //.
by apply/sumsmx_subP => i _; rewrite (sumsmx_sup (lift ord0 i)).
Qed.

(* First rows from which first tokens can be read *)
Lemma all_rows (P : 'M[F]_(N, d)) m : (forall s, r s 0%N *m P = s 0%N) ->
  exists s : 'I_T -> nat -> 'rV[F]_d,
  (minn N (minn T d + T * m) <= \rank (\sum_t \sum_(i < m.+1) <<r (s t) i>>)%MS)%N.
Proof.
move=> rP; pose A : 'M[F]_(T, d) := pid_mx (minn T d); pose s0 t (_ : nat) := row t A.
pose B := \matrix_t r (s0 t) 0%N; have rB : (minn T d <= \rank (<<B>>)%MS)%N.
  rewrite mxrank_gen -[X in (X <= _)%N](rank_pid_mx F (geq_minl T d) (geq_minr T d)) -/A.
  rewrite (_ : A = B *m P) ?mxrankM_maxl //.
  by apply/row_matrixP => t; rewrite row_mul rowK rP.
have [s [s00 sr]] := grow_sequences s0 <<B>>%MS m; exists s.
apply: leq_trans (leq_trans _ sr) _.
  by rewrite leq_min geq_minl /=; apply: leq_trans (geq_minr _ _) _; rewrite leq_add2r.
apply: mxrankS; rewrite addsmx_sub; apply/andP; split.
  rewrite genmxE; apply/row_subP => t; rewrite rowK (sumsmx_sup t) // (sumsmx_sup ord0) // genmxE.
  by rewrite (@local (s0 t) (s t)) // => j; rewrite leqn0 => /eqP->; rewrite s00.
apply/sumsmx_subP => t _; rewrite (sumsmx_sup t) //.
by apply/sumsmx_subP => i _; rewrite (sumsmx_sup (lift ord0 i)).
Qed.

End Growth.
