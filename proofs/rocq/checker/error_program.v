(* proofs/11-verified-readout.md, for the claim *error*: what error_machine.v computes on machine *)
(* words, as integers. Weights of a head are enclosed by exp_program.v. An average of integers by *)
(* such weights is enclosed by any integer and a radius.                                          *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import attention_program upper_bound_program exp_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Notation integer_rows := (seq (seq Z)).

Local Open Scope Z_scope.

Definition Zarray (rows : array) : integer_rows := map (map Zdyadic) rows.
Definition Zcolumns (n : nat) (rows : integer_rows) : integer_rows :=
  mkseq (fun j => map (fun row => nth Z0 row j) rows) n.

(* Logits of one head without their power of two, exactly: W_Q has columns, W_K and the context  *)
(* have rows.                                                                                    *)
Definition logits (query_columns key_rows context : integer_rows) (query : seq Z) : seq Z :=
  let v := map (Zdot query) query_columns in
  let u := map (Zdot v) key_rows in
  map (Zdot u) context.

(* A column of W_V W_O W_D, for one head and a column of W_D *)
Definition effective_column (values outputs : integer_rows) (column : seq Z) : seq Z :=
  map (Zdot (map (Zdot column) outputs)) values.

Definition Zsum : seq Z -> Z := foldr Z.add 0.
Definition largest (logits : seq Z) : Z := foldr Z.max (head 0 logits) logits.

Section Head.

(* Precision: see exp_program.v. Logits are integers times 2^s. *)
Variables (P r N : nat) (s : Z).

Definition weights (logits : seq Z) : seq (Z * Z) :=
  let top := largest logits in
  let cs := coefficients P N in
  map (fun k => enclose P r cs s (top - k)) logits.

Definition precise : bool := [&& (4 <= P)%N, (4 <= r)%N & terms_suffice P N].

End Head.

(* The sum of lower bounds of weights, and by how much weights can exceed it *)
Definition total (ws : seq (Z * Z)) : Z := Zsum (map fst ws).
Definition slack (ws : seq (Z * Z)) : Z := Z.max 0 (Zsum (map snd ws) - total ws).

(* How far an average of a column with these weights is from center: the column is an integer     *)
(* times a unit, and its entries are most at most. Quotients by the total are products with its   *)
(* reciprocal, an integer times 2^-S.                                                             *)
Definition reciprocal (S : nat) (t : Z) : Z := Z.div (2 ^ Z.of_nat S) t.

Definition radius (S : nat) (unit most : Z) (ws : seq (Z * Z)) (column : seq Z) (center : Z) : Z :=
  let t := total ws in
  let off := Z.abs (center * - t + unit * Zdot (map fst ws) column) +
    slack ws * (unit * most + Z.abs center) in
  Z.shiftr (off * (reciprocal S t + 1)) (Z.of_nat S) + 1.

(* One output of the layer: a row and one column of the effective readout for each of H heads *)
Definition head_output (row : seq (Z * Z)) (column : seq Z) : Z * Z :=
  (Zdot (map fst row) column, Zdot (map snd row) (map Z.abs column)).

Definition layer_output (outputs : seq (Z * Z)) : Z * Z :=
  (Zsum (map fst outputs), Zsum (map snd outputs)).

Definition within (bounds : Z * Z) (target epsilon : Z) : bool :=
  Z.leb (Z.abs (bounds.1 - target) + bounds.2) epsilon.
