(* proofs/25-ranks-of-layers.md: what onto_program.v says of free heads on stored data holds.     *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra zify ssrZ.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions theorem_4 hermite onto_certificate.
From Memorization Require Import attention_program attention_residues attention_rank onto_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Entry j of the derivative of a head, by the entries of directions *)
Lemma moments_entry (A : comRingType) n d dh m (E : 'M[A]_(n, d)) (w : 'cV[A]_n)
    (e : 'rV[A]_d)
    (Q K dQ dK : 'M[A]_(d, dh)) (V dU : 'M[A]_(d, m)) j :
  let z := \sum_i w i 0 in
  let moved i := \sum_l w l 0 * (z * (E *m V) l j - \sum_q w q 0 * (E *m V) q j) * E l i in
  moments E w e (K *m dQ^T + dK *m Q^T) V dU 0 j =
    \sum_i \sum_k moved i * (e *m Q) 0 k * dK i k +
    (\sum_i \sum_k e 0 i * (\sum_q moved q * K q k) * dQ i k +
     \sum_i z * (w^T *m E) 0 i * dU i j).
Proof.
move=> z moved; set C := E^T *m (z *: diag_mx w^T - w *m w^T) *m E.
have CT : C^T = C.
  rewrite /C !trmx_mul trmxK linearB linearZ /= tr_diag_mx trmx_mul trmxK; exact: mulmxA.
have movedE i : (C *m V) i j = moved i.
  rewrite /C -!mulmxA mxE; apply: eq_bigr => l _; rewrite mxE mulrC; congr (_ * _).
  rewrite mulmxBl -scalemxAl mul_diag_mx -mulmxA !mxE big_ord1 mxE.
  rewrite mulrBr mulrCA; congr (_ - _ * _); by apply: eq_bigr => q _; rewrite !mxE.
have rows (B D : 'M[A]_(d, dh)) (x y : 'rV[A]_d) :
    (x *m B *m D^T *m y^T) 0 0 = \sum_i \sum_k x 0 i * (y *m D) 0 k * B i k.
  have -> : x *m B *m D^T *m y^T = x *m B *m (y *m D)^T by rewrite trmx_mul !mulmxA.
  rewrite mxE exchange_big /=; apply: eq_bigr => k _; rewrite [(x *m B) 0 k]mxE mulr_suml.
  by apply: eq_bigr => i _; rewrite [(_^T) k 0]mxE mulrAC.
pose f : 'rV[A]_d := \row_i moved i.
have fE : (e *m (K *m dQ^T + dK *m Q^T)^T *m (C *m V)) 0 j =
    (e *m (K *m dQ^T + dK *m Q^T)^T *m f^T) 0 0.
  by rewrite [LHS]mxE [RHS]mxE; apply: eq_bigr => q _; rewrite movedE !mxE.
rewrite /moments -/z -/C mxE addrA; congr (_ + _); last first.
  by rewrite mxE mxE mulr_sumr; apply: eq_bigr => i _; rewrite mulrA.
have -> : (C *m (K *m dQ^T + dK *m Q^T) *m e^T)^T = e *m (K *m dQ^T + dK *m Q^T)^T *m C.
  by rewrite [LHS]trmx_mul trmxK [X in e *m X]trmx_mul CT mulmxA.
rewrite -mulmxA fE.
rewrite linearD /= !trmx_mul !trmxK mulmxDr mulmxDl mxE addrC; congr (_ + _).
  have -> : e *m (Q *m dK^T) *m f^T = ((f *m dK) *m Q^T *m e^T)^T.
    by rewrite !trmx_mul !trmxK !mulmxA.
  by rewrite mxE rows; apply: eq_bigr => i _; apply: eq_bigr => k _; rewrite !mxE.
rewrite mulmxA rows; apply: eq_bigr => i _; apply: eq_bigr => k _; congr (_ * _ * _).
by rewrite mxE; apply: eq_bigr => q _; rewrite !mxE.
Qed.

Lemma sum_blocks (V : zmodType) a b (F : nat -> V) :
  \sum_(l < a * b) F l = \sum_(i < a) \sum_(k < b) F (i * b + k)%N.
Proof.
elim: a F => [|a IHa] F; first by rewrite !big_ord0.
rewrite mulSn big_split_ord big_ord_recl /=; congr (_ + _); rewrite (IHa (fun l => F (b + l)%N)).
by apply: eq_bigr => i _; apply: eq_bigr => k _; rewrite /= mulSn addnA.
Qed.

Lemma sum_cat (A : ringType) (T : Type) (x0 : T) (f : T -> A) N N' u u' (G : nat -> A) :
  size u = N ->
  \sum_(l < N + N') f (nth x0 (u ++ u') l) * G l =
  \sum_(l < N) f (nth x0 u l) * G l + \sum_(l < N') f (nth x0 u' l) * G (N + l)%N.
