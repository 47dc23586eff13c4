(* proofs/17-generic-contexts.md: Theorem 12 for almost all sequences and weights.                *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Almost_all readout rank_on_curves null_sets
  almost_all_ranks causal_bound theorem_12.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* For almost all T sequences of n tokens and weights of heads of any width dh >= 1, the rows z   *)
(* of all positions, and those of all but the first ones, have the largest rank possible. With a  *)
(* skip connection, so have the rows (x, z).                                                      *)
Definition Theorem12_almost_all : Prop :=
  forall (R : realType) (T n d H dh : nat), (0 < n)%N -> (0 < dh)%N ->
  let z := minn (H * d) in
  let xz := minn (H.+1 * d) in
  almost_all (fun x : 'I_T * 'I_n * 'I_d + bool * 'I_H * ('I_d * 'I_dh) -> R =>
    let X t := \matrix_(i, j) x (inl (t, i, j)) in
    let WQ h := \matrix_(i, j) x (inr (true, h, (i, j))) in
    let WK h := \matrix_(i, j) x (inr (false, h, (i, j))) in
    let W h := WK h *m (WQ h)^T in
    [/\ rank_all (causal_row X (attention X W)) = z (minn T d + T * (n - 1))%N,
        rank_later (causal_row X (attention X W)) = z (T * (n - 1))%N,
        rank_all (skip_row X (attention X W)) = xz (minn T d + T * (n - 1))%N
      & rank_later (skip_row X (attention X W)) = xz (T * (n - 1))%N]).

