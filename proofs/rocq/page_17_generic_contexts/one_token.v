(* proofs/17-generic-contexts.md: Lemma 17.1 (one token among equal ones). The weights of one    *)
(* token for different slopes c_h are independent functions of s; if n = 2, unless there are two *)
(* pairs of opposite slopes.                                                                     *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Generic_contexts exponential_polynomials growth.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section OneToken.

Variables (R : realType) (n : nat).
Hypothesis n1 : (1 < n)%N.

Let m : R := (n - 1)%:R.
Let g : R -> R := one_token n.

Lemma others_gt0 : 0 < m.
Proof. by rewrite ltr0n subn_gt0. Qed.

Lemma den_gt0 (x : R) : 0 < expR x + m.
Proof. by rewrite addr_gt0 ?expR_gt0 ?others_gt0. Qed.

(* The limit of g(c s) for large s, and what is next to it at exp(-b s) *)
Definition limit (c : R) : R := if 0 < c then 1 else if c == 0 then (1 + m)^-1 else 0.
Definition next (b c : R) : R := if c == b then - m else if c == - b then m^-1 else 0.

Lemma den_inv (x : R) : (expR x + m)^-1 <= expR (- x).
Proof. by rewrite expRN lef_pinv ?posrE ?den_gt0 ?expR_gt0 // ler_addl ltW ?others_gt0. Qed.

Lemma den_inv_m (x : R) : (expR x + m)^-1 <= m^-1.
Proof. by rewrite lef_pinv ?posrE ?den_gt0 ?others_gt0 // ler_addr ltW ?expR_gt0. Qed.

Lemma norm_div (x y : R) : `|x / (expR y + m)| = `|x| * (expR y + m)^-1.
Proof. by rewrite normrM [X in _ * X]ger0_norm // invr_ge0 ltW ?den_gt0. Qed.

Lemma null_weight (b c : R) : 0 < b -> c = 0 \/ b <= `|c| ->
  null (fun k => expR (b * k%:R) * (g (c * k%:R) - limit c) - next b c).
Proof.
move=> b0 bc; have m0 := others_gt0; have m_neq0 : m != 0 by rewrite gt_eqF.
have [->|c_neq0] := eqVneq c 0.
  apply: (@null_eq _ (fun=> 0)) => [k|]; last exact: null0.
  rewrite /limit ltxx eqxx /next ![0 == _]eq_sym oppr_eq0 gt_eqF // mul0r /g /one_token.
  by rewrite expR0 mul1r -/m subrr mulr0 subr0.
have {}bc : b <= `|c| by case: bc => // c0; rewrite c0 eqxx in c_neq0.
have [c0|c0] := ltP 0 c.
  have cE : `|c| = c by rewrite ger0_norm // ltW.
  have cb : c == - b = false by apply/negP => /eqP cb; move: c0; rewrite cb oppr_gt0 ltNge ltW.
  have e k : expR (b * k%:R) * (g (c * k%:R) - limit c) =
      - (m * expR (b * k%:R)) / (expR (c * k%:R) + m).
    rewrite /limit c0 /g /one_token -/m -[X in _ - X](@divff _ (expR (c * k%:R) + m));
      last by rewrite gt_eqF ?den_gt0.
    by rewrite -mulrBl opprD addrA subrr sub0r mulrA mulrN [m * _]mulrC.
  rewrite /next cb; have [cb'|cb'] := eqVneq c b.
    apply: (@null_le _ _ (fun k => m ^+ 2 * expR (- (c * k%:R))) 0%N) => [k _|]; last first.
      exact: nullM (null_exp c0).
    rewrite e -cb' opprK mulNr addrC -[X in X - _](@divfK _ (expR (c * k%:R) + m));
      last by rewrite gt_eqF ?den_gt0.
    rewrite mulrAC -mulrBl -mulrBr addrC addKr -expr2 norm_div ger0_norm ?sqr_ge0 //.
    by rewrite ler_wpmul2l ?sqr_ge0 // den_inv.
  apply: (@null_le _ _ (fun k => m * expR (- ((c - b) * k%:R))) 0%N) => [k _|]; last first.
    by apply: nullM; apply: null_exp; rewrite subr_gt0 lt_neqAle eq_sym cb' -cE.
  rewrite subr0 e norm_div normrN ger0_norm ?mulr_ge0 ?expR_nneg ?(ltW m0) //.
  rewrite -mulrA ler_wpmul2l ?(ltW m0) //.
  apply: le_trans (ler_wpmul2l (expR_nneg _) (den_inv _)) _.
  by rewrite -expRD -mulrBl -mulNr opprB.
have {}c0 : c < 0 by rewrite lt_neqAle c_neq0.
have cE : `|c| = - c by rewrite ler0_norm // ltW.
have cb : c == b = false by apply/negP => /eqP cb; move: c0; rewrite cb ltNge ltW.
have e k : expR (b * k%:R) * (g (c * k%:R) - limit c) =
    expR ((b + c) * k%:R) / (expR (c * k%:R) + m).
  by rewrite /limit ltNge ltW //= lt_eqF // subr0 /g /one_token mulrA -expRD -mulrDl.
rewrite /next cb; have [cb'|cb'] := eqVneq c (- b).
  apply: (@null_le _ _ (fun k => (m ^- 2) * expR (- (b * k%:R))) 0%N) => [k _|]; last first.
    exact: nullM (null_exp b0).
  rewrite e cb' subrr mul0r expR0 mul1r mulNr; set x := expR (- _).
  have x0 : 0 < x + m := den_gt0 _.
  have -> : (x + m)^-1 - m^-1 = - x / (x + m) / m.
    apply: (mulIf m_neq0); rewrite mulfVK // mulrBl mulVf //.
    apply: (mulfI (lt0r_neq0 x0)); rewrite mulrBr mulr1 mulrA divff ?lt0r_neq0 // mul1r.
    by rewrite mulrCA divff ?lt0r_neq0 // mulr1 opprD addrCA subrr addr0.
  have xg : 0 < x := expR_gt0 _.
  rewrite !normrM normrN (gtr0_norm xg) (@gtr0_norm _ (x + m)^-1) ?invr_gt0 //.
  rewrite (@gtr0_norm _ m^-1) ?invr_gt0 // -mulrA mulrC expr2 invfM ler_wpmul2r ?(ltW xg) //.
  by rewrite ler_wpmul2r ?invr_ge0 ?(ltW m0) // /x den_inv_m.
apply: (@null_le _ _ (fun k => m^-1 * expR (- ((- c - b) * k%:R))) 0%N) => [k _|]; last first.
  by apply: nullM; apply: null_exp; rewrite subr_gt0 lt_neqAle eq_sym eqr_oppLR cb' -cE.
rewrite subr0 e norm_div ger0_norm ?expR_nneg // mulrC.
rewrite -mulNr opprB opprK ler_wpmul2r ?expR_nneg //; exact: den_inv_m.
Qed.

Lemma null_const (x : R) : null (fun=> x) -> x = 0.
Proof.
move=> x0; have [|_ //] := @null_affine R x 0.
by apply: null_eq x0 => k; rewrite mulr0 addr0.
Qed.

(* The coefficient of exp(-b s), if no slope but zero is nearer to zero than b *)
Lemma coefficient H (c a : 'I_H -> R) (C b : R) : 0 < b ->
  (forall h, a h != 0 -> c h = 0 \/ b <= `|c h|) ->
  (forall k : nat, C + \sum_h a h * g (c h * k%:R) = 0) ->
  \sum_(h | c h == - b) a h = m ^+ 2 * \sum_(h | c h == b) a h.
Proof.
move=> b0 ab sum0; have m_neq0 : m != 0 by rewrite gt_eqF ?others_gt0.
pose D := C + \sum_h a h * limit (c h); pose N := \sum_h a h * next b (c h).
have DN : null (fun k => expR (b * k%:R) * D + N).
  apply: (@null_eq _ (fun k =>
    -1 * \sum_h a h * (expR (b * k%:R) * (g (c h * k%:R) - limit (c h)) - next b (c h)))) => [k|].
    have -> : D = \sum_h a h * (limit (c h) - g (c h * k%:R)).
      under eq_bigr do rewrite mulrBr.
      by rewrite sumrB; apply/eqP; rewrite eq_sym subr_eq /D addrAC sum0 add0r.
    rewrite mulN1r -sumrN mulr_sumr -big_split; apply: eq_bigr => h _ /=.
    by rewrite -mulrN opprB mulrDr addrC; congr (_ + _); rewrite -mulrN opprB mulrCA.
  apply: nullM; apply: null_sum => h _.
  have [->|ah] := eqVneq (a h) 0.
    by apply: (@null_eq _ (fun=> 0)) => [k|]; [rewrite mul0r|exact: null0].
  by apply: nullM; apply: null_weight => //; exact: ab.
have D0 : D = 0.
  apply: null_const.
  have small : null (fun k => expR (- (b * k%:R)) * (expR (b * k%:R) * D + N)).
    apply: (@null_le _ _ (fun k => `|expR (b * k%:R) * D + N|) 0%N) => [k _|]; last first.
      exact: null_norm.
    rewrite normrM ler_pimull ?normr_ge0 // ger0_norm ?expR_nneg // -[X in _ <= X]expR0 ler_expR.
    by rewrite oppr_le0 mulr_ge0 ?ler0n // ltW.
  have := nullD small (nullM (- N) (null_exp b0)); apply: null_eq => k.
  by rewrite mulrDr mulrA -expRD addNr expR0 mul1r mulNr [N * _]mulrC addrK.
have N0 : N = 0.
  by apply: null_const; apply: null_eq DN => k; rewrite D0 mulr0 add0r.
have nb : (b == - b) = false.
  by apply/negP => /eqP e; have := b0; rewrite e oppr_gt0 ltNge ltW.
have : N = m^-1 * (\sum_(h | c h == - b) a h) - m * (\sum_(h | c h == b) a h).
  rewrite !mulr_sumr -sumrN big_mkcond [X in _ = _ + X]big_mkcond -big_split.
  apply: eq_bigr => h _ /=; rewrite /next; have [->|_] := eqVneq (c h) b.
    by rewrite nb add0r mulrN mulrC.
  by case: ifP => _; rewrite ?mulr0 addr0 // mulrC.
rewrite N0 => /esym/eqP; rewrite subr_eq0 => /eqP e.
by rewrite expr2 -mulrA -e mulrA divff // mul1r.
Qed.

(* All coefficients but that of slope zero vanish. *)
Lemma slopes_zero H (c a : 'I_H -> R) (C : R) : injective c ->
  (n = 2%N -> forall h h', c h + c h' = 0 -> a h != 0 -> a h' != 0 -> c h = 0) ->
  (forall s, C + \sum_h a h * g (c h * s) = 0) -> forall h, c h != 0 -> a h = 0.
Proof.
move=> ci pairs sum0 h0 ch0; apply/eqP; apply/negPn/negP => ah0.
have P0 : (a h0 != 0) && (c h0 != 0) by rewrite ah0.
have [h1 /andP[ah1 ch1] hmin] :=
  @arg_minP _ _ _ h0 (fun h => (a h != 0) && (c h != 0)) (fun h => `|c h|) P0.
pose b := `|c h1|; have b0 : 0 < b by rewrite normr_gt0.
have ab h : a h != 0 -> c h = 0 \/ b <= `|c h|.
  by have [|ch ah] := eqVneq (c h) 0; [left|right; apply: hmin; rewrite ah].
pose A x := \sum_(h | c h == x) a h.
have e1 : A (- b) = m ^+ 2 * A b.
  by apply: (@coefficient _ c a C b) => // k; exact: sum0.
have e2 : A b = m ^+ 2 * A (- b).
  have := @coefficient _ (fun h => - c h) a C b b0; rewrite /A.
  under eq_bigl do rewrite eqr_opp.
  under [X in _ -> _ -> _ = _ * X]eq_bigl do rewrite eqr_oppLR.
  apply=> [h /ab|k]; first by rewrite normrN => -[->|]; [left; rewrite oppr0|right].
  rewrite -[RHS](sum0 (- k%:R)); congr (_ + _); apply: eq_bigr => h _.
  by rewrite mulrN mulNr.
have Ab : A b = 0.
  apply/eqP; apply/negPn/negP => Ab; have [n2|n2] := eqVneq n 2%N.
    have m1 : m = 1 by rewrite /m n2.
    have some x : A x != 0 -> exists2 h, c h = x & a h != 0.
      move=> Ax; apply: contrapT => /forall2NP no; case/eqP: Ax; apply: big1 => h /eqP ch.
      by have [//|/negP] := no h; rewrite negbK => /eqP.
    have [h ch ah] := some b Ab.
    have [|h' ch' ah'] := some (- b); first by rewrite e1 m1 expr1n mul1r.
    have := pairs n2 h h'; rewrite ch ch' subrr => /(_ erefl ah ah') bz.
    by rewrite bz ltxx in b0.
  have : A b * (1 - m ^+ 4) = 0.
    by rewrite mulrBr mulr1 {1}e2 e1 mulrA -exprD mulrC subrr.
  move=> /eqP; rewrite mulf_eq0 (negPf Ab) subr_eq0 /= eq_sym => /eqP m4.
  have : 1 < m ^+ 4.
    rewrite -[X in X < _](expr1n R 4) ltr_expn2r ?nnegrE ?ler01 ?ler0n //.
    by rewrite ltr1n ltn_subRL addn1 ltn_neqAle eq_sym n2.
  by rewrite m4 ltxx.
have one x : A x = 0 -> c h1 = x -> False.
  move=> Ax cx; case/eqP: ah1; rewrite -[RHS]Ax /A (bigD1 h1) /= ?cx ?eqxx // big1 ?addr0 //.
  by move=> h /andP[/eqP cx' /eqP[]]; apply: ci; rewrite cx cx'.
have [c0|c0] := leP 0 (c h1).
  by apply: (one b Ab); rewrite /b ger0_norm.
by apply: (one (- b)); rewrite ?e1 ?Ab ?mulr0 // /b ltr0_norm // opprK.
Qed.

(* The sum is zero for all s if it is so in an interval. *)
Lemma zero_everywhere H (c a : 'I_H -> R) (l r : R) : l < r ->
  (forall s, l < s < r -> \sum_h a h * g (c h * s) = 0) -> forall s, \sum_h a h * g (c h * s) = 0.
Proof.
move=> lr sum0 s1; apply/eqP; apply/negPn/negP => f1.
have ep h : exp_quotient (fun s => expR (c h * s)).
  apply/exp_quotient_polynomial.
  apply: exp_polynomial_eq (exp_polynomial_exp ((c h)%:P * 'X)) => s.
  by rewrite hornerM hornerC hornerX.
have [|rs rsP] := @exp_quotient_zeros R (fun s => \sum_h a h * g (c h * s)) s1 _ f1.
  apply: exp_quotient_sum => h; apply: exp_quotientM; first exact: exp_quotient_const.
  apply: exp_quotientM; first exact: ep.
  apply: exp_quotientV => [s|]; first by rewrite gt_eqF ?den_gt0.
  by apply: exp_quotientD; [exact: ep|exact: exp_quotient_const].
have [s lsr srs] := interval_avoids rs lr.
by have := rsP s srs; rewrite sum0 // eqxx.
Qed.

End OneToken.

Theorem lemma_17_1 : Lemma17_1.
Proof.
move=> R n H c a l r n1 ci pairs lr /(zero_everywhere n1 lr) sum0 h.
have rest : (forall h', c h' != 0 -> a h' = 0) -> a h = 0.
  move=> away; have [c0|/away //] := eqVneq (c h) 0.
  have := sum0 0; rewrite (bigD1 h) //= big1 => [|h' hh]; last first.
    by rewrite away ?mul0r // -c0 (inj_eq ci).
  move=> /eqP; rewrite addr0 mulr0 mulf_eq0 => /orP[/eqP //|].
  by rewrite gt_eqF // divr_gt0 ?expR_gt0 // den_gt0.
have [n2|n2] := eqVneq n 2%N; last first.
  apply: rest; apply: (@slopes_zero _ _ n1 _ c a 0 ci) => [n2'|s]; last by rewrite add0r.
  by rewrite n2' eqxx in n2.
have [[p [q [pq cpq]]]|opposite] := pselect (exists p q : 'I_H, (p < q)%N /\ c p + c q = 0);
    last first.
  apply: rest; apply: (@slopes_zero _ _ n1 _ c a 0 ci) => [_ p q cpq _ _|s]; last by rewrite add0r.
  have [pq|qp|/val_inj pq] := ltngtP p q.
  - by case: opposite; exists p, q.
  - by case: opposite; exists q, p; rewrite addrC.
  by have /eqP : c p *+ 2 = 0; [rewrite mulr2n {2}pq|rewrite mulrn_eq0 => /eqP].
have only g g' : c g + c g' = 0 -> (g = p /\ g' = q) \/ (g = q /\ g' = p).
  move=> cg; have [gg|gg] := leqP g g'.
    by left; apply: pairs (ltnW pq) _ _ => //.
  by right; have [|] := pairs n2 g' g p q (ltnW gg) (ltnW pq) _ cpq; [rewrite addrC|].
have qp : q != p by rewrite -val_eqE neq_ltn pq orbT.
have c_neq0 h' : c h' != 0.
  apply/eqP => c0; have [|[e1 e2]|[e1 e2]] := only h' h'; first by rewrite c0 addr0.
    by rewrite -e1 -e2 eqxx in qp.
  by rewrite -e1 -e2 eqxx in qp.
have half s : one_token n (c q * s) = 1 - one_token n (c p * s).
  have -> : c q * s = - (c p * s) by apply/eqP; rewrite -addr_eq0 -mulrDl addrC cpq mul0r.
  rewrite /one_token n2 expRN subn1 /=; set x := expR _; have x0 : 0 < x := expR_gt0 _.
  have x1 : x + 1 != 0 by rewrite gt_eqF // addr_gt0 ?ltr01.
  have x2 : x^-1 + 1 != 0 by rewrite gt_eqF // addr_gt0 ?invr_gt0 ?ltr01.
  have -> : 1 - x / (x + 1) = 1 / (x + 1) by rewrite -{1}(divff x1) -mulrBl addrAC subrr add0r.
  apply/eqP; rewrite eqr_div //.
  by rewrite mulrDr mulVf ?lt0r_neq0 // mulr1 mul1r addrC.
pose a' h' := if h' == q then 0 else if h' == p then a p - a q else a h'.
have a'q : a' q = 0 by rewrite /a' eqxx.
have a'p : a' p = a p - a q by rewrite /a' eq_sym (negPf qp) eqxx.
have a'0 h' : a' h' = 0.
  apply: (@slopes_zero _ _ n1 _ c a' (a q) ci) => [_ g g' /only[[-> ->]|[-> ->]]|s|].
  - by move=> _; rewrite /a' eqxx eqxx.
  - by rewrite /a' eqxx eqxx.
  - rewrite -[RHS](sum0 s) [in RHS](bigD1 q) //= [in RHS](bigD1 p) 1?eq_sym //=.
    rewrite (bigD1 q) //= [X in _ + (_ + X)](bigD1 p) 1?eq_sym //=.
    rewrite a'q a'p mul0r add0r half mulrBl mulrBr mulr1 !addrA.
    congr (_ + _); first by rewrite addrAC.
    by apply: eq_bigr => g /andP[gp gq]; rewrite /a' (negPf gp) (negPf gq).
  exact: c_neq0.
have apq : a p = a q.
  by have /eqP := a'0 p; rewrite a'p subr_eq0 => /eqP.
have aq : a q = 0.
  have := sum0 0; rewrite (bigD1 q) //= (bigD1 p) 1?eq_sym //=.
  rewrite big1 => [|g /andP[gp gq]]; last first.
    by have := a'0 g; rewrite /a' (negPf gp) (negPf gq) => ->; rewrite mul0r.
  by rewrite addr0 half apq mulrBr mulr1 subrK.
have := a'0 h; rewrite /a'; case: eqP => [-> _|_] //.
by case: eqP => [-> _|_ //]; rewrite apq.
Qed.
