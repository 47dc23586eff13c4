(* proofs/12-paired-heads.md: Lemma 12.2. A positive vector w with N w < w proves that a matrix *)
(* within N of the identity is nonsingular.                                                     *)
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Every entry of I - A is at most that of N in size. *)
Definition within (F : realFieldType) T (A N : 'M[F]_T) : Prop := forall i j, `|(1%:M - A) i j| <=
  N i j.

(* Z is T x m; X = Z K is T x p, and A = X R. *)
Definition Positive_vector : Prop :=
  forall (F : realFieldType) (T m p : nat) (Z : 'M[F]_(T, m)) (K : 'M[F]_(m, p)) (S : 'M[F]_(p, T))
    (N : 'M[F]_T)
      (w : 'cV[F]_T),
    within (Z *m K *m S) N -> (forall i, 0 < w i 0) -> (forall i, (N *m w) i 0 < w i 0) ->
  Z *m K *m S \in unitmx /\ \rank Z = T.

(* If N w <= q w with q < 1, and all entries of A g are at most c w in size, then those of g are *)
(* at most c w / (1 - q).                                                                        *)
Definition Positive_vector_bound : Prop :=
  forall (F : realFieldType) (T : nat) (A N : 'M[F]_T) (w g : 'cV[F]_T) (q c : F),
    within A N -> (forall i, 0 < w i 0) -> (forall i, (N *m w) i 0 <= q * w i 0) -> q < 1 ->
    (forall i, `|(A *m g) i 0| <= c * w i 0) ->
  forall i, `|g i 0| <= c / (1 - q) * w i 0.

Theorem positive_vector_bound : Positive_vector_bound.
Proof.
move=> F T A N w g q c AN w0 Nw q1 Ag i.
pose s := [arg max_(j > i) (`|g j 0| / w j 0)]%O; pose G := `|g s 0| / w s 0.
have GE j : `|g j 0| <= G * w j 0.
  rewrite -ler_pdivr_mulr // /G /s; by case: arg_maxP => // k _; apply.
have step : `|g s 0| <= (c + q * G) * w s 0.
  have -> : g s 0 = (A *m g) s 0 + ((1%:M - A) *m g) s 0 by rewrite mulmxBl mul1mx [X in _ + X]mxE
    [X in _ + (_ + X)]mxE addrC subrK.
  rewrite mulrDl (le_trans (ler_norm_add _ _)) // ler_add //.
  rewrite mxE (le_trans (ler_norm_sum _ _ _)) //.
  apply: (@le_trans _ _ (\sum_j N s j * w j 0 * G)).
    apply: ler_sum => j _; rewrite normrM -mulrA ler_pmul // mulrC; exact: GE.
  have G0 : 0 <= G by rewrite divr_ge0 // ltW.
  rewrite -mulr_suml [X in X <= _]mulrC [q * G]mulrC -[X in _ <= X]mulrA; apply: ler_wpmul2l => //.
  by have := Nw s; rewrite mxE.
have {}step : G <= c / (1 - q).
  rewrite ler_pdivl_mulr ?subr_gt0 // mulrBr mulr1 ler_subl_addr [G * q]mulrC.
  by rewrite ler_pdivr_mulr.
by rewrite (le_trans (GE i)) // ler_wpmul2r // ltW.
Qed.

Theorem positive_vector : Positive_vector.
Proof.
move=> F T m p Z K S N w AN w0 Nw.
suff unit : Z *m K *m S \in unitmx.
  split=> //; apply/eqP; rewrite eqn_leq rank_leq_row /=.
  by move: unit; rewrite -row_free_unit /row_free -mulmxA => /eqP {1}<-; exact: mxrankM_maxl.
rewrite -unitmx_tr -row_free_unit; apply: inj_row_free => v vA.
pose g := v^T; have Ag : Z *m K *m S *m g = 0 by apply: trmx_inj; rewrite trmx_mul trmxK vA trmx0.
apply: trmx_inj; rewrite trmx0 -/g; apply/colP => i; rewrite [RHS]mxE.
pose s := [arg max_(j > i) ((N *m w) j 0 / w j 0)]%O; pose q := (N *m w) s 0 / w s 0.
have := @positive_vector_bound F T _ N w g q 0 AN w0 _ _ _ i.
rewrite mul0r mul0r normr_le0 => bound; apply/eqP/bound => [j||j].
- rewrite -ler_pdivr_mulr // /q /s; by case: arg_maxP => // k _; apply.
- by rewrite ltr_pdivr_mulr // mul1r.
- by rewrite Ag mxE normr0 mul0r.
Qed.
