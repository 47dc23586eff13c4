(* Contexts with equal tokens: the curve s |-> softmax (s v)^T E, s = 0, 1, 2, ..., spans the tokens, and its *)
(* differences to any point span the differences of tokens, if different tokens have different scores v. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions linear_algebra avoid_hyperplanes curve Capacity theorem_8.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Equal scores only for equal tokens *)
Definition separates (F : fieldType) n d (v : 'cV[F]_n) (E : 'M[F]_(n, d)) : Prop :=
  forall i j, v i 0 = v j 0 -> row i E = row j E.

Lemma separating_direction (F : numFieldType) T d (n : 'I_T -> nat) (E : forall t, 'M[F]_(n t, d)) :
  exists a : 'cV[F]_d, forall t, separates (E t *m a) (E t).
Proof.
pose A := {t : 'I_T & ('I_(n t) * 'I_(n t))%type}.
pose u (x : A) := row (tagged x).1 (E (tag x)) - row (tagged x).2 (E (tag x)).
pose I := {x : A | u x != 0}.
have [|a au] := @avoid_hyperplanes F [finType of I] d (fun x => u (val x)); first by case.
exists a => t i j ij; apply/eqP; rewrite -subr_eq0; apply/negPn/negP => nij.
have /negP[] := au (exist _ (Tagged (fun t => ('I_(n t) * 'I_(n t))%type) (i, j)) nij).
rewrite mulmxBl subr_eq0 /=; apply/eqP/rowP => k.
by rewrite ord1 -!row_mul mxE [RHS]mxE.
Qed.

(* Independence of powers with repeated bases: the coefficients of each base add up to zero. *)
Lemma repeated_power_sums (F : fieldType) n (x c : 'I_n -> F) :
  (forall k : nat, \sum_i c i * x i ^+ k = 0) -> forall i, \sum_(j | x j == x i) c j = 0.
Proof.
move=> cx i; pose p := \prod_(j < n | x j != x i) ('X - (x j)%:P).
have s0 : \sum_j c j * p.[x j] = 0.
  transitivity (\sum_(k < size p) p`_k * \sum_j c j * x j ^+ k).
    under [RHS]eq_bigr do rewrite mulr_sumr.
    rewrite exchange_big; apply: eq_bigr => j _.
    rewrite horner_coef mulr_sumr; apply: eq_bigr => k _.
    by rewrite mulrCA.
  by rewrite big1 // => k _; rewrite cx ?mulr0.
have pj j : x j != x i -> p.[x j] = 0.
  by move=> ji; rewrite horner_prod (bigD1 j) //= hornerXsubC subrr mul0r.
have pi : p.[x i] != 0.
  by rewrite horner_prod; apply/prodf_neq0 => j ji; rewrite hornerXsubC subr_eq0 eq_sym.
move: s0; rewrite (bigID (fun j => x j == x i)) /= [X in _ + X]big1 => [|j /pj->]; last by rewrite mulr0.
rewrite addr0; under eq_bigr => j /eqP-> do [].
by rewrite -mulr_suml => /eqP; rewrite mulf_eq0 (negPf pi) orbF => /eqP.
Qed.

Section Curve.

Variable R : realType.

(* Lemma 15.1, for one functional: if l is constant on the curve, it has that value at every token. *)
Lemma repeated_softmax_functional n (v l : 'cV[R]_n) (b : R) :
  (forall i j, v i 0 = v j 0 -> l i 0 = l j 0) ->
  (forall k : nat, ((softmax (k%:R *: v))^T *m l) 0 0 = b) -> forall i, l i 0 = b.
Proof.
move=> vl lb i; have n0 : (0 < n)%N by case: n i {v l vl lb} => // -[].
suff : \sum_(j | expR (v j 0) == expR (v i 0)) (l j 0 - b) = 0.
  rewrite (eq_bigr (fun=> l i 0 - b)) => [|j /eqP/expR_inj/vl-> //].
  move/eqP; rewrite sumr_const mulrn_eq0 subr_eq0 => /orP[|/eqP//].
  by rewrite -leqn0 leqNgt => /negP[]; apply/card_gt0P; exists i; exact: eqxx.
apply: (@repeated_power_sums _ _ (fun i => expR (v i 0)) (fun i => l i 0 - b)) => k.
have := lb k; set s := \sum_j expR ((k%:R *: v) j 0).
have s0 : s != 0 by rewrite gt_eqF ?expsum_gt0.
move=> /(congr1 (fun y => y * s)); rewrite mxE mulr_suml => e.
under eq_bigr do rewrite mulrBl.
rewrite sumrB; apply/eqP; rewrite subr_eq0; apply/eqP.
rewrite -mulr_sumr; transitivity (b * s); last first.
  by congr (_ * _); apply: eq_bigr => j _; rewrite !mxE expRMm.
rewrite -e; apply: eq_bigr => j _; rewrite !mxE -/s.
by rewrite -expRMm [RHS]mulrAC divfK // mulrC.
Qed.

(* The curve minus c in the row space of L *)
Lemma curve_in_coset n d m (E : 'M[R]_(n, d)) (v : 'cV[R]_n) (c : 'rV[R]_d) (L : 'M[R]_(m, d)) :
  separates v E -> (forall k : nat, ((softmax (k%:R *: v))^T *m E - c <= L)%MS) ->
  forall i, (row i E - c <= L)%MS.
Proof.
move=> vE H i; rewrite submxE.
pose K := cokermx L; rewrite -/K mulmxBl subr_eq0; apply/eqP/rowP => j.
have entry p (A : 'M[R]_(p, d)) k : (A *m col j K) k 0 = (A *m K) k j.
  by rewrite !mxE; apply: eq_bigr => l _; rewrite !mxE.
have const (k : nat) : ((softmax (k%:R *: v))^T *m (E *m col j K)) 0 0 = (c *m K) 0 j.
  have := H k; rewrite submxE mulmxBl subr_eq0 => /eqP/rowP/(_ j) <-.
  by rewrite mulmxA entry.
have vl i1 i2 : v i1 0 = v i2 0 -> (E *m col j K) i1 0 = (E *m col j K) i2 0.
  move=> /vE e; transitivity ((row i1 E *m col j K) 0 0); first by rewrite -row_mul [RHS]mxE.
  by rewrite e -row_mul [LHS]mxE.
by have := repeated_softmax_functional vl const i; rewrite entry -row_mul [in X in _ -> X]mxE.
Qed.

(* Lemma 15.1: the curve leaves each subspace which does not contain all tokens ... *)
Lemma curve_spans_tokens n d m (E : 'M[R]_(n, d)) (v : 'cV[R]_n) (x : 'rV[R]_d) (L : 'M[R]_(m, d)) :
  separates v E -> (x <= E)%MS -> ~~ (x <= L)%MS ->
  exists k : nat, ~~ ((softmax (k%:R *: v))^T *m E <= L)%MS.
Proof.
move=> vE xE xL; apply: contrapT => /forallNP H; move/negP: xL; apply.
apply: submx_trans xE _; apply/row_subP => i; rewrite -[row i E]subr0.
by apply: curve_in_coset vE _ i => k; rewrite subr0; have /negP := H k; rewrite negbK.
Qed.

(* ... and its differences to a point c each subspace which does not contain all differences of tokens. *)
Lemma curve_spans_differences n d m (E : 'M[R]_(n, d)) (v : 'cV[R]_n) (c x : 'rV[R]_d) (L : 'M[R]_(m, d)) :
  separates v E -> (x <= differences E)%MS -> ~~ (x <= L)%MS ->
  exists k : nat, ~~ ((softmax (k%:R *: v))^T *m E - c <= L)%MS.
Proof.
move=> vE xE xL; apply: contrapT => /forallNP H; move/negP: xL; apply.
apply: submx_trans xE _.
have EL : forall i, (row i E - c <= L)%MS.
  by apply: curve_in_coset vE _ => k; have /negP := H k; rewrite negbK.
apply: differences_subP => i j.
have -> : row i E - row j E = (row i E - c) - (row j E - c) by rewrite opprB addrA subrK.
by rewrite addmx_sub ?eqmx_opp.
Qed.

End Curve.
