(* proofs/19-kernels.md: Theorems 13 and 14. Every sum is what winners give, exactly, and a tail  *)
(* that is too small to change it when it is rounded.                                             *)
From mathcomp Require Import all_ssreflect all_algebra ring.
From Memorization Require Import Kernels.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Sums_of_a_row.

Variables (F : realFieldType) (key : eqType) (M : softmax_row F key).
Hypotheses (model : admissible M) (far : saturated M).

Let c := scale M.
Let g := gap M.
Let om := omega M.

Lemma lag_lt : lag M < g. Proof. by case: model => -[]. Qed.
Lemma lag_ge0 : 0 <= lag M. Proof. by case: model => -[]. Qed.
Lemma u_ge0 : 0 <= u M. Proof. by case: model => -[]. Qed.
Lemma eta_ge0 : 0 <= eta M. Proof. by case: model => -[]. Qed.
Lemma c_gt0 : 0 < c. Proof. by case: model => _ []. Qed.
Lemma om_ge0 : 0 <= om. Proof. by case: model => _ []. Qed.
Lemma Lambda_ge1 : 1 <= Lambda M. Proof. by case: model => _ []. Qed.
Lemma rho_ge1 : 1 <= rho M. Proof. by case: model => _ []. Qed.
Lemma Lambda_ge0 : 0 <= Lambda M. Proof. exact: le_trans Lambda_ge1. Qed.
Lemma rho_ge0 : 0 <= rho M. Proof. exact: le_trans rho_ge1. Qed.
Lemma u1_ge1 : 1 <= 1 + u M. Proof. by rewrite ler_addl u_ge0. Qed.
Lemma u1_ge0 : 0 <= 1 + u M. Proof. exact: le_trans u1_ge1. Qed.

Lemma rounds_bound x y : 0 <= x -> rounds M x y -> 0 <= y <= (1 + u M) * x.
Proof. by case: model => _ _ [h _] _ _; exact: h. Qed.

Lemma rounds_back z e y : format M z -> 0 <= e < eta M * z -> rounds M (z + e) y -> y = z.
Proof. by case: model => _ _ [_ h] _ _; exact: h. Qed.

