(* proofs/8-upper-bounds.md, 15-contexts.md and 16-groups.md: what Theorems 3, 8, 9 and 10 say.   *)
(* Contexts may have different sizes, equal or dependent tokens, and more tokens than dimensions. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Spans.

Variables (F : fieldType) (d : nat).

(* The span of the differences of the tokens of one context (the rows of E) *)
Definition differences n (E : 'M[F]_(n, d)) : 'M[F]_d :=
  (\sum_i \sum_j <<row i E - row j E>>)%MS.

Section Families.

Variable T : nat.

Definition span (J : {set 'I_T}) (v : 'I_T -> 'rV[F]_d) : 'M[F]_d := (\sum_(t in J) <<v t>>)%MS.

Definition independent (J : {set 'I_T}) (v : 'I_T -> 'rV[F]_d) : Prop := \rank (span J v) = #|J|.

(* T contexts of any sizes *)
Variables (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)).

(* k_J, the dimension of the span of all tokens of the contexts of J *)
Definition tokens_dim (J : {set 'I_T}) : nat := \rank (\sum_(t in J) <<E t>>)%MS.

(* delta_J, the dimension of the span of all differences of two tokens of one context of J *)
Definition differences_dim (J : {set 'I_T}) : nat := \rank (\sum_(t in J) differences (E t))%MS.

(* The bound of Theorem 8 that the set J of examples gives *)
Definition bound_of (H : nat) (J : {set 'I_T}) : nat :=
  T - #|J| + tokens_dim J + (H - 1) * differences_dim J.

(* c(E; H), the smallest of these bounds (the empty J gives T) *)
Definition capacity (H : nat) : nat := \big[minn/T]_(J : {set 'I_T}) bound_of H J.

(* Row t is the concatenation over the heads h of the tokens of E t combined with weights p t h. *)
Definition combinations H (p : forall t, 'I_H -> 'rV[F]_(n t)) : 'M[F]_(T, H * d) :=
  \matrix_t mxvec (\matrix_h (p t h *m E t)).

End Families.

End Spans.

(* [intermediate], for contexts of any sizes *)
Definition intermediates (R : realType) d T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) : 'M[R]_(T, H * d) :=
  \matrix_t mxvec (\matrix_h head (E t) (W h) (row t Q)).

(* What rank T is for: heads of any width dh >= 1, with one set of query and key weights, reach *)
(* all labels.                                                                                  *)
Definition Memorization_of_rank : Prop :=
  forall (R : realType) (d T H dh : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)),
    (0 < dh)%N ->
    (exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
      \rank (intermediates E Q (fun h => a *m (b h)^T)) = T) ->
  exists (WQ : 'I_H -> 'M[R]_(d, dh)) (WK : 'M[R]_(d, dh)),
    [/\ forall h, (\rank (WQ h) <= 1)%N, (\rank WK <= 1)%N
      & forall (dv dout : nat) (Y : 'M[R]_(T, dout)), (dout <= dv)%N ->
        exists WV WO WD, forall t,
          output (@Layer R d H dh dv dout WQ (fun=> WK) WV WO WD) (E t) (row t Q) = row t Y].

(* Theorem 3 (a): with tokens in k dimensions the rank is at most H k. *)
Definition Theorem3_a : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d),
  (\rank (intermediates E Q W) <= H * tokens_dim E setT)%N.

(* (b): at most H (k - 1) + 1, if a functional c is 1 at all tokens (a constant entry, say) *)
Definition Theorem3_b : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) (c : 'cV[R]_d),
    (forall t, E t *m c = const_mx 1) ->
  (\rank (intermediates E Q W) <= H * (tokens_dim E setT - 1) + 1)%N.

(* (c): at most k, if every context has one token *)
Definition Theorem3_c : Prop :=
  forall (R : realType) (d T H : nat) (E : 'I_T -> 'rV[R]_d) (Q : 'M[R]_(T, d))
      (W : 'I_H -> 'M[R]_d),
  (\rank (intermediate E Q W) <= tokens_dim E setT)%N.

(* (d) for one context of n tokens, which all examples share: at most H (n - 1) + 1 *)
Definition Theorem3_d : Prop :=
  forall (R : realType) (n d T H : nat) (E : 'M[R]_(n, d)) (Q : 'M[R]_(T, d))
      (W : 'I_H -> 'M[R]_d),
  (\rank (intermediate (fun=> E) Q W) <= H * (n - 1) + 1)%N.

(* Theorem 8, for any attention weights that add up to one (over any field) *)
Definition Theorem8_weights : Prop :=
  forall (F : fieldType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d))
      (p : forall t, 'I_H -> 'rV[F]_(n t)) (J : {set 'I_T}),
    (forall t h, \sum_i p t h 0 i = 1) ->
  (\rank (combinations E p) <= bound_of E H J)%N.

(* Theorem 8: no query and key weights have a larger rank. So heads that are chosen before the *)
(* targets memorize no more examples; it says nothing about heads that depend on the targets.  *)
Definition Theorem8 : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d),
  (\rank (intermediates E Q W) <= capacity E H)%N.

(* Theorem 9, its part without measure: any contexts, one key direction a that tells different *)
(* tokens of a context apart, query directions q h of which no two are parallel; then some     *)
(* queries reach the bound of Theorem 8.                                                       *)
Definition Theorem9_queries : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (a : 'cV[R]_d) (q : 'I_H -> 'cV[R]_d),
    (0 < H)%N ->
    (forall t i j, (E t *m a) i 0 = (E t *m a) j 0 -> row i (E t) = row j (E t)) ->
    (forall h, q h != 0) ->
    (forall g h, g != h -> forall c : R, q g != c *: q h) ->
  exists Q : 'M[R]_(T, d), \rank (intermediates E Q (fun h => a *m (q h)^T)) = capacity E H.

(* So for any contexts c(E; H) is the largest rank over all queries and weights. *)
Definition Theorem9_largest : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)),
    (1 < d)%N -> (0 < H)%N ->
  (forall (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d),
    (\rank (intermediates E Q W) <= capacity E H)%N) /\
  (exists (Q : 'M[R]_(T, d)) (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = capacity E H).

(* Theorem 9 for one context of n independent tokens that all examples share, with any queries *)
(* of Kruskal rank n: the largest rank over all weights is min(T, H (n - 1) + 1), and rank-one *)
(* heads with one key direction reach it.                                                      *)
Definition Theorem9_shared : Prop :=
  forall (R : realType) (n d T H : nat) (E : 'M[R]_(n, d)) (Q : 'M[R]_(T, d)),
    (0 < n)%N -> (0 < H)%N -> row_free E -> kruskal_rank_at_least Q n ->
  (forall W : 'I_H -> 'M[R]_d,
    (\rank (intermediate (fun=> E) Q W) <= minn T (H * (n - 1) + 1))%N) /\
  (exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediate (fun=> E) Q (fun h => a *m (b h)^T)) = minn T (H * (n - 1) + 1)).

(* Theorem 10: example t is in group g t. (1) The queries of each group are independent, and no *)
(* query of an earlier group is in the span of the queries of a later one. (2) dim R_J >= |J|   *)
(* for all J in the first group, dim D_J >= |J| for all J in a later one.                       *)
Definition Theorem10 : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (g : 'I_T -> 'I_H),
    let group (h : 'I_H) := [set t | g t == h] in
    (forall h, independent (group h) (fun t => row t Q)) ->
    (forall t (h : 'I_H), (g t < h)%N ->
      ~~ (row t Q <= span (group h) (fun s => row s Q))%MS) ->
    (forall (h : 'I_H) (J : {set 'I_T}), J \subset group h ->
      (#|J| <= if h == 0%N :> nat then tokens_dim E J else differences_dim E J)%N) ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.

(* Theorem 10 with representatives v t in the place of (2), independent in each group: tokens, or *)
(* combinations of them, in the first group; combinations of differences of tokens in all others. *)
Definition Theorem10_representatives : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (g : 'I_T -> 'I_H) (v : 'I_T -> 'rV[R]_d),
    let group (h : 'I_H) := [set t | g t == h] in
    (forall h, independent (group h) (fun t => row t Q)) ->
    (forall t (h : 'I_H), (g t < h)%N ->
      ~~ (row t Q <= span (group h) (fun s => row s Q))%MS) ->
    (forall t, g t = 0%N :> nat -> (v t <= E t)%MS) ->
    (forall t, (0 < g t)%N -> (v t <= differences (E t))%MS) ->
    (forall h, independent (group h) v) ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.

(* Its corollary (i): if every d queries are independent, every d first tokens, and every d - 1 *)
(* of the differences of first and second tokens, then H rank-one heads are enough for          *)
(* H (d - 1) + 1 examples.                                                                      *)
Definition Corollary10_i : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (i1 i2 : forall t, 'I_(n t)),
    (0 < d)%N -> (0 < H)%N ->
    kruskal_rank_at_least Q d ->
    kruskal_rank_at_least (\matrix_t row (i1 t) (E t)) d ->
    kruskal_rank_at_least (\matrix_t (row (i1 t) (E t) - row (i2 t) (E t))) (d - 1) ->
    (T <= H * (d - 1) + 1)%N ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.

(* Corollary (i) is exact if a functional c has the value 1 at all tokens. *)
Definition Corollary10_i_exact : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (i1 i2 : forall t, 'I_(n t)) (c : 'cV[R]_d),
    (0 < d)%N -> (0 < H)%N ->
    (forall t, E t *m c = const_mx 1) ->
    kruskal_rank_at_least Q d ->
    kruskal_rank_at_least (\matrix_t row (i1 t) (E t)) d ->
    kruskal_rank_at_least (\matrix_t (row (i1 t) (E t) - row (i2 t) (E t))) (d - 1) ->
  (forall W : 'I_H -> 'M[R]_d, (\rank (intermediates E Q W) <= minn T (H * (d - 1) + 1))%N) /\
  (exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = minn T (H * (d - 1) + 1)).

(* Corollary (ii), Theorem 2 for contexts of any sizes: rank k is all that is needed of them. *)
Definition Corollary10_ii : Prop :=
  forall (R : realType) (d T H k : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)),
    (0 < k)%N -> (0 < H)%N ->
    kruskal_rank_at_least Q k -> (forall t, (k <= \rank (E t))%N) ->
    (T <= H * (k - 1) + 1)%N ->
  exists (a : 'cV[R]_d) (b : 'I_H -> 'cV[R]_d),
    \rank (intermediates E Q (fun h => a *m (b h)^T)) = T.
