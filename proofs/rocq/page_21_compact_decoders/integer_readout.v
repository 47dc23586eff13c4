(* proofs/21-compact-decoders.md: Proposition 21.3. Sums of integers whose sizes add up to less   *)
(* than 2^p are exact in a format of p bits, in any order; and the tokens that integers decide    *)
(* are decided in real arithmetic, too.                                                           *)
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Model.

Variables (F : realFieldType) (rounds : F -> F -> Prop).

(* A result may also be left as it is, as in a fused operation or a wider accumulator. *)
Definition kept (x y : F) : Prop := y = x \/ rounds x y.

(* summed s y: a program may give y as the sum of the integers s, in some order of additions. The *)
(* integers may themselves be products that were rounded, or not.                                 *)
Inductive summed : seq int -> F -> Prop :=
| Nothing : summed [::] 0
| Term m y : kept m%:~R y -> summed [:: m] y
| Plus s1 s2 s y1 y2 y : summed s1 y1 -> summed s2 y2 -> perm_eq s (s1 ++ s2) ->
    kept (y1 + y2) y -> summed s y.

(* Rounding to a nearest number of a format, and the format with p bits *)
Definition nearest (format : F -> Prop) (x y : F) : Prop :=
  format y /\ forall z, format z -> `|x - y| <= `|x - z|.

Definition binary (p : nat) (least most : int) (x : F) : Prop :=
  exists m e : int, [/\ `|m| < 2 ^+ p, least <= e <= most & x = m%:~R * 2 ^ e].

End Model.

(* Any rounding that leaves integers up to B as they are *)
Definition Integer_sums : Prop :=
  forall (F : realFieldType) (rounds : F -> F -> Prop) (B : int) (s : seq int) (y : F),
    (forall (m : int) z, `|m| <= B -> rounds m%:~R z -> z = m%:~R) ->
    \sum_(m <- s) `|m| <= B -> summed rounds s y ->
  y = (\sum_(m <- s) m)%:~R.

(* Rounding to nearest, ties in any way, in a format of p bits such as float32 with p = 24 *)
Definition Integer_sums_nearest : Prop :=
  forall (F : realFieldType) (p : nat) (least most : int) (s : seq int) (y : F),
    (0 < p)%N -> least <= 0 < most ->
    \sum_(m <- s) `|m| < 2 ^+ p -> summed (nearest (binary p least most)) s y ->
  y = (\sum_(m <- s) m)%:~R.

