(* proofs/25-ranks-of-layers.md: Proposition 25.1. A rank modulo one prime, at one point, proves  *)
(* that all targets are returned by some weights.                                                 *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Exact_rank Free_heads softmax theorem_4
  hermite zero_points derivatives.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The derivative of one head times the square of the sum of the powers w *)
Definition moments (A : comRingType) n d m (E : 'M[A]_(n, d)) (w : 'cV[A]_n) (e : 'rV[A]_d)
    (N : 'M[A]_d) (V dU : 'M[A]_(d, m)) : 'rV[A]_m :=
  let z := \sum_i w i 0 in
  (E^T *m (z *: diag_mx w^T - w *m w^T) *m E *m N *m e^T)^T *m V + z *: (w^T *m E *m dU).

Section Cleared.

Variables (d dh T H m N : nat) (n : 'I_T -> nat) (E : forall t, 'M[int]_(n t, d)).
Variable (Q : 'M[int]_(T, d)).
Variables (WQ WK : 'I_H -> 'M[int]_(d, dh)) (V : 'I_H -> 'M[int]_(d, m)).
Variables (dQ dK : 'I_H -> 'I_N -> 'M[int]_(d, dh)) (dU : 'I_H -> 'I_N -> 'M[int]_(d, m)).
Variable k : forall t, 'I_H -> 'I_(n t) -> nat.
Arguments k : clear implicits.

(* The denominator of softmax *)
Definition sum_of_powers t h : {poly int} := \sum_i 'X^(k t h i).

Let poly p q (A : 'M[int]_(p, q)) : 'M[{poly int}]_(p, q) := map_mx polyC A.

(* The derivatives of the numbers of all targets in N directions, times the squares of the        *)
(* denominators of all heads, as polynomials in exp(delta)                                        *)
Definition cleared_derivatives : 'M[{poly int}]_(N, T * m) :=
  \matrix_c mxvec (\matrix_t \sum_h \prod_(g | g != h) sum_of_powers t g ^+ 2 *:
    moments (poly (E t)) (\col_i 'X^(k t h i)) (poly (row t Q))
      (poly (WK h *m (dQ h c)^T + dK h c *m (WQ h)^T)) (poly (V h)) (poly (dU h c))).

End Cleared.

(* Integer tokens, queries and weights. Heads of a group have one attention matrix (the same      *)
(* weights, or keys 0), and readouts of sum zero. Logits are integers k times one rational        *)
(* number, and a constant of each example and head. If for some integer directions the rank of    *)
(* the derivatives at the point a modulo p is T m, some weights memorize all targets.             *)
Definition Onto_certificate : Prop :=
  forall (R : realType) (d dh T H m N dv : nat) (n : 'I_T -> nat)
      (E : forall t, 'M[int]_(n t, d)) (Q : 'M[int]_(T, d)) (WQ WK : 'I_H -> 'M[int]_(d, dh))
      (V : 'I_H -> 'M[int]_(d, m)) (dQ dK : 'I_H -> 'I_N -> 'M[int]_(d, dh))
      (dU : 'I_H -> 'I_N -> 'M[int]_(d, m)) (k : forall t, 'I_H -> 'I_(n t) -> nat)
      (group : 'I_H -> 'I_H) (Er : forall t, 'M[R]_(n t, d)) (Qr : 'M[R]_(T, d)) (sigma tau : R)
      (delta : rat) (c : 'I_T -> 'I_H -> R) (p : nat) (a : 'F_p),
    (forall t, 0 < n t)%N -> (m <= dv)%N -> sigma != 0 -> tau != 0 -> delta != 0 ->
    (forall t, Er t = sigma *: map_mx intr (E t)) -> Qr = tau *: map_mx intr Q ->
    (forall g, \sum_(h | group h == g) V h = 0) ->
    (forall g h, group g = group h -> WK g *m (WQ g)^T = WK h *m (WQ h)^T) ->
    (forall t h i, (Er t *m map_mx intr (WK h *m (WQ h)^T) *m (row t Qr)^T) i 0 =
      (k t h i)%:R * ratr delta + c t h) ->
    row_full (map_mx (evaluate a) (cleared_derivatives E Q WQ WK V dQ dK dU k)) ->
  forall Y : 'M[R]_(T, m), exists L : layer R d H dh dv m,
    forall t, output L (Er t) (row t Qr) = row t Y.

Lemma map_moments (A F : comRingType) (f : {rmorphism A -> F}) n d m (E : 'M[A]_(n, d)) w e N V dU :
  map_mx f (moments E w e N V dU) = moments (map_mx f E) (map_mx f w) (map_mx f e) (map_mx f N)
    (map_mx f V) (map_mx f dU) :> 'rV[F]_m.
Proof.
have zE : f (\sum_i w i 0) = \sum_i (map_mx f w) i 0.
  by rewrite rmorph_sum; apply: eq_bigr => i _; rewrite mxE.
rewrite /moments map_mxD map_mxZ zE; congr (_ + _ *: _); last by rewrite !map_mxM map_trmx.
rewrite map_mxM; congr (_ *m _); rewrite -map_trmx; congr (_^T).
rewrite map_mxM !map_trmx; congr (_ *m _); rewrite map_mxM; congr (_ *m _).
rewrite map_mxM; congr (_ *m _); rewrite map_mxM; congr (_ *m _).
by rewrite map_mxB map_mxZ zE map_diag_mx map_mxM.
Qed.

Section Real.

Variables (R : realType) (n d m : nat) (E : 'M[R]_(n, d)) (w : 'cV[R]_n).
Let z := \sum_i w i 0.
Hypothesis z0 : z != 0.

(* Attention weights w / z, tokens times sigma, query times tau                                   *)
Lemma moments_real (sigma tau : R) (e : 'rV[R]_d) (N : 'M[R]_d) (V dU : 'M[R]_(d, m)) :
  let p := z^-1 *: w in
  (covariance (sigma *: E) p *m N *m (tau *: e)^T)^T *m V + p^T *m (sigma *: E) *m
    (sigma * tau *: dU) = (sigma ^+ 2 * tau / z ^+ 2) *: moments E w e N V dU.
Proof.
move=> p; have -> : covariance (sigma *: E) p =
    (sigma ^+ 2 / z ^+ 2) *: (E^T *m (z *: diag_mx w^T - w *m w^T) *m E).
  rewrite /covariance /p.
  have -> : diag_mx (z^-1 *: w)^T - z^-1 *: w *m (z^-1 *: w)^T =
      z ^- 2 *: (z *: diag_mx w^T - w *m w^T).
    have wt : (z^-1 *: w)^T = z^-1 *: w^T by apply/matrixP => i j; rewrite !mxE.
    have dt : diag_mx (z^-1 *: w^T) = z^-1 *: diag_mx w^T.
      by apply/matrixP => i j; rewrite !mxE mulrnAr.
    rewrite wt dt -scalemxAl -scalemxAr scalerA scalerBr scalerA expr2 invfM; congr (_ *: _ - _).
    by rewrite -mulrA mulVf // mulr1.
  have Et : (sigma *: E)^T = sigma *: E^T by apply/matrixP => i j; rewrite !mxE.
  rewrite Et -!scalemxAl -!scalemxAr -!scalemxAl !scalerA; congr (_ *: _).
  by field; rewrite z0.
have et : (tau *: e)^T = tau *: e^T by apply/matrixP => i j; rewrite !mxE.
have pt : p^T = z^-1 *: w^T by apply/matrixP => i j; rewrite !mxE.
rewrite /moments -/z et pt; set C := _ *m E; rewrite scalerDr scalerA; congr (_ + _).
  have tr c (A : 'cV[R]_d) : (c *: A)^T = c *: A^T by apply/matrixP => i j; rewrite !mxE.
  rewrite -!scalemxAl -!scalemxAr -?scalemxAl !scalerA tr -scalemxAl; congr (_ *: _).
  by field; rewrite z0.
rewrite -!scalemxAl -!scalemxAr -?scalemxAl !scalerA; congr (_ *: _).
by field; rewrite z0.
Qed.

End Real.

Theorem onto_certificate : Onto_certificate.
Proof.
move=> R d dh T H m N dv n E Q WQ WK V dQ dK dU k group Er Qr sigma tau delta c p a.
move=> n0 mdv s0 t0 d0 ErE QrE sum0 same kE full Y.
pose x : R := expR (ratr delta); have tr : transcendental x by exact: hermite.
pose phi := [rmorphism of horner_eval a \o map_poly (intr : int -> 'F_p)].
pose psi := [rmorphism of horner_eval x \o map_poly (intr : int -> R)].
set A := cleared_derivatives _ _ _ _ _ _ _ _ _ in full.
have {}full : \rank (map_mx psi A) = (T * m)%N.
  have := @row_free_transfer _ _ _ phi psi _ _ A^T tr; rewrite -!map_trmx /row_free !mxrank_tr.
  by move=> /(_ full) /eqP.
pose real p q (B : 'M[int]_(p, q)) : 'M[R]_(p, q) := map_mx intr B.
have psiC p' q (B : 'M[int]_(p', q)) : map_mx psi (map_mx polyC B) = real _ _ B.
  by apply/matrixP => i j; rewrite !mxE /= map_polyC /horner_eval hornerC.
have WE h : real _ _ (WK h) *m (real _ _ (WQ h))^T = real _ _ (WK h *m (WQ h)^T).
  by rewrite /real map_trmx -map_mxM.
pose z t h := psi (sum_of_powers k t h).
have zE t h : z t h = \sum_i x ^+ k t h i.
  by rewrite /z rmorph_sum; apply: eq_bigr => i _; rewrite /= map_polyXn /horner_eval hornerXn.
have z0 t h : z t h != 0.
  rewrite zE gt_eqF //; have := expsum_gt0 (\col_i ((k t h i)%:R * ratr delta : R)) (n0 t).
  by congr (0 < _); apply: eq_bigr => i _; rewrite mxE expRMm.
have softmaxE t h : softmax (Er t *m real _ _ (WK h *m (WQ h)^T) *m (row t Qr)^T) =
    (z t h)^-1 *: \col_i x ^+ k t h i.
  apply/colP => i; rewrite mxE kE zE; under [X in _ / X]eq_bigr do rewrite kE expRD expRMm.
  rewrite -mulr_suml expRD expRMm -mulf_div divff ?mulr1 ?gt_eqF ?expR_gt0 //.
  by rewrite !mxE mulrC.
pose dUr h c := (sigma * tau) *: real _ _ (dU h c).
pose B := derivatives (fun h => real _ _ (WQ h)) (fun h => real _ _ (WK h))
  (fun h => real _ _ (V h))
  (fun h c => real _ _ (dQ h c)) (fun h c => real _ _ (dK h c)) dUr Er Qr.
apply: (@derivatives_memorize R d H dh m N (fun h => real _ _ (WQ h)) (fun h => real _ _ (WK h))
  (fun h => real _ _ (V h)) (fun h c => real _ _ (dQ h c)) (fun h c => real _ _ (dK h c)) dUr T dv
  n Er Qr Y mdv) => [t|].
  rewrite (partition_big group xpredT) //= big1 // => g _.
  case: (pickP (fun h => group h == g)) => [h0 /eqP h0g|none]; last by rewrite big_pred0.
  rewrite (eq_bigr (fun h => head (Er t) (real _ _ (WK h0 *m (WQ h0)^T)) (row t Qr) *m
    real _ _ (V h))) => [|h /eqP hg]; last by rewrite WE (same h h0) // hg h0g.
  rewrite -mulmx_sumr (_ : \sum_(h | _) _ = 0) ?mulmx0 //.
  apply/matrixP => i j; rewrite summxE; under eq_bigr do rewrite mxE.
  by rewrite -rmorph_sum -summxE sum0 !mxE.
pose D t := (\prod_h z t h ^+ 2) / (sigma ^+ 2 * tau).
suff AB : map_mx psi A = B *m diag_mx (\row_j D (enum_val (cast_ord (esym (mxvec_cast T m)) j)).1).
  by rewrite /row_full eqn_leq rank_leq_col -[X in (X <= _)%N]full AB mxrankM_maxl.
rewrite mul_mx_diag; apply/matrixP => c' j; case/mxvec_indexP: j => t l.
rewrite [RHS]mxE [(\row__ _) _ _]mxE cast_ordK enum_rankK /= derivativesE.
rewrite mxE mxE mxvecE mxE summxE rmorph_sum [derivative _ _ _ _ _ _ _ _ _ _ _]summxE mulr_suml.
apply: eq_bigr => h _; rewrite mxE rmorphM rmorph_prod.
pose w := \col_i x ^+ k t h i; have wz : \sum_i w i 0 = z t h.
  by rewrite zE; apply: eq_bigr => i _; rewrite mxE.
set M := moments _ _ _ _ _ _; have -> : psi (M 0 l) = map_mx psi M 0 l by rewrite [RHS]mxE.
have wE : map_mx psi (\col_i 'X^(k t h i)) = w.
  by apply/colP => i; rewrite !mxE /= map_polyXn /horner_eval hornerXn.
rewrite /M map_moments !psiC wE /head_step /head WE softmaxE -/w -wz.
rewrite (ErE t : _ = sigma *: real _ _ (E t)).
have -> : real _ _ (WK h) *m (real _ _ (dQ h c'))^T + real _ _ (dK h c') *m (real _ _ (WQ h))^T =
    real _ _ (WK h *m (dQ h c')^T + dK h c' *m (WQ h)^T).
  by rewrite /real map_mxD !map_mxM !map_trmx.
have -> : row t Qr = tau *: real _ _ (row t Q) by apply/rowP => j; rewrite QrE !mxE.
have DE : D t = z t h ^+ 2 * (\prod_(g | g != h) z t g ^+ 2) / (sigma ^+ 2 * tau).
  by rewrite /D (bigD1 h).
rewrite /dUr moments_real ?wz ?z0 // [in RHS]mxE DE.
rewrite [X in X * _ = _](eq_bigr (fun g => z t g ^+ 2)) => [|g _]; last by rewrite rmorphX.
move: (moments _ _ _ _ _ _ 0 l) (\prod_(g | g != h) z t g ^+ 2) => X P.
by field; rewrite s0 t0 z0.
Qed.
