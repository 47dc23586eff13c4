(* proofs/15-contexts.md: for Theorem 9, almost all queries. The measure of a box is the product  *)
(* of the lengths of its sides; so a property of almost all numbers is one of some.               *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals ereal topology normedtype sequences measure
  lebesgue_measure lebesgue_integral.
From Memorization Require Import Almost_all.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Lemma measurable_half_open (R : realType) (a b : R) :
  measurable (`]a, b]%classic : set (real_line R)).
Proof. exact: measurable_itv. Qed.

Lemma length_half_open (R : realType) (a b : R) : a <= b ->
  volume (real_line R) `]a, b]%classic = (b - a)%:E.
Proof.
move=> ab; rewrite [LHS]lebesgue_measure_itv hlength_itv /= lte_fin lt_neqAle ab andbT.
by case: eqP => [->|_]; rewrite ?subrr // EFinB.
Qed.

Lemma volume_of_box_measurable (R : realType) N (a b : 'I_N -> R) : (forall i, a i <= b i) ->
  let box := [set p : space R N | forall i : 'I_N, a i < coordinate p i <= b i] in
  measurable box /\ volume (space R N) box = (\prod_i (b i - a i))%:E.
Proof.
elim: N a b => [|N IHN] a b ab box.
  rewrite (_ : box = setT); last by apply/seteqP; split=> // p _ [].
  by split=> //; rewrite big_ord0 [LHS]diracE in_setT.
have [mB vB] := IHN (a \o lift ord0) (b \o lift ord0) (fun i => ab (lift ord0 i)).
set B := [set p | _] in mB vB; rewrite (_ : box = `]a ord0, b ord0]%classic `*` B).
  split; first by apply: measurableM => //; exact: measurable_half_open.
  rewrite [LHS]product_measure1E //; last exact: measurable_half_open.
  by rewrite length_half_open // [X in (_ * X)%E]vB big_ord_recl.
apply/seteqP; split=> [p p_in|p [p0 p_in] i].
  split=> [|i]; first by rewrite /= in_itv; exact: (p_in ord0).
  exact: (p_in (lift ord0 i)).
case: (unliftP ord0 i) => [j|] ->; first exact: (p_in j).
by move: p0; rewrite /= in_itv.
Qed.

Theorem volume_of_box : Volume_of_box.
Proof. by move=> R N a b ab; have [_] := volume_of_box_measurable ab. Qed.

Lemma almost_all_some (R : realType) (I : finType) (P : (I -> R) -> Prop) :
  almost_all P -> exists x, P x.
Proof.
move=> [A [mA A0 PA]]; apply: contrapT => none.
have [mB vB] := @volume_of_box_measurable R #|I| (fun=> 0) (fun=> 1) (fun=> ler01).
have := le_measure (volume (space R #|I|)) (mem_set mB) (mem_set mA).
move=> /(_ (fun p _ => PA p (fun Pp => none (ex_intro P _ Pp)))).
by rewrite [X in (_ <= X)%E]A0 [X in (X <= _)%E]vB big1 ?lee_fin ?ler10 // => i _; rewrite subr0.
Qed.
