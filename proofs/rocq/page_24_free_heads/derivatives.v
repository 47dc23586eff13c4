(* proofs/24-free-heads.md: derivatives of a layer in finitely many directions. Where they span   *)
(* all targets at a point at which the layer is zero, some weights memorize all targets; and      *)
(* almost all data have the rank that some data have.                                             *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts Almost_all Free_heads
  limits exponential_polynomials rank_open rank_on_curves null_sets almost_all_ranks zero_points.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Directions.

Variables (R : realType) (d H dh m N : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d, dh)) (U : 'I_H -> 'M[R]_(d, m)).
Variables (dQ dK : 'I_H -> 'I_N -> 'M[R]_(d, dh)) (dU : 'I_H -> 'I_N -> 'M[R]_(d, m)).

(* The derivative of the output on one example in direction c *)
Definition derivative n (E : 'M[R]_(n, d)) (e : 'rV[R]_d) (c : 'I_N) : 'rV[R]_m :=
  \sum_h (head_step E e (WQ h) (WK h) (dQ h c) (dK h c) *m U h +
    head E (WK h *m (WQ h)^T) e *m dU h c).

(* A row for each direction, a column for each number of each target *)
Definition derivatives T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d)) :
    'M[R]_(N, T * m) :=
  \matrix_c mxvec (\matrix_t derivative (E t) (row t Q) c).

Lemma derivativesE T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) Q c t l :
  derivatives E Q c (mxvec_index t l) = derivative (E t) (row t Q) c 0 l.
Proof. by rewrite mxE mxvecE mxE. Qed.

