(* proofs/17-generic-contexts.md: Theorem 12 (causal layers, all positions). The largest rank *)
(* over all sequences and weights, in each of four cases.                                     *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax rank_one_heads readout causal_bound
  causal_claim
  causal_growth.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Position i of a sequence X t (rows are tokens) has the tokens up to i as context and its own *)
(* token as query.                                                                              *)
Definition attention (R : realType) T n d H (X : 'I_T -> 'M[R]_(n, d)) (W : 'I_H -> 'M[R]_d) t (i :
  'I_n) (h : 'I_H) :
    'rV[R]_i.+1 := (softmax (context (X t) i *m W h *m (row i (X t))^T))^T.

(* T sequences of n tokens. The rows z of all positions, or of all but the first ones; then (x, *)
(* z), with a skip connection. No sequences and weights have a larger rank, and heads c_h a a^T *)
(* with any a <> 0 and different c_h > 0 have that rank for some sequences.                     *)
Definition Theorem12 : Prop :=
  forall (R : realType) (T n d H : nat), (0 < n)%N ->
  let z := minn (H * d) in
  let xz := minn (H.+1 * d) in
  (forall (X : 'I_T -> 'M[R]_(n, d)) (W : 'I_H -> 'M[R]_d),
    [/\ (rank_all (causal_row X (attention X W)) <= z (minn T d + T * (n - 1)))%N,
        (rank_later (causal_row X (attention X W)) <= z (T * (n - 1)))%N,
        (rank_all (skip_row X (attention X W)) <= xz (minn T d + T * (n - 1)))%N
      & (rank_later (skip_row X (attention X W)) <= xz (T * (n - 1)))%N]) /\
  (forall (a : 'cV[R]_d) (c : 'I_H -> R), a != 0 -> (forall h, 0 < c h) -> injective c ->
    let W h := c h *: (a *m a^T) in
    [/\ exists X : 'I_T -> 'M[R]_(n, d),
          rank_all (causal_row X (attention X W)) = z (minn T d + T * (n - 1))%N,
        exists X : 'I_T -> 'M[R]_(n, d),
          rank_later (causal_row X (attention X W)) = z (T * (n - 1))%N,
        exists X : 'I_T -> 'M[R]_(n, d),
          rank_all (skip_row X (attention X W)) = xz (minn T d + T * (n - 1))%N
      & exists X : 'I_T -> 'M[R]_(n, d),
          rank_later (skip_row X (attention X W)) = xz (T * (n - 1))%N]).

Section Rows.

Variables (R : realType) (d H : nat) (a : 'cV[R]_d) (c : 'I_H -> R).
Hypotheses (a0 : a != 0) (c0 : forall h, 0 < c h) (ci : injective c).

Let W h := c h *: (a *m a^T).

(* Sequences as functions: the rows of position i *)
Definition tokens (s : nat -> 'rV[R]_d) i : 'M[R]_(i.+1, d) := \matrix_(j < i.+1) s j.
Definition heads (s : nat -> 'rV[R]_d) i : 'rV[R]_(H * d) := mxvec (\matrix_h head (tokens s i) (W
  h) (s i)).
Definition skip (s : nat -> 'rV[R]_d) i : 'rV[R]_(d + H * d) := row_mx (s i) (heads s i).

Lemma heads_local s s' i : (forall j, (j <= i)%N -> s j = s' j) -> heads s i = heads s' i.
Proof.
move=> ss; rewrite /heads ss // (_ : tokens s i = tokens s' i) //.
by apply/row_matrixP => j; rewrite !rowK ss // -ltnS.
Qed.

Lemma skip_local s s' i : (forall j, (j <= i)%N -> s j = s' j) -> skip s i = skip s' i.
Proof. by move=> ss; rewrite /skip (heads_local ss) ss. Qed.

Lemma tokens_update s i x : tokens (update s i.+1 x) i.+1 = append (tokens s i) x.
Proof.
apply/row_matrixP => j; rewrite !rowK /update; case: unliftP => [k ->|->] /=.
  by rewrite /bump leqNgt ltn_ord add0n rowK ltn_eqF // ltn_ord.
by rewrite eqxx.
Qed.

Lemma skip_update s i x : skip (update s i.+1 x) i.+1 =
  row_mx x (mxvec (\matrix_h head (append (tokens s i) x) (a *m (c h *: a)^T) x)).
Proof.
have uE : update s i.+1 x i.+1 = x by rewrite /update eqxx.
have WE h : W h = a *m (c h *: a)^T by rewrite /W [(c h *: a)^T]linearZ /= -scalemxAr.
rewrite /skip /heads tokens_update uE; apply: (congr1 (fun M => row_mx x (mxvec M))).
by apply/row_matrixP => h; rewrite [LHS]rowK [RHS]rowK WE.
Qed.

(* Functionals that vanish on the rows of all next tokens are zero. *)
Lemma skip_spans s i (L : 'M[R]_(d + H * d)) : ~~ row_full L -> exists x, ~~ (skip (update s i.+1
  x) i.+1 <= L)%MS.
