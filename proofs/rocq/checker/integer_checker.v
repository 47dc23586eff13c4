(* proofs/10-exact-rank.md: Theorem 4, checked with integers modulo p, which need not be prime. *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions theorem_4 list_checker.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section CheckerZ.

Variable p : positive.

Definition addZ (x y : Z) : Z := Z.modulo (Z.add x y) (Zpos p).
Definition mulZ (x y : Z) : Z := Z.modulo (Z.mul x y) (Zpos p).

(* Data in lists, which the checker reads. *)
Definition token_of (tokens : seq (seq (seq Z))) t i j := nth Z0 (nth [::] (nth [::] tokens t) i) j.
Definition exponent_of (exponents : seq (seq (seq N))) t h i :=
  nth N0 (nth [::] (nth [::] exponents t) h) i.

Definition checkZ n d T H (a : Z) (tokens : seq (seq (seq Z))) (exponents : seq (seq (seq N)))
    (witness : seq (seq (seq Z))) : bool :=
  Z.ltb (Zpos xH) (Zpos p) &&
  check addZ mulZ Z0 (Zpos xH) Z.eqb n d T H a (token_of tokens) (exponent_of exponents) witness.

Let q := Pos.to_nat p.
Let toF (z : Z) : 'F_q := (int_of_Z z)%:~R.

Lemma q_eq0 : (1 < q)%N -> (q%:R : 'F_q) = 0.
Proof.
move=> q1; have /dvdnP[m mq] := pdiv_dvd q.
apply: (etrans (congr1 (fun k => k%:R : 'F_q) mq)).
have /char_Zp c : (1 < pdiv q)%N by rewrite prime_gt1 ?pdiv_prime.
by rewrite natrM [X in _ * X](c : (pdiv q)%:R = 0 :> 'F_q) mulr0.
Qed.

Lemma toFD x y : toF (Z.add x y) = toF x + toF y.
Proof. by rewrite /toF -rmorphD; congr (_%:~R); apply: (rmorphD [rmorphism of int_of_Z] x y). Qed.

Lemma toFM x y : toF (Z.mul x y) = toF x * toF y.
Proof. by rewrite /toF -rmorphM; congr (_%:~R); apply: (rmorphM [rmorphism of int_of_Z] x y). Qed.

Lemma toF_mod z : (1 < q)%N -> toF (Z.modulo z (Zpos p)) = toF z.
Proof.
move=> /q_eq0 q0; rewrite [in RHS](Z_div_mod_eq_full z (Zpos p)) toFD toFM.
by rewrite [toF (Zpos p)](q0 : toF (Zpos p) = 0) mul0r add0r.
Qed.

Theorem checkZ_row_free (n d T H : nat) (a : Z) tokens exponents witness :
  checkZ n d T H a tokens exponents witness ->
  row_free (map_mx (evaluate (toF a))
    (cleared (fun t : 'I_T => \matrix_(i < n, j < d) int_of_Z (token_of tokens t i j))
             (fun t (h : 'I_H) i => nat_of_bin (exponent_of exponents t h i)))).
Proof.
move=> /andP[p1 ok]; have q1 : (1 < q)%N by rewrite /q; move: p1; lia.
apply/row_freeP; apply: (check_right_inverse (toF := toF) _ _ _ _ _ _ _ ok).
- by move=> x y; rewrite toF_mod ?toFD.
- by move=> x y; rewrite toF_mod ?toFM.
- by [].
- by [].
- by move=> x y /Z.eqb_eq ->.
- by move=> t i j; rewrite mxE.
- by [].
Qed.

End CheckerZ.
