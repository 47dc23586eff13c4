(* proofs/21-compact-decoders.md: Propositions 21.2 (b) and 21.3 together. Integers decide what a *)
(* decoder of saturated heads recites in real arithmetic.                                         *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions exp_series saturated_heads integer_readout.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* A position sees the n tokens of E; its own is x. The logits of each head are integers, and     *)
(* that of the token "picked" leads by 128 or more. Softmax attention in real arithmetic, where z *)
(* is x and what heads give, then gives differences of logits that are nearly those of integers.  *)
Definition Margins : Prop :=
  forall (R : realType) (n d H k V : nat) (E : 'M[int]_(n, d)) (x : 'rV[int]_d)
      (W : 'I_H -> 'M[int]_d) (picked : 'I_H -> 'I_n)
      (U : 'M[int]_(d + H * d, k)) (O : 'M[int]_(V, k)),
    (forall j c, is_sign (E j c)) ->
    (forall h j, j != picked h ->
      (E *m W h *m x^T) j 0 + 128 <= (E *m W h *m x^T) (picked h) 0) ->
  let real a b (A : 'M[int]_(a, b)) : 'M[R]_(a, b) := map_mx intr A in
  let Z := row_mx x (mxvec (\matrix_h row (picked h) E)) in
  let z := row_mx (real _ _ x)
    (mxvec (\matrix_h head (real _ _ E) (real _ _ (W h)) (real _ _ x))) in
  forall v v' : 'I_V,
  ((Z *m U *m O^T) 0 v - (Z *m U *m O^T) 0 v')%:~R -
    (2 * (n - 1)%:Z * (\sum_o \sum_c `|U c o| * `|O v o - O v' o|))%:~R * 2%:R ^- 128 <=
  (z *m real _ _ U *m (real _ _ O)^T) 0 v - (z *m real _ _ U *m (real _ _ O)^T) 0 v'.

(* So if the integers prefer the token v to v', real arithmetic does, too.                        *)
Definition Recitation : Prop :=
  forall (R : realType) (n d H k V : nat) (E : 'M[int]_(n, d)) (x : 'rV[int]_d)
      (W : 'I_H -> 'M[int]_d) (picked : 'I_H -> 'I_n)
      (U : 'M[int]_(d + H * d, k)) (O : 'M[int]_(V, k)) (v v' : 'I_V),
    (forall j c, is_sign (E j c)) ->
    (forall h j, j != picked h ->
      (E *m W h *m x^T) j 0 + 128 <= (E *m W h *m x^T) (picked h) 0) ->
  let real a b (A : 'M[int]_(a, b)) : 'M[R]_(a, b) := map_mx intr A in
  let Z := row_mx x (mxvec (\matrix_h row (picked h) E)) in
  let z := row_mx (real _ _ x)
    (mxvec (\matrix_h head (real _ _ E) (real _ _ (W h)) (real _ _ x))) in
    0 < (Z *m U *m O^T) 0 v - (Z *m U *m O^T) 0 v' ->
    2 * (n - 1)%:Z * (\sum_o \sum_c `|U c o| * `|O v o - O v' o|) < 2 ^+ 128 ->
  (z *m real _ _ U *m (real _ _ O)^T) 0 v' < (z *m real _ _ U *m (real _ _ O)^T) 0 v.

Theorem margins : Margins.
Proof.
move=> R n d H k V E x W picked U O signs leads real Z z v v'.
set S := \sum_o _; pose delta : R := 2 * (n - 1)%:R * expR (- 128%:R).
have near c : `|z 0 c - (Z 0 c)%:~R| <= delta.
  have [c'|c'] := split_ordP c => ->.
    by rewrite /z /Z !row_mxEl mxE subrr normr0 !mulr_ge0 ?ler0n ?(ltW (expR_gt0 _)).
  rewrite /z /Z !row_mxEr; case/mxvec_indexP: c' => h j.
  rewrite !mxvecE [X in `|X - _|]mxE [X in _ - X%:~R]mxE [X in _ - X%:~R]mxE.
  have -> : (E (picked h) j)%:~R = real _ _ E (picked h) j by rewrite mxE.
  apply: saturated => [i l|i ip].
    rewrite mxE; case/orP: (signs i l) => /eqP->.
      by rewrite mulr1z normr1.
    by rewrite rmorphN1 normrN1.
  have e l : (real _ _ E *m real _ _ (W h) *m (real _ _ x)^T) l 0 = ((E *m W h *m x^T) l 0)%:~R.
    by rewrite /real map_trmx -!map_mxM mxE.
  by rewrite !e -[128%:R]/((128 : int)%:~R) -intrD ler_int leads.
apply: le_trans (integers_near U O v v' near); rewrite ler_add2l ler_opp2 /delta.
have -> : 2 * (n - 1)%:R * expR (- 128%:R) * S%:~R =
    (2 * (n - 1)%:Z * S)%:~R * expR (- 128%:R) :> R.
  by rewrite !intrM mulrAC pmulrn.
apply: ler_wpmul2l (exp_below (lexx _)).
by rewrite ler0z !mulr_ge0 ?sumr_ge0 // => o _; rewrite sumr_ge0 // => c _; rewrite mulr_ge0.
Qed.

Theorem recitation : Recitation.
Proof.
move=> R n d H k V E x W picked U O v v' signs leads real Z z gap small; rewrite -subr_gt0.
refine (lt_le_trans _ (margins R U O signs leads v v')); rewrite subr_gt0.
apply: lt_le_trans (_ : 1 <= _); last by rewrite ler1z -gtz0_ge1.
rewrite ltr_pdivr_mulr ?mul1r ?exprn_gt0 ?ltr0n //.
by rewrite -[2%:R]/((2 : int)%:~R) -rmorphX ltr_int.
Qed.
