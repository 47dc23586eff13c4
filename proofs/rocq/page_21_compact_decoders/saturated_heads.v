(* proofs/21-compact-decoders.md: Proposition 21.2 (a) and (b). Tokens are signs, heads are       *)
(* integers. (a) Each head has a winner in each window, whose logit leads by 128 or more. (b) In  *)
(* real arithmetic the head gives the winner's token, but for 2 (w - 1) exp(-128).                *)
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition is_sign (x : int) : bool := (x == 1) || (x == -1).
Definition digit_sign (r j : nat) : int := if odd (j %/ 2 ^ r) then 1 else -1.

(* Position i sees the w last positions, itself among them. *)
Definition sees (w i j : nat) : bool := (j <= i < j + w)%N.

Definition dot_product d (u v : 'rV[int]_d) : int := \sum_c u 0 c * v 0 c.

(* The token at position j is x j. The e lowest binary digits of j are among its entries, those   *)
(* at the places given. There, the key vector has +-1, +-2, +-4, ...; all its other entries are   *)
(* multiples of 2^(e+1). The window is w = 2^e.                                                   *)
Definition Leads : Prop :=
  forall (d e : nat) (x : nat -> 'rV[int]_d) (place : 'I_e -> 'I_d) (q k : 'rV[int]_d),
    odd d -> (forall j c, is_sign (x j 0 c)) -> (forall c, is_sign (q 0 c)) ->
    injective place -> (forall r j, x j 0 (place r) = digit_sign r j) ->
    (forall r, exists2 s, is_sign s & k 0 (place r) = s * 2 ^+ r) ->
    (forall c, c \notin codom place -> dvdz (2 ^+ e.+1) (k 0 c)) ->
  let logit i j := 64 * dot_product q (x i) * dot_product k (x j) in
  forall i, exists2 j, sees (2 ^ e) i j &
    forall j', sees (2 ^ e) i j' -> j' != j -> logit i j' + 128 <= logit i j.

(* A head of any weights on a context of n tokens, whose entries are at most 1 in size *)
Definition Saturated : Prop :=
  forall (R : realType) (n d : nat) (E : 'M[R]_(n, d)) (W : 'M[R]_d) (q : 'rV[R]_d) (lead : R)
      (j : 'I_n),
    (forall i c, `|E i c| <= 1) ->
    (forall i, i != j -> (E *m W *m q^T) i 0 + lead <= (E *m W *m q^T) j 0) ->
  forall c, `|head E W q 0 c - E j c| <= 2 * (n - 1)%:R * expR (- lead).

Lemma sign_odd x : is_sign x -> exists y, x = 2 * y + 1.
Proof. by case/orP => /eqP ->; [exists 0|exists (-1)]. Qed.

Lemma signs_odd d (u v : 'rV[int]_d) : (forall c, is_sign (u 0 c)) -> (forall c, is_sign (v 0 c)) ->
  odd d -> dot_product u v != 0.
Proof.
move=> us vs od; suff [y e] : exists y, dot_product u v = 2 * y + d%:R.
  by rewrite e natz; lia.
have s c : exists y, u 0 c * v 0 c = 2 * y + 1.
  have [y ->] := sign_odd (us c); have [z ->] := sign_odd (vs c).
  by exists (2 * y * z + y + z); ring.
have [y yE] := fin_all_exists s; exists (\sum_c y c).
by rewrite /dot_product (eq_bigr _ (fun c _ => yE c)) big_split -mulr_sumr sumr_const card_ord.
Qed.

(* Digits -1, 0, 1 in the base 2 *)
Lemma digits_zero e (f : nat -> int) : (forall r, (r < e)%N -> `|f r| <= 1) ->
  dvdz (2 ^+ e) (\sum_(r < e) 2 ^+ r * f r) -> forall r, (r < e)%N -> f r = 0.
Proof.
elim: e f => // e IHe f small /dvdzP[z]; rewrite big_ord_recl expr0 mul1r /=.
rewrite (eq_bigr (fun r : 'I_e => 2 * (2 ^+ r * f r.+1))) => [|r _]; last first.
  by rewrite /bump /= exprS mulrA.
rewrite -mulr_sumr exprS => zE.
have f0 : f 0%N = 0 by have := small _ (ltn0Sn e); move: zE; lia.
case=> // r; rewrite ltnS => re; apply: (IHe (fun r => f r.+1)) re => [s se|]; first exact: small.
by apply/dvdzP; exists z; move: zE; rewrite f0 add0r mulrCA => /mulfI; apply.
Qed.

Lemma same_digits e j j' : (forall r, (r < e)%N -> odd (j %/ 2 ^ r) = odd (j' %/ 2 ^ r)) ->
  (j %% 2 ^ e = j' %% 2 ^ e)%N.
Proof.
elim: e j j' => [|e IHe] j j' same; first by rewrite !modn1.
have h : (j./2 %% 2 ^ e = j'./2 %% 2 ^ e)%N.
  by apply: IHe => r re; rewrite -!divn2 -!divnMA -!expnS; apply: same.
have := same 0%N isT; rewrite !divn1 => o.
rewrite -[j]odd_double_half -[j' in RHS]odd_double_half -o -!muln2 expnSr.
rewrite -(modnDmr _ (j./2 * 2)) -(modnDmr _ (j'./2 * 2)).
by rewrite -!muln_modl // h.
Qed.

Theorem leads : Leads.
Proof.
move=> d e x place q k od xs qs pi xp kp km logit i; set w := (2 ^ e)%N.
set b := fun j => dot_product k (x j); set a := dot_product q (x i).
have a0 : a != 0 by exact: signs_odd.
have w0 : (0 < w)%N by rewrite expn_gt0.
(* Different positions of the window have b that differ by 2 or more. *)
have even j j' : dvdz 2 (b j - b j').
  have c2 c : exists z, k 0 c * x j 0 c - k 0 c * x j' 0 c = z * 2.
    have [y ->] := sign_odd (xs j c); have [z ->] := sign_odd (xs j' c).
    by exists (k 0 c * (y - z)); ring.
  have [z zE] := fin_all_exists c2; apply/dvdzP; exists (\sum_c z c).
  by rewrite /b /dot_product -sumrB mulr_suml; apply: eq_bigr => c _; rewrite zE.
have differ j j' : sees w i j -> sees w i j' -> j' != j -> b j' != b j.
  move=> sj sj'; apply: contraNneq => bb.
  suff jj : (j %% w = j' %% w)%N.
    move: sj sj'; rewrite /sees => /andP[ji ij] /andP[ji' ij'].
    rewrite (divn_eq j w) (divn_eq j' w) jj in ji ij ji' ij' *.
    have : (j %/ w = j' %/ w)%N by have := ltn_pmod j' w0; nia.
    by move=> ->.
  apply: same_digits => r re.
  have s_of r' : exists s, is_sign s && (k 0 (place r') == s * 2 ^+ r').
    by have [s ss ks] := kp r'; exists s; rewrite ss ks eqxx.
  have [s sE] := fin_all_exists s_of.
  pose bit n : int := (odd (j %/ 2 ^ n) : nat); pose bit' n : int := (odd (j' %/ 2 ^ n) : nat).
  pose f n : int := if insub n is Some r' then s r' * (bit n - bit' n) else 0.
  have fE (r' : 'I_e) : f r' = s r' * (bit r' - bit' r') by rewrite /f valK.
  have small n : (n < e)%N -> `|f n| <= 1.
    move=> ne; rewrite -[n]/(val (Ordinal ne)) fE /bit /bit'.
    by have /andP[/orP[]/eqP-> _] := sE (Ordinal ne); do 2!case: odd.
  have power : dvdz (2 ^+ e) (\sum_(n < e) 2 ^+ n * f n).
    have rest c : exists z, c \notin codom place ->
        k 0 c * x j 0 c - k 0 c * x j' 0 c = z * 2 ^+ e.+1.
      have [cp|cp] := boolP (c \in codom place); first by exists 0.
      have /dvdzP[z ->] := km c cp; exists (z * (x j 0 c - x j' 0 c)) => _; ring.
    have [z zE] := fin_all_exists rest.
    have := congr1 (fun y => b j - y) bb; rewrite subrr /b /dot_product -sumrB.
    rewrite (bigID (fun c => c \in codom place)) /= [X in _ + X](eq_bigr _ zE) -mulr_suml.
    have -> : \sum_(c in codom place) (k 0 c * x j 0 c - k 0 c * x j' 0 c) =
        2 * \sum_(n < e) 2 ^+ n * f n.
      rewrite (eq_bigl (mem [set place r' | r' in setT])) => [|c]; last first.
        apply/codomP/imsetP => [[r' ->]|[r' _ ->]]; by [exists r'|exists r'; rewrite ?inE].
      rewrite big_imset => [|r1 r2 _ _]; last exact: pi.
      rewrite mulr_sumr; apply: eq_big => r'; rewrite ?inE // => _.
      rewrite fE !xp /digit_sign /bit /bit'; have /andP[_ /eqP->] := sE r'.
      by do 2!case: odd; rewrite /=; ring.
    rewrite exprS mulrCA => h; apply/dvdzP; exists (- \sum_(c | c \notin codom place) z c).
    by move: h; rewrite -mulrDr => /eqP; rewrite mulf_eq0 /= addr_eq0 => /eqP->; rewrite mulNr.
  have := digits_zero small power re; rewrite -[r]/(val (Ordinal re)) fE /bit /bit'.
  by have /andP[/orP[]/eqP-> _] := sE (Ordinal re); do 2!case: odd.
have sees_i : sees w i i by rewrite /sees leqnn; lia.
pose best := [arg max_(j > (ord_max : 'I_i.+1) | sees w i j) (logit i j)]%O.
exists best; rewrite /best; case: Order.TotalTheory.arg_maxP => //= j sj top j' sj' jj'.
have ji' : (j' < i.+1)%N by move: sj'; rewrite /sees ltnS => /andP[].
have := top (Ordinal ji') sj'; rewrite /logit /= -/a.
have /dvdzP[z] := even j j'; have := differ _ _ sj sj' jj'; rewrite -/(b j) -/(b j'); move: a0.
move: (b j) (b j') a => y y' a a0; nia.
Qed.

Theorem saturated : Saturated.
Proof.
move=> R n d E W q lead j small top c.
set l := E *m W *m q^T in top *.
have n0 : (0 < n)%N by case: n j {E W q small l top c} => // -[].
have s0 := expsum_gt0 l n0; have one := softmax_sum l n0.
have weight i : i != j -> 0 <= softmax l i 0 <= expR (- lead).
  move=> ij; rewrite mxE divr_ge0 ?(ltW (expR_gt0 _)) ?(ltW s0) //= ler_pdivr_mulr //.
  apply: le_trans (_ : expR (- lead) * expR (l j 0) <= _).
    by rewrite -expRD ler_expR addrC ler_subr_addr top.
  rewrite ler_wpmul2l ?(ltW (expR_gt0 _)) // (bigD1 j) //= ler_addl.
  by apply: sumr_ge0 => k _; exact: ltW (expR_gt0 _).
have -> : head E W q 0 c - E j c = \sum_(i | i != j) softmax l i 0 * (E i c - E j c).
  have term i : (softmax l)^T 0 i * E i c - softmax l i 0 * E j c =
      softmax l i 0 * (E i c - E j c) by rewrite [_^T _ _]mxE mulrBr.
  rewrite /head mxE -/l -[X in _ - X]mul1r -one mulr_suml -sumrB (eq_bigr _ (fun i _ => term i)).
  by rewrite (bigD1 j) //= subrr mulr0 add0r.
apply: le_trans (ler_norm_sum _ _ _) _.
have -> : 2 * (n - 1)%:R * expR (- lead) = \sum_(i < n | i != j) expR (- lead) * 2 :> R.
  rewrite sumr_const (_ : #|_| = (n - 1)%N); first by rewrite -mulr_natr; ring.
  by rewrite subn1 -[n in RHS]card_ord -(cardC1 j); apply: eq_card => i; rewrite !inE.
apply: ler_sum => i ij; have /andP[p0 p1] := weight i ij.
rewrite normrM (ger0_norm p0) ler_pmul //.
by apply: le_trans (ler_norm_sub _ _) _; rewrite -[2]/(1 + 1) ler_add.
Qed.
