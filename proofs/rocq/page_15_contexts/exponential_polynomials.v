(* proofs/15-contexts.md: for Theorem 9, almost all queries. Sums of terms p(s) exp(q(s)) with *)
(* polynomials p and q have finitely many zeros, or are zero everywhere (Rolle).               *)
From mathcomp Require Import all_ssreflect all_algebra all_fingroup.
From mathcomp.classical Require Import boolp classical_sets functions.
From mathcomp.analysis Require Import reals topology normedtype derive realfun sequences exp.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Zeros.

Variable R : realType.

(* The sum of the terms p(s) exp(q(s)) over the pairs (p, q) of l *)
Definition terms (l : seq ({poly R} * {poly R})) (s : R) : R :=
  \sum_(x <- l) x.1.[s] * expR x.2.[s].

Lemma is_derive_horner (p : {poly R}) (s : R) : is_derive s 1 (horner p) p^`().[s].
Proof.
elim/poly_ind: p => [|p c IHp].
  rewrite deriv0 horner0 (_ : horner 0 = cst 0); first exact: is_derive_cst.
  by apply: funext => x; rewrite horner0.
rewrite (_ : horner _ = horner p * id + cst c); last first.
  by apply: funext => x; rewrite hornerMXaddC.
apply: is_derive_eq; rewrite derivMXaddC hornerD hornerMX /GRing.scale /= mulr1 addr0.
by rewrite [s * _]mulrC.
Qed.

Definition derive_term (x : {poly R} * {poly R}) := (x.1^`() + x.1 * x.2^`(), x.2).

Lemma is_derive_terms l (s : R) : is_derive s 1 (terms l) (terms (map derive_term l) s).
Proof.
elim: l => [|x l IHl].
  have e : terms [::] = cst 0 by apply: funext => y; rewrite /terms big_nil.
  by rewrite /= e; exact: is_derive_cst.
rewrite (_ : terms (x :: l) = horner x.1 * (expR \o horner x.2) + terms l); last first.
  by apply: funext => y; rewrite /terms big_cons.
have d1 := is_derive_horner x.1 s; have d2 := is_derive_horner x.2 s.
apply: is_derive_eq; rewrite /terms /= big_cons; congr (_ + _).
rewrite hornerD hornerM /GRing.scale /= mulrDl addrC; congr (_ + _); first exact: mulrC.
by rewrite -mulrA; congr (_ * _); exact: mulrC.
Qed.

(* Between two zeros there is one of the derivative. *)
Lemma rolle_terms l (a b : R) : a < b -> terms l a = 0 -> terms l b = 0 ->
  exists c, [/\ a < c, c < b & terms (map derive_term l) c = 0].
Proof.
move=> ab la lb; have D s := is_derive_terms l s.
have dv s : derivable (terms l) s 1 by have [] := D s.
have [|||c cab c0] := @Rolle R (terms l) a b ab.
- by move=> s _; exact: dv.
- apply: continuous_subspaceT => s; exact/differentiable_continuous/derivable1_diffP.
- by rewrite la lb.
move: cab; rewrite in_itv /= => /andP[ac cb]; exists c; split=> //.
have [_ <-] := D c; by have [_ ->] := c0.
Qed.

Lemma rolle_path l a rs : path <%R a rs -> terms l a = 0 -> all (fun s => terms l s == 0) rs ->
  exists cs, [/\ path <%R a cs, size cs = size rs
    & all (fun s => terms (map derive_term l) s == 0) cs].
Proof.
elim: rs a => [|b rs IHrs] a /=; first by exists [::].
move=> /andP[ab brs] la /andP[/eqP lb lrs].
have [cs [bcs scs csz]] := IHrs b brs lb lrs; have [c [ac cb c0]] := rolle_terms ab la lb.
exists (c :: cs); split=> /=; [|by rewrite scs|by rewrite c0 eqxx].
rewrite ac /=; case: cs {scs csz} bcs => //= x cs /andP[bx ->].
by rewrite (lt_trans cb bx).
Qed.

(* Of [N] zeros one is too many. *)
Definition few_zeros (f : R -> R) (N : nat) : Prop :=
  forall rs, uniq rs -> (N <= size rs)%N -> all (fun s => f s == 0) rs -> forall s, f s = 0.

Lemma few_zeros_derive l N : few_zeros (terms (map derive_term l)) N -> few_zeros (terms l) N.+1.
Proof.
move=> few rs rsu Nrs rs0 s.
have : all (fun s => terms l s == 0) (sort <=%R rs) by rewrite all_sort.
have : sorted <%R (sort <=%R rs) by rewrite sort_lt_sorted.
have : (N < size (sort <=%R rs))%N by rewrite size_sort.
case: (sort _ _) => // a rs' Na ars /= /andP[/eqP a0 rs'0].
have [cs [acs scs cs0]] := rolle_path ars a0 rs'0.
have zero : forall s, terms (map derive_term l) s = 0.
  apply: (few cs) => //; last by rewrite scs.
  by have := path_sorted acs; rewrite lt_sorted_uniq_le => /andP[].
rewrite -a0; apply: is_derive_0_is_cst => x; have := is_derive_terms l x.
by rewrite zero.
Qed.

Lemma terms_few_zeros l : exists N, few_zeros (terms l) N.
Proof.
have [m] := ubnP (size l); elim: m l => // m IHm [|[p q] l] /=.
  by exists 0%N => rs _ _ _ s; rewrite /terms big_nil.
rewrite ltnS => lm; have [k] := ubnP (size p); elim: k p q l lm => // k IHk p q l lm pk.
have [->|p0] := eqVneq p 0.
  have [N few] := IHm l lm; exists N => rs; have e s : terms ((0, q) :: l) s = terms l s.
    by rewrite /terms big_cons horner0 mul0r add0r.
  by move=> rsu Nrs; rewrite (eq_all (fun s => congr1 (eq_op^~ 0) (e s))) => rs0 s; rewrite e;
    exact: few rs0 s.
pose shift (x : {poly R} * {poly R}) := (x.1, x.2 - q).
have e s : terms ((p, q) :: l) s = expR q.[s] * terms ((p, 0) :: map shift l) s.
  rewrite /terms !big_cons big_map /= horner0 expR0 mulr1 mulrDr mulr_sumr; congr (_ + _).
    exact: mulrC.
  apply: eq_bigr => x _; rewrite hornerD hornerN mulrCA; congr (_ * _).
  by rewrite -expRD addrC subrK.
have z s : (terms ((p, q) :: l) s == 0) = (terms ((p, 0) :: map shift l) s == 0).
  by rewrite e mulf_eq0 gt_eqF ?expR_gt0.
have [||N few] := IHk (p^`() + p * 0^`()) 0 (map derive_term (map shift l)).
- by rewrite !size_map.
- rewrite deriv0 mulr0 addr0; apply: leq_trans (lt_size_deriv p0) _; by rewrite -ltnS.
have {}few := @few_zeros_derive ((p, 0) :: map shift l) N few.
exists N.+1 => rs rsu Nrs; rewrite (eq_all z) => rs0 s; apply/eqP; rewrite z; apply/eqP.
exact: few rs0 s.
Qed.

(* The functions which are such sums *)
Definition exp_polynomial (f : R -> R) : Prop := exists l, forall s, f s = terms l s.

Lemma exp_polynomial_poly (p : {poly R}) : exp_polynomial (horner p).
Proof. by exists [:: (p, 0)] => s; rewrite /terms big_seq1 /= horner0 expR0 mulr1. Qed.

Lemma exp_polynomial_exp (q : {poly R}) : exp_polynomial (fun s => expR q.[s]).
Proof. by exists [:: (1, q)] => s; rewrite /terms big_seq1 /= hornerC mul1r. Qed.

Lemma exp_polynomial_const (c : R) : exp_polynomial (fun=> c).
Proof. by have [l lE] := exp_polynomial_poly c%:P; exists l => s; rewrite -lE hornerC. Qed.

Lemma exp_polynomial_eq f g : (forall s, g s = f s) -> exp_polynomial f -> exp_polynomial g.
Proof. by move=> gf [l lE]; exists l => s; rewrite gf. Qed.

Lemma exp_polynomialD f g : exp_polynomial f -> exp_polynomial g ->
  exp_polynomial (fun s => f s + g s).
Proof. by move=> [l lE] [m mE]; exists (l ++ m) => s; rewrite /terms big_cat lE mE. Qed.

Lemma exp_polynomialM f g : exp_polynomial f -> exp_polynomial g ->
  exp_polynomial (fun s => f s * g s).
Proof.
move=> [l lE] [m mE]; exists [seq (x.1 * y.1, x.2 + y.2) | x <- l, y <- m] => s.
rewrite lE mE /terms big_allpairs_dep /= mulr_suml; apply: eq_bigr => x _.
by rewrite mulr_sumr; apply: eq_bigr => y _; rewrite hornerM hornerD expRD mulrACA.
Qed.

Lemma exp_polynomial_sum (I : finType) (P : pred I) (f : I -> R -> R) :
  (forall i, exp_polynomial (f i)) -> exp_polynomial (fun s => \sum_(i | P i) f i s).
Proof.
move=> fi; elim: (index_enum I) => [|i r IHr].
  by apply: exp_polynomial_eq (exp_polynomial_const 0) => s; rewrite big_nil.
case Pi : (P i); last by apply: exp_polynomial_eq IHr => s; rewrite big_cons Pi.
by apply: exp_polynomial_eq (exp_polynomialD (fi i) IHr) => s; rewrite big_cons Pi.
Qed.

(* Quotients of them whose denominators have no zero *)
Definition exp_quotient (f : R -> R) : Prop := exists p q, [/\ exp_polynomial p,
  exp_polynomial q, forall s, q s != 0 & forall s, f s = p s / q s].

Lemma exp_quotient_polynomial f : exp_polynomial f -> exp_quotient f.
Proof.
move=> ef; exists f, (fun=> 1); split=> // [|s|s]; first exact: exp_polynomial_const.
  by rewrite oner_neq0.
by rewrite divr1.
Qed.

Lemma exp_quotient_const (c : R) : exp_quotient (fun=> c).
Proof. exact/exp_quotient_polynomial/exp_polynomial_const. Qed.

Lemma exp_quotient_eq f g : (forall s, g s = f s) -> exp_quotient f -> exp_quotient g.
Proof. by move=> gf [p [q [ep eq q0 fE]]]; exists p, q; split=> // s; rewrite gf. Qed.

Lemma exp_quotientD f g : exp_quotient f -> exp_quotient g -> exp_quotient (fun s => f s + g s).
Proof.
move=> [p [q [ep eq q0 fE]]] [p' [q' [ep' eq' q0' gE]]].
exists (fun s => p s * q' s + p' s * q s), (fun s => q s * q' s); split=> [||s|s].
- by apply: exp_polynomialD; exact: exp_polynomialM.
- exact: exp_polynomialM.
- by rewrite mulf_neq0.
- by rewrite fE gE addf_div.
Qed.

Lemma exp_quotientM f g : exp_quotient f -> exp_quotient g -> exp_quotient (fun s => f s * g s).
Proof.
move=> [p [q [ep eq q0 fE]]] [p' [q' [ep' eq' q0' gE]]].
exists (fun s => p s * p' s), (fun s => q s * q' s); split=> [||s|s]; try exact: exp_polynomialM.
  by rewrite mulf_neq0.
by rewrite fE gE mulf_div.
Qed.

Lemma exp_quotientV f : (forall s, f s != 0) -> exp_quotient f -> exp_quotient (fun s => (f s)^-1).
Proof.
move=> f0 [p [q [ep eq q0 fE]]]; exists q, p; split=> // s; last by rewrite fE invf_div.
by apply: contraNneq (f0 s) => p0; rewrite fE p0 mul0r.
Qed.

Lemma exp_quotient_sum (I : finType) (P : pred I) (f : I -> R -> R) :
  (forall i, exp_quotient (f i)) -> exp_quotient (fun s => \sum_(i | P i) f i s).
Proof.
move=> fi; elim: (index_enum I) => [|i r IHr].
  by apply: exp_quotient_eq (exp_quotient_const 0) => s; rewrite big_nil.
case Pi : (P i); last by apply: exp_quotient_eq IHr => s; rewrite big_cons Pi.
by apply: exp_quotient_eq (exp_quotientD (fi i) IHr) => s; rewrite big_cons Pi.
Qed.

Lemma exp_quotient_prod (I : finType) (P : pred I) (f : I -> R -> R) :
  (forall i, exp_quotient (f i)) -> exp_quotient (fun s => \prod_(i | P i) f i s).
Proof.
move=> fi; elim: (index_enum I) => [|i r IHr].
  by apply: exp_quotient_eq (exp_quotient_const 1) => s; rewrite big_nil.
case Pi : (P i); last by apply: exp_quotient_eq IHr => s; rewrite big_cons Pi.
by apply: exp_quotient_eq (exp_quotientM (fi i) IHr) => s; rewrite big_cons Pi.
Qed.

Lemma exp_quotient_det m (A : R -> 'M[R]_m) : (forall i j, exp_quotient (fun s => A s i j)) ->
  exp_quotient (fun s => \det (A s)).
Proof.
move=> Aij; rewrite /determinant; apply: exp_quotient_sum => s.
by apply: exp_quotientM; [exact: exp_quotient_const | apply: exp_quotient_prod => i].
Qed.

(* All zeros of a function which is not zero everywhere *)
Lemma exp_quotient_zeros f s1 : exp_quotient f -> f s1 != 0 ->
  exists rs : seq R, forall s, s \notin rs -> f s != 0.
Proof.
move=> [p [q [[l lE] _ q0 fE]]] f1; have [N few] := terms_few_zeros l.
have fz s : (f s == 0) = (terms l s == 0) by rewrite fE mulf_eq0 invr_eq0 (negPf (q0 s)) orbF lE.
apply: contrapT => /forallNP more.
suff [rs [rsu Nrs rs0]] : exists rs, [/\ uniq rs, size rs = N & all (fun s => f s == 0) rs].
  case/negP: f1; rewrite fz; apply/eqP; apply: few (rs) _ _ _ _ => //; first by rewrite Nrs.
  by rewrite -(eq_all fz).
elim: N {few} => [|N [rs [rsu Nrs rs0]]]; first by exists [::].
have /existsNP[s /not_implyP[srs /negP]] := more rs; rewrite negbK => fs.
by exists (s :: rs); rewrite /= srs rsu Nrs fs rs0.
Qed.

(* Matrices of such functions have the rank that they have at s1 at all points but finitely many. *)
Lemma exp_quotient_rank m p (A : R -> 'M[R]_(m, p)) s1 :
  (forall i j, exp_quotient (fun s => A s i j)) ->
  exists rs : seq R, forall s, s \notin rs -> (\rank (A s1) <= \rank (A s))%N.
Proof.
move=> Aij; pose f := maxrankfun (A s1).
have /row_freeP[C fC] : row_free (rowsub f (A s1)) by exact: maxrowsub_free.
pose g s := \det (rowsub f (A s) *m C).
have gs : exp_quotient g.
  apply: exp_quotient_det => i j.
  apply: exp_quotient_eq (fun s => \sum_k A s (f i) k * C k j) _ _ _ => [s|].
    by rewrite mxE; apply: eq_bigr => k _; rewrite mxE.
  by apply: exp_quotient_sum => k; apply: exp_quotientM; [exact: Aij|exact: exp_quotient_const].
have [|rs rsP] := exp_quotient_zeros (s1 := s1) gs; first by rewrite /g fC det1 oner_neq0.
exists rs => s /rsP gs0; have BU : rowsub f (A s) *m C \in unitmx by rewrite unitmxE unitfE.
have Bf : row_free (rowsub f (A s)).
  by apply/row_freeP; exists (C *m invmx (rowsub f (A s) *m C)); rewrite mulmxA mulmxV.
rewrite -[X in (X <= _)%N](eqP Bf) rowsubE; exact: mxrankM_maxr.
Qed.

(* In an interval there is a point outside of any finite set. *)
Lemma interval_avoids (rs : seq R) (l r : R) : l < r ->
  exists2 s, l < s < r & s \notin rs.
Proof.
elim: rs r => [|x rs IHrs] r lr.
  by exists ((l + r) / 2) => //; rewrite midf_lt //= midf_lt.
have [s /andP[ls sr] srs] := IHrs r lr; have [sx|sx] := eqVneq s x; last first.
  by exists s; rewrite ?ls // inE negb_or sx.
have [s' /andP[ls' sr'] srs'] := IHrs s ls; exists s'; first by rewrite ls' (lt_trans sr').
by rewrite inE negb_or srs' -sx lt_eqF.
Qed.

End Zeros.