Proof.
move=> Lf; apply: contrapT => /forallNP in_L; case/negP: Lf; rewrite row_full_unit.
pose K := cokermx L; suff K0 : K = 0.
  by rewrite -row_full_unit -sub1mx submxE -/K K0 mulmx0.
apply/matrixP => l j; rewrite [RHS]mxE.
pose u0 : 'cV[R]_d := \col_k K (lshift (H * d) k) j.
pose u h : 'cV[R]_d := \col_k K (rshift d (mxvec_index h k)) j.
have zero x : dot x u0 + \sum_h dot (head (append (tokens s i) x) (a *m (c h *: a)^T) x) (u h) = 0.
  have /negP := in_L x; rewrite negbK submxE -/K skip_update => /eqP/rowP/(_ j);
    rewrite [X in _ = X]mxE => e.
  apply: etrans e; rewrite -[K in RHS]vsubmxK mul_row_col mxE mxvec_mul; congr (_ + _).
    by rewrite /dot [LHS]mxE [RHS]mxE; apply: eq_bigr => k _; rewrite [u0 _ _]mxE [usubmx _ _ _]mxE.
  apply: eq_bigr => h _; rewrite /dot mxE; apply: eq_bigr => k _.
  by rewrite [u h _ _]mxE [(\matrix__ _) _ _]mxE [dsubmx _ _ _]mxE.
have u_0 h : u h = 0 by apply: (functional_zero _ a0 c0 ci zero h).
have u00 : u0 = 0.
  have := total_zero a0 c0 zero; rewrite big1 ?addr0 // => h _; exact: u_0.
case: (split_ordP l) => k ->; first by have /colP/(_ k) := u00; rewrite !mxE.
by case/mxvec_indexP: k => h k; have /colP/(_ k) := u_0 h; rewrite !mxE.
Qed.

Lemma heads_spans s i (L : 'M[R]_(H * d)) : ~~ row_full L -> exists x, ~~ (heads (update s i.+1 x)
  i.+1 <= L)%MS.
Proof.
move=> Lf; have [|x xL] := @skip_spans s i (block_mx 1%:M 0 0 L).
  apply: contra Lf; rewrite /row_full rank_diag_block_mx mxrank1 => /eqP/addnI/eqP //.
exists x; apply: contra xL => /submxP[D DL]; apply/submxP.
by exists (row_mx (update s i.+1 x i.+1) D); rewrite mul_row_block !mulmx0 mulmx1 addr0 add0r -DL.
Qed.

