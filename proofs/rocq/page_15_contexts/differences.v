(* proofs/15-contexts.md: the span D_t of the differences of the tokens of one context. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Differences.

Variable F : fieldType.

Lemma difference_sub n d (E : 'M[F]_(n, d)) i j : (row i E - row j E <= differences E)%MS.
Proof. by rewrite /differences (sumsmx_sup i) // (sumsmx_sup j) // genmxE. Qed.

Lemma differences_subP n m d (E : 'M[F]_(n, d)) (L : 'M[F]_(m, d)) :
  (forall i j, (row i E - row j E <= L)%MS) -> (differences E <= L)%MS.
Proof. by move=> EL; apply/sumsmx_subP => i _; apply/sumsmx_subP => j _; rewrite genmxE. Qed.

Lemma differences_sub n d (E : 'M[F]_(n, d)) : (differences E <= E)%MS.
Proof. by apply: differences_subP => i j; rewrite addmx_sub ?eqmx_opp ?row_sub. Qed.

(* Coefficients that add up to zero combine tokens to a combination of differences. *)
Lemma combination_differences n d (E : 'M[F]_(n, d)) (p : 'rV[F]_n) :
  \sum_i p 0 i = 0 -> (p *m E <= differences E)%MS.
Proof.
case: n E p => [|n] E p p0; first by rewrite [E]flatmx0 mulmx0 sub0mx.
rewrite mulmx_sum_row; have -> : \sum_i p 0 i *: row i E = \sum_i p 0 i *: (row i E - row 0 E).
  under [RHS]eq_bigr do rewrite scalerBr.
  by rewrite sumrB -[X in _ = _ - X]scaler_suml p0 scale0r subr0.
by apply: summx_sub => i _; rewrite scalemx_sub ?difference_sub.
Qed.

(* [differences] is what it should be: combinations of tokens with coefficients that add up to *)
(* zero.                                                                                       *)
Lemma differencesP n d (E : 'M[F]_(n, d)) (x : 'rV[F]_d) :
  (x <= differences E)%MS <-> exists2 p : 'rV[F]_n, \sum_i p 0 i = 0 & x = p *m E.
Proof.
split=> [xE|[p p0 ->]]; last exact: combination_differences.
pose one : 'cV[F]_n := const_mx 1.
have : (differences E <= kermx one *m E)%MS.
  apply: differences_subP => i j; rewrite !rowE -mulmxBl submxMr //; apply/sub_kermxP.
  by rewrite mulmxBl -!rowE; apply/rowP => k; rewrite !mxE subrr.
move=> /(submx_trans xE)/submxP[D ->]; exists (D *m kermx one); last by rewrite mulmxA.
have : D *m kermx one *m one = 0 by rewrite -mulmxA mulmx_ker mulmx0.
by move=> /matrixP/(_ 0 0); rewrite [X in _ = X -> _]mxE mxE => s; apply: etrans s;
  apply: eq_bigr => i _; rewrite [one _ _]mxE mulr1.
Qed.

Lemma rank_differences_ge n d (E : 'M[F]_(n, d)) : (\rank E - 1 <= \rank (differences E))%N.
Proof.
rewrite leq_subLR; case: n E => [|n] E; first by rewrite [E]flatmx0 mxrank0.
have : (E <= row 0 E + differences E)%MS.
  apply/row_subP => i; rewrite -(subrK (row 0 E) (row i E)) addmx_sub ?addsmxSl //.
  by apply: submx_trans (addsmxSr _ _); apply: difference_sub.
move=> /mxrankS/leq_trans; apply; apply: leq_trans (mxrank_adds_leqif _ _) _.
by rewrite leq_add2r rank_leq_row.
Qed.

Lemma rank_differences_le n d (E : 'M[F]_(n, d)) : (\rank (differences E) <= n - 1)%N.
Proof.
case: n E => [|n] E; first by apply: leq_trans (mxrankS (differences_sub E)) _;
  rewrite [E]flatmx0 mxrank0.
rewrite subn1 /=; pose D := \matrix_(i < n) (row (lift 0 i) E - row 0 E).
have iD i : (row i E - row 0 E <= D)%MS.
  case: (unliftP 0 i) => [i' ->|->]; last by rewrite subrr sub0mx.
  by have := row_sub i' D; rewrite rowK.
apply: leq_trans (rank_leq_row D); apply: mxrankS; apply: differences_subP => i j.
have -> : row i E - row j E = (row i E - row 0 E) - (row j E - row 0 E)
  by rewrite opprB addrA subrK.
by rewrite addmx_sub ?eqmx_opp.
Qed.

End Differences.
