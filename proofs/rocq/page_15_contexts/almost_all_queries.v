(* proofs/15-contexts.md: Theorem 9, almost all queries. Those which reach c(E; H) are an open    *)
(* and dense set: along a line of queries minors are exponential sums over a positive number, and *)
(* these have few zeros.                                                                          *)
From mathcomp Require Import all_ssreflect all_algebra all_fingroup.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions softmax rank_one_heads Capacity theorem_8 theorem_9
  rank_open.

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

Section ExpSums.

Variable R : realType.

Definition expsum (f : R -> R) : Prop :=
  exists l : seq (R * R), forall s, f s = \sum_(x <- l) x.1 * expR (x.2 * s).

Lemma expsum_const c : expsum (fun=> c).
Proof. by exists [:: (c, 0)] => s; rewrite big_seq1 /= mul0r expR0 mulr1. Qed.

Lemma expsum_exp a b : expsum (fun s => expR (a + s * b)).
Proof. by exists [:: (expR a, b)] => s; rewrite big_seq1 /= expRD mulrC [b * s]mulrC [LHS]mulrC.
  Qed.

Lemma expsumD f g : expsum f -> expsum g -> expsum (fun s => f s + g s).
Proof. by move=> [l lE] [m mE]; exists (l ++ m) => s; rewrite big_cat lE mE. Qed.

Lemma expsumM f g : expsum f -> expsum g -> expsum (fun s => f s * g s).
Proof.
move=> [l lE] [m mE]; exists [seq (x.1 * y.1, x.2 + y.2) | x <- l, y <- m] => s.
rewrite lE mE big_allpairs_dep /= mulr_suml; apply: eq_bigr => x _.
rewrite mulr_sumr; apply: eq_bigr => y _; by rewrite mulrDl expRD mulrACA.
Qed.

Lemma expsum_sum (I : finType) (P : pred I) (f : I -> R -> R) :
  (forall i, expsum (f i)) -> expsum (fun s => \sum_(i | P i) f i s).
Proof.
move=> fi; elim: (index_enum I) => [|i r [l lE]].
  by exists [::] => s; rewrite !big_nil.
have [m mE] := fi i; case Pi : (P i); last by exists l => s; rewrite big_cons Pi lE.
by exists (m ++ l) => s; rewrite big_cons Pi big_cat mE lE.
Qed.

Lemma expsum_prod (I : finType) (P : pred I) (f : I -> R -> R) :
  (forall i, expsum (f i)) -> expsum (fun s => \prod_(i | P i) f i s).
Proof.
move=> fi; elim: (index_enum I) => [|i r IHr].
  by have [l lE] := expsum_const 1; exists l => s; rewrite big_nil; exact: lE.
have [l lE] := IHr; case Pi : (P i); last by exists l => s; rewrite big_cons Pi lE.
by have [m mE] := expsumM (fi i) IHr; exists m => s; rewrite big_cons Pi mE.
Qed.

Lemma expsum_det m (A : R -> 'M[R]_m) : (forall i j, expsum (fun s => A s i j)) -> expsum (fun s =>
  \det (A s)).
Proof.
move=> Aij; rewrite /determinant; apply: expsum_sum => s.
by apply: expsumM; [exact: expsum_const | apply: expsum_prod => i].
Qed.

