(* proofs/11-verified-readout.md, for the claim *error*: integers that enclose exp(-D 2^s) for    *)
(* integers D >= 0: by how much logits, as float weights have them, are behind the largest of     *)
(* them. exp_enclosure.v proves that they do; error_machine.v computes them on machine words.     *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope Z_scope.

Section Program.

(* Numbers are integers times 2^-P. Arguments are divided by 2^r; of the series N + 1 terms are   *)
(* taken.                                                                                         *)
Variables (P r N : nat).

(* 2^P / k! and those after it, rounded down *)
Fixpoint coefficients_from (n : nat) (k c : Z) : seq Z :=
  c :: if n is n'.+1 then coefficients_from n' (k + 1) (c / (k + 1)) else [::].
Definition coefficients : seq Z := coefficients_from N 0 (2 ^ Z.of_nat P).

(* What is left out is at most one unit, for arguments of size 1/16. *)
Definition terms_suffice : bool := Z.leb (last 0 coefficients + 2) (16 ^ Z.of_nat N.+1).

(* Horner's rule for the series at -y 2^-P, off by one unit a step *)
Fixpoint series (y : Z) (cs : seq Z) : Z :=
  if cs is c :: cs' then Z.max 0 (c - Z.shiftr (y * series y cs') (Z.of_nat P)) else 0.

Fixpoint square_down (n : nat) (x : Z) : Z :=
  if n is n'.+1 then square_down n' (Z.shiftr (x * x) (Z.of_nat P)) else x.

Fixpoint square_up (n : nat) (x : Z) : Z :=
  if n is n'.+1 then square_up n' (Z.shiftr (x * x) (Z.of_nat P) + 1) else x.

(* Bounds of exp(-D 2^s); where that is tiny, 0 and a power of two *)
Definition tiny : Z := Z.shiftl 1 (Z.of_nat P - 2 ^ (Z.of_nat r - 4)) + 1.

Definition enclose (cs : seq Z) (s D : Z) : Z * Z :=
  let y := Z.shiftl D (s + Z.of_nat P - Z.of_nat r) in
  if Z.leb (2 ^ Z.of_nat P) (16 * y) then (0, tiny) else
  let m := series y cs in
  (square_down r (Z.max 0 (m - 6)), square_up r (m + 5)).

End Program.