(* First positions *)
Lemma heads_first s : heads s 0 = mxvec ((const_mx 1 : 'cV[R]_H) *m s 0%N).
Proof.
rewrite /heads; congr (mxvec _); apply/row_matrixP => h; rewrite rowK row_mul.
rewrite (_ : row h (const_mx 1) = 1%:M) ?mul1mx; last by apply/matrixP => i j; rewrite !ord1 !mxE.
rewrite /head mulmx_sum_row big_ord1 [_^T _ _]mxE rowK.
by have := softmax_sum (tokens s 0 *m W h *m (s 0%N)^T) (ltn0Sn 0); rewrite big_ord1 => ->;
  rewrite scale1r.
Qed.

Lemma heads_token (h : 'I_H) s : heads s 0 *m lin1_mx (row h \o vec_mx) = s 0%N.
Proof.
rewrite mul_rV_lin1 /= heads_first mxvecK row_mul.
by rewrite (_ : row h (const_mx 1) = 1%:M) ?mul1mx //; apply/matrixP => i j; rewrite !ord1 !mxE.
Qed.

Lemma skip_token s : skip s 0 *m col_mx 1%:M 0 = s 0%N.
Proof. by rewrite /skip mul_row_col mulmx1 mulmx0 addr0. Qed.

(* From functions to matrices *)
Definition sequence n (s : nat -> 'rV[R]_d) : 'M[R]_(n, d) := \matrix_(i < n) s i.

Lemma context_sequence n (s : nat -> 'rV[R]_d) (i : 'I_n) : context (sequence n s) i = tokens s i.
Proof. by apply/row_matrixP => j; rewrite row_rowsub !rowK. Qed.

Lemma causal_row_heads T n (s : 'I_T -> nat -> 'rV[R]_d) t (i : 'I_n) :
  causal_row (fun t => sequence n (s t)) (attention (fun t => sequence n (s t)) W) t i = heads (s
    t) i.
Proof. by rewrite /causal_row /attention /heads context_sequence rowK. Qed.

Lemma skip_row_skip T n (s : 'I_T -> nat -> 'rV[R]_d) t (i : 'I_n) :
  skip_row (fun t => sequence n (s t)) (attention (fun t => sequence n (s t)) W) t i = skip (s t) i.
Proof. by rewrite /skip_row causal_row_heads rowK. Qed.

End Rows.

Theorem theorem_12 : Theorem12.
Proof.
move=> R T n d H n0 z xz.
have sum1 X W t (i : 'I_n) h : \sum_j @attention R T n d H X W t i h 0 j = 1.
  rewrite -[RHS](softmax_sum (context (X t) i *m W h *m (row i (X t))^T) (ltn0Sn i)).
  by apply: eq_bigr => j _; rewrite mxE.
have upper (X : 'I_T -> 'M[R]_(n, d)) W := @theorem_12_bound R T n d H X (attention X W) n0 (sum1 X
  W).
split=> [X W|a c a0 c0 ci W]; first exact: upper.
case: n n0 sum1 upper => // m _ _ upper; rewrite subSS subn0.
have eq_all N (f g : 'I_T -> 'I_m.+1 -> 'rV[R]_N) : (forall t i, f t i = g t i) -> rank_all f =
  rank_all g.
  by move=> fg; congr (\rank _); apply: eq_bigr => t _; apply: eq_bigr => i _; rewrite fg.
have eq_later N (f g : 'I_T -> 'I_m.+1 -> 'rV[R]_N) : (forall t i, f t i = g t i) -> rank_later f =
  rank_later g.
  by move=> fg; congr (\rank _); apply: eq_bigr => t _; apply: eq_bigr => i _; rewrite fg.
split.
- have [H0|H0] := posnP H.
    exists (fun=> 0); apply: anti_leq; rewrite /z; have := upper (fun=> 0) W;
      rewrite subSS subn0 => -[-> _ _ _].
    have e : (H * d = 0)%N by rewrite H0.
    by apply: leq_trans (leq0n _); apply: leq_trans (geq_minl _ _) (eq_leq e).
  have [s sr] := @all_rows R _ d T (heads a c) (@heads_local _ _ _ a c) (heads_spans a0 c0 ci) _ m
    (@heads_token _ _ _ a c (Ordinal H0)).
  exists (fun t => sequence m.+1 (s t)); apply: anti_leq; have := upper (fun t => sequence m.+1 (s
    t)) W; rewrite subSS subn0 => -[-> _ _ _].
  by rewrite (eq_all _ _ _ (causal_row_heads a c s)); exact: sr.
- have [s sr] := @later_rows R _ d T (heads a c) (@heads_local _ _ _ a c) (heads_spans a0 c0 ci) m.
  exists (fun t => sequence m.+1 (s t)); apply: anti_leq; have := upper (fun t => sequence m.+1 (s
    t)) W; rewrite subSS subn0 => -[_ -> _ _].
  by rewrite (eq_later _ _ _ (causal_row_heads a c s)); exact: sr.
- have [s sr] := @all_rows R _ d T (skip a c) (@skip_local _ _ _ a c) (skip_spans a0 c0 ci) _ m
  (@skip_token _ _ _ a c).
  exists (fun t => sequence m.+1 (s t)); apply: anti_leq; have := upper (fun t => sequence m.+1 (s
    t)) W; rewrite subSS subn0 => -[_ _ -> _].
  by rewrite (eq_all _ _ _ (skip_row_skip a c s)) /xz mulSn; exact: sr.
- have [s sr] := @later_rows R _ d T (skip a c) (@skip_local _ _ _ a c) (skip_spans a0 c0 ci) m.
  exists (fun t => sequence m.+1 (s t)); apply: anti_leq; have := upper (fun t => sequence m.+1 (s
    t)) W; rewrite subSS subn0 => -[_ _ _ ->].
  by rewrite (eq_later _ _ _ (skip_row_skip a c s)) /xz mulSn; exact: sr.
Qed.