(* The rows of some positions as one matrix *)
Lemma rank_positions (F : fieldType) T n m (P : pred 'I_n) : exists k
    (position : 'I_k -> 'I_T * 'I_n), forall f : 'I_T -> 'I_n -> 'rV[F]_m,
  \rank (\sum_t \sum_(i | P i) <<f t i>>)%MS =
  \rank (\matrix_l f (position l).1 (position l).2).
Proof.
pose A := [pred p : 'I_T * 'I_n | P p.2]; exists #|A|, enum_val => f.
apply/eqP; rewrite eqn_leq; apply/andP; split; apply: mxrankS.
  apply/sumsmx_subP => t _; apply/sumsmx_subP => i Pi; rewrite genmxE.
  have ti : (t, i) \in A by [].
  have := row_sub (enum_rank_in ti (t, i)) (\matrix_l f (enum_val l).1 (enum_val l).2).
  by rewrite rowK enum_rankK_in.
apply/row_subP => l; rewrite rowK; set p := enum_val l; have Pp : P p.2 := enum_valP l.
by rewrite (sumsmx_sup p.1) // (sumsmx_sup p.2) // genmxE.
Qed.

Section Positions.

Variables (R : realType) (T n d H dh k : nat) (position : 'I_k -> 'I_T * 'I_n).

Let I := [finType of 'I_T * 'I_n * 'I_d + bool * 'I_H * ('I_d * 'I_dh)].
Let X (x : I -> R) t : 'M[R]_(n, d) := \matrix_(i, j) x (inl (t, i, j)).
Let WQ (x : I -> R) h : 'M[R]_(d, dh) := \matrix_(i, j) x (inr (true, h, (i, j))).
Let WK (x : I -> R) h : 'M[R]_(d, dh) := \matrix_(i, j) x (inr (false, h, (i, j))).
Let W x h := WK x h *m (WQ x h)^T.
Let heads x t i := causal_row (X x) (attention (X x) (W x)) t i.
Let skip x t i := skip_row (X x) (attention (X x) (W x)) t i.

Let E l (x : I -> R) : 'M[R]_((position l).2.+1, d) := context (X x (position l).1) (position l).2.
Let Q x : 'M[R]_(k, d) := \matrix_l row (position l).2 (X x (position l).1).
Let Z x := intermediates (E^~ x) (Q x) (W x).

Lemma heads_of_positions x : \matrix_l heads x (position l).1 (position l).2 = Z x.
Proof.
apply/row_matrixP => l; rewrite [LHS]rowK [RHS]rowK; apply: (congr1 mxvec).
by apply/row_matrixP => h; rewrite [LHS]rowK [RHS]rowK [row l (Q x)]rowK.
Qed.

Lemma skip_of_positions x : \matrix_l skip x (position l).1 (position l).2 = row_mx (Q x) (Z x).
Proof.
apply/row_matrixP => l; rewrite [LHS]rowK row_row_mx -heads_of_positions.
by rewrite [row l (Q x)]rowK [row l (\matrix__ _)]rowK.
Qed.

Lemma numbers_E l : of_numbers (E l).
Proof.
move=> i j; left; exists (inl ((position l).1, widen_ord (ltn_ord (position l).2) i, j)).
by move=> x; rewrite !mxE.
Qed.

Lemma numbers_Q : of_numbers Q.
Proof.
by move=> l j; left; exists (inl ((position l).1, (position l).2, j)) => x; rewrite !mxE.
Qed.

Lemma numbers_WQ h : of_numbers (WQ^~ h).
Proof. exact: of_numbers_matrix. Qed.

Lemma numbers_WK h : of_numbers (WK^~ h).
Proof. exact: of_numbers_matrix. Qed.

Lemma almost_all_heads r :
  let reach x := (r <= \rank (\matrix_l heads x (position l).1 (position l).2))%N in
  (exists x, reach x) -> almost_all reach.
Proof.
move=> reach [x0 r0].
have some : exists x, (r <= \rank (Z x))%N by exists x0; rewrite -heads_of_positions.
have := almost_all_ranks numbers_E numbers_Q numbers_WQ numbers_WK some.
by apply: almost_all_imply => x; rewrite /reach heads_of_positions.
Qed.

Lemma almost_all_skip r :
  let reach x := (r <= \rank (\matrix_l skip x (position l).1 (position l).2))%N in
  (exists x, reach x) -> almost_all reach.
Proof.
move=> reach [x0 r0].
have some : exists x, (r <= \rank (row_mx (Q x) (Z x)))%N.
  by exists x0; rewrite -skip_of_positions.
have := almost_all_ranks_beside numbers_E numbers_Q numbers_Q numbers_WQ numbers_WK some.
by apply: almost_all_imply => x; rewrite /reach skip_of_positions.
Qed.

End Positions.

Theorem theorem_12_almost_all : Theorem12_almost_all.
Proof.
move=> R T n d H dh n0 dh0 z xz; have [upper exact] := @theorem_12 R T n d H n0.
have best : exists (a : 'cV[R]_d) (c : 'I_H -> R), let W h := c h *: (a *m a^T) in
    let reaches r rank_of := exists X : 'I_T -> 'M[R]_(n, d), (r <= rank_of X)%N in
    [/\ reaches (z (minn T d + T * (n - 1)))%N (fun X => rank_all (causal_row X (attention X W))),
        reaches (z (T * (n - 1)))%N (fun X => rank_later (causal_row X (attention X W))),
        reaches (xz (minn T d + T * (n - 1)))%N (fun X => rank_all (skip_row X (attention X W)))
      & reaches (xz (T * (n - 1)))%N (fun X => rank_later (skip_row X (attention X W)))].
  have [d0|d0] := posnP d.
    have zero m r : (minn (m * d) r <= 0)%N by rewrite d0 muln0 min0n.
    by exists 0, (fun=> 0); split; exists (fun=> 0); apply: leq_trans (zero _ _) (leq0n _).
  exists (const_mx 1), (fun h => h.+1%:R).
  have [|h|g h|[X1 e1] [X2 e2] [X3 e3] [X4 e4]] := exact (const_mx 1) (fun h => h.+1%:R).
  - by apply/eqP => /colP/(_ (Ordinal d0))/eqP; rewrite !mxE oner_eq0.
  - by rewrite ltr0n.
  - by move=> /eqP; rewrite eqr_nat eqSS => /eqP/val_inj.
  by split; [exists X1|exists X2|exists X3|exists X4]; apply: eq_leq.
have {best} [a [c [all_z later_z all_xz later_xz]]] := best.
have [WQ [WK [_ _ WE]]] := wide_rank_one a (fun h => c h *: a) dh0.
pose I := [finType of 'I_T * 'I_n * 'I_d + bool * 'I_H * ('I_d * 'I_dh)].
pose X (x : I -> R) t : 'M[R]_(n, d) := \matrix_(i, j) x (inl (t, i, j)).
pose W (x : I -> R) h : 'M[R]_d := (\matrix_(i, j) x (inr (false, h, (i, j)))) *m
  (\matrix_(i, j) x (inr (true, h, (i, j))) : 'M[R]_(d, dh))^T.
have numbers (X0 : 'I_T -> 'M[R]_(n, d)) : exists x, X x = X0 /\
    W x = (fun h => c h *: (a *m a^T)).
  exists (fun i => match i with
    | inl (t, i, j) => X0 t i j
    | inr (true, h, (i, j)) => WQ h i j
    | inr (false, h, (i, j)) => WK i j
    end); split; apply/funext => h; first by apply/matrixP => i j; rewrite mxE.
  have := congr1 (fun w => w h) WE; rewrite /= linearZ /= -scalemxAr => <-.
  by congr (_ *m _^T); apply/matrixP => i j; rewrite mxE.
have heads P r : (exists X0 : 'I_T -> 'M[R]_(n, d), (r <= \rank (\sum_t \sum_(i | P i)
      <<causal_row X0 (attention X0 (fun h => c h *: (a *m a^T))) t i>>)%MS)%N) ->
    almost_all (fun x => (r <= \rank (\sum_t \sum_(i | P i)
      <<causal_row (X x) (attention (X x) (W x)) t i>>)%MS)%N).
  have [k [position e]] := @rank_positions R T n (H * d) P.
  move=> [X0 r0]; have [x [Xx Wx]] := numbers X0.
  apply: almost_all_imply (@almost_all_heads R T n d H dh k position r _) => [y|].
    by rewrite e.
  by exists x; rewrite -(e (fun t i => causal_row (X x) (attention (X x) (W x)) t i)) Xx Wx.
have skip P r : (exists X0 : 'I_T -> 'M[R]_(n, d), (r <= \rank (\sum_t \sum_(i | P i)
      <<skip_row X0 (attention X0 (fun h => c h *: (a *m a^T))) t i>>)%MS)%N) ->
    almost_all (fun x => (r <= \rank (\sum_t \sum_(i | P i)
      <<skip_row (X x) (attention (X x) (W x)) t i>>)%MS)%N).
  have [k [position e]] := @rank_positions R T n (d + H * d) P.
  move=> [X0 r0]; have [x [Xx Wx]] := numbers X0.
  apply: almost_all_imply (@almost_all_skip R T n d H dh k position r _) => [y|].
    by rewrite e.
  by exists x; rewrite -(e (fun t i => skip_row (X x) (attention (X x) (W x)) t i)) Xx Wx.
have := almost_all_and (almost_all_and (heads _ _ all_z) (heads _ _ later_z))
  (almost_all_and (skip _ _ all_xz) (skip _ _ later_xz)).
apply: almost_all_imply => x [[ge1 ge2] [ge3 ge4]]; have [le1 le2 le3 le4] := upper (X x) (W x).
by split; apply: anti_leq; apply/andP; split.
Qed.
