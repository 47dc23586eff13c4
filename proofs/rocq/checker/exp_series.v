(* proofs/11-verified-readout.md, for the claim *error*: integers of exp_program.v as real        *)
(* numbers. By the mean value theorem for exp(-x) F(x) the series is off by its last term at      *)
(* most; squares of bounds are bounds.                                                            *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype derive realfun sequences exp.
From Memorization Require Import mean_value exp_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Real.

Variable R : realType.

(* The slope is at most one below zero. *)
Lemma exp_step (a b : R) : a <= b -> b <= 0 -> expR b <= expR a + (b - a).
Proof.
move=> ab b0; have h := exp_ge (a - b).
have eb : expR b <= 1 by rewrite -[X in _ <= X](expR0 R) ler_expR.
have e : expR a = expR b * expR (a - b) by rewrite -expRD addrC subrK.
rewrite -ler_subl_addl e -{1}[expR b]mulr1 -mulrBr.
have h1 : 1 - expR (a - b) <= b - a by rewrite ler_subl_addr -ler_subl_addl opprB.
apply: le_trans (ler_wpmul2l (ltW (expR_gt0 b)) h1) _.
by rewrite ler_pimull // subr_ge0.
Qed.

(* The series, as Horner's rule has it *)
Fixpoint real_series (y : R) (k n : nat) : R :=
  k`!%:R^-1 + (if n is n'.+1 then y * real_series y k.+1 n' else 0).

Definition exp_polynomial (n : nat) : {poly R} := \sum_(j < n.+1) j`!%:R^-1 *: 'X^j.

Lemma real_seriesE y k n : real_series y k n = \sum_(j < n.+1) (k + j)`!%:R^-1 * y ^+ j.
Proof.
elim: n k => [|n IHn] k /=; first by rewrite big_ord1 addn0 expr0 mulr1 addr0.
rewrite IHn [RHS]big_ord_recl addn0 expr0 mulr1; congr (_ + _); rewrite mulr_sumr.
by apply: eq_bigr => j _; rewrite lift0 exprS addnS addSn mulrCA.
Qed.

Lemma horner_exp_polynomial n y : (exp_polynomial n).[y] = real_series y 0 n.
Proof.
by rewrite real_seriesE horner_sum; apply: eq_bigr => j _; rewrite hornerZ hornerXn.
Qed.

Lemma exp_polynomialB n : exp_polynomial n - (exp_polynomial n)^`() = n`!%:R^-1 *: 'X^n.
Proof.
have -> : (exp_polynomial n)^`() = \sum_(j < n) j`!%:R^-1 *: 'X^j.
  rewrite raddf_sum big_ord_recl /= derivZ derivXn mulr0n scaler0 add0r; apply: eq_bigr => j _.
  rewrite derivZ derivXn -scalerMnr scalerMnl -mulr_natl; congr (_ *: _).
  by rewrite /bump /= add1n factS natrM invfM mulrA mulfV ?pnatr_eq0 // mul1r.
by rewrite /exp_polynomial big_ord_recr /= addrC addKr.
Qed.

(* Taylor's formula for exp below zero *)
Lemma exp_taylor n (y : R) : - 16%:R^-1 <= y -> y <= 0 ->
  `|expR y - real_series y 0 n| <= n`!%:R^-1 / 16%:R ^+ n.+1.
Proof.
move=> y16 y0; have [c [yc c0]] := exp_mean_value_below (exp_polynomial n) y0.
rewrite exp_polynomialB !horner_exp_polynomial hornerZ hornerXn.
have -> : real_series 0 0 n = 1.
  rewrite real_seriesE big_ord_recl addn0 expr0 mulr1 invr1 big1 ?addr0 // => j _.
  by rewrite lift0 exprS mul0r mulr0.
rewrite mulr1 => ->.
have size_le z : - 16%:R^-1 <= z -> z <= 0 -> `|z| <= 16%:R^-1.
  by move=> *; rewrite ler0_norm // ler_oppl.
rewrite !normrM normrX (ger0_norm (ltW (expR_gt0 _))) normfV normr_nat.
rewrite mulrCA ler_wpmul2l ?invr_ge0 ?ler0n // -exprVn exprS.
apply: ler_pmul; rewrite ?exprn_ge0 ?mulr_ge0 ?(ltW (expR_gt0 _)) //.
  rewrite -[X in _ <= X]mulr1; apply: ler_pmul; rewrite ?(ltW (expR_gt0 _)) ?size_le //.
  by rewrite -[X in _ <= X](expR0 R) ler_expR subr_le0.
rewrite ler_expn2r ?nnegrE ?invr_ge0 ?ler0n // size_le //.
exact: le_trans yc.
Qed.

(* Integers of the program as real numbers *)
Definition toR (z : Z) : R := (int_of_Z z)%:~R.

Lemma toRD x y : toR (Z.add x y) = toR x + toR y.
Proof. by rewrite /toR -rmorphD; congr (_%:~R); lia. Qed.

Lemma toRN x : toR (Z.opp x) = - toR x.
Proof. by rewrite /toR -rmorphN; congr (_%:~R); lia. Qed.

Lemma toRM x y : toR (Z.mul x y) = toR x * toR y.
Proof. by rewrite /toR -rmorphM; congr (_%:~R); lia. Qed.

Lemma toR_nat n : toR (Z.of_nat n) = n%:R.
Proof. by rewrite /toR (_ : int_of_Z _ = n%:Z) //; lia. Qed.

Lemma toR_le x y : Z.le x y -> toR x <= toR y.
Proof. by rewrite /toR ler_int; lia. Qed.

Lemma toRX x n : toR (Z.pow x (Z.of_nat n)) = toR x ^+ n.
Proof.
elim: n => [|n IHn]; first by rewrite expr0.
by rewrite Nat2Z.inj_succ Z.pow_succ_r ?toRM ?IHn ?exprS //; lia.
Qed.

(* Where d is the number between 0 and 1 by which it is rounded down *)
Lemma shiftr_floor x n : exists d, [/\ 0 <= d, d <= 1 &
  toR x / 2%:R ^+ n = toR (Z.shiftr x (Z.of_nat n)) + d].
Proof.
have pow0 : Z.lt Z0 (Z.pow 2 (Z.of_nat n)) by apply: Z.pow_pos_nonneg; lia.
have pow0R : 0 < 2%:R ^+ n :> R by rewrite exprn_gt0 ?ltr0n.
have powE : toR (Z.pow 2 (Z.of_nat n)) = 2%:R ^+ n by rewrite toRX.
rewrite Z.shiftr_div_pow2; last by lia.
have [m0 m1] := Z.mod_pos_bound x _ pow0.
exists (toR (Z.modulo x (Z.pow 2 (Z.of_nat n))) / 2%:R ^+ n); split.
- by rewrite divr_ge0 ?(ltW pow0R) //; apply: (toR_le m0).
- by rewrite ler_pdivr_mulr // mul1r -powE; apply: toR_le; lia.
rewrite {1}(Z_div_mod_eq_full x (Z.pow 2 (Z.of_nat n))) toRD toRM powE mulrDl.
by rewrite mulrAC mulfV ?gt_eqF // mul1r.
Qed.

Lemma shiftl_floor x k : exists d, [/\ 0 <= d, d <= 1 &
  toR x * 2%:R ^ int_of_Z k = toR (Z.shiftl x k) + d].
Proof.
have [k0|k0] : Z.le Z0 k \/ Z.lt k Z0 by lia.
  have [n ->] : exists n, k = Z.of_nat n by exists (Z.to_nat k); lia.
  exists 0; split; rewrite ?lexx ?ler01 // addr0 Z.shiftl_mul_pow2; last by lia.
  by rewrite toRM toRX (_ : int_of_Z _ = n%:Z) //; lia.
have [n ->] : exists n, k = Z.opp (Z.of_nat n) by exists (Z.to_nat (Z.opp k)); lia.
have [d [d0 d1 e]] := shiftr_floor x n; exists d; split=> //.
rewrite Z.shiftl_opp_r -e (_ : int_of_Z _ = - n%:Z); last by lia.
by rewrite -invr_expz.
Qed.

Section Program.

Variables (P r N : nat).

Let one : R := 2%:R ^+ P.

Let one_gt0 : 0 < one. Proof. by rewrite exprn_gt0 ?ltr0n. Qed.

Let oneE : toR (Z.pow 2 (Z.of_nat P)) = one. Proof. by rewrite toRX. Qed.

(* Coefficients are rounded down, by less than 2. *)
Definition coefficient_near (k : nat) (c : Z) : Prop :=
  toR c <= one / k`!%:R /\ one / k`!%:R <= toR c + (minn k 2)%:R.

Lemma coefficient_near0 : coefficient_near 0 (Z.pow 2 (Z.of_nat P)).
Proof. by split; rewrite oneE divr1 ?addr0. Qed.

Lemma coefficient_near_next k c : coefficient_near k c ->
  coefficient_near k.+1 (Z.div c (Z.add (Z.of_nat k) (Zpos xH))).
Proof.
move=> [ck kc]; have k1 : Z.add (Z.of_nat k) (Zpos xH) = Z.of_nat k.+1 by lia.
rewrite k1; have k0 : Z.lt Z0 (Z.of_nat k.+1) by lia.
have [m0 m1] := Z.mod_pos_bound c _ k0.
have cE : toR c = k.+1%:R * toR (Z.div c (Z.of_nat k.+1)) + toR (Z.modulo c (Z.of_nat k.+1)).
  by rewrite -toR_nat -toRM -toRD -Z_div_mod_eq_full.
have kE : one / k.+1`!%:R = k.+1%:R^-1 * (one / k`!%:R).
  by rewrite factS natrM invfM mulrCA.
have kR : 0 < k.+1%:R :> R by rewrite ltr0n.
rewrite /coefficient_near kE; split.
  rewrite mulrC ler_pdivl_mulr // mulrC (le_trans _ ck) // cE ler_addl.
  exact: (toR_le m0).
rewrite mulrC ler_pdivr_mulr // (le_trans kc) // cE mulrDl mulrC -addrA ler_add2l.
case: k ck kc k1 k0 m0 m1 cE kE kR => [|k] ck kc k1 k0 m0 m1 cE kE kR.
  by rewrite (_ : Z.modulo c _ = Z0) ?addr0 ?mulr_ge0 ?ler0n //; lia.
have -> : minn k.+2 2 = 2%N by lia.
have mk : toR (Z.modulo c (Z.of_nat k.+2)) <= k.+2%:R.
  by rewrite -toR_nat; apply: toR_le; lia.
apply: le_trans (ler_add mk (lexx _)) _.
rewrite mulr_natl mulr2n ler_add2l ler_nat; lia.
Qed.

(* No difference is negative. *)
Lemma series_bounds n k c y : Z.le Z0 y -> Z.le Z0 k -> Z.le Z0 c ->
  Z.le Z0 (series P y (coefficients_from n k c)) /\ Z.le (series P y (coefficients_from n k c)) c.
Proof.
move=> y0; elim: n k c => [|n IHn] k c k0 c0.
  by rewrite /= Z.mul_0_r Z.shiftr_0_l; lia.
have c0' : Z.le Z0 (Z.div c (Z.add k (Zpos xH))) by apply: Z.div_pos; lia.
have k0' : Z.le Z0 (Z.add k (Zpos xH)) by lia.
have [S0 _] := IHn _ _ k0' c0'; rewrite [series _ _ _]/=; move: (series _ _ _) S0 => S S0.
have : Z.le Z0 (Z.shiftr (Z.mul y S) (Z.of_nat P)) by apply/Z.shiftr_nonneg; lia.
by move: (Z.shiftr _ _) => q; lia.
Qed.

Lemma series_step n k c y : Z.le Z0 y -> Z.le y (Z.pow 2 (Z.of_nat P)) -> Z.le Z0 k -> Z.le Z0 c ->
  let rest := series P y (coefficients_from n (Z.add k (Zpos xH)) (Z.div c (Z.add k (Zpos xH)))) in
  series P y (coefficients_from n.+1 k c) = Z.sub c (Z.shiftr (Z.mul y rest) (Z.of_nat P)).
Proof.
move=> y0 y1 k0 c0; lazy zeta; rewrite [series _ _ (coefficients_from n.+1 _ _)]/=.
have c1 : Z.le (Z.div c (Z.add k (Zpos xH))) c by apply: Z.div_le_upper_bound; nia.
have c0' : Z.le Z0 (Z.div c (Z.add k (Zpos xH))) by apply: Z.div_pos; lia.
have k0' : Z.le Z0 (Z.add k (Zpos xH)) by lia.
have [S0 S1] := series_bounds n y0 k0' c0'; move: (series _ _ _) S0 S1 => S S0 S1.
have q1 : Z.le (Z.shiftr (Z.mul y S) (Z.of_nat P)) S.
  rewrite Z.shiftr_div_pow2; last by lia.
  by apply: Z.div_le_upper_bound; [apply: Z.pow_pos_nonneg; lia | nia].
have := Z.le_trans _ _ _ q1 (Z.le_trans _ _ _ S1 c1).
by move: (Z.shiftr _ _) => q qc; rewrite Z.max_r //; lia.
Qed.

Lemma series_near n k c y : Z.le Z0 y -> Z.le y (Z.pow 2 (Z.of_nat P)) -> Z.le Z0 c ->
  toR y / one <= 16%:R^-1 -> coefficient_near k c ->
  `|toR (series P y (coefficients_from n (Z.of_nat k) c)) -
    one * real_series (- (toR y / one)) k n| <= 4%:R.
Proof.
move=> y0 y1 c0 y16; have ysize : `|toR y / one| <= 16%:R^-1.
  by rewrite ger0_norm // divr_ge0 ?(ltW one_gt0) //; exact: (toR_le y0).
elim: n k c c0 => [|n IHn] k c c0 kc.
  have [c1 c2] := kc; rewrite /= Z.mul_0_r Z.shiftr_0_l Z.sub_0_r Z.max_r // addr0.
  rewrite distrC ger0_norm ?subr_ge0 // ler_subl_addl (le_trans c2) //.
  by rewrite ler_add2l ler_nat geq_min orbT.
have k1 : Z.add (Z.of_nat k) (Zpos xH) = Z.of_nat k.+1 by lia.
rewrite series_step //; last by lia.
rewrite [real_series _ _ _]/= k1; have := coefficient_near_next kc; rewrite k1.
have c0' : Z.le Z0 (Z.div c (Z.of_nat k.+1)) by apply: Z.div_pos; lia.
move=> /(IHn _ _ c0'); set S := series _ _ _; set T := real_series _ _ _.
move=> near; have [d [d0 d1 e]] := shiftr_floor (Z.mul y S) P.
rewrite toRD toRN (_ : toR (Z.shiftr _ _) = toR y / one * toR S - d); last first.
  by apply/eqP; rewrite eq_sym subr_eq -e toRM mulrAC.
have [c1 c2] := kc.
rewrite (_ : _ - _ = d - (one / k`!%:R - toR c) - toR y / one * (toR S - one * T)); last by ring.
have -> : 4%:R = 1 + 2%:R + 1 :> R by ring.
apply: le_trans (ler_norm_sub _ _) _; apply: ler_add; last first.
  rewrite normrM; apply: le_trans (ler_pmul _ _ ysize near) _ => //.
  by rewrite mulrC ler_pdivr_mulr ?ltr0n // mul1r ler_nat.
apply: le_trans (ler_norm_sub _ _) _; apply: ler_add; first by rewrite ger0_norm.
rewrite ger0_norm ?subr_ge0 // ler_subl_addl (le_trans c2) //.
by rewrite ler_add2l ler_nat geq_min orbT.
Qed.

(* The last coefficient bounds what is left out. *)
Lemma last_coefficient n k c : coefficient_near k c ->
  coefficient_near (k + n) (last Z0 (coefficients_from n (Z.of_nat k) c)).
Proof.
elim: n k c => [|n IHn] k c kc; first by rewrite addn0.
have k1 : Z.add (Z.of_nat k) (Zpos xH) = Z.of_nat k.+1 by lia.
have := IHn _ _ (coefficient_near_next kc); rewrite addSnnS /= k1.
by case: n {IHn}.
Qed.

Lemma remainder_small : terms_suffice P N -> one * (N`!%:R^-1 / 16%:R ^+ N.+1) <= 1.
Proof.
move=> /Z.leb_le suffice; have [_] := last_coefficient N coefficient_near0.
rewrite add0n -/(coefficients P N) => near; rewrite mulrA ler_pdivr_mulr ?exprn_gt0 ?ltr0n //.
rewrite mul1r (le_trans near) //; have := toR_le suffice; rewrite toRD toRX.
by apply: le_trans; rewrite ler_add2l (_ : toR _ = 2%:R) // ler_nat geq_minr.
Qed.

Lemma square_down_le n x (z : R) : Z.le Z0 x -> toR x <= one * expR z ->
  Z.le Z0 (square_down P n x) /\ toR (square_down P n x) <= one * expR (2%:R ^+ n * z).
Proof.
elim: n x z => [|n IHn] x z x0 xz; first by rewrite mul1r.
have xx0 : Z.le Z0 (Z.mul x x) by lia.
have -> : 2%:R ^+ n.+1 * z = 2%:R ^+ n * (z + z) by rewrite exprSr -mulrA; congr (_ * _); ring.
apply: IHn; first by apply/Z.shiftr_nonneg.
have [d [d0 _ e]] := shiftr_floor (Z.mul x x) P.
have floor : toR (Z.shiftr (Z.mul x x) (Z.of_nat P)) <= toR (Z.mul x x) / one.
  by rewrite e ler_addl.
apply: le_trans floor _; rewrite ler_pdivr_mulr // toRM expRD.
rewrite (_ : one * _ * one = (one * expR z) * (one * expR z)); last by ring.
by apply: ler_pmul => //; exact: (toR_le x0).
Qed.

Lemma square_up_ge n x (z : R) : one * expR z <= toR x ->
  one * expR (2%:R ^+ n * z) <= toR (square_up P n x).
Proof.
elim: n x z => [|n IHn] x z xz; first by rewrite mul1r.
have -> : 2%:R ^+ n.+1 * z = 2%:R ^+ n * (z + z) by rewrite exprSr -mulrA; congr (_ * _); ring.
apply: IHn; have [d [_ d1 e]] := shiftr_floor (Z.mul x x) P.
have ceiling : toR (Z.mul x x) / one <= toR (Z.add (Z.shiftr (Z.mul x x) (Z.of_nat P)) (Zpos xH)).
  by rewrite e toRD ler_add2l.
apply: le_trans _ ceiling; rewrite ler_pdivl_mulr // toRM expRD.
rewrite (_ : one * _ * one = (one * expR z) * (one * expR z)); last by ring.
by apply: ler_pmul; rewrite ?mulr_ge0 ?(ltW one_gt0) ?(ltW (expR_gt0 _)).
Qed.

Lemma exp_below (k : nat) (x : R) : x <= - k%:R -> expR x <= 2%:R ^- k.
Proof.
move=> xk; rewrite -ler_expR in xk; apply: le_trans xk _.
rewrite expRN lef_pinv ?posrE ?expR_gt0 ?exprn_gt0 ?ltr0n // -[k%:R]mulr1 expRMm.
rewrite ler_expn2r ?nnegrE ?ler0n ?(ltW (expR_gt0 _)) //.
exact: le_trans (expR_ge1Dx ler01).
Qed.

End Program.

End Real.
