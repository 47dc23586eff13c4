(* proofs/24-free-heads.md: Theorem 33 for softmax attention, and with it Theorem 34.             *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions mathcomp_extra.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity Free_heads strict derivative local_inverse.
From Memorization Require Import readout.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Canonical matrix_completeNormedModType (R : realType) m n :=
  [completeNormedModType R of 'M[R]_(m.+1, n.+1)].

Section Norm.

Variable R : realType.

Lemma mx_norm_ge m n (A : 'M[R]_(m.+1, n.+1)) i j : `|A i j| <= `|A|.
Proof. by rewrite [leRHS]/Num.norm /= mx_normrE; apply/bigmax_geP; right => /=; exists (i, j). Qed.

Lemma mx_norm_le m n (A : 'M[R]_(m.+1, n.+1)) c : 0 <= c -> (forall i j, `|A i j| <= c) -> `|A| <=
  c.
Proof. by move=> c0 Ac; rewrite [leLHS]/Num.norm /= mx_normrE; apply: mathcomp_extra.bigmax_le =>
  // -[i j] _. Qed.

(* Finitely many functions have common constants. *)
Lemma strict_all (X : normedModType R) (I : finType) (F L : I -> X -> R) :
  (forall i, strict (F i) (L i)) ->
  exists C del, [/\ 0 <= C, 0 < del & forall i, strict_with C del (F i) (L i)].
Proof.
move=> FL; suff : exists C del, [/\ 0 <= C, 0 < del &
    forall i, i \in enum I -> strict_with C del (F i) (L i)].
  by move=> [C [del [C0 d0 all]]]; exists C, del; split=> // i; apply: all; rewrite mem_enum.
elim: (enum I) => [|i s [C [d [C0 d0 all]]]]; first by exists 0, 1; split=> //; exact: ltr01.
have [D [e [D0 e0 e1 FLi]]] := FL i.
exists (C + D), (Num.min d e); split=> [||k]; first by rewrite addr_ge0.
  by rewrite lt_minr d0.
rewrite inE => /predU1P[->|/all].
  by apply: strict_weaken FLi; rewrite ?ler_addr // le_minl lexx orbT.
by apply: strict_weaken; rewrite ?ler_addl // le_minl lexx.
Qed.

End Norm.

(* Linear combinations of T * p directions *)
Section Combinations.

Variables (R : realType) (T p : nat).
Implicit Types x : 'M[R]_(T, p).

Definition combine m n (D : 'I_T -> 'I_p -> 'M[R]_(m, n)) x : 'M[R]_(m, n) :=
  \sum_a \sum_b x a b *: D a b.

Lemma combine_eq m n (D D' : 'I_T -> 'I_p -> 'M[R]_(m, n)) x : (forall a b, D a b = D' a b) ->
  combine D x = combine D' x.
Proof. by move=> DD; apply: eq_bigr => a _; apply: eq_bigr => b _; rewrite DD. Qed.

Lemma combine_linear m n m' n' (f : {linear 'M[R]_(m, n) -> 'M[R]_(m', n')}) D x :
  f (combine D x) = combine (fun a b => f (D a b)) x.
Proof.
rewrite linear_sum; apply: eq_bigr => a _; rewrite linear_sum; apply: eq_bigr => b _.
by rewrite linearZ.
Qed.

Lemma combine_mull m n k (A : 'M[R]_(m, n)) (D : 'I_T -> 'I_p -> 'M[R]_(n, k)) x :
  A *m combine D x = combine (fun a b => A *m D a b) x.
Proof. exact: (combine_linear (mulmx_linear _ A)). Qed.

Lemma combine_mulr m n k (A : 'M[R]_(n, k)) (D : 'I_T -> 'I_p -> 'M[R]_(m, n)) x :
  combine D x *m A = combine (fun a b => D a b *m A) x.
Proof. exact: (combine_linear (mulmxr_linear _ A)). Qed.

Lemma combine_tr m n (D : 'I_T -> 'I_p -> 'M[R]_(m, n)) x :
  (combine D x)^T = combine (fun a b => (D a b)^T) x.
Proof. exact: (combine_linear (trmx_linear _ _ _)). Qed.

Lemma combineD m n (D D' : 'I_T -> 'I_p -> 'M[R]_(m, n)) x :
  combine D x + combine D' x = combine (fun a b => D a b + D' a b) x.
Proof.
rewrite -big_split; apply: eq_bigr => a _; rewrite -big_split; apply: eq_bigr => b _ /=.
by rewrite scalerDr.
Qed.

Lemma combine_sum (I : finType) m n (D : I -> 'I_T -> 'I_p -> 'M[R]_(m, n)) x :
  \sum_i combine (D i) x = combine (fun a b => \sum_i D i a b) x.
Proof.
rewrite exchange_big; apply: eq_bigr => a _; rewrite exchange_big; apply: eq_bigr => b _ /=.
by rewrite scaler_sumr.
Qed.

Lemma combine_delta x : combine (fun a b => delta_mx a b) x = x.
Proof. by rewrite [RHS]matrix_sum_delta. Qed.

Lemma combine0 m n (x : 'M[R]_(T, p)) : combine (fun _ _ => 0 : 'M[R]_(m, n)) x = 0.
Proof. by rewrite /combine big1 // => a _; rewrite big1 // => b _; rewrite scaler0. Qed.

Lemma combine_at0 m n (D : 'I_T -> 'I_p -> 'M[R]_(m, n)) : combine D 0 = 0.
Proof. by rewrite /combine big1 // => a _; rewrite big1 // => b _; rewrite mxE scale0r. Qed.

End Combinations.

Section Strict_combinations.

Variables (R : realType) (T p : nat).
Let X : normedModType R := [normedModType R of 'M[R]_(T.+1, p.+1)].

Lemma strict_combine m n (D : 'I_T.+1 -> 'I_p.+1 -> 'M[R]_(m, n)) :
  strict_mx (X := X) (combine D) (combine D).
Proof.
move=> i j.
have coordinate a b : strict (fun x : X => x a b) (fun x => x a b).
  apply: (@strict_linear _ _ 1) => // x y; rewrite mul1r.
  by have := mx_norm_ge (x - y) a b; rewrite !mxE.
have entry a b : strict (fun x : X => x a b * D a b i j) (fun x => x a b * D a b i j).
  apply: strict_eq (strictM (coordinate a b) (strict_const X (D a b i j))) => // x.
  by rewrite mulr0 add0r.
have := strict_sum (index_enum _) (fun a => strict_sum (index_enum _) (entry a)).
by apply: strict_eq => x; rewrite summxE; apply: eq_bigr => a _; rewrite summxE;
  apply: eq_bigr => b _; rewrite mxE.
Qed.

Lemma small_steps (I : finType) m n (D : I -> 'I_T.+1 -> 'I_p.+1 -> 'M[R]_(m, n)) (eps : R) :
  0 < eps -> exists2 del, 0 < del &
    forall x : X, `|x| <= del -> forall i a b, `|combine (D i) x a b| < eps.
Proof.
move=> eps0; have [C [d [C0 d0 all]]] := strict_all (I := [finType of I * ('I_m * 'I_n)])
  (fun k => strict_combine (D k.1) k.2.1 k.2.2).
have C1 : 0 < C + 1 by rewrite ltr_spaddr.
exists (eps / (C + 1)); first by rewrite divr_gt0.
move=> x xd i a b; have [/(_ x 0) + _ _] := all (i, (a, b)).
rewrite /= combine_at0 mxE !subr0 => /le_lt_trans; apply.
have [->|x0] := eqVneq x 0; first by rewrite normr0 mulr0.
apply: (@lt_le_trans _ _ ((C + 1) * `|x|)); first by rewrite ltr_pmul2r ?normr_gt0 // ltr_addl.
by rewrite mulrC -ler_pdivl_mulr.
Qed.

(* What is strict with derivative the identity and zero at zero reaches all small points. *)
Lemma strict_onto (f : X -> X) eps : 0 < eps -> f 0 = 0 ->
  strict_mx f (fun x => x) -> exists2 del, 0 < del &
  forall y : X, `|y| <= del -> exists2 x : X, `|x| <= eps & f x = y.
Proof.
move=> eps0 f0 sf; have [C [d [C0 d0 all]]] := strict_all (I := [finType of 'I_T.+1 * 'I_p.+1])
  (fun k => sf k.1 k.2).
have C1 : 0 < C + 1 by rewrite ltr_spaddr.
pose del := Num.min (Num.min d eps) (2^-1 / (C + 1)).
have del0 : 0 < del by rewrite /del !lt_minr d0 eps0 divr_gt0 // invr_gt0 ltr0n.
exists (del / 2) => [|y yd]; first by rewrite divr_gt0 ?ltr0n.
have [x y' xd yd'|x xd <-] := @local_inverse R (matrix_completeNormedModType R T p) f del f0 _ y yd.
  apply: mx_norm_le => [|i j]; first by rewrite mulr_ge0 ?invr_ge0 ?ler0n.
  have deld : del <= d by rewrite /del !le_minl lexx.
  have [_ _ /(_ del x y' deld xd yd')] := all (i, j); rewrite /= => h.
  have -> : (f x - f y' - (x - y')) i j = f x i j - f y' i j - (x i j - y' i j) by rewrite !mxE.
  apply: le_trans h _; rewrite ler_wpmul2r //.
  apply: (@le_trans _ _ ((C + 1) * del)); first by rewrite ler_wpmul2r ?(ltW del0) // ler_addl.
  by rewrite mulrC -ler_pdivl_mulr // /del le_minl lexx orbT.
by exists x => //; apply: le_trans xd _; rewrite /del !le_minl lexx orbT.
Qed.

End Strict_combinations.

Section Layers.

Variable R : realType.

(* Heads with readouts U h are a layer with values of any width dv >= dout. *)
Lemma layer_of_readouts d T H dh dv dout (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, dout)) :
  (dout <= dv)%N -> exists WV WO WD, forall t,
    output (@Layer R d H dh dv dout WQ WK WV WO WD) (E t) (row t Q) =
    \sum_h head (E t) (WK h *m (WQ h)^T) (row t Q) *m U h.
Proof.
move=> od; exists (fun h => U h *m pid_mx dout), (adder R H dv), (pid_mx dout) => t.
rewrite /output /attention_matrix /= adderE mulmx_suml; apply: eq_bigr => h _.
by rewrite rowK -!mulmxA pid_mx_id // pid_mx_1 mulmx1.
Qed.

Section Heads.

Variables (d T p H dh : nat) (n : 'I_T.+1 -> nat) (E : forall t, 'M[R]_(n t, d)).
Variables (Q : 'M[R]_(T.+1, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, p.+1)).
Variables (dQ dK : 'I_H -> 'I_T.+1 -> 'I_p.+1 -> 'M[R]_(d, dh)).
Variables (dU : 'I_H -> 'I_T.+1 -> 'I_p.+1 -> 'M[R]_(d, p.+1)).

Let X : normedModType R := [normedModType R of 'M[R]_(T.+1, p.+1)].
Let WQx h (x : X) := WQ h + combine (dQ h) x.
Let WKx h (x : X) := WK h + combine (dK h) x.
Let Ux h (x : X) := U h + combine (dU h) x.
Let f (x : X) : X :=
  \matrix_t \sum_h head (E t) (WKx h x *m (WQx h x)^T) (row t Q) *m Ux h x.

Hypothesis zero : forall t, \sum_h head (E t) (WK h *m (WQ h)^T) (row t Q) *m U h = 0.
Hypothesis onto : forall a b t,
  \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (dQ h a b) (dK h a b) *m U h +
    head (E t) (WK h *m (WQ h)^T) (row t Q) *m dU h a b) = row t (delta_mx a b).

Lemma strict_affine m k (A : 'M[R]_(m, k)) D :
  strict_mx (X := X) (fun x => A + combine D x) (combine D).
Proof.
apply: strict_mx_eq (strict_mxD (strict_mx_const X A) (strict_combine D)) => // x.
by rewrite add0r.
Qed.

Lemma step_identity t (x : X) :
  \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (combine (dQ h) x) (combine (dK h) x) *m U h +
    head (E t) (WK h *m (WQ h)^T) (row t Q) *m combine (dU h) x) = row t x.
Proof.
transitivity (combine (fun a b => row t (delta_mx a b)) x); last first.
  have := combine_linear [linear of @row R T.+1 p.+1 t] (fun a b => delta_mx a b) x.
  by rewrite combine_delta => ->.
rewrite -(combine_eq x (fun a b => onto a b t)) -combine_sum; apply: eq_bigr => h _.
rewrite -combineD -combine_mull -combine_mulr /head_step; congr (_ *m _ + _).
by rewrite -combine_tr -combine_mulr -combine_mull -combineD -combine_mull -combine_mulr
  -combine_tr.
Qed.

Lemma strict_heads : strict_mx f (fun x => x).
Proof.
move=> t k; have := strict_mx_sum (index_enum _) (fun h => strict_mxM (strict_head (E t) (row t Q)
  (strict_mxM (strict_affine (WK h) (dK h)) (strict_mx_tr (strict_affine (WQ h) (dQ h)))))
  (strict_affine (U h) (dU h))).
move=> /(_ 0 k); apply: strict_eq => x; first by rewrite [RHS]mxE.
have /rowP/(_ k) := step_identity t x; rewrite [X in _ = X -> _]mxE => <-.
congr ((\sum_h _ : 'M_(_, _)) _ _); apply: boolp.funext => h.
by rewrite addrC /head_step !combine_at0 !addr0.
Qed.

Lemma f0 : f 0 = 0.
Proof.
apply/row_matrixP => t; rewrite rowK row0 -[RHS](zero t); apply: eq_bigr => h _.
by rewrite /WKx /WQx /Ux !combine_at0 !addr0.
Qed.

Lemma reach_all (eps : R) (Y : X) : 0 < eps -> exists (x : X) (r : R),
  [/\ forall h i j, `|WQx h x i j - WQ h i j| < eps, forall h i j, `|WKx h x i j - WK h i j| < eps,
    forall h i j, `|Ux h x i j - U h i j| < eps & r *: f x = Y].
Proof.
move=> eps0; have [q q0 qx] := small_steps dQ eps0; have [k k0 kx] := small_steps dK eps0.
have [u u0 ux] := small_steps dU eps0.
have e0 : 0 < Num.min (Num.min q k) u by rewrite !lt_minr q0 k0.
have [del del0 /(_ ((del / (`|Y| + 1)) *: Y))[|x xe fx]] := strict_onto e0 f0 strict_heads.
  have Y1 : 0 < `|Y| + 1 by rewrite ltr_spaddr.
  rewrite normrZ ger0_norm ?divr_ge0 ?(ltW del0) ?(ltW Y1) // mulrAC ler_pdivr_mulr //.
  by rewrite ler_wpmul2l ?(ltW del0) // ler_addl.
have step m (A : 'M[R]_(d, m)) D i j : `|(A + combine D x) i j - A i j| = `|combine D x i j|.
  by rewrite mxE addrAC subrr add0r.
exists x, ((`|Y| + 1) / del); split=> [h i j|h i j|h i j|]; rewrite ?step.
- by apply: qx; apply: le_trans xe _; rewrite !le_minl lexx.
- by apply: kx; apply: le_trans xe _; rewrite !le_minl lexx orbT.
- by apply: ux; apply: le_trans xe _; rewrite !le_minl lexx orbT.
rewrite fx scalerA mulrA divfK ?gt_eqF // divff ?scale1r // gt_eqF //.
by rewrite ltr_spaddr.
Qed.

End Heads.

(* Theorem 33 for heads and their readouts *)
Lemma zero_points_readouts d T H dh dout (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, dout))
    (dQ dK : 'I_H -> 'I_T -> 'I_dout -> 'M[R]_(d, dh))
    (dU : 'I_H -> 'I_T -> 'I_dout -> 'M[R]_(d, dout)) :
  (forall t, \sum_h head (E t) (WK h *m (WQ h)^T) (row t Q) *m U h = 0) ->
  (forall a b t,
    \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (dQ h a b) (dK h a b) *m U h +
      head (E t) (WK h *m (WQ h)^T) (row t Q) *m dU h a b) = row t (delta_mx a b)) ->
  forall (eps : R) (Y : 'M[R]_(T, dout)), 0 < eps -> exists (x : 'M[R]_(T, dout)) (r : R),
    let WQx h := WQ h + combine (dQ h) x in
    let WKx h := WK h + combine (dK h) x in
    let Ux h := U h + combine (dU h) x in
    [/\ forall h i j, `|WQx h i j - WQ h i j| < eps, forall h i j, `|WKx h i j - WK h i j| < eps,
      forall h i j, `|Ux h i j - U h i j| < eps &
      forall t, r *: (\sum_h head (E t) (WKx h *m (WQx h)^T) (row t Q) *m Ux h) = row t Y].
Proof.
move=> zero onto eps Y eps0; have small m (A : 'M[R]_(d, m)) (D : 'I_T -> 'I_dout -> _) i j :
    `|(A + combine D 0) i j - A i j| < eps by rewrite combine_at0 addr0 subrr normr0.
case: T n E Q dQ dK dU zero onto Y small => [|T] n E Q dQ dK dU zero onto Y small.
  by exists 0, 0; split=> [h i j|h i j|h i j|[]] //=; exact: small.
case: dout U dU dQ dK zero onto Y small => [|p] U dU dQ dK zero onto Y small.
  exists 0, 0; split=> [h i j|h i j|h i j|t] /=; try exact: small.
  by rewrite !thinmx0.
have [x [r [xQ xK xU rf]]] := reach_all zero onto Y eps0; exists x, r; split=> // t.
by rewrite -rf linearZ /= rowK.
Qed.

End Layers.

(* Directions from onto *)
Theorem zero_points : Zero_points.
Proof.
move=> R d T H dh dv dout n E Q WQ WK U od zero onto eps Y eps0.
have [D DP] := choice (fun ab : 'I_T * 'I_dout => onto (delta_mx ab.1 ab.2)).
have [D' DP'] := choice DP; have [D'' DP''] := choice DP'.
have [||x [r [xQ xK _ rf]]] := @zero_points_readouts R d T H dh dout n E Q WQ WK U
  (fun h a b => D (a, b) h) (fun h a b => D' (a, b) h) (fun h a b => D'' (a, b) h) _ _ eps Y eps0.
- exact: zero.
- by move=> a b t; exact: DP''.
pose WQx h := WQ h + combine (fun a b => D (a, b) h) x.
pose WKx h := WK h + combine (fun a b => D' (a, b) h) x.
pose Ux h := U h + combine (fun a b => D'' (a, b) h) x.
have [WV [WO [WD out]]] := @layer_of_readouts R d T H dh dv dout n E Q WQx WKx (fun h => r *: Ux
  h) od.
exists (Layer WQx WKx WV WO WD); split=> // t.
by rewrite out -rf scaler_sumr; apply: eq_bigr => h _; rewrite -scalemxAr.
Qed.

(* Keys zero *)
Lemma softmax_keys0 (R : realType) n d dh (E : 'M[R]_(n, d)) (B : 'M[R]_(d, dh)) (e : 'rV[R]_d) :
  softmax (E *m ((0 : 'M_(d, dh)) *m B^T) *m e^T) = const_mx n%:R^-1.
Proof.
rewrite mul0mx mulmx0 mul0mx; apply/colP => i; rewrite !mxE expR0.
by rewrite (eq_bigr (fun=> 1)) ?sumr_const ?card_ord ?div1r // => j _; rewrite mxE expR0.
Qed.

Theorem uniform_attention : Uniform_attention.
Proof.
move=> R d T H dh dv dout n E Q WQ U od U0 onto Y.
have [D DP] := choice (fun ab : 'I_T * 'I_dout => onto (delta_mx ab.1 ab.2)).
have head0 t h : head (E t) (0 *m (WQ h)^T) (row t Q) = (const_mx (n t)%:R^-1)^T *m E t.
  by rewrite /head softmax_keys0.
have [||x [r [_ _ _ /= rf]]] := @zero_points_readouts R d T H dh dout n E Q WQ (fun=> 0) U
  (fun _ _ _ => 0) (fun h a b => D (a, b) h) (fun _ _ _ => 0) _ _ 1 Y (@ltr01 R).
- move=> t; rewrite (eq_bigr (fun h => (const_mx (n t)%:R^-1)^T *m E t *m U h)) => [|h _].
    by rewrite -mulmx_sumr U0 mulmx0.
  by rewrite head0.
- move=> a b t; rewrite -(DP (a, b) t); apply: eq_bigr => h _.
  by rewrite mulmx0 addr0 /head_step softmax_keys0 mul0mx add0r mulmxA.
have [WV [WO [WD out]]] := @layer_of_readouts R d T H dh dv dout n E Q WQ
  (fun h => combine (fun a b => D (a, b) h) x) (fun h => r *: U h) od.
exists (fun h => combine (fun a b => D (a, b) h) x), WV, WO, WD => t.
rewrite out -rf scaler_sumr; apply: eq_bigr => h _.
by rewrite !combine0 !addr0 add0r -scalemxAr.
Qed.

Lemma mxvec_dot (R : realType) m n (A B : 'M[R]_(m, n)) : (mxvec A *m (mxvec B)^T) 0 0 = \tr (A *m
  B^T).
Proof.
rewrite mxvec_mul; apply: eq_bigr => i _; rewrite mxE; apply: eq_bigr => j _.
by rewrite mxE mxvecE [in RHS]mxE.
Qed.

Lemma covariance_sym (R : realType) n d (E : 'M[R]_(n, d)) p : (covariance E p)^T = covariance E p.
Proof.
by rewrite /covariance !trmx_mul trmxK mulmxA linearB /= tr_diag_mx trmx_mul trmxK.
Qed.

Theorem tangent_rank : Tangent_rank.
Proof.
move=> R d T H dh dv n E Q WQ u dv0 u0 /eqP/row_freeP[M JM] Y.
apply: (@uniform_attention R d T H dh dv 1%N n E Q WQ u dv0 u0) => {}Y.
pose V := vec_mx (M *m Y)^T : 'M[R]_(H, d * dh).
exists (fun h => vec_mx (row h V)) => t; apply/rowP => k; rewrite ord1 {k} summxE.
have <- : (tangent_rows E Q WQ u *m (M *m Y)) t 0 = row t Y 0 0.
  by rewrite mulmxA JM mul1mx mxE.
have -> : (tangent_rows E Q WQ u *m (M *m Y)) t 0 = (row t (tangent_rows E Q WQ u) *m (M *m Y)) 0 0.
  by rewrite -row_mul [RHS]mxE.
rewrite rowK mxvec_mul; apply: eq_bigr => h _.
pose c := uniform_covariance (E t) *m u h; pose q := row t Q *m WQ h.
have -> : (\sum_i (\matrix_h mxvec (uniform_covariance (E t) *m u h *m (row t Q *m WQ h))) h i *
    (M *m Y) (mxvec_index h i) 0) = (mxvec (c *m q) *m (row h V)^T) 0 0.
  rewrite [RHS]mxE; apply: eq_bigr => i _; rewrite [X in X * _]mxE; congr (_ * _).
  by rewrite [RHS]mxE [RHS]mxE /V [RHS]mxE [RHS]mxE.
rewrite -[row h V]vec_mxK; set D := vec_mx (row h V).
have Cs : (uniform_covariance (E t))^T = uniform_covariance (E t) by exact: covariance_sym.
have -> : (mxvec (c *m q) *m (mxvec D)^T) 0 0 = (q *m D^T *m c) 0 0.
  by rewrite mxvec_dot -mulmxA mxtrace_mulC /mxtrace big_ord1.
congr ((_ : 'M_(_, _)) 0 0).
rewrite /q /c; move: (uniform_covariance (E t)) Cs => C Cs.
by rewrite mxvecK !trmx_mul !trmxK Cs !mulmxA.
Qed.
