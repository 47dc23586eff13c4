(* proofs/19-kernels.md: Theorem 13 (one winner) and Theorem 14 (ties), from exact sums. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import Kernels exact_sums.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma held_ones (F : realFieldType) (key : eqType) (M : softmax_row F key) s :
  held M (fun=> 1) s = (count (winner M) s)%:R.
Proof. by rewrite /held big_const_seq iter_addr_0. Qed.

Section Output.

Variables (F : realFieldType) (key : eqType) (M : softmax_row F key).
Variables (v : key -> F) (s : seq key) (V : F).
Hypotheses (model : admissible M) (far : saturated M).
Hypotheses (V_ge1 : 1 <= V) (v_range : forall j, 0 <= v j <= V).
Hypothesis ones : forall s', subseq s' s -> exact M (scale M * held M (fun=> 1) s').
Hypothesis parts : forall s', subseq s' s -> exact M (scale M * held M v s').

(* Both sums are exact, so what is stored is the quotient of what the winners give. *)
Lemma output_exact N D C stored out : has (winner M) s -> 0 < held M v s ->
  tail M V N D C < eta M -> output M v s N D C stored out ->
  stored (held M v s / held M (fun=> 1) s) out.
Proof.
move=> some positive small.
have V_ge0 : 0 <= V by apply: le_trans V_ge1.
case=> mL [yL] [DL [CL [mA [yA [DA [CA [L [A]]]]]]]].
case=> -[SL SA] [sN DLD CLC DAD CAC] rL rA.
have tL : tail M V (size s) DL CL < eta M by apply: le_lt_trans small; exact: tail_mono.
have tA : tail M V (size s) DA CA < eta M by apply: le_lt_trans small; exact: tail_mono.
have c_neq0 : scale M != 0 by rewrite gt_eqF // c_gt0.
have one_range (j : key) : 0 <= (1 : F) <= V by rewrite ler01 V_ge1.
have count_gt0 : 0 < held M (fun=> 1) s.
  by rewrite held_ones ltr0n -has_count.
have -> : L = scale M * held M (fun=> 1) s.
  apply: (stored_exact model far V_ge1 one_range ones SL tL some _ rL).
  by rewrite mulf_neq0 // gt_eqF.
have -> : A = scale M * held M v s.
  apply: (stored_exact model far V_ge1 v_range parts SA tA some _ rA).
  by rewrite mulf_neq0 // gt_eqF.
by rewrite -mulf_div divff // mul1r.
Qed.

End Output.

Theorem one_winner : One_winner.
Proof.
move=> F key M v t s V N D C stored out model far one s_uniq ts v_range f1 fv small correct outM.
have heldE x s' : uniq s' -> held M x s' = if t \in s' then x t else 0.
  move=> s'u; rewrite /held (eq_bigl (pred1 t)) //; case: ifP => ts'.
    by rewrite -big_filter filter_pred1_uniq // big_seq1.
  by rewrite big_seq_cond big1 // => j /andP[js /eqP jt]; rewrite -jt js in ts'.
have V_ge1 : 1 <= V by case/andP: (v_range t); exact: le_trans.
have c0 := c_gt0 model.
have parts (x : key -> F) : format M (scale M * x t) -> 1 <= x t ->
    forall s', subseq s' s -> exact M (scale M * held M x s').
  move=> fx x1 s' /subseq_uniq/(_ s_uniq) s'u; rewrite heldE //; case: ifP => _.
    by right; rewrite ler_pmulr.
  by left; rewrite mulr0.
have some : has (winner M) s by apply/hasP; exists t; rewrite // one.
have /andP[vt1 _] := v_range t.
have v_range0 j : 0 <= v j <= V by case/andP: (v_range j) => /(le_trans ler01)-> ->.
apply: correct; have := output_exact model far V_ge1 v_range0 _ _ some _ small outM.
rewrite !heldE // ts divr1; apply.
- by apply: parts => //; rewrite mulr1.
- by apply: parts.
- exact: lt_le_trans vt1.
Qed.

Theorem ties : Ties.
Proof.
move=> F key M v k s V B N D C stored out model far B_gt0 V_ge1 positive natural v_range fmt small.
move=> correct outM; have c0 := c_gt0 model.
have vE s' : held M v s' = (\sum_(j <- s' | winner M j) k j)%N%:R.
  by rewrite /held natr_sum; apply: eq_bigr => j /natural[].
have few s' : subseq s' s -> (count (winner M) s' <= count (winner M) s)%N.
  move=> sub; rewrite -!size_filter; apply: size_subseq.
  by rewrite subseq_filter filter_all (subseq_trans (filter_subseq _ _)).
have natural_exact n : (n <= B * count (winner M) s)%N -> exact M (scale M * n%:R).
  case: n => [|n] nB; [by left; rewrite mulr0 | right; split; first exact: fmt].
  by rewrite ler_pmulr // ler1n.
have some : has (winner M) s.
  rewrite has_count lt0n; apply/eqP => none; move: positive.
  rewrite /held big_seq_cond big1 ?ltxx // => j /andP[js win].
  by move: none => /eqP; rewrite -leqn0 leqNgt -has_count => /hasPn/(_ j js); rewrite win.
apply: correct; rewrite -held_ones.
apply: (output_exact model far V_ge1 v_range _ _ some positive small outM) => s' sub.
  by rewrite held_ones; apply: natural_exact; rewrite (leq_trans (few _ sub)) // leq_pmull.
rewrite vE; apply: natural_exact; apply: leq_trans (_ : B * count (winner M) s' <= _)%N.
  rewrite -sum1_count big_distrr /=; apply: leq_sum => j /natural[_]; by rewrite muln1.
by rewrite leq_mul2l few // orbT.
Qed.
