(* proofs/15-contexts.md: Theorem 9. The rank of Z is lower semicontinuous: weights and queries *)
(* near given ones have that rank at least.                                                     *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity softmax limits.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

(* All entries differ by less than eps. *)
Definition near_matrix (R : realType) m n (eps : R) (A B : 'M[R]_(m, n)) : Prop := forall i j, `|A
  i j - B i j| < eps.

(* Any contexts: for all queries Q' near Q and all weights W' near W the rank is that of Q and W *)
(* at least.                                                                                     *)
Definition Rank_open : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (Q :
    'M[R]_(T, d))
      (W : 'I_H -> 'M[R]_d),
  exists2 eps : R, 0 < eps & forall (Q' : 'M[R]_(T, d)) (W' : 'I_H -> 'M[R]_d),
    near_matrix eps Q' Q -> (forall h, near_matrix eps (W' h) (W h)) ->
    (\rank (intermediates E Q W) <= \rank (intermediates E Q' W'))%N.

Section Open.

Variable R : realType.

Lemma cvg_mul_mx m n p (A : nat -> 'M[R]_(m, n)) (B : nat -> 'M[R]_(n, p))
    (A' : 'M[R]_(m, n)) (B' : 'M[R]_(n, p)) :
  (forall i j, A k i j @[k --> \oo] --> A' i j) -> (forall i j, B k i j @[k --> \oo] --> B' i j) ->
  forall i j, (A k *m B k) i j @[k --> \oo] --> (A' *m B') i j.
Proof.
move=> AA BB i j; rewrite mxE; under eq_fun do rewrite mxE.
by apply: cvg_sum_seq => l; apply: cvgM.
Qed.

Lemma cvg_softmax n (x : nat -> 'cV[R]_n) (l : 'cV[R]_n) :
  (forall i, x k i 0 @[k --> \oo] --> l i 0) -> forall i, softmax (x k) i 0 @[k --> \oo] -->
    softmax l i 0.
Proof.
move=> xl i; have n0 : (0 < n)%N by case: n i {x l xl} => // -[].
have exp j : expR (x k j 0) @[k --> \oo] --> expR (l j 0).
  by apply: continuous_cvg (xl j); exact: continuous_expR.
rewrite mxE; under eq_fun do rewrite mxE.
apply: cvgM; first exact: exp.
apply: cvgV; first by rewrite gt_eqF ?expsum_gt0.
exact: cvg_sum_seq.
Qed.

Lemma cvg_near m n (A : nat -> 'M[R]_(m, n)) (B : 'M[R]_(m, n)) :
  (forall k, near_matrix k.+1%:R^-1 (A k) B) -> forall i j, A k i j @[k --> \oo] --> B i j.
Proof.
move=> AB i j; apply/cvgrPdist_lt => e e0.
have := @cvg_harmonic R; move/cvgr0_norm_lt => /(_ e e0); apply: filterS => k /=.
rewrite distrC; apply: lt_trans; apply: lt_le_trans (AB k i j) _.
by rewrite /harmonic ler_norm.
Qed.

Lemma cvg_head n d (E : nat -> 'M[R]_(n, d)) (W : nat -> 'M[R]_d) (e : nat -> 'rV[R]_d) E' W' e' :
  (forall i j, E k i j @[k --> \oo] --> (E' : 'M[R]_(n, d)) i j) ->
  (forall i j, W k i j @[k --> \oo] --> (W' : 'M[R]_d) i j) ->
  (forall j, e k 0 j @[k --> \oo] --> (e' : 'rV[R]_d) 0 j) ->
  forall j, head (E k) (W k) (e k) 0 j @[k --> \oo] --> head E' W' e' 0 j.
Proof.
move=> EE WW ee j; rewrite /head; apply: cvg_mul_mx => [i0 i'|]; last exact: EE.
rewrite ord1 [X in _ --> X]mxE.
under eq_fun do rewrite [_^T _ _]mxE.
apply: cvg_softmax => l; apply: cvg_mul_mx => [l1 l2|l1 l2]; first exact: cvg_mul_mx.
have xE (x : 'rV[R]_d) : x^T l1 l2 = x 0 l1 by rewrite mxE ord1.
by rewrite xE; under eq_fun do rewrite xE; exact: ee.
Qed.

Lemma cvg_rowsub m p q (A : nat -> 'M[R]_(m, p)) (L : 'M[R]_(m, p)) (f : 'I_q -> 'I_m) :
  (forall i j, A k i j @[k --> \oo] --> L i j) ->
  forall i j, rowsub f (A k) i j @[k --> \oo] --> rowsub f L i j.
Proof. by move=> AL i j; rewrite mxE; under eq_fun do rewrite mxE; exact: AL. Qed.

Lemma cvg_blocks T H d (A : nat -> 'I_T -> 'I_H -> 'rV[R]_d) L :
  (forall t h j, A k t h 0 j @[k --> \oo] --> (L t h : 'rV[R]_d) 0 j) ->
  forall i j, (\matrix_t mxvec (\matrix_h A k t h) : 'M[R]_(T, H * d)) i j @[k --> \oo] -->
    (\matrix_t mxvec (\matrix_h L t h) : 'M[R]_(T, H * d)) i j.
Proof.
move=> AL i j; case/mxvec_indexP: j => h j.
have E (F : 'I_T -> 'I_H -> 'rV[R]_d) :
    (\matrix_t mxvec (\matrix_h F t h) : 'M[R]_(T, H * d)) i (mxvec_index h j) = F i h 0 j.
  by rewrite mxE mxvecE mxE.
by rewrite E; under eq_fun do rewrite E; exact: AL.
Qed.

End Open.

(* Contexts may move, too. *)
Lemma rank_open_all (R : realType) d T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) :
  exists2 eps : R, 0 < eps & forall E' Q' W', (forall t, near_matrix eps (E' t) (E t)) ->
    near_matrix eps Q' Q -> (forall h, near_matrix eps (W' h) (W h)) ->
    (\rank (intermediates E Q W) <= \rank (intermediates E' Q' W'))%N.
Proof.
apply: contrapT => none.
have near k : exists X : (forall t, 'M[R]_(n t, d)) * 'M[R]_(T, d) * ('I_H -> 'M[R]_d),
    [/\ forall t, near_matrix k.+1%:R^-1 (X.1.1 t) (E t), near_matrix k.+1%:R^-1 X.1.2 Q,
      forall h, near_matrix k.+1%:R^-1 (X.2 h) (W h) &
      (\rank (intermediates X.1.1 X.1.2 X.2) < \rank (intermediates E Q W))%N].
  apply: contrapT => no; apply: none; exists k.+1%:R^-1; first by rewrite invr_gt0 ltr0n.
  move=> E' Q' W' EE QQ WW; rewrite leqNgt; apply/negP => lt; apply: no.
  by exists (E', Q', W'); split; [exact: EE|exact: QQ|exact: WW|exact: lt].
have [X XP] := choice near.
have := maxrowsub_free (intermediates E Q W); move: (maxrankfun _) => f ff.
pose Z k := intermediates (X k).1.1 (X k).1.2 (X k).2.
have [||k kf] := @row_free_open R _ _ (fun k => rowsub f (Z k)) (rowsub f (intermediates E Q W)).
- apply: cvg_rowsub; apply: cvg_blocks => t h; apply: cvg_head => [||l].
  + by apply: cvg_near => k; have [Ek _ _ _] := XP k; exact: Ek.
  + by apply: cvg_near => k; have [_ _ Wk _] := XP k; exact: Wk.
  have rowE (A : 'M[R]_(T, d)) : row t A 0 l = A t l by rewrite mxE.
  rewrite rowE; under eq_fun do rewrite rowE.
  by apply: cvg_near => k; have [_ Qk _ _] := XP k; exact: Qk.
- exact: ff.
have [_ _ _] := XP k; rewrite ltnNge -[X in (X <= _)%N](eqP kf) => /negP; apply.
by rewrite rowsubE mxrankM_maxr.
Qed.

Theorem rank_open : Rank_open.
Proof.
move=> R d T H n E Q W; have [eps eps0 open] := rank_open_all E Q W; exists eps => [//|Q' W'].
by apply: open => t i j; rewrite subrr normr0.
Qed.

Lemma rank_open_contexts (R : realType) d T H (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (W : 'I_H -> 'M[R]_d) :
  exists2 eps : R, 0 < eps & forall E', (forall t, near_matrix eps (E' t) (E t)) ->
    (\rank (intermediates E Q W) <= \rank (intermediates E' Q W))%N.
Proof.
have [eps eps0 open] := rank_open_all E Q W; exists eps => [//|E' EE].
by apply: open => [|i j|h i j]; [exact: EE|rewrite subrr normr0|rewrite subrr normr0].
Qed.
