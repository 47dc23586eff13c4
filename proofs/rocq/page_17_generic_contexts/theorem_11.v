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
case: n => // n _; rewrite /head -mulmxA mulmx_sum_row big_ord_recl.
rewrite big1 ?addr0 => [|i _]; last first.
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
have ch : (s *: y^T *m (W h *m e^T)) 0 0 = c h * s by rewrite -scalemxAl mxE mulrC.
rewrite head_lone // ch -!scalemxAl [RHS]mxE [X in _ = _ * X]mxE.
by rewrite mulrA mulrC.
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
  exists x : 'I_T -> 'rV[R]_d,
    \rank (intermediates (fun t => lone (n t) (x t)) Q W) = minn T (H * d).
Proof.
pose f t x := mxvec (\matrix_h head (lone (n t) x) (W h) (row t Q)).
have [t L Lf|x xr] := @grow R (H * d) _ 0 T f 0;
  first exact: (lone_leaves (n1 t) (@wi t) (@pairs t) Lf).
exists x; apply: anti_leq; rewrite rank_at_most minnC /=.
move: xr; rewrite mxrank0 add0n => /leq_trans; apply; apply: mxrankS.
rewrite addsmx_sub sub0mx; apply/sumsmx_subP => t _; rewrite genmxE.
by have := row_sub t (intermediates (fun t => lone (n t) (x t)) Q W); rewrite rowK.
Qed.

