(* proofs/11-verified-readout.md, for the claim *error*: a program on binary integers for one     *)
(* head. Weights are enclosed by exp_program.v, and their averages of columns of integers by one  *)
(* integer and a radius.                                                                          *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import upper_bound_program exp_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope Z_scope.

Definition Zsum : seq Z -> Z := foldr Z.add 0.
Definition largest (logits : seq Z) : Z := foldr Z.max (head 0 logits) logits.

(* The average of a column with weights between lows and lows + gaps, times a common factor *)
Definition average (lows gaps column : seq Z) : Z * Z :=
  let total := Zsum lows in
  let center := Z.div (Zdot lows column) total in
  let rest := map (fun x => x - center) column in
  (center, Z.div (Z.abs (Zdot lows rest) + Zdot gaps (map Z.abs rest)) total + 1).

Section Head.

(* Precision: see exp_program.v. Logits are integers times 2^s. *)
Variables (P r N : nat) (s : Z).

Definition weights (logits : seq Z) : seq (Z * Z) :=
  let top := largest logits in
  let cs := coefficients P N in
  map (fun k => enclose P r cs s (k - top)) logits.

Definition precise : bool := [&& (4 <= P)%N, (4 <= r)%N & terms_suffice P N].

(* The row of a head, and the radius of each entry, from its logits and the columns of a context *)
Definition head_row (logits : seq Z) (columns : seq (seq Z)) : seq (Z * Z) :=
  let ws := weights logits in
  let lows := map fst ws in
  let gaps := map (fun w => w.2 - w.1) ws in
  map (average lows gaps) columns.

Definition head_fits (logits : seq Z) : bool := Z.ltb 0 (Zsum (map fst (weights logits))).

End Head.

(* One output of the layer: a row and one column of the effective readout for each of H heads *)
Definition head_output (row : seq (Z * Z)) (column : seq Z) : Z * Z :=
  (Zdot (map fst row) column, Zdot (map snd row) (map Z.abs column)).

Definition layer_output (H : nat) (rows : seq (seq (Z * Z))) (columns : seq (seq Z)) : Z * Z :=
  let outputs := mkseq (fun h => head_output (nth [::] rows h) (nth [::] columns h)) H in
  (Zsum (map fst outputs), Zsum (map snd outputs)).

Definition within (bounds : Z * Z) (target epsilon : Z) : bool :=
  Z.leb (Z.abs (bounds.1 - target) + bounds.2) epsilon.
