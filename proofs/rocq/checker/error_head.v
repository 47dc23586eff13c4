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

Lemma toR_quotient x t S : 0 <= toR x /\ Z.lt Z0 t ->
  let q := Z.add (Z.shiftr (Z.mul x (Z.add (reciprocal S t) (Zpos xH))) (Z.of_nat S)) (Zpos xH) in
  0 <= toR q /\ toR x <= toR t * toR q.
Proof.
lazy zeta; rewrite !toR_ge0 /reciprocal => -[/Z.leb_le x0 t0].
have pow0 : Z.lt Z0 (Z.pow 2 (Z.of_nat S)) by apply: Z.pow_pos_nonneg; lia.
rewrite Z.shiftr_div_pow2; last by lia.
move: (Z.pow _ _) pow0 => q q0.
have r0 := Z.div_pos q t (Z.lt_le_incl _ _ q0) t0.
have [_ r1] := Z.mod_pos_bound q t t0; have := Z_div_mod_eq_full q t.
move: (Z.div q t) (Z.modulo q t) r0 r1 => rho m r0 m1 qE.
have x1 : Z.le Z0 (Z.mul x (Z.add rho (Zpos xH))) by nia.
have k0 := Z.div_pos _ _ x1 q0; have [_ m2] := Z.mod_pos_bound (Z.mul x (Z.add rho (Zpos xH))) q q0.
have := Z_div_mod_eq_full (Z.mul x (Z.add rho (Zpos xH))) q.
move: (Z.div _ _) (Z.modulo _ _) k0 m2 => k n k0 n1 kE.
split; first by apply/Z.leb_le; lia.
rewrite -toRM; apply: toR_le.
have h1 : Z.le (Z.mul x q) (Z.mul t (Z.mul x (Z.add rho (Zpos xH)))) by nia.
have h2 : Z.le (Z.mul t (Z.mul x (Z.add rho (Zpos xH)))) (Z.mul (Z.mul t (Z.add k (Zpos xH))) q).
  by rewrite kE; nia.
by apply: (Zmult_le_reg_r _ _ q); [lia | exact: Z.le_trans h1 h2].
Qed.

