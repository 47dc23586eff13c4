(* proofs/24-free-heads.md: contexts of one token and zeros. Where rows of such examples span all *)
(* N dimensions, there are T <= N examples of any sizes with independent rows.                    *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Free_heads linear_algebra theorem_11.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Token.

Variables (R : realType) (d : nat).

(* One token a and zeros *)
Lemma loneE n (a : 'rV[R]_d) : lone n.+1 a = (delta_mx 0 0 : 'cV_n.+1) *m a.
Proof.
apply/matrixP => i j; rewrite !mxE big_ord1 mxE andbT -[i == 0]/(i == 0%N :> nat).
by case: eqP; rewrite ?mul1r // mul0r mxE.
Qed.

Lemma covariance_lone n (a : 'rV[R]_d) (p : 'cV[R]_n.+1) :
  covariance (lone n.+1 a) p = (p 0 0 - p 0 0 ^+ 2) *: (a^T *m a).
Proof.
rewrite /covariance loneE; set S := _ - _.
rewrite trmx_mul !mulmxA -[in LHS](mulmxA a^T) -[in LHS](mulmxA a^T).
have -> : (delta_mx 0 0 : 'cV_n.+1)^T *m S *m delta_mx 0 0 = (p 0 0 - p 0 0 ^+ 2)%:M.
  apply/matrixP => i j; rewrite !ord1 trmx_delta -rowE -colE [LHS]mxE [LHS]mxE /S.
  by rewrite [LHS]mxE [X in X + _]mxE [X in _ + X]mxE [X in - X]mxE big_ord1 !mxE !eqxx mulr1n
    expr2.
by rewrite mul_mx_scalar scalemxAl.
Qed.

(* A quadratic form that is zero has an antisymmetric matrix. *)
Lemma quadratic_zero (S : 'M[R]_d) : (forall a : 'rV[R]_d, (a *m S *m a^T) 0 0 = 0) ->
  forall i j, S i j + S j i = 0.
Proof.
move=> S0 i j; pose b (k : 'I_d) : 'rV[R]_d := delta_mx 0 k.
have E k l : (b k *m S *m (b l)^T) 0 0 = S k l.
  by rewrite /b trmx_delta -rowE -colE !mxE.
have := S0 (b i + b j); rewrite linearD /= !mulmxDl !mulmxDr [LHS]mxE [X in X + _]mxE [X in _ +
  X]mxE !E.
have := S0 (b i); have := S0 (b j); rewrite !E => -> ->.
by rewrite add0r addr0 addrC.
Qed.

(* Rows of examples on which only the functional zero vanishes *)
Variables (N : nat) (row_of : forall n, 'M[R]_(n, d) -> 'rV[R]_d -> 'rV[R]_N).
Hypothesis functional_zero : forall n (b : 'cV[R]_N), (1 < n)%N ->
  (forall a e, (row_of (lone n a) e *m b) 0 0 = 0) -> b = 0.

Lemma rows_span m (L : 'M[R]_(m, N)) n : (1 < n)%N -> (m < N)%N ->
  exists a e, ~~ (row_of (lone n a) e <= L)%MS.
Proof.
move=> n1 mN; apply: boolp.contrapT => none.
have all a e : (row_of (lone n a) e <= L)%MS.
  by apply: boolp.contrapT => /negP no; apply: none; exists a, e.
suff : (1%:M <= L)%MS.
  move=> /mxrankS; rewrite mxrank1 => /leq_trans/(_ (rank_leq_row L)).
  by rewrite leqNgt mN.
rewrite submxE mul1mx; apply/eqP/matrixP => i j.
have /matrixP/(_ i 0) : col j (cokermx L) = 0; last by rewrite !mxE.
apply: (functional_zero n1) => a e; rewrite colE mulmxA -colE mxE.
by have := all a e; rewrite submxE => /eqP->; rewrite mxE.
Qed.

Lemma independent_examples T (n : 'I_T -> nat) : (T <= N)%N -> (forall t, 1 < n t)%N ->
  exists (E : forall t, 'M[R]_(n t, d)) (Q : 'M[R]_(T, d)),
    row_free (\matrix_t row_of (E t) (row t Q)).
Proof.
move=> TN n1; have [t m L mT|ae aeP] := @greedy_rows R ('rV[R]_d * 'rV[R]_d)%type T _
  (fun t ae => row_of (lone (n t) ae.1) ae.2).
  by have [a [e ae]] := rows_span L (n1 t) (leq_trans mT TN); exists (a, e).
exists (fun t => lone (n t) (ae t).1), (\matrix_t (ae t).2).
by move: aeP; congr (is_true (row_free _)); apply/row_matrixP => t; rewrite !rowK.
Qed.

End Token.
