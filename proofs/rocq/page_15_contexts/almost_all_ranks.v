(* proofs/15-contexts.md: Theorem 9, almost all queries; 17-generic-contexts.md: Theorems 11 and  *)
(* 12. If entries of contexts, queries and weights are fixed or one of the numbers x i, then the  *)
(* rank of Z for almost all x is at least that for any x.                                         *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts Almost_all limits rank_open
  rank_on_curves null_sets.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Ranks.

Variables (R : realType) (I : finType).

(* Each entry is one of the numbers, or fixed. *)
Definition of_numbers m p (A : (I -> R) -> 'M[R]_(m, p)) : Prop := forall i j,
  (exists k, forall x, A x i j = x k) \/ exists c, forall x, A x i j = c.

Lemma of_numbers_fixed m p (A : 'M[R]_(m, p)) : of_numbers (fun=> A).
Proof. by move=> i j; right; exists (A i j). Qed.

Lemma of_numbers_matrix m p (f : 'I_m -> 'I_p -> I) :
  of_numbers (fun x => \matrix_(i, j) x (f i j)).
Proof. by move=> i j; left; exists (f i j) => x; rewrite mxE. Qed.

Lemma of_numbers_line m p (A : (I -> R) -> 'M[R]_(m, p)) x y s : of_numbers A ->
  A (fun i => x i + s * (y i - x i)) = on_line (A x) (A y) s.
Proof.
move=> nA; apply/matrixP => i j; rewrite !mxE.
by case: (nA i j) => [[k kE]|[c cE]]; rewrite ?kE // !cE subrr mulr0 addr0.
Qed.

Lemma of_numbers_limit m p (A : (I -> R) -> 'M[R]_(m, p)) (xs : nat -> I -> R) x : of_numbers A ->
  (forall i, xs k i @[k --> \oo] --> x i) -> forall i j, A (xs k) i j @[k --> \oo] --> A x i j.
Proof.
move=> nA xsx i j; case: (nA i j) => [[k kE]|[c cE]].
  by rewrite kE; under eq_fun do rewrite kE; exact: xsx.
by rewrite cE; under eq_fun do rewrite cE; exact: cvg_cst.
Qed.

(* Matrices that depend continuously on the numbers have open sets of large rank. *)
Lemma rank_open_limits m p (M : (I -> R) -> 'M[R]_(m, p)) x :
  (forall xs, (forall i, xs k i @[k --> \oo] --> x i) ->
    forall i j, M (xs k) i j @[k --> \oo] --> M x i j) ->
  exists2 eps : R, 0 < eps & forall y, (forall i, `|y i - x i| < eps) ->
    (\rank (M x) <= \rank (M y))%N.
Proof.
move=> limit; apply: contrapT => none.
have near k : exists y, (forall i, `|y i - x i| < k.+1%:R^-1) /\ (\rank (M y) < \rank (M x))%N.
  apply: contrapT => no; apply: none; exists k.+1%:R^-1; first by rewrite invr_gt0 ltr0n.
  by move=> y xy; rewrite leqNgt; apply/negP => lt; apply: no; exists y.
have [xs xsP] := choice near.
have xsx i : xs k i @[k --> \oo] --> x i.
  have e (y : I -> R) : y i = (\row_j y (enum_val j) : 'rV[R]_#|I|) 0 (enum_rank i).
    by rewrite mxE enum_rankK.
  rewrite e; under eq_fun do rewrite e.
  by apply: cvg_near => k a b; rewrite !mxE; exact: (xsP k).1.
have := maxrowsub_free (M x); move: (maxrankfun _) => f ff.
have [|k kf] := @row_free_open R _ _ (fun k => rowsub f (M (xs k))) (rowsub f (M x)) _ ff.
  by apply: cvg_rowsub; exact: limit.
have [_] := xsP k; rewrite ltnNge -[X in (X <= _)%N](eqP kf) => /negP; apply.
by rewrite rowsubE mxrankM_maxr.
Qed.

Variables (d T H dh p : nat) (n : 'I_T -> nat) (E : forall t, (I -> R) -> 'M[R]_(n t, d)).
Variables (P : (I -> R) -> 'M[R]_(T, p)) (Q : (I -> R) -> 'M[R]_(T, d)).
Variables (WQ WK : 'I_H -> (I -> R) -> 'M[R]_(d, dh)).
Hypotheses (nE : forall t, of_numbers (E t)) (nP : of_numbers P) (nQ : of_numbers Q).
Hypotheses (nWQ : forall h, of_numbers (WQ h)) (nWK : forall h, of_numbers (WK h)).

Let Z x := intermediates (fun t => E t x) (Q x) (fun h => WK h x *m (WQ h x)^T).

(* Columns P may stand beside those of the heads: queries, for a skip connection. *)
Lemma almost_all_ranks_beside r : (exists x, (r <= \rank (row_mx (P x) (Z x)))%N) ->
  almost_all (fun x => (r <= \rank (row_mx (P x) (Z x)))%N).
Proof.
move=> some; apply: almost_all_of_lines => // [x rx|x y rx].
  have [|eps eps0 near] := @rank_open_limits _ _ (fun x => row_mx (P x) (Z x)) x.
    move=> xs xsx i j; case: (split_ordP j) => {}j ->.
      by rewrite row_mxEl; under eq_fun do rewrite row_mxEl; exact: of_numbers_limit.
    rewrite row_mxEr; under eq_fun do rewrite row_mxEr.
    apply: cvg_blocks => t h; apply: cvg_head => [a b|a b|a]; first exact: of_numbers_limit.
      apply: cvg_mul_mx => {}a {}b; first exact: of_numbers_limit.
      by rewrite mxE; under eq_fun do rewrite mxE; exact: of_numbers_limit.
    by rewrite mxE; under eq_fun do rewrite mxE; exact: of_numbers_limit.
  by exists eps => // y /near le; exact: leq_trans rx le.
have [rs rsP] := rank_beside_on_curve (fun t => line (E t x) (E t y)) (line (Q x) (Q y))
  (fun h => line (WK h x) (WK h y) *m (line (WQ h x) (WQ h y))^T) (line (P x) (P y)) 0.
exists rs => s /rsP le; apply: leq_trans rx _.
apply: leq_trans (leq_trans (eq_leq _) le) (eq_leq _).
  congr (\rank (row_mx _ _)); first by rewrite at_line on_line0.
  by apply: intermediates_eq => *; rewrite ?at_lines ?at_line !on_line0.
congr (\rank (row_mx _ _)); first by rewrite at_line of_numbers_line.
by apply: intermediates_eq => *; rewrite ?at_lines ?at_line !of_numbers_line.
Qed.

End Ranks.

Section Heads.

Variables (R : realType) (I : finType) (d T H : nat) (n : 'I_T -> nat).
Variables (E : forall t, (I -> R) -> 'M[R]_(n t, d)) (Q : (I -> R) -> 'M[R]_(T, d)).
Hypotheses (nE : forall t, of_numbers (E t)) (nQ : of_numbers Q).

Lemma almost_all_ranks dh (WQ WK : 'I_H -> (I -> R) -> 'M[R]_(d, dh)) r :
  (forall h, of_numbers (WQ h)) -> (forall h, of_numbers (WK h)) ->
  let reach x := (r <= \rank (intermediates (fun t => E t x) (Q x)
    (fun h => WK h x *m (WQ h x)^T)))%N in
  (exists x, reach x) -> almost_all reach.
Proof.
move=> nWQ nWK reach.
pose Z x := intermediates (fun t => E t x) (Q x) (fun h => WK h x *m (WQ h x)^T).
pose none : 'M[R]_(T, 0) := 0.
have e x : \rank (row_mx none (Z x)) = \rank (Z x) by rewrite rank_row_0mx.
move=> [x rx]; have some : exists x, (r <= \rank (row_mx none (Z x)))%N by exists x; rewrite e.
have := almost_all_ranks_beside nE (of_numbers_fixed I none) nQ nWQ nWK some.
by apply: almost_all_imply => y; rewrite e.
Qed.

End Heads.
