(* proofs/15-contexts.md: Theorem 9, almost all queries. Those which reach c(E; H) are an open *)
(* and dense set.                                                                              *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity Generic_contexts theorem_8 theorem_9
  rank_open rank_on_curves.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* For rank-one heads with one key direction a that tells different tokens of a context apart, *)
(* and query directions q h of which no two are parallel                                       *)
Definition Theorem9_dense : Prop :=
  forall (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d))
      (a : 'cV[R]_d) (q : 'I_H -> 'cV[R]_d),
    (0 < H)%N ->
    (forall t i j, (E t *m a) i 0 = (E t *m a) j 0 -> row i (E t) = row j (E t)) ->
    (forall h, q h != 0) ->
    (forall g h, g != h -> forall c : R, q g != c *: q h) ->
  let reach (Q : 'M[R]_(T, d)) := \rank (intermediates E Q (fun h => a *m (q h)^T)) = capacity E H
    in
  (forall (Q : 'M[R]_(T, d)) (eps : R), 0 < eps -> exists2 Q' : 'M[R]_(T, d), near_matrix eps Q' Q
    & reach Q') /\
  (forall Q : 'M[R]_(T, d), reach Q ->
    exists2 eps : R, 0 < eps & forall Q' : 'M[R]_(T, d), near_matrix eps Q' Q -> reach Q').

Theorem theorem_9_dense : Theorem9_dense.
Proof.
move=> R d T H n E a q H0 Ea q0 qN reach; pose W h := a *m (q h)^T.
have upper Q : (\rank (intermediates E Q W) <= capacity E H)%N by exact: theorem_8.
split=> [Q eps eps0|Q rQ]; last first.
  have [eps eps0 near] := rank_open E Q W; exists eps; first exact: eps0.
  move=> Q' QQ; have same h : near_matrix eps (W h) (W h) by move=> i j; rewrite subrr normr0.
  by apply: anti_leq; rewrite upper (leq_trans (eq_leq (esym rQ)) (near Q' _ QQ same)).
have [Q1 Q1r] := theorem_9_queries H0 Ea q0 qN; have [rs rsP] := rank_lines E E Q1 Q W W.
have [s srs near] :=
  @near_on_lines R [finType of unit] (fun=> T) d (fun=> Q) (fun=> Q1) rs eps eps0.
exists (on_line Q Q1 s); first exact: near tt.
have le := rsP (1 - s) srs; apply: anti_leq; rewrite upper -Q1r; apply: leq_trans le _.
apply: eq_leq; congr (\rank _).
by apply: intermediates_eq => [t||h]; [exact: on_line_same|exact: on_line_swap|exact: on_line_same].
Qed.
