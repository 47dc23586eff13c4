(* proofs/11-verified-readout.md, for the claim *error*: machine_integers.v computes what it says *)
(* it does, for digits below the base.                                                            *)
From Coq Require Import ZArith Uint63 Lia.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import machine_integers.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope Z_scope.
Local Arguments Z.add : simpl never.
Local Arguments Z.mul : simpl never.
Local Arguments Z.sub : simpl never.

Definition proper : natural -> bool := all (fun x => PrimInt63.ltb x 2147483648%uint63).

Lemma digit_ge0 x : 0 <= to_Z x. Proof. by case: (to_Z_bounded x). Qed.
Arguments digit_ge0 : clear implicits.
Lemma zeroE : to_Z zero = 0. Proof. by []. Qed.
Lemma oneE : to_Z 1%uint63 = 1. Proof. by []. Qed.
Lemma twoE : to_Z 2%uint63 = 2. Proof. by []. Qed.
Lemma sixteenE : to_Z 16%uint63 = 16. Proof. by []. Qed.
Lemma baseE : to_Z 2147483648%uint63 = base. Proof. by []. Qed.
Lemma wBE : wB = 9223372036854775808. Proof. by []. Qed.

Lemma properP x u : proper (x :: u) = true <-> to_Z x < base /\ proper u = true.
Proof.
have [h1 h2] := Uint63.ltb_spec x 2147483648%uint63.
by split=> [/andP[/h1]|[/h2 xb pu]] //; apply/andP.
Qed.

Lemma value_ge0 u : 0 <= value u.
Proof. by elim: u => //= x u IHu; have := digit_ge0 x; rewrite /base; lia. Qed.
Arguments value_ge0 : clear implicits.

Lemma lowE x : to_Z (low x) = to_Z x mod base.
Proof. by rewrite land_spec' -(Z.land_ones _ 31). Qed.

Lemma highE x : to_Z (high x) = to_Z x / base.
Proof. by rewrite lsr_spec. Qed.

Lemma low_high x : to_Z (low x) + base * to_Z (high x) = to_Z x.
Proof. by rewrite lowE highE; have := Z.div_mod (to_Z x) base; rewrite /base; lia. Qed.

Lemma low_bounds x : 0 <= to_Z (low x) < base.
Proof. by rewrite lowE; apply: Z.mod_pos_bound. Qed.

Lemma nonzeroE x : nonzero x = Z.ltb 0 (to_Z x).
Proof.
apply/idP/idP => [/Uint63.ltb_spec h|h]; first by apply/Z.ltb_lt.
by apply/Uint63.ltb_spec; move: h => /Z.ltb_lt.
Qed.

Lemma push_exact x u : to_Z x < base -> proper u ->
  proper (push x u) /\ value (push x u) = to_Z x + base * value u.
Proof.
move=> xb pu; case: u pu => [|y u] pu; last by split=> //; apply/properP.
rewrite /push nonzeroE; case: Z.ltb_spec => x0.
  by split; first exact/properP.
by split=> //=; have := digit_ge0 x; lia.
Qed.

Lemma size_push x u : (size (push x u) <= (size u).+1)%N.
Proof. by case: u => //=; case: ifP. Qed.

Lemma head_behead u : value u = to_Z (head zero u) + base * value (behead u).
Proof. by case: u. Qed.

Lemma proper_behead u : proper u -> to_Z (head zero u) < base /\ proper (behead u).
Proof. by case: u => [|x u] // /properP. Qed.

Lemma add_small x y : to_Z x + to_Z y < wB -> to_Z (PrimInt63.add x y) = to_Z x + to_Z y.
Proof.
by move=> b; rewrite add_spec Z.mod_small //; have := digit_ge0 x; have := digit_ge0 y; lia.
Qed.

Lemma sub_small x y : to_Z y <= to_Z x -> to_Z (PrimInt63.sub x y) = to_Z x - to_Z y.
Proof.
move=> b; rewrite sub_spec Z.mod_small //.
by have := digit_ge0 y; have := to_Z_bounded x; lia.
Qed.

Lemma add_digit_exact c u : to_Z c < base -> proper u ->
  proper (add_digit c u) /\ value (add_digit c u) = value u + to_Z c.
Proof.
elim: u c => [|x u IHu] c cb pu.
  by have [p e] := push_exact cb (erefl : proper [::]); split=> //; rewrite e /=; lia.
