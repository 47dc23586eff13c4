(* proofs/11-verified-readout.md, for the claim *error*: from heads to the output of a layer, as  *)
(* error_program.v has it.                                                                        *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions list_checker upper_bound_program.
From Memorization Require Import exp_program exp_series exp_enclosure error_program error_head.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Layer.

Variables (R : realType) (d H dh dv dout : nat) (L : layer R d H dh dv dout).
Notation toR := (@toR R).

(* The rows of W_O that are head h's, and what a layer makes of the row of head h *)
Definition output_block (h : 'I_H) : 'M[R]_dv :=
  \matrix_(k, c) output_weights L (mxvec_index h k) c.
Definition effective_readout (h : 'I_H) : 'M[R]_(d, dout) :=
  value_weights L h *m output_block h *m readout_weights L.

Lemma output_effective n (E : 'M[R]_(n, d)) e :
  output L E e = \sum_h head E (attention_matrix L h) e *m effective_readout h.
Proof.
rewrite /output; set A := \matrix_h _.
have -> : mxvec A *m output_weights L =
    \sum_h (head E (attention_matrix L h) e *m value_weights L h) *m output_block h.
  apply/rowP => c; rewrite mxE sum_mxvec_index summxE; apply: eq_bigr => h _.
  by rewrite [RHS]mxE; apply: eq_bigr => k _; rewrite mxvecE /A mxE [output_block _ _ _]mxE.
by rewrite mulmx_suml; apply: eq_bigr => h _; rewrite /effective_readout !mulmxA.
Qed.

Lemma head_output_sound (x g : 'I_d -> R) (row : seq (Z * Z)) column (sigma gamma : R) :
  0 <= sigma -> 0 <= gamma -> size row = d -> size column = d ->
  (forall j : 'I_d, `|x j - sigma * toR (nth (Z0, Z0) row j).1| <=
                    sigma * toR (nth (Z0, Z0) row j).2) ->
  (forall j : 'I_d, g j = gamma * toR (nth Z0 column j)) ->
  `|\sum_j x j * g j - sigma * gamma * toR (head_output row column).1| <=
    sigma * gamma * toR (head_output row column).2.
Proof.
move=> sigma0 gamma0 sr sc xE gE; rewrite /head_output /=.
rewrite !(@toR_dot R _ _ d) ?size_map // !mulr_sumr -sumrB.
apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => j _.
rewrite !(nth_map (Z0, Z0)) ?sr // (nth_map Z0) ?sc // toR_abs gE.
set c := toR (nth _ column j); set b := nth _ row j.
rewrite (_ : _ - _ = (x j - sigma * toR b.1) * (gamma * c)); last by ring.
rewrite (_ : sigma * gamma * _ = sigma * toR b.2 * (gamma * `|c|)); last by ring.
by rewrite normrM normrM (ger0_norm gamma0) ler_wpmul2r ?mulr_ge0 //; exact: xE.
Qed.

Theorem output_sound n (E : 'M[R]_(n, d)) e rows columns (sigma gamma : R) target epsilon
    (l : 'I_dout) : 0 <= sigma -> 0 <= gamma ->
  (forall h : 'I_H, size (nth [::] rows h) = d /\ size (nth [::] columns h) = d) ->
  (forall (h : 'I_H) (j : 'I_d), let bounds := nth (Z0, Z0) (nth [::] rows h) j in
    `|head E (attention_matrix L h) e 0 j - sigma * toR bounds.1| <= sigma * toR bounds.2) ->
  (forall (h : 'I_H) j, effective_readout h j l = gamma * toR (nth Z0 (nth [::] columns h) j)) ->
  within (layer_output (mkseq (fun h => head_output (nth [::] rows h) (nth [::] columns h)) H))
    target epsilon ->
  `|output L E e 0 l - sigma * gamma * toR target| <= sigma * gamma * toR epsilon.
Proof.
move=> sigma0 gamma0 sizes headE readoutE /Z.leb_le ok.
rewrite output_effective summxE.
under eq_bigr => h _ do rewrite mxE.
have sg0 : 0 <= sigma * gamma by rewrite mulr_ge0.
set f := \sum_(h < H) _; set b := layer_output _ in ok.
have near : `|f - sigma * gamma * toR b.1| <= sigma * gamma * toR b.2.
  rewrite /b /layer_output /= !(@toR_sum R _ H) ?size_map ?size_iota // !mulr_sumr /f -sumrB.
  apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => h _.
  rewrite !(nth_map (Z0, Z0)) ?size_mkseq // nth_mkseq //; have [sr sc] := sizes h.
  by apply: head_output_sound => //.
rewrite -[_ - _](subrKA (sigma * gamma * toR b.1)); apply: le_trans (ler_norm_add _ _) _.
have le : toR b.2 + `|toR b.1 - toR target| <= toR epsilon.
  by rewrite -toRN -toRD -toR_abs -toRD; apply: toR_le; move: ok; rewrite Z.add_comm.
apply: le_trans (ler_wpmul2l sg0 le); rewrite mulrDr ler_add //.
by rewrite -mulrBr normrM (ger0_norm sg0).
Qed.

End Layer.