(* A row z of the representation is near the integer row Z. Its readout is near the integer one,  *)
(* and if that prefers the token v to v', so does the real one.                                   *)
Definition Integers_near : Prop :=
  forall (F : realFieldType) (K k V : nat) (z : 'rV[F]_K) (Z : 'rV[int]_K) (U : 'M[int]_(K, k))
      (O : 'M[int]_(V, k)) (delta : F) (v v' : 'I_V),
    (forall c, `|z 0 c - (Z 0 c)%:~R| <= delta) ->
  ((Z *m U *m O^T) 0 v - (Z *m U *m O^T) 0 v')%:~R -
    delta * (\sum_o \sum_c `|U c o| * `|O v o - O v' o|)%:~R <=
  (z *m map_mx intr U *m (map_mx intr O)^T) 0 v - (z *m map_mx intr U *m (map_mx intr O)^T) 0 v'.

Definition Integers_decide : Prop :=
  forall (F : realFieldType) (K k V : nat) (z : 'rV[F]_K) (Z : 'rV[int]_K) (U : 'M[int]_(K, k))
      (O : 'M[int]_(V, k)) (delta : F) (v v' : 'I_V),
    (forall c, `|z 0 c - (Z 0 c)%:~R| <= delta) ->
    0 < (Z *m U *m O^T) 0 v - (Z *m U *m O^T) 0 v' ->
    delta * (\sum_o \sum_c `|U c o| * `|O v o - O v' o|)%:~R < 1 ->
  (z *m map_mx intr U *m (map_mx intr O)^T) 0 v' < (z *m map_mx intr U *m (map_mx intr O)^T) 0 v.

Theorem integer_sums : Integer_sums.
Proof.
move=> F rounds B s y exact + sum.
have keeps (m : int) (z : F) : `|m| <= B -> kept rounds m%:~R z -> z = m%:~R.
  by move=> small [//|]; exact: exact.
elim: sum => {s y} [|m z r|s1 s2 s y1 y2 y _ IH1 _ IH2 perm keep] small.
- by rewrite big_nil.
- by rewrite big_seq1 in small; rewrite big_seq1; apply: keeps small r.
rewrite (perm_big _ perm) big_cat /= in small; rewrite (perm_big _ perm) big_cat /=.
have ge0 (t : seq int) : 0 <= \sum_(m <- t) `|m| by apply: sumr_ge0.
have e1 := IH1 (le_trans (ler_paddr (ge0 s2) (lexx _)) small).
have e2 := IH2 (le_trans (ler_paddl (ge0 s1) (lexx _)) small).
apply: keeps; last by rewrite intrD -e1 -e2.
by apply: le_trans small; rewrite (le_trans (ler_norm_add _ _)) // ler_add ?ler_norm_sum.
Qed.

Theorem integer_sums_nearest : Integer_sums_nearest.
Proof.
move=> F p least most s y p0 /andP[l0 m0] small; apply: integer_sums (lexx _) => m z mB [_ near].
have fm : binary p least most (m%:~R : F).
  exists m, 0; split; [exact: le_lt_trans small | by rewrite l0 (ltW m0) | by rewrite mulr1].
have := near _ fm; rewrite subrr normr0 normr_le0 subr_eq0 => /eqP e; exact: esym.
Qed.

Theorem integers_near : Integers_near.
Proof.
move=> F K k V z Z U O delta v v' near.
pose w o : int := O v o - O v' o.
have gapE (A : comRingType) (x : 'rV[A]_K) :
    (x *m map_mx intr U *m (map_mx intr O)^T) 0 v - (x *m map_mx intr U *m (map_mx intr O)^T) 0 v' =
    \sum_o \sum_c x 0 c * (U c o * w o)%:~R.
  rewrite !mxE -sumrB; apply: eq_bigr => o _; rewrite !mxE -mulrBr mulr_suml.
  by apply: eq_bigr => c _; rewrite mxE -rmorphB rmorphM mulrA.
have -> : (Z *m U *m O^T) 0 v - (Z *m U *m O^T) 0 v' = \sum_o \sum_c Z 0 c * (U c o * w o).
  have id m1 m2 (A : 'M[int]_(m1, m2)) : map_mx intr A = A.
    by apply/matrixP => i j; rewrite mxE intz.
  have := gapE _ Z; rewrite !id => ->.
  by apply: eq_bigr => o _; apply: eq_bigr => c _; rewrite intz.
rewrite gapE; have -> : \sum_o \sum_c z 0 c * (U c o * w o)%:~R =
    (\sum_o \sum_c Z 0 c * (U c o * w o))%:~R +
    \sum_o \sum_c (z 0 c - (Z 0 c)%:~R) * (U c o * w o)%:~R.
  rewrite rmorph_sum -big_split; apply: eq_bigr => o _; rewrite rmorph_sum -big_split.
  by apply: eq_bigr => c _ /=; rewrite [(Z 0 c * _)%:~R]intrM -mulrDl addrC subrK.
rewrite ler_add2l ler_oppl -sumrN rmorph_sum mulr_sumr; apply: ler_sum => o _.
rewrite -sumrN rmorph_sum mulr_sumr; apply: ler_sum => c _.
have e : (`|U c o| * `|O v o - O v' o|)%:~R = `|(U c o * w o)%:~R| :> F.
  by rewrite -normrM intr_norm.
by rewrite [X in _ <= delta * X]e (le_trans (ler_norm _)) // normrN normrM ler_wpmul2r.
Qed.

Theorem integers_decide : Integers_decide.
Proof.
move=> F K k V z Z U O delta v v' near gap small; rewrite -subr_gt0.
apply: lt_le_trans (integers_near U O v v' near); rewrite subr_gt0; apply: lt_le_trans small _.
by rewrite ler1z -gtz0_ge1.
Qed.
