(* proofs/10-exact-rank.md: attention_program.v computes modulo a number, as rings see it. *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra zify ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions readout theorem_4 list_checker.
From Memorization Require Import attention_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition nat63 (x : int63) : nat := Z.to_nat (to_Z x).

(* The integer that a float is, times the power of two of its array *)
Definition int_of_dyadic (x : dyadic) : int :=
  match x with Plus k s => (nat63 k)%:Z * 2 ^+ nat63 s | Minus k s => - ((nat63 k)%:Z * 2 ^+ nat63
    s) end.

Definition zero_dyadic := Plus 0%uint63 0%uint63.

Definition int_matrix m n (rows : seq (seq dyadic)) : 'M[int]_(m, n) :=
  \matrix_(i, j) int_of_dyadic (nth zero_dyadic (nth [::] rows i) j).

Lemma nat63_lt x : (Z.of_nat (nat63 x) = to_Z x)%Z.
Proof. by rewrite /nat63 Z2Nat.id //; case: (to_Z_bounded x). Qed.

Lemma wBE : wB = Zpos 9223372036854775808%positive. Proof. by []. Qed.

Definition residue (F : ringType) (x : int63) : F := (nat63 x)%:R.

Section Modulus.

Variables (m : int63) (F : comRingType).
Let P := nat63 m.
Hypothesis P0 : P%:R = 0 :> F.
Hypothesis m1 : PrimInt63.ltb 1%uint63 m.
Hypothesis m31 : PrimInt63.ltb m 2147483648%uint63.

Notation toF := (@residue F).

Lemma m_bounds : Z.lt (Zpos xH) (to_Z m) /\ Z.lt (to_Z m) (Zpos 2147483648%positive).
Proof. by move: m1 m31 => /Uint63.ltb_spec h1 /Uint63.ltb_spec h2; split. Qed.

Lemma P_gt1 : (1 < P)%N.
Proof. by have := m_bounds; have := nat63_lt m; rewrite -/P; move: P (to_Z m) => Q z; lia. Qed.

Lemma P_small : Z.lt (Z.of_nat P) (Zpos 2147483648%positive).
Proof. by have := m_bounds; have := nat63_lt m; rewrite -/P; move: P (to_Z m) => Q z; lia. Qed.

Lemma nat63_mod x : nat63 (PrimInt63.mod x m) = (nat63 x %% P)%N.
Proof.
have := nat63_lt (PrimInt63.mod x m); rewrite Uint63.mod_spec -!nat63_lt -/P.
move: (nat63 _) (nat63 x) P_gt1 => u v; move: P => Q Q1 uE.
have Q0 : Z.of_nat Q <> Z0 by lia.
have := Z.div_mod (Z.of_nat v) (Z.of_nat Q) Q0; have := Z.mod_pos_bound (Z.of_nat v) (Z.of_nat Q);
  rewrite -uE => ub vE.
have q0 : Z.le Z0 (Z.div (Z.of_nat v) (Z.of_nat Q)) by apply: Z.div_pos; lia.
have [q qE] : exists q, Z.div (Z.of_nat v) (Z.of_nat Q) = Z.of_nat q by exists (Z.to_nat (Z.div
  (Z.of_nat v) (Z.of_nat Q))); rewrite Z2Nat.id.
have -> : v = (q * Q + u)%N by move: vE; rewrite qE; nia.
by rewrite modnMDl modn_small //; lia.
Qed.

Lemma nat63_add x y : Z.lt (Z.add (Z.of_nat (nat63 x)) (Z.of_nat (nat63 y))) wB ->
  nat63 (PrimInt63.add x y) = (nat63 x + nat63 y)%N.
Proof.
move=> b; have := nat63_lt (PrimInt63.add x y); rewrite Uint63.add_spec -!nat63_lt Z.mod_small.
  by move: (nat63 (PrimInt63.add x y)) (nat63 x) (nat63 y) => u v w; lia.
by split=> //; move: (nat63 x) (nat63 y) => u v; nia.
Qed.

Lemma nat63_mul x y : Z.lt (Z.mul (Z.of_nat (nat63 x)) (Z.of_nat (nat63 y))) wB ->
  nat63 (PrimInt63.mul x y) = (nat63 x * nat63 y)%N.
Proof.
move=> b; have := nat63_lt (PrimInt63.mul x y); rewrite Uint63.mul_spec -!nat63_lt Z.mod_small.
  by move: (nat63 (PrimInt63.mul x y)) (nat63 x) (nat63 y) => u v w; lia.
by split=> //; move: (nat63 x) (nat63 y) => u v; nia.
Qed.

Lemma reducedE x : reduced m x = (nat63 x < P)%N.
Proof.
apply/idP/idP => [/Uint63.ltb_spec|] h.
  by move: h; rewrite -!nat63_lt -/P; move: (nat63 x) P => u Q; lia.
by apply/Uint63.ltb_spec; rewrite -!nat63_lt -/P; move: (nat63 x) P h => u Q; lia.
Qed.

Lemma reduced_mod x : reduced m (PrimInt63.mod x m).
Proof. by rewrite reducedE nat63_mod ltn_mod (ltn_trans _ P_gt1). Qed.

Lemma reduced0 : reduced m 0%uint63.
Proof. by rewrite reducedE (_ : nat63 0%uint63 = 0%N) // (ltn_trans _ P_gt1). Qed.

Lemma toF_mod x : toF (PrimInt63.mod x m) = toF x.
Proof. by rewrite /residue nat63_mod [in RHS](divn_eq (nat63 x) P) natrD natrM P0 mulr0 add0r. Qed.

Lemma reduced_lt x : reduced m x -> Z.lt (Z.of_nat (nat63 x)) (Zpos 2147483648%positive).
Proof. by rewrite reducedE => h; have := P_small; move: (nat63 x) P h => u Q; lia. Qed.

Lemma toF_muladd s x y : reduced m s -> reduced m x -> reduced m y ->
  toF (PrimInt63.mod (PrimInt63.add s (PrimInt63.mul x y)) m) = toF s + toF x * toF y.
Proof.
move=> /reduced_lt hs /reduced_lt hx /reduced_lt hy.
have xy : nat63 (PrimInt63.mul x y) = (nat63 x * nat63 y)%N.
  by apply: nat63_mul; rewrite wBE; move: (nat63 x) (nat63 y) hx hy => u v; nia.
rewrite toF_mod /residue nat63_add xy ?natrD ?natrM // wBE.
by move: (nat63 s) (nat63 x) (nat63 y) hs hx hy => u v w; nia.
Qed.

Lemma toF_addm x y : reduced m x -> reduced m y -> toF (addm m x y) = toF x + toF y.
Proof.
move=> /reduced_lt hx /reduced_lt hy; rewrite toF_mod /residue nat63_add ?natrD // wBE.
by move: (nat63 x) (nat63 y) hx hy => u v; lia.
Qed.

Lemma toF_mulm x y : reduced m x -> reduced m y -> toF (mulm m x y) = toF x * toF y.
Proof.
move=> /reduced_lt hx /reduced_lt hy; rewrite toF_mod /residue nat63_mul ?natrM // wBE.
by move: (nat63 x) (nat63 y) hx hy => u v; nia.
Qed.

Lemma toF_oppm x : reduced m x -> toF (oppm m x) = - toF x.
Proof.
rewrite reducedE toF_mod => xP; apply/eqP; rewrite -subr_eq0 opprK -natrD.
have := nat63_lt (PrimInt63.sub m x); rewrite Uint63.sub_spec wBE -!nat63_lt -/P.
rewrite Z.mod_small; last by have := P_small; move: (nat63 x) P xP => u Q; lia.
move=> e; rewrite (_ : (_ + _)%N = P) ?P0 //.
by move: (nat63 x) (nat63 (PrimInt63.sub m x)) P xP e => u v Q; lia.
Qed.

Lemma reduced_mulm x y : reduced m (mulm m x y). Proof. exact: reduced_mod. Qed.

Lemma reduced_dotm s u v : reduced m s -> reduced m (dotm m s u v).
Proof. by elim: u s v => [|x u IHu] s [|y v] //= hs; apply: IHu; exact: reduced_mod. Qed.

Lemma toF0 : toF 0%uint63 = 0. Proof. by []. Qed.

Lemma toF_dotm N s u v : reduced m s -> all (reduced m) u -> all (reduced m) v ->
  (size u <= N)%N || (size v <= N)%N ->
  toF (dotm m s u v) = toF s + \sum_(i < N) toF (nth 0%uint63 u i) * toF (nth 0%uint63 v i).
Proof.
elim: u N s v => [|x u IHu] N s v hs.
  by move=> _ _ _; rewrite big1 ?addr0 // => i _; rewrite nth_nil toF0 mul0r.
case: v => [|y v]; first by move=> _ _ _; rewrite big1 ?addr0 // => i _; rewrite [nth _ [::]
  _]nth_nil toF0 mulr0.