Lemma kept_bound x y : 0 <= x -> kept M x y -> 0 <= y <= (1 + u M) * x.
Proof. by move=> x0 [->|/(rounds_bound x0)//]; rewrite x0 /= ler_pemull // u1_ge1. Qed.

(* A sum z of winners is 0, or a number which accumulators hold, and at least c. *)
Definition exact z := z = 0 \/ format M z /\ c <= z.

Lemma rounds_near z e y : exact z -> 0 <= e -> e < eta M * c -> rounds M (z + e) y ->
  exists2 e', y = z + e' & 0 <= e' <= (1 + u M) * e.
Proof.
move=> [->|[fz cz]] e0 small.
  by rewrite add0r => /(rounds_bound e0); exists y; rewrite ?add0r.
move=> /(rounds_back fz) ->; first by exists 0; rewrite ?addr0 // lexx mulr_ge0 // u1_ge0.
by rewrite e0 (lt_le_trans small) // ler_wpmul2l // eta_ge0.
Qed.

Lemma kept_near z e y : exact z -> 0 <= e -> z = 0 \/ e < eta M * c -> kept M (z + e) y ->
  exists2 e', y = z + e' & 0 <= e' <= (1 + u M) * e.
Proof.
move=> ez e0 small [->|]; first by exists e => //; rewrite e0 ler_pemull // u1_ge1.
case: small => [->|small /(rounds_near ez e0 small)//].
by rewrite add0r => /(rounds_bound e0); exists y; rewrite ?add0r.
Qed.

(* The part of a tail that does not depend on the reference *)
Definition most V N D C := Lambda M * V * N%:R * (1 + u M) ^+ (2 * D).+1 * rho M ^+ C.

Lemma tailE V N D C : tail M V N D C = om * most V N D C.
Proof. by rewrite /tail /most !mulrA. Qed.

Lemma most_ge0 V N D C : 0 <= V -> 0 <= most V N D C.
Proof.
move=> V0; rewrite mulr_ge0 ?exprn_ge0 ?rho_ge0 //.
by rewrite mulr_ge0 ?exprn_ge0 ?u1_ge0 // mulr_ge0 ?ler0n // mulr_ge0 ?Lambda_ge0.
Qed.

Lemma most_mono V N D C N' D' C' : 0 <= V -> (N <= N')%N -> (D <= D')%N -> (C <= C')%N ->
  most V N D C <= most V N' D' C'.
Proof.
move=> V0 NN DD CC; have LV : 0 <= Lambda M * V by rewrite mulr_ge0 ?Lambda_ge0.
have lvn : 0 <= Lambda M * V * N%:R by apply: mulr_ge0; rewrite ?ler0n.
have e0 n : 0 <= (1 + u M) ^+ n by rewrite exprn_ge0 ?u1_ge0.
have r0 : 0 <= rho M ^+ C by rewrite exprn_ge0 ?rho_ge0.
have rr : rho M ^+ C <= rho M ^+ C' by apply: ler_weexpn2l CC; exact: rho_ge1.
have uu : (1 + u M) ^+ (2 * D).+1 <= (1 + u M) ^+ (2 * D').+1.
  by apply: ler_weexpn2l; rewrite ?u1_ge1 // ltnS leq_mul2l DD.
apply: (ler_pmul _ r0 _ rr); first by apply: mulr_ge0.
by apply: (ler_pmul lvn (e0 _) _ uu); rewrite ler_wpmul2l // ler_nat.
Qed.

Lemma tail_mono V N D C N' D' C' : 0 <= V -> (N <= N')%N -> (D <= D')%N -> (C <= C')%N ->
  tail M V N D C <= tail M V N' D' C'.
Proof. by move=> *; rewrite !tailE ler_wpmul2l ?om_ge0 // most_mono. Qed.

(* Two parts, each rounded once more, and then their sum *)
Lemma most_step V N1 N2 D1 D2 C1 C2 (d1 d2 : bool) : 0 <= V ->
  (1 + u M) * ((1 + u M) * (rho M ^+ d1 * most V N1 D1 C1) +
               (1 + u M) * (rho M ^+ d2 * most V N2 D2 C2))
    <= most V (N1 + N2) (maxn D1 D2).+1 (maxn (C1 + d1) (C2 + d2)).
Proof.
move=> V0; set D := maxn D1 D2; set C := maxn _ _.
have one N D' C' (d : bool) : (D' <= D)%N -> (C' + d <= C)%N ->
    rho M ^+ d * most V N D' C' <= most V N D C.
  move=> DD CC; apply: le_trans (most_mono V0 (leqnn N) DD CC).
  by rewrite /most exprD le_eqVlt; apply/orP; left; apply/eqP; ring.
have DD : (D1 <= D)%N /\ (D2 <= D)%N by rewrite leq_maxl leq_maxr.
have CC : (C1 + d1 <= C)%N /\ (C2 + d2 <= C)%N by rewrite leq_maxl leq_maxr.
have -> : most V (N1 + N2) D.+1 C = (1 + u M) * ((1 + u M) * most V N1 D C +
    (1 + u M) * most V N2 D C).
  by rewrite /most natrD mulnS !exprS; ring.
by rewrite ler_wpmul2l ?u1_ge0 // ler_add // ler_wpmul2l ?u1_ge0 // one; case: DD CC => ? ? [].
Qed.

Lemma gap_gt0 : 0 < g. Proof. exact: le_lt_trans lag_ge0 lag_lt. Qed.

Lemma far_nonzero l : l <= - g -> (l == 0) = false.
Proof. by move=> h; apply/negbTE; rewrite lt_eqF // (le_lt_trans h) // oppr_lt0 gap_gt0. Qed.

(* A reference is 0, or so low that no winner may have been read. *)
Lemma reference m : (exists i, m = logit M i) -> m = 0 \/ m <= - g.
Proof. by case=> i ->; case: (far i) => [/eqP|]; [left|right]. Qed.

Lemma no_winner m (s : seq key) : m <= - g -> (forall j, j \in s -> logit M j <= m + lag M) ->
  forall j, j \in s -> winner M j = false.
Proof.
move=> mg below j js; apply/negP => /eqP l0; have := below j js.
rewrite l0 leNgt => /negP; apply; rewrite -ltr_subr_addr sub0r.
by rewrite (le_lt_trans mg) // ltr_opp2 lag_lt.
Qed.

Lemma held_none x s : (forall j, j \in s -> winner M j = false) -> held M x s = 0.
Proof. by move=> none; rewrite /held big_seq_cond big1 // => j /andP[/none->]. Qed.

Section Sums.

Variables (x : key -> F) (V : F) (s0 : seq key).
Hypotheses (V_ge1 : 1 <= V) (x_range : forall j, 0 <= x j <= V).
Hypothesis parts : forall s, subseq s s0 -> exact (c * held M x s).

Let V_ge0 : 0 <= V. Proof. exact: le_trans V_ge1. Qed.

Definition share (m : F) : F := if m == 0 then om else 1.

Lemma share_ge0 m : 0 <= share m.
Proof. by rewrite /share; case: ifP; rewrite ?om_ge0 ?ler01. Qed.

Lemma sums_exact s m y D C : sums M x s m y D C -> subseq s s0 ->
  tail M V (size s) D C < eta M ->
  [/\ m = 0 \/ m <= - g, forall j, j \in s -> logit M j <= m + lag M
    & exists2 e, y = c * held M x s + e & 0 <= e <= c * share m * most V (size s) D C].
Proof.
elim=> {s m y D C}
  [j m w z logit_m below ww kz|s1 s2 m1 m2 m y1 y2 r1 r2 t1 t2 z D1 D2 C1 C2 S1 IH1 S2 IH2
   logit_m m1m m2m below R1 R2 k1 k2 kz] sub small.
  have mm := reference logit_m; have low i : i \in [:: j] -> logit M i <= m + lag M.
    by rewrite inE => /eqP->.
  split=> //; have /andP[x0 xV] := x_range j.
  have weighed a : 0 <= a -> 0 <= w <= c * a -> held M x [:: j] = 0 ->
      exists2 e, z = c * held M x [:: j] + e & 0 <= e <= c * a * (V * (1 + u M)).
    move=> a0 /andP[w0 wa] none; have wx : 0 <= w * x j by rewrite mulr_ge0.
    have /andP[z0 zw] := kept_bound wx kz; exists z; first by rewrite none mulr0 add0r.
    have -> : c * a * (V * (1 + u M)) = (1 + u M) * (c * a * V) by ring.
    by rewrite z0 (le_trans zw) // ler_wpmul2l ?u1_ge0 // ler_pmul.
  have mostE : most V (size [:: j]) 0 0 = Lambda M * (V * (1 + u M)).
    by rewrite /most /= muln0 expr0 mulr1 expr1 mulr1 mulrA.
  have finish a b : 0 <= a -> a <= b * Lambda M ->
      (exists2 e, z = c * held M x [:: j] + e & 0 <= e <= c * a * (V * (1 + u M))) ->
      exists2 e, z = c * held M x [:: j] + e & 0 <= e <= c * b * most V (size [:: j]) 0 0.
    move=> a0 ab [e -> /andP[e0 ea]]; exists e => //.
    rewrite e0 (le_trans ea) // mostE.
    have -> : c * b * (Lambda M * (V * (1 + u M))) = c * (b * Lambda M) * (V * (1 + u M)) by ring.
    by rewrite ler_wpmul2r ?mulr_ge0 ?u1_ge0 // ler_wpmul2l // ltW // c_gt0.
  case: model => _ _ _ [W1 W2 W3] _.
  case: (far j) => [win|lj].
    have l0 : logit M j = 0 by apply/eqP.
    have m0 : m = 0.
      by case: mm => // /no_winner/(_ low j (mem_head _ _)); rewrite win.
    have wc : w = c by apply: W1; rewrite -{1}l0 -m0.
    have heldE : held M x [:: j] = x j by rewrite /held big_cons big_nil win addr0.
    have ez := parts sub; rewrite heldE in ez *.
    move: kz; rewrite wc -[X in kept M X _]addr0 => /(kept_near ez (lexx 0)) [].
      right; apply: mulr_gt0 c_gt0; apply: le_lt_trans small; rewrite tailE.
      by rewrite mulr_ge0 ?om_ge0 ?most_ge0.
    move=> e -> /andP[e0]; rewrite mulr0 => e_le; exists e => //.
    rewrite e0 (le_trans e_le) // mulr_ge0 ?most_ge0 // mulr_ge0 ?share_ge0 //.
    by rewrite ltW // c_gt0.
  have none : held M x [:: j] = 0.
    by apply: held_none => i; rewrite inE => /eqP->; rewrite /winner far_nonzero.
  case: (eqVneq m 0) => [m0|mn]; rewrite /share ?m0 ?eqxx ?(negbTE mn).
    apply: (finish om) => //; rewrite ?om_ge0 ?ler_pemulr ?om_ge0 ?Lambda_ge1 //.
    by apply: weighed none; rewrite ?om_ge0 //; apply: W2 ww; rewrite m0 subr0.
  apply: (finish (Lambda M)); rewrite ?Lambda_ge0 ?mul1r //.
  by apply: weighed none; rewrite ?Lambda_ge0 //; apply: W3 ww.
set D := (maxn D1 D2).+1 in small *; set C := maxn _ _ in small *.
have sz : size (s1 ++ s2) = (size s1 + size s2)%N by rewrite size_cat.
have sub1 : subseq s1 s0 by apply: subseq_trans sub; exact: prefix_subseq.
have sub2 : subseq s2 s0 by apply: subseq_trans sub; exact: suffix_subseq.
have small1 : tail M V (size s1) D1 C1 < eta M.
  apply: le_lt_trans small; rewrite sz tail_mono ?leq_addr //.
    by rewrite leqW // leq_maxl.
  by apply: leq_trans (leq_maxl _ _); exact: leq_addr.
have small2 : tail M V (size s2) D2 C2 < eta M.
  apply: le_lt_trans small; rewrite sz tail_mono ?leq_addl //.
    by rewrite leqW // leq_maxr.
  by apply: leq_trans (leq_maxr _ _); exact: leq_addr.
have {IH1} [mm1 below1 [e1 y1E /andP[e10 e1b]]] := IH1 sub1 small1.
have {IH2} [mm2 below2 [e2 y2E /andP[e20 e2b]]] := IH2 sub2 small2.
have mm := reference logit_m; split=> //.
have heldE : c * held M x (s1 ++ s2) = c * held M x s1 + c * held M x s2.
  by rewrite -mulrDr /held big_cat.
pose step := most_step (size s1) (size s2) D1 D2 C1 C2 (m1 != m) (m2 != m) V_ge0.
have c_ge0 : 0 <= c by rewrite ltW // c_gt0.
(* One part of the sum, with its factor, rounded or not *)
have part s' m' y' e' r t D' C' : exact (c * held M x s') -> m' = 0 \/ m' <= - g ->
    (forall j, j \in s' -> logit M j <= m' + lag M) -> m' <= m -> factor M m' m r ->
    y' = c * held M x s' + e' -> 0 <= e' -> e' <= c * share m' * most V (size s') D' C' ->
    tail M V (size s') D' C' < eta M -> kept M (r * y') t ->
    exists2 e, t = c * held M x s' + e
      & 0 <= e <= c * share m * ((1 + u M) * (rho M ^+ (m' != m) * most V (size s') D' C')).
  move=> ex mm' below' m'm Rr -> e'0 e'b small' kt.
  case: model => _ _ _ _ [R1' R2' R3'].
  have mo0 := most_ge0 (size s') D' C' V_ge0.
  case: (eqVneq m' m) => [mE|mn].
    have rE : r = 1 by apply: (R1' m); rewrite -{1}mE.
    move: kt; rewrite rE mul1r => /(kept_near ex e'0) [].
      case: ex => [->|_]; [by left|]; case: mm' => [m0|mg].
        right; apply: le_lt_trans e'b _; rewrite m0 /share eqxx -mulrA -tailE mulrC.
        by rewrite ltr_pmul2r ?c_gt0.
      by left; rewrite (held_none _ (no_winner mg below')) mulr0.
    move=> e -> /andP[e0 eb]; exists e => //; rewrite e0 (le_trans eb) // expr0 mul1r mulrCA.
    by rewrite ler_wpmul2l ?u1_ge0 // -mE.
  have mg : m' <= - g.
    case: mm' => // m0; case: mm => [mm0|mmg]; first by rewrite m0 mm0 eqxx in mn.
    by move: (le_trans m'm mmg); rewrite m0 oppr_ge0 leNgt gap_gt0.
  have none := held_none x (no_winner mg below').
  move: kt; rewrite none mulr0 !add0r => kt.
  have shm' : share m' = 1 by rewrite /share far_nonzero.
  rewrite shm' mulr1 in e'b.
  have /andP[r0 rb] : 0 <= r <= share m * rho M.
    case: mm => [m0|mmg]; last by rewrite /share far_nonzero // mul1r; exact: R3' Rr.
    have /andP[-> h] : 0 <= r <= om by apply: R2' Rr; rewrite m0 subr0.
    by rewrite m0 /share eqxx (le_trans h) // ler_pemulr ?om_ge0 ?rho_ge1.
  have re : 0 <= r * e' by rewrite mulr_ge0.
  have /andP[t0 tb] := kept_bound re kt; exists t; first by rewrite add0r.
  rewrite t0 (le_trans tb) //.
  rewrite expr1 [X in _ <= X]mulrCA ler_wpmul2l ?u1_ge0 //.
  apply: le_trans (ler_pmul r0 e'0 rb e'b) _.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
have [f1 t1E /andP[f10 f1b]] := part _ _ _ _ _ _ _ _ (parts sub1) mm1 below1 m1m R1 y1E e10 e1b
  small1 k1.
have [f2 t2E /andP[f20 f2b]] := part _ _ _ _ _ _ _ _ (parts sub2) mm2 below2 m2m R2 y2E e20 e2b
  small2 k2.
have f0 : 0 <= f1 + f2 by rewrite addr_ge0.
have fb : (1 + u M) * (f1 + f2) <= c * share m * most V (size (s1 ++ s2)) D C.
  have cs0 : 0 <= c * share m by rewrite mulr_ge0 ?share_ge0.
  rewrite sz; apply: le_trans (ler_wpmul2l cs0 step).
  by rewrite [X in _ <= X]mulrCA ler_wpmul2l ?u1_ge0 // [X in _ <= X]mulrDr ler_add.
have sumE : t1 + t2 = c * held M x (s1 ++ s2) + (f1 + f2).
  by rewrite t1E t2E heldE addrACA.
move: kz; rewrite sumE => /(kept_near (parts sub) f0) [].
  case: mm => [m0|mg]; last by left; rewrite (held_none _ (no_winner mg below)) mulr0.
  right; apply: le_lt_trans (_ : (1 + u M) * (f1 + f2) < _).
    by rewrite ler_pemull // u1_ge1.
  apply: le_lt_trans fb _; rewrite m0 /share eqxx -mulrA -tailE mulrC.
  by rewrite ltr_pmul2r ?c_gt0.
by move=> e -> /andP[e0 eb]; exists e => //; rewrite e0 (le_trans eb).
Qed.

(* Where a winner has been read, the sum is exact once it is stored. *)
Lemma stored_exact m y D C Y : sums M x s0 m y D C -> tail M V (size s0) D C < eta M ->
  has (winner M) s0 -> c * held M x s0 != 0 -> rounds M y Y -> Y = c * held M x s0.
Proof.
move=> S small /hasP[t ts win] nonzero rY.
have [mm below [e yE /andP[e0 eb]]] := sums_exact S (subseq_refl _) small.
have m0 : m = 0 by case: mm => // /no_winner/(_ below t ts); rewrite win.
case: (parts (subseq_refl s0)) => [z|[fz cz]]; first by rewrite z eqxx in nonzero.
apply: rounds_back fz _ (_ : rounds M (_ + e) Y); rewrite -?yE // e0.
apply: le_lt_trans eb _; apply: (@lt_le_trans _ _ (eta M * c)).
  by rewrite m0 /share eqxx -mulrA -tailE mulrC ltr_pmul2r ?c_gt0.
by rewrite ler_wpmul2l ?eta_ge0.
Qed.

End Sums.

End Sums_of_a_row.
