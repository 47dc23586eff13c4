(* proofs/10-exact-rank.md: Theorem 4, checked by a program on lists, over any ring, and proved *)
(* sound: if it says true, the matrix has a right inverse.                                       *)
From Coq Require Import BinNums BinPos BinNat.
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions readout theorem_4.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Checker.

Variables (C : Type) (add mul : C -> C -> C) (zero one : C) (eqC : C -> C -> bool).

Definition sumN n (f : nat -> C) := foldr (fun i s => add (f i) s) zero (iota 0 n).
Definition prodN n (f : nat -> C) := foldr (fun i s => mul (f i) s) one (iota 0 n).
Fixpoint dot (u v : seq C) :=
  if (u, v) is (x :: u', y :: v') then add (mul x y) (dot u' v') else zero.
Fixpoint dot2 (u v : seq (seq C)) :=
  if (u, v) is (x :: u', y :: v') then add (dot x y) (dot2 u' v') else zero.
Definition pow (x : C) (e : N) := if e is Npos q then Pos.iter_op mul q x else one.

(* One row of [cleared] at a point a: tokens i j and exponents h i of one example. *)
Definition point_row n d H (a : C) (token : nat -> nat -> C) (exponent : nat -> nat -> N) :
    seq (seq C) :=
  let powers := mkseq (fun h => mkseq (fun i => pow a (exponent h i)) n) H in
  let power h i := nth zero (nth [::] powers h) i in
  let sums := mkseq (fun h => sumN n (power h)) H in
  mkseq (fun h =>
    let others := prodN H (fun h' => if h' == h then one else nth zero sums h') in
    mkseq (fun j => mul (sumN n (fun i => mul (token i j) (power h i))) others) d) H.

(* The witness is a right inverse, one column after the other. *)
Definition check n d T H (a : C) (token : nat -> nat -> nat -> C)
    (exponent : nat -> nat -> nat -> N) (witness : seq (seq (seq C))) : bool :=
  all (fun t => let r := point_row n d H a (token t) (exponent t) in
    all (fun s => eqC (dot2 r (nth [::] witness s)) (if t == s then one else zero)) (iota 0 T))
    (iota 0 T).

Section Soundness.

Variables (F : comRingType) (toF : C -> F).
Hypothesis toFD : forall x y, toF (add x y) = toF x + toF y.
Hypothesis toFM : forall x y, toF (mul x y) = toF x * toF y.
Hypothesis toF0 : toF zero = 0.
Hypothesis toF1 : toF one = 1.
Hypothesis eqCP : forall x y, eqC x y -> toF x = toF y.

Lemma sum_mxvec_index H d (f : 'I_(H * d) -> F) : \sum_i f i = \sum_h \sum_j f (mxvec_index h j).
Proof. by rewrite pair_bigA /= (reindex _ (curry_mxvec_bij _ _)) /=; apply: eq_bigr => -[h j]. Qed.

Lemma sumNE n f : toF (sumN n f) = \sum_(i < n) toF (f i).
Proof.
rewrite -(big_mkord xpredT (fun i => toF (f i))) /sumN /index_iota subn0.
by elim: (iota 0 n) => [|i s IHs]; rewrite ?big_nil ?big_cons //= toFD IHs.
Qed.

Lemma prodNE n f : toF (prodN n f) = \prod_(i < n) toF (f i).
Proof.
rewrite -(big_mkord xpredT (fun i => toF (f i))) /prodN /index_iota subn0.
by elim: (iota 0 n) => [|i s IHs]; rewrite ?big_nil ?big_cons //= toFM IHs.
Qed.

Lemma dotE u v : toF (dot u v) = \sum_(i < size u) toF (nth zero u i) * toF (nth zero v i).
Proof.
elim: u v => [|x u IHu] [|y v] /=; rewrite ?big_ord0 //.
  by rewrite big1 ?toF0 // => i _; rewrite nth_nil toF0 mulr0.
by rewrite big_ord_recl toFD toFM IHu.
Qed.

Lemma dot2E u v : toF (dot2 u v) = \sum_(i < size u) toF (dot (nth [::] u i) (nth [::] v i)).
Proof.
elim: u v => [|x u IHu] [|y v] /=; rewrite ?big_ord0 //.
  by rewrite big1 ?toF0 // => i _; rewrite nth_nil; case: (nth _ _ _) => [|z w].
by rewrite big_ord_recl toFD IHu.
Qed.

Lemma powE x e : toF (pow x e) = toF x ^+ (nat_of_bin e).
Proof.
case: e => [|q] /=; first by rewrite toF1.
elim: q x => [q IHq|q IHq|] x /=; rewrite ?toFM ?IHq ?toFM ?expr1 //.
  by rewrite NatTrec.doubleE -expr2 -exprM mul2n exprS.
by rewrite NatTrec.doubleE -expr2 -exprM mul2n.
Qed.

Variables (n d T H : nat) (a : C) (token : nat -> nat -> nat -> C).
Variables (exponent : nat -> nat -> nat -> N).
Variables (E : 'I_T -> 'M[int]_(n, d)) (k : 'I_T -> 'I_H -> 'I_n -> nat).
Hypothesis tokenE : forall (t : 'I_T) (i : 'I_n) (j : 'I_d), toF (token t i j) = (E t i j)%:~R.
Hypothesis exponentE : forall (t : 'I_T) (h : 'I_H) (i : 'I_n),
  nat_of_bin (exponent t h i) = k t h i.

Lemma evaluate_cleared (x : F) t h j :
  evaluate x (cleared E k t (mxvec_index h j)) =
  (\sum_i (E t i j)%:~R * x ^+ k t h i) * \prod_(h' | h' != h) \sum_i x ^+ k t h' i.
Proof.
rewrite [cleared _ _ _ _]mxE mxvecE mxE.
pose psi := [rmorphism of horner_eval x \o map_poly (intr : int -> F)].
rewrite -[LHS]/(psi _) rmorphM rmorph_prod; congr (_ * _).
  rewrite rmorph_sum; apply: eq_bigr => i _.
  by rewrite rmorphM /= map_polyC map_polyXn /horner_eval hornerXn hornerC.
apply: eq_bigr => h' _; rewrite rmorph_sum; apply: eq_bigr => i _.
by rewrite /= map_polyXn /horner_eval hornerXn.
Qed.

Let r (t : 'I_T) := point_row n d H a (token t) (exponent t).

Lemma size_point_row t : size (r t) = H.
Proof. by rewrite size_mkseq. Qed.

Lemma size_point_row2 t (h : 'I_H) : size (nth [::] (r t) h) = d.
Proof. by rewrite nth_mkseq // size_mkseq. Qed.

Lemma point_rowE (t : 'I_T) (h : 'I_H) (j : 'I_d) :
  toF (nth zero (nth [::] (r t) h) j) = evaluate (toF a) (cleared E k t (mxvec_index h j)).
Proof.
rewrite evaluate_cleared nth_mkseq // nth_mkseq // toFM sumNE prodNE; congr (_ * _).
  by apply: eq_bigr => i _; rewrite toFM tokenE nth_mkseq // nth_mkseq // powE exponentE.
rewrite [RHS]big_mkcond; apply: eq_bigr => h' _; rewrite -val_eqE /=.
case: eqP => _ /=; first by rewrite toF1.
rewrite nth_mkseq // sumNE; apply: eq_bigr => i _.
by rewrite nth_mkseq // nth_mkseq // powE exponentE.
Qed.

Lemma check_right_inverse witness : check n d T H a token exponent witness ->
  exists M, map_mx (evaluate (toF a)) (cleared E k) *m M = 1%:M.
Proof.
move=> /allP ok.
pose W (s : 'I_T) := \matrix_(h < H, j < d) toF (nth zero (nth [::] (nth [::] witness s) h) j).
exists (\matrix_s mxvec (W s))^T; apply/matrixP => t s; rewrite [RHS]mxE.
have /ok /allP/(_ (val s)) : val t \in iota 0 T by rewrite mem_iota /=.
rewrite mem_iota /= => /(_ (ltn_ord s))/eqCP; rewrite dot2E.
rewrite (_ : toF (if _ then _ else _) = (t == s)%:R); last first.
  by rewrite -val_eqE; case: eqP => _; rewrite ?toF1 ?toF0.
move=> <-; rewrite mxE size_point_row sum_mxvec_index.
apply: eq_bigr => h _; rewrite dotE size_point_row2; apply: eq_bigr => j _.
rewrite point_rowE [X in X * _]mxE; congr (_ * _).
by rewrite mxE mxE mxvecE mxE.
Qed.

End Soundness.

End Checker.
