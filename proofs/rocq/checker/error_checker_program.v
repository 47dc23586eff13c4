(* proofs/11-verified-readout.md, for the claim *error*: a program that says yes only if max      *)
(* |f(E_t, e_t) - y_t| <= epsilon for a stored layer on stored data, in real arithmetic.          *)
(* error_checker.v proves that.                                                                   *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import attention_program upper_bound_program exp_program error_program.
From Memorization Require Import machine_integers error_machine.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Checker.

(* Precision: exp_program.v has p digits and N + 1 terms, halves arguments r times, and averages  *)
(* have places digits more than contexts. Then the power of two of logits; those of targets and   *)
(* epsilon, above that of outputs.                                                                *)
Variables (p r N places : nat) (s target_shift epsilon_shift : Z).
Variables (n d dh dv dout T H : nat) (contexts : arrays) (queries : array).
Variables (query_weights key_weights value_weights output_weights : arrays).
Variables (readout_weights targets : array) (epsilon : dyadic).

Definition check_example (query_columns key_rows effective : seq machine_rows) (t : nat) : bool :=
  let context := machine_array (nth [::] contexts t) in
  let query := machine_row (nth [::] queries t) in
  let columns := columns_of d context in
  let most := most_of context in
  let digits := (p + places + size most).+1 in
  let weights := mkseq (fun h => machine_weights p r N s
    (machine_logits (nth [::] query_columns h) (nth [::] key_rows h) context query)) H in
  let rows := mkseq (fun h => machine_head places digits (nth [::] weights h) most columns) H in
  [&& size context == n, size query == d,
      all (fun h => ~~ at_most (machine_total (nth [::] weights h)) [::]) (iota 0 H) &
      all (fun l => within (layer_output (mkseq (fun h => machine_output (nth [::] rows h)
            (nth [::] (nth [::] effective l) h)) H))
          (Z.shiftl (Zdyadic (nth (Plus 0 0) (nth [::] targets t) l)) target_shift)
          (Z.shiftl (Zdyadic epsilon) epsilon_shift)) (iota 0 dout)].

Definition check_error : bool :=
  let query_columns :=
    mkseq (fun h => columns_of dh (machine_array (nth [::] query_weights h))) H in
  let key_rows := mkseq (fun h => machine_array (nth [::] key_weights h)) H in
  let readout := columns_of dout (machine_array readout_weights) in
  let values := mkseq (fun h => machine_array (nth [::] value_weights h)) H in
  let outputs := mkseq (fun h => machine_array (nth [::] output_weights h)) H in
  let effective := mkseq (fun l => mkseq (fun h =>
    machine_effective (nth [::] values h) (nth [::] outputs h) (nth [::] readout l)) H) dout in
  [&& precise (31 * p) r N, Z.leb Z0 target_shift, Z.leb Z0 epsilon_shift,
      size readout_weights == dv,
      all (fun h => [&& size (nth [::] key_weights h) == d, size (nth [::] value_weights h) == d &
        size (nth [::] output_weights h) == dv]) (iota 0 H) &
      all (check_example query_columns key_rows effective) (iota 0 T)].

End Checker.