Lemma bounded_power_sums n (x c : 'I_n -> R) :
  (forall k : nat, (k < n)%N -> \sum_i c i * x i ^+ k = 0) -> forall i, \sum_(j | x j == x i) c j =
    0.
Proof.
move=> cx i; pose p := \prod_(j < n | x j != x i) ('X - (x j)%:P).
have sp : (size p <= n)%N.
  rewrite /p -big_filter size_prod_XsubC size_filter -sum1_count sum1_card.
  have -> : #|[pred j | x j != x i]| = #|[predC [pred j | x j == x i]]| by apply: eq_card.
  have := cardC [pred j | x j == x i]; rewrite card_ord => nE;
    rewrite -[X in (_ <= X)%N]nE -add1n leq_add2r.
  by apply/card_gt0P; exists i; rewrite inE /= eqxx.
have s0 : \sum_j c j * p.[x j] = 0.
  transitivity (\sum_(k < size p) p`_k * \sum_j c j * x j ^+ k).
    under [RHS]eq_bigr do rewrite mulr_sumr.
    rewrite exchange_big; apply: eq_bigr => j _.
    rewrite horner_coef mulr_sumr; apply: eq_bigr => k _.
    by rewrite mulrCA.
  by rewrite big1 // => k _; rewrite cx ?mulr0 // (leq_trans _ sp).
have pj j : x j != x i -> p.[x j] = 0.
  by move=> ji; rewrite horner_prod (bigD1 j) //= hornerXsubC subrr mul0r.
have pi : p.[x i] != 0.
  by rewrite horner_prod; apply/prodf_neq0 => j ji; rewrite hornerXsubC subr_eq0 eq_sym.
move: s0; rewrite (bigID (fun j => x j == x i)) /= [X in _ + X]big1 => [|j /pj->];
  last by rewrite mulr0.
rewrite addr0; under eq_bigr => j /eqP-> do [].
by rewrite -mulr_suml => /eqP; rewrite mulf_eq0 (negPf pi) orbF => /eqP.
Qed.

(* A nonzero exponential sum *)
Lemma expsum_nonzero f s1 : expsum f -> f s1 != 0 ->
  exists N : nat, forall delta : R, delta != 0 -> exists2 k, (k < N)%N & f (k%:R * delta) != 0.
Proof.
move=> [l lE] f1; exists (size l) => delta d0; apply: boolp.contrapT => /boolp.forall2NP none.
case/negP: f1; apply/eqP; pose c (i : 'I_(size l)) := (nth 0 l i).1;
  pose y (i : 'I_(size l)) := (nth 0 l i).2.
have fE s : f s = \sum_i c i * expR (y i * s) by rewrite lE (big_nth 0) big_mkord.
have zero := @bounded_power_sums _ (fun i => expR (y i * delta)) c _.
have {}zero i : \sum_(j | y j == y i) c j = 0.
  rewrite -[RHS](zero _ i) => [|k kl].
    by apply: eq_bigl => j; rewrite (inj_eq (@expR_inj R)) (inj_eq (mulIf d0)).
  have [//|/negP] := none k; rewrite negbK fE => /eqP s; apply: etrans s.
  by apply: eq_bigr => i' _; rewrite -expRMm mulrCA.
pose rep i := odflt i [pick j | y j == y i].
have repP i : y (rep i) = y i by rewrite /rep; case: pickP => [j /eqP //|/(_ i)]; rewrite eqxx.
have repE i j : y i = y j -> rep i = rep j by move=> e; rewrite /rep e; case: pickP => // /(_ j);
  rewrite eqxx.
rewrite fE (partition_big rep predT) //=; apply: big1 => k _.
have [i /eqP ik|rk] := pickP (fun i => rep i == k); last by rewrite big_pred0.
rewrite (eq_bigl (fun j => y j == y i)) => [|j]; last first.
  by apply/eqP/eqP => [jk|/repE->//]; rewrite -repP jk -ik repP.
under eq_bigr => j /eqP-> do [].
by rewrite -mulr_suml zero mul0r.
Qed.

(* Matrices of exponential sums reach the rank that they have at s1 at one of the points 0, *)
(* delta, 2 delta, ...                                                                      *)
Lemma expsum_rank m p (A : R -> 'M[R]_(m, p)) s1 : (forall i j, expsum (fun s => A s i j)) ->
  exists N : nat, forall delta : R, delta != 0 ->
  exists2 k, (k < N)%N & (\rank (A s1) <= \rank (A (k%:R * delta)%R))%N.
Proof.
move=> Aij; pose f := maxrankfun (A s1).
have /row_freeP[C fC] : row_free (rowsub f (A s1)) by exact: maxrowsub_free.
pose g s := \det (rowsub f (A s) *m C).
have gs : expsum g.
  apply: expsum_det => i j.
  have [l lE] : expsum (fun s => \sum_k A s (f i) k * C k j).
    by apply: expsum_sum => k; apply: expsumM; [exact: Aij|exact: expsum_const].
  by exists l => s; rewrite -lE mxE; apply: eq_bigr => k _; rewrite mxE.
have [|N NP] := expsum_nonzero gs (s1 := s1); first by rewrite /g fC det1 oner_neq0.
exists N => delta d0; have [k kN kd] := NP delta d0; exists k; first exact: kN.
set B := A (k%:R * delta)%R; have BU : rowsub f B *m C \in unitmx by rewrite unitmxE unitfE.
have Bf : row_free (rowsub f B).
  by apply/row_freeP; exists (C *m invmx (rowsub f B *m C)); rewrite mulmxA mulmxV.
rewrite -[X in (X <= _)%N](eqP Bf) rowsubE; exact: mxrankM_maxr.
Qed.

End ExpSums.

Section Dense.

Variables (R : realType) (d T H : nat) (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (a :
  'cV[R]_d) (q : 'I_H -> 'cV[R]_d).

Let Z (Q : 'M[R]_(T, d)) := intermediates E Q (fun h => a *m (q h)^T).

Local Opaque expsum.

Lemma rank_near (Q0 Q1 : 'M[R]_(T, d)) : exists N : nat, forall delta : R, delta != 0 ->
  exists2 k, (k < N)%N & (\rank (Z Q1) <= \rank (Z (Q0 + (k%:R * delta) *: (Q1 - Q0))))%N.
Proof.
pose Qs (s : R) := Q0 + s *: (Q1 - Q0).
pose ex t h i s := expR (((row t Q0 *m q h) 0 0 * (E t *m a) i 0) + s * ((row t (Q1 - Q0) *m q h) 0
  0 * (E t *m a) i 0)).
pose den t h s := \sum_i ex t h i s + (n t == 0%N)%:R.
pose cl s : 'M[R]_(T, H * d) := \matrix_t mxvec (\matrix_(h, j)
  ((\prod_(h' | h' != h) den t h' s) * \sum_i ex t h i s * E t i j)).
have den0 t h s : den t h s != 0.
  rewrite /den; have [n0|n0] := posnP (n t).
    by rewrite big1 ?add0r ?oner_eq0 // => i; have := ltn_ord i; rewrite {2}n0.
  rewrite addr0 gt_eqF //; have := expsum_gt0 (\col_i (((row t Q0 *m q h) 0 0 * (E t *m a) i 0) + s
    * ((row t (Q1 - Q0) *m q h) 0 0 * (E t *m a) i 0))) n0.
  by congr (0 < _); apply: eq_bigr => i _; rewrite mxE.
have clE s : cl s = diag_mx (\row_t \prod_h den t h s) *m Z (Qs s).
  rewrite mul_diag_mx; apply/matrixP => t hj; case/mxvec_indexP: hj => h j.
  rewrite [LHS]mxE mxvecE [LHS]mxE [RHS]mxE [(\row__ _) _ _]mxE [Z _ _ _]mxE mxvecE [X in _ = _ *
    X]mxE.
  rewrite [X in _ = X * _](bigD1 h) //= [X in _ = X * _]mulrC -mulrA; congr (_ * _).
  rewrite head_rank_one [X in _ = _ * X]mxE mulr_sumr; apply: eq_bigr => i _.
  rewrite [_^T _ _]mxE [softmax _ _ _]mxE mulrA; congr (_ * _).
  have exE i' : expR (((row t (Qs s) *m q h) 0 0 *: (E t *m a)) i' 0) = ex t h i' s.
    rewrite mxE /Qs /ex linearD linearZ /= mulmxDl -scalemxAl [(_ + _ : 'M_1) 0 0]mxE [(s *: _ :
      'M_1) 0 0]mxE mulrDl.
    by rewrite mulrA.
  rewrite exE; under [X in _ = _ * (_ / X)]eq_bigr do rewrite exE.
  have n0 : (n t == 0%N) = false by case: (n t) i => // -[].
  have := den0 t h s; rewrite /den n0 addr0 => d0; by rewrite mulrCA divff ?mulr1.
have rcl s : \rank (cl s) = \rank (Z (Qs s)).
  rewrite clE; apply/eqP; rewrite eqn_leq mxrankM_maxr /=; apply: mxrankS.
  apply/submxP; exists (diag_mx (\row_t (\prod_h den t h s)^-1)); rewrite mulmxA.
  suff -> : diag_mx (\row_t (\prod_h den t h s)^-1) *m diag_mx (\row_t \prod_h den t h s) = 1%:M by
    rewrite mul1mx.
  rewrite mul_diag_mx; apply/matrixP => t t'; rewrite !mxE mulrnAr mulVf //.
  by apply/prodf_neq0.
have cl_exp t j : expsum (fun s => cl s t j).
  case/mxvec_indexP: j => h j.
  have [l lE] : expsum (fun s => (\prod_(h' | h' != h) den t h' s) * \sum_i ex t h i s * E t i j).
    apply: expsumM.
      apply: expsum_prod => h'; apply: expsumD; last exact: expsum_const.
      by apply: expsum_sum => i; apply: expsum_exp.
    apply: expsum_sum => i; apply: expsumM; [exact: expsum_exp|exact: expsum_const].
  by exists l => s; rewrite -lE [LHS]mxE mxvecE [LHS]mxE.
have [N NP] := @expsum_rank R _ _ cl 1 cl_exp.
exists N => delta d0; have [k kN kr] := NP delta d0; exists k; first exact: kN.
have Q1E : Qs 1 = Q1 by rewrite /Qs scale1r addrC subrK.
by rewrite rcl rcl Q1E in kr.
Qed.

End Dense.

Theorem theorem_9_dense : Theorem9_dense.
Proof.
move=> R d T H n E a q H0 Ea q0 qN reach.
have upper Q : (\rank (intermediates E Q (fun h => (a *m (q h)^T)%R)) <= capacity E H)%N.
  exact: theorem_8.
split=> [Q eps eps0|Q rQ]; last first.
  have [eps eps0 near] := @rank_open R d T H n E Q (fun h => a *m (q h)^T).
  exists eps; first exact: eps0.
  move=> Q' QQ; have same h : near_matrix eps (a *m (q h)^T) (a *m (q h)^T).
    by move=> i j; rewrite subrr normr0.
  by apply: anti_leq; rewrite upper (leq_trans (eq_leq (esym rQ)) (near Q' _ QQ same)).
have [Q1 Q1r] := @theorem_9_queries R d T H n E a q H0 Ea q0 qN.
have [N NP] := rank_near E a q Q Q1.
pose M := \sum_i \sum_j `|(Q1 - Q) i j|.
have M0 : 0 <= M by apply: sumr_ge0 => i _; apply: sumr_ge0 => j _; exact: normr_ge0.
have MP i j : `|(Q1 - Q) i j| <= M.
  rewrite /M (bigD1 i) //= (bigD1 j) //= -addrA ler_addl addr_ge0 //.
    by apply: sumr_ge0 => k _; exact: normr_ge0.
  by apply: sumr_ge0 => k _; apply: sumr_ge0 => l _; exact: normr_ge0.
have pos : 0 < N.+1%:R * (1 + M) by rewrite mulr_gt0 ?ltr0n // ltr_paddr.
have [|k kN kr] := NP (eps / (N.+1%:R * (1 + M))).
  by rewrite gt_eqF ?divr_gt0.
exists (Q + (k%:R * (eps / (N.+1%:R * (1 + M)))) *: (Q1 - Q)); last first.
  by apply: anti_leq; rewrite upper (leq_trans (eq_leq (esym Q1r)) kr).
move=> i j; rewrite [X in X - _]mxE addrAC subrr add0r [X in `|X|]mxE normrM.
rewrite [`|k%:R * _|]ger0_norm ?mulr_ge0 ?ler0n ?divr_ge0 ?ltW //.
apply: (@le_lt_trans _ _ (k%:R * (eps / (N.+1%:R * (1 + M))) * M)).
  by rewrite ler_wpmul2l ?MP // mulr_ge0 ?ler0n // divr_ge0 ?ltW.
have -> : k%:R * (eps / (N.+1%:R * (1 + M))) * M = eps * ((k%:R * M) / (N.+1%:R * (1 + M))).
  by rewrite mulrCA -[LHS]mulrA; congr (_ * _); exact: mulrAC.
rewrite gtr_pmulr // ltr_pdivr_mulr // mul1r.
apply: (@le_lt_trans _ _ (N.+1%:R * M)).
  by rewrite ler_wpmul2r // ler_nat ltnW // ltnW.
  by rewrite ltr_pmul2l ?ltr0n // ltr_addr.
by rewrite invr_gt0; exact: pos.
Qed.
