(* proofs/15-contexts.md: the spaces L_t of Theorem 9, the dimension of their sums (Proposition *)
(* 15.3), and the queries that span them.                                                       *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity differences linear_algebra directions softmax
  rank_one_heads readout heads_span.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section LayerSpace.

Variables (R : realType) (d H : nat).

(* r |-> the row with c_h r in head h *)
Definition lift_mx (c : 'cV[R]_(1 + H)) : 'M[R]_(d, (1 + H) * d) := lin1_mx (mxvec \o mulmx c).

Lemma mul_lift c (r : 'rV[R]_d) : r *m lift_mx c = mxvec (c *m r).
Proof. by rewrite mul_rV_lin1. Qed.

(* L_t = { (r, r + v_2, ..., r + v_H) : r in R_t, v_h in D_t } *)
Definition layer_mx n (E : 'M[R]_(n, d)) : 'M[R]_((1 + H) * d) :=
  (<<E *m lift_mx (const_mx 1)>> + \sum_(h < H) <<differences E
    *m lift_mx (delta_mx (rshift 1 h) 0)>>)%MS.

Lemma lift_functional p (K : 'M[R]_((1 + H) * d, p)) j c (r : 'rV[R]_d) :
  (r *m lift_mx c *m K) 0 j = \sum_h c h 0 * (r *m \col_i K (mxvec_index h i) j) 0 0.
Proof.
rewrite mul_lift mxvec_mul; apply: eq_bigr => h _; rewrite [X in _ * X]mxE mulr_sumr.
apply: eq_bigr => i _; rewrite [X in _ = _ * (_ * X)]mxE mulrA; congr (_ * _).
by rewrite mxE big_ord1.
Qed.

(* The heads' rows for all queries e span the layer space. *)
Lemma layer_spanned n m (E : 'M[R]_(n, d)) (a : 'cV[R]_d) (q : 'I_(1 + H) -> 'cV[R]_d)
    (L : 'M[R]_(m, (1 + H) * d)) :
  separates (E *m a) E -> (forall h, q h != 0) ->
    (forall g h, g != h -> ~~ ((q g)^T <= (q h)^T)%MS) ->
  (forall e, (mxvec (\matrix_h head E (a *m (q h)^T) e) <= L)%MS) ->
  (layer_mx E <= L)%MS.
Proof.
move=> Ea q0 qq eL; pose K := cokermx L.
pose u j h := \col_i K (mxvec_index h i) j.
have uE j e : \sum_h (head E (a *m (q h)^T) e *m u j h) 0 0 = 0.
  have := eL e; rewrite submxE -/K => /eqP/rowP/(_ j); rewrite mxvec_mul [X in _ = X]mxE => s;
    apply: etrans s.
  apply: eq_bigr => h _; rewrite [LHS]mxE; apply: eq_bigr => i _.
  by rewrite [u _ _ _ _]mxE [X in _ = X * _]mxE.
have CE j h : exists C, forall i, (E *m u j h) i 0 = C.
  exact: (constant_functional Ea (q0 h) (fun g => qq g h) (uE j)).
have rowE' i j h : (row i E *m u j h) 0 0 = (E *m u j h) i 0 by rewrite -row_mul [LHS]mxE.
have Eu i j : \sum_h (row i E *m u j h) 0 0 = 0.
  apply: etrans (uE j 0); apply: eq_bigr => h _; have [C CEh] := CE j h.
  rewrite rowE' CEh head_rank_one -mulmxA [RHS]mxE.
  under eq_bigr do rewrite CEh [_^T _ _]mxE.
  have n0 : (0 < n)%N by case: (n) (i) => // -[].
  by rewrite -mulr_suml softmax_sum // mul1r.
rewrite /layer_mx addsmx_sub genmxE; apply/andP; split.
  apply/row_subP => i; rewrite row_mul submxE; apply/eqP/rowP => j.
  rewrite lift_functional [RHS]mxE -[RHS](Eu i j); apply: eq_bigr => h _.
  by rewrite [X in X * _]mxE mul1r.
apply/sumsmx_subP => h _; rewrite genmxE submxE -mulmxA.
have : (differences E <= kermx (lift_mx (delta_mx (rshift 1 h) 0) *m K))%MS.
  apply: differences_subP => i1 i2; apply/sub_kermxP; rewrite mulmxA; apply/rowP => j.
  rewrite lift_functional [RHS]mxE (bigD1 (rshift 1 h)) //= big1 => [|g /negPf gh].
    rewrite addr0 [X in X * _]mxE !eqxx mul1r mulmxBl [LHS]mxE [X in _ + X]mxE.
    have [C CEh] := CE j (rshift 1 h).
    by have := rowE' i1 j (rshift 1 h); rewrite CEh => ->; have := rowE' i2 j (rshift 1 h);
      rewrite CEh => ->; rewrite subrr.
  by rewrite [X in X * _]mxE gh mul0r.
by move=> /sub_kermxP/eqP.
Qed.

Lemma rank_layer_sum T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (J : {set 'I_T}) :
  (tokens_dim E J + H * differences_dim E J <= \rank (\sum_(t in J) layer_mx (E t))%MS)%N.
Proof.
rewrite /tokens_dim /differences_dim; set RJ := (\sum_(t in J) <<E t>>)%MS;
  set DJ := (\sum_(t in J) differences (E t))%MS.
set S := (\sum_(t in J) _)%MS.
have RS : (RJ *m lift_mx (const_mx 1) <= S)%MS.
  rewrite sumsmxMr_gen; apply/sumsmx_subP => t tJ; rewrite genmxE (sumsmx_sup t) //.
  apply: submx_trans (addsmxSl _ _); rewrite genmxE; apply: submxMr; by rewrite genmxE.
have DS h : (DJ *m lift_mx (delta_mx (rshift 1 h) 0) <= S)%MS.
  rewrite sumsmxMr_gen; apply/sumsmx_subP => t tJ; rewrite genmxE (sumsmx_sup t) //.
  by apply: submx_trans (addsmxSr _ _); rewrite (sumsmx_sup h) // genmxE.
pose A := row_base RJ; pose B := row_base DJ.
pose f2 (y : 'M[R]_(H, \rank DJ)) := col_mx (0 : 'rV_d) (y *m B).
have f2l : linear f2.
  by move=> c x y; rewrite /f2 mulmxDl -scalemxAl scale_col_mx add_col_mx scaler0 addr0.
pose N := col_mx (A *m lift_mx (const_mx 1)) (lin_mx (Linear f2l)).
have NS : (N <= S)%MS.
  rewrite col_mx_sub; apply/andP; split.
    by apply: submx_trans RS; apply: submxMr; rewrite eq_row_base.
  apply/row_subP => i; rewrite rowE mul_rV_lin /= /f2; set y := vec_mx _.
  have -> : col_mx 0 (y *m B) = \sum_(h < H) (delta_mx (rshift 1 h) 0 : 'cV_(1 + H))
    *m row h (y *m B).
    apply/row_matrixP => g; rewrite linear_sum /=; case: (split_ordP g) => g' ->.
      rewrite rowKu big1 => [|h _]; first by rewrite ord1 row_id.
      by rewrite row_mul; apply/rowP => j; rewrite !mxE big1 // => k _;
        rewrite !mxE eq_lrshift mul0r.
    rewrite rowKd (bigD1 g') //= big1 => [|h hg]; last first.
      rewrite row_mul; apply/rowP => j; rewrite !mxE big1 // => k _;
        rewrite [row _ _ _ _]mxE [delta_mx _ _ _ _]mxE.
      by rewrite eq_rshift eq_sym (negPf hg) mul0r.
    by rewrite addr0 [RHS]row_mul; apply/rowP => j;
      rewrite [RHS]mxE big_ord1 [X in _ = X * _]mxE [delta_mx _ _ _ _]mxE !eqxx mul1r.
  rewrite linear_sum /=; apply: summx_sub => h _; rewrite -mul_lift.
  apply: submx_trans (DS h); apply: submxMr; apply: submx_trans (row_sub _ _) _.
  by apply: submx_trans (submxMl _ _) _; rewrite eq_row_base.
have Nf : row_free N.
  apply/row_free_kernelP => v; rewrite -[v]hsubmxK mul_row_col mulmxA.
  set x := lsubmx v; set y := rsubmx v; rewrite mul_lift mul_rV_lin /= -linearD => /(congr1 vec_mx).
  rewrite mxvecK linear0 => e.
  have x0 : x = 0.
    apply: (row_free_inj (row_base_free RJ)); rewrite mul0mx.
    have /(congr1 (row (lshift H 0))) := e; rewrite linearD /= rowKu !row0 addr0 row_mul.
    have -> : row (lshift H 0) (const_mx 1 : 'cV_(1 + H)) = 1%:M :> 'M[R]_1 by apply/matrixP => i j;
      rewrite !ord1 !mxE eqxx.
    by rewrite mul1mx.
  have y0 : vec_mx y = 0.
    apply: (row_free_inj (row_base_free DJ)); rewrite mul0mx.
    by have /(congr1 dsubmx) := e; rewrite x0 mul0mx mulmx0 add0r col_mxKd linear0.
  have -> : y = 0 by rewrite -[y]vec_mxK y0 linear0.
  by rewrite x0 row_mx0.
by rewrite -[X in (X <= _)%N](eqP Nf); apply: mxrankS.
Qed.

(* The dimension of a sum of layer spaces *)
Lemma rank_layer_sum_eq T (n : 'I_T -> nat) (E : forall t, 'M[R]_(n t, d)) (J : {set 'I_T}) :
  \rank (\sum_(t in J) layer_mx (E t))%MS = (tokens_dim E J + H * differences_dim E J)%N.
Proof.
apply: anti_leq; rewrite rank_layer_sum andbT /tokens_dim /differences_dim.
set RJ := (\sum_(t in J) <<E t>>)%MS; set DJ := (\sum_(t in J) differences (E t))%MS.
have sub : (\sum_(t in J) layer_mx (E t) <=
    RJ *m lift_mx (const_mx 1) + \sum_(h < H) <<DJ *m lift_mx (delta_mx (rshift 1 h) 0)>>)%MS.
  apply/sumsmx_subP => t tJ; rewrite addsmx_sub genmxE; apply/andP; split.
    apply: submx_trans (addsmxSl _ _); apply: submxMr.
    by rewrite (sumsmx_sup t) // genmxE.
  apply/sumsmx_subP => h _; rewrite genmxE; apply: submx_trans (addsmxSr _ _).
  by rewrite (sumsmx_sup h) // genmxE submxMr // (sumsmx_sup t).
apply: leq_trans (mxrankS sub) _; apply: leq_trans (mxrank_adds_leqif _ _) _.
apply: leq_add; first exact: mxrankM_maxl.
apply: leq_trans (mxrank_sum_leqif _) _; rewrite /= -[X in (_ <= X * _)%N]card_ord -sum_nat_const.
by apply: leq_sum => h _; rewrite mxrank_gen; exact: mxrankM_maxl.
Qed.

Lemma row_delta (g k : 'I_(1 + H)) (x : 'rV[R]_d) :
  row g ((delta_mx k 0 : 'cV[R]_(1 + H)) *m x) = if g == k then x else 0.
Proof.
apply/rowP => j; rewrite !mxE big_ord1 !mxE eqxx andbT; case: eqP => _; rewrite ?mul1r //.
by rewrite mul0r !mxE.
Qed.

Lemma row_const (g : 'I_(1 + H)) (x : 'rV[R]_d) :
  row g ((const_mx 1 : 'cV[R]_(1 + H)) *m x) = x.
Proof. by apply/rowP => j; rewrite !mxE big_ord1 !mxE mul1r. Qed.

(* The rows of a member of the layer space *)
Lemma layer_mxP n (E : 'M[R]_(n, d)) (z : 'M[R]_(1 + H, d)) :
  (mxvec z <= layer_mx E)%MS <->
  (forall h, (row h z <= E)%MS) /\ forall g h, (row g z - row h z <= differences E)%MS.
Proof.
split=> [|[zE zD]].
  rewrite /layer_mx; set A := E *m _; set S := (\sum_(h < H) _)%MS.
  move=> /sub_addsmxP[[a b] /= zE].
  have /submxP[r rE] : (a *m <<A>> <= A)%MS.
    by apply: submx_trans (submxMl _ _) _; rewrite genmxE.
  have /sub_sumsmxP[u uE] : (b *m S <= S)%MS by exact: submxMl.
  have /fin_all_exists[v vE] (h : 'I_H) : exists v, u h *m <<differences E
      *m lift_mx (delta_mx (rshift 1 h) 0)>>%MS = v *m (differences E
      *m lift_mx (delta_mx (rshift 1 h) 0)).
    by apply/submxP; apply: submx_trans (submxMl _ _) _; rewrite genmxE.
  pose D g := \sum_(h | g == rshift 1 h) v h *m differences E.
  have rows g : row g z = r *m E + D g.
    have -> : z = const_mx 1 *m (r *m E) + \sum_h delta_mx (rshift 1 h) 0 *m (v h *m differences E).
      apply: (can_inj mxvecK); rewrite zE rE uE linearD linear_sum /A.
      rewrite [r *m (_ *m lift_mx _)]mulmxA mul_lift; congr (_ + _).
      by apply: eq_bigr => h _; rewrite vE [v h *m (_ *m lift_mx _)]mulmxA mul_lift.
    rewrite [LHS]linearD [in LHS]linear_sum /= row_const /D [in RHS]big_mkcond; congr (_ + _).
    by apply: eq_bigr => h _; exact: row_delta.
  have inD g : (D g <= differences E)%MS.
    by apply: summx_sub => h _; exact: submxMl.
  split=> [g|g h].
    by rewrite rows addmx_sub ?submxMl //; exact: submx_trans (inD g) (differences_sub E).
  by rewrite !rows opprD addrACA subrr add0r addmx_sub // eqmx_opp.
have -> : z = const_mx 1 *m row 0 z +
    \sum_h delta_mx (rshift 1 h) 0 *m (row (rshift 1 h) z - row 0 z).
  apply/row_matrixP => g; rewrite [RHS]linearD [in RHS]linear_sum /= row_const.
  under eq_bigr do rewrite row_delta.
  rewrite -big_mkcond; case: (split_ordP g) => g' ->.
    rewrite big_pred0 => [|h]; last by rewrite eq_lrshift.
    by rewrite addr0; congr (row _ z); apply: val_inj; rewrite /= ord1.
  rewrite (bigD1 g') //= big1 => [|h /andP[]]; first by rewrite addr0 addrC subrK.
  by rewrite eq_rshift => /eqP->; rewrite eqxx.
rewrite linearD linear_sum /= addmx_sub //.
  by rewrite -mul_lift; apply: submx_trans (addsmxSl _ _); rewrite genmxE submxMr.
apply: summx_sub => h _; apply: submx_trans (addsmxSr _ _); rewrite (sumsmx_sup h) // genmxE.
by rewrite /= -mul_lift submxMr.
Qed.

End LayerSpace.