have [xb pu'] := (properP _ _).1 pu; have x0 := digit_ge0 x; have c0 := digit_ge0 c.
rewrite [add_digit _ _]/= nonzeroE; case: Z.ltb_spec => c1; last by split=> //; lia.
set s := PrimInt63.add _ _.
have sE : to_Z s = to_Z x + to_Z c by apply: add_small; rewrite wBE; rewrite /base in xb cb; lia.
have hb : to_Z (high s) < base.
  by have := low_high s; have := low_bounds s; have := digit_ge0 (high s); rewrite /base in xb cb *;
    lia.
have [p e] := IHu _ hb pu'; split; first by apply/properP; split=> //; case: (low_bounds s).
by rewrite /= e; have := low_high s; lia.
Qed.

(* Products of digits and two more digits fit. *)
Lemma step_bound d x a c : 0 <= d < base -> 0 <= x < base -> 0 <= a < base -> 0 <= c < base ->
  0 <= d * x + a + c < base * base.
Proof. rewrite /base; nia. Qed.

Lemma step_exact d x a c : to_Z d < base -> to_Z x < base -> to_Z a < base -> to_Z c < base ->
  let s := PrimInt63.add (PrimInt63.add (PrimInt63.mul d x) a) c in
  to_Z s = to_Z d * to_Z x + to_Z a + to_Z c /\ to_Z (high s) < base.
Proof.
move=> db xb ab cb; lazy zeta; set s := PrimInt63.add _ c.
have bound := step_bound (conj (digit_ge0 d) db) (conj (digit_ge0 x) xb) (conj (digit_ge0 a) ab)
  (conj (digit_ge0 c) cb).
suff sE : to_Z s = to_Z d * to_Z x + to_Z a + to_Z c.
  by split; rewrite // highE sE; apply: Z.div_lt_upper_bound => //; lia.
have mE : to_Z (PrimInt63.mul d x) = to_Z d * to_Z x.
  rewrite mul_spec Z.mod_small // wBE; move: bound (digit_ge0 a) (digit_ge0 c); rewrite /base.
  by have := digit_ge0 d; have := digit_ge0 x; nia.
have aE : to_Z (PrimInt63.add (PrimInt63.mul d x) a) = to_Z d * to_Z x + to_Z a.
  by rewrite add_small mE // wBE; move: bound (digit_ge0 c); rewrite /base; lia.
by rewrite /s add_small aE // wBE; move: bound; rewrite /base; lia.
Qed.

Lemma multiply_add_digit_exact d c u v : to_Z d < base -> to_Z c < base -> proper u -> proper v ->
  proper (multiply_add_digit d c u v) /\
  value (multiply_add_digit d c u v) = to_Z d * value u + value v + to_Z c.
Proof.
move=> db; elim: u c v => [|x u IHu] c v cb pu pv.
  by have [p e] := add_digit_exact cb pv; split=> //; rewrite e /=; lia.
have [xb pu'] := (properP _ _).1 pu; have [ab pv'] := proper_behead pv.
have -> : multiply_add_digit d c (x :: u) v =
    let s := PrimInt63.add (PrimInt63.add (PrimInt63.mul d x) (head zero v)) c in
    low s :: multiply_add_digit d (high s) u (behead v).
  case: (v) => [|y v'] //=.
  suff -> : PrimInt63.add (PrimInt63.mul d x) zero = PrimInt63.mul d x by [].
  apply: to_Z_inj; rewrite add_small zeroE Z.add_0_r //.
  by case: (to_Z_bounded (PrimInt63.mul d x)).
have [] := step_exact db xb ab cb; lazy zeta; set s := PrimInt63.add _ c => sE hb.
have [p e] := IHu _ _ hb pu' pv'; split; first by apply/properP; split=> //; case: (low_bounds s).
rewrite /= e (head_behead v); have := low_high s; rewrite sE.
move: (to_Z (low s)) (to_Z (high s)) (value u) (value (behead v)) => l h U V; rewrite /base; lia.
Qed.

Lemma multiply_add_exact u v w : proper u -> proper v -> proper w ->
  proper (multiply_add u v w) /\ value (multiply_add u v w) = value u * value v + value w.
Proof.
move=> pu pv pw; rewrite /multiply_add; case vE: v => [|y v']; first by split=> //=; lia.
rewrite -vE; have v0 : v <> [::] by rewrite vE.
rewrite {y v' vE}; elim: u w pu pw => [|d u IHu] w pu pw; first by split=> //=; lia.
have [db pu'] := (properP _ _).1 pu; rewrite [multiply_add_digits _ _ _]/=.
have := @multiply_add_digit_exact d zero v w db (erefl : 0 < base) pv pw.
have : multiply_add_digit d zero v w <> [::] by case: (v) v0 => // x v' _; case: (w).
case: (multiply_add_digit _ _ _ _) => // x s _ [ps sE].
have [xb ps'] := (properP _ _).1 ps; have [p e] := IHu _ pu' ps'.
split; first exact/properP.
by move: sE; rewrite /= e zeroE /base; lia.
Qed.

Lemma multiply_exact u v : proper u -> proper v ->
  proper (multiply u v) /\ value (multiply u v) = value u * value v.
Proof.
by move=> pu pv; have [p e] := multiply_add_exact pu pv (erefl : proper [::]); rewrite e Z.add_0_r.
Qed.

Lemma add_exact u v : proper u -> proper v ->
  proper (add u v) /\ value (add u v) = value u + value v.
Proof.
move=> pu pv.
have [p e] := @multiply_add_digit_exact 1%uint63 zero u v
  (erefl : 1 < base) (erefl : 0 < base) pu pv.
by split; rewrite // /add e oneE zeroE; lia.
Qed.

(* Subtraction *)
Lemma borrow_step x t : 0 <= t <= base -> 0 <= to_Z x < base ->
  forall y, to_Z y = to_Z x + base - t ->
  let b := PrimInt63.sub 1%uint63 (high y) in
  [/\ 0 <= to_Z b <= 1 & to_Z (low y) + t = to_Z x + base * to_Z b].
Proof.
move=> tb xb y yE; have [l0 l1] := low_bounds y; have := low_high y; have h0 := digit_ge0 (high y).
rewrite yE => lh; have h1 : to_Z (high y) <= 1 by rewrite /base in tb xb l0 l1 lh *; lia.
lazy zeta; rewrite sub_small oneE; last by lia.
by split; rewrite /base in lh *; lia.
Qed.

Lemma lend_exact b u : 0 <= to_Z b <= 1 -> proper u ->
  let rest := lend b u in
  [/\ proper rest.1, (size rest.1 <= size u)%N, 0 <= to_Z rest.2 <= 1 &
      value rest.1 + to_Z b = value u + to_Z rest.2 * base ^ Z.of_nat (size u)].
Proof.
elim: u b => [|x u IHu] b bb pu; first by split=> //=; lia.
have [xb pu'] := (properP _ _).1 pu; rewrite [lend _ _]/=; set s := PrimInt63.sub _ b.
have x0 := digit_ge0 x.
have sE : to_Z s = to_Z x + base - to_Z b.
  by rewrite /s sub_small add_small ?wBE; rewrite /base in xb *; rewrite ?baseE /base; lia.
have tb : 0 <= to_Z b <= base by rewrite /base; lia.
have [cb cE] := borrow_step tb (conj x0 xb) sE; have [p sz rb e] := IHu _ cb pu'.
have [p' e'] := push_exact (proj2 (low_bounds s)) p; split=> //.
  by rewrite (leq_trans (size_push _ _)) // ltnS.
rewrite e' Nat2Z.inj_succ Z.pow_succ_r; last by lia.
by move: e cE; rewrite /=; set k := base ^ _; nia.
Qed.

Lemma maxn_behead (u : natural) n : maxn (size u) n.+1 = (maxn (size (behead u)) n).+1.
Proof. by case: u => [|x u]; rewrite /= ?maxnSS ?max0n. Qed.

Lemma borrow_exact b u v : 0 <= to_Z b <= 1 -> proper u -> proper v ->
  let rest := borrow b u v in let k := base ^ Z.of_nat (maxn (size u) (size v)) in
  [/\ proper rest.1, (size rest.1 <= maxn (size u) (size v))%N, 0 <= to_Z rest.2 <= 1 &
      value rest.1 + value v + to_Z b = value u + to_Z rest.2 * k].
Proof.
elim: v b u => [|y v IHv] b u bb pu pv.
  by rewrite /= maxn0 Z.add_0_r; apply: lend_exact.
have [yb pv'] := (properP _ _).1 pv; have [ab pu'] := proper_behead pu.
rewrite [borrow _ _ _]/=; set a := head zero u in ab *; set s := PrimInt63.sub _ _.
have a0 := digit_ge0 a; have y0 := digit_ge0 y.
have tE : to_Z (PrimInt63.add y b) = to_Z y + to_Z b.
  by apply: add_small; rewrite wBE; rewrite /base in yb; lia.
have sE : to_Z s = to_Z a + base - (to_Z y + to_Z b).
  rewrite /s sub_small tE add_small ?wBE; rewrite /base in ab yb *;
    by rewrite ?baseE /base; lia.
have tb : 0 <= to_Z y + to_Z b <= base by rewrite /base in yb *; lia.
have [cb cE] := borrow_step tb (conj a0 ab) sE; have [p sz rb e] := IHv _ _ cb pu' pv'.
have [p' e'] := push_exact (proj2 (low_bounds s)) p.
rewrite [size (y :: v)]/= maxn_behead; split=> //.
  by rewrite (leq_trans (size_push _ _)) // ltnS.
rewrite e' Nat2Z.inj_succ Z.pow_succ_r; last by lia.
rewrite (head_behead u) -/a /=.
by move: e cE; set k := base ^ _; nia.
Qed.

Lemma value_bound u : proper u -> value u < base ^ Z.of_nat (size u).
Proof.
elim: u => [|x u IHu] // /properP[xb pu]; have := IHu pu.
rewrite [size _]/= Nat2Z.inj_succ Z.pow_succ_r; last by lia.
by rewrite /=; set k := base ^ _; rewrite /base in xb *; lia.
Qed.

Lemma borrowed u v : proper u -> proper v ->
  nonzero (borrow zero u v).2 = Z.ltb (value u) (value v) /\
  (value v <= value u -> value (borrow zero u v).1 = value u - value v).
Proof.
move=> pu pv; have [p sz rb] := @borrow_exact zero u v (conj (Z.le_refl 0) Z.le_0_1) pu pv.
rewrite zeroE Z.add_0_r nonzeroE; set k := base ^ _; move: (borrow _ _ _) p sz rb => [r b] /=.
move=> p sz rb e; have r0 := value_ge0 r.
have rk : value r < k.
  apply: Z.lt_le_trans (value_bound p) _; by apply: Z.pow_le_mono_r => //; apply/inj_le/leP.
have [b0|b1] : to_Z b = 0 \/ to_Z b = 1 by lia.
  by rewrite b0 in e *; split; [case: Z.ltb_spec; lia | lia].
by rewrite b1 in e *; split; [case: Z.ltb_spec; lia | lia].
Qed.

Lemma at_mostE u v : proper u -> proper v -> at_most u v = Z.leb (value u) (value v).
Proof.
by move=> pu pv; have [e _] := borrowed pv pu; rewrite /at_most e -Z.leb_antisym.
Qed.

Lemma monus_exact u v : proper u -> proper v ->
  proper (monus u v) /\ value (monus u v) = Z.max 0 (value u - value v).
Proof.
move=> pu pv; have [e1 e2] := borrowed pu pv; rewrite /monus e1.
have [p _ _ _] := @borrow_exact zero u v (conj (Z.le_refl 0) Z.le_0_1) pu pv.
by case: Z.ltb_spec => h; split=> //; rewrite ?e2 //=; lia.
Qed.

(* Powers of the base *)
Lemma lowered_exact k u : proper u ->
  proper (lowered k u) /\ value (lowered k u) = value u / base ^ Z.of_nat k.
Proof.
rewrite /lowered; elim: k u => [|k IHk] u pu; first by rewrite drop0 Z.div_1_r.
case: u pu => [|x u] pu; first by split.
have [xb pu'] := (properP _ _).1 pu; have [p e] := IHk _ pu'; split=> //.
rewrite [drop _ _]/= e Nat2Z.inj_succ Z.pow_succ_r; last by lia.
rewrite -Z.div_div //; last by apply: Z.pow_pos_nonneg => //; lia.
congr (_ / _); apply: Z.div_unique; first by left; have := digit_ge0 x; split; eassumption.
by rewrite /=; lia.
Qed.

Lemma raised_exact k u : proper u ->
  proper (raised k u) /\ value (raised k u) = value u * base ^ Z.of_nat k.
Proof.
move=> pu; rewrite /raised; case uE: u => [|x u']; first by split.
rewrite -uE {x u' uE}; elim: k => [|k [p e]]; first by rewrite /= Z.mul_1_r.
split; first exact/properP.
rewrite [nseq _ _ ++ _]/= [value (_ :: _)]/= e zeroE Nat2Z.inj_succ Z.pow_succ_r; last by lia.
by set b := base ^ _; lia.
Qed.

Lemma of_positive_exact q : proper (of_positive q) /\ value (of_positive q) = Zpos q.
Proof.
elim: q => [q [p e]|q [p e]|] //=.
- have [p' e'] := @multiply_add_digit_exact 2%uint63 1%uint63 _ [::]
    (erefl : 2 < base) (erefl : 1 < base) p (erefl : proper [::]).
  by split; rewrite // e' e oneE twoE [value [::]]/=; lia.
- have [p' e'] := @multiply_add_digit_exact 2%uint63 zero _ [::]
    (erefl : 2 < base) (erefl : 0 < base) p (erefl : proper [::]).
  by split; rewrite // e' e zeroE twoE [value [::]]/=; lia.
Qed.

Lemma of_Z_exact z : proper (of_Z z) /\ value (of_Z z) = Z.max 0 z.
Proof. by case: z => [|q|q] //; have [] := of_positive_exact q. Qed.

(* Integers *)
Definition both_proper (x : integer) : bool := proper x.1 && proper x.2.

Lemma integer_of_Z_exact z :
  both_proper (integer_of_Z z) /\ integer_value (integer_of_Z z) = z.
Proof.
rewrite /both_proper /integer_value; have [p e] := of_Z_exact z; have [p' e'] := of_Z_exact (- z).
by rewrite p p' e e'; split=> //; lia.
Qed.

Lemma minus_exact x : both_proper x ->
  both_proper (minus x) /\ integer_value (minus x) = - integer_value x.
Proof. by rewrite /both_proper andbC => p; split=> //; rewrite /integer_value /=; lia. Qed.

Lemma normal_exact x : both_proper x ->
  [/\ proper (normal x).1, value (normal x).1 = Z.max 0 (integer_value x),
      proper (normal x).2 & value (normal x).2 = Z.max 0 (- integer_value x)].
Proof.
move=> /andP[p1 p2]; have [] := monus_exact p1 p2; have [] := monus_exact p2 p1.
by move=> p e p' e'; split; rewrite //= ?e ?e' /integer_value; lia.
Qed.

Lemma normal_value x : both_proper x ->
  both_proper (normal x) /\ integer_value (normal x) = integer_value x.
Proof.
by move=> /normal_exact[p1 e1 p2 e2]; split; [exact/andP | rewrite {1}/integer_value e1 e2; lia].
Qed.

Lemma size_of_exact x : both_proper x ->
  proper (size_of x) /\ value (size_of x) = Z.abs (integer_value x).
Proof.
move=> /normal_exact[p1 e1 p2 e2]; have [p e] := add_exact p1 p2.
by split; rewrite // /size_of e e1 e2; lia.
Qed.

Lemma difference_exact x y : both_proper x -> both_proper y ->
  [/\ both_proper (difference x y), value (difference x y).1 =
      Z.max 0 (integer_value x - integer_value y) &
      integer_value (difference x y) = integer_value x - integer_value y].
Proof.
move=> /andP[p1 p2] /andP[q1 q2]; have [a1 e1] := add_exact p1 q2; have [a2 e2] := add_exact p2 q1.
have pa : both_proper (add x.1 y.2, add x.2 y.1) by apply/andP.
have eE : integer_value (add x.1 y.2, add x.2 y.1) = integer_value x - integer_value y.
  by rewrite /integer_value /= e1 e2; lia.
have [p e] := normal_value pa; have [_ e' _ _] := normal_exact pa.
by split; rewrite // /difference ?e' ?e eE.
Qed.

Lemma multiply_add_integer_exact x y s : both_proper x -> both_proper y -> both_proper s ->
  both_proper (multiply_add_integer x y s) /\
  integer_value (multiply_add_integer x y s) = integer_value x * integer_value y + integer_value s.
Proof.
move=> /andP[x1 x2] /andP[y1 y2] /andP[s1 s2].
have [p1 e1] := multiply_add_exact x2 y2 s1; have [p2 e2] := multiply_add_exact x2 y1 s2.
have [p3 e3] := multiply_add_exact x1 y1 p1; have [p4 e4] := multiply_add_exact x1 y2 p2.
by split; [exact/andP | rewrite /integer_value /= e3 e4 e1 e2; lia].
Qed.
