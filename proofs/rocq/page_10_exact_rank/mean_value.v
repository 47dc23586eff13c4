(* proofs/10-exact-rank.md: the mean value theorem for F(s) exp(-s), where F is a polynomial. It  *)
(* is what Hermite's theorem and enclosures of exp are proved with.                               *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype derive realfun sequences exp.
From Memorization Require Import exponential_polynomials.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section MeanValue.

Variable R : realType.

Lemma mean_value (F : {poly R}) (a b : R) : a <= b -> exists c, [/\ a <= c, c <= b &
  F.[b] * expR (- b) - F.[a] * expR (- a) = - ((F - F^`()).[c] * expR (- c)) * (b - a)].
Proof.
move=> ab; pose l := [:: (F, - 'X : {poly R})].
have lE s : terms l s = F.[s] * expR (- s) by rewrite /terms big_seq1 /= hornerN hornerX.
have dE s : terms (map (@derive_term R) l) s = - ((F - F^`()).[s] * expR (- s)).
  by rewrite /terms big_seq1 /= derivN derivX mulrN1 !hornerE -mulNr opprB.
have D s := is_derive_terms l s.
have [|c] := @MVT_segment R (terms l) _ a b ab (fun s _ => D s).
  apply: continuous_subspaceT => s; apply/differentiable_continuous/derivable1_diffP.
  by have [] := D s.
by rewrite in_itv /= => /andP[ac cb]; rewrite !lE dE => e; exists c.
Qed.

(* For x >= 0, as Hermite's theorem needs it *)
Lemma exp_mean_value (F : {poly R}) (x : R) : 0 <= x -> exists c, [/\ 0 <= c, c <= x &
  expR x * F.[0] - F.[x] = x * expR (x - c) * (F - F^`()).[c]].
Proof.
move=> x0; have [c [c0 cx e]] := mean_value F x0; exists c; split=> //.
have := congr1 ( *%R (- expR x)) e; rewrite subr0 oppr0 expR0 mulr1 mulrBr !mulNr opprK addrC.
rewrite mulrCA expRxMexpNx_1 mulr1 => ->; rewrite !mulrN opprK expRD.
by rewrite -[RHS]mulrA [RHS]mulrC -!mulrA; congr (_ * _); rewrite mulrCA.
Qed.

(* For x <= 0, as the series of exp needs it *)
Lemma exp_mean_value_below (F : {poly R}) (x : R) : x <= 0 -> exists c, [/\ x <= c, c <= 0 &
  expR x * F.[0] - F.[x] = x * expR (x - c) * (F - F^`()).[c]].
Proof.
move=> x0; have [c [xc c0 e]] := mean_value F x0; exists c; split=> //.
have := congr1 ( *%R (expR x)) e; rewrite oppr0 expR0 mulr1 sub0r mulrBr.
rewrite [X in _ - X]mulrCA expRxMexpNx_1 mulr1 => ->; rewrite mulrNN expRD.
by rewrite -[RHS]mulrA [RHS]mulrC -!mulrA; congr (_ * _); rewrite mulrCA.
Qed.

(* The library has it for x >= 0. *)
Lemma exp_ge (x : R) : 1 + x <= expR x.
Proof.
have [x0|/ltW x0] := leP 0 x; first exact: expR_ge1Dx.
have [c [xc c0]] := exp_mean_value_below 1%:P x0.
rewrite derivC subr0 !hornerC !mulr1 => /eqP; rewrite subr_eq => /eqP ->.
by rewrite addrC ler_add2r ler_nimulr // -[X in _ <= X](expR0 R) ler_expR subr_le0.
Qed.

End MeanValue.
