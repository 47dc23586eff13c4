(* proofs/15-contexts.md and 17-generic-contexts.md: a set of points of R^N, with a complement    *)
(* which is not empty, open, and met by each line through one of its points but for finitely many *)
(* points, has measure zero. By Fubini's theorem, one coordinate after the other.                 *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals ereal topology normedtype sequences measure
  lebesgue_measure lebesgue_integral.
From Memorization Require Import Almost_all.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope classical_set_scope.
Local Open Scope ring_scope.

Section NullSets.

Variable R : realType.

Implicit Types A B : measure_space R.

Lemma set_of_cons (r : R) rs : [set` r :: rs] = [set r] `|` [set` rs].
Proof.
apply/seteqP; split=> s /=; rewrite inE; first by case/predU1P => ?; [left|right].
by case=> [->|->]; rewrite ?eqxx ?orbT.
Qed.

(* Fubini: measurable sets of which all sections but finitely many are null are null. *)
Lemma measurable_finite (rs : seq R) : measurable ([set` rs] : set (real_line R)).
Proof.
elim: rs => [|r rs IHrs]; first by rewrite set_nil; exact: measurable0.
by rewrite set_of_cons; apply: measurableU => //; exact: measurable_set1.
Qed.

Lemma finite_null (rs : seq R) : volume (real_line R) [set` rs] = 0%E.
Proof.
elim: rs => [|r rs IHrs]; first by rewrite set_nil measure0.
rewrite set_of_cons; apply: null_set_setU => //.
  exact: measurable_finite.
exact: lebesgue_measure_set1.
Qed.

Lemma null_of_sections B (S : set (product (real_line R) B)) (rs : seq R) :
    measurable S -> (forall s, s \notin rs -> volume B (xsection S s) = 0%E) ->
  volume (product (real_line R) B) S = 0%E.
Proof.
move=> mS null; rewrite /volume /= /product_measure1.
rewrite (ae_eq_integral (cst 0%E)) ?integral_cst ?mul0e //.
- by apply: measurable_fun_xsection; [exact: volume_sigma_finite|rewrite inE].
- exact: measurable_fun_cst.
exists [set` rs]; split; [exact: measurable_finite|exact: finite_null|].
move=> s /= bad; apply: contrapT => srs; apply: bad => _; apply: null; exact/negP.
Qed.

(* Open sets are countable unions of boxes. *)
Lemma measurable_coordinate N i (A : set (real_line R)) : measurable A ->
  measurable [set p : space R N | A (coordinate p i)].
Proof.
move=> mA; elim: N i => [//|N IHN] [|i].
  rewrite (_ : [set _ | _] = A `*` setT); first exact: measurableM.
  by apply/seteqP; split=> [p|p []//].
rewrite (_ : [set _ | _] = setT `*` [set p | A (coordinate p i)]); first exact: measurableM.
by apply/seteqP; split=> [p|p []//].
Qed.

Definition box N (c : {ffun 'I_N -> rat}) (k : nat) : set (space R N) :=
  [set p | forall i : 'I_N, `|coordinate p i - ratr (c i)| < k.+1%:R^-1].

Lemma measurable_box N (c : {ffun 'I_N -> rat}) k : measurable (box c k).
Proof.
pose near i := [set x : real_line R | `|x - ratr (c i)| < k.+1%:R^-1].
rewrite (_ : box c k = \bigcap_j (if insub j is Some i
    then [set p | near i (coordinate p j)] else setT)).
  apply: bigcapT_measurable => j; case: insubP => // i _ _; apply: measurable_coordinate.
  rewrite (_ : near i = `](ratr (c i) - k.+1%:R^-1), (ratr (c i) + k.+1%:R^-1)[%classic).
    exact: measurable_itv.
  by apply/seteqP; split=> x; rewrite /near /= in_itv /= ltr_distl.
apply/seteqP; split=> [p b j _|p b i]; first by case: insubP => //= i _ <-; exact: b.
by have := b i I; rewrite valK.
Qed.

Definition open_points N (S : set (space R N)) : Prop :=
  forall p, S p -> exists2 eps : R, 0 < eps &
    forall q, (forall i : 'I_N, `|coordinate q i - coordinate p i| < eps) -> S q.

Lemma small_inverse (eps : R) : 0 < eps -> exists k, k.+1%:R^-1 < eps.
Proof.
move=> eps0; exists (Num.bound eps^-1).
rewrite -[X in _ < X]invrK ltf_pinv ?posrE ?invr_gt0 ?ltr0n //.
rewrite (lt_le_trans (archi_boundP _)) ?invr_ge0 ?(ltW eps0) //.
by rewrite ler_nat.
Qed.

Lemma measurable_open N (S : set (space R N)) : open_points S -> measurable S.
Proof.
move=> So; pose boxes n := if unpickle n is Some (c, k) then
  if `[< @box N c k `<=` S >] then box c k else set0 else set0.
rewrite (_ : S = \bigcup_n boxes n).
  apply: bigcupT_measurable => n; rewrite /boxes; case: unpickle => [[c k]|] //.
  by case: ifP => _ //; exact: measurable_box.
apply/seteqP; split=> [p Sp|p [n _]]; last first.
  by rewrite /boxes; case: unpickle => // -[c k]; case: asboolP => // cS /cS.
have [eps eps0 near] := So p Sp; have [|k keps] := @small_inverse (eps / 2).
  by rewrite divr_gt0 // ltr0n.
have [c cP] : exists c : {ffun 'I_N -> rat}, box c k p.
  have /fin_all_exists[c cP] (i : 'I_N) : exists x : rat, `|coordinate p i - ratr x| < k.+1%:R^-1.
    have [|x] := @rat_in_itvoo R (coordinate p i - k.+1%:R^-1) (coordinate p i + k.+1%:R^-1).
      by rewrite ltr_subl_addr -addrA ltr_addl addr_gt0 ?invr_gt0 ?ltr0n.
    by rewrite in_itv /= => xp; exists x; rewrite distrC ltr_distl.
  by exists [ffun i => c i] => i; rewrite ffunE.
exists (pickle (c, k)) => //; rewrite /boxes pickleK; case: asboolP => // -[] q qc.
apply: near => i; rewrite -(subrKA (ratr (c i))) (le_lt_trans (ler_norm_add _ _)) //.
by rewrite [eps]splitr ltr_add // (lt_trans _ keps) // distrC.
Qed.

(* Points of a line through p and q *)
Definition between N (p q : space R N) (s : R) (x : space R N) : Prop :=
  forall i : 'I_N, coordinate x i = coordinate p i + s * (coordinate q i - coordinate p i).

Definition all_but_few N (S : set (space R N)) : Prop := forall p q, S p ->
  exists rs : seq R, forall s, s \notin rs -> forall x, between p q s x -> S x.

Lemma null_complement N (S : set (space R N)) : S !=set0 -> open_points S -> all_but_few S ->
  volume (space R N) (~` S) = 0%E.
Proof.
elim: N S => [|N IHN] S.
  case=> -[] Spt _ _; rewrite (_ : ~` S = set0) ?measure0 //.
  by rewrite -subset0 => -[].
case=> -[s0 q0] Spq So Sfew.
pose S' s := [set q : space R N | S (s, q)].
have So' s : open_points (S' s).
  move=> q /So[eps eps0 near]; exists eps => // q' qq; apply: near => -[[|i] iN] /=.
    by rewrite subrr normr0.
  exact: (qq (Ordinal (iN : (i < N)%N))).
have Sfew' s : all_but_few (S' s).
  move=> q q' Sq; have [rs rsP] := Sfew (s, q) (s, q') Sq;
  exists rs => u /rsP few x xP; apply: few => -[[|i] iN] /=.
    by rewrite subrr mulr0 addr0.
  exact: (xP (Ordinal (iN : (i < N)%N))).
have [rs rsP] := Sfew (s0, q0) (s0 + 1, q0) Spq.
apply: (@null_of_sections _ _ (map (fun u => s0 + u) rs)).
  by apply: measurableC; exact: (@measurable_open N.+1 S So).
move=> s srs; rewrite (_ : xsection _ s = ~` S' s); last first.
  by apply/seteqP; split=> q; rewrite /xsection /= inE.
apply: IHN => //; exists q0; apply: (rsP (s - s0)) => [|[[|i] iN]] /=.
- by apply: contra srs => srs; apply/mapP; exists (s - s0) => //; rewrite addrC subrK.
- by rewrite [s0 + 1]addrC addrK mulr1 addrC subrK.
by rewrite subrr mulr0 addr0.
Qed.

End NullSets.

Lemma almost_all_of_lines (R : realType) (I : finType) (P : (I -> R) -> Prop) :
  (exists x, P x) ->
  (forall x, P x -> exists2 eps : R, 0 < eps & forall y, (forall i, `|y i - x i| < eps) -> P y) ->
  (forall x y, P x -> exists rs : seq R, forall s, s \notin rs ->
    P (fun i => x i + s * (y i - x i))) ->
  almost_all P.
Proof.
pose f (p : space R #|I|) (i : I) := coordinate p (enum_rank i).
have coordinateK N (x : 'I_N -> R) : exists p : space R N, forall i : 'I_N, coordinate p i = x i.
  elim: N x => [|N IHN] x; first by exists tt => -[].
  have [p pP] := IHN (fun i => x (lift ord0 i)); exists (x ord0, p) => i.
  by case: (unliftP ord0 i) => [j|] -> //=; rewrite pP.
have fK x : exists p, f p = x.
  have [p pP] := coordinateK #|I| (fun i => x (enum_val i)); exists p.
  by apply/funext => i; rewrite /f pP enum_rankK.
move=> [x0 P0] Po Pfew; have Pf_open : @open_points R #|I| [set p | P (f p)].
  move=> p /Po[eps eps0 near]; exists eps => // q pq; apply: near => i; exact: pq.
exists (~` [set p | P (f p)]); split=> //; first exact/measurableC/measurable_open.
apply: null_complement => // [|p q Pp].
  by have [p pE] := fK x0; exists p; rewrite /= pE.
have [rs rsP] := Pfew (f p) (f q) Pp; exists rs => s /rsP Ps x xP.
by rewrite /= (_ : f x = fun i => f p i + s * (f q i - f p i)) //; apply/funext => i; exact: xP.
Qed.

Lemma almost_all_imply (R : realType) (I : finType) (P P' : (I -> R) -> Prop) :
  (forall x, P x -> P' x) -> almost_all P -> almost_all P'.
Proof.
move=> PP' [A [mA A0 PA]]; exists A; split=> // p /= nP; apply: PA => /= /PP'; exact: nP.
Qed.

Lemma almost_all_and (R : realType) (I : finType) (P P' : (I -> R) -> Prop) :
  almost_all P -> almost_all P' -> almost_all (fun x => P x /\ P' x).
Proof.
move=> [A [mA A0 PA]] [B [mB B0 PB]]; exists (A `|` B); split; first exact: measurableU.
  by apply: null_set_setU.
by move=> p /= /not_andP[nP|nP]; [left; exact: PA|right; exact: PB].
Qed.

Lemma almost_all_forall (R : realType) (I : finType) (A : finType) (P : A -> (I -> R) -> Prop) :
  (forall a, almost_all (P a)) -> almost_all (fun x => forall a, P a x).
Proof.
move=> Pa; suff : almost_all (fun x => forall a, a \in enum A -> P a x).
  by apply: almost_all_imply => x Px a; apply: Px; rewrite mem_enum.
elim: (enum A) => [|a s IHs]; first by apply: aeW => p a; rewrite in_nil.
apply: almost_all_imply (almost_all_and (Pa a) IHs) => x [ax sx] b.
by rewrite in_cons => /orP[/eqP->|/sx].
Qed.
