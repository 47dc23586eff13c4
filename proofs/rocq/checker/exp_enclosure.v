(* proofs/11-verified-readout.md, for the claim *error*: exp_program.v is right, its two integers *)
(* enclose exp(-D 2^s).                                                                           *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype derive realfun sequences exp.
From Memorization Require Import exp_program exp_series.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Lemma exponent_of_argument s P r :
  int_of_Z (Z.sub (Z.add s (Z.of_nat P)) (Z.of_nat r)) = int_of_Z s + P%:Z - r%:Z.
Proof. lia. Qed.

Lemma power_of_nat k : Z.pow 2 (Z.of_nat k) = Z.of_nat (2 ^ k).
Proof. by elim: k => [|k IHk] //; rewrite Nat2Z.inj_succ Z.pow_succ_r ?IHk ?expnS; lia. Qed.

Lemma exponent_of_bound P r : (4 <= r)%N ->
  int_of_Z (Z.sub (Z.of_nat P) (Z.pow 2 (Z.sub (Z.of_nat r) 4))) = P%:Z - (2 ^ (r - 4))%:Z.
Proof.
move=> r4; have -> : Z.sub (Z.of_nat r) 4 = Z.of_nat (r - 4) by lia.
by rewrite power_of_nat; move: (2 ^ _)%N => q; lia.
Qed.

Lemma power_split P : (4 <= P)%N ->
  Z.pow 2 (Z.of_nat P) = Z.mul 16 (Z.pow 2 (Z.of_nat (P - 4))).
Proof. by move=> P4; rewrite -{1}(subnKC P4) Nat2Z.inj_add Z.pow_add_r //; lia. Qed.

Lemma max0_cases x : Z.max Z0 x = Z0 \/ Z.max Z0 x = x.
Proof. lia. Qed.

Section Enclosure.
Variable R : realType.
Notation toR := (@toR R).
Variables (P r N : nat).
Let one : R := 2%:R ^+ P.
Let one_gt0 : 0 < one. Proof. by rewrite exprn_gt0 ?ltr0n. Qed.
Let oneE : toR (Z.pow 2 (Z.of_nat P)) = one. Proof. by rewrite toRX. Qed.
(* What the program says of exp(-D 2^s) *)
Theorem enclose_sound (s D : Z) (x := - (toR D * 2%:R ^ int_of_Z s)) : (4 <= P)%N -> (4 <= r)%N ->
  terms_suffice P N -> Z.le Z0 D ->
  let bounds := enclose P r (coefficients P N) s D in
  [/\ Z.le Z0 bounds.1, toR bounds.1 <= one * expR x & one * expR x <= toR bounds.2].
Proof.
move=> P4 r4 suffice D0; rewrite /enclose; set y := Z.shiftl _ _.
pose z := x / 2%:R ^+ r.
have x_z : x = 2%:R ^+ r * z by rewrite mulrC divfK // expf_neq0 // pnatr_eq0.
have [d [d0 d1 e]] := shiftl_floor R D (Z.sub (Z.add s (Z.of_nat P)) (Z.of_nat r)).
have zE : - (one * z) = toR y + d.
  rewrite -/y -e /z /x exponent_of_argument.
  rewrite !expfzDr ?pnatr_eq0 // -invr_expz -!exprnP /one.
  move: (2%:R ^ int_of_Z s) (2%:R ^+ P) ((2%:R ^+ r)^-1) (toR D) => a b c f; ring.
have x0 : x <= 0 by rewrite /x oppr_le0 mulr_ge0 ?exprz_ge0 ?ler0n //; exact: (toR_le R D0).
have z0 : z <= 0 by rewrite /z ler_pdivr_mulr ?exprn_gt0 ?ltr0n // mul0r.
have y0 : Z.le Z0 y by apply/Z.shiftl_nonneg.
case: Z.leb_spec => yP; lazy iota.
  split; [exact: Z.le_refl| by rewrite mulr_ge0 ?(ltW one_gt0) ?(ltW (expR_gt0 _)) |].
  have zk : x <= - (2 ^ (r - 4))%:R.
    have y16 : Z.le (Z.pow 2 (Z.of_nat (P - 4))) y by rewrite (power_split P4) in yP; lia.
    have : one * z <= - 2%:R ^+ (P - 4).
      rewrite ler_oppr zE; have /(toR_le R) := y16; rewrite toRX => /le_trans; apply.
      by rewrite ler_addl.
    rewrite mulrC -ler_pdivl_mulr // => zs.
    rewrite x_z natrX mulrC -ler_pdivl_mulr ?exprn_gt0 ?ltr0n //.
    have sixteenth k : (4 <= k)%N -> 2%:R ^+ (k - 4) / 2%:R ^+ k = 16%:R^-1 :> R.
      move=> k4; rewrite -{2}(subnKC k4) exprD invfM mulrCA mulfV ?expf_neq0 ?pnatr_eq0 //.
      by rewrite mulr1 -natrX.
    by apply: le_trans zs _; rewrite !mulNr ler_opp2 /one !sixteenth.
  apply: le_trans (ler_wpmul2l (ltW one_gt0) (exp_below zk)) _.
  have [d' [_ d'1 e']] := shiftl_floor R (Zpos xH) (Z.sub (Z.of_nat P) (Z.pow 2 (Z.of_nat r - 4))).
  rewrite toRD; apply: le_trans (ler_add (lexx _) d'1); rewrite -e'.
  rewrite exponent_of_bound //.
  by rewrite expfzDr ?pnatr_eq0 // -invr_expz -!exprnP mul1r.
have yP' : Z.le y (Z.pow 2 (Z.of_nat P)) by lia.
have y16 : toR y / one <= 16%:R^-1.
  have h : 16%:R * toR y <= one.
    by rewrite -oneE -[16%:R](toR_nat R 16) -toRM; apply: toR_le; apply: Z.lt_le_incl.
  rewrite -(@ler_pmul2l _ 16%:R) ?ltr0n // mulfV ?pnatr_eq0 // mulrA ler_pdivr_mulr //.
  by rewrite mul1r.
have yR0 : 0 <= toR y / one by rewrite divr_ge0 ?(ltW one_gt0) //; exact: (toR_le R y0).
pose w := - (toR y / one).
have near : `|toR (series P y (coefficients P N)) - one * expR w| <= 5%:R.
  have pow0 : Z.le Z0 (Z.pow 2 (Z.of_nat P)) by apply: Z.pow_nonneg; lia.
  have n1 := series_near N y0 yP' pow0 y16 (coefficient_near0 R P).
  have n2 : `|one * real_series w 0 N - one * expR w| <= 1.
    rewrite -mulrBr normrM (gtr0_norm one_gt0) distrC.
    apply: le_trans (remainder_small R suffice).
    by apply: ler_wpmul2l (ltW one_gt0) _ _ (exp_taylor _ _ _); rewrite ?ler_opp2 ?oppr_le0.
  rewrite -[_ - _](subrKA (one * real_series w 0 N)).
  by rewrite (le_trans (ler_norm_add _ _)) // -[5%:R]/((4 + 1)%:R) natrD ler_add.
set m := series _ _ _ in near *.
have /andP[m5 m5'] : - 5%:R <= toR m - one * expR w <= 5%:R by rewrite -ler_norml.
have exp0 : 0 <= one * expR z by rewrite mulr_ge0 ?(ltW one_gt0) ?(ltW (expR_gt0 _)).
have zw : z <= w.
  by rewrite /w ler_oppr ler_pdivr_mulr // -[X in _ <= X]opprK mulNr opprK mulrC zE ler_addl.
have w0 : w <= 0 by rewrite oppr_le0.
have low : toR (Z.max Z0 (Z.sub m 6)) <= one * expR z.
  have [->|->] := max0_cases (Z.sub m 6).
    exact: exp0.
  have /(ler_wpmul2l (ltW one_gt0)) := exp_step zw w0.
  rewrite mulrDr mulrBr /w mulrN [one * (toR y / one)]mulrC divfK ?gt_eqF // -/w.
  have -> : - toR y - one * z = d by rewrite zE addKr.
  rewrite toRD -[toR (Zneg 6)]/(- 6%:R) => near'; rewrite ler_subl_addr.
  move: m5'; rewrite ler_subl_addr addrC => /le_trans; apply.
  have -> : 6%:R = 1 + 5%:R :> R by rewrite -(natrD _ 1 5).
  by rewrite [X in _ <= X]addrA ler_add2r (le_trans near') // ler_add2l.
have high : one * expR z <= toR (Z.add m 5).
  apply: (@le_trans _ _ (one * expR w)); first by rewrite ler_wpmul2l ?(ltW one_gt0) // ler_expR.
  by rewrite toRD -[toR 5]/(5%:R); move: m5; rewrite ler_subr_addr addrC ler_subl_addr.
have [d1' d2'] := square_down_le r (Z.le_max_l Z0 (Z.sub m 6)) low.
by split; rewrite // x_z //; exact: square_up_ge.
Qed.

End Enclosure.
