(* proofs/10-exact-rank.md: Theorem 4 for a layer of rank-one heads and a dataset, all in lists *)
(* of integers, times powers of two (or any rational scales).                                    *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions hermite theorem_4 list_checker integer_checker.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition entryZ (rows : seq (seq Z)) i j := nth Z0 (nth [::] rows i) j.
Definition dotZ := dot Z.add Z.mul Z0.

(* Queries and tokens have d entries, and logits are what exponents and shifts say. *)
Definition logitsZ n d T H tokens (queries keys directions : seq (seq Z))
    (exponents : seq (seq (seq N))) (shifts : seq (seq Z)) : bool :=
  all (fun t => (size (nth [::] queries t) == d) &&
    all (fun i => size (nth [::] (nth [::] tokens t) i) == d) (iota 0 n) &&
    all (fun h => let s := dotZ (nth [::] queries t) (nth [::] directions h) in
      all (fun i => Z.eqb (Z.add (Z.of_N (exponent_of exponents t h i)) (entryZ shifts t h))
                          (Z.mul s (dotZ (nth [::] (nth [::] tokens t) i) (nth [::] keys h))))
        (iota 0 n)) (iota 0 H)) (iota 0 T).

Definition check_layer (p : positive) n d T H a tokens queries keys directions exponents shifts
    witness : bool :=
  logitsZ n d T H tokens queries keys directions exponents shifts &&
  checkZ p n d T H a tokens exponents witness.

Section Sound.

Variable R : realType.

Definition real_matrix m n (rows : seq (seq Z)) : 'M[R]_(m, n) :=
  \matrix_(i, j) (int_of_Z (entryZ rows i j))%:~R.

Let toR (z : Z) : R := (int_of_Z z)%:~R.

Lemma toRD x y : toR (Z.add x y) = toR x + toR y.
Proof. by rewrite /toR -rmorphD; congr (_%:~R); apply: (rmorphD [rmorphism of int_of_Z] x y). Qed.

Lemma toRM x y : toR (Z.mul x y) = toR x * toR y.
Proof. by rewrite /toR -rmorphM; congr (_%:~R); apply: (rmorphM [rmorphism of int_of_Z] x y). Qed.

Lemma toR_N e : toR (Z.of_N e) = (nat_of_bin e)%:R.
Proof.
rewrite /toR (_ : int_of_Z (Z.of_N e) = Posz (nat_of_bin e)) //; case: e => //= e; congr Posz; lia.
Qed.

Lemma toR0 : toR Z0 = 0. Proof. by []. Qed.

Lemma rank_one_logits n d (E : 'M[R]_(n, d)) (a b : 'cV[R]_d) (e : 'rV[R]_d) :
  E *m (a *m b^T) *m e^T = (e *m b) 0 0 *: (E *m a).
Proof.
rewrite mulmxA -mulmxA -trmx_mul [(e *m b)^T]mx11_scalar mul_mx_scalar.
by rewrite [(e *m b)^T _ _]mxE.
Qed.

(* The real Z has rank T if the integer logits are right and Z has rank T modulo q at one point. *)
Theorem layer_sound (n d T H q : nat) (a : 'F_q) tokens queries keys directions exponents shifts
    (sigma tau kappa lambda : R) :
  logitsZ n d T H tokens queries keys directions exponents shifts ->
  row_free (map_mx (evaluate a)
    (cleared (fun t : 'I_T => \matrix_(i < n, j < d) int_of_Z (token_of tokens t i j))
             (fun t (h : 'I_H) i => nat_of_bin (exponent_of exponents t h i)))) ->
  (0 < n)%N -> sigma != 0 -> transcendental (expR (sigma * tau * kappa * lambda)) ->
  \rank (intermediate (fun t : 'I_T => sigma *: real_matrix n d (nth [::] tokens t))
    (tau *: real_matrix T d queries) (fun h : 'I_H => (kappa *: (row h (real_matrix H d keys))^T) *m
      (lambda *: (row h (real_matrix H d directions))^T)^T)) = T.
Proof.
move=> /allP lok rf n0 s0 tr.
pose c (t : 'I_T) (h : 'I_H) := toR (entryZ shifts t h) * (sigma * tau * kappa * lambda).
apply: (rank_of_step (c := c) n0 s0 tr _ _ rf).
  by move=> t; apply/matrixP => i j; rewrite !mxE.
move=> t h i; rewrite -mulrDl -toR_N -toRD.
have /lok/andP[/andP[/eqP sq /allP st] /allP] : val t \in iota 0 T by rewrite mem_iota /=.
have /st /eqP {}st : val i \in iota 0 n by rewrite mem_iota /=.
move=> /(_ (val h)); rewrite mem_iota /= => /(_ (ltn_ord h))/allP/(_ (val i)).
rewrite mem_iota /= => /(_ (ltn_ord i))/Z.eqb_eq ->; rewrite toRM.
rewrite /dotZ !(dotE toRD toRM toR0) sq st rank_one_logits.
set X := real_matrix n d (nth [::] tokens t); set Q := real_matrix T d queries.
set k := row h (real_matrix H d keys); set l := row h (real_matrix H d directions).
have e1 : ((sigma *: X) *m (kappa *: k^T)) i 0 = sigma * kappa * (X *m k^T) i 0.
  by rewrite -scalemxAl -scalemxAr scalerA mxE.
have e2 : (row t (tau *: Q) *m (lambda *: l^T)) 0 0 = tau * lambda * (row t Q *m l^T) 0 0.
  have -> : row t (tau *: Q) = tau *: row t Q by apply/rowP => j; rewrite !mxE.
  by rewrite -scalemxAl -scalemxAr scalerA mxE.
rewrite [LHS]mxE e1 e2 (_ : (X *m k^T) i 0 = \sum_(j < d)
  toR (nth Z0 (nth [::] (nth [::] tokens t) i) j) * toR (nth Z0 (nth [::] keys h) j)).
rewrite (_ : (row t Q *m l^T) 0 0 = \sum_(j < d)
  toR (nth Z0 (nth [::] queries t) j) * toR (nth Z0 (nth [::] directions h) j)).
- by rewrite mulrACA [RHS]mulrC; congr (_ * _); ring.
- by rewrite mxE; apply: eq_bigr => j _; rewrite !mxE.
- by rewrite mxE; apply: eq_bigr => j _; rewrite !mxE.
Qed.

Theorem check_layer_sound (p : positive) (n d T H : nat) a tokens queries keys directions
    exponents shifts witness (sigma tau kappa lambda : rat) :
  check_layer p n d T H a tokens queries keys directions exponents shifts witness ->
  (0 < n)%N -> sigma * tau * kappa * lambda != 0 ->
  \rank (intermediate (fun t : 'I_T => ratr sigma *: real_matrix n d (nth [::] tokens t))
    (ratr tau *: real_matrix T d queries)
    (fun h : 'I_H => (ratr kappa *: (row h (real_matrix H d keys))^T) *m
      (ratr lambda *: (row h (real_matrix H d directions))^T)^T)) = T.
Proof.
move=> /andP[lok /checkZ_row_free ok] n0 s0; apply: layer_sound lok ok n0 _ _.
  by rewrite fmorph_eq0; apply: contraNneq s0 => ->; rewrite !mul0r.
by rewrite -!rmorphM; exact: hermite.
Qed.

End Sound.
