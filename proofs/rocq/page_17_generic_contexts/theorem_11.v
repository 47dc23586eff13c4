(* proofs/17-generic-contexts.md: Theorem 11 (any nonzero queries: exactly Hd). Contexts with one *)
(* token other than zero will do; those near them will, and almost all on lines through them.     *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts softmax readout limits
  avoid_hyperplanes rank_open rank_on_curves causal_growth one_token.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Claim.

Variables (R : realType) (d : nat).

(* The context with first token x and n - 1 tokens zero *)
Definition lone n (x : 'rV[R]_d) : 'M[R]_(n, d) := \matrix_i (if i == 0%N :> nat then x else 0).

Lemma head_lone n (x e : 'rV[R]_d) (W : 'M[R]_d) : (1 < n)%N ->
  head (lone n x) W e = one_token n ((x *m (W *m e^T)) 0 0) *: x.
Proof.
case: n => // n _; rewrite /head -mulmxA mulmx_sum_row big_ord_recl big1 ?addr0 => [|i _]; last first.
  by rewrite [row _ _]rowK /= scaler0.
rewrite [row _ _]rowK /=; congr (_ *: _); rewrite [_^T _ _]mxE [softmax _ _ _]mxE /one_token.
have logit i : (lone n.+1 x *m (W *m e^T)) i 0 =
    if i == 0%N :> nat then (x *m (W *m e^T)) 0 0 else 0.
  have -> : (lone n.+1 x *m (W *m e^T)) i 0 = (row i (lone n.+1 x) *m (W *m e^T)) 0 0.
    by rewrite -row_mul [RHS]mxE.
  by rewrite rowK; case: eqP => // _; rewrite mul0mx mxE.
rewrite logit /= big_ord_recl logit /=; congr (_ / (_ + _)).
under eq_bigr do rewrite logit /= expR0.
by rewrite sumr_const card_ord subn1.
Qed.

(* Functionals that vanish on the rows of all these contexts are zero. *)
Lemma lone_spans n H (W : 'I_H -> 'M[R]_d) (e : 'rV[R]_d) (u : 'I_H -> 'cV[R]_d) : (1 < n)%N ->
  injective (fun h => W h *m e^T) -> (n = 2%N -> one_opposite_pair (fun h => W h *m e^T)) ->
  (forall x, \sum_h (head (lone n x) (W h) e *m u h) 0 0 = 0) -> forall h, u h = 0.
Proof.
move=> n1 wi pairs zero h0; apply/eqP; apply/negPn/negP => u0; pose w h := W h *m e^T.
pose v (i : option ('I_H * 'I_H * bool)) : 'rV[R]_d :=
  if i is Some (g, h, b) then (if b then w g - w h else w g + w h)^T else (u h0)^T.
pose I := {i : option ('I_H * 'I_H * bool) | v i != 0}.
have [|y yv] := @avoid_hyperplanes R [finType of I] d (fun i => v (val i)); first by case.
have {}yv i : (v i *m y) 0 0 = 0 -> v i = 0.
  move=> vy; apply/eqP; apply/negPn/negP => vi; have /negP[] := yv (exist _ i vi).
  by apply/eqP/matrixP => a b; rewrite !ord1 /= vy [RHS]mxE.
have dotC (a b : 'cV[R]_d) : (a^T *m b) 0 0 = (b^T *m a) 0 0.
  by rewrite [LHS]mxE [RHS]mxE; apply: eq_bigr => i _; rewrite [a^T _ _]mxE [b^T _ _]mxE mulrC.
pose c h := (y^T *m w h) 0 0.
have vc g h b : (v (Some (g, h, b)) *m y) 0 0 = if b then c g - c h else c g + c h.
  by rewrite /v dotC; case: b; rewrite ?mulmxBr ?mulmxDr [LHS]mxE // [X in _ + X]mxE.
have ci : injective c.
  move=> g h cgh; apply: wi; apply/eqP; rewrite -subr_eq0 -trmx_eq0 -[W g *m _]/(w g).
  by have := yv (Some (g, h, true)); rewrite vc cgh subrr => /(_ erefl) /= ->.
have cpairs : n = 2%N -> one_opposite_pair c.
  move=> n2 g h g' h' gh gh' cgh cgh'; apply: (pairs n2) => //; apply/eqP; rewrite -trmx_eq0.
    by have := yv (Some (g, h, false)); rewrite vc cgh => /(_ erefl) /= ->.
  by have := yv (Some (g', h', false)); rewrite vc cgh' => /(_ erefl) /= ->.
have az := @lemma_17_1 R n H c (fun h => (y^T *m u h) 0 0) 1 2 n1 ci cpairs _ _ h0.
case/negP: u0; rewrite -trmx_eq0; apply/eqP; apply: (yv None); rewrite dotC; apply: az.
  by rewrite ltr1n.
move=> s /andP[s1 _]; have s0 : s != 0 by rewrite gt_eqF // (lt_trans ltr01).
apply: (mulfI s0); rewrite mulr0 mulr_sumr -[RHS](zero (s *: y^T)); apply: eq_bigr => h _.
rewrite head_lone // -!scalemxAl; set z := y^T *m u h; rewrite [(_ *: z) in RHS]mxE.
rewrite [(_ *: (s *: z)) 0 0]mxE [(s *: z) 0 0]mxE [(s *: (y^T *m _)) 0 0]mxE -/(w h) -/(c h).
by rewrite mulrCA mulrA mulrC [s * c h]mulrC !mulrA.
Qed.

Lemma lone_leaves n H (W : 'I_H -> 'M[R]_d) (e : 'rV[R]_d) (L : 'M[R]_(H * d)) : (1 < n)%N ->
  injective (fun h => W h *m e^T) -> (n = 2%N -> one_opposite_pair (fun h => W h *m e^T)) ->
  ~~ row_full L -> exists x, ~~ (mxvec (\matrix_h head (lone n x) (W h) e) <= L)%MS.
Proof.
move=> n1 wi pairs Lf; apply: contrapT => /forallNP in_L; case/negP: Lf; rewrite row_full_unit.
pose K := cokermx L; suff K0 : K = 0 by rewrite -row_full_unit -sub1mx submxE -/K K0 mulmx0.
apply/matrixP => l j; rewrite [RHS]mxE; pose u h : 'cV[R]_d := \col_k K (mxvec_index h k) j.
have u0 := @lone_spans n H W e u n1 wi pairs.
case/mxvec_indexP: l => h k; have /colP/(_ k) : u h = 0; last by rewrite !mxE.
apply: u0 => x; have /negP := in_L x; rewrite negbK submxE -/K => /eqP/rowP/(_ j).
rewrite mxvec_mul [X in _ = X]mxE => z; apply: etrans z; apply: eq_bigr => h' _.
by rewrite [LHS]mxE; apply: eq_bigr => i _; rewrite [u _ _ _]mxE [(\matrix__ _) _ _]mxE.
Qed.

Variables (T H : nat) (n : 'I_T -> nat) (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d).
Hypotheses (n1 : forall t, (1 < n t)%N) (wi : forall t, injective (fun h => W h *m (row t Q)^T)).
Hypothesis pairs : forall t, n t = 2%N -> one_opposite_pair (fun h => W h *m (row t Q)^T).

Lemma rank_at_most (E : forall t, 'M[R]_(n t, d)) :
  (\rank (intermediates E Q W) <= minn T (H * d))%N.
Proof. by rewrite leq_min rank_leq_row rank_leq_col. Qed.

Lemma lone_reach :
  exists x : 'I_T -> 'rV[R]_d, \rank (intermediates (fun t => lone (n t) (x t)) Q W) = minn T (H * d).
Proof.
pose f t x := mxvec (\matrix_h head (lone (n t) x) (W h) (row t Q)).
have [t L Lf|x xr] := @grow R (H * d) _ 0 T f 0; first exact: lone_leaves.
exists x; apply: anti_leq; rewrite rank_at_most minnC /=.
move: xr; rewrite mxrank0 add0n => /leq_trans; apply; apply: mxrankS.
rewrite addsmx_sub sub0mx; apply/sumsmx_subP => t _; rewrite genmxE.
by have := row_sub t (intermediates (fun t => lone (n t) (x t)) Q W); rewrite rowK.
Qed.

End Claim.
