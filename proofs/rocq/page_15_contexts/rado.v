(* proofs/15-contexts.md: Rado's theorem, for Proposition 15.3. Subspaces have independent      *)
(* representatives if each set J of them spans at least #|J| dimensions; and in general as many *)
(* as the set which spans least, for its size, allows.                                          *)
From mathcomp Require Import all_ssreflect all_algebra.
From Memorization Require Import Capacity.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Rado.

Variables (F : fieldType) (d T : nat).

Section Sets.

Variables (I : finType) (w : I -> 'rV[F]_d).

Definition set_rank (A : {set I}) : nat := \rank (\sum_(i in A) <<w i>>)%MS.

Lemma set_rank_sub (A B : {set I}) : A \subset B -> (set_rank A <= set_rank B)%N.
Proof.
move=> AB; apply: mxrankS; apply/sumsmx_subP => i iA.
by rewrite (sumsmx_sup i) // (subsetP AB).
Qed.

Lemma set_rank_submodular (A B : {set I}) :
  (set_rank (A :|: B) + set_rank (A :&: B) <= set_rank A + set_rank B)%N.
Proof.
rewrite -[X in (_ <= X)%N]mxrank_sum_cap; apply: leq_add; apply: mxrankS.
  apply/sumsmx_subP => i; rewrite in_setU => /orP[iA|iB].
    by apply: submx_trans (addsmxSl _ _); rewrite (sumsmx_sup i).
  by apply: submx_trans (addsmxSr _ _); rewrite (sumsmx_sup i).
by apply/sumsmx_subP => i; rewrite in_setI sub_capmx => /andP[iA iB]; rewrite !(sumsmx_sup i).
Qed.

(* The condition, for the sets A t with t in S *)
Definition rado (S : {set 'I_T}) (A : 'I_T -> {set I}) : bool :=
  [forall J : {set 'I_T}, (J \subset S) ==> (#|J| <= set_rank (\bigcup_(t in J) A t))%N].

(* One of two elements of a set can be left out. *)
Lemma rado_smaller S A t x y : rado S A -> x \in A t -> y \in A t -> x != y ->
  exists2 z, z \in A t & rado S (fun s => if s == t then A t :\ z else A s).
Proof.
move=> /forallP SA xt yt xy; pose rem z s := if s == t then A t :\ z else A s.
have bad z : ~~ rado S (rem z) ->
    exists J : {set 'I_T}, [/\ J \subset S, t \in J &
      (set_rank (\bigcup_(s in J) rem z s) < #|J|)%N].
  move=> /forallPn[J]; rewrite negb_imply -ltnNge => /andP[JS zJ]; exists J; split=> //.
  apply: contraLR zJ => tJ; rewrite -leqNgt; have /implyP/(_ JS) := SA J.
  suff -> : \bigcup_(s in J) rem z s = \bigcup_(s in J) A s by [].
  by apply: eq_bigr => s sJ; rewrite /rem; case: eqP => // st; rewrite -st sJ in tJ.
have [|/bad[J [JS tJ xJ]]] := boolP (rado S (rem x)); first by exists x.
have [|/bad[K [KS tK yK]]] := boolP (rado S (rem y)); first by exists y.
exfalso; set U := \bigcup_(s in J) _ in xJ; set V := \bigcup_(s in K) _ in yK.
have UV : (#|J :|: K| <= set_rank (U :|: V))%N.
  have /implyP := SA (J :|: K); rewrite subUset JS KS => /(_ isT)/leq_trans; apply.
  apply: set_rank_sub; apply/bigcupsP => s sJK; apply/subsetP => i is_.
  have [st|st] := eqVneq s t.
    rewrite in_setU; subst s; have [ix|ix] := eqVneq i x.
      by apply/orP; right; apply/bigcupP; exists t => //; rewrite /rem eqxx !inE ix xy.
    by apply/orP; left; apply/bigcupP; exists t => //; rewrite /rem eqxx !inE ix.
  move: sJK; rewrite !in_setU => /orP[sJ|sK]; apply/orP.
    by left; apply/bigcupP; exists s => //; rewrite /rem (negPf st).
  by right; apply/bigcupP; exists s => //; rewrite /rem (negPf st).
have JK : (#|(J :&: K) :\ t| <= set_rank (U :&: V))%N.
  have /implyP := SA ((J :&: K) :\ t) => H; apply: leq_trans (H _) _.
    by apply: subset_trans JS; apply/subsetP => s; rewrite !inE => /and3P[].
  apply: set_rank_sub; apply/bigcupsP => s; rewrite !inE => /and3P[st sJ sK];
    apply/subsetP => i is_.
  by rewrite in_setI; apply/andP; split; apply/bigcupP; exists s => //; rewrite /rem (negPf st).
have tJK : t \in J :&: K by rewrite in_setI tJ tK.
have small := leq_trans (leq_add UV JK) (set_rank_submodular U V).
have : ((set_rank U).+1 + (set_rank V).+1 <= #|J :|: K| + #|J :&: K|)%N by rewrite cardsUI leq_add.
rewrite [#|J :&: K|](cardsD1 t) tJK add1n addSn !addnS ltnS => big.
by have := leq_ltn_trans small big; rewrite ltnn.
Qed.

Lemma rado_sets S A : rado S A ->
  exists v : 'I_T -> 'rV[F]_d, (forall t, t \in S ->
    exists2 i, i \in A t & v t = w i) /\ independent S v.
Proof.
have [m] := ubnP (\sum_t #|A t|)%N; elim: m A => // m IHm A Am SA.
have [/existsP[t /andP[tS /card_gt1P[x [y [xt yt xy]]]]]|] :=
  boolP [exists t, (t \in S) && (1 < #|A t|)%N].
  have [z zt SAz] := rado_smaller SA xt yt xy.
  have [|v [vA vS]] := IHm _ _ SAz.
    rewrite -ltnS; apply: leq_trans Am; rewrite ltnS (bigD1 t) //= [X in (_ < X)%N](bigD1 t)
      //= eqxx.
    rewrite [X in (_ < X + _)%N](cardsD1 z) zt add1n addSn ltnS leq_add2l.
    by apply: leq_sum => s /negPf->.
  exists v; split=> // s /vA[i]; case: eqP => [->|_] iA vi; last by exists i.
  by exists i => //; move: iA; rewrite inE => /andP[].
rewrite negb_exists => /forallP A1; move/forallP: SA => SA.
have /fin_all_exists[v vP] t : exists v : 'rV[F]_d, t \in S -> exists2 i, A t = [set i] & v = w i.
  have [tS|_] := boolP (t \in S); last by exists 0.
  have := A1 t; rewrite tS /= -leqNgt => At1.
  have /implyP := SA [set t]; rewrite sub1set tS cards1 big_set1 => /(_ isT) rt.
  have [A0|[i iA]] := set_0Vmem (A t).
    by rewrite A0 /set_rank big_set0 mxrank0 in rt.
  exists (w i) => _; exists i => //; apply/eqP; rewrite eq_sym eqEcard sub1set iA cards1;
    exact: At1.
exists v; split=> [t /vP[i Ai vi]|]; first by exists i => //; rewrite Ai set11.
apply/eqP; rewrite eqn_leq; apply/andP; split.
  apply: leq_trans (mxrank_sum_leqif _) _; rewrite -sum1_card /=.
  by apply: leq_sum => t _; rewrite mxrank_gen rank_leq_row.
have /implyP := SA S; rewrite subxx => /(_ isT)/leq_trans; apply; apply: mxrankS.
apply/sumsmx_subP => i /bigcupP[t tS]; have [j -> vj] := vP t tS.
by rewrite inE => /eqP->; rewrite -vj /span (sumsmx_sup t).
Qed.

End Sets.

(* Rado's theorem for the subspaces M t with t in S *)
Theorem rado_subspaces (S : {set 'I_T}) (M : 'I_T -> 'M[F]_d) :
  (forall J : {set 'I_T}, J \subset S -> (#|J| <= \rank (\sum_(t in J) M t)%MS)%N) ->
  exists v : 'I_T -> 'rV[F]_d, (forall t, (v t <= M t)%MS) /\ independent S v.
Proof.
move=> SM; pose w (x : 'I_T * 'I_d) := row x.2 (M x.1).
pose A (t : 'I_T) := [set x : 'I_T * 'I_d | x.1 == t].
have [|v [vA vS]] := @rado_sets _ w S A.
  apply/forallP => J; apply/implyP => JS; apply: leq_trans (SM J JS) _; apply: mxrankS.
  apply/sumsmx_subP => t tJ; apply/row_subP => i; rewrite (sumsmx_sup (t, i)) ?genmxE //.
  by apply/bigcupP; exists t => //; rewrite inE.
exists (fun t => if t \in S then v t else 0); split=> [t|].
  case: ifP => [/vA[x]|_]; last exact: sub0mx.
  by rewrite inE => /eqP<- ->; apply: row_sub.
rewrite /independent -[RHS]vS; congr (\rank _); apply: eq_bigr => t tS; by rewrite tS.
Qed.

End Rado.

(* Rado's theorem with deficiency e *)
Lemma rado_deficiency (F : fieldType) d T (M : 'I_T -> 'M[F]_d) e :
  (forall J : {set 'I_T}, (#|J| <= \rank (\sum_(t in J) M t)%MS + e)%N) ->
  exists v : 'M[F]_(T, d), (forall t, (row t v <= M t)%MS) /\ (T <= \rank v + e)%N.
Proof.
move=> MJ; pose M' t : 'M[F]_(d + e) := block_mx (M t) 0 0 1%:M.
have [J _|v [vM vi]] := @rado_subspaces F (d + e) T setT M'.
  have [->|[t0 t0J]] := set_0Vmem J; first by rewrite cards0.
  set S := (\sum_(t in J) M t)%MS; set S' := (\sum_(t in J) M' t)%MS.
  apply: leq_trans (MJ J) _; rewrite -[X in (_ + X <= _)%N](mxrank1 F e) -rank_diag_block_mx.
  apply: mxrankS; rewrite col_mx_sub; apply/andP; split.
    have -> : row_mx S (0 : 'M_(d, e)) = S *m row_mx 1%:M 0 by rewrite mul_mx_row mulmx1 mulmx0.
    rewrite sumsmxMr_gen; apply/sumsmx_subP => t tJ; rewrite genmxE (sumsmx_sup t) //.
    by rewrite mul_mx_row mulmx1 mulmx0 -addsmxE addsmxSl.
  by rewrite (sumsmx_sup t0) // -addsmxE addsmxSr.
pose V := \matrix_t v t; have rV : \rank V = T.
  move: vi; rewrite /independent cardsT card_ord => vT; apply/eqP;
    rewrite eqn_leq rank_leq_row -[X in (X <= _)%N]vT.
  by apply: mxrankS; apply/sumsmx_subP => t _; rewrite genmxE; have := row_sub t V; rewrite rowK.
exists (lsubmx V); split=> [t|].
  have -> : row t (lsubmx V) = lsubmx (v t) by rewrite -[v t](rowK v t) ; apply/rowP => j;
    rewrite !mxE.
  have /submxP[w ->] := vM t; rewrite -[w]hsubmxK mul_row_block row_mxKl mulmx0 addr0;
    exact: submxMl.
rewrite -[X in (X <= _)%N]rV -[V in X in (X <= _)%N]hsubmxK.
have -> : row_mx (lsubmx V) (rsubmx V) = lsubmx V *m row_mx 1%:M 0 + rsubmx V *m row_mx 0 1%:M.
  by rewrite !mul_mx_row !mulmx1 !mulmx0 add_row_mx addr0 add0r.
apply: leq_trans (mxrank_add _ _) _; apply: leq_add; first exact: mxrankM_maxl.
by apply: leq_trans (mxrankM_maxl _ _) _; apply: rank_leq_col.
Qed.
