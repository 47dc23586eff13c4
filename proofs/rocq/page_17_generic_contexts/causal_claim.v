(* proofs/17-generic-contexts.md: Theorem 12, its claim. After any earlier tokens, one at least, *)
(* the rows (x, z) of the next token x span everything, for heads c_h a a^T with different c_h > *)
(* 0.                                                                                            *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions softmax rank_one_heads growth.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Claim.

Variable R : realType.

(* x after the rows of Y *)
Definition append m d (Y : 'M[R]_(m, d)) (x : 'rV[R]_d) : 'M[R]_(m.+1, d) :=
  \matrix_i (if unlift ord_max i is Some j then row j Y else x).

Definition dot d (x : 'rV[R]_d) (u : 'cV[R]_d) : R := (x *m u) 0 0.

Lemma dotD d (x y : 'rV[R]_d) u : dot (x + y) u = dot x u + dot y u.
Proof. by rewrite /dot mulmxDl mxE. Qed.

Lemma dotZ d c (x : 'rV[R]_d) u : dot (c *: x) u = c * dot x u.
Proof. by rewrite /dot -scalemxAl mxE. Qed.

Lemma dot_row m d (A : 'M[R]_(m, d)) u i : (A *m u) i 0 = dot (row i A) u.
Proof. by rewrite /dot -row_mul [RHS]mxE. Qed.

Lemma dot_append m d (Y : 'M[R]_(m, d)) x u j : (append Y x *m u) (lift ord_max j) 0 = dot (row j
  Y) u.
Proof. by rewrite dot_row rowK liftK. Qed.

Lemma dot_append_max m d (Y : 'M[R]_(m, d)) x u : (append Y x *m u) ord_max 0 = dot x u.
Proof. by rewrite dot_row rowK unlift_none. Qed.

Definition den m (a : 'I_m -> R) (c r : R) : R := expR (c * r * r) + \sum_j expR (c * r * a j).

Lemma den_gt0 m (a : 'I_m -> R) c r : 0 < den a c r.
Proof. by rewrite ltr_spaddl ?expR_gt0 // sumr_ge0 // => j _; exact: expR_nneg. Qed.

(* The part of a head in the functional u *)
Lemma head_append m d (Y : 'M[R]_(m, d)) (a u : 'cV[R]_d) (c : R) (x : 'rV[R]_d) :
  dot (head (append Y x) (a *m (c *: a)^T) x) u = dot x u +
    (den (fun j => dot (row j Y) a) c (dot x a))^-1 *
      \sum_j expR (c * dot x a * dot (row j Y) a) * (dot (row j Y) u - dot x u).
Proof.
set r := dot x a; set D := den _ c r.
have D0 : D != 0 by rewrite gt_eqF ?den_gt0.
pose w i := expR (c * r * (append Y x *m a) i 0).
have sE i : softmax ((x *m (c *: a)) 0 0 *: (append Y x *m a)) i 0 = D^-1 * w i.
  have xE : (x *m (c *: a)) 0 0 = c * r by rewrite -scalemxAr mxE.
  rewrite mxE [(_ *: _ : 'cV_m.+1) i 0]mxE xE mulrC; congr (_^-1 * _).
  under eq_bigr do rewrite [(_ *: _ : 'cV_m.+1) _ 0]mxE.
  rewrite (bigD1_ord ord_max) //= dot_append_max; congr (_ + _).
  by apply: eq_bigr => j _; rewrite dot_append.
rewrite /dot head_rank_one -mulmxA [LHS]mxE; under eq_bigr do rewrite [_^T _ _]mxE sE -mulrA.
rewrite -mulr_sumr (bigD1_ord ord_max) //= /w !dot_append_max.
under eq_bigr do rewrite !dot_append.
rewrite -[X in _ = X + _](mulKf D0) -mulrDr; congr (_ * _).
rewrite {1}/D /den -/(dot x u) mulrDl -addrA; congr (_ + _).
rewrite mulr_suml -big_split /=; apply: eq_bigr => j _.
by rewrite -mulrDr addrC subrK.
Qed.

Lemma null_dom (f g : nat -> R) : (forall k, `|f k| <= `|g k|) -> null g -> null f.
Proof. by move=> fg g0; apply: (@null_le _ _ (fun k => `|g k|) 0%N) => [k _|];
  [exact: fg|exact: null_norm]. Qed.

Lemma den_inv_le m (A : 'I_m -> R) c r : (den A c r)^-1 <= expR (- (c * r * r)).
Proof.
rewrite expRN lef_pinv ?posrE ?den_gt0 ?expR_gt0 //.
by rewrite /den ler_addl sumr_ge0 // => j _; exact: expR_nneg.
Qed.

(* One term, with a square in the exponent that is beaten by that of the denominator *)
Lemma null_term m (A : 'I_m -> R) (c c' s b e : R) : c' < c ->
  null (fun k => (den A c k%:R)^-1 * (expR (c' * k%:R * k%:R + s * k%:R) * (b + k%:R * e))).
Proof.
move=> cc; have := @null_affine_square R b e s (c - c'); rewrite subr_gt0 => /(_ cc).
apply: null_dom => k; rewrite mulrA [X in _ <= X]normrM normrM [X in _ <= X]mulrC ler_wpmul2r //.
rewrite [X in _ <= X](ger0_norm (expR_nneg _)) ger0_norm; last first.
  by rewrite mulr_ge0 ?expR_nneg // invr_ge0 ltW ?den_gt0.
apply: le_trans (ler_wpmul2r (expR_nneg _) (den_inv_le _ _ _)) _.
by rewrite -expRD ler_expR mulrBl opprB !expr2 !mulrA addrCA addrA addrC.
Qed.

Section Functional.

Variables (m d H : nat) (Y : 'M[R]_(m, d)) (a : 'cV[R]_d) (c : 'I_H -> R) (u0 : 'cV[R]_d) (u : 'I_H
  -> 'cV[R]_d).
Hypotheses (m0 : (0 < m)%N) (a0 : a != 0) (c0 : forall h, 0 < c h) (ci : injective c).
Hypothesis zero : forall x, dot x u0 + \sum_h dot (head (append Y x) (a *m (c h *: a)^T) x) (u h) =
  0.

Let A j := dot (row j Y) a.
Let S h (y : 'rV[R]_d) (k : nat) :=
  \sum_j expR (c h * k%:R * A j) * (dot (row j Y) (u h) - dot y (u h) + k%:R * - (dot a^T (u h) /
    dot a^T a)).

Lemma norm_gt0 (w : 'cV[R]_d) : w != 0 -> 0 < dot w^T w.
Proof.
move=> w0; have [i wi] : exists i, w i 0 != 0.
  by apply/existsP; apply: contraNT w0 => /existsPn e; apply/eqP/colP => i; rewrite [RHS]mxE;
    apply/eqP; have := e i; rewrite negbK.
rewrite /dot mxE (bigD1 i) //= ltr_spaddl ?mxE -?expr2 ?exprn_even_gt0 //.
by apply: sumr_ge0 => j _; rewrite mxE -expr2 sqr_ge0.
Qed.

Lemma dotC (x y : 'cV[R]_d) : dot x^T y = dot y^T x.
Proof. by rewrite /dot [LHS]mxE [RHS]mxE; apply: eq_bigr => i _;
  rewrite [x^T _ _]mxE [y^T _ _]mxE mulrC. Qed.

(* A vector with no part along a and none across it *)
Lemma zero_vector (w : 'cV[R]_d) :
  dot a^T w = 0 -> (forall y, dot y a = 0 -> dot y w = 0) -> w = 0.
Proof.
move=> aw yw; apply/eqP; apply: contraTT isT => w0.
by have := norm_gt0 w0; rewrite yw ?ltxx // dotC.
Qed.

Let U := u0 + \sum_h u h.

Lemma along y k : dot y a = 0 ->
  dot y U + k%:R * (dot a^T U / dot a^T a) + \sum_h (den A (c h) k%:R)^-1 * S h y k = 0.
Proof.
move=> ya; pose x := (k%:R / dot a^T a) *: a^T + y.
have aa : dot a^T a != 0 by rewrite gt_eqF ?norm_gt0.
have xa : dot x a = k%:R by rewrite dotD dotZ ya addr0 divfK.
have xu w : dot x w = dot y w + k%:R * (dot a^T w / dot a^T a).
  by rewrite dotD dotZ addrC; congr (_ + _); rewrite mulrAC mulrA.
rewrite -xu; apply: etrans (zero x); under [in RHS]eq_bigr do rewrite head_append xa.
rewrite big_split /= addrA; congr (_ + _).
  rewrite /dot mulmxDr mxE; congr (_ + _); rewrite mulmx_sumr summxE.
  by apply: eq_bigr.
apply: eq_bigr => h _; congr (_ * _); apply: eq_bigr => j _; congr (_ * _).
by rewrite xu mulrN opprD addrA.
Qed.

Lemma total_zero : U = 0.
Proof.
have line y : dot y a = 0 -> dot a^T U / dot a^T a = 0 /\ dot y U = 0.
  move=> ya; apply: null_affine.
  apply: (@null_eq _ (fun k => -1 * \sum_h (den A (c h) k%:R)^-1 * S h y k)) => [k|].
    by rewrite mulN1r; apply/esym/eqP; rewrite -addr_eq0 along.
  apply: nullM; apply: null_sum => h _; rewrite /S.
  apply: (@null_eq _ (fun k => \sum_j (den A (c h) k%:R)^-1 * (expR (0 * k%:R * k%:R + (c h * A j)
    * k%:R) *
    (dot (row j Y) (u h) - dot y (u h) + k%:R * - (dot a^T (u h) / dot a^T a))))) => [k|].
    rewrite mulr_sumr; apply: eq_bigr => j _; congr (_ * (expR _ * _)).
    by rewrite !mul0r add0r mulrAC.
  by apply: null_sum => j _; apply: null_term.
apply: zero_vector => [|y /line[]//].
have [|e _] := line 0; first by rewrite /dot mul0mx mxE.
by move/eqP: e; rewrite mulf_eq0 invr_eq0 (gt_eqF (norm_gt0 a0)) orbF => /eqP.
Qed.

(* Heads with larger c are negligible beside head g. *)
Lemma negligible g h y p : c g < c h ->
  null (fun k => den A (c g) k%:R * expR (- (p * k%:R)) * ((den A (c h) k%:R)^-1 * S h y k)).
Proof.
move=> gh; pose b j := dot (row j Y) (u h) - dot y (u h); pose e := - (dot a^T (u h) / dot a^T a).
apply: (@null_eq _ (fun k =>
  \sum_j (den A (c h) k%:R)^-1 * (expR (c g * k%:R * k%:R + (c h * A j - p) * k%:R) * (b j + k%:R *
    e)) +
  \sum_l \sum_j (den A (c h) k%:R)^-1 *
    (expR (0 * k%:R * k%:R + (c g * A l + c h * A j - p) * k%:R) * (b j + k%:R * e)))) => [k|];
      last first.
  apply: nullD; first by apply: null_sum => j _; exact: null_term.
  by apply: null_sum => l _; apply: null_sum => j _; exact: null_term.
set D := (den A (c h) k%:R)^-1; apply/esym.
have S1 f : expR f * expR (- (p * k%:R)) * (D * S h y k) =
    \sum_j D * (expR (f + (c h * A j - p) * k%:R) * (b j + k%:R * e)).
  rewrite /S !mulr_sumr; apply: eq_bigr => j _; rewrite mulrCA; congr (D * _); rewrite mulrA;
    congr (_ * _).
  by rewrite -!expRD; congr expR; rewrite mulrBl -addrA [- _ + _]addrC [c h * A j * _]mulrAC.
rewrite [den A (c g) k%:R](_ : _ = expR (c g * k%:R * k%:R) + \sum_l expR (c g * k%:R * A l)) //.
rewrite !mulrDl mulr_suml mulr_suml S1; congr (_ + _); apply: eq_bigr => l _.
rewrite S1; apply: eq_bigr => j _; congr (D * (expR _ * _)).
by rewrite !mul0r add0r !mulrBl mulrDl addrA [c g * A l * _]mulrAC.
Qed.

Lemma functional_zero h : u h = 0.
Proof.
apply/eqP; apply/negPn/negP => uh.
have [g ug gmin] := @arg_minP _ _ _ h (fun h => u h != 0) c uh.
pose j0 := Ordinal m0; pose top := [arg max_(j > j0) A j]%O; pose p := A top.
have Ap j : A j <= p by rewrite /p /top; case: arg_maxP => // i _; apply.
pose P j := A j == p; pose e := - (dot a^T (u g) / dot a^T a).
have line y : dot y a = 0 -> (\sum_(j | P j) e = 0) /\ (\sum_(j | P j) (dot (row j Y) (u g) - dot y
  (u g)) = 0).
  move=> ya; pose b j := dot (row j Y) (u g) - dot y (u g).
  apply: null_affine.
  have small : null (fun k => expR (- (c g * p * k%:R)) * S g y k).
    apply: (@null_eq _ (fun k => -1 * \sum_(h | h != g)
      (den A (c g) k%:R * expR (- (c g * p * k%:R)) * ((den A (c h) k%:R)^-1 * S h y k)))) => [k|].
      have := along k ya; rewrite total_zero.
      rewrite /dot !mulmx0 !mxE mul0r mulr0 addr0 add0r (bigD1 g) //= => sum0.
      rewrite -mulr_sumr mulN1r -mulrN; move/eqP: sum0; rewrite addr_eq0 => /eqP sum0.
      rewrite -[X in _ * X]opprK in sum0 *.
      rewrite -mulrA mulrCA; congr (_ * _).
      have := sum0; rewrite opprK => <-.
      by rewrite mulrA divff ?mul1r // gt_eqF ?den_gt0.
    apply: nullM; apply: null_sum => h' hg.
    have [uh'|uh'] := eqVneq (u h') 0; last first.
      by apply: negligible; rewrite lt_neqAle (inj_eq ci) eq_sym hg gmin.
    apply: (@null_eq _ (fun=> 0)) => [k|]; last exact: null0.
    rewrite /S big1 ?mulr0 // => j _.
    by rewrite uh' /dot !mulmx0 !mxE mul0r !oppr0 mulr0 !addr0 mulr0.
  have rest : null (fun k => \sum_(j | ~~ P j) expR (- (c g * (p - A j) * k%:R)) * (b j + k%:R *
    e)).
    apply: null_sum => j jP.
    apply: (@null_eq _ (fun k => (b j + k%:R * e) * expR (- (c g * (p - A j) * k%:R)))) => [k|];
      first exact: mulrC.
    by apply: null_affine_exp; rewrite mulr_gt0 // subr_gt0 lt_neqAle jP Ap.
  have := nullD small (nullM (-1) rest); apply: null_eq => k.
  rewrite /S mulr_sumr mulN1r (bigID P) /= -addrA [X in _ + X](_ : _ = 0) ?addr0; last first.
    apply/eqP; rewrite subr_eq0; apply/eqP; apply: eq_bigr => j _; rewrite mulrA; congr (_ * _).
    by rewrite -expRD mulrBr mulrBl opprB addrC [c g * A j * _]mulrAC.
  rewrite mulr_sumr -big_split /=; apply: eq_bigr => j /eqP jp.
  by rewrite mulrA -expRD jp [c g * p * _]mulrAC addNr expR0 mul1r.
have count (x : R) : \sum_(j | P j) x = 0 -> x = 0.
  rewrite sumr_const => /eqP; rewrite mulrn_eq0 => /orP[|/eqP//]; rewrite -leqn0 leqNgt => /negP[].
  by apply/card_gt0P; exists top; exact: eqxx.
have at0 : dot (0 : 'rV[R]_d) a = 0 by rewrite /dot mul0mx mxE.
case/negP: ug; apply/eqP; apply: zero_vector => [|y ya].
  have [/count/eqP e0 _] := line 0 at0; move: e0.
  by rewrite oppr_eq0 mulf_eq0 invr_eq0 (gt_eqF (norm_gt0 a0)) orbF => /eqP.
have [_ s0] := line 0 at0; have [_ sy] := line y ya.
apply: count; move: s0 sy; rewrite sumrB => /eqP; rewrite subr_eq0 => /eqP.
rewrite [X in _ = X]big1 => [s0|j _]; last by rewrite /dot mul0mx mxE.
by rewrite sumrB s0 sub0r => /eqP; rewrite oppr_eq0 => /eqP.
Qed.

End Functional.

End Claim.
