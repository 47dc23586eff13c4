(* proofs/15-contexts.md and 17-generic-contexts.md: what Proposition 15.3, Lemma 17.1 and        *)
(* Theorem 11 say, and what is said of almost all contexts, queries and weights without measure:  *)
(* on each line through a choice which will do, all but finitely many will do. Almost_all.v has   *)
(* measure.                                                                                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The line through A and B: A at s = 0, B at s = 1 *)
Definition on_line (R : realType) m p (A B : 'M[R]_(m, p)) (s : R) : 'M[R]_(m, p) :=
  A + s *: (B - A).

(* Along any line of contexts, queries and weights the rank is that of the point s = 0 at least, *)
(* but for finitely many s.                                                                      *)
Definition Rank_lines : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E E' : forall t, 'M[R]_(n t, d))
      (Q Q' : 'M[R]_(T, d)) (W W' : 'I_H -> 'M[R]_d),
  exists exceptions : seq R, forall s, s \notin exceptions ->
    (\rank (intermediates E Q W) <= \rank (intermediates (fun t => on_line (E t) (E' t) s)
      (on_line Q Q' s) (fun h => on_line (W h) (W' h) s)))%N.

(* Theorem 9, almost all queries and weights: on each line of queries and weights of heads of any *)
(* width dh through some which reach the bound of Theorem 8 all but finitely many reach it.       *)
Definition Theorem9_lines : Prop :=
  forall (R : realType) (d T H dh : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q Q' : 'M[R]_(T, d)) (WQ WQ' WK WK' : 'I_H -> 'M[R]_(d, dh)),
    let reach (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) :=
      \rank (intermediates E Q (fun h => WK h *m (WQ h)^T)) = capacity E H in
    reach Q WQ WK ->
  exists exceptions : seq R, forall s, s \notin exceptions ->
    reach (on_line Q Q' s) (fun h => on_line (WQ h) (WQ' h) s)
      (fun h => on_line (WK h) (WK' h) s).

(* The space L_t of a context E, for H heads: a row for each head in the span of the tokens, any *)
(* two of them with a difference in the span of the differences of tokens                        *)
Definition in_layer_space (R : realType) d H n (E : 'M[R]_(n, d)) (z : 'M[R]_(H, d)) : Prop :=
  (forall h, (row h z <= E)%MS) /\ forall g h, (row g z - row h z <= differences E)%MS.

(* Proposition 15.3: rows y_t in L_t of which every set has the largest rank possible exist, and *)
(* on each line through them all but finitely many rows are such. Their rank is c(E; H), and the *)
(* set J of rows in the span of the other ones has the least of the bounds of Theorem 8.         *)
Definition Proposition15_3 : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)),
    (0 < H)%N ->
  let rows (y : 'I_T -> 'M[R]_(H, d)) := forall t, in_layer_space (E t) (y t) in
  let span_of (J : {set 'I_T}) (y : 'I_T -> 'M[R]_(H, d)) := span J (fun t => mxvec (y t)) in
  let largest y := rows y /\ forall y' J, rows y' ->
    (\rank (span_of J y') <= \rank (span_of J y))%N in
  let J y := [set t | (mxvec (y t) <= span_of (~: [set t]) y)%MS] in
  [/\ exists y, largest y,
    forall y y', largest y -> rows y' -> exists exceptions : seq R,
      forall s, s \notin exceptions -> largest (fun t => on_line (y t) (y' t) s)
    & forall y, largest y ->
      \rank (span_of setT y) = capacity E H /\ bound_of E H (J y) = capacity E H].

(* Lemma 17.1: the weight of one token with logit x, where n - 1 others have logit zero *)
Definition one_token (R : realType) (n : nat) (x : R) : R := expR x / (expR x + (n - 1)%:R).

(* At most one pair g <= h adds up to zero. *)
Definition one_opposite_pair (V : zmodType) H (w : 'I_H -> V) : Prop :=
  forall g h g' h' : 'I_H, (g <= h)%N -> (g' <= h')%N -> w g + w h = 0 -> w g' + w h' = 0 ->
  g = g' /\ h = h'.

Definition Lemma17_1 : Prop :=
  forall (R : realType) (n H : nat) (c a : 'I_H -> R) (l r : R),
    (1 < n)%N -> injective c -> (n = 2%N -> one_opposite_pair c) ->
    l < r -> (forall s, l < s < r -> \sum_h a h * one_token n (c h * s) = 0) ->
  forall h, a h = 0.

(* Theorem 11: contexts of n t >= 2 tokens, weights and queries for which the vectors W_h e_t are *)
(* different for each t, and, if n t = 2, at most one pair of them adds up to zero. Contexts for  *)
(* which the rank is min(T, H d), the largest possible, exist; they are a dense and an open set;  *)
(* and on each line through one of them they are all but finitely many.                           *)
Definition Theorem11 : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d),
    (forall t, (1 < n t)%N) ->
    (forall t, injective (fun h => W h *m (row t Q)^T)) ->
    (forall t, n t = 2%N -> one_opposite_pair (fun h => W h *m (row t Q)^T)) ->
  let reach (E : forall t, 'M[R]_(n t, d)) := \rank (intermediates E Q W) = minn T (H * d) in
  let near eps (E E' : forall t, 'M[R]_(n t, d)) := forall t i j, `|E' t i j - E t i j| < eps in
  [/\ exists E, reach E,
    forall E eps, 0 < eps -> exists2 E', near eps E E' & reach E',
    forall E, reach E -> exists2 eps, 0 < eps & forall E', near eps E E' -> reach E'
    & forall E E', reach E -> exists exceptions : seq R, forall s, s \notin exceptions ->
      reach (fun t => on_line (E t) (E' t) s)].

(* Heads which differ in their temperature only do this for all nonzero queries. *)
Definition Theorem11_temperatures : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (Q : 'M[R]_(T, d)) (k q : 'cV[R]_d)
      (c : 'I_H -> R),
    (forall t, (1 < n t)%N) -> k != 0 -> (forall t, (row t Q *m q) 0 0 != 0) ->
    (forall h, 0 < c h) -> injective c ->
  exists E : forall t, 'M[R]_(n t, d),
    \rank (intermediates E Q (fun h => c h *: (k *m q^T))) = minn T (H * d).

(* So for all nonzero queries, equal ones among them, contexts and weights of heads of any width *)
(* dh >= 1 have that rank, and do so on each line through such ones, but for finitely many.      *)
Definition Theorem11_weights : Prop :=
  forall (R : realType) (d T H dh : nat) (n : 'I_T -> nat) (Q : 'M[R]_(T, d)),
    (0 < dh)%N -> (forall t, (1 < n t)%N) -> (forall t, row t Q != 0) ->
  let reach (E : forall t, 'M[R]_(n t, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) :=
    \rank (intermediates E Q (fun h => WK h *m (WQ h)^T)) = minn T (H * d) in
  (exists E WQ WK, reach E WQ WK) /\
  forall E E' WQ WQ' WK WK', reach E WQ WK ->
    exists exceptions : seq R, forall s, s \notin exceptions ->
      reach (fun t => on_line (E t) (E' t) s) (fun h => on_line (WQ h) (WQ' h) s)
        (fun h => on_line (WK h) (WK' h) s).

(* Zero queries have rank d at most. *)
Definition Theorem11_zero : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (W : 'I_H -> 'M[R]_d),
  (\rank (intermediates E 0 W) <= d)%N.