case: N => [|N] //= /andP[hx hu] /andP[hy hv] hN.
by rewrite (IHu N) ?reduced_mod // big_ord_recl toF_muladd // addrA.
Qed.

Lemma nat63_lsr x : nat63 (PrimInt63.lsr x 1%uint63) = (nat63 x %/ 2)%N.
Proof.
have := nat63_lt (PrimInt63.lsr x 1%uint63); rewrite Uint63.lsr_spec -(nat63_lt x).
rewrite (_ : Z.pow 2 (to_Z 1%uint63) = Zpos 2%positive) //.
move: (nat63 (PrimInt63.lsr x 1%uint63)) (nat63 x) => u v uE.
have := Z.div_mod (Z.of_nat v) (Zpos 2) (fun e => ltac:(discriminate e)); have := Z.mod_pos_bound
  (Z.of_nat v) (Zpos 2) (erefl _).
by rewrite -uE; lia.
Qed.

Lemma nat63_even x : PrimInt63.eqb (PrimInt63.land x 1%uint63) 0%uint63 = ~~ odd (nat63 x).
Proof.
have := Uint63.is_even_spec x; rewrite /is_even /is_zero -(nat63_lt x) -[in X in X ->
  _](odd_double_half (nat63 x)).
move: (odd _) ((nat63 x)./2) => o u; rewrite -mul2n.
have -> : Z.modulo (Z.of_nat (o + 2 * u)) (Zpos 2) = Z.of_nat (nat_of_bool o).
  by rewrite (_ : Z.of_nat (o + 2 * u) = Z.add (Z.of_nat o) (Z.mul (Z.of_nat u) (Zpos 2)));
    [rewrite Z_mod_plus_full; case: o|lia].
