(* proofs/10-exact-rank.md: a program on machine integers for the rank of Z of stored arrays. *)
(* Data are floats: integers times powers of two, exactly. Logits are never formed: a to their  *)
(* power depends on them modulo r only, where a^r = 1.                                          *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Notation int63 := PrimInt63.int.

(* m 2^s and - m 2^s: a float, but for the power of two which all entries of an array share *)
Inductive dyadic := Plus of int63 & int63 | Minus of int63 & int63.

(* What the file of an instance holds *)
Notation array := (seq (seq dyadic)).
Notation arrays := (seq (seq (seq dyadic))).
Notation masks := (seq bitseq).
Notation inverses := (seq (seq (seq int63))).
Notation exponent := ssrint.int.

Section Modulus.

Variable m : int63.

Definition reduced (x : int63) : bool := PrimInt63.ltb x m.
Definition addm (x y : int63) : int63 := PrimInt63.mod (PrimInt63.add x y) m.
Definition mulm (x y : int63) : int63 := PrimInt63.mod (PrimInt63.mul x y) m.
Definition oppm (x : int63) : int63 := PrimInt63.mod (PrimInt63.sub m x) m.

Fixpoint dotm (s : int63) (u v : seq int63) : int63 :=
  match u, v with
  | x :: u', y :: v' => dotm (PrimInt63.mod (PrimInt63.add s (PrimInt63.mul x y)) m) u' v'
  | _, _ => s
  end.

Fixpoint dotm2 (s : int63) (u v : seq (seq int63)) : int63 :=
  match u, v with x :: u', y :: v' => dotm2 (dotm s x y) u' v' | _, _ => s end.

Fixpoint powm_rec (fuel : nat) (x e : int63) : int63 :=
  match fuel with
  | O => PrimInt63.mod 1%uint63 m
  | S fuel' =>
    if PrimInt63.eqb e 0%uint63 then PrimInt63.mod 1%uint63 m else
    let y := powm_rec fuel' (mulm x x) (PrimInt63.lsr e 1%uint63) in
    if PrimInt63.eqb (PrimInt63.land e 1%uint63) 0%uint63 then y else mulm x y
  end.
Definition powm := powm_rec 63.

Definition dyadicm (x : dyadic) : int63 :=
  match x with
  | Plus k s => mulm (PrimInt63.mod k m) (powm (PrimInt63.mod 2%uint63 m) s)
  | Minus k s => oppm (mulm (PrimInt63.mod k m) (powm (PrimInt63.mod 2%uint63 m) s))
  end.

Definition arraym (rows : seq (seq dyadic)) : seq (seq int63) := map (map dyadicm) rows.

End Modulus.

Definition transpose (n : nat) (rows : seq (seq int63)) : seq (seq int63) :=
  mkseq (fun j => map (fun row => nth 0%uint63 row j) rows) n.

Section Checker.

(* x = a modulo p, and a^r = 1 *)
Variables p r a : int63.

Definition moduli : bool :=
  [&& PrimInt63.ltb 1%uint63 p, PrimInt63.ltb p 2147483648%uint63,
      PrimInt63.ltb 1%uint63 r, PrimInt63.ltb r 2147483648%uint63,
      PrimInt63.ltb a p & PrimInt63.eqb (powm p a r) 1%uint63].

(* a to the logits of one example in one head: W_Q has columns, W_K and the context rows *)
Definition powers (query_columns key_rows tokens : seq (seq int63)) (query : seq int63) : seq int63
  :=
  let v := map (dotm r 0%uint63 query) query_columns in
  let u := map (dotm r 0%uint63 v) key_rows in
  map (fun token => powm p a (dotm r 0%uint63 u token)) tokens.

Definition sum63 (w : seq int63) : int63 := foldr (addm p) 0%uint63 w.
Definition product63 (w : seq int63) : int63 := foldr (mulm p) (PrimInt63.mod 1%uint63 p) w.

(* One row of Z, times all denominators; a head has d entries. *)
Definition representation (d : nat) (heads : seq (seq (seq int63) * seq (seq int63))) (context :
  seq (seq dyadic))
    (query : seq dyadic) : seq (seq int63) :=
  let tokens := arraym r context in
  let columns := transpose d (arraym p context) in
  let e := map (dyadicm r) query in
  let w := map (fun head => powers head.1 head.2 tokens e) heads in
  let sums := map sum63 w in
  mkseq (fun h =>
    let others := product63 (mkseq (fun g => if g == h then PrimInt63.mod 1%uint63 p else nth
      0%uint63 sums g) (size heads)) in
    map (fun column => mulm p (dotm p 0%uint63 (nth [::] w h) column) others) columns) (size heads).

Fixpoint chosen (marks : seq bitseq) (row : seq (seq int63)) : seq (seq int63) :=
  match marks, row with b :: marks', x :: row' => mask b x :: chosen marks' row' | _, _ => [::] end.

(* Shapes, and a right inverse of chosen columns of Z, one column after the other. *)
Definition check_attention (n d dh T H : nat) (contexts : seq (seq (seq dyadic))) (queries : seq
  (seq dyadic))
    (query_weights key_weights : seq (seq (seq dyadic))) (columns : seq bitseq) (inverse : seq (seq
      (seq int63))) : bool :=
  let heads := mkseq (fun h => (transpose dh (arraym r (nth [::] query_weights h)), arraym r (nth
    [::] key_weights h))) H in
  [&& moduli, (0 < n)%N, all (fun h => size (nth [::] key_weights h) == d) (iota 0 H),
      all (all (all (reduced p))) inverse &
      all (fun t =>
        let context := nth [::] contexts t in
        let query := nth [::] queries t in
        [&& size context == n, size query == d &
          let row := chosen columns (representation d heads context query) in
          all (fun s => PrimInt63.eqb (dotm2 p 0%uint63 row (nth [::] inverse s))
                                      (if t == s then 1%uint63 else 0%uint63)) (iota 0 T)]) (iota 0
                                        T)].

End Checker.