Lemma head_step_sum n (E : 'M[R]_(n, d)) e (A B : 'M[R]_(d, dh)) (a : 'rV[R]_N) DQ DK :
  head_step E e A B (\sum_c a 0 c *: DQ c) (\sum_c a 0 c *: DK c) =
    \sum_c a 0 c *: head_step E e A B (DQ c) (DK c).
Proof.
rewrite /head_step; set C := covariance _ _.
rewrite linear_sum mulmx_sumr mulmx_suml -big_split mulmx_sumr mulmx_suml linear_sum /=.
apply: eq_bigr => c _; rewrite -[RHS]linearZ /= scalemxAl scalemxAr scalerDr.
by rewrite linearZ /= scalemxAr scalemxAl.
Qed.

Lemma derivatives_onto T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) Q (Y : 'M[R]_(T, m)) :
  row_full (derivatives E Q) -> exists (DQ DK : 'I_H -> 'M[R]_(d, dh)) (DU : 'I_H -> 'M[R]_(d, m)),
  forall t, \sum_h (head_step (E t) (row t Q) (WQ h) (WK h) (DQ h) (DK h) *m U h +
    head (E t) (WK h *m (WQ h)^T) (row t Q) *m DU h) = row t Y.
Proof.
move=> full; have /submxP[a aY] := submx_full (mxvec Y) full.
exists (fun h => \sum_c a 0 c *: dQ h c), (fun h => \sum_c a 0 c *: dK h c),
  (fun h => \sum_c a 0 c *: dU h c) => t.
transitivity (\sum_c a 0 c *: derivative (E t) (row t Q) c).
  under [RHS]eq_bigr do rewrite scaler_sumr; rewrite exchange_big; apply: eq_bigr => h _ /=.
  rewrite head_step_sum mulmx_suml mulmx_sumr -big_split; apply: eq_bigr => c _ /=.
  by rewrite scalerDr -scalemxAl -scalemxAr.
apply/rowP => l; have /rowP/(_ (mxvec_index t l)) := aY; rewrite mxvecE => yE.
by rewrite [RHS]mxE yE summxE mxE; apply: eq_bigr => c _; rewrite mxE derivativesE.
Qed.

Lemma derivatives_memorize T dv (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) Q
    (Y : 'M[R]_(T, m)) : (m <= dv)%N ->
  (forall t, \sum_h head (E t) (WK h *m (WQ h)^T) (row t Q) *m U h = 0) ->
  row_full (derivatives E Q) ->
  exists L : layer R d H dh dv m, forall t, output L (E t) (row t Q) = row t Y.
Proof.
move=> mdv zero full.
have onto Y' := derivatives_onto Y' full.
by have [L [_ _ out]] := zero_points mdv zero onto Y ltr01; exists L.
Qed.

Section Almost.

Variables (I : finType) (T : nat) (n : 'I_T -> nat).
Variables (E : forall t, (I -> R) -> 'M[R]_(n t, d)) (Q : (I -> R) -> 'M[R]_(T, d)).
Hypotheses (nE : forall t, of_numbers (E t)) (nQ : of_numbers Q).

Let rows x := derivatives (fun t => E t x) (Q x).

Lemma derivatives_limit (xs : nat -> I -> R) x : (forall i, xs k i @[k --> \oo] --> x i) ->
  forall i j, rows (xs k) i j @[k --> \oo] --> rows x i j.
Proof.
move=> xsx c j; case/mxvec_indexP: j => t l; rewrite /rows derivativesE.
under eq_fun do rewrite derivativesE.
have cE := of_numbers_limit (@nE t) xsx.
have ce a b : (row t (Q (xs k)))^T a b @[k --> \oo] --> (row t (Q x))^T a b.
  by rewrite !mxE; under eq_fun do rewrite !mxE; exact: of_numbers_limit.
have const p q (A : 'M[R]_(p, q)) i j : A i j @[_ --> \oo] --> A i j by exact: cvg_cst.
under eq_fun do rewrite summxE; rewrite summxE.
apply: cvg_sum_seq => h; under eq_fun do rewrite mxE; rewrite mxE.
have tr p q (A : nat -> 'M[R]_(p, q)) (B : 'M[R]_(p, q)) :
    (forall i j, A k i j @[k --> \oo] --> B i j) ->
    forall i j, (A k)^T i j @[k --> \oo] --> B^T i j.
  by move=> AB i j; under eq_fun do rewrite mxE; rewrite mxE; exact: AB.
have cp i j : softmax (E t (xs k) *m (WK h *m (WQ h)^T) *m (row t (Q (xs k)))^T) i j @[k --> \oo]
    --> softmax (E t x *m (WK h *m (WQ h)^T) *m (row t (Q x))^T) i j.
  rewrite (ord1 j); apply: cvg_softmax => {}i; apply: cvg_mul_mx; last exact: ce.
  by apply: cvg_mul_mx; [exact: cE|exact: const].
apply: cvgD; apply: cvg_mul_mx; [|exact: const| |exact: const]; last first.
  by apply: cvg_mul_mx; [exact: tr|exact: cE].
apply: (tr); apply: cvg_mul_mx; last exact: ce.
apply: cvg_mul_mx; last exact: const.
rewrite /covariance; apply: cvg_mul_mx; last exact: cE.
apply: cvg_mul_mx; first exact: tr.
have entry k (v : 'cV[R]_k) i j : (diag_mx v^T - v *m v^T) i j = v i 0 *+ (i == j) - (v *m v^T) i j.
  by rewrite mxE [X in _ + X]mxE mxE mxE.
move=> i j; under eq_fun do rewrite entry; rewrite entry.
by apply: cvgB; [apply: cvgMn; exact: cp|apply: cvg_mul_mx; [exact: cp|exact: tr]].
Qed.

Lemma derivatives_line x y :
  quotient_mx (fun s => rows (fun i => x i + s * (y i - x i))).
Proof.
move=> c j; case/mxvec_indexP: j => t l.
apply: (@exp_quotient_eq _ (fun s => derivative (at_point (line (E t x) (E t y)) s)
    (at_point (row t (line (Q x) (Q y))) s) c 0 l)) => [s|].
  by rewrite /rows derivativesE /at_point map_row -!/(at_point _ s) !at_line !of_numbers_line.
move: (line _ _) (row t _) => P e; rewrite /derivative; apply: quotient_mx_sum => h.
pose W : 'M[R]_d := WK h *m (WQ h)^T.
have sE := quotient_at_point P; have se := quotient_mx_tr (quotient_at_point e).
have sp : quotient_mx (fun s => softmax (at_point P s *m W *m (at_point e s)^T)).
  apply: quotient_mx_eq (quotient_softmax (P *m line W W *m e^T)) => s.
  by rewrite /at_point map_mxM map_mxM map_trmx -/(at_point (line W W) s) at_line on_line_same.
apply: quotient_mxD; apply: quotient_mxM; try exact: quotient_mx_const; last first.
  by apply: quotient_mxM => //; exact: quotient_mx_tr.
apply: quotient_mx_tr; apply: quotient_mxM => //.
apply: quotient_mxM; last exact: quotient_mx_const.
apply: quotient_mxM => //; apply: quotient_mxM; first exact: quotient_mx_tr.
apply: quotient_mxD; last first.
  apply: quotient_mx_eq (quotient_mxM (quotient_mx_const (- 1%:M)) (quotient_mxM sp
    (quotient_mx_tr sp))) => s; by rewrite mulNmx mul1mx.
move=> i j; apply: (@exp_quotient_eq _ (fun s => (i == j)%:R *
    softmax (at_point P s *m W *m (at_point e s)^T) i 0)) => [s|].
  by rewrite !mxE mulr_natl.
by apply: exp_quotientM; [exact: exp_quotient_const|exact: sp].
Qed.

Lemma almost_all_derivatives r : (exists x, (r <= \rank (rows x))%N) ->
  almost_all (fun x => (r <= \rank (rows x))%N).
Proof.
move=> some; apply: almost_all_of_lines => // [x rx|x y rx].
  have [|eps eps0 near] := @rank_open_limits _ _ _ _ rows x.
    by move=> xs; exact: derivatives_limit.
  by exists eps; [exact: eps0|move=> y /near le; exact: leq_trans rx le].
have [rs rsP] := exp_quotient_rank 0 (derivatives_line x y).
exists rs => s /rsP; apply: leq_trans; apply: leq_trans rx _; apply: eq_leq; congr (\rank (rows _)).
by apply/funext => i; rewrite mul0r addr0.
Qed.

End Almost.

End Directions.

(* For targets of one number *)
Lemma derivatives_one_output (R : realType) d H dh N T (n : 'I_T -> nat)
    (E : forall t, 'M[R]_(n t, d)) Q WQ WK U (dQ dK : 'I_H -> 'I_N -> 'M[R]_(d, dh)) dU :
  \rank (derivatives WQ WK U dQ dK dU E Q) =
    \rank (\matrix_t \row_c derivative WQ WK U dQ dK dU (E t) (row t Q) c 0 (0 : 'I_1)).
Proof.
rewrite -[LHS]mxrank_tr; set A := \matrix_t _; set B := trmx _.
have AB : A = rowsub (fun t => mxvec_index t 0) B.
  by apply/matrixP => t c; rewrite [RHS]mxE [RHS]mxE derivativesE !mxE.
have BA : B = rowsub (fun j => (enum_val (cast_ord (esym (mxvec_cast T 1)) j)).1) A.
  apply/matrixP => j c; case/mxvec_indexP: j => t l; rewrite (ord1 l) [LHS]mxE derivativesE.
  by rewrite [RHS]mxE cast_ordK enum_rankK !mxE.
apply/eqP; rewrite eqn_leq; apply/andP; split; first by rewrite BA rowsubE mxrankM_maxr.
by rewrite {1}AB rowsubE mxrankM_maxr.
Qed.