by case: PrimInt63.eqb; case: o.
Qed.

Lemma reduced_powm_rec fuel x e : reduced m (powm_rec m fuel x e).
Proof.
elim: fuel x e => [|f IHf] x e /=; first exact: reduced_mod.
by case: ifP => _; [exact: reduced_mod|case: ifP => _; [exact: IHf|exact: reduced_mod]].
Qed.

Lemma toF_one : toF (PrimInt63.mod 1%uint63 m) = 1. Proof. by rewrite toF_mod. Qed.

Lemma toF_powm_rec fuel x e : reduced m x -> Z.lt (Z.of_nat (nat63 e)) (Z.pow 2 (Z.of_nat fuel)) ->
  toF (powm_rec m fuel x e) = toF x ^+ nat63 e.
Proof.
elim: fuel x e => [|f IHf] x e hx.
  by case: (nat63 e) => [|k] he; [exact: toF_one|exfalso; move: he; rewrite /=; lia].
rewrite Nat2Z.inj_succ Z.pow_succ_r; last exact: Nat2Z.is_nonneg.
move=> he /=; case: ifP => [/Uint63.eqb_spec ->|_]; first by rewrite toF_one.
have he2 : Z.lt (Z.of_nat (nat63 (PrimInt63.lsr e 1%uint63))) (Z.pow 2 (Z.of_nat f)).
  by rewrite nat63_lsr; move: (Z.pow 2 _) (nat63 e) he => w u; lia.
have pE : toF (powm_rec m f (mulm m x x) (PrimInt63.lsr e 1%uint63)) = toF x ^+ (2 * (nat63 e)./2).
  by rewrite IHf ?reduced_mulm // toF_mulm // nat63_lsr divn2 exprM expr2.
