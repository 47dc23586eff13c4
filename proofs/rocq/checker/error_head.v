(* proofs/11-verified-readout.md, for the claim *error*: what error_program.v says of one head    *)
(* holds, for real softmax.                                                                       *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions list_checker upper_bound_program.
From Memorization Require Import exp_program exp_series exp_enclosure error_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Average.

Variable R : realType.
Notation toR := (@toR R).

Lemma toR_abs x : toR (Z.abs x) = `|toR x|.
Proof. by rewrite /exp_series.toR -intr_norm; congr (_%:~R); lia. Qed.

Lemma toR_sum (l : seq Z) n : size l = n -> toR (Zsum l) = \sum_(i < n) toR (nth Z0 l i).
Proof.
move=> <-; elim: l => [|x l IHl]; first by rewrite big_ord0.
by rewrite big_ord_recl /= toRD IHl.
Qed.

Lemma toR_dot (u v : seq Z) n : size u = n ->
  toR (Zdot u v) = \sum_(i < n) toR (nth Z0 u i) * toR (nth Z0 v i).
Proof. by move=> <-; exact: (dotE (@toRD R) (@toRM R) (erefl : toR Z0 = 0)). Qed.

Lemma toR_ge0 x : (0 <= toR x) = Z.leb Z0 x.
Proof. by rewrite /exp_series.toR ler0z; lia. Qed.

Lemma toR_quotient x y : 0 <= toR x /\ Z.lt Z0 y ->
  0 <= toR (Z.add (Z.div x y) (Zpos xH)) /\
  toR x <= toR y * toR (Z.add (Z.div x y) (Zpos xH)).
Proof.
rewrite !toR_ge0 => -[/Z.leb_le x0 y0]; have q0 := Z.div_pos x y x0 y0.
split; first by apply/Z.leb_le; lia.
rewrite -toRM; apply: toR_le; have [_ m1] := Z.mod_pos_bound x y y0.
by have := Z_div_mod_eq_full x y; move: (Z.div x y) (Z.modulo x y) m1 => q m m1 ->; lia.
Qed.

Lemma average_sound n (lows gaps column : seq Z) (one : R) (w : 'I_n -> R) :
  size lows = n -> size gaps = n -> size column = n -> 0 < one -> Z.lt Z0 (Zsum lows) ->
  (forall i : 'I_n, 0 <= toR (nth Z0 lows i) /\ toR (nth Z0 lows i) <= one * w i) ->
  (forall i : 'I_n, one * w i <= toR (nth Z0 lows i) + toR (nth Z0 gaps i)) ->
  let bounds := average lows gaps column in
  `|(\sum_i w i * toR (nth Z0 column i)) / (\sum_i w i) - toR bounds.1| <= toR bounds.2.
Proof.
move=> sl sg sc one0 total0 low high; rewrite /average; set c := Z.div _ _.
set rest := map _ column; set num := Z.add (Z.abs _) _.
have restE (i : 'I_n) : toR (nth Z0 rest i) = toR (nth Z0 column i) - toR c.
  by rewrite (nth_map Z0) ?sc // toRD toRN.
have totalE := toR_sum sl.
have total0R : 0 < toR (Zsum lows) by rewrite /exp_series.toR ltr0z; lia.
set S := \sum_i w i.
have S_total : toR (Zsum lows) <= one * S.
  by rewrite totalE mulr_sumr; apply: ler_sum => i _; have [] := low i.
have S0 : 0 < S by rewrite -(pmulr_rgt0 _ one0) (lt_le_trans total0R).
have Sn0 : S != 0 by rewrite gt_eqF.
have e : (\sum_i w i * toR (nth Z0 column i)) / S - toR c =
    (\sum_i w i * toR (nth Z0 rest i)) / S.
  rewrite -[X in _ - X](mulfK Sn0) -mulrBl; congr (_ / _).
  by rewrite mulr_sumr -sumrB; apply: eq_bigr => i _; rewrite restE mulrBr [toR c * _]mulrC.
have numE : one * `|\sum_i w i * toR (nth Z0 rest i)| <= toR num.
  rewrite -{1}(gtr0_norm one0) -normrM mulr_sumr.
  have -> : \sum_(i < n) one * (w i * toR (nth Z0 rest i)) =
      \sum_(i < n) toR (nth Z0 lows i) * toR (nth Z0 rest i) +
      \sum_(i < n) (one * w i - toR (nth Z0 lows i)) * toR (nth Z0 rest i).
    by rewrite -big_split; apply: eq_bigr => i _ /=; ring.
  rewrite /num toRD toR_abs (toR_dot _ sl) (toR_dot _ sg).
  apply: le_trans (ler_norm_add _ _) _; rewrite ler_add2l.
  apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => i _.
  have [_ l2] := low i; have h := high i.
  rewrite normrM [X in _ <= _ * X](_ : _ = `|toR (nth Z0 rest i)|); last first.
    by rewrite (nth_map Z0) ?toR_abs // size_map sc.
  by rewrite ler_wpmul2r // ger0_norm ?subr_ge0 // ler_subl_addl.
rewrite e normrM normfV (gtr0_norm S0) ler_pdivr_mulr //.
have num0 : 0 <= toR num by rewrite (le_trans _ numE) // mulr_ge0 // ltW.
have /toR_quotient[q0 qE] := conj num0 total0.
rewrite -(ler_pmul2l one0) (le_trans numE) // (le_trans qE) // mulrCA mulrC.
by rewrite [X in _ <= X](_ : _ = one * S * toR (Z.add (Z.div num (Zsum lows)) (Zpos xH)));
  [rewrite ler_wpmul2r | rewrite mulrC].
Qed.

End Average.

Section Head.

Variable R : realType.
Notation toR := (@toR R).

Lemma largest_ge logits i : (i < size logits)%N -> Z.le (nth Z0 logits i) (largest logits).
Proof.
rewrite /largest; move: (seq.head Z0 logits) => x0; elim: logits i => // x l IHl [|i] /= il.
  exact: Z.le_max_l.
exact: Z.le_trans (IHl _ il) (Z.le_max_r _ _).
Qed.

(* A head, as averages with unnormalized weights *)
Lemma head_average n d (E : 'M[R]_(n, d)) W e (x : 'I_n -> R) (top : R) j :
  (forall i, (E *m W *m e^T) i 0 = x i + top) ->
  head E W e 0 j = (\sum_i expR (x i) * E i j) / (\sum_i expR (x i)).
Proof.
move=> xE; rewrite /head mxE mulr_suml; apply: eq_bigr => i _.
rewrite [_^T _ _]mxE [softmax _ _ _]mxE.
under eq_bigr => k _ do rewrite xE expRD.
rewrite xE expRD -mulr_suml invfM mulrACA mulfV ?gt_eqF ?expR_gt0 // mulr1.
by rewrite mulrAC.
Qed.

Theorem head_sound n d (E : 'M[R]_(n, d)) W e (logits : seq Z) columns (sigma : R) P r N s
    (j : 'I_d) : 0 <= sigma -> precise P r N -> head_fits P r N s logits ->
  size logits = n -> (j < size columns)%N -> size (nth [::] columns j) = n ->
  (forall i : 'I_n, (E *m W *m e^T) i 0 = toR (nth Z0 logits i) * 2%:R ^ int_of_Z s) ->
  (forall i : 'I_n, E i j = sigma * toR (nth Z0 (nth [::] columns j) i)) ->
  let bounds := nth (Z0, Z0) (head_row P r N s logits columns) j in
  `|head E W e 0 j - sigma * toR bounds.1| <= sigma * toR bounds.2.
Proof.
move=> sigma0 /and3P[P4 r4 suffice] /Z.ltb_lt fits sl jc sc KE EE; lazy zeta.
pose top := largest logits.
pose x (i : 'I_n) := toR (Z.sub (nth Z0 logits i) top) * 2%:R ^ int_of_Z s.
have xE (i : 'I_n) : (E *m W *m e^T) i 0 = x i + toR top * 2%:R ^ int_of_Z s.
  by rewrite KE /x toRD toRN mulrBl subrK.
rewrite (head_average _ xE).
have -> : (\sum_i expR (x i) * E i j) / (\sum_i expR (x i)) = sigma *
    ((\sum_i expR (x i) * toR (nth Z0 (nth [::] columns j) i)) / (\sum_i expR (x i))).
  by rewrite mulrA mulr_sumr; congr (_ / _); apply: eq_bigr => i _; rewrite EE mulrCA.
rewrite -mulrBr normrM (ger0_norm sigma0) ler_wpmul2l // /head_row (nth_map [::]) //.
have below_top (i : 'I_n) : Z.le (Z.sub (nth Z0 logits i) top) Z0.
  by apply/Z.le_sub_0/largest_ge; rewrite sl.
have enclosed (i : 'I_n) := @enclose_sound R P r N s _ P4 r4 suffice (below_top i).
have sw : size (weights P r N s logits) = n by rewrite size_map.
have wE (i : 'I_n) : nth (Z0, Z0) (weights P r N s logits) i =
    enclose P r (coefficients P N) s (Z.sub (nth Z0 logits i) top).
  by rewrite (nth_map Z0) ?sl.
apply: (average_sound (one := 2%:R ^+ P) (w := fun i => expR (x i))) => //.
- by rewrite size_map.
- by rewrite size_map.
- by rewrite exprn_gt0 ?ltr0n.
- move=> i; rewrite (nth_map (Z0, Z0)) ?sw // wE.
  have [l0 l1 _] := enclosed i.
  by split=> //; rewrite toR_ge0; apply/Z.leb_le.
move=> i; rewrite !(nth_map (Z0, Z0)) ?sw // wE -toRD.
have [l0 _ l1] := enclosed i.
by apply: le_trans l1 _; rewrite toRD toRD toRN addrC subrK.
Qed.

End Head.
