(* proofs/21-compact-decoders.md, for the claim *recites*: a program on binary integers that      *)
(* finds which token each head of a compact decoder reads, and by how much the integers prefer    *)
(* what follows. recites_checker.v proves what its answer means.                                  *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect.
From Memorization Require Export stored_lists.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* Operations on rows. A row that is too short is what makes the program say no. *)
Fixpoint added (u v : seq Z) : seq Z :=
  match u, v with x :: u', y :: v' => Z.add x y :: added u' v' | _, _ => [::] end.
Fixpoint subtracted (u v : seq Z) : seq Z :=
  match u, v with x :: u', y :: v' => Z.sub x y :: subtracted u' v' | _, _ => [::] end.
Fixpoint product (u v : seq Z) : Z :=
  match u, v with x :: u', y :: v' => Z.add (Z.mul x y) (product u' v') | _, _ => Z0 end.

(* A row of signs, true for 1 and false for -1, times a matrix with n columns *)
Fixpoint signed (n : nat) (signs : bitseq) (rows : integers) : seq Z :=
  match signs, rows with
  | b :: signs', row :: rows' => (if b then added else subtracted) (signed n signs' rows') row
  | _, _ => nseq n Z0
  end.

(* The last w entries up to each one, itself first *)
Fixpoint contexts (T : Type) (w : nat) (past s : seq T) : seq (seq T) :=
  if s is x :: s' then let now := take w (x :: past) in now :: contexts w now s' else [::].

(* What a head reads of pairs, a key and a value each: the value whose logit leads by 128 *)
Definition read (query : seq Z) (seen : seq (seq Z * seq Z)) : seq Z :=
  let logits := map (fun pair => (product query pair.1, pair.2)) seen in
  let top := foldr (fun logit => Z.max logit.1) (if logits is l :: _ then l.1 else Z0) logits in
  if filter (fun logit => Z.ltb top (Z.add logit.1 128)) logits is [:: one] then
    if Z.leb top one.1 then one.2 else [::]
  else [::].

Definition power (bits : nat) : Z := Z.pow 2 (Z.of_nat bits).

(* The predicate holds for all entries, but perhaps for entry n. *)
Fixpoint all_but (p : pred Z) (n : nat) (s : seq Z) : bool :=
  if s is x :: s' then if n is n'.+1 then p x && all_but p n' s' else all p s' else true.

Definition is_signZ (x : Z) : bool := Z.eqb x 1 || Z.eqb x (-1).
Definition shaped (m n : nat) (rows : integers) : bool :=
  (size rows == m) && all (fun row => size row == n) rows.
Definition all_shaped (H m n : nat) (matrices : blocks) : bool :=
  (size matrices == H) && all (shaped m n) matrices.

Section Program.

(* The margin is an integer divided by a power of two. *)
Variables (d dh H k V window prompt : nat) (margin : Z) (margin_bits : nat).
Variables (embedding positions : integers) (query_weights key_weights : blocks).
Variables (skip : integers) (readouts : blocks) (unembedding : integers).

Definition tokens (text : seq nat) : integers :=
  mkseq (fun i => added (nth [::] embedding (nth 0%N text i))
    (nth [::] positions (i %% size positions))) (size text).

Definition are_signs (token : seq Z) : bool := (size token == d) && all is_signZ token.

(* What one head adds to the outputs at all positions *)
Definition head_rows (signs : seq bitseq) (h : nat) : integers :=
  let wq := nth [::] query_weights h in
  let wk := nth [::] key_weights h in
  let u := nth [::] readouts h in
  let pairs := map (fun x => (signed dh x wk, signed k x u)) signs in
  map (fun at_i => read at_i.1 at_i.2)
    (zip (map (fun x => signed dh x wq) signs) (contexts window [::] pairs)).

Definition add_rows (a b : integers) : integers := map (fun rows => added rows.1 rows.2) (zip a b).

Definition outputs (signs : seq bitseq) : integers :=
  foldr (fun h => add_rows (head_rows signs h)) (map (fun x => signed k x skip) signs) (iota 0 H).

(* By this, or more, integers have to prefer what follows: the margin, and room for all tokens    *)
(* that heads do not read, whose weights are below 2^-128. It is found, and then checked.         *)
Definition largest : Z :=
  foldr (fun row most => foldr (fun x => Z.max (Z.abs x)) most row) 1%Z
    (unembedding ++ skip ++ flatten readouts).
Definition at_most (most : Z) : pred integers := all (all (fun x => Z.leb (Z.abs x) most)).
Definition all_at_most (most : Z) : bool :=
  [&& at_most most unembedding, at_most most skip & all (at_most most) readouts].
Definition room (most : Z) : Z :=
  Z.mul (Z.mul 2 (Z.of_nat (window * (k * (d + H * d))))) (Z.mul most (Z.mul 2 most)).
Definition least (most : Z) : Z :=
  Z.add 1 (Z.div (Z.add (Z.mul margin (power 128)) (Z.mul (room most) (power margin_bits)))
    (Z.mul (power margin_bits) (power 128))).
Definition enough (most lead : Z) : bool :=
  Z.leb (Z.add (Z.mul margin (power 128)) (Z.mul (room most) (power margin_bits)))
    (Z.mul (Z.mul lead (power margin_bits)) (power 128)).

Definition right (lead : Z) (output : seq Z) (following : nat) : bool :=
  let logits := map (product output) unembedding in
  let top := nth Z0 logits following in
  (size output == k) && all_but (fun l => Z.leb (Z.add l lead) top) following logits.

Definition check_text (lead : Z) (text : seq nat) : bool :=
  let xs := tokens text in
  let rows := outputs (map (map (Z.ltb 0)) xs) in
  [&& all (fun v => (v < V)%N) text, all are_signs xs &
      all (fun at_i => right lead at_i.1 at_i.2)
        (drop prompt.-1 (zip rows (rcons (behead text) V)))].

Definition check_recites (texts : texts) : bool :=
  let most := largest in
  let lead := least most in
  [&& Z.ltb Z0 margin, (0 < k)%N, (0 < window)%N, shaped V d embedding,
      shaped (size positions) d positions, all_shaped H d dh query_weights,
      all_shaped H d dh key_weights, shaped d k skip, all_shaped H d k readouts,
      shaped V.+1 k unembedding, all_at_most most, enough most lead & all (check_text lead) texts].

End Program.