rewrite nat63_even -[in RHS](odd_double_half (nat63 e)) -mul2n; case: odd => /=.
  by rewrite toF_mulm ?reduced_powm_rec // pE exprD expr1.
by rewrite pE.
Qed.

Lemma toF_powm x e : reduced m x -> toF (powm m x e) = toF x ^+ nat63 e.
Proof.
move=> hx; apply: toF_powm_rec => //; rewrite nat63_lt.
by case: (to_Z_bounded e).
Qed.

Lemma reduced_powm x e : reduced m (powm m x e). Proof. exact: reduced_powm_rec. Qed.

Lemma reduced_dyadicm x : reduced m (dyadicm m x). Proof. by case: x => k s; exact: reduced_mod.
  Qed.

Lemma toF_dyadicm x : toF (dyadicm m x) = (int_of_dyadic x)%:~R.
Proof.
have pos k s : toF (mulm m (PrimInt63.mod k m) (powm m (PrimInt63.mod 2%uint63 m) s)) = ((nat63
  k)%:Z * 2 ^+ nat63 s)%:~R.
  by rewrite toF_mulm ?reduced_mod ?reduced_powm // toF_powm ?reduced_mod // !toF_mod intrM rmorphX.
case: x => k s /=; first exact: pos.
by rewrite mulrNz -pos toF_oppm ?reduced_mulm.
Qed.

(* Arrays of integers, as the program sees them *)
Lemma nth_arraym rows i j : toF (nth 0%uint63 (nth [::] (arraym m rows) i) j) =
  (int_of_dyadic (nth zero_dyadic (nth [::] rows i) j))%:~R.
Proof.
rewrite /arraym; have [ir|ir] := ltnP i (size rows); last first.
  by rewrite !(nth_default [::]) ?size_map // !nth_nil.
rewrite (nth_map [::]) //; move: (nth _ rows i) => row.
have [jr|jr] := ltnP j (size row); first by rewrite (nth_map zero_dyadic) // toF_dyadicm.
by rewrite !nth_default ?size_map.
Qed.

Lemma reduced_arraym rows i : all (reduced m) (nth [::] (arraym m rows) i).
Proof.
have [ir|ir] := ltnP i (size rows); last by rewrite nth_default ?size_map.
rewrite (nth_map [::]) // all_map; apply/(all_nthP zero_dyadic) => j _; exact: reduced_dyadicm.
Qed.

Lemma reduced_nth u i : all (reduced m) u -> reduced m (nth 0%uint63 u i).
Proof.
move=> /(all_nthP 0%uint63) h; have [iu|iu] := ltnP i (size u); first exact: h.
by rewrite nth_default // reduced0.
Qed.

Lemma toF_sum w : all (reduced m) w -> toF (sum63 m w) = \sum_(x <- w) toF x /\ reduced m (sum63 m
  w).
Proof.
elim: w => [|x w IHw] /=; first by rewrite big_nil reduced0.
by move=> /andP[hx /IHw [e r]]; rewrite big_cons toF_addm // e reduced_mod.
Qed.

Lemma toF_product w : all (reduced m) w -> toF (product63 m w) = \prod_(x <- w) toF x /\ reduced m
  (product63 m w).
Proof.
elim: w => [|x w IHw] /=; first by rewrite big_nil toF_one reduced_mod.
by move=> /andP[hx /IHw [e r]]; rewrite big_cons toF_mulm // e reduced_mod.
Qed.

Lemma nth_dyadics row j : toF (nth 0%uint63 (map (dyadicm m) row) j) = (int_of_dyadic (nth
  zero_dyadic row j))%:~R.
Proof. exact: (nth_arraym [:: row] 0 j). Qed.

Lemma reduced_dyadics row : all (reduced m) (map (dyadicm m) row).
Proof. exact: (reduced_arraym [:: row] 0). Qed.

Lemma nth_column rows i j : nth 0%uint63 (map (fun row : seq int63 => nth 0%uint63 row j) rows) i =
  nth 0%uint63 (nth [::] rows i) j.
