(* proofs/17-generic-contexts.md: Theorem 12. Limits of sequences k = 0, 1, 2, ...: affine *)
(* factors, exponentials, and exponentials of squares.                                     *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import limits.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Growth.

Variable R : realType.

Lemma expR_nneg (x : R) : 0 <= expR x.
Proof. exact/ltW/expR_gt0. Qed.

Definition null (f : nat -> R) : Prop := f k @[k --> \oo] --> (0 : R).

Lemma null_eq f g : (forall k, f k = g k) -> null f -> null g.
Proof. by move=> fg; rewrite (_ : f = g) //; apply: funext. Qed.

Lemma null_sum (I : Type) (r : seq I) (P : pred I) (f : I -> nat -> R) :
  (forall i, P i -> null (f i)) -> null (fun k => \sum_(i <- r | P i) f i k).
Proof.
move=> fi; have := @cvg_sum_seq R I r (fun i k => if P i then f i k else 0) (fun=> 0).
rewrite big1 // => lim; apply: null_eq (lim _) => [k|i]; first by rewrite -big_mkcond.
have [Pi|_] := boolP (P i); [exact: fi|exact: cvg_cst].
Qed.

Lemma nullD f g : null f -> null g -> null (fun k => f k + g k).
Proof. by move=> f0 g0; have h := cvgD f0 g0; rewrite addr0 in h; exact: h. Qed.

Lemma nullM c f : null f -> null (fun k => c * f k).
Proof. by move=> f0; have h := cvgM (cvg_cst c) f0; rewrite mulr0 in h; exact: h. Qed.

Lemma null_le f g N : (forall k, (N <= k)%N -> `|f k| <= g k) -> null g -> null f.
Proof.
move=> fg g0; apply/norm_cvg0P; apply: squeeze_cvgr g0; last exact: cvg_cst.
by exists N => // k /= Nk; rewrite normr_ge0 fg.
Qed.

Lemma null0 : null (fun=> 0).
Proof. by rewrite /null; exact: cvg_cst. Qed.

Lemma null_norm f : null f -> null (fun k => `|f k|).
Proof. by move=> f0; have h := (norm_cvg0P f).2 f0; exact: h. Qed.

Lemma null_exp delta : 0 < delta -> null (fun k => expR (- (delta * k%:R))).
Proof.
move=> d0; apply: (@null_eq (fun k => expR (- delta) ^+ k)) => [k|].
  by rewrite -expRMm mulrN mulrC.
by apply: cvg_expr; rewrite ger0_norm ?expR_lt1 ?oppr_lt0 // ltW ?expR_gt0.
Qed.

Lemma null_affine_exp (b a delta : R) : 0 < delta -> null (fun k => (b + k%:R * a) * expR (- (delta
  * k%:R))).
Proof.
move=> d0; have d2 : 0 < delta / 2 by rewrite divr_gt0 ?ltr0n.
have half : null (fun k => k%:R * expR (- (delta * k%:R))).
  apply: (@null_le _ (fun k => (delta / 2)^-1 * expR (- (delta / 2 * k%:R))) 0%N) => [k _ /=|];
    last first.
    exact: nullM (null_exp d2).
  rewrite ger0_norm; last by rewrite mulr_ge0 ?expR_nneg ?ler0n.
  rewrite ler_pdivl_mull //.
  set w := delta / 2 * k%:R; have w0 : 0 <= w by rewrite mulr_ge0 ?ler0n // ltW.
  have -> : expR (- (delta * k%:R)) = expR (- w) * expR (- w).
    by rewrite -expRD -opprD /w -mulrDl -splitr.
  have wE : w * expR (- w) <= 1.
    rewrite expRN ler_pdivr_mulr ?expR_gt0 // mul1r.
    by apply: le_trans (expR_ge1Dx w0); rewrite ler_addr ler01.
  have -> : delta / 2 * (k%:R * (expR (- w) * expR (- w))) = w * expR (- w) * expR (- w) by rewrite
    !mulrA.
  rewrite -[X in _ <= X]mul1r; apply: ler_wpmul2r wE; exact: expR_nneg.
apply: (@null_eq (fun k => b * expR (- (delta * k%:R)) + a * (k%:R * expR (- (delta * k%:R))))) =>
  [k|].
  by rewrite mulrDl; congr (_ + _); rewrite mulrA; congr (_ * _); rewrite mulrC.
by apply: nullD; apply: nullM => //; apply: null_exp.
Qed.

Lemma null_affine_square (b a s c : R) : 0 < c ->
  null (fun k => (b + k%:R * a) * expR (s * k%:R - c * k%:R ^+ 2)).
Proof.
move=> c0; have := @null_affine_exp `|b| `|a| 1 ltr01; pose N := Num.bound `|(s + 1) / c|.
have NP k : (N <= k)%N -> (s + 1) / c <= k%:R.
  rewrite -(ler_nat R); apply: le_trans; apply: le_trans (ler_norm _) _.
  by apply/ltW/archi_boundP; exact: normr_ge0.
apply: (@null_le _ _ N) => k Nk; rewrite normrM ler_pmul ?normr_ge0 //.
  by rewrite (le_trans (ler_norm_add _ _)) // ler_add2l normrM ger0_norm ?ler0n.
rewrite ger0_norm ?expR_nneg // ler_expR mul1r ler_subl_addr -ler_subl_addl opprK.
have := NP k Nk; rewrite /= ler_pdivr_mulr // => sc.
by rewrite -[X in _ + X]mul1r -mulrDl expr2 mulrA ler_wpmul2r ?ler0n // mulrC.
Qed.

Lemma null_affine (b a : R) : null (fun k => b + k%:R * a) -> a = 0 /\ b = 0.
Proof.
move=> f0; have a0 : a = 0.
  have f1 : null (fun k => b + k.+1%:R * a).
    by have := f0; rewrite /null -(@cvg_shiftS _ (fun k => b + k%:R * a : R^o)).
  have d0 : null (fun k => (b + k.+1%:R * a) + - (b + k%:R * a)).
    by apply: nullD => //; apply: null_eq (nullM (-1) f0) => k; rewrite mulN1r.
  have {}d0 : null (fun=> a).
    by apply: null_eq d0 => k; rewrite mulrS mulrDl mul1r opprD addrACA subrr add0r addrK.
  have ca : (fun=> a) k @[k --> \oo] --> a by exact: cvg_cst.
  exact: (cvg_unique _ ca d0).
split=> //; have fb : null (fun=> b) by apply: null_eq f0 => k; rewrite a0 mulr0 addr0.
have cb : (fun=> b) k @[k --> \oo] --> b by exact: cvg_cst.
exact: (cvg_unique _ cb fb).
Qed.

End Growth.
