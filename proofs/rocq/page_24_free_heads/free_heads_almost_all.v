(* proofs/24-free-heads.md: Theorem 34 with Theorem 33, for almost all data.                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity Free_heads Generic_contexts Almost_all
  narrow_readout null_sets almost_all_ranks readout zero_points lone_examples tangent_span
  derivatives.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Almost.

Variables (R : realType) (I : finType) (d T H dh : nat) (n : 'I_T -> nat).
Variables (E : forall t, (I -> R) -> 'M[R]_(n t, d)) (Q : (I -> R) -> 'M[R]_(T, d)).
Variables (WQ : 'I_H -> 'M[R]_(d, dh)) (u : 'I_H -> 'cV[R]_d).
Hypotheses (nE : forall t, of_numbers (E t)) (nQ : of_numbers Q).

Let rows x := tangent_rows (fun t => E t x) (Q x) WQ u.

Lemma tangent_rows_entry T' (n' : 'I_T' -> nat) (E' : forall t, 'M[R]_(n' t, d)) Q' t h i j :
  tangent_rows E' Q' WQ u t (mxvec_index h (mxvec_index i j)) =
    (uniform_covariance (E' t) *m u h *m (row t Q' *m WQ h)) i j.
Proof. by rewrite mxE mxvecE mxE mxvecE. Qed.

Lemma almost_all_tangent r : (exists x, (r <= \rank (rows x))%N) ->
  almost_all (fun x => (r <= \rank (rows x))%N).
Proof.
pose unit_keys (h : 'I_H) c : 'M[R]_(d, dh) := vec_mx (row h (vec_mx (delta_mx (0 : 'I_1) c))).
have := @almost_all_derivatives R d H dh 1 _ WQ (fun=> 0) u (fun _ _ => 0) unit_keys (fun _ _ => 0)
  I T n E Q nE nQ r.
suff e x : \rank (derivatives WQ (fun=> 0) u (fun _ _ => 0) unit_keys (fun _ _ => 0)
    (fun t => E t x) (Q x)) = \rank (rows x).
  move=> almost [x rx]; apply: almost_all_imply (almost _); last by exists x; rewrite e.
  by move=> y; rewrite e.
rewrite derivatives_one_output; congr (\rank _); apply/row_matrixP => t; rewrite !rowK.
apply/rowP => c; rewrite mxE -/(example_row _ _ _ _).
have := example_row_functional (E t x) (row t (Q x)) WQ u (delta_mx c 0).
rewrite trmx_delta -colE mxE => ->; rewrite /derivative summxE; apply: eq_bigr => h _.
rewrite mulmx0 addr0 /head_step softmax_keys0 mul0mx add0r -/(uniform_covariance _).
have Cs : (uniform_covariance (E t x))^T = uniform_covariance (E t x) := covariance_sym _ _.
move: (uniform_covariance _) Cs => C Cs.
by rewrite !trmx_mul !trmxK Cs -/(unit_keys h c) !mulmxA.
Qed.

End Almost.

Section Numbers.

Variables (R : realType) (d K dh T : nat) (n : 'I_T -> nat) (I : finType).
Variables (token : forall t, 'I_(n t) -> 'I_d -> I) (query : 'I_T -> 'I_d -> I).
Hypotheses (K0 : (0 < K)%N) (Kd : (K <= d)%N) (dhd : (dh + dh <= d)%N).
Hypotheses (n2 : forall t, (1 < n t)%N) (TN : (T <= K.+1 * (d * dh))%N).

(* Some numbers give any contexts and queries. *)
Hypothesis any : forall (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d)), exists x : I -> R,
  (forall t i j, x (@token t i j) = E t i j) /\ forall t j, x (query t j) = Q t j.

Let WQ := @two_blocks R d K dh.

Lemma almost_all_numbers dv : (0 < dv)%N -> almost_all (fun x : I -> R =>
  let E t := \matrix_(i, j) x (@token t i j) in
  let Q := \matrix_(t, j) x (query t j) in
  forall Y : 'M[R]_(T, 1), exists WK WV WO WD, forall t,
    output (@Layer R d K.+1 dh dv 1 WQ WK WV WO WD) (E t) (row t Q) = row t Y).
Proof.
move=> dv0; have almost := @almost_all_tangent R I d T K.+1 dh n
  (fun t x => \matrix_(i, j) x (@token t i j)) (fun x => \matrix_(t, j) x (query t j)) WQ
  (@basis_readout R d K) _ _ T.
apply: almost_all_imply (almost _ _ _) => [x rx Y|t||]; try exact: of_numbers_matrix.
  apply: tangent_rank => //; first exact: basis_readout_sum.
  by apply: anti_leq; rewrite rank_leq_row rx.
have [E [Q free]] := @independent_examples R d _ (fun k (E : 'M[R]_(k, d)) e =>
  example_row E e WQ (@basis_readout R d K)) (functional_zero K0 Kd dhd) T n TN n2.
have [x [xE xQ]] := any E Q; exists x; rewrite -[X in (X <= _)%N](eqP free); apply: eq_leq.
have {}xE t : \matrix_(i, j) x (@token t i j) = E t by apply/matrixP => a b; rewrite mxE xE.
have {}xQ : \matrix_(t, j) x (query t j) = Q by apply/matrixP => a b; rewrite mxE xQ.
congr (\rank _); apply/matrixP => t k; case/mxvec_indexP: k => h k; case/mxvec_indexP: k => i j.
by rewrite !tangent_rows_entry xE xQ.
Qed.

End Numbers.

Theorem free_heads_almost_all_queries : Free_heads_almost_all_queries.
Proof.
move=> R d [//|K] dh /andP[K0 Kd] dhd; exists (@two_blocks R d K dh) => T dv n dv0 n2 TN.
apply: almost_all_numbers => // E Q.
by exists (fun k => match k with
  | inl k => E (tag k) (tagged k).1 (tagged k).2
  | inr (t, j) => Q t j
  end).
Qed.

Theorem free_heads : Free_heads.
Proof.
move=> R n d T [//|K] dh dv n1 /andP[K0 Kd] dhd dv0 TN.
have almost := @almost_all_numbers R d K dh T (fun=> n) [finType of 'I_T * ('I_n * 'I_d) + 'I_T *
  'I_d]
  (fun t i j => inl (t, (i, j))) (fun t j => inr (t, j)) K0 Kd dhd _ TN _ dv dv0.
apply: almost_all_imply (almost _ _) => // [x mem E Q Y|E Q]; last first.
  by exists (fun k => match k with inl (t, (i, j)) => E t i j | inr (t, j) => Q t j end).
by have [WK [WV [WO [WD out]]]] := mem Y; exists (Layer (@two_blocks R d K dh) WK WV WO WD).
Qed.

Theorem free_heads_usual : Free_heads_usual.
Proof.
move=> R n d T H dh dv n1 H1 dh0 Hdh dv0 Td; apply: free_heads => //.
- rewrite H1 -Hdh ltnW // ltnS leq_pmulr //.
- by rewrite -Hdh addnn -mul2n leq_mul2r H1 orbT.
- by rewrite mulnCA Hdh.
Qed.

Lemma sum_mxvec_index (V : zmodType) a b (F : 'I_(a * b) -> V) :
  \sum_g F g = \sum_i \sum_j F (mxvec_index i j).
Proof.
by rewrite pair_bigA /= (reindex _ (curry_mxvec_bij _ _)) /=; apply: eq_bigr => -[i j] _.
Qed.

Theorem free_heads_outputs : Free_heads_outputs.
Proof.
move=> R n d T H m dh dv n1 Hd dhd mdv TN.
apply: almost_all_imply (@free_heads R n d T H dh 1%N n1 Hd dhd (ltn0Sn 0) TN) => x mem E Q Y.
have group (k : 'I_m) : exists WQ WK (U : 'I_H -> 'cV[R]_d), forall t,
    \sum_h head (E t) (WK h *m (WQ h : 'M_(d, dh))^T) (row t Q) *m U h = row t (col k Y).
  have [[WQ WK WV WO WD] out] := mem (col k Y).
  have [U UP] := parts (fun h => WV h *m part WO h *m WD).
  exists WQ, WK, (fun h => part U h) => t; rewrite -out /output /attention_matrix /=.
  pose z := \matrix_h head (E t) (WK h *m (WQ h)^T) (row t Q).
  have := (effectiveP WV WO WD U).2 UP z; rewrite mxvec_part => e.
  transitivity (\sum_h row h z *m part U h); first by apply: eq_bigr => h _; rewrite rowK.
  by rewrite -e; congr (mxvec _ *m _ *m _); apply/row_matrixP => h; rewrite !rowK.
have [WQ /choice[WK /choice[U UP]]] := choice group.
pose p (g : 'I_(m * H)) := enum_val (cast_ord (esym (mxvec_cast m H)) g).
have pE k h : p (mxvec_index k h) = (k, h) by rewrite /p cast_ordK enum_rankK.
pose V g : 'M[R]_(d, m) := U (p g).1 (p g).2 *m delta_mx 0 (p g).1.
have [WV [WO [WD out]]] := @layer_of_readouts R d T (m * H)%N dh dv m (fun=> n) E Q
  (fun g => WQ (p g).1 (p g).2) (fun g => WK (p g).1 (p g).2) V mdv.
exists (Layer (fun g => WQ (p g).1 (p g).2) (fun g => WK (p g).1 (p g).2) WV WO WD) => t.
rewrite out sum_mxvec_index.
transitivity (\sum_k row t (col k Y) *m (delta_mx 0 k : 'M[R]_(1, m))).
  apply: eq_bigr => k _; rewrite -UP mulmx_suml; apply: eq_bigr => h _.
  by rewrite /V pE /= mulmxA.
apply/rowP => l; rewrite summxE (bigD1 l) //= big1 ?addr0 => [|k kl].
  by rewrite mxE big_ord1 !mxE !eqxx mulr1.
by rewrite mxE big_ord1 !mxE [l == k]eq_sym (negPf kl) andbF mulr0.
Qed.
