(* Rank T of rank-one heads is memorization of all labels, with contexts of any sizes. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions readout Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Lemma readout_intermediates (R : realType) d T H dh dv dout (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
    (Q : 'M[R]_(T, d)) (WQ WK : 'I_H -> 'M[R]_(d, dh)) (Y : 'M[R]_(T, dout)) :
  row_free (intermediates E Q (fun h => WK h *m (WQ h)^T)) -> (dout <= dv)%N ->
  exists WV WO WD, forall t, output (@Layer R d H dh dv dout WQ WK WV WO WD) (E t) (row t Q) = row t Y.
Proof.
set Z := intermediates _ _ _ => /row_freeP[M ZM] od; pose U := M *m Y.
pose Uh (h : 'I_H) := \matrix_(i < d) row (mxvec_index h i) U.
exists (fun h => Uh h *m pid_mx dout), (adder R H dv), (pid_mx dout) => t.
pose z h := head (E t) (WK h *m (WQ h)^T) (row t Q).
rewrite /output /attention_matrix /= adderE mulmx_suml.
transitivity (\sum_h z h *m Uh h).
  by apply: eq_bigr => h _; rewrite rowK -!mulmxA pid_mx_id // pid_mx_1 mulmx1.
transitivity (row t Z *m U); last by rewrite mulmxA -row_mul ZM row1 -rowE.
apply/rowP => j; rewrite rowK mxvec_mul summxE; apply: eq_bigr => h _.
by rewrite [LHS]mxE; apply: eq_bigr => i _; rewrite [in RHS]mxE [Uh h _ _]mxE [row _ U _ _]mxE.
Qed.

Theorem memorization_of_rank : Memorization_of_rank.
Proof.
move=> R d T H [//|dh] n E Q _ [a [b Zb]].
pose e0 : 'rV[R]_dh.+1 := delta_mx 0 0.
have e0e0 : e0 *m e0^T = 1%:M.
  by rewrite trmx_delta mul_delta_mx; apply/matrixP => i j; rewrite !ord1 !mxE !eqxx.
have W h : a *m e0 *m (b h *m e0)^T = a *m (b h)^T.
  by rewrite trmx_mul mulmxA -(mulmxA a) e0e0 mulmx1.
exists (fun h => b h *m e0), (a *m e0); split=> [h||dv dout Y od].
- by rewrite (leq_trans (mxrankM_maxl _ _)) ?rank_leq_col.
- by rewrite (leq_trans (mxrankM_maxl _ _)) ?rank_leq_col.
apply: readout_intermediates od; rewrite /row_free -[X in _ == X]Zb; apply/eqP.
congr (\rank (intermediates E Q _)).
by apply: boolp.funext => h; rewrite W.
Qed.
