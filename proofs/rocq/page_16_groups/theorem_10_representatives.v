(* proofs/16-groups.md: Theorem 10 with representatives. One head for each group of independent *)
(* queries, if its contexts have independent representatives.                                  *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity linear_algebra directions saturation
  rank_one_heads limits curve independent_families exchange.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Rows.

Variables (R : realType) (d : nat).

(* The rows of one head for all examples, with contexts of any sizes. *)
Definition blocks T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d))
    (W : 'M[R]_d) : 'M[R]_(T, d) :=
  \matrix_t head (E t) W (row t Q).

Lemma mul_intermediates T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d))
    (W : 'I_H -> 'M[R]_d) (v : 'rV_T) :
  v *m intermediates E Q W = mxvec (\matrix_h (v *m blocks E Q (W h))).
Proof.
apply/rowP => j; case/mxvec_indexP: j => h j; rewrite mxvecE [LHS]mxE [RHS]mxE [RHS]mxE.
by apply: eq_bigr => t _; rewrite [in LHS]mxE mxvecE [in LHS]mxE [in RHS]mxE.
Qed.

Lemma row_free_intermediatesS T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : nat -> 'M[R]_d) :
  row_free (row_mx (intermediates E Q (fun h : 'I_H => W h)) (blocks E Q (W H))) ->
  row_free (intermediates E Q (fun h : 'I_H.+1 => W h)).
Proof.
move=> /row_free_kernelP Bf; apply/row_free_kernelP => v; rewrite mul_intermediates => v0.
have vB (h : 'I_H.+1) : v *m blocks E Q (W h) = 0.
  by have /(congr1 vec_mx) := v0; rewrite mxvecK linear0 => /row_matrixP/(_ h); rewrite rowK row0.
apply: Bf; rewrite mul_mx_row (vB ord_max) mul_intermediates.
rewrite (_ : \matrix_h _ = 0) ?linear0 ?row_mx0 //.
by apply/row_matrixP => h; rewrite rowK row0; have := vB (widen_ord (leqnSn H) h).
Qed.

Lemma rowsub_intermediates T T' H (f : 'I_T' -> 'I_T) (n : 'I_T -> nat)
    (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) :
  rowsub f (intermediates E Q W) = intermediates (fun t => E (f t)) (rowsub f Q) W.
Proof. by apply/row_matrixP => t; rewrite row_rowsub !rowK row_rowsub. Qed.

(* One head more for the group S of the last q examples *)
Lemma next_group p q m (n : 'I_(p + q) -> nat) (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(p + q, d))
    (a : 'cV[R]_d) (v : 'M[R]_(q, d)) (ZP : 'M[R]_(p, m)) (ZS : 'M[R]_(q, m)) :
  (forall t, separates (E t *m a) (E t)) ->
  row_free (dsubmx Q) -> (forall t, ~~ (row t (usubmx Q) <= dsubmx Q)%MS) ->
  row_free v ->
  (forall t, (row t v <= differences (E (rshift p t)))%MS \/ p = 0%N
    /\ (row t v <= E (rshift p t))%MS) ->
  row_free ZP ->
  exists b : 'cV[R]_d, row_free (row_mx (col_mx ZP ZS) (blocks E Q (a *m b^T))).
Proof.
move=> Ea QSf QP vf vE /row_freeP[C ZC].
have [b0 [Sb0 Pb0]] := orthogonal_direction QP.
have /fin_all_exists[w wP] (t : 'I_p) : exists l : 'rV[R]_(n (lshift q t)), forall s i,
    softmax ((s + k%:R * (row t (usubmx Q) *m b0) 0 0) *: (E (lshift q t)
      *m a)) i 0 @[k --> \oo] --> (l 0 i : R).
  have [l lP] := saturation_with_ties (E (lshift q t) *m a) (Pb0 t).
  by exists l^T => s i; have -> : l^T 0 i = l i 0 by [rewrite mxE]; exact: lP.
pose B := \matrix_(t < p) (w t *m E (lshift q t)).
pose curve t (k : nat) := (softmax (k%:R *: (E (rshift p t) *m a)))^T *m E (rshift p t).
have [t l L vL|k kf] := @exchange R nat q d (fun t k => curve t k - row t (ZS *m C *m B)) v _ vf.
  case: (vE t) => [vD|[p0 vT]]; first by have [k _ kL] :=
    curve_spans_differences (row t (ZS *m C *m B)) (Ea (rshift p t)) vD vL; exists k.
  have -> : ZS *m C *m B = 0.
    apply/matrixP => i j; rewrite [LHS]mxE [RHS]mxE big1 // => k _.
    by have := ltn_ord k; rewrite [X in (_ < X)%N]p0.
  have [k _ kL] := curve_spans_tokens (Ea (rshift p t)) vT vL.
  by exists k; rewrite row0 subr0.
pose A := \matrix_t curve t (k t).
have [b1 b1k] := any_scores (fun t => (k t)%:R) QSf.
have full : row_free (block_mx ZP B ZS A).
  apply: row_free_schur ZC _; suff -> : A - ZS *m C *m B
    = \matrix_t (curve t (k t) - row t (ZS *m C *m B)) by [].
  by apply/row_matrixP => t; rewrite linearB /= !rowK.
pose N (j : nat) := row_mx (col_mx ZP ZS) (blocks E Q (a *m (b1 + j%:R *: b0)^T)).
suff [j jf] : exists j, row_free (N j) by exists (b1 + j%:R *: b0).
apply: row_free_open full => i l; rewrite block_mxEh /N.
case: (split_ordP l) => l' ->.
  by rewrite row_mxEl; under eq_fun do rewrite row_mxEl; exact: cvg_cst.
rewrite row_mxEr; under eq_fun do rewrite row_mxEr.
have blockE j t : row t (blocks E Q (a *m (b1 + j%:R *: b0)^T)) =
    (softmax (((row t Q *m b1) 0 0 + j%:R * (row t Q *m b0) 0 0) *: (E t *m a)))^T *m E t.
  rewrite rowK head_rank_one mulmxDr -scalemxAr.
  by rewrite [(_ + _ : 'M_1) 0 0]mxE [(j%:R *: _ : 'M_1) 0 0]mxE.
have entry r (M : 'M[R]_(r, d)) t : M t l' = row t M 0 l' by rewrite mxE.
under eq_fun do rewrite entry blockE.
case: (split_ordP i) => t ->.
  have -> : col_mx B A (lshift q t) l' = (w t *m E (lshift q t)) 0 l' by rewrite col_mxEu [LHS]mxE.
  apply: cvg_mulmx => i0 i'; rewrite ord1.
  by under eq_fun do rewrite [_^T _ _]mxE -row_usubmx; exact: wP.
have -> : col_mx B A (rshift p t) l' = curve t (k t) 0 l' by rewrite col_mxEd [LHS]mxE.
under eq_fun do rewrite -row_dsubmx b1k -[row t _
  *m b0]row_mul Sb0 row0 [(0 : 'M_(_, _)) _ _]mxE mulr0 addr0.
exact: cvg_cst.
Qed.

(* The groups 0, ..., h - 1 with h heads: f enumerates their examples. *)
Lemma groups T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d)) (a : 'cV[R]_d)
    (g : 'I_T -> 'I_H) (v : 'I_T -> 'rV[R]_d) h :
  (forall t, separates (E t *m a) (E t)) ->
  (forall h : 'I_H, independent [set t | g t == h]%SET (fun t => row t Q)) ->
  (forall t (h : 'I_H), (g t < h)%N -> ~~ (row t Q
    <= span [set t | g t == h]%SET (fun s => row s Q))%MS) ->
  (forall t, g t = 0%N :> nat -> (v t <= E t)%MS) ->
  (forall t, (0 < g t)%N -> (v t <= differences (E t))%MS) ->
  (forall h : 'I_H, independent [set t | g t == h]%SET v) ->
  (h <= H)%N ->
  exists p (f : 'I_p -> 'I_T) (b : nat -> 'cV[R]_d),
    [/\ forall t, (g t < h)%N -> exists i, f i = t, forall i, (g (f i) < h)%N
      & row_free (rowsub f (intermediates E Q (fun i : 'I_h => a *m (b i)^T)))].
Proof.
move=> Ea gQ gP vE vD gv; elim: h => [|h IHh] hH.
  have F0 (t : 'I_0) : False by case: t.
  exists 0%N, (fun t => match F0 t with end), (fun=> 0); split=> [t|[m m0]|] //.
have [p [f [b [fall fh ff]]]] := IHh (ltnW hH).
pose ho := Ordinal hH; pose S := [set t | g t == ho]%SET.
pose f' (i : 'I_(p + #|S|)) := match fintype.split i with inl j => f j | inr j => enum_val j end.
have fl j : f' (lshift _ j) = f j by rewrite /f' (unsplitK (inl j)).
have fr j : f' (rshift p j) = enum_val j by rewrite /f' (unsplitK (inr j)).
have gS (j : 'I_#|S|) : g (enum_val j) = ho by have := enum_valP j; rewrite inE => /eqP.
pose Z := intermediates E Q (fun i : 'I_h => a *m (b i)^T).
have dQ : dsubmx (rowsub f' Q) = \matrix_(i < #|S|) row (enum_val i) Q.
  by apply/row_matrixP => i; rewrite row_dsubmx row_rowsub rowK fr.
have [|||||| b' b'f] := @next_group p #|S| _ (fun t => n (f' t)) (fun t => E (f' t)) (rowsub f' Q) a
    (\matrix_(i < #|S|) v (enum_val i)) (rowsub f Z) (rowsub enum_val Z).
- by move=> t; apply: Ea.
- by rewrite dQ; have /independentP := gQ ho.
- move=> t; rewrite dQ -(span_enum S (fun t => row t Q)) row_usubmx row_rowsub fl; exact: gP.
- by have /independentP := gv ho.
- move=> t; rewrite rowK fr; have [h0|h0] := posnP h; last by left; apply: vD; rewrite gS.
  right; split; last by apply: vE; rewrite gS.
  by case: (p) (f) fh => // p' f0 /(_ ord0); rewrite h0.
- exact: ff.
pose b1 i := if i == h then b' else b i.
exists (p + #|S|)%N, f', b1; split.
- move=> t; rewrite ltnS leq_eqVlt => /orP[/eqP th|/fall[i <-]]; last by exists (lshift _ i).
  have tS : t \in S by rewrite inE; apply/eqP/val_inj.
  by exists (rshift p (enum_rank_in tS t)); rewrite fr enum_rankK_in.
- by move=> i; case: (split_ordP i) => j ->; rewrite ?fl ?fr ?gS //= ltnW // ltnS.
rewrite rowsub_intermediates; apply: (row_free_intermediatesS (W := fun i => a *m (b1 i)^T)).
rewrite -[X in row_mx X _]rowsub_intermediates.
have -> : a *m (b1 h)^T = a *m b'^T by rewrite /b1 eqxx.
have -> : (fun i : 'I_h => a *m (b1 i)^T) = (fun i : 'I_h => a *m (b i)^T).
  by apply: boolp.funext => i; rewrite /b1 ltn_eqF.
suff -> : rowsub f' Z = col_mx (rowsub f Z) (rowsub enum_val Z) by [].
apply/row_matrixP => i; rewrite row_rowsub; case: (split_ordP i) => j ->.
  by rewrite rowKu row_rowsub fl.
by rewrite rowKd row_rowsub fr.
Qed.

End Rows.

Theorem theorem_10_representatives : Theorem10_representatives.
Proof.
move=> R d T H n E Q g v /= gQ gP vE vD gv.
have [a Ea] := separating_direction E.
have [p [f [b [fall _ ff]]]] := groups Ea gQ gP vE vD gv (leqnn H).
exists a, (fun h => b h); apply/eqP; rewrite eqn_leq rank_leq_row /=.
have Tp : (T <= p)%N.
  have /fin_all_exists[k kP] t := fall t (ltn_ord (g t)).
  have ki : injective k by move=> s t e; rewrite -(kP s) e kP.
  by have := max_card (mem (codom k)); rewrite card_codom // !card_ord.
rewrite (leq_trans Tp) // -[X in (X <= _)%N](eqP ff) rowsubE; exact: mxrankM_maxr.
Qed.
