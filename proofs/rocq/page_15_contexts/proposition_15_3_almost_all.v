(* proofs/15-contexts.md: Proposition 15.3 for almost all rows. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences.
From Memorization Require Import Capacity Generic_contexts Almost_all limits proposition_15_3
  null_sets almost_all_ranks.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Rows.

Variables (R : realType) (d T : nat) (k : 'I_T -> nat) (B : forall t, 'M[R]_(k t, d)).

Let I := [finType of {t : 'I_T & 'I_(k t)}].
Let y (x : I -> R) t := (\row_i x (existT _ t i)) *m B t.

Lemma almost_all_spans (J : {set 'I_T}) x0 :
  almost_all (fun x => (\rank (span J (y x0)) <= \rank (span J (y x)))%N).
Proof.
pose Y x := \matrix_(t < T) (if t \in J then y x t else 0).
apply: almost_all_of_lines => [|x rx|x x' rx]; first by exists x0.
  have [|eps eps0 near] := @rank_open_limits R I _ _ Y x.
    move=> xs xsx t j; have e z : Y z t j = if t \in J then y z t 0 j else 0.
      by rewrite mxE; case: ifP => // _; rewrite mxE.
    rewrite e; under eq_fun do rewrite e; case: ifP => _; last exact: cvg_cst.
    by apply: cvg_mulmx => a i; rewrite mxE; under eq_fun do rewrite mxE; exact: xsx.
  by exists eps => // x' /near; rewrite -!rank_span_matrix => le; exact: leq_trans rx le.
have [rs rsP] := rank_span_line J (y x) (y x'); exists rs => s /rsP le.
apply: leq_trans rx (leq_trans le _); apply/eq_leq/(congr1 (fun z => \rank (span J z))).
apply/funext => t; rewrite /line_rows /y -mulmxBl scalemxAl -mulmxDl; congr (_ *m _).
by apply/matrixP => a i; rewrite !mxE.
Qed.

End Rows.

Theorem proposition_15_3_almost_all : Proposition15_3_almost_all.
Proof.
move=> R d T H n E k B H0 BP; have [[y0 y0_largest] _ part3] := proposition_15_3 E H0.
have [y0_rows y0_max] := y0_largest.
pose D t := mxvec (y0 t) *m pinvmx (B t).
have DP t : D t *m B t = mxvec (y0 t) := mulmxKpV ((BP t (y0 t)).1 (y0_rows t)).
pose I := [finType of {t : 'I_T & 'I_(k t)}].
pose y (x : I -> R) t := (\row_i x (existT _ t i)) *m B t.
pose x0 (i : I) := D (tag i) 0 (tagged i).
have y0E : (fun t => mxvec (y0 t)) = y x0.
  by apply/funext => t; rewrite -DP; congr (_ *m _); apply/rowP => i; rewrite [RHS]mxE.
have := almost_all_forall (fun J : {set 'I_T} => almost_all_spans B J x0).
apply: almost_all_imply => x le.
have yE : (fun t => mxvec (vec_mx (y x t) : 'M[R]_(H, d))) = y x.
  by apply/funext => t; rewrite vec_mxK.
pose claim (z : 'I_T -> 'rV[R]_(H * d)) := \rank (span [set: 'I_T]%SET z) = capacity E H /\
  bound_of E H [set t | (z t <= span (~: [set t]) z)%MS]%SET = capacity E H.
suff: claim (y x) by []; rewrite -yE; apply: part3; split=> [t|y' J y'_rows].
  by apply/BP; rewrite vec_mxK submxMl.
by rewrite yE; apply: leq_trans (y0_max y' J y'_rows) _; rewrite y0E; exact: le.
Qed.
