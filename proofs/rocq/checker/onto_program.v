(* proofs/25-ranks-of-layers.md: a program on machine integers for Proposition 25.1. It computes  *)
(* the derivative of outputs in unit directions, modulo p, at weights where all outputs are 0.    *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import attention_program.
From Memorization Require Export stored_lists.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Groups.

(* Each head has a leader, whose query and key weights are those of its group. But heads with a   *)
(* leader below `uniform` have keys 0, and query weights of their own.                            *)
Variables (uniform : nat) (leaders : seq nat).

Definition leader (h : nat) : nat := nth 0%N leaders h.
Definition is_leader (h : nat) : bool := leader h == h.
Definition are_leaders (H : nat) : bool :=
  all (fun h => (leader h < H)%N && is_leader (leader h)) (iota 0 H).

Definition queries_of (query_weights : arrays) (H : nat) : arrays :=
  mkseq (fun h => nth [::] query_weights (if (leader h < uniform)%N then h else leader h)) H.
Definition keys_of (key_weights : arrays) (d H : nat) : arrays :=
  mkseq (fun h => if (leader h < uniform)%N then nseq d [::] else nth [::] key_weights (leader h))
    H.

(* Columns of the readout of a head. From that of a leader the sum of its group is subtracted, so *)
(* that readouts of a group have sum 0.                                                           *)
Definition readout_of (p : int63) (readouts : seq (seq (seq int63))) (d m H h : nat) :
    seq (seq int63) :=
  let entry g i j := nth 0%uint63 (nth [::] (nth [::] readouts g) i) j in
  mkseq (fun j => mkseq (fun i =>
    if is_leader h then
      addm p (entry h i j) (oppm p (sum63 p (map (fun g => entry g i j)
        (filter (fun g => leader g == h) (iota 0 H)))))
    else entry h i j) d) m.

End Groups.

Section Derivative.

(* x = a modulo p, and a^r = 1 *)
Variables p r a : int63.

Definition outer (u v : seq int63) : seq int63 := [seq mulm p x y | x <- u, y <- v].

(* The derivatives of all outputs of one example in directions of one head, times the squares of  *)
(* all sums of powers: entries of keys, then queries, then readouts. Powers are w, and the        *)
(* product of squares of the sums of other heads is `others`.                                     *)
Definition head_rows (n m : nat) (query_columns key_columns readout_columns tokens columns : seq
    (seq int63)) (query w : seq int63) (others : int63) : seq (seq int63) :=
  let z := sum63 p w in
  let asked := map (dotm p 0%uint63 query) query_columns in
  let averages := map (fun s => mulm p (mulm p others z) s) (map (dotm p 0%uint63 w) columns) in
  mkseq (fun j =>
    let seen := map (dotm p 0%uint63 (nth [::] readout_columns j)) tokens in
    let mean := oppm p (dotm p 0%uint63 w seen) in
    let deviations := mkseq (fun i => mulm p (mulm p others (nth 0%uint63 w i))
      (addm p (mulm p z (nth 0%uint63 seen i)) mean)) n in
    let moved := map (dotm p 0%uint63 deviations) columns in
    outer moved asked ++ outer query (map (dotm p 0%uint63 moved) key_columns) ++
      outer averages (mkseq (fun l => PrimInt63.mod (if l == j then 1%uint63 else 0%uint63) p) m))
    m.

(* What the program needs of each head: its query and key weights modulo r, which give powers,    *)
(* and columns of its query and key weights and of its readout modulo p                           *)
Record head_residues := HeadResidues {
  queries_r : seq (seq int63); keys_r : seq (seq int63);
  queries_p : seq (seq int63); keys_p : seq (seq int63); readout_p : seq (seq int63) }.

Definition example_rows (d m : nat) (heads : seq head_residues) (context : seq (seq dyadic))
    (query : seq dyadic) : seq (seq (seq int63)) :=
  let tokens := arraym p context in
  let columns := transpose d tokens in
  let asked := map (dyadicm p) query in
  let tokens_r := arraym r context in
  let asked_r := map (dyadicm r) query in
  let w := map (fun head => powers p r a (queries_r head) (keys_r head) tokens_r asked_r) heads in
  let sums := map (sum63 p) w in
  mkseq (fun h =>
    let head := nth (HeadResidues [::] [::] [::] [::] [::]) heads h in
    let others := product63 p (mkseq (fun g => if g == h then PrimInt63.mod 1%uint63 p else nth
      0%uint63 sums g) (size heads)) in
    head_rows (size context) m (queries_p head) (keys_p head) (readout_p head) tokens columns asked
      (nth [::] w h) (mulm p others others)) (size heads).

(* Shapes, and a right inverse of chosen columns, one column after the other: a row is that of an *)
(* output j of an example t.                                                                      *)
Definition check_onto (d dh T H m : nat) (contexts : arrays) (queries : array) (uniform : nat)
    (leaders : seq nat) (query_weights key_weights readouts : arrays) (columns : masks)
    (inverse : inverses) : bool :=
  let asking := queries_of uniform leaders query_weights H in
  let keying := keys_of uniform leaders key_weights d H in
  let reading := map (arraym p) readouts in
  let heads := mkseq (fun h => HeadResidues
    (transpose dh (arraym r (nth [::] asking h))) (arraym r (nth [::] keying h))
    (transpose dh (arraym p (nth [::] asking h))) (transpose dh (arraym p (nth [::] keying h)))
    (readout_of leaders p reading d m H h)) H in
  [&& moduli p r a, are_leaders leaders H,
      all (fun h => size (nth [::] keying h) == d) (iota 0 H),
      all (all (all (reduced p))) inverse &
      all (fun t =>
        let context := nth [::] contexts t in
        let query := nth [::] queries t in
        [&& (0 < size context)%N, size query == d &
          let rows := example_rows d m heads context query in
          all (fun j =>
            let row := chosen columns (map (fun head => nth [::] head j) rows) in
            all (fun s => PrimInt63.eqb (dotm2 p 0%uint63 row (nth [::] inverse s))
              (if (t * m + j == s)%N then 1%uint63 else 0%uint63)) (iota 0 (T * m)))
            (iota 0 m)]) (iota 0 T)].

End Derivative.
