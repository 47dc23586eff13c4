(* proofs/15-contexts.md and 21-compact-decoders.md: lists of integers, as the files of instances *)
(* hold them.                                                                                     *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect.

Notation integers := (seq (seq Z)).
Notation blocks := (seq (seq (seq Z))).
Notation numbers := (seq nat).
Notation texts := (seq (seq nat)).
