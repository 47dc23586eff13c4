(* proofs/15-contexts.md: Proposition 15.3 for the spaces L_t of contexts. Rows of which every  *)
(* set has the largest rank exist; on a line through them all but finitely many are such. Their *)
(* rank is c(E; H), and the rows in dependencies give the least of the bounds.                  *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.classical Require Import boolp.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Capacity Generic_contexts avoid_hyperplanes differences
  layer_space minimizer theorem_8 theorem_9.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Generic.

Variable F : numFieldType.

Lemma avoid_points (rs : seq F) : exists s, s \notin rs.
Proof.
have [s] := @nonroot F (\prod_(x <- rs) ('X - x%:P)) (monic_neq0 (monic_prod_XsubC _ _ _)).
by rewrite -rootE root_prod_XsubC; exists s.
Qed.

(* Polynomial matrices have the rank that they have at s1 at all points but finitely many. *)
Lemma polynomial_rank m p (A : 'M[{poly F}]_(m, p)) s1 :
  exists rs : seq F, forall s, s \notin rs ->
    (\rank (map_mx (horner_eval s1) A) <= \rank (map_mx (horner_eval s) A))%N.
Proof.
pose at_ s := map_mx (horner_eval s) A; pose f := maxrankfun (at_ s1).
have /row_freeP[C fC] : row_free (rowsub f (at_ s1)) by exact: maxrowsub_free.
pose g := \det (rowsub f A *m map_mx polyC C).
have gE s : g.[s] = \det (rowsub f (at_ s) *m C).
  rewrite -[LHS]/(horner_eval s g) -det_map_mx map_mxM; congr (\det (_ *m _)).
    by apply/matrixP => i j; rewrite !mxE.
  by apply/matrixP => i j; rewrite !mxE; exact: hornerC.
have g0 : g != 0.
  by apply: contra_eq_neq (gE s1) => ->; rewrite horner0 fC det1 eq_sym oner_eq0.
have [rs rsE] : exists rs : seq F, forall s, root g s -> s \in rs.
  apply: contrapT => /forallNP more.
  suff [rs [rsu rsn rs0]] : exists rs, [/\ uniq rs, size rs = size g & all (root g) rs].
    by have := max_poly_roots g0 rs0 rsu; rewrite rsn ltnn.
  elim: (size g) => [|N [rs [rsu Nrs rs0]]]; first by exists [::].
  have /existsNP[s /not_implyP[gs /negP srs]] := more rs.
  by exists (s :: rs); rewrite /= srs rsu Nrs gs rs0.
exists rs => s srs; have BU : rowsub f (at_ s) *m C \in unitmx.
  by rewrite unitmxE unitfE -gE -rootE; apply: contra srs => /rsE.
have Bf : row_free (rowsub f (at_ s)).
  by apply/row_freeP; exists (C *m invmx (rowsub f (at_ s) *m C)); rewrite mulmxA mulmxV.
rewrite -[X in (X <= _)%N](eqP Bf) rowsubE; exact: mxrankM_maxr.
Qed.

Variables (d T : nat).

(* The point s of the line of rows from y to y' *)
Definition line_rows (y y' : 'I_T -> 'rV[F]_d) (s : F) t := y t + s *: (y' t - y t).

Lemma rank_span_matrix (J : {set 'I_T}) (y : 'I_T -> 'rV[F]_d) :
  \rank (span J y) = \rank (\matrix_(t < T) (if t \in J then y t else 0)).
Proof.
apply: eqmx_rank; apply/andP; split.
  apply/sumsmx_subP => t tJ; rewrite genmxE.
  by have := row_sub t (\matrix_(t < T) (if t \in J then y t else 0)); rewrite rowK tJ.
apply/row_subP => t; rewrite rowK; case: ifP => [tJ|_]; last exact: sub0mx.
exact: row_in_span.
Qed.

(* One set of rows on a line *)
Lemma rank_span_line (J : {set 'I_T}) (y y' : 'I_T -> 'rV[F]_d) :
  exists rs : seq F, forall s, s \notin rs ->
    (\rank (span J y) <= \rank (span J (line_rows y y' s)))%N.
Proof.
pose Y (y : 'I_T -> 'rV[F]_d) := \matrix_(t < T) (if t \in J then y t else 0).
have [rs rsP] := @polynomial_rank T d (map_mx polyC (Y y) + 'X *: map_mx polyC (Y y' - Y y)) 0.
exists rs => s /rsP; rewrite !rank_span_matrix; congr (_ <= _)%N; congr (\rank _).
  by apply/matrixP => t j; rewrite !mxE /horner_eval !hornerE.
apply/matrixP => t j; rewrite !mxE /horner_eval !hornerE.
by case: ifP => _; rewrite !mxE ?subrr ?mulr0 ?addr0.
Qed.

(* All sets of rows on a line *)
Lemma all_spans_line (y y' : 'I_T -> 'rV[F]_d) :
  exists rs : seq F, forall s, s \notin rs -> forall J : {set 'I_T},
    (\rank (span J y) <= \rank (span J (line_rows y y' s)))%N.
Proof.
have /choice[rs rsP] := fun J : {set 'I_T} => rank_span_line J y y'.
exists (flatten [seq rs J | J <- enum {set 'I_T}]) => s srs J; apply: rsP.
apply: contra srs => sJ; apply/flatten_mapP; by exists J; rewrite // mem_enum.
Qed.

Variable M : 'I_T -> 'M[F]_d.

Lemma line_sub (y y' : 'I_T -> 'rV[F]_d) s : (forall t, (y t <= M t)%MS) ->
  (forall t, (y' t <= M t)%MS) -> forall t, (line_rows y y' s t <= M t)%MS.
Proof. by move=> yM y'M t; rewrite addmx_sub ?scalemx_sub // addmx_sub // eqmx_opp. Qed.

Lemma generic_line (y y' : 'I_T -> 'rV[F]_d) : generic M y -> (forall t, (y' t <= M t)%MS) ->
  exists rs : seq F, forall s, s \notin rs -> generic M (line_rows y y' s).
Proof.
move=> [yM ymax] y'M; have [rs rsP] := all_spans_line y y'; exists rs => s /rsP le.
split=> [|z J zM]; first exact: line_sub.
by apply: leq_trans (ymax z J zM) (le J).
Qed.

Lemma largest_rank (J : {set 'I_T}) : exists2 y : 'I_T -> 'rV[F]_d, (forall t, (y t <= M t)%MS) &
  forall z, (forall t, (z t <= M t)%MS) -> (\rank (span J z) <= \rank (span J y))%N.
Proof.
pose P r := `[< exists2 y, (forall t, (y t <= M t)%MS) & \rank (span J y) = r >].
have P0 : exists r, P r.
  by exists (\rank (span J (fun=> 0 : 'rV[F]_d))); apply/asboolP; exists (fun=> 0) => // t;
    exact: sub0mx.
have Pd r : P r -> (r <= d)%N by move=> /asboolP[y _ <-]; exact: rank_leq_row.
case: (ex_maxnP P0 Pd) => r /asboolP[y yM <-] rmax; exists y => // z zM.
by apply: rmax; apply/asboolP; exists z.
Qed.

(* Rows of which every set has the largest rank *)
Lemma generic_exists : exists y, generic M y.
Proof.
suff [y yM ymax] : exists2 y, (forall t, (y t <= M t)%MS) & forall J, J \in enum {set 'I_T} ->
    forall z, (forall t, (z t <= M t)%MS) -> (\rank (span J z) <= \rank (span J y))%N.
  by exists y; split=> // z J; apply: ymax; rewrite mem_enum.
elim: (enum _) => [|J Js [y yM ymax]]; first by exists (fun=> 0) => // t; exact: sub0mx.
have [y' y'M y'max] := largest_rank J.
have [rs rsP] := all_spans_line y y'; have [rs' rsP'] := all_spans_line y' y.
have [s] := avoid_points (rs ++ [seq 1 - x | x <- rs']).
rewrite mem_cat negb_or => /andP[/rsP le srs'].
have {}/rsP' le' : 1 - s \notin rs'.
  by apply: contra srs' => s1; apply/mapP; exists (1 - s); rewrite // subKr.
exists (line_rows y y' s); first exact: line_sub.
have swap : line_rows y' y (1 - s) = line_rows y y' s.
  apply: funext => t; rewrite /line_rows scalerBl scale1r addrA addrCA subrr addr0.
  by rewrite -scalerN opprB.
move=> K; rewrite in_cons => /orP[/eqP-> z zM|KJs z zM].
  by apply: leq_trans (y'max z zM) _; rewrite -swap; exact: le'.
by apply: leq_trans (ymax K KJs z zM) (le K).
Qed.

End Generic.

Theorem proposition_15_3 : Proposition15_3.
Proof.
move=> R d T [//|H] n E _ rows span_of largest J; pose M t := layer_mx H (E t).
have rowsP y : rows y <-> forall t, (mxvec (y t) <= M t)%MS.
  split=> yM t; first exact: ((layer_mxP (E t) (y t)).2 (yM t)).
  exact: ((layer_mxP (E t) (y t)).1 (yM t)).
have largestP y : largest y <-> generic M (fun t => mxvec (y t)).
  split=> -[/rowsP yM ymax]; split=> // z K zM.
    have zz : (fun t => mxvec (vec_mx (z t))) = z by apply: funext => t; exact: vec_mxK.
    have := ymax (fun t => vec_mx (z t)) K; rewrite /span_of zz; apply; apply/rowsP => t.
    by rewrite vec_mxK.
  by apply: ymax; apply/rowsP.
have boundE K : subspace_bound M K = bound_of E H.+1 K.
  by rewrite /subspace_bound rank_layer_sum_eq /bound_of subn1 addnA.
split=> [|y y' /largestP yM /rowsP y'M|y /largestP yM].
- have [y yM] := generic_exists M; exists (fun t => vec_mx (y t)); apply/largestP.
  by rewrite (_ : (fun t => _) = y) //; apply: funext => t; exact: vec_mxK.
- have [rs rsP] := generic_line yM y'M; exists rs => s /rsP sM; apply/largestP.
  rewrite (_ : (fun t => _) = line_rows (fun t => mxvec (y t)) (fun t => mxvec (y' t)) s) //.
  by apply: funext => t; rewrite /on_line /line_rows linearD /= linearZ /= linearB.
have [rE least] := minimizer yM; rewrite boundE in rE.
have cJ : capacity E H.+1 = bound_of E H.+1 (J y).
  apply: anti_leq; rewrite capacity_le capacity_ge // => [|K].
    by rewrite -rE; apply: leq_trans (rank_span_size _ _) _; rewrite cardsT card_ord.
  by rewrite -!boundE; exact: least.
by split; [exact: etrans rE (esym cJ)|exact: (esym cJ)].
Qed.
