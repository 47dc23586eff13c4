(* proofs/4-intermediate.md: full row rank is an open condition, along a sequence of matrices. *)
From mathcomp Require Import all_ssreflect all_algebra all_fingroup.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype sequences exp.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section Limits.

Variable R : realType.

Lemma cvg_sum_seq (I : Type) (r : seq I) (u : I -> nat -> R) (l : I -> R) :
  (forall i, u i k @[k --> \oo] --> l i) -> (\sum_(i <- r) u i k) @[k --> \oo] --> \sum_(i <- r) l
    i.
Proof.
move=> ul; elim: r => [|i r IHr].
  by rewrite big_nil; under eq_fun do rewrite big_nil; exact: cvg_cst.
by rewrite big_cons; under eq_fun do rewrite big_cons; exact: cvgD.
Qed.

Lemma cvg_prod_seq (I : Type) (r : seq I) (u : I -> nat -> R) (l : I -> R) :
  (forall i, u i k @[k --> \oo] --> l i) -> (\prod_(i <- r) u i k) @[k --> \oo] --> \prod_(i <- r) l
    i.
Proof.
move=> ul; elim: r => [|i r IHr].
  by rewrite big_nil; under eq_fun do rewrite big_nil; exact: cvg_cst.
by rewrite big_cons; under eq_fun do rewrite big_cons; exact: cvgM.
Qed.

Lemma cvg_det m (A : nat -> 'M[R]_m) (L : 'M[R]_m) :
  (forall i j, A k i j @[k --> \oo] --> L i j) -> \det (A k) @[k --> \oo] --> \det L.
Proof.
move=> AL; rewrite /determinant; apply: cvg_sum_seq => s.
by apply: cvgMr; apply: cvg_prod_seq.
Qed.

Lemma cvg_mulmx m n p (A : nat -> 'M[R]_(m, n)) (L : 'M_(m, n)) (C : 'M_(n, p)) :
  (forall i j, A k i j @[k --> \oo] --> L i j) ->
  forall i j, (A k *m C) i j @[k --> \oo] --> (L *m C) i j.
Proof.
move=> AL i j; rewrite mxE; under eq_fun do rewrite mxE.
by apply: cvg_sum_seq => l; apply: cvgMl.
Qed.

Lemma row_free_open m n (A : nat -> 'M[R]_(m, n)) (L : 'M_(m, n)) :
  (forall i j, A k i j @[k --> \oo] --> L i j) -> row_free L -> exists k, row_free (A k).
Proof.
move=> AL /row_freeP[C LC].
have := cvg_det (cvg_mulmx (C := C) AL); rewrite LC det1 =>
  /cvgr_neq0/(_ (oner_neq0 _))[N _ /(_ N (leqnn N))].
rewrite -unitfE -unitmxE => AU; exists N.
by apply/row_freeP; exists (C *m invmx (A N *m C)); rewrite mulmxA mulmxV.
Qed.

End Limits.