(* The four parts of Theorem 11 *)
Let reach (E : forall t, 'M[R]_(n t, d)) := \rank (intermediates E Q W) = minn T (H * d).

Lemma reach_ge (E E' : forall t, 'M[R]_(n t, d)) : reach E ->
  (\rank (intermediates E Q W) <= \rank (intermediates E' Q W))%N -> reach E'.
Proof. by move=> rE le; apply: anti_leq; rewrite rank_at_most -rE. Qed.

Lemma reach_line (E E' : forall t, 'M[R]_(n t, d)) : reach E ->
  exists exceptions : seq R, forall s, s \notin exceptions ->
    reach (fun t => on_line (E t) (E' t) s).
Proof.
move=> rE; have [rs rsP] := @rank_lines R d T H n E E' Q Q W W; exists rs => s /rsP.
pose Es t := on_line (E t) (E' t) s.
have -> : intermediates Es (on_line Q Q s) (fun h => on_line (W h) (W h) s) = intermediates Es Q W.
  by apply: intermediates_eq => [//||h]; exact: on_line_same.
exact: (@reach_ge E Es rE).
Qed.

Lemma reach_dense (E E' : forall t, 'M[R]_(n t, d)) eps : reach E' -> 0 < eps ->
  exists2 s, reach (fun t => on_line (E t) (E' t) s) & forall t i j,
    `|on_line (E t) (E' t) s i j - E t i j| < eps.
Proof.
move=> rE' eps0; have [rs rsP] := reach_line E rE'.
have [s srs near] := near_on_lines E E' rs eps0; exists s; last exact: near.
have := rsP (1 - s) srs.
rewrite /reach (@intermediates_eq _ _ _ _ _ _ (fun t => on_line (E t) (E' t) s) _ Q _ W) // => t.
exact: on_line_swap.
Qed.

End Claim.

Theorem theorem_11 : Theorem11.
Proof.
move=> R d T H n Q W n1 wi pairs reach near.
have [x rx] := lone_reach n1 wi pairs; split=> [|E eps eps0|E rE|E E' rE].
- by exists (fun t => lone (n t) (x t)).
- have [s rs es] := reach_dense E rx eps0.
  by exists (fun t => on_line (E t) (lone (n t) (x t)) s).
- have [eps eps0 open] := @rank_open_contexts R d T H n E Q W.
  by exists eps => // E' EE; apply: reach_ge rE _; apply: open.
exact: reach_line.
Qed.

Theorem theorem_11_temperatures : Theorem11_temperatures.
Proof.
move=> R d T H n Q k q c n1 k0 q0 c0 ci.
have wE t h : c h *: (k *m q^T) *m (row t Q)^T = (c h * (row t Q *m q) 0 0) *: k.
  rewrite -scalemxAl -mulmxA -trmx_mul [(row t Q *m q)^T]mx11_scalar mul_mx_scalar scalerA.
  by rewrite [(_ *m q)^T _ _]mxE.
have zero t x : (x * (row t Q *m q) 0 0) *: k = 0 -> x = 0.
  by move=> /eqP; rewrite scaler_eq0 (negPf k0) orbF mulf_eq0 (negPf (q0 t)) orbF => /eqP.
have [t g h|t _ g h g' h' _ _|x xr] := @lone_reach R d T H n Q (fun h => c h *: (k *m q^T)) n1.
- rewrite /= !wE => /eqP; rewrite -subr_eq0 -scalerBl -mulrBl => /eqP/zero/eqP.
  by rewrite subr_eq0 => /eqP/ci.
- rewrite /= !wE -scalerDl -mulrDl => /zero e.
  by have := addr_gt0 (c0 g) (c0 h); rewrite e ltxx.
by exists (fun t => lone (n t) (x t)).
Qed.

Theorem theorem_11_weights : Theorem11_weights.
Proof.
move=> R d T H dh n Q dh0 n1 Q0 reach; split; last first.
  move=> E E' WQ WQ' WK WK' r0.
  have [rs rsP] := rank_on_curve (fun t => line (E t) (E' t)) (line Q Q)
    (fun h => line (WK h) (WK' h) *m (line (WQ h) (WQ' h))^T) 0.
  exists rs => s /rsP rs_s; apply: anti_leq; rewrite [X in X && _]leq_min rank_leq_row rank_leq_col.
  rewrite /= -r0; move: rs_s; congr (_ <= _)%N; congr (\rank _); apply: intermediates_eq => *;
    by rewrite ?at_lines ?at_line ?on_line0 // on_line_same.
have [T0|T0] := posnP T.
  exists (fun=> 0), (fun=> 0), (fun=> 0); apply: anti_leq.
  rewrite leq_min rank_leq_row rank_leq_col /=; apply: leq_trans (geq_minl _ _) _.
  exact: leq_trans (eq_leq T0) (leq0n _).
have [q qQ] := avoid_hyperplanes Q0.
have d0 : (0 < d)%N.
  rewrite lt0n; apply: contraNneq (Q0 (Ordinal T0)) => d0; rewrite -mxrank_eq0 -leqn0.
  exact: leq_trans (rank_leq_col _) (eq_leq d0).
pose k : 'cV[R]_d := const_mx 1; pose j0 : 'I_dh := Ordinal dh0.
have k0 : k != 0.
  by apply/eqP => /colP/(_ (Ordinal d0))/eqP; rewrite !mxE oner_eq0.
have [|h|g h|E rE] := @theorem_11_temperatures R d T H n Q k q (fun h => h.+1%:R) n1 k0.
- move=> t; apply: contraNneq (qQ t) => e; apply/eqP/matrixP => a b.
  by rewrite !ord1 e [RHS]mxE.
- by rewrite ltr0n.
- by move=> /eqP; rewrite eqr_nat eqSS => /eqP/val_inj.
exists E, (fun=> q *m delta_mx 0 j0), (fun h => h.+1%:R *: (k *m delta_mx 0 j0)).
suff e h : h.+1%:R *: (k *m delta_mx 0 j0) *m (q *m delta_mx 0 j0)^T = h.+1%:R *: (k *m q^T).
  by rewrite /reach -rE; congr (\rank (intermediates E Q _)); apply: funext => h; exact: e.
rewrite -scalemxAl trmx_mul mulmxA -(mulmxA k) trmx_delta mul_delta_mx.
by rewrite (_ : delta_mx 0 0 = 1%:M) ?mulmx1 //; apply/matrixP => a b; rewrite !ord1 !mxE.
Qed.

Theorem theorem_11_zero : Theorem11_zero.
Proof.
move=> R d T H n E W; pose z t : 'rV[R]_d := (softmax 0)^T *m E t.
have -> : intermediates E 0 W =
    (\matrix_t z t) *m lin1_mx (mxvec \o mulmx (const_mx 1 : 'cV[R]_H)).
  apply/row_matrixP => t; rewrite row_mul !rowK mul_rV_lin1 /=; congr (mxvec _).
  apply/row_matrixP => h; rewrite rowK row_mul (_ : row h (const_mx 1) = 1%:M); last first.
    by apply/matrixP => i j; rewrite !ord1 !mxE.
  by rewrite mul1mx /head row0 trmx0 mulmx0.
by apply: leq_trans (mxrankM_maxl _ _) _; exact: rank_leq_col.
Qed.
