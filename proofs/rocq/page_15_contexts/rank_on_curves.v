(* proofs/15-contexts.md: for Theorem 9, almost all queries; 17-generic-contexts.md: Theorem 11, *)
(* almost all contexts. Along a polynomial curve of contexts, queries and weights the rank of Z  *)
(* is at least that of any of its points, but for finitely many exceptions.                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts softmax theorem_8
  exponential_polynomials.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Curves.

Variable R : realType.

(* Matrices of quotients of exponential polynomials *)
Definition quotient_mx m p (A : R -> 'M[R]_(m, p)) : Prop :=
  forall i j, exp_quotient (fun s => A s i j).

Lemma quotient_mx_eq m p (A B : R -> 'M[R]_(m, p)) : (forall s, A s = B s) -> quotient_mx A ->
  quotient_mx B.
Proof. by move=> AB qA i j; apply: exp_quotient_eq (qA i j) => s; rewrite AB. Qed.

Lemma quotient_mx_const m p (A : 'M[R]_(m, p)) : quotient_mx (fun=> A).
Proof. by move=> i j; exact: exp_quotient_const. Qed.

Lemma quotient_mx_tr m p (A : R -> 'M[R]_(m, p)) : quotient_mx A -> quotient_mx (fun s => (A s)^T).
Proof. by move=> qA i j; apply: exp_quotient_eq (qA j i) => s; rewrite mxE. Qed.

Lemma quotient_mxD m p (A B : R -> 'M[R]_(m, p)) : quotient_mx A -> quotient_mx B ->
  quotient_mx (fun s => A s + B s).
Proof.
by move=> qA qB i j; apply: exp_quotient_eq (exp_quotientD (qA i j) (qB i j)) => s; rewrite mxE.
Qed.

Lemma quotient_mx_sum (I : finType) m p (A : I -> R -> 'M[R]_(m, p)) :
  (forall i, quotient_mx (A i)) -> quotient_mx (fun s => \sum_i A i s).
Proof.
move=> qA i j; apply: exp_quotient_eq (exp_quotient_sum _ (fun k => qA k i j)) => s.
exact: summxE.
Qed.

Lemma quotient_mxM m p q (A : R -> 'M[R]_(m, p)) (B : R -> 'M[R]_(p, q)) :
  quotient_mx A -> quotient_mx B -> quotient_mx (fun s => A s *m B s).
Proof.
move=> qA qB i j; apply: exp_quotient_eq (exp_quotient_sum _ (fun k =>
  exp_quotientM (qA i k) (qB k j))) => s.
by rewrite mxE.
Qed.

(* The point s of a curve *)
Definition at_point m p (A : 'M[{poly R}]_(m, p)) (s : R) : 'M[R]_(m, p) :=
  map_mx (horner_eval s) A.

Lemma quotient_at_point m p (A : 'M[{poly R}]_(m, p)) : quotient_mx (at_point A).
Proof.
move=> i j; apply: (@exp_quotient_eq _ (horner (A i j))) => [s|]; first by rewrite mxE.
exact/exp_quotient_polynomial/exp_polynomial_poly.
Qed.

Lemma quotient_softmax m (x : 'cV[{poly R}]_m) : quotient_mx (fun s => softmax (at_point x s)).
Proof.
move=> i j; have m0 : (0 < m)%N by case: m i {x} => // -[].
have ex k : exp_quotient (fun s => expR (at_point x s k 0)).
  apply: (@exp_quotient_eq _ (fun s => expR (x k 0).[s])) => [s|]; first by rewrite mxE.
  exact/exp_quotient_polynomial/exp_polynomial_exp.
apply: (@exp_quotient_eq _ (fun s => expR (at_point x s i 0) *
    (\sum_k expR (at_point x s k 0))^-1)) => [s|]; first by rewrite mxE.
apply: exp_quotientM; first exact: ex.
by apply: exp_quotientV => [s|]; [rewrite gt_eqF ?expsum_gt0|exact: exp_quotient_sum].
Qed.

Variables (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[{poly R}]_(n t, d)).
Variables (Q : 'M[{poly R}]_(T, d)) (W : 'I_H -> 'M[{poly R}]_d).

Let Z s := intermediates (fun t => at_point (E t) s) (at_point Q s) (fun h => at_point (W h) s).

(* Columns P may stand beside those of the heads: queries, for a skip connection. *)
Lemma rank_beside_on_curve p (P : 'M[{poly R}]_(T, p)) s1 :
  let beside s := row_mx (at_point P s) (Z s) in
  exists rs : seq R, forall s, s \notin rs -> (\rank (beside s1) <= \rank (beside s))%N.
Proof.
move=> beside; apply: exp_quotient_rank => t j; case: (split_ordP j) => {}j ->.
  by apply: exp_quotient_eq (quotient_at_point P t j) => s; rewrite /beside row_mxEl.
case/mxvec_indexP: j => h j.
have qZ := quotient_mxM (quotient_mx_tr (quotient_softmax (E t *m W h *m (row t Q)^T)))
  (quotient_at_point (E t)).
apply: exp_quotient_eq (qZ 0 j) => s; rewrite /beside row_mxEr [LHS]mxE mxvecE [LHS]mxE /head.
by rewrite /at_point !map_mxM -map_trmx map_row.
Qed.

Lemma rank_on_curve s1 :
  exists rs : seq R, forall s, s \notin rs -> (\rank (Z s1) <= \rank (Z s))%N.
Proof.
have [rs rsP] := rank_beside_on_curve (0 : 'M_(T, 0)) s1; exists rs => s /rsP.
by rewrite !(thinmx0 (at_point _ _)) !rank_row_0mx.
Qed.

End Curves.

Section Lines.

Variable R : realType.

(* A line as a curve *)
Definition line m p (A B : 'M[R]_(m, p)) : 'M[{poly R}]_(m, p) :=
  map_mx polyC A + 'X *: map_mx polyC (B - A).

Lemma at_line m p (A B : 'M[R]_(m, p)) s : at_point (line A B) s = on_line A B s.
Proof. by apply/matrixP => i j; rewrite !mxE /horner_eval !hornerE. Qed.

(* Weights of a head whose query and key weights are on lines *)
Lemma at_lines d dh (A B C D : 'M[R]_(d, dh)) s :
  at_point (line A B *m (line C D)^T) s = on_line A B s *m (on_line C D s)^T.
Proof. by rewrite /at_point map_mxM -map_trmx -!/(at_point _ s) !at_line. Qed.

Lemma on_line0 m p (A B : 'M[R]_(m, p)) : on_line A B 0 = A.
Proof. by rewrite /on_line scale0r addr0. Qed.

Lemma on_line_same m p (A : 'M[R]_(m, p)) s : on_line A A s = A.
Proof. by rewrite /on_line subrr scaler0 addr0. Qed.

Lemma on_line_swap m p (A B : 'M[R]_(m, p)) s : on_line A B (1 - s) = on_line B A s.
Proof. by rewrite /on_line scalerBl scale1r addrA addrCA subrr addr0 -scalerN opprB. Qed.

(* Lines from A i to B i: near the A i there is a point s with 1 - s outside of a finite set. *)
Lemma near_on_lines (I : finType) (m : I -> nat) p (A B : forall i, 'M[R]_(m i, p))
    (rs : seq R) eps : 0 < eps ->
  exists2 s, 1 - s \notin rs & forall i j k, `|on_line (A i) (B i) s j k - A i j k| < eps.
Proof.
move=> eps0; pose M := 1 + \sum_i \sum_j \sum_k `|B i j k - A i j k|.
have pos i : 0 <= \sum_j \sum_k `|B i j k - A i j k|.
  by apply: sumr_ge0 => j _; apply: sumr_ge0 => k _; exact: normr_ge0.
have M0 : 0 < M by rewrite ltr_paddr ?ltr01 // sumr_ge0.
have small i j k : `|B i j k - A i j k| < M.
  rewrite /M ltr_spaddl ?ltr01 // (bigD1 i) //= (bigD1 j) //= (bigD1 k) //= -!addrA ler_addl.
  apply: addr_ge0; first by apply: sumr_ge0 => l _; exact: normr_ge0.
  apply: addr_ge0; last by apply: sumr_ge0 => l _; exact: pos.
  by apply: sumr_ge0 => k' _; apply: sumr_ge0 => l _; exact: normr_ge0.
have [|s /andP[s0 s1] srs] := interval_avoids (map (fun x => 1 - x) rs) (_ : 0 < eps / M).
  by rewrite divr_gt0.
exists s => [|i j k]; first by rewrite -(mem_map (subrI 1)) opprB addrCA subrr addr0.
rewrite mxE addrAC subrr add0r !mxE normrM gtr0_norm //.
apply: (@lt_trans _ _ (s * M)); first by rewrite ltr_pmul2l.
by rewrite -ltr_pdivl_mulr.
Qed.

End Lines.

Lemma intermediates_eq (R : realType) d T H (n : 'I_T -> nat) (E E' : forall t, 'M[R]_(n t, d)) Q Q'
    (W W' : 'I_H -> 'M[R]_d) : (forall t, E t = E' t) -> Q = Q' -> (forall h, W h = W' h) ->
  intermediates E Q W = intermediates E' Q' W'.
Proof.
move=> EE <- WW; apply/row_matrixP => t; rewrite !rowK; congr (mxvec _).
by apply/row_matrixP => h; rewrite !rowK EE WW.
Qed.

Theorem rank_lines : Rank_lines.
Proof.
move=> R d T H n E E' Q Q' W W'.
have [rs rsP] := rank_on_curve (fun t => line (E t) (E' t)) (line Q Q')
  (fun h => line (W h) (W' h)) 0.
exists rs => s /rsP; congr (_ <= _)%N; congr (\rank _); apply: intermediates_eq => *;
  by rewrite at_line ?on_line0.
Qed.

Theorem theorem_9_lines : Theorem9_lines.
Proof.
move=> R d T H dh n E Q Q' WQ WQ' WK WK' reach r0.
have [rs rsP] := rank_on_curve (fun t => line (E t) (E t)) (line Q Q')
  (fun h => line (WK h) (WK' h) *m (line (WQ h) (WQ' h))^T) 0.
exists rs => s /rsP rs_s; apply: anti_leq; rewrite [X in X && _]theorem_8 /=.
rewrite -r0; move: rs_s; congr (_ <= _)%N; congr (\rank _); apply: intermediates_eq => *;
  by rewrite ?at_lines ?at_line ?on_line0 // on_line_same.
Qed.
