(* proofs/11-verified-readout.md, for the claim *error*: error_program.v and exp_program.v on     *)
(* machine words. error_machine_exact.v proves that the integers are the same.                    *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import attention_program upper_bound_program exp_program error_program.
From Memorization Require Import machine_integers.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Notation machine_rows := (seq (seq integer)).

Definition no_integer : integer := ([::], [::]).
Definition positive_integer (u : natural) : integer := (u, [::]).

Fixpoint dot_from (s : integer) (xs ys : seq integer) : integer :=
  match xs, ys with
  | x :: xs', y :: ys' => dot_from (multiply_add_integer x y s) xs' ys'
  | _, _ => normal s
  end.
Definition dot_product : seq integer -> seq integer -> integer := dot_from no_integer.

Definition machine_row (row : seq dyadic) : seq integer :=
  map (fun x => integer_of_Z (Zdyadic x)) row.
Definition machine_array (rows : array) : machine_rows := map machine_row rows.
Definition columns_of (n : nat) (rows : machine_rows) : machine_rows :=
  mkseq (fun j => map (fun row => nth no_integer row j) rows) n.

Definition machine_logits (query_columns key_rows context : machine_rows) (query : seq integer) :
    seq integer :=
  let v := map (dot_product query) query_columns in
  let u := map (dot_product v) key_rows in
  map (dot_product u) context.

Definition machine_effective (values outputs : machine_rows) (column : seq integer) : seq integer :=
  map (dot_product (map (dot_product column) outputs)) values.

Definition larger (x y : integer) : integer :=
  if at_most (add x.1 y.2) (add y.1 x.2) then y else x.
Definition machine_largest (logits : seq integer) : integer :=
  foldr larger (head no_integer logits) logits.

Definition sum : seq natural -> natural := foldr add [::].

Section Weights.

(* Numbers are integers times 2^-P for P = 31 p. *)
Variables (p r N : nat) (s : Z).
Definition bits : nat := 31 * p.

Fixpoint machine_series (y : natural) (cs : seq natural) : natural :=
  if cs is c :: cs' then monus c (lowered p (multiply y (machine_series y cs'))) else [::].

Fixpoint machine_square_down (n : nat) (x : natural) : natural :=
  if n is n'.+1 then machine_square_down n' (lowered p (multiply x x)) else x.

Fixpoint machine_square_up (n : nat) (x : natural) : natural :=
  if n is n'.+1 then machine_square_up n' (add_digit 1%uint63 (lowered p (multiply x x))) else x.

(* A product with 2^e, rounded down, is one with a factor, without the lowest digits. *)
Definition places (e : Z) : nat := Z.to_nat (Z.div (30 - e) 31).
Definition factor (e : Z) : natural := of_Z (Z.shiftl 1 (e + 31 * Z.of_nat (places e))).

Section Enclose.

Variables (cs : seq natural) (one tiny factor : natural) (places : nat).

Definition machine_enclose (D : natural) : natural * natural :=
  let y := lowered places (multiply D factor) in
  if at_most one (multiply_add_digit 16%uint63 zero y [::]) then ([::], tiny) else
  let m := machine_series y cs in
  (machine_square_down r (monus m [:: 6%uint63]), machine_square_up r (add_digit 5%uint63 m)).

End Enclose.

Definition machine_weights (logits : seq integer) : seq (natural * natural) :=
  let e := (s + Z.of_nat bits - Z.of_nat r)%Z in
  let top := machine_largest logits in
  let enclose := machine_enclose (map of_Z (coefficients bits N)) (raised p [:: 1%uint63])
    (of_Z (tiny bits r)) (factor e) (places e) in
  map (fun k => enclose (difference top k).1) logits.

End Weights.

Definition machine_total (ws : seq (natural * natural)) : natural := sum (map fst ws).

(* The row of a head, as centers and radii, from its weights and the columns of a context. The    *)
(* unit has places digits more than that of the columns; reciprocals have digits of them.         *)
Definition machine_head (places digits : nat) (ws : seq (natural * natural)) (most : natural)
    (columns : machine_rows) : seq (integer * natural) :=
  let lows := map (fun w => positive_integer w.1) ws in
  let total := machine_total ws in
  let slack := monus (sum (map snd ws)) total in
  let rho := of_Z (reciprocal (31 * digits) (value total)) in
  let above := add_digit 1%uint63 rho in
  map (fun column =>
    let dot := dot_product lows column in
    let sum := (raised places dot.1, raised places dot.2) in
    let center := (lowered digits (multiply sum.1 rho), lowered digits (multiply sum.2 rho)) in
    let off := add (size_of (multiply_add_integer center ([::], total) sum))
      (multiply slack (add (raised places most) (size_of center))) in
    (center, add_digit 1%uint63 (lowered digits (multiply off above)))) columns.

(* The largest entry of a context, without its sign *)
Definition most_of (rows : machine_rows) : natural :=
  foldr (fun row m => foldr (fun x m => let y := size_of x in if at_most m y then y else m) m row)
    [::] rows.

Definition machine_output (row : seq (integer * natural)) (column : seq integer) : Z * Z :=
  (integer_value (dot_product (map fst row) column),
   integer_value (dot_product (map (fun b => positive_integer b.2) row)
     (map (fun x => positive_integer (size_of x)) column))).