Lemma average_sound n (ws : seq (Z * Z)) column (one : R) (w : 'I_n -> R) S unit most center :
  size ws = n -> size column = n -> 0 < one -> Z.lt Z0 (total ws) -> Z.le Z0 unit -> Z.le Z0 most ->
  (forall i : 'I_n, Z.le (Z.abs (nth Z0 column i)) most) ->
  (forall i : 'I_n, 0 <= toR (nth (Z0, Z0) ws i).1 /\ toR (nth (Z0, Z0) ws i).1 <= one * w i) ->
  (forall i : 'I_n, one * w i <= toR (nth (Z0, Z0) ws i).2) ->
  `|(\sum_i w i * (toR unit * toR (nth Z0 column i))) / (\sum_i w i) - toR center| <=
    toR (radius S unit most ws column center).
Proof.
move=> sw sc one0 total0 unit0 most0 mostP low high; rewrite /radius; set t := total ws in total0 *.
set num := Z.add (Z.abs _) _.
have sl : size (map fst ws) = n by rewrite size_map.
have sh : size (map snd ws) = n by rewrite size_map.
have lowE (i : 'I_n) : nth Z0 (map fst ws) i = (nth (Z0, Z0) ws i).1
  by rewrite (nth_map (Z0, Z0)) ?sw.
have highE (i : 'I_n) : nth Z0 (map snd ws) i = (nth (Z0, Z0) ws i).2
  by rewrite (nth_map (Z0, Z0)) ?sw.
have unit0R : 0 <= toR unit by exact: (toR_le R unit0).
have tE : toR t = \sum_(i < n) toR (nth (Z0, Z0) ws i).1.
  by rewrite /t /total (toR_sum sl); apply: eq_bigr => i _; rewrite lowE.
have total0R : 0 < toR t by rewrite /exp_series.toR ltr0z; lia.
set W := \sum_i w i.
have W_total : toR t <= one * W.
  by rewrite tE mulr_sumr; apply: ler_sum => i _; have [] := low i.
have W0 : 0 < W by rewrite -(pmulr_rgt0 _ one0) (lt_le_trans total0R).
have Wn0 : W != 0 by rewrite gt_eqF.
pose x (i : 'I_n) := toR unit * toR (nth Z0 column i) - toR center.
have e : (\sum_i w i * (toR unit * toR (nth Z0 column i))) / W - toR center =
    (\sum_i w i * x i) / W.
  rewrite -[X in _ - X](mulfK Wn0) -mulrBl; congr (_ / _).
  by rewrite mulr_sumr -sumrB; apply: eq_bigr => i _; rewrite /x mulrBr [toR center * _]mulrC.
have x_le i : `|x i| <= toR (Z.add (Z.mul unit most) (Z.abs center)).
  rewrite toRD toRM toR_abs; apply: le_trans (ler_norm_sub _ _) _; rewrite ler_add2r.
  by rewrite normrM (ger0_norm unit0R) ler_wpmul2l // -toR_abs; apply: toR_le.
have slackE : \sum_(i < n) (one * w i - toR (nth (Z0, Z0) ws i).1) <= toR (slack ws).
  apply: (@le_trans _ _ (toR (Z.sub (Zsum (map snd ws)) t))); last first.
    by apply: toR_le; rewrite /slack; lia.
  rewrite toRD toRN tE (toR_sum sh) -sumrB; apply: ler_sum => i _; rewrite ler_add2r highE.
  exact: high.
have numE : one * `|\sum_i w i * x i| <= toR num.
  rewrite -{1}(gtr0_norm one0) -normrM mulr_sumr.
  have -> : \sum_(i < n) one * (w i * x i) =
      \sum_(i < n) toR (nth (Z0, Z0) ws i).1 * x i +
      \sum_(i < n) (one * w i - toR (nth (Z0, Z0) ws i).1) * x i.
    by rewrite -big_split; apply: eq_bigr => i _ /=; ring.
  rewrite /num toRD; apply: le_trans (ler_norm_add _ _) _; apply: ler_add.
    rewrite toR_abs toRD !toRM toRN (toR_dot _ sl) tE mulrN mulr_sumr mulr_sumr addrC -sumrB.
    rewrite le_eqVlt; apply/orP; left; apply/eqP; congr (`|_|); apply: eq_bigr => i _.
    by rewrite lowE /x; ring.
  rewrite toRM; apply: le_trans (ler_norm_sum _ _ _) _.
  apply: le_trans (ler_wpmul2r _ slackE); last first.
    by rewrite toR_ge0; apply/Z.leb_le; nia.
  rewrite mulr_suml; apply: ler_sum => i _; have [_ l2] := low i.
  by rewrite normrM ger0_norm ?subr_ge0 // ler_wpmul2l ?subr_ge0.
rewrite e normrM normfV (gtr0_norm W0) ler_pdivr_mulr //.
have num0 : 0 <= toR num by rewrite (le_trans _ numE) // mulr_ge0 // ltW.
have [q0 qE] := toR_quotient S (conj num0 total0).
rewrite -(ler_pmul2l one0) (le_trans numE) // (le_trans qE) // mulrCA mulrC.
set q := toR (Z.add _ _) in q0 *.
by rewrite mulrC [X in _ <= X]mulrC ler_wpmul2r // mulrC.
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

(* Entry j of the row of a head: any center is right with its radius. *)
Theorem head_sound n d (E : 'M[R]_(n, d)) W e (logits : seq Z) column (sigma : R) P r N s S unit
    most center (j : 'I_d) (ws := weights P r N s logits) : 0 <= sigma -> precise P r N ->
  Z.lt Z0 (total ws) -> size logits = n -> size column = n -> Z.le Z0 unit -> Z.le Z0 most ->
  (forall i : 'I_n, Z.le (Z.abs (nth Z0 column i)) most) ->
  (forall i : 'I_n, (E *m W *m e^T) i 0 = toR (nth Z0 logits i) * 2%:R ^ int_of_Z s) ->
  (forall i : 'I_n, E i j = sigma * (toR unit * toR (nth Z0 column i))) ->
  `|head E W e 0 j - sigma * toR center| <= sigma * toR (radius S unit most ws column center).
Proof.
move=> sigma0 /and3P[P4 r4 suffice] fits sl sc unit0 most0 mostP KE EE.
pose top := largest logits.
pose x (i : 'I_n) := - (toR (Z.sub top (nth Z0 logits i)) * 2%:R ^ int_of_Z s).
have xE (i : 'I_n) : (E *m W *m e^T) i 0 = x i + toR top * 2%:R ^ int_of_Z s.
  by rewrite KE /x toRD toRN mulrBl opprB subrK.
rewrite (head_average _ xE).
have -> : (\sum_i expR (x i) * E i j) / (\sum_i expR (x i)) = sigma *
    ((\sum_i expR (x i) * (toR unit * toR (nth Z0 column i))) / (\sum_i expR (x i))).
  by rewrite mulrA mulr_sumr; congr (_ / _); apply: eq_bigr => i _; rewrite EE mulrCA.
rewrite -mulrBr normrM (ger0_norm sigma0) ler_wpmul2l //.
have below_top (i : 'I_n) : Z.le Z0 (Z.sub top (nth Z0 logits i)).
  by apply/Z.le_0_sub/largest_ge; rewrite sl.
have enclosed (i : 'I_n) := @enclose_sound R P r N s _ P4 r4 suffice (below_top i).
have wE (i : 'I_n) : nth (Z0, Z0) ws i =
    enclose P r (coefficients P N) s (Z.sub top (nth Z0 logits i)).
  by rewrite (nth_map Z0) ?sl.
apply: (average_sound (one := 2%:R ^+ P) (w := fun i => expR (x i))) => //.
- by rewrite size_map.
- by rewrite exprn_gt0 ?ltr0n.
- move=> i; rewrite wE; have [l0 l1 _] := enclosed i.
  by split=> //; rewrite toR_ge0; apply/Z.leb_le.
by move=> i; rewrite wE; have [] := enclosed i.
Qed.

End Head.
