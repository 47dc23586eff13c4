(* proofs/3-heads.md: the directions of Lemma 3.3. One is orthogonal to a group's queries and to *)
(* no query outside of their span; one tells all different tokens of each context apart.         *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import avoid_hyperplanes.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section OrthogonalDirection.

Variable F : numFieldType.

Lemma orthogonal_direction (I : finType) q d (S : 'M[F]_(q, d)) (u : I -> 'rV[F]_d) :
  (forall i, ~~ (u i <= S)%MS) ->
  exists w : 'cV[F]_d, S *m w = 0 /\ forall i, (u i *m w) 0 0 != 0.
Proof.
move=> uS; have [|y yu] := @avoid_hyperplanes F I d (fun i => u i *m cokermx S).
  by move=> i; rewrite -submxE.
exists (cokermx S *m y); split=> [|i]; first by rewrite mulmxA mulmx_coker mul0mx.
apply: contraNneq (yu i) => uw; apply/eqP/matrixP => j k.
by rewrite !ord1 -mulmxA uw mxE.
Qed.

End OrthogonalDirection.

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
