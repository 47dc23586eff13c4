(* proofs/11-verified-readout.md, for the claim *error*: a program that says yes only if max      *)
(* |f(E_t, e_t) - y_t| <= epsilon for a stored layer on stored data, in real arithmetic.          *)
(* error_checker.v proves that.                                                                   *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import attention_program upper_bound_program error_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Notation integer_rows := (seq (seq Z)).

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

Section Checker.

(* Precision; the power of two of logits; those of targets and epsilon, above that of outputs *)
Variables (P r N : nat) (s target_shift epsilon_shift : Z).
Variables (n d dh dv dout T H : nat) (contexts : arrays) (queries : array).
Variables (query_weights key_weights value_weights output_weights : arrays).
Variables (readout_weights targets : array) (epsilon : dyadic).

Definition check_example (query_columns key_rows effective : seq integer_rows) (t : nat) : bool :=
  let context := Zarray (nth [::] contexts t) in
  let query := map Zdyadic (nth [::] queries t) in
  let columns := Zcolumns d context in
  let all_logits :=
    mkseq (fun h => logits (nth [::] query_columns h) (nth [::] key_rows h) context query) H in
  let rows := mkseq (fun h => head_row P r N s (nth [::] all_logits h) columns) H in
  [&& size context == n, size query == d,
      all (fun h => head_fits P r N s (nth [::] all_logits h)) (iota 0 H) &
      all (fun l => within (layer_output H rows (nth [::] effective l))
          (Z.shiftl (Zdyadic (nth (Plus 0 0) (nth [::] targets t) l)) target_shift)
          (Z.shiftl (Zdyadic epsilon) epsilon_shift)) (iota 0 dout)].

Definition check_error : bool :=
  let query_columns := mkseq (fun h => Zcolumns dh (Zarray (nth [::] query_weights h))) H in
  let key_rows := mkseq (fun h => Zarray (nth [::] key_weights h)) H in
  let readout := Zcolumns dout (Zarray readout_weights) in
  let effective := mkseq (fun l => mkseq (fun h => effective_column
    (Zarray (nth [::] value_weights h)) (Zarray (nth [::] output_weights h)) (nth [::] readout l))
    H) dout in
  [&& precise P r N, Z.leb Z0 target_shift, Z.leb Z0 epsilon_shift, size readout_weights == dv,
      all (fun h => [&& size (nth [::] key_weights h) == d, size (nth [::] value_weights h) == d &
        size (nth [::] output_weights h) == dv]) (iota 0 H) &
      all (check_example query_columns key_rows effective) (iota 0 T)].

End Checker.
