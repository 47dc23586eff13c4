(* proofs/15-contexts.md and 17-generic-contexts.md: Lebesgue measure on R^N, as a product of the *)
(* measure on the line; what it means that almost all numbers have a property; and what           *)
(* Proposition 15.3 and Theorems 9 and 11 say of almost all rows, queries, contexts and weights.  *)
From HB Require Import structures.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals ereal topology normedtype sequences exp measure
  lebesgue_measure lebesgue_integral.
From Memorization Require Import Definitions Capacity Generic_contexts.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Spaces.

Variable R : realType.

(* A set with a measure. It is the union of countably many sets of finite measure, as is asked of *)
(* factors of a product.                                                                          *)
Record measure_space := MeasureSpace {
  display : measure_display;
  points :> measurableType display;
  volume : {measure set points -> \bar R};
  volume_sigma_finite : sigma_finite setT volume
}.

(* The real numbers with Lebesgue measure *)
Lemma line_sigma_finite : sigma_finite setT [the measure _ _ of @lebesgue_measure R].
Proof.
apply: measure.Hahn_ext_sigma_finite; first exact: hlength_sigma_sub_additive.
exact: hlength_sigma_finite.
Qed.

Definition real_line := MeasureSpace line_sigma_finite.

(* One point, of measure one *)
HB.instance Definition _ := @isMeasurable.Build default_measure_display unit
  (Pointed.class (PointedType unit tt)) setT (I : [set: set unit] set0) (fun _ _ => I)
  (fun _ _ => I).

Lemma point_sigma_finite : sigma_finite setT (@dirac _ unit tt R).
Proof.
exists (fun=> setT) => [|_]; first by rewrite bigcup_const //; exists 0%N.
by split=> //; rewrite diracE ltry.
Qed.

Definition one_point := MeasureSpace point_sigma_finite.

(* Pairs, with the product measure of the library *)
Lemma product_sigma_finite (A B : measure_space) :
  sigma_finite setT (product_measure1 (volume A) (@volume_sigma_finite B)).
Proof.
have /sigma_finiteP[F FT [Fn Ff]] := @volume_sigma_finite A.
have /sigma_finiteP[G GT [Gn Gf]] := @volume_sigma_finite B.
exists (fun k => F k `*` G k) => [|k]; last first.
  have [mF lF] := Ff k; have [mG lG] := Gf k; split; first exact: measurableM.
  by rewrite product_measure1E // lte_mul_pinfty // ge0_fin_numE.
rewrite -setMTT FT GT predeqE => -[x y]; split; last first.
  by move=> [k _ [Fx Gy]]; split; exists k.
move=> [[k _ Fx] [l _ Gy]]; exists (maxn k l) => //; split.
  by move: Fx; apply/subsetPset/Fn/leq_maxl.
by move: Gy; apply/subsetPset/Gn/leq_maxr.
Qed.

Definition product (A B : measure_space) := @MeasureSpace _
  [the measurableType _ of (A * B)%type]
  [the measure _ _ of product_measure1 (volume A) (@volume_sigma_finite B)]
  (@product_sigma_finite A B).

(* R^N, as R * (R * (... * one point)), and the coordinates i < N of its points *)
Fixpoint space (N : nat) : measure_space :=
  if N is M.+1 then product real_line (space M) else one_point.

Fixpoint coordinate N : space N -> nat -> R :=
  if N is M.+1 then fun p i => if i is j.+1 then coordinate p.2 j else p.1 else fun _ _ => 0.

