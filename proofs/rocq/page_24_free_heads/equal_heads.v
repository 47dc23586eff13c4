(* proofs/24-free-heads.md: Theorem 35 (a), for contexts without a restriction. All heads have    *)
(* one attention matrix, and their readouts add up to zero. For weights of zeros and ones the     *)
(* derivatives are different products of coordinates of a token and the query.                    *)
From mathcomp Require Import all_ssreflect all_algebra zify.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Free_heads Almost_all softmax null_sets
  almost_all_ranks theorem_11 zero_points lone_examples tangent_span derivatives.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma card_below d a : (a <= d)%N -> #|[pred i : 'I_d | (i < a)%N]| = a.
Proof. by move=> ad; rewrite -sum1_card -(big_ord_widen d (fun=> 1%N) ad) sum1_card card_ord. Qed.

Lemma card_from d a : (a <= d)%N -> #|[pred i : 'I_d | (a <= i)%N]| = (d - a)%N.
Proof.
move=> ad; have := cardC [pred i : 'I_d | (i < a)%N]; rewrite card_below // card_ord => e.
rewrite -[X in (X - _)%N]e addKn; apply: eq_card => i; by rewrite !inE -leqNgt.
Qed.

Lemma delta_form (R : realType) d (a e : 'rV[R]_d) i l :
  (a *m delta_mx i l *m e^T) 0 0 = a 0 i * e 0 l.
Proof. by rewrite -(mul_delta_mx (0 : 'I_1)) mulmxA -mulmxA -colE -rowE mxE big_ord1 !mxE. Qed.

Section Weights.

Variables (R : realType) (d K dh : nat).
Hypothesis dhd : (dh <= d)%N.

Let k := minn K d.

(* The query weights are the first dh basis vectors, the key weights the last dh ones. *)
Definition query_block : 'M[R]_(d, dh) := \matrix_(l, a) (l == a :> nat)%:R.
Definition key_block : 'M[R]_(d, dh) := \matrix_(i, a) (i == (d - dh + a)%N :> nat)%:R.

(* Pairs j <= i, where j is less than k and i is from o on *)
Definition pairs (o : nat) : {set 'I_d * 'I_d} :=
  [set x : 'I_d * 'I_d | [&& x.1 < k, x.1 <= x.2 & o <= x.2]%N].

(* Directions: query coordinate l, readout j, token coordinate i; or token coordinate i *)
Definition products : {set 'I_d * ('I_d * 'I_d)} :=
  [set x : 'I_d * ('I_d * 'I_d) | x.2 \in pairs (if (x.1 < dh)%N then 0 else d - dh)%N].
Definition direction : finType := [finType of {x | x \in products} + 'I_d].

Lemma card_pairs o : (o <= d)%N -> #|pairs o| = (k * (d - o) - 'C(k - o, 2))%N.
Proof.
move=> od; have kd : (k <= d)%N := geq_minr _ _.
have -> : #|pairs o| = (\sum_(j < k) ((d - o) - (j - o)))%N.
  rewrite -sum1_card.
  rewrite (eq_bigl (fun x : 'I_d * 'I_d => (x.1 < k)%N && (maxn x.1 o <= x.2)%N)); last first.
    by move=> x; rewrite inE geq_max.
  rewrite -(pair_big_dep (fun j : 'I_d => (j < k)%N) (fun j i : 'I_d => (maxn j o <= i)%N)
    (fun _ _ => 1%N)) /= (big_ord_widen_cond d xpredT (fun j => (d - o) - (j - o))%N kd).
  apply: eq_bigr => j _; rewrite sum1_card.
  have jd := ltn_ord j; rewrite card_from ?geq_max ?(ltnW jd) //.
  by rewrite /maxn; case: ltnP; lia.
have le (j : 'I_k) : (j - o <= d - o)%N.
  by rewrite leq_sub2r // ltnW // (leq_trans (ltn_ord j)).
have <- : (\sum_(j < k) (j - o) = 'C(k - o, 2))%N.
  elim: (k) => [|j IHj]; first by rewrite big_ord0 sub0n.
  rewrite big_ord_recr /= IHj; have [oj|jo] := leqP o j; last first.
    by have [-> ->] : (j.+1 - o = 0 /\ j - o = 0)%N by split; apply/eqP; rewrite subn_eq0 // ltnW.
  by rewrite subSn // binS bin1 addnC.
have <- : (\sum_(j < k) (d - o) = k * (d - o))%N by rewrite sum_nat_const card_ord.
by rewrite sumnB // => j _; exact: le.
Qed.

Lemma card_direction : #|direction| =
  (dh * (k * d - 'C(k, 2)) + (d - dh) * (k * dh - 'C(k + dh - d, 2)) + d)%N.
Proof.
rewrite card_sum card_ord card_sig; congr (_ + _)%N.
have -> : #|[pred x | x \in products]| =
    (\sum_(l < d) #|pairs (if (l < dh)%N then 0 else d - dh)%N|)%N.
  rewrite -sum1_card (eq_bigl (fun x : 'I_d * ('I_d * 'I_d) =>
    x.2 \in pairs (if (x.1 < dh)%N then 0 else d - dh)%N));
    last by move=> x; rewrite !inE.
  rewrite -(pair_big_dep xpredT (fun (l : 'I_d) y =>
    y \in pairs (if (l < dh)%N then 0 else d - dh)%N) (fun _ _ => 1%N)) /=.
  by apply: eq_bigr => l _; rewrite sum1_card.
rewrite (bigID (fun l : 'I_d => (l < dh)%N)) /=; congr (_ + _)%N.
  rewrite (eq_bigr (fun=> #|pairs 0|)) => [|l ->] //.
  by rewrite -(big_ord_widen d (fun=> #|pairs 0|) dhd) sum_nat_const card_ord card_pairs // !subn0.
rewrite (eq_bigr (fun=> #|pairs (d - dh)%N|)) => [|l /negPf->] //.
rewrite sum_nat_cond_const card_pairs ?leq_subr // subKn // subnBA //; congr (_ * _)%N.
rewrite -(card_from dhd); apply: eq_card => l; by rewrite !inE -leqNgt.
Qed.

Let dQ (h : 'I_K.+1) (c : 'I_#|direction|) : 'M[R]_(d, dh) :=
  if enum_val c is inl x then \matrix_(l, a) (((val x).2.1.+1 == h :> nat) &&
    (l == (val x).1) && (dh <= l)%N && ((val x).2.2 == (d - dh + a)%N :> nat))%:R else 0.
Let dK (h : 'I_K.+1) (c : 'I_#|direction|) : 'M[R]_(d, dh) :=
  if enum_val c is inl x then \matrix_(i, a) (((val x).2.1.+1 == h :> nat) &&
    (i == (val x).2.2) && ((val x).1 == a :> nat))%:R else 0.
Let dU (h : 'I_K.+1) (c : 'I_#|direction|) : 'cV[R]_d :=
  if enum_val c is inr i then (h == ord0)%:R *: delta_mx i 0 else 0.

Let u := @basis_readout R d K.
Let step := derivative (fun=> query_block) (fun=> key_block) u dQ dK dU.

Lemma step_matrix h c : key_block *m (dQ h c)^T + dK h c *m query_block^T =
  if enum_val c is inl x then ((val x).2.1.+1 == h :> nat)%:R *: delta_mx (val x).2.2 (val x).1
  else 0.
Proof.
rewrite /dQ /dK; case: (enum_val c) => [[[l [j i]] /= xP]|i]; last first.
  by rewrite trmx0 mulmx0 mul0mx addr0.
have [jh|_] := eqVneq j.+1 (h : nat); last first.
  rewrite scale0r; have zero m1 m2 : (\matrix_(_, _) false%:R) = 0 :> 'M[R]_(m1, m2).
    by apply/matrixP => a b; rewrite !mxE.
  by rewrite !zero trmx0 mulmx0 mul0mx addr0.
rewrite scale1r; move: xP; rewrite inE /= inE /= => /and3P[_ _ iP].
apply/matrixP => a b; rewrite mxE [X in X + _]mxE [X in _ + X]mxE [RHS]mxE.
under eq_bigr do rewrite !mxE; under [X in _ + X]eq_bigr do rewrite !mxE.
have [ldh|ldh] := ltnP l dh.
  rewrite big1 ?add0r => [|c' _]; last first.
    by have [->|_] := eqVneq b l; rewrite ?(leqNgt dh) ?ldh ?mulr0.
  rewrite (bigD1 (Ordinal ldh)) //= big1 ?addr0 => [|c' c'l]; last first.
    have -> : (l == c' :> nat) = false by apply: contraNF c'l => /eqP lc; apply/eqP/val_inj.
    by rewrite andbF mul0r.
  by rewrite eqxx andbT -natrM mulnb -(inj_eq val_inj b).
rewrite [X in _ + X]big1 ?addr0 => [|c' _]; last first.
  have -> : (l == c' :> nat) = false by rewrite gtn_eqF // (leq_trans (ltn_ord c')).
  by rewrite andbF mul0r.
have {}iP : (d - dh <= i)%N by move: iP; rewrite (ltnNge l) ldh.
have idh : (i - (d - dh) < dh)%N by have := ltn_ord i; lia.
rewrite (bigD1 (Ordinal idh)) //= big1 ?addr0 => [|c' c'i]; last first.
  have [ic|_] := eqVneq (i : nat) (d - dh + c')%N; last by rewrite andbF mulr0.
  by case/eqP: c'i; apply: val_inj; rewrite /= ic addKn.
rewrite subnKC // eqxx andbT -natrM mulnb; congr (_%:R); congr nat_of_bool.
by have [->|bl] := eqVneq b l; rewrite ?ldh ?andbT ?(inj_eq val_inj) // andbF.
Qed.

(* What a direction is on an example of one token and zeros *)
Lemma step_lone n (a e : 'rV[R]_d) : (1 < n)%N -> exists p : R, [/\ 0 < p, p < 1 &
  forall c, step (lone n a) e c 0 0 = match enum_val c with
    | inl x => (p - p ^+ 2) * (a 0 (val x).2.1 * a 0 (val x).2.2 * e 0 (val x).1)
    | inr i => p * a 0 i
    end].
Proof.
case: n => [|[|n]] // _; pose x := lone n.+2 a *m (key_block *m query_block^T) *m e^T.
pose p := softmax x 0 0.
have pos i : 0 < softmax x i 0 by rewrite mxE divr_gt0 ?expR_gt0 ?expsum_gt0.
exists p; split=> [||c]; first exact: pos.
  rewrite -(softmax_sum x isT) big_ord_recl ltr_addl big_ord_recl ltr_spaddl ?pos //.
  by apply: sumr_ge0 => i _; exact: ltW.
have -> : step (lone n.+2 a) e c 0 0 = \sum_h ((p - p ^+ 2) *
    ((a *m (key_block *m (dQ h c)^T + dK h c *m query_block^T) *m e^T) 0 0 * (a *m u h) 0 0) +
    p * (a *m dU h c) 0 0).
  rewrite /step /derivative summxE; apply: eq_bigr => h _; rewrite mxE; congr (_ + _).
    rewrite /head_step covariance_lone -/x -/p; set N := _ + _.
    rewrite -!scalemxAl linearZ /= -scalemxAl mxE; congr (_ * _).
    rewrite -!mulmxA trmx_mul trmxK -mulmxA [LHS]mxE big_ord1 [X in X * _]mxE.
    by rewrite !mulmxA.
  have -> : head (lone n.+2 a) (key_block *m query_block^T) e = p *: a.
    rewrite /head -/x loneE mulmxA.
    have -> : (softmax x)^T *m delta_mx 0 0 = p%:M.
      by apply/matrixP => i j; rewrite !ord1 -colE [LHS]mxE [LHS]mxE [RHS]mxE eqxx mulr1n.
    by rewrite mul_scalar_mx.
  by rewrite -scalemxAl mxE.
under eq_bigr do rewrite step_matrix /dU; case: (enum_val c) => [[[l [j i]] /= xP]|i]; last first.
  rewrite (bigD1 ord0) //= big1 => [|h /negPf->]; last first.
    by rewrite mulmx0 mul0mx scale0r mulmx0 !mxE mul0r !mulr0 addr0.
  rewrite mulmx0 mul0mx scale1r -colE [(0 : 'M_(_, _)) 0 0]mxE mul0r mulr0 add0r addr0.
  by rewrite mxE.
have jK : (j < K)%N by move: xP; rewrite inE inE leq_min => /and3P[/andP[]].
rewrite (bigD1 (lift ord0 (Ordinal jK))) //= big1 => [|h hj]; last first.
  have -> : (j.+1 == h :> nat) = false.
    by apply: contraNF hj => /eqP jh; apply/eqP/val_inj; rewrite /= /bump add1n.
  by rewrite scale0r !mulmx0 mul0mx !mxE mul0r !mulr0 addr0.
rewrite /bump add1n eqxx scale1r !mulmx0 [(0 : 'M_(_, _)) 0 0]mxE mulr0 !addr0; congr (_ * _).
have -> : (a *m u (lift ord0 (Ordinal jK))) 0 0 = a 0 j.
  rewrite mxE (bigD1 j) //= big1 ?addr0 => [|i' i'j]; rewrite mxE /= /bump add1n eqSS.
    by rewrite eqxx mulr1.
  by rewrite (inj_eq val_inj) (negPf i'j) mulr0.
by rewrite delta_form mulrC mulrA.
Qed.

Lemma functional_zero n (b : 'cV[R]_#|direction|) : (1 < n)%N ->
  (forall a e, ((\row_c step (lone n a) e c 0 0) *m b) 0 0 = 0) -> b = 0.
Proof.
move=> n1 b0; pose B x := b (enum_rank (inl x : direction)) 0.
have sum0 (a e : 'rV[R]_d) : exists p : R, [/\ 0 < p, p < 1 & ((p - p ^+ 2) *
    (\sum_(x : {x | x \in products}) a 0 (val x).2.1 * a 0 (val x).2.2 * e 0 (val x).1 * B x) +
    p * (\sum_i a 0 i * b (enum_rank (inr i : direction)) 0))%R = 0].
  have [p [p0 p1 stepE]] := step_lone a e n1; exists p; split=> //.
  rewrite -[RHS](b0 a e) mxE !mulr_sumr.
  rewrite (reindex (@enum_rank direction)) /=; last first.
    by exists (@enum_val direction direction) => c _; rewrite ?enum_rankK ?enum_valK.
  rewrite big_sumType; congr (_ + _); apply: eq_bigr => x _; rewrite mxE stepE enum_rankK.
    by rewrite mulrA.
  by rewrite mulrA.
have tokens (a : 'rV[R]_d) : \sum_i a 0 i * b (enum_rank (inr i : direction)) 0 = 0.
  have [p [p0 _]] := sum0 a 0; rewrite [X in _ * X]big1 => [|x _]; last by rewrite mxE mulr0 mul0r.
  by rewrite mulr0 add0r => /eqP; rewrite mulf_eq0 gt_eqF //= => /eqP.
have forms (a e : 'rV[R]_d) :
    \sum_(x : {x | x \in products}) a 0 (val x).2.1 * a 0 (val x).2.2 * e 0 (val x).1 * B x = 0.
  have [p [p0 p1]] := sum0 a e; rewrite tokens mulr0 addr0 => /eqP.
  rewrite mulf_eq0 => /orP[|/eqP //].
  rewrite expr2 -[X in X - _]mulr1 -mulrBr mulf_eq0 gt_eqF //= subr_eq0 eq_sym lt_eqF //.
have Bz x : B x = 0.
  case: x => [[l [j i]] xP]; set x0 := exist _ _ _.
  pose S : 'M[R]_d := \sum_(x : {x | x \in products})
    ((val x).1 == l)%:R * B x *: delta_mx (val x).2.1 (val x).2.2.
  have Sij i' j' : S i' j' = \sum_(x : {x | x \in products})
      (val x == (l, (i', j')))%:R * B x.
    rewrite summxE; apply: eq_bigr => -[[l1 [i1 j1]] x1] _; rewrite !mxE /= !xpair_eqE.
    by rewrite mulrAC -natrM mulnb [i' == _]eq_sym [j' == _]eq_sym.
  have Sx : S j i = B x0.
    rewrite Sij (bigD1 x0) //= eqxx mul1r big1 ?addr0 // => x /negPf xx.
    by rewrite (_ : (val x == _) = (x == x0)) ?xx ?mul0r //; rewrite -(inj_eq val_inj).
  have /quadratic_zero/(_ j i) : forall a : 'rV[R]_d, (a *m S *m a^T) 0 0 = 0.
    move=> a; rewrite -[RHS](forms a (delta_mx 0 l)) mulmx_sumr mulmx_suml summxE.
    apply: eq_bigr => x _; rewrite -scalemxAr -scalemxAl mxE.
    have -> : (delta_mx 0 l : 'rV[R]_d) 0 (val x).1 = ((val x).1 == l)%:R by rewrite mxE eqxx.
    by rewrite delta_form mulrC mulrA.
  have ji : (j <= i)%N by move: (xP); rewrite inE inE => /and3P[].
  rewrite Sx; move: ji; rewrite leq_eqVlt => /predU1P[/val_inj ji|ji].
    have -> : S i j = B x0 by rewrite -Sx ji.
    by move/eqP; rewrite -mulr2n mulrn_eq0 => /eqP.
  rewrite (_ : S i j = 0) ?addr0 // Sij big1 // => x _.
  case: eqP => [xE|_]; last by rewrite mul0r.
  by have := valP x; rewrite xE inE inE => /and3P[_ /=]; rewrite leqNgt ji.
apply/colP => c; rewrite [RHS]mxE -[c]enum_valK; case: (enum_val c) => [x|i]; first exact: Bz.
have := tokens (delta_mx 0 i); rewrite (bigD1 i) //= big1 ?addr0 => [|i' /negPf i'i].
  by rewrite mxE !eqxx mul1r.
by rewrite mxE eqxx i'i mul0r.
Qed.

Lemma equal_heads_numbers n T dv : (1 < n)%N -> (0 < dv)%N -> (T <= #|direction|)%N ->
  almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
    let E t := \matrix_(i, j) x (inl (t, (i, j))) in
    let Q := \matrix_(t, j) x (inr (t, j)) in
    forall Y : 'M[R]_(T, 1), exists L : layer R d K.+1 dh dv 1, memorizes L E Q Y).
Proof.
move=> n1 dv0 TN; pose I := [finType of 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d].
have := @almost_all_derivatives R d K.+1 dh 1 _ (fun=> query_block) (fun=> key_block) u dQ dK dU
  I T (fun=> n) (fun t x => \matrix_(i, j) x (inl (t, (i, j))))
  (fun x => \matrix_(t, j) x (inr (t, j)))
  _ _ (T * 1).
move=> almost; apply: almost_all_imply (almost _ _ _) => [x rx E Q Y|t||];
    try exact: of_numbers_matrix.
  apply: (@derivatives_memorize R d K.+1 dh 1 _ (fun=> query_block) (fun=> key_block) u dQ dK dU T
    dv (fun=> n) E Q Y dv0).
    by move=> t; rewrite -mulmx_sumr basis_readout_sum mulmx0.
  by rewrite /row_full eqn_leq rank_leq_col.
have [E [Q /eqP free]] := @independent_examples R d _
  (fun k (E : 'M[R]_(k, d)) e => \row_c step E e c 0 0) functional_zero T (fun=> n) TN (fun=> n1).
exists (fun c => match c with inl (t, (i, j)) => E t i j | inr (t, j) => Q t j end).
have EE : (fun t => \matrix_(i, j) E t i j) = E.
  by apply: funext => t; apply/matrixP => i j; rewrite mxE.
have QQ : \matrix_(t, j) Q t j = Q by apply/matrixP => t j; rewrite mxE.
by rewrite /= EE QQ derivatives_one_output [X in (_ <= X)%N]free muln1.
Qed.

End Weights.

Theorem equal_heads : Equal_heads.
Proof.
move=> R n d T [//|K] dh dv n1 _ dhd dv0; rewrite subn1 /= => TN.
by apply: equal_heads_numbers => //; rewrite card_direction.
Qed.

Theorem equal_heads_usual : Equal_heads_usual.
Proof.
move=> R n d T [//|K] dh dv n1 _ Kd dv0 TN.
have dhd : (dh <= d)%N by lia.
apply: equal_heads => //; rewrite subn1 /=.
have -> : minn K d = K by apply/minn_idPl; lia.
have -> : (K + dh - d = 0)%N by lia.
rewrite subn0 -(leq_pmul2l (ltn0Sn 1)); apply: leq_trans TN _; apply: eq_leq.
have := mul_bin_diag K 1; rewrite bin1 => c2.
have [e dE] : exists e, d = (dh + K + e)%N by exists (d - dh - K)%N; lia.
have {Kd dhd} -> : (4 * d - 2 * dh + 2 - K.+1 = 2 * dh + 3 * K + 4 * e + 1)%N by lia.
have -> : (d - dh = K + e)%N by lia.
have cK : ('C(K, 2) <= K * d)%N by move: c2; move: ('C(K, 2)) => c; nia.
have [x xE] : exists x, (x + 'C(K, 2) = K * d)%N by exists (K * d - 'C(K, 2))%N; rewrite subnK.
rewrite -xE addnK subn1 /=.
have x2 : (2 * x + K * K = 2 * (K * d) + K)%N.
  by move: c2 xE; move: ('C(K, 2)) => c; case: (K) => [|k]; nia.
have := congr1 (muln dh) x2; move: x2 => _; rewrite dE; nia.
Qed.
