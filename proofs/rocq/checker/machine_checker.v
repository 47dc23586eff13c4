(* proofs/10-exact-rank.md: Theorem 4, checked with machine integers modulo a p below 2^31. *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra zify ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions theorem_4 list_checker integer_checker
  layer_checker.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Notation int63 := PrimInt63.int.

Section Checker63.

Variable p : int63.

Definition add63 (x y : int63) : int63 :=
  PrimInt63.mod (PrimInt63.add (PrimInt63.mod x p) (PrimInt63.mod y p)) p.
Definition mul63 (x y : int63) : int63 :=
  PrimInt63.mod (PrimInt63.mul (PrimInt63.mod x p) (PrimInt63.mod y p)) p.
Definition of_Z63 (z : Z) : int63 := Uint63.of_Z (Z.modulo z (Uint63.to_Z p)).

Definition small : bool := PrimInt63.ltb 1%uint63 p && PrimInt63.ltb p 2147483648%uint63.

Definition check63 n d T H (a : int63) (tokens : seq (seq (seq Z))) (exponents : seq (seq (seq N)))
    (witness : seq (seq (seq int63))) : bool :=
  let tokens63 := map (map (map of_Z63)) tokens in
  small && check add63 mul63 0%uint63 1%uint63 PrimInt63.eqb n d T H a
    (fun t i j => nth 0%uint63 (nth [::] (nth [::] tokens63 t) i) j) (exponent_of exponents)
    witness.

Definition check_layer63 n d T H a tokens queries keys directions exponents shifts witness :
    bool :=
  logitsZ n d T H tokens queries keys directions exponents shifts &&
  check63 n d T H a tokens exponents witness.

Hypothesis p_small : small.

Let P := Z.to_pos (Uint63.to_Z p).
Let toF (x : int63) : 'F_(Pos.to_nat P) := (int_of_Z (Uint63.to_Z x))%:~R.

Lemma p_bounds : Z.lt (Zpos xH) (to_Z p) /\ Z.lt (to_Z p) (Zpos 2147483648%positive).
Proof. by move/andP: p_small => [/Uint63.ltb_spec p1 /Uint63.ltb_spec p2]; split. Qed.

Lemma PE : Zpos P = to_Z p.
Proof. by case: p_bounds; rewrite /P; case: (to_Z p). Qed.

Lemma P1 : (1 < Pos.to_nat P)%N.
Proof. by have := p_bounds; rewrite -PE; lia. Qed.

Lemma mod63 x : to_Z (PrimInt63.mod x p) = Z.modulo (to_Z x) (Zpos P).
Proof. by rewrite Uint63.mod_spec PE. Qed.

Lemma toF_modZ z : (int_of_Z (Z.modulo z (Zpos P)))%:~R = (int_of_Z z)%:~R :> 'F_(Pos.to_nat P).
Proof. exact: toF_mod P1. Qed.

Lemma bound x :
  Z.le 0 (Z.modulo x (Zpos P)) /\ Z.lt (Z.modulo x (Zpos P)) (Zpos 2147483648%positive).
Proof.
have [p1 p2] := p_bounds; rewrite PE.
have [] : Z.le Z0 (Z.modulo x (to_Z p)) /\ Z.lt (Z.modulo x (to_Z p)) (to_Z p).
  by apply: Z.mod_pos_bound; lia.
by move: (Z.modulo _ _) => m; lia.
Qed.

Lemma wBE : wB = Zpos 9223372036854775808%positive. Proof. by []. Qed.

Lemma toFD63 x y : toF (add63 x y) = toF x + toF y.
Proof.
rewrite /toF mod63 toF_modZ Uint63.add_spec !mod63 wBE Z.mod_small.
  by rewrite toFD !toF_modZ.
have := bound (to_Z x); have := bound (to_Z y).
by move: (Z.modulo _ _) (Z.modulo _ _) => u v; lia.
Qed.

Lemma toFM63 x y : toF (mul63 x y) = toF x * toF y.
Proof.
rewrite /toF mod63 toF_modZ Uint63.mul_spec !mod63 wBE Z.mod_small.
  by rewrite toFM !toF_modZ.
have := bound (to_Z x); have := bound (to_Z y).
by move: (Z.modulo _ _) (Z.modulo _ _) => u v; nia.
Qed.

Lemma of_Z63E z : toF (of_Z63 z) = (int_of_Z z)%:~R.
Proof.
rewrite /toF Uint63.of_Z_spec -PE wBE Z.mod_small ?toF_modZ //.
by have := bound z; move: (Z.modulo _ _) => u; lia.
Qed.

Lemma nth_map_default (A B : Type) (f : A -> B) x s i : nth (f x) (map f s) i = f (nth x s i).
Proof. by elim: s i => [|y s IHs] [|i] //=. Qed.

Lemma of_Z63_0 : of_Z63 Z0 = 0%uint63. Proof. by rewrite /of_Z63 Zmod_0_l. Qed.

Section Sound63.

Variables (R : realType) (n d T H : nat) (a : int63).

Lemma check63_row_free tokens exponents witness : check63 n d T H a tokens exponents witness ->
  row_free (map_mx (evaluate (toF a))
    (cleared (fun t : 'I_T => \matrix_(i < n, j < d) int_of_Z (token_of tokens t i j))
             (fun t (h : 'I_H) i => nat_of_bin (exponent_of exponents t h i)))).
Proof.
move=> /andP[_ ok]; apply/row_freeP.
apply: (@check_right_inverse _ _ _ _ _ _ _ toF toFD63 toFM63
  _ _ _ _ _ _ _ _ _ _ _ _ _ _ witness ok).
- by [].
- by [].
- by move=> x y /Uint63.eqb_spec ->.
- move=> t i j; rewrite mxE -of_Z63E /token_of; congr (toF _).
  rewrite -[0%uint63]of_Z63_0 -[in LHS](erefl : map (map of_Z63) [::] = [::]) nth_map_default.
  by rewrite -[in LHS](erefl : map of_Z63 [::] = [::]) nth_map_default nth_map_default.
- by [].
Qed.

Theorem check_layer63_sound tokens queries keys directions exponents shifts witness
    (sigma tau kappa lambda : R) :
  check_layer63 n d T H a tokens queries keys directions exponents shifts witness ->
  (0 < n)%N -> sigma != 0 ->
  transcendental (expR (sigma * tau * kappa * lambda)) ->
  \rank (intermediate (fun t : 'I_T => sigma *: real_matrix R n d (nth [::] tokens t))
    (tau *: real_matrix R T d queries)
    (fun h : 'I_H => (kappa *: (row h (real_matrix R H d keys))^T) *m
      (lambda *: (row h (real_matrix R H d directions))^T)^T)) = T.
Proof. by move=> /andP[lok /check63_row_free ok]; apply: layer_sound lok ok. Qed.

End Sound63.

End Checker63.
