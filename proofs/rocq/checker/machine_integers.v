(* proofs/11-verified-readout.md, for the claim *error*: integers of any length on machine words. *)
(* Natural numbers have digits to the base 2^31, the lowest first, so that the product of two     *)
(* digits and two more digits fit a word. machine_integers_exact.v proves that nothing is lost.   *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Notation digit := PrimInt63.int.
Notation natural := (seq digit).

Definition base : Z := 2147483648.
Fixpoint value (u : natural) : Z :=
  if u is x :: u' then Z.add (to_Z x) (Z.mul base (value u')) else Z0.

(* Notations, since a call of a function takes longer than the operation *)
Notation low x := (PrimInt63.land x 2147483647%uint63).
Notation high x := (PrimInt63.lsr x 31%uint63).
Notation zero := 0%uint63.
Notation nonzero x := (PrimInt63.ltb zero x).

Fixpoint add_digit (c : digit) (u : natural) : natural :=
  match u with
  | [::] => if nonzero c then [:: c] else [::]
  | x :: u' =>
    if nonzero c then let s := PrimInt63.add x c in low s :: add_digit (high s) u' else u
  end.

(* d u + v + c *)
Fixpoint multiply_add_digit (d c : digit) (u v : natural) : natural :=
  match u, v with
  | [::], _ => add_digit c v
  | x :: u', [::] =>
    let s := PrimInt63.add (PrimInt63.mul d x) c in low s :: multiply_add_digit d (high s) u' [::]
  | x :: u', y :: v' =>
    let s := PrimInt63.add (PrimInt63.add (PrimInt63.mul d x) y) c in
    low s :: multiply_add_digit d (high s) u' v'
  end.

(* u v + w *)
Fixpoint multiply_add_digits (u v w : natural) : natural :=
  match u with
  | [::] => w
  | d :: u' =>
    match multiply_add_digit d zero v w with
    | [::] => [::]
    | x :: w' => x :: multiply_add_digits u' v w'
    end
  end.

(* A first digit, unless all are zero: differences get shorter. *)
Definition push (x : digit) (u : natural) : natural :=
  if u is [::] then if nonzero x then [:: x] else [::] else x :: u.

Definition multiply_add (u v w : natural) : natural :=
  if v is [::] then w else multiply_add_digits u v w.

Definition multiply (u v : natural) : natural := multiply_add u v [::].
Definition add (u v : natural) : natural := multiply_add_digit 1%uint63 zero u v.

(* u - v - b, and what has to be borrowed for it: 0 or 1 *)
Fixpoint lend (b : digit) (u : natural) : natural * digit :=
  if u is x :: u' then
    let s := PrimInt63.sub (PrimInt63.add x 2147483648%uint63) b in
    let rest := lend (PrimInt63.sub 1%uint63 (high s)) u' in
    (push (low s) rest.1, rest.2)
  else ([::], b).

Fixpoint borrow (b : digit) (u v : natural) : natural * digit :=
  if v is y :: v' then
    let s := PrimInt63.sub (PrimInt63.add (head zero u) 2147483648%uint63) (PrimInt63.add y b) in
    let rest := borrow (PrimInt63.sub 1%uint63 (high s)) (behead u) v' in
    (push (low s) rest.1, rest.2)
  else lend b u.

Definition at_most (u v : natural) : bool := ~~ nonzero (borrow zero v u).2.

(* u - v, or 0 where that is negative *)
Definition monus (u v : natural) : natural :=
  let rest := borrow zero u v in if nonzero rest.2 then [::] else rest.1.

(* Products with powers of the base, and quotients rounded down *)
Definition raised (k : nat) (u : natural) : natural := if u is [::] then [::] else nseq k zero ++ u.
Definition lowered (k : nat) (u : natural) : natural := drop k u.

Fixpoint of_positive (p : positive) : natural :=
  match p with
  | xH => [:: 1%uint63]
  | xO q => multiply_add_digit 2%uint63 zero (of_positive q) [::]
  | xI q => multiply_add_digit 2%uint63 1%uint63 (of_positive q) [::]
  end.
Definition of_Z (z : Z) : natural := if z is Zpos p then of_positive p else [::].

(* An integer is a difference. *)
Definition integer := (natural * natural)%type.
Definition integer_value (x : integer) : Z := Z.sub (value x.1) (value x.2).
Definition integer_of_Z (z : Z) : integer := (of_Z z, of_Z (Z.opp z)).
Definition minus (x : integer) : integer := (x.2, x.1).
Definition normal (x : integer) : integer := (monus x.1 x.2, monus x.2 x.1).
Definition difference (x y : integer) : integer := normal (add x.1 y.2, add x.2 y.1).
Definition size_of (x : integer) : natural := let y := normal x in add y.1 y.2.

Definition multiply_add_integer (x y s : integer) : integer :=
  (multiply_add x.1 y.1 (multiply_add x.2 y.2 s.1),
   multiply_add x.1 y.2 (multiply_add x.2 y.1 s.2)).
