(* proofs/15-contexts.md: a program which checks, for stored data, that Lemma 15.4 applies to all *)
(* of their examples. Products with vectors are integers of any length.                          *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import list_checker attention_program.
From Memorization Require Export stored_lists.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Definition Zdyadic (x : dyadic) : Z :=
  match x with
  | Plus k s => Z.shiftl (to_Z k) (to_Z s)
  | Minus k s => Z.opp (Z.shiftl (to_Z k) (to_Z s))
  end.

Definition Zdot : seq Z -> seq Z -> Z := dot Z.add Z.mul Z0.

(* The first vectors are orthogonal to all tokens of a context, the others constant on them. *)
Definition constant (s : seq Z) : bool := if s is x :: s' then all (Z.eqb x) s' else true.

Definition orthogonal (zeros : nat) (vectors : integers) (context : array) : bool :=
  let tokens := map (map Zdyadic) context in
  all (fun v => all (fun x => Z.eqb (Zdot x v) Z0) tokens) (take zeros vectors) &&
  all (fun v => constant (map (fun x => Zdot x v) tokens)) (drop zeros vectors).

(* Each vector has an entry which is zero in all later ones. *)
Definition triangular (d : nat) (vectors : integers) (pivots : numbers) : bool :=
  all (fun i => let q := nth 0%N pivots i in
    [&& (q < d)%N, ~~ Z.eqb (nth Z0 (nth [::] vectors i) q) Z0 &
        all (fun v => Z.eqb (nth Z0 v q) Z0) (drop i.+1 vectors)]) (iota 0 (size vectors)).

(* Tokens are among few words. Those of one context have words of one root. *)
Definition same (x y : dyadic) : bool :=
  match x, y with
  | Plus k s, Plus l r | Minus k s, Minus l r => PrimInt63.eqb k l && PrimInt63.eqb s r
  | _, _ => false
  end.

Fixpoint same_row (u v : seq dyadic) : bool :=
  match u, v with
  | [::], [::] => true
  | x :: u', y :: v' => if same x y then same_row u' v' else false
  | _, _ => false
  end.

Definition place (words : array) (token : seq dyadic) : nat := find (same_row token) words.

Definition known (words : array) (context : array) : bool :=
  all (fun token => (place words token < size words)%N) context.

Definition joined (words : array) (roots : numbers) (context : array) : bool :=
  let found := map (fun token => nth 0%N roots (place words token)) context in
  all (fun r => r == head 0%N found) found.

Definition rooted (words : array) (roots : numbers) : bool :=
  (size roots == size words) && all (fun r => (r < size words)%N) roots.

Definition least (few : bool) (k l : nat) : nat := if few then minn k l else k.

(* k_J and delta_J, at most *)
Definition tokens_bound (d zeros : nat) (contexts : arrays) (words : array) : nat :=
  least (all (known words) contexts) (d - zeros) (size words).

Definition differences_bound (d : nat) (contexts : arrays) (vectors : integers) (words : array)
    (roots : numbers) : nat :=
  least [&& all (known words) contexts, rooted words roots & all (joined words roots) contexts]
    (d - size vectors) (count (fun k => nth 0%N roots k != k) (iota 0 (size words))).

Section Fingerprints.

(* Modulo p; equal for equal inputs, whatever z and w are *)
Variables p z w : int63.

Definition horner (s : int63) (row : seq int63) : int63 :=
  foldl (fun s x => addm p (mulm p s z) x) s row.

Definition fingerprint (tokens : seq (seq int63)) (query : seq int63) : int63 :=
  let s := horner w query in product63 p (map (horner s) tokens).

Definition fingerprints (T : nat) (contexts : arrays) (queries : array) : seq int63 :=
  let tokens := map (arraym p) contexts in
  let rows := arraym p queries in
  mkseq (fun t => fingerprint (nth [::] tokens (t %% size contexts)) (nth [::] rows t)) T.

End Fingerprints.

Fixpoint different (s : seq int63) : bool :=
  if s is x :: s' then ~~ has (PrimInt63.eqb x) s' && different s' else true.

(* T examples; there are as many contexts, or one which they share. *)
Definition check_upper_bound (p z w : int63) (n d T H bound : nat) (contexts : arrays)
    (queries : array) (zeros : nat) (vectors : integers) (pivots : numbers) (words : array)
    (roots : numbers) : bool :=
  [&& PrimInt63.ltb 1%uint63 p, PrimInt63.ltb p 2147483648%uint63, reduced p z, reduced p w,
      (0 < size contexts)%N,
      all (fun context => (size context == n) && all (fun x => size x == d) context) contexts,
      all (fun t => size (nth [::] queries t) == d) (iota 0 T),
      different (fingerprints p z w T contexts queries),
      (zeros <= size vectors)%N, triangular d vectors pivots,
      all (orthogonal zeros vectors) contexts,
      (tokens_bound d zeros contexts words +
        (H - 1) * differences_bound d contexts vectors words roots <= bound)%N &
      (bound < T)%N].