(* Almost all choices of numbers x i, one for each i of a finite set, have the property P: those *)
(* which have not, as points of R^N, are in a set of measure zero.                               *)
Definition almost_all (I : finType) (P : (I -> R) -> Prop) : Prop :=
  {ae volume (space #|I|), forall p, P (fun i => coordinate p (enum_rank i))}.

End Spaces.

(* The measure of a box is the product of the lengths of its sides. *)
Definition Volume_of_box : Prop :=
  forall (R : realType) (N : nat) (a b : 'I_N -> R), (forall i, a i <= b i) ->
  volume (space R N) [set p | forall i : 'I_N, a i < coordinate p i <= b i] =
    (\prod_i (b i - a i))%:E.

(* Proposition 15.3: rows y_t in L_t, combinations of the rows of matrices B_t that span L_t. For *)
(* almost all of them their rank is c(E; H), and the set J of rows in the span of the other ones  *)
(* has the least of the bounds of Theorem 8.                                                      *)
Definition Proposition15_3_almost_all : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (k : 'I_T -> nat) (B : forall t, 'M[R]_(k t, H * d)),
    (0 < H)%N ->
    (forall t (z : 'M[R]_(H, d)), in_layer_space (E t) z <-> (mxvec z <= B t)%MS) ->
  almost_all (fun x : {t : 'I_T & 'I_(k t)} -> R =>
    let y t := (\row_i x (existT _ t i)) *m B t in
    let J := [set t | (y t <= span (~: [set t]) y)%MS]%SET in
    \rank (span [set: 'I_T]%SET y) = capacity E H /\ bound_of E H J = capacity E H).

(* Theorem 9, for any contexts. For one key direction a that tells different tokens of a context *)
(* apart, and query directions q h of which no two are parallel, almost all queries reach the    *)
(* bound of Theorem 8. So do almost all queries and weights of heads of any width dh >= 1.       *)
Definition Theorem9_almost_all : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)),
    (0 < H)%N ->
  (forall (a : 'cV[R]_d) (q : 'I_H -> 'cV[R]_d),
    (forall t i j, (E t *m a) i 0 = (E t *m a) j 0 -> row i (E t) = row j (E t)) ->
    (forall h, q h != 0) ->
    (forall g h, g != h -> forall c : R, q g != c *: q h) ->
    almost_all (fun x : 'I_T * 'I_d -> R =>
      let Q := \matrix_(t, j) x (t, j) in
      \rank (intermediates E Q (fun h => a *m (q h)^T)) = capacity E H)) /\
  (forall dh : nat, (1 < d)%N -> (0 < dh)%N ->
    almost_all (fun x : 'I_T * 'I_d + bool * 'I_H * ('I_d * 'I_dh) -> R =>
      let Q := \matrix_(t, j) x (inl (t, j)) in
      let WQ h := \matrix_(i, j) x (inr (true, h, (i, j))) in
      let WK h := \matrix_(i, j) x (inr (false, h, (i, j))) in
      \rank (intermediates E Q (fun h => WK h *m (WQ h)^T)) = capacity E H)).

(* Theorem 11, for contexts of n t >= 2 tokens. If the vectors W_h e_t are different for each t,  *)
(* and, if n t = 2, at most one pair of them adds up to zero, then for almost all contexts the    *)
(* rank is min(T, H d), the largest possible. If no query is zero (all may be equal), it is that  *)
(* for almost all contexts and weights of heads of any width dh >= 1.                             *)
Definition Theorem11_almost_all : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (Q : 'M[R]_(T, d)),
    (forall t, (1 < n t)%N) ->
  (forall W : 'I_H -> 'M[R]_d,
    (forall t, injective (fun h => W h *m (row t Q)^T)) ->
    (forall t, n t = 2%N -> one_opposite_pair (fun h => W h *m (row t Q)^T)) ->
    almost_all (fun x : {t : 'I_T & ('I_(n t) * 'I_d)%type} -> R =>
      let E t := \matrix_(i, j) x (existT _ t (i, j)) in
      \rank (intermediates E Q W) = minn T (H * d))) /\
  (forall dh : nat, (0 < dh)%N -> (forall t, row t Q != 0) ->
    almost_all (fun x : {t : 'I_T & ('I_(n t) * 'I_d)%type} + bool * 'I_H * ('I_d * 'I_dh) -> R =>
      let E t := \matrix_(i, j) x (inl (existT _ t (i, j))) in
      let WQ h := \matrix_(i, j) x (inr (true, h, (i, j))) in
      let WK h := \matrix_(i, j) x (inr (false, h, (i, j))) in
      \rank (intermediates E Q (fun h => WK h *m (WQ h)^T)) = minn T (H * d))).