Proof.
move=> su; rewrite big_split_ord /=; congr (_ + _); apply: eq_bigr => l _; rewrite nth_cat su.
  by rewrite ltn_ord.
by rewrite ltnNge leq_addr /= addKn.
Qed.

Section Residues.

Variables (p : int63) (F : comRingType).
Hypothesis P0 : (nat63 p)%:R = 0 :> F.
Hypothesis p1 : PrimInt63.ltb 1%uint63 p.
Hypothesis p31 : PrimInt63.ltb p 2147483648%uint63.
Notation toF := (@residue F).

Let red0 := reduced0 p1 p31.

(* A list of residues has these entries; the first N of any number, or N. *)
Definition starts N (u : seq int63) (v : 'I_N -> F) : Prop :=
  all (reduced p) u /\ forall i : 'I_N, toF (nth 0%uint63 u i) = v i.
Definition lists N (u : seq int63) (v : 'I_N -> F) : Prop := size u = N /\ starts u v.

Lemma lists_mkseq N (f : nat -> int63) (v : 'I_N -> F) :
  (forall i : 'I_N, reduced p (f i) /\ toF (f i) = v i) -> lists (mkseq f N) v.
Proof.
move=> fv; split; first exact: size_mkseq.
split=> [|i]; last by rewrite nth_mkseq // (fv i).2.
apply/(all_nthP 0%uint63) => i; rewrite size_mkseq => iN.
by rewrite nth_mkseq // (fv (Ordinal iN)).1.
Qed.

Lemma lists_map N (T : Type) (x0 : T) (s : seq T) (f : T -> int63) (v : 'I_N -> F) : size s = N ->
  (forall i : 'I_N, reduced p (f (nth x0 s i)) /\ toF (f (nth x0 s i)) = v i) -> lists (map f s) v.
Proof.
move=> sN fv; rewrite (_ : map f s = mkseq (fun i => f (nth x0 s i)) N); first exact: lists_mkseq.
by rewrite -sN -{1}[s](mkseq_nth x0) /mkseq -map_comp.
Qed.

Lemma dotE N u u' (v v' : 'I_N -> F) : lists u v -> starts u' v' ->
  reduced p (dotm p 0%uint63 u u') /\ toF (dotm p 0%uint63 u u') = \sum_i v i * v' i.
Proof.
move=> [su [ru uv]] [ru' uv']; split; first exact: reduced_dotm.
rewrite (toF_dotm P0 p1 p31 (N := N)) ?su ?leqnn // [residue _ _]toF0 add0r.
by apply: eq_bigr => i _; rewrite uv uv'.
Qed.

Lemma lists_dots N b u v (rows : seq (seq int63)) (M : 'I_b -> 'I_N -> F) : lists u v ->
  size rows = b -> (forall k : 'I_b, starts (nth [::] rows k) (M k)) ->
  lists (map (dotm p 0%uint63 u) rows) (fun k => \sum_i v i * M k i).
Proof. by move=> uv sb rM; apply: (lists_map (x0 := [::])) => // k; exact: dotE. Qed.

Lemma sum_outer c b u u' (U : 'I_c -> F) (U' : 'I_b -> F) (G : nat -> F) :
  lists u U -> lists u' U' ->
  \sum_(l < c * b) toF (nth 0%uint63 (outer p u u') l) * G l =
  \sum_i \sum_k U i * U' k * G (i * b + k)%N.
Proof.
move=> [su [ru uU]] [su' [ru' uU']].
rewrite (sum_blocks _ _ (fun l => toF (nth 0%uint63 (outer p u u') l) * G l)).
apply: eq_bigr => i _; apply: eq_bigr => k _; congr (_ * _).
rewrite -uU -uU' -(toF_mulm P0 p1 p31) ?(reduced_nth p1 p31) //; congr toF.
have : (i < size u)%N by rewrite su.
elim: u {su ru uU} (val i) => // x u IHu [|l] /= il.
  by rewrite mul0n add0n nth_cat size_map su' ltn_ord (nth_map 0%uint63) ?su'.
by rewrite nth_cat size_map su' mulSn -addnA ltnNge leq_addr /= addKn IHu.
Qed.

Lemma size_outer u u' : size (outer p u u') = (size u * size u')%N.
Proof. exact: size_allpairs. Qed.

Lemma reduced_outer u u' : all (reduced p) (outer p u u').
Proof.
elim: u => //= x u IHu; rewrite all_cat IHu andbT all_map.
by apply/(all_nthP 0%uint63) => i _; exact: reduced_mod.
Qed.

Section Head.

Variables (n d dh m : nat) (E : 'M[F]_(n, d)) (w : 'cV[F]_n) (e : 'rV[F]_d).
Variables (Q K : 'M[F]_(d, dh)) (V : 'M[F]_(d, m)) (o : F).
Variables (query_columns key_columns readout_columns tokens columns : seq (seq int63)).
Variables (query powers : seq int63) (others : int63).
Hypothesis queriesE : size query_columns = dh /\
  forall k : 'I_dh, starts (nth [::] query_columns k) (fun i => Q i k).
Hypothesis keysE : size key_columns = dh /\
  forall k : 'I_dh, starts (nth [::] key_columns k) (fun i => K i k).
Hypothesis readoutE : forall j : 'I_m, lists (nth [::] readout_columns j) (fun i => V i j).
Hypothesis tokensE : size tokens = n /\ forall i : 'I_n, starts (nth [::] tokens i) (E i).
Hypothesis columnsE : size columns = d /\
  forall j : 'I_d, starts (nth [::] columns j) (fun i => E i j).
Hypotheses (queryE : lists query (e 0)) (powersE : lists powers (fun i => w i 0)).
Hypotheses (ro : reduced p others) (oE : toF others = o).

Let row (j : nat) := nth [::] (head_rows p n m query_columns key_columns readout_columns tokens
  columns query powers others) j.

Definition width := (d * dh + (d * dh + d * m))%N.

(* Entries of directions, as they are stored *)
Variable G : nat -> F.
Let dK : 'M[F]_(d, dh) := \matrix_(i, k) G (i * dh + k)%N.
Let dQ : 'M[F]_(d, dh) := \matrix_(i, k) G (d * dh + (i * dh + k))%N.
Let dU : 'M[F]_(d, m) := \matrix_(i, l) G (d * dh + (d * dh + (i * m + l)))%N.

Lemma head_rowsE (j : 'I_m) : [/\ size (row j) = width, all (reduced p) (row j) &
  \sum_(l < width) toF (nth 0%uint63 (row j) l) * G l =
    o * moments E w e (K *m dQ^T + dK *m Q^T) V dU 0 j].
Proof.
rewrite /row /head_rows nth_mkseq //; set z := sum63 p powers.
set asked := map _ query_columns; set averages := map _ (map _ columns).
set seen := map _ tokens; set mean := oppm p _; set deviations := mkseq _ n.
set moved := map _ columns; set keyed := map _ key_columns; set unit := mkseq _ m.
have [sp [rp pE]] := powersE.
have [zE rz] : toF z = \sum_i w i 0 /\ reduced p z.
  have [-> ?] := toF_sum P0 p1 p31 rp; split=> //.
  by rewrite (big_nth 0%uint63) sp big_mkord; apply: eq_bigr.
have askedI : lists asked (fun k => (e *m Q) 0 k).
  have [] := lists_dots queryE queriesE.1 queriesE.2; rewrite -/asked => s [ra aE].
  by split=> //; split=> // k; rewrite aE mxE.
have seenI : lists seen (fun i => (E *m V) i j).
  have [s [rs sE]] := lists_dots (readoutE j) tokensE.1 tokensE.2.
  by split=> //; split=> // i; rewrite sE mxE; apply: eq_bigr => l _; rewrite mulrC.
have [rm mE] : reduced p mean /\ toF mean = - \sum_q w q 0 * (E *m V) q j.
  have [rd dE] := dotE powersE seenI.2.
  by split; [exact: reduced_mod|rewrite (toF_oppm P0 p1 p31) // dE].
have devI : lists deviations (fun i => o * (w i 0 * ((\sum_l w l 0) * (E *m V) i j -
    \sum_q w q 0 * (E *m V) q j))).
  apply: lists_mkseq => i; split; first exact: reduced_mod.
  have [_ [rs sE]] := seenI; have rn s : all (reduced p) s -> reduced p (nth 0%uint63 s i).
    exact: reduced_nth.
  rewrite (toF_mulm P0 p1 p31) ?reduced_mod // (toF_mulm P0 p1 p31) ?rn // pE oE -mulrA.
  by rewrite (toF_addm P0 p1 p31) ?reduced_mod // (toF_mulm P0 p1 p31) ?rn // sE zE mE.
pose f i := \sum_l w l 0 * ((\sum_i w i 0) * (E *m V) l j - \sum_q w q 0 * (E *m V) q j) * E l i.
have movedI : lists moved (fun i => o * f i).
  have [s [rs sE]] := lists_dots devI columnsE.1 columnsE.2; split=> //; split=> // i.
  by rewrite sE mulr_sumr; apply: eq_bigr => l _; rewrite !mulrA.
have keyedI : lists keyed (fun k => o * \sum_q f q * K q k).
  have [s [rs sE]] := lists_dots movedI keysE.1 keysE.2; split=> //; split=> // k.
  by rewrite sE mulr_sumr; apply: eq_bigr => q _; rewrite mulrA.
have averagesI : lists averages (fun i => o * ((\sum_i w i 0) * (w^T *m E) 0 i)).
  have [s [rs sE]] := lists_dots powersE columnsE.1 columnsE.2.
  apply: (lists_map (x0 := 0%uint63)) => // i; split; first exact: reduced_mod.
  rewrite (toF_mulm P0 p1 p31) ?reduced_mod ?(reduced_nth p1 p31) // (toF_mulm P0 p1 p31) // oE zE.
  by rewrite sE mulrA; congr (_ * _); rewrite mxE; apply: eq_bigr => l _; rewrite mxE.
have unitI : lists unit (fun l => (l == j)%:R).
  apply: lists_mkseq => l; split; first exact: reduced_mod.
  by rewrite toF_mod // (_ : (val l == val j) = (l == j)) //; case: eqP.
have size1 : size (outer p moved asked) = (d * dh)%N.
  by rewrite size_outer movedI.1 askedI.1.
have size2 : size (outer p query keyed) = (d * dh)%N by rewrite size_outer queryE.1 keyedI.1.
split.
- by rewrite !size_cat size1 size2 size_outer averagesI.1 unitI.1.
- by rewrite !all_cat !reduced_outer.
rewrite (sum_cat _ toF _ _ _ size1) (sum_cat _ toF _ _ (fun l => G (d * dh + l)%N) size2).
rewrite (sum_outer G movedI askedI) (sum_outer (fun l => G (d * dh + l)%N) queryE keyedI).
rewrite (sum_outer (fun l => G (d * dh + (d * dh + l))%N) averagesI unitI).
rewrite moments_entry -/f !mulrDr !mulr_sumr; congr (_ + (_ + _)); apply: eq_bigr => i _.
- rewrite [RHS]mulr_sumr; apply: eq_bigr => k _; by rewrite [dK i k]mxE !mulrA.
- rewrite [RHS]mulr_sumr; apply: eq_bigr => k _; by rewrite [dQ i k]mxE !mulrA [o * _]mulrC.
rewrite [LHS](bigD1 j) //= [X in _ + X = _]big1 => [|l lj]; last first.
  by rewrite (negPf lj) mulr0 mul0r.
by rewrite eqxx mulr1 addr0 [dU i j]mxE !mulrA.
Qed.

End Head.

(* Stored arrays *)
Notation ofZ A := (map_mx (intr : int -> F) A).

Lemma starts_row b c rows (i : 'I_b) :
  starts (nth [::] (arraym p rows) i) (fun j : 'I_c => ofZ (int_matrix b c rows) i j).
Proof. by split; [exact: reduced_arraym|move=> j; rewrite (nth_arraym P0 p1 p31) !mxE]. Qed.

Lemma starts_column b c rows (j : 'I_c) :
  starts (nth [::] (transpose c (arraym p rows)) j) (fun i : 'I_b => ofZ (int_matrix b c rows) i j).
Proof.
rewrite nth_mkseq //; split; first exact: reduced_column.
by move=> i; rewrite nth_column (nth_arraym P0 p1 p31) !mxE.
Qed.

Lemma lists_query d (rows : seq (seq dyadic)) T (t : 'I_T) : size (nth [::] rows t) = d ->
  lists (map (dyadicm p) (nth [::] rows t)) (fun j => row t (ofZ (int_matrix T d rows)) 0 j).
Proof.
move=> sd; split; first by rewrite size_map.
by split; [exact: reduced_dyadics|move=> j; rewrite (nth_dyadics P0 p1 p31) !mxE].
Qed.

End Residues.

Section Sound.

Variables (p r a : int63).
Hypothesis ok : moduli p r a.

Notation toF := (@residue [ringType of 'F_(nat63 p)]).

Let p1 : PrimInt63.ltb 1%uint63 p. Proof. by case/and5P: ok. Qed.
Let p31 : PrimInt63.ltb p 2147483648%uint63. Proof. by case/and5P: ok. Qed.
Let P0 : (nat63 p)%:R = 0 :> 'F_(nat63 p). Proof. exact: Fp0 ok. Qed.
Let r1 : PrimInt63.ltb 1%uint63 r. Proof. by case/and5P: ok. Qed.
Let r31 : PrimInt63.ltb r 2147483648%uint63. Proof. by case/and5P: ok. Qed.

Variables (d dh T H m : nat) (contexts : seq (seq (seq dyadic))) (queries : seq (seq dyadic)).
Variables (uniform : nat) (leaders : seq nat).
Variables (query_weights key_weights readouts : seq (seq (seq dyadic))).
Variables (columns : seq bitseq) (inverse : seq (seq (seq int63))).

Let asking := queries_of uniform leaders query_weights H.
Let keying := keys_of uniform leaders key_weights d H.

Definition free_queries (h : 'I_H) : 'M[int]_(d, dh) := int_matrix d dh (nth [::] asking h).
Definition free_keys (h : 'I_H) : 'M[int]_(d, dh) := int_matrix d dh (nth [::] keying h).

Let own (g : nat) : 'M[int]_(d, m) := int_matrix d m (nth [::] readouts g).
Definition free_readout (h : 'I_H) : 'M[int]_(d, m) :=
  if is_leader leaders h then own h - \sum_(g < H | leader leaders g == h) own g else own h.

Let n (t : 'I_T) := size (nth [::] contexts t).
Let E (t : 'I_T) := int_matrix (n t) d (nth [::] contexts t).
Let Q : 'M[int]_(T, d) := int_matrix T d queries.
Let K (t : 'I_T) (h : 'I_H) := int_logits (E t) (free_keys h) (free_queries h)
  (\row_j int_of_dyadic (nth zero_dyadic (nth [::] queries t) j)).

Lemma readout_ofE (h : 'I_H) (j : 'I_m) :
  lists p (nth [::] (readout_of leaders p (map (arraym p) readouts) d m H h) j)
    (fun i => (free_readout h i j)%:~R : 'F_(nat63 p)).
Proof.
rewrite nth_mkseq //; apply: (lists_mkseq (F := [comRingType of 'F_(nat63 p)])) => i.
pose entry g := nth 0%uint63 (nth [::] (nth [::] (map (arraym p) readouts) g) i) j.
have entryE g : reduced p (entry g) /\ toF (entry g) = (own g i j)%:~R.
  rewrite /entry; have -> : nth [::] (map (arraym p) readouts) g = arraym p (nth [::] readouts g).
    have [gs|gs] := ltnP g (size readouts); first by rewrite (nth_map [::]).
    by rewrite !nth_default ?size_map.
  split; first by apply: (reduced_nth p1 p31); apply: (reduced_arraym p1 p31).
  by rewrite (nth_arraym P0 p1 p31) mxE.
rewrite -/(entry h) /free_readout; case: is_leader; last exact: entryE.
set s := map _ _; have rs : all (reduced p) s.
  by rewrite all_map; apply/(all_nthP 0%N) => g _; exact: (entryE _).1.
have [sE rsum] := toF_sum P0 p1 p31 rs; split; first exact: reduced_mod.
rewrite (toF_addm P0 p1 p31) ?reduced_mod ?(entryE h).1 // (toF_oppm P0 p1 p31) // (entryE h).2 sE.
rewrite [(_ - _ : 'M_(_, _)) i j]mxE [(- _ : 'M_(_, _)) i j]mxE summxE rmorphB rmorph_sum.
congr (_ - _); rewrite big_map big_filter -[X in iota 0 X](subn0 H) -/(index_iota 0 H) big_mkord.
by apply: eq_bigr => g _; exact: (entryE g).2.
Qed.

Variable k : forall t, 'I_H -> 'I_(n t) -> nat.
Arguments k : clear implicits.
Hypothesis kE : forall t h i, (k t h i)%:R = (K t h i 0)%:~R :> 'Z_(nat63 r).
Hypothesis checked : check_onto p r a d dh T H m contexts queries uniform leaders query_weights
  key_weights readouts columns inverse.

Let w (t : 'I_T) (h : nat) := powers p r a (transpose dh (arraym r (nth [::] asking h)))
  (arraym r (nth [::] keying h)) (arraym r (nth [::] contexts t))
  (map (dyadicm r) (nth [::] queries t)).
Let others (t : 'I_T) (h : nat) := product63 p (mkseq (fun g => if g == h then
  PrimInt63.mod 1%uint63 p else sum63 p (w t g)) H).
Let rows (t : 'I_T) := example_rows p r a d m (mkseq (fun h => HeadResidues
  (transpose dh (arraym r (nth [::] asking h))) (arraym r (nth [::] keying h))
  (transpose dh (arraym p (nth [::] asking h))) (transpose dh (arraym p (nth [::] keying h)))
  (readout_of leaders p (map (arraym p) readouts) d m H h)) H)
  (nth [::] contexts t) (nth [::] queries t).

Lemma example_rowsE (t : 'I_T) : rows t = mkseq (fun h =>
  head_rows p (n t) m (transpose dh (arraym p (nth [::] asking h)))
    (transpose dh (arraym p (nth [::] keying h)))
    (readout_of leaders p (map (arraym p) readouts) d m H h) (arraym p (nth [::] contexts t))
    (transpose d (arraym p (nth [::] contexts t))) (map (dyadicm p) (nth [::] queries t))
    (w t h) (mulm p (others t h) (others t h))) H.
Proof.
rewrite /rows /example_rows size_mkseq; set heads := mkseq (fun h => HeadResidues _ _ _ _ _) H.
have wE' : map (fun head => powers p r a (queries_r head) (keys_r head)
    (arraym r (nth [::] contexts t)) (map (dyadicm r) (nth [::] queries t))) heads = mkseq (w t) H.
  by rewrite /heads /mkseq -map_comp; apply: eq_map.
rewrite wE'; apply/eq_in_map => h; rewrite mem_iota /= => hH; rewrite !nth_mkseq //.
have -> : product63 p (mkseq (fun g => if g == h then PrimInt63.mod 1%uint63 p else
    nth 0%uint63 (map (sum63 p) (mkseq (w t) H)) g) H) = others t h.
  congr product63; apply/eq_in_map => g; rewrite mem_iota /= => gH; case: ifP => // _.
  by rewrite (nth_map [::]) ?size_mkseq // nth_mkseq.
by [].
Qed.

Section Row.

Variable t : 'I_T.
Hypotheses (kd : forall h : 'I_H, size (nth [::] keying h) = d).
Hypothesis qd : size (nth [::] queries t) = d.

Notation ofZ A := (map_mx (intr : int -> 'F_(nat63 p)) A).
Let wF (h : 'I_H) : 'cV['F_(nat63 p)]_(n t) := \col_i toF a ^+ k t h i.
Let oF (h : 'I_H) : 'F_(nat63 p) := \prod_(g | g != h) (\sum_i toF a ^+ k t g i) ^+ 2.

Lemma row_of_head (h : 'I_H) (j : 'I_m) (G : nat -> 'F_(nat63 p)) :
  let x := nth [::] (nth [::] (rows t) h) j in
  [/\ size x = width d dh m, all (reduced p) x &
    \sum_(l < width d dh m) toF (nth 0%uint63 x l) * G l =
    oF h * moments (ofZ (E t)) (wF h) (row t (ofZ Q)) (ofZ (free_keys h) *m
        (\matrix_(i, l) G (d * dh + (i * dh + l))%N)^T +
        (\matrix_(i, l) G (i * dh + l)%N) *m (ofZ (free_queries h))^T)
      (ofZ (free_readout h)) (\matrix_(i, l) G (d * dh + (d * dh + (i * m + l)))%N) 0 j].
Proof.
move=> x; rewrite /x example_rowsE nth_mkseq //; apply: head_rowsE => //.
- by split=> [|l]; [exact: size_mkseq|exact: starts_column].
- by split=> [|l]; [exact: size_mkseq|exact: starts_column].
- move=> l; have [sl [rl lE]] := readout_ofE h l; split=> //; split=> // i.
  by rewrite lE mxE.
- by split=> [|i]; [rewrite size_map|exact: starts_row].
- by split=> [|l]; [exact: size_mkseq|exact: starts_column].
- exact: lists_query.
- split; first exact: size_w.
  split=> [|i]; first exact: reduced_w.
  by rewrite [RHS]mxE; exact: (wE ok (@kE t) kd (erefl _) qd h i).
- exact: reduced_mod.
have oE : toF (others t h) = \prod_(g | g != h) \sum_i toF a ^+ k t g i.
  exact: (product_othersE ok (@kE t) kd (erefl _) qd h).
have ro : reduced p (others t h).
  by apply: (toF_product P0 p1 p31 _).2; apply: reduced_others.
rewrite (toF_mulm P0 p1 p31) // oE /oF prodrXl expr2 //.
Qed.

End Row.

(* Directions, which make the derivative the identity *)
Let place (c : 'I_(T * m)) : nat :=
  let x := enum_val (cast_ord (esym (mxvec_cast T m)) c) in (x.1 * m + x.2)%N.
Let entry (h : 'I_H) c (l : nat) : nat := nat63 (nth 0%uint63 (spread (nth [::] columns h)
  (nth [::] (nth [::] inverse (place c)) h)) l).
Definition key_directions h c : 'M[int]_(d, dh) := \matrix_(i, l) (entry h c (i * dh + l))%:Z.
Definition query_directions h c : 'M[int]_(d, dh) :=
  \matrix_(i, l) (entry h c (d * dh + (i * dh + l)))%:Z.
Definition readout_directions h c : 'M[int]_(d, m) :=
  \matrix_(i, l) (entry h c (d * dh + (d * dh + (i * m + l))))%:Z.

Lemma place_index t j : place (mxvec_index t j) = (t * m + j)%N.
Proof. by rewrite /place cast_ordK enum_rankK. Qed.

Lemma place_inj (t t' : 'I_T) (j j' : 'I_m) :
  (t * m + j == t' * m + j')%N = (mxvec_index t' j' == mxvec_index t j).
Proof.
rewrite (inj_eq (@cast_ord_inj _ _ _)) (inj_eq enum_rank_inj) eq_sym xpair_eqE.
have m0 : (0 < m)%N by exact: leq_ltn_trans (ltn_ord j).
apply/eqP/andP => [e|[/eqP-> /eqP->] //]; split; apply/eqP/val_inj => /=.
  by have := congr1 (divn^~ m) e; rewrite !divnMDl // !divn_small // !addn0.
by have := congr1 (modn^~ m) e; rewrite !modnMDl !modn_small.
Qed.

Lemma checked_row_full : row_full (map_mx (evaluate (toF a)) (cleared_derivatives E Q free_queries
  free_keys free_readout query_directions key_directions readout_directions k)).
Proof.
suff -> : map_mx (evaluate (toF a)) (cleared_derivatives E Q free_queries free_keys free_readout
    query_directions key_directions readout_directions k) = 1%:M by rewrite /row_full mxrank1.
case/and5P: checked => _ _ /allP okH red /allP okT.
have kd (h : 'I_H) : size (nth [::] keying h) = d by apply/eqP/okH; rewrite mem_iota /=.
apply/matrixP => c s; case/mxvec_indexP: s => t j; case/mxvec_indexP: c => t' j'.
have /okT : val t \in iota 0 T by rewrite mem_iota /=.
case/and3P => _ /eqP qd /allP/(_ (val j)); rewrite mem_iota /= => /(_ (ltn_ord j)).
move=> /allP/(_ (t' * m + j')%N); rewrite mem_iota /= add0n.
have -> : (t' * m + j' < T * m)%N.
  apply: (@leq_trans (t'.+1 * m)); first by rewrite mulSn addnC ltn_add2r.
  by rewrite leq_mul2r ltn_ord orbT.
move=> /(_ isT) /Uint63.eqb_spec /(congr1 toF); rewrite -/(rows t).
set X := map _ (rows t) => e.
have sr : size (rows t) = H by rewrite example_rowsE size_mkseq.
have XE (h : 'I_H) : nth [::] X h = nth [::] (nth [::] (rows t) h) j by rewrite (nth_map [::]) ?sr.
have rX : all (all (reduced p)) X.
  apply/(all_nthP [::]) => h; rewrite size_map sr => hH; rewrite (XE (Ordinal hH)).
  by have [] := row_of_head kd qd (Ordinal hH) j (fun=> 0).
have sX : all (fun x : seq int63 => size x <= width d dh m)%N X.
  apply/(all_nthP [::]) => h; rewrite size_map sr => hH; rewrite (XE (Ordinal hH)).
  by have [-> _ _] := row_of_head kd qd (Ordinal hH) j (fun=> 0).
have ri : all (all (reduced p)) (nth [::] inverse (t' * m + j')).
  have [si|si] := ltnP (t' * m + j') (size inverse); last by rewrite nth_default.
  by move: red => /(all_nthP [::]); apply.
have sH : (size X <= H)%N by rewrite size_map sr.
move: e; rewrite (toF_dotm2 P0 p1 p31 columns (reduced0 p1 p31) rX ri sH sX).
rewrite [residue _ 0%uint63]toF0 add0r place_inj => e.
rewrite [RHS]mxE; transitivity (toF (if mxvec_index t' j' == mxvec_index t j then 1%uint63 else
  0%uint63)); last by case: eqP.
rewrite -[RHS]e; pose phi := [rmorphism of horner_eval (toF a) \o
  map_poly (intr : int -> 'F_(nat63 p))].
have phiC q q' (B : 'M[int]_(q, q')) : map_mx phi (map_mx polyC B) =
    map_mx (intr : int -> 'F_(nat63 p)) B.
  by apply/matrixP => i l; rewrite !mxE /= map_polyC /horner_eval hornerC.
have phiX q : phi 'X^q = toF a ^+ q by rewrite /= map_polyXn /horner_eval hornerXn.
rewrite mxE [X in evaluate _ X]mxE mxvecE mxE summxE -[LHS]/(phi _) rmorph_sum.
apply: eq_bigr => h _; rewrite XE; have [_ _ ->] := row_of_head kd qd h j (fun l =>
  toF (nth 0%uint63 (spread (nth [::] columns h) (nth [::] (nth [::] inverse (t' * m + j')) h)) l)).
rewrite [X in phi X]mxE rmorphM rmorph_prod; congr (_ * _).
  apply: eq_bigr => g _; rewrite rmorphX rmorph_sum; congr (_ ^+ 2).
  by apply: eq_bigr => i _; exact: phiX.
set M := moments _ _ _ _ _ _; have -> : phi (M 0 j) = map_mx phi M 0 j by rewrite [RHS]mxE.
rewrite /M map_moments !phiC map_row map_mxD !map_mxM -!map_trmx.
have -> : map_mx phi (\col_i 'X^(k t h i)) = \col_i toF a ^+ k t h i.
  by apply/matrixP => i l; rewrite !mxE phiX.
have directions q q' (f : 'I_q -> 'I_q' -> nat) : map_mx intr
    (\matrix_(i, l) (entry h (mxvec_index t' j') (f i l))%:Z) = \matrix_(i, l) toF (nth 0%uint63
    (spread (nth [::] columns h) (nth [::] (nth [::] inverse (t' * m + j')) h)) (f i l)).
  by apply/matrixP => i l; rewrite !mxE /entry place_index.
have -> := directions _ _ (fun (i : 'I_d) (l : 'I_dh) => i * dh + l)%N
  : map_mx _ (key_directions _ _) = _.
have -> := directions _ _ (fun (i : 'I_d) (l : 'I_dh) => d * dh + (i * dh + l))%N
  : map_mx _ (query_directions _ _) = _.
have -> := directions _ _ (fun (i : 'I_d) (l : 'I_m) => d * dh + (d * dh + (i * m + l)))%N
  : map_mx _ (readout_directions _ _) = _.
by [].
Qed.

End Sound.

(* Some weights for all targets: of H heads with d_h = dh and values of m numbers or more *)
Theorem check_onto_sound (R : realType) p r a (d dh T H m : nat) contexts queries uniform leaders
    query_weights key_weights readouts columns inverse (eE eQ : int) :
  check_onto p r a d dh T H m contexts queries uniform leaders query_weights key_weights readouts
    columns inverse ->
  forall (dv : nat) (Y : 'M[R]_(T, m)), (m <= dv)%N -> exists L : layer R d H dh dv m,
    forall t : 'I_T, let context := nth [::] contexts t in
    output L (stored_matrix R eE (size context) d context) (row t (stored_matrix R eQ T d queries)) =
      row t Y.
Proof.
move=> checked dv Y mdv; have := checked; rewrite /check_onto.
case/and5P => ok /allP leadersP _ _ /allP okT; move: Y.
pose q (t : 'I_T) := \row_j int_of_dyadic (nth zero_dyadic (nth [::] queries t) j) : 'rV[int]_d.
pose WQ := free_queries d dh uniform leaders query_weights (H := H).
pose WK := free_keys d dh uniform leaders key_weights (H := H).
pose n (t : 'I_T) := size (nth [::] contexts t).
have n0 t : (0 < n t)%N by have /okT/and3P[] : val t \in iota 0 T by rewrite mem_iota /=.
pose E (t : 'I_T) := int_matrix (n t) d (nth [::] contexts t).
have [k [M [kZ kE]]] := natural_exponents ok
  (fun t h i => int_logits (E t) (WK h) (WQ h) (q t) i 0).
have below (h : 'I_H) : (leader leaders h < H)%N /\ is_leader leaders (leader leaders h).
  by have /leadersP/andP : val h \in iota 0 H by rewrite mem_iota /=.
pose group (h : 'I_H) := Ordinal (below h).1.
pose delta : rat := 2 ^ (eE + eQ).
have two (F : numFieldType) (e : int) : 2 ^ e != 0 :> F by rewrite expfz_neq0 // pnatr_eq0.
have deltaE : ratr delta = 2 ^ eE * 2 ^ eQ :> R.
  by rewrite fmorphXz /= ratr_nat expfzDr // pnatr_eq0.
apply: (@onto_certificate R d dh T H m _ dv n E (int_matrix T d queries) WQ WK
  (free_readout d m leaders readouts) _ _ _ k group _ _ (2 ^ eE) (2 ^ eQ) delta
  (fun t h => - (M t h)%:R * ratr delta) (nat63 p) _ n0 mdv (two _ _) (two _ _) (two _ _) _ _ _ _ _
  (checked_row_full ok kE checked)).
- by move=> t; rewrite stored_matrixE.
- by rewrite stored_matrixE.
- move=> g; have [gl|gl] := boolP (is_leader leaders g); last first.
    by rewrite big1 // => h /eqP hg; case/negP: gl; rewrite -hg; exact: (below h).2.
  rewrite (bigD1 g) /=; last by apply/eqP/val_inj/eqP.
  rewrite /free_readout gl; apply/eqP; rewrite addrAC subr_eq0; apply/eqP.
  rewrite [RHS](bigD1 g) //=; congr (_ + _); apply: eq_big => [h|h /andP[hg hneq]].
    by rewrite -val_eqE.
  case: ifP => // hl; case/negP: hneq; rewrite -val_eqE /= -(eqP hl).
  by move: hg; rewrite -val_eqE.
- move=> g h /(congr1 val) /= gh; rewrite /WK /WQ /free_keys /free_queries.
  rewrite !nth_mkseq // gh; case: ifP => // _; rewrite (_ : int_matrix d dh (nseq d [::]) = 0) //.
    by rewrite !mul0mx.
  apply/matrixP => i j; rewrite !mxE (_ : nth [::] (nseq d [::]) i = [::] :> seq dyadic).
    by rewrite nth_nil.
  by rewrite nth_nseq; case: ifP.
move=> t h i; rewrite -mulrDl !stored_matrixE.
have -> : row t (2 ^ eQ *: map_mx intr (int_matrix T d queries)) = 2 ^ eQ *: map_mx intr (q t) :>
  'rV[R]_d by apply/rowP => j; rewrite !mxE.
have := real_logits (E t) (WK h) (WQ h) (q t) (2 ^ eE : R) 1 1 (2 ^ eQ).
rewrite !scale1r !mulr1 => logitE; rewrite map_mxM -map_trmx logitE mxE mulrC deltaE; congr (_ * _).
by rewrite mxE -[(k t h i)%:R]/((k t h i)%:Z)%:~R kZ rmorphD /= addrK.
Qed.
