(* proofs/24-free-heads.md and 25-ranks-of-layers.md: what is proved of free heads. All weights   *)
(* may be chosen after the targets. docs/rocq.md reads the main statements.                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Almost_all.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Derivatives.

Variable R : realType.

(* The covariance of the tokens (the rows of E) under weights p of sum one *)
Definition covariance n d (E : 'M[R]_(n, d)) (p : 'cV[R]_n) : 'M[R]_d :=
  E^T *m (diag_mx p^T - p *m p^T) *m E.

(* The same for equal weights *)
Definition uniform_covariance n d (E : 'M[R]_(n, d)) : 'M[R]_d :=
  covariance E (const_mx n%:R^-1).

(* The derivative of head E (WK *m WQ^T) e in direction (dQ, dK) *)
Definition head_step n d dh (E : 'M[R]_(n, d)) (e : 'rV[R]_d) (WQ WK dQ dK : 'M[R]_(d, dh)) :
    'rV[R]_d :=
  (covariance E (softmax (E *m (WK *m WQ^T) *m e^T)) *m (WK *m dQ^T + dK *m WQ^T) *m e^T)^T.

End Derivatives.

(* Theorem 33. If heads with readouts U are zero on all examples and their derivative is onto,     *)
(* some weights of these heads memorize all targets; query and key weights are as near to the     *)
(* given ones as one likes.                                                                       *)
Definition Zero_points : Prop :=
  forall (R : realType) (d T H dh dv dout : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, dout)),
    (dout <= dv)%N ->
    (forall t, \sum_h head (E t) (WK h *m (WQ h)^T) (row t Q) *m U h = 0) ->
    (forall Y : 'M[R]_(T, dout), exists (dQ dK : 'I_H -> 'M[R]_(d, dh))
        (dU : 'I_H -> 'M[R]_(d, dout)), forall t,
      \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (dQ h) (dK h) *m U h +
        head (E t) (WK h *m (WQ h)^T) (row t Q) *m dU h) = row t Y) ->
  forall (eps : R) (Y : 'M[R]_(T, dout)), 0 < eps ->
  exists L : layer R d H dh dv dout,
    [/\ forall h i j, `|query_weights L h i j - WQ h i j| < eps,
      forall h i j, `|key_weights L h i j - WK h i j| < eps
      & forall t, output L (E t) (row t Q) = row t Y].

(* Theorem 34. For keys 0 and readouts of sum zero the output is zero, and the derivative in the   *)
(* keys is the sum below. Where it is onto, some keys, with the query weights as given, memorize  *)
(* all targets.                                                                                   *)
Definition Uniform_attention : Prop :=
  forall (R : realType) (d T H dh dv dout : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (WQ : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, dout)),
    (dout <= dv)%N -> \sum_h U h = 0 ->
    (forall Y : 'M[R]_(T, dout), exists dK : 'I_H -> 'M[R]_(d, dh), forall t,
      \sum_h (uniform_covariance (E t) *m dK h *m (WQ h)^T *m (row t Q)^T)^T *m U h = row t Y) ->
  forall Y : 'M[R]_(T, dout), exists WK WV WO WD, forall t,
    output (@Layer R d H dh dv dout WQ WK WV WO WD) (E t) (row t Q) = row t Y.

(* For targets of one number: the row of an example is, for each head h, the product of           *)
(* C_t u_h and Q_h^T e_t.                                                                         *)
Definition tangent_rows (R : realType) d T H dh (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (WQ : 'I_H -> 'M[R]_(d, dh)) (u : 'I_H -> 'cV[R]_d) :
    'M[R]_(T, H * (d * dh)) :=
  \matrix_t mxvec (\matrix_h mxvec (uniform_covariance (E t) *m u h *m (row t Q *m WQ h))).

Definition Tangent_rank : Prop :=
  forall (R : realType) (d T H dh dv : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (WQ : 'I_H -> 'M[R]_(d, dh)) (u : 'I_H -> 'cV[R]_d),
    (0 < dv)%N -> \sum_h u h = 0 -> \rank (tangent_rows E Q WQ u) = T ->
  forall Y : 'M[R]_(T, 1), exists WK WV WO WD, forall t,
    output (@Layer R d H dh dv 1 WQ WK WV WO WD) (E t) (row t Q) = row t Y.

(* Theorem 39. Two copies of any H heads, with opposite readouts, are zero: so 2 H heads memorize *)
(* all targets where the derivative of H heads is onto.                                           *)
Definition Pairs_of_heads : Prop :=
  forall (R : realType) (d T H dh dv dout : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, dout)),
    (dout <= dv)%N ->
    (forall Y : 'M[R]_(T, dout), exists (dQ dK : 'I_H -> 'M[R]_(d, dh))
        (dU : 'I_H -> 'M[R]_(d, dout)), forall t,
      \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (dQ h) (dK h) *m U h +
        head (E t) (WK h *m (WQ h)^T) (row t Q) *m dU h) = row t Y) ->
  forall Y : 'M[R]_(T, dout), exists L : layer R d (H + H) dh dv dout, forall t,
    output L (E t) (row t Q) = row t Y.

(* For 2 <= H <= d + 1 heads with 2 dh <= d there are query weights, the same for all data, such  *)
(* that almost all T <= H d dh examples of two tokens or more are memorized for all targets.      *)
Definition Free_heads_almost_all_queries : Prop :=
  forall (R : realType) (d H dh : nat), (1 < H <= d.+1)%N -> (dh + dh <= d)%N ->
  exists WQ : 'I_H -> 'M[R]_(d, dh), forall (T dv : nat) (n : 'I_T -> nat),
    (0 < dv)%N -> (forall t, 1 < n t)%N -> (T <= H * (d * dh))%N ->
    almost_all (fun x : {t : 'I_T & ('I_(n t) * 'I_d)%type} + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (existT _ t (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, 1), exists WK WV WO WD, forall t,
        output (@Layer R d H dh dv 1 WQ WK WV WO WD) (E t) (row t Q) = row t Y).

(* Theorem 1's words, for almost all data: contexts of n tokens. *)
Definition Free_heads : Prop :=
  forall (R : realType) (n d T H dh dv : nat),
    (1 < n)%N -> (1 < H <= d.+1)%N -> (dh + dh <= d)%N -> (0 < dv)%N -> (T <= H * (d * dh))%N ->
    almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (t, (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, 1), exists L : layer R d H dh dv 1, memorizes L E Q Y).

(* The usual shape, H dh = d: d^2 examples. *)
Definition Free_heads_usual : Prop :=
  forall (R : realType) (n d T H dh dv : nat),
    (1 < n)%N -> (1 < H)%N -> (0 < dh)%N -> (H * dh = d)%N -> (0 < dv)%N -> (T <= d * d)%N ->
    almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (t, (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, 1), exists L : layer R d H dh dv 1, memorizes L E Q Y).

(* c_1 of Theorem 36 for the set J of examples: what is free outside of J, r (delta + q - r)      *)
(* numbers for the logits of each head, and dout for each dimension of the rows of Z on J         *)
Definition free_bound (R : realType) d T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (H dh dout : nat) (J : {set 'I_T}) : nat :=
  let delta := differences_dim E J in
  let q := \rank (span J (fun t => row t Q)) in
  let r := minn dh (minn delta q) in
  (T - #|J|) * dout + H * (r * (delta + q - r)) + (tokens_dim E J + (H - 1) * delta) * dout.

(* Theorem 36: where this is less than the number of targets, almost no targets are memorized by  *)
(* any weights: for almost all targets there are no weights that memorize them.                   *)
Definition Almost_no_targets : Prop :=
  forall (R : realType) (d T H dh dv dout : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)) (J : {set 'I_T}),
    (0 < H)%N -> (free_bound E Q H dh dout J < T * dout)%N ->
    almost_all (fun y : 'I_T * 'I_dout -> R =>
      ~ exists L : layer R d H dh dv dout, forall t, output L (E t) (row t Q) = \row_k y (t, k)).

(* For any data: H heads with dh <= d have H (dh (2 d - dh) + d dout) numbers at most.            *)
Definition Almost_no_targets_any_data : Prop :=
  forall (R : realType) (d T H dh dv dout : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (Q : 'M[R]_(T, d)),
    (0 < H)%N -> (dh <= d)%N -> (H * (dh * (d + d - dh) + d * dout) < T * dout)%N ->
    almost_all (fun y : 'I_T * 'I_dout -> R =>
      ~ exists L : layer R d H dh dv dout, forall t, output L (E t) (row t Q) = \row_k y (t, k)).

(* Theorem 40 (c): targets of m numbers, by m groups of H heads, T m <= (m H) d dh                *)
Definition Free_heads_outputs : Prop :=
  forall (R : realType) (n d T H m dh dv : nat),
    (1 < n)%N -> (1 < H <= d.+1)%N -> (dh + dh <= d)%N -> (m <= dv)%N -> (T <= H * (d * dh))%N ->
    almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (t, (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, m), exists L : layer R d (m * H) dh dv m, memorizes L E Q Y).

(* Theorem 35 (a) with Theorem 33, for contexts without a restriction. For any H heads with       *)
(* dh <= d almost all data of T <= N examples are memorized for all targets. The proof begins     *)
(* with equal heads; the weights that memorize are near them, but for the size of readouts.       *)
Definition Equal_heads : Prop :=
  forall (R : realType) (n d T H dh dv : nat),
    (1 < n)%N -> (0 < H)%N -> (dh <= d)%N -> (0 < dv)%N ->
    let k := minn (H - 1) d in
    (T <= dh * (k * d - 'C(k, 2)) + (d - dh) * (k * dh - 'C(k + dh - d, 2)) + d)%N ->
    almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (t, (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, 1), exists L : layer R d H dh dv 1, memorizes L E Q Y).

(* For H <= d - dh + 1 that is N = (H - 1) dh (2 d - dh + 1 - H / 2) + d.                         *)
Definition Equal_heads_usual : Prop :=
  forall (R : realType) (n d T H dh dv : nat),
    (1 < n)%N -> (0 < H)%N -> (H + dh <= d + 1)%N -> (0 < dv)%N ->
    (2 * T <= (H - 1) * dh * (4 * d - 2 * dh + 2 - H) + 2 * d)%N ->
    almost_all (fun x : 'I_T * ('I_n * 'I_d) + 'I_T * 'I_d -> R =>
      let E t := \matrix_(i, j) x (inl (t, (i, j))) in
      let Q := \matrix_(t, j) x (inr (t, j)) in
      forall Y : 'M[R]_(T, 1), exists L : layer R d H dh dv 1, memorizes L E Q Y).