Proof.
have [ir|ir] := ltnP i (size rows); first by rewrite (nth_map [::]).
by rewrite nth_default ?size_map // [nth [::] rows i]nth_default // nth_nil.
Qed.

Lemma reduced_column rows j : all (reduced m) (map (fun row : seq int63 => nth 0%uint63 row j)
  (arraym m rows)).
Proof.
by rewrite all_map; apply/(all_nthP [::]) => i _; apply: reduced_nth; exact: reduced_arraym.
Qed.

(* Columns which are not chosen have zeros in a right inverse. *)
Fixpoint spread (b : bitseq) (w : seq int63) : seq int63 :=
  match b, w with
  | [::], _ => [::]
  | true :: b', y :: w' => y :: spread b' w'
  | _ :: b', _ => 0%uint63 :: spread b' w
  end.

Lemma nth_spread_nil b j : nth 0%uint63 (spread b [::]) j = 0%uint63.
Proof. by elim: b j => [|[] b IHb] [|j] //=. Qed.

Lemma toF_dotm_mask N s b row w : reduced m s -> all (reduced m) row -> all (reduced m) w -> (size
  row <= N)%N ->
  toF (dotm m s (mask b row) w) = toF s + \sum_(j < N) toF (nth 0%uint63 row j) * toF (nth 0%uint63
    (spread b w) j).
Proof.
have zero M (x y : nat -> int63) : (forall i, x i = 0%uint63 \/ y i = 0%uint63) -> \sum_(i < M) toF
  (x i) * toF (y i) = 0.
  by move=> xy; rewrite big1 // => i _; case: (xy i) => ->; rewrite toF0 ?mul0r ?mulr0.
elim: row b w N s => [|x row IHr] b w N s hs.
  by move=> _ _ _; rewrite mask0 zero ?addr0 // => i; left; rewrite nth_nil.
case: b => [|c b]; first by move=> _ _ _; rewrite zero ?addr0 // => i; right; rewrite nth_nil.
case: w => [|y w].
  move=> _ _ _; rewrite zero ?addr0 => [|i]; last by right; exact: nth_spread_nil.
  by case: mask.
case: N => [|N] //= /andP[hx hr] /andP[hy hw] hN; rewrite big_ord_recl.
case: c => /=; last by rewrite (IHr b (y :: w) N) ?toF0 ?mulr0 ?add0r //= hy.
by rewrite (IHr b w N) ?reduced_mod // toF_muladd // addrA.
Qed.

Lemma toF_dotm2 H N s marks rows w : reduced m s -> all (all (reduced m)) rows -> all (all (reduced
  m)) w ->
  (size rows <= H)%N -> all (fun row : seq int63 => size row <= N)%N rows ->
  toF (dotm2 m s (chosen marks rows) w) =
  toF s + \sum_(h < H) \sum_(j < N) toF (nth 0%uint63 (nth [::] rows h) j) *
    toF (nth 0%uint63 (spread (nth [::] marks h) (nth [::] w h)) j).
Proof.
elim: rows marks w H s => [|x rows IHr] marks w H s hs.
  move=> _ _ _ _; rewrite (_ : chosen marks [::] = [::]); last by case: marks.
  by rewrite big1 ?addr0 // => h _; rewrite big1 // => i _; rewrite nth_nil /= nth_nil toF0 mul0r.
case: marks => [|b marks].
  move=> _ _ _ _; rewrite /= big1 ?addr0 // => h _; rewrite big1 // => i _.
  by rewrite [nth [::] [::] _]nth_nil /= nth_nil toF0 mulr0.
case: w => [|y w].
  move=> _ _ _ _; rewrite /= big1 ?addr0 // => h _; rewrite big1 // => i _.
  by rewrite [nth [::] [::] _]nth_nil nth_spread_nil toF0 mulr0.
case: H => [|H] //= /andP[hx hr] /andP[hy hw] hH /andP[hN hNs]; rewrite big_ord_recl /=.
have r1 : reduced m (dotm m s (mask b x) y) by apply: reduced_dotm.
by rewrite (IHr marks w H) // (toF_dotm_mask (N := N)) // addrA.
Qed.

End Modulus.
