(* proofs/20-instances.md: Proposition 20.2. A softmax head on a box is at most c if some weights *)
(* show it, and any weights that do are a proof; the same for a network of heads, on slabs that   *)
(* cover the box.                                                                                 *)
From mathcomp Require Import all_ssreflect all_algebra ring.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax mean_value.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Head.

Variable R : realType.

(* A head of n tokens with logits A x + b and values v, and what it computes at x *)
Record softmax_head n d :=
  Softmax_head { slopes : 'M[R]_(n, d); offsets : 'cV[R]_n; values : 'cV[R]_n }.

Definition head_value n d (f : softmax_head n d) (x : 'cV[R]_d) : R :=
  \sum_i softmax (slopes f *m x + offsets f) i 0 * values f i 0.

Definition in_box d (low high x : 'cV[R]_d) : Prop := forall j, low j 0 <= x j 0 <= high j 0.
Definition in_slab d (g : 'rV[R]_d) (a b : R) (x : 'cV[R]_d) : Prop := a <= (g *m x) 0 0 <= b.

(* The largest value of a x + b on a box *)
Definition box_max d (low high : 'cV[R]_d) (a : 'rV[R]_d) (b : R) : R :=
  b + \sum_j Num.max (a 0 j * low j 0) (a 0 j * high j 0).

(* Weights lambda of tokens below c, which add up to one, and tilts mu of tokens above it: with  *)
(* them, head f is at most c where x is in the box and in the slab a <= g x <= b. If no token is *)
(* above c, nothing is needed.                                                                   *)
Definition shows_bound n d (f : softmax_head n d) (low high : 'cV[R]_d) (g : 'rV[R]_d) (a b c : R)
    (lambda mu : 'I_n -> R) : Prop :=
  (forall i, values f i 0 <= c) \/
  let mean_slopes := \sum_j lambda j *: row j (slopes f) in
  let mean_offset := \sum_j lambda j * (offsets f j 0 + ln ((c - values f j 0) / lambda j)) in
  [/\ forall j, 0 <= lambda j, forall j, 0 < lambda j -> values f j 0 < c, \sum_j lambda j = 1
    & \sum_(i | c < values f i 0) (values f i 0 - c) *
        expR (box_max low high (row i (slopes f) - mean_slopes - mu i *: g)
                (offsets f i 0 - mean_offset) + Num.max (mu i * a) (mu i * b)) <= 1].

End Head.

(* Any weights that show a bound prove it. *)
Definition Any_weights : Prop :=
  forall (R : realType) (n d : nat) (f : softmax_head R n d) (low high : 'cV[R]_d)
      (g : 'rV[R]_d) (a b c : R) (lambda mu : 'I_n -> R),
    (0 < n)%N -> shows_bound f low high g a b c lambda mu ->
  forall x, in_box low high x -> in_slab g a b x -> head_value f x <= c.

(* A network of heads, on slabs that cover the box: on slab k head h is at most c k h. *)
Definition Any_weights_slabs : Prop :=
  forall (R : realType) (n d H K : nat) (f : 'I_H -> softmax_head R n d) (low high : 'cV[R]_d)
      (g : 'rV[R]_d) (a b : 'I_K -> R) (c : 'I_K -> 'I_H -> R)
      (lambda mu : 'I_K -> 'I_H -> 'I_n -> R) (top : R),
    (0 < n)%N ->
    (forall x, in_box low high x -> exists k, in_slab g (a k) (b k) x) ->
    (forall k h, shows_bound (f h) low high g (a k) (b k) (c k h) (lambda k h) (mu k h)) ->
    (forall k, \sum_h c k h <= top) ->
  forall x, in_box low high x -> \sum_h head_value (f h) x <= top.

Section Proof.

Variable R : realType.

(* Weighted arithmetic and geometric means *)
Lemma exp_of_mean n (lambda y : 'I_n -> R) : (forall j, 0 <= lambda j) -> \sum_j lambda j = 1 ->
  expR (\sum_j lambda j * y j) <= \sum_j lambda j * expR (y j).
Proof.
move=> l0 l1; set t := \sum_j lambda j * y j.
have {1}-> : expR t = \sum_j lambda j * (expR t * (1 + (y j - t))).
  transitivity (expR t * \sum_j (lambda j + (lambda j * y j - lambda j * t))).
    by rewrite big_split /= sumrB -mulr_suml l1 -[\sum_(i < n) _]/t mul1r subrr addr0 mulr1.
  rewrite mulr_sumr; apply: eq_bigr => j _.
  by rewrite mulrCA; congr (_ * _); rewrite mulrDr mulr1 mulrBr.
apply: ler_sum => j _; apply: ler_wpmul2l => //.
have -> : expR (y j) = expR t * expR (y j - t) by rewrite -expRD addrC subrK.
by rewrite ler_wpmul2l ?exp_ge // ltW ?expR_gt0.
Qed.

Lemma box_max_ge d (low high x : 'cV[R]_d) (a : 'rV[R]_d) (b : R) : in_box low high x ->
  (a *m x) 0 0 + b <= box_max low high a b.
Proof.
move=> xb; rewrite addrC ler_add2l mxE; apply: ler_sum => j _; rewrite le_maxr.
have /andP[lx xh] := xb j.
have [a0|/ltW a0] := leP 0 (a 0 j); first by rewrite (ler_wpmul2l a0 xh) orbT.
by rewrite (ler_wnmul2l a0 lx).
Qed.

Lemma slab_max_ge d (g : 'rV[R]_d) (a b mu : R) x : in_slab g a b x ->
  mu * (g *m x) 0 0 <= Num.max (mu * a) (mu * b).
Proof.
move=> /andP[ax xb]; rewrite le_maxr.
have [m0|/ltW m0] := leP 0 mu; first by rewrite (ler_wpmul2l m0 xb) orbT.
by rewrite (ler_wnmul2l m0 ax).
Qed.

(* A head is at most c if what is above c weighs no more than what is below. *)
Lemma head_value_le n d (f : softmax_head R n d) x c : (0 < n)%N ->
  \sum_(i | c < values f i 0) (values f i 0 - c) * expR ((slopes f *m x + offsets f) i 0) <=
  \sum_(i | values f i 0 < c) (c - values f i 0) * expR ((slopes f *m x + offsets f) i 0) ->
  head_value f x <= c.
Proof.
move=> n0 le; set l := slopes f *m x + offsets f in le *.
have s0 := expsum_gt0 l n0; rewrite -subr_le0.
have -> : head_value f x - c =
    (\sum_i (values f i 0 - c) * expR (l i 0)) / \sum_j expR (l j 0).
  rewrite mulr_suml -[X in _ - X]mul1r -(softmax_sum l n0) mulr_suml -sumrB.
  by apply: eq_bigr => i _; rewrite -mulrBr mxE mulrC mulrA.
rewrite pmulr_lle0 ?invr_gt0 // (bigID (fun i => c < values f i 0)) /= -ler_subr_addr sub0r -sumrN.
apply: le_trans le _; rewrite [X in _ <= X](bigID (fun i => values f i 0 < c)) /=.
rewrite [X in _ <= _ + X]big1 ?addr0 => [|i /andP[]]; last first.
  rewrite -!leNgt => a b; have /eqP -> : values f i 0 == c by rewrite eq_le a b.
  by rewrite subrr mul0r oppr0.
rewrite [X in _ <= X](eq_bigl (fun i => values f i 0 < c)) => [|i]; last first.
  by rewrite -leNgt; case: ltP; rewrite ?andbF ?andbT // => /ltW ->.
by rewrite le_eqVlt; apply/orP; left; apply/eqP/eq_bigr => i _; rewrite -mulNr opprB.
Qed.

End Proof.

Theorem any_weights : Any_weights.
Proof.
move=> R n d f low high g a b c lambda mu n0 shown x xb xs; apply: head_value_le => //.
set l := slopes f *m x + offsets f.
have pos i : c < values f i 0 -> 0 <= values f i 0 - c by move=> /ltW; rewrite subr_ge0.
have below0 : 0 <= \sum_(i | values f i 0 < c) (c - values f i 0) * expR (l i 0).
  by apply: sumr_ge0 => i vc; rewrite mulr_ge0 ?subr_ge0 ?(ltW vc) ?(ltW (expR_gt0 _)).
case: shown => [none|[l0 lc l1 bound]].
  by rewrite big1 // => i; rewrite ltNge none.
set ms := \sum_j lambda j *: row j (slopes f) in bound.
set mo := \sum_j lambda j * (offsets f j 0 + _) in bound.
pose m := (ms *m x) 0 0 + mo.
have lE i : l i 0 = (row i (slopes f) *m x) 0 0 + offsets f i 0.
  by rewrite -row_mul /l !mxE.
have mE : m = \sum_j lambda j * (l j 0 + ln ((c - values f j 0) / lambda j)).
  rewrite /m /mo mulmx_suml summxE -big_split; apply: eq_bigr => j _ /=.
  by rewrite lE -scalemxAl mxE -mulrDr addrA.
(* What is below c weighs exp(m) at least. *)
have low_ge : expR m <= \sum_(i | values f i 0 < c) (c - values f i 0) * expR (l i 0).
  rewrite mE; apply: le_trans (exp_of_mean _ l0 l1) _.
  rewrite [X in _ <= X]big_mkcond; apply: ler_sum => j _.
  have [lj|] := ltP 0 (lambda j); last first.
    rewrite le_eqVlt ltNge l0 orbF => /eqP->; rewrite mul0r; case: ifP => // vc.
    by rewrite mulr_ge0 ?subr_ge0 ?(ltW vc) ?(ltW (expR_gt0 _)).
  have vc := lc _ lj; rewrite vc expRD lnK; last by rewrite posrE divr_gt0 ?subr_gt0.
  by rewrite mulrC -mulrA divfK ?gt_eqF // mulrC.
(* What is above weighs exp(m) at most. *)
apply: le_trans low_ge; rewrite -[X in _ <= X]mulr1.
apply: le_trans (ler_wpmul2l (ltW (expR_gt0 m)) bound).
rewrite mulr_sumr; apply: ler_sum => i vc; rewrite mulrCA ler_wpmul2l ?pos // -expRD ler_expR.
rewrite -ler_subl_addl.
apply: le_trans (ler_add (box_max_ge _ _ xb) (slab_max_ge (mu i) xs)).
have same (u v w o p q : R) : u + o - (v + p) = u - v - q * w + (o - p) + q * w by ring.
rewrite !mulmxBl -scalemxAl lE /m.
move: (row i (slopes f) *m x) (ms *m x) (g *m x) => u v w; rewrite !mxE.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; exact: same.
Qed.

Theorem any_weights_slabs : Any_weights_slabs.
Proof.
move=> R n d H K f low high g a b c lambda mu top n0 cover shown sum x xb.
have [k xs] := cover x xb; apply: le_trans (sum k); apply: ler_sum => h _.
exact: any_weights n0 (shown k h) _ xb xs.
Qed.
