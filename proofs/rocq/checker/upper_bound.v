(* proofs/15-contexts.md: what upper_bound_program.v says of stored data holds. They are          *)
(* different inputs, and whichever W_Q and W_K of H heads are chosen, some targets have no        *)
(* readout: other W_Q and W_K may have one for these.                                             *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra fingroup perm zify ssrZ.
From mathcomp Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions Capacity theorem_8 narrow_readout span_bounds.
From Memorization Require Import list_checker attention_program attention_residues attention_rank.
From Memorization Require Import upper_bound_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* One input: one query, and one context but for the order of its tokens *)
Definition same_input (R : realType) n d T (E : 'I_T -> 'M[R]_(n, d)) (Q : 'M[R]_(T, d))
    (s t : 'I_T) : Prop :=
  row s Q = row t Q /\ exists order : 'S_n, E s = row_perm order (E t).

Lemma int_of_ZD x y : int_of_Z (Z.add x y) = int_of_Z x + int_of_Z y.
Proof. exact: (rmorphD [rmorphism of int_of_Z] x y). Qed.

Lemma int_of_ZM x y : int_of_Z (Z.mul x y) = int_of_Z x * int_of_Z y.
Proof. exact: (rmorphM [rmorphism of int_of_Z] x y). Qed.

Lemma int_of_ZX x k : int_of_Z (Z.pow x (Z.of_nat k)) = int_of_Z x ^+ k.
Proof.
elim: k => // k IHk; rewrite Nat2Z.inj_succ Z.pow_succ_r ?int_of_ZM ?IHk ?exprS //.
exact: Nat2Z.is_nonneg.
Qed.

Lemma int_of_Znat k : int_of_Z (Z.of_nat k) = k%:Z. Proof. lia. Qed.

Lemma ZdyadicE x : int_of_Z (Zdyadic x) = int_of_dyadic x.
Proof.
have pos k s : int_of_Z (Z.shiftl (to_Z k) (to_Z s)) = (nat63 k)%:Z * 2 ^+ nat63 s.
  rewrite Z.shiftl_mul_pow2; last by case: (to_Z_bounded s).
  by rewrite -!nat63_lt int_of_ZM int_of_ZX int_of_Znat.
case: x => k s /=; first exact: pos.
by rewrite -pos; exact: (rmorphN [rmorphism of int_of_Z]).
Qed.

Section Words.

Variables (words : array) (roots : numbers).

Lemma sameP x y : same x y -> x = y.
Proof. by case: x y => k s [] l r //= /andP[/Uint63.eqb_spec -> /Uint63.eqb_spec ->]. Qed.

Lemma same_rowP u v : same_row u v -> u = v.
Proof. by elim: u v => [|x u IHu] [|y v] //=; case: ifP => // /sameP -> /IHu ->. Qed.

Lemma place_word token : (place words token < size words)%N ->
  token = nth [::] words (place words token).
Proof. by rewrite /place -has_find => h; apply: same_rowP; exact: (nth_find [::] h). Qed.

End Words.

Lemma has_nth s (x : int63) j : (j < size s)%N -> x = nth 0%uint63 s j -> has (PrimInt63.eqb x) s.
Proof. by move=> js ->; apply/(has_nthP 0%uint63); exists j => //; exact/Uint63.eqb_spec. Qed.

Lemma differentP s i j : different s -> (i < j < size s)%N -> nth 0%uint63 s i <> nth 0%uint63 s j.
Proof.
elim: s i j => [|x s IHs] i [|j] //; rewrite ?ltn0 ?andbF // => /andP[xs ds].
case: i => [/= js e|i]; last by rewrite /= !ltnS; exact: IHs.
by move/negP: xs; apply; exact: has_nth js e.
Qed.

Section Fingerprint.

Variables (p z w : int63).
Hypotheses (p1 : PrimInt63.ltb 1%uint63 p) (p31 : PrimInt63.ltb p 2147483648%uint63).
Hypotheses (pz : reduced p z) (pw : reduced p w).

Notation toF := (@residue [ringType of 'Z_(nat63 p)]).

Lemma Zp0 : (nat63 p)%:R = 0 :> 'Z_(nat63 p).
Proof. by rewrite char_Zp // (P_gt1 p1 p31). Qed.

Lemma toF_inj x y : reduced p x -> reduced p y -> toF x = toF y -> x = y.
Proof.
rewrite !(reducedE p1 p31) => xp yp /(congr1 val) /=.
rewrite !val_Zp_nat ?(P_gt1 p1 p31) // !modn_small // => e.
by apply: to_Z_inj; rewrite -!nat63_lt e.
Qed.

Let step (s x : 'Z_(nat63 p)) := s * toF z + x.
Let ints (row : seq dyadic) : seq 'Z_(nat63 p) := map (fun x => (int_of_dyadic x)%:~R) row.

Lemma reduced_horner s row : reduced p s -> reduced p (horner p z s row).
Proof. by elim: row s => //= x row IHrow s _; apply: IHrow; exact: (reduced_mod p1 p31). Qed.

Lemma toF_horner s row : reduced p s ->
  toF (horner p z s (map (dyadicm p) row)) = foldl step (toF s) (ints row).
Proof.
elim: row s => //= x row IHrow s ps; rewrite IHrow; last exact: (reduced_mod p1 p31).
congr foldl; rewrite (toF_addm Zp0 p1 p31) ?(reduced_mulm p1 p31) ?(reduced_dyadicm p1 p31) //.
by rewrite (toF_mulm Zp0 p1 p31) // (toF_dyadicm Zp0 p1 p31).
Qed.

Lemma toF_fingerprint tokens query :
  toF (fingerprint p z w (arraym p tokens) (map (dyadicm p) query)) =
  \prod_(x <- tokens) foldl step (foldl step (toF w) (ints query)) (ints x).
Proof.
have ps : reduced p (horner p z w (map (dyadicm p) query)) by exact: reduced_horner.
have [|-> _] := @toF_product _ _ Zp0 p1 p31 (map (horner p z (horner p z w
  (map (dyadicm p) query))) (arraym p tokens)).
  by rewrite all_map; apply/(all_nthP [::]) => k _; exact: reduced_horner.
by rewrite /arraym !big_map; apply: eq_bigr => x _; rewrite toF_horner // toF_horner.
Qed.

Lemma reduced_fingerprint tokens query : reduced p (fingerprint p z w (arraym p tokens) query).
Proof.
apply: (@toF_product _ _ Zp0 p1 p31 _ _).2.
by rewrite all_map; apply/(all_nthP [::]) => k _; do 2!apply: reduced_horner.
Qed.

(* Equal integers, tokens in another order *)
Lemma fingerprint_eq n (order : 'S_n) (tokens tokens' : array) query query' :
  size tokens = n -> size tokens' = n ->
  map int_of_dyadic query = map int_of_dyadic query' ->
  (forall i : 'I_n, map int_of_dyadic (nth [::] tokens i) =
    map int_of_dyadic (nth [::] tokens' (order i))) ->
  fingerprint p z w (arraym p tokens) (map (dyadicm p) query) =
  fingerprint p z w (arraym p tokens') (map (dyadicm p) query').
Proof.
move=> sn sn' eq eqs; apply: toF_inj; rewrite ?reduced_fingerprint // !toF_fingerprint.
have intsE row : ints row = map (fun k : int => k%:~R) (map int_of_dyadic row).
  by rewrite -map_comp.
rewrite !(big_nth [::]) sn sn' !big_mkord [RHS](reindex_inj (@perm_inj _ order)).
by apply: eq_bigr => i _; rewrite !intsE eq eqs.
Qed.

End Fingerprint.

Section Bounds.

Variables (R : realType) (n d T H : nat) (contexts : arrays) (eE : int).
Hypotheses (C0 : (0 < size contexts)%N).
Hypothesis shapes : all (fun context => (size context == n) && all (fun x => size x == d) context)
  contexts.

Let context (t : 'I_T) : array := nth [::] contexts (t %% size contexts).
Let E (t : 'I_T) : 'M[R]_(n, d) := stored_matrix R eE n d (context t).

Lemma size_context t : size (context t) = n.
Proof. by have /andP[/eqP] := all_nthP [::] shapes _ (ltn_pmod t C0). Qed.

Lemma size_token t (i : 'I_n) : size (nth [::] (context t) i) = d.
Proof.
have /andP[_ /all_nthP h] := all_nthP [::] shapes _ (ltn_pmod t C0).
by apply/eqP/h; rewrite -/(context t) size_context.
Qed.

Lemma of_contexts (P : pred array) t : all P contexts -> P (context t).
Proof. by move=> /(all_nthP [::])/(_ _ (ltn_pmod t C0)). Qed.

Section Vectors.

Variables (vectors : integers) (pivots : numbers).

Definition vector_matrix m : 'M[R]_(m, d) :=
  \matrix_(i, j) (int_of_Z (nth Z0 (nth [::] vectors i) j))%:~R.

Lemma vectors_free m : (m <= size vectors)%N -> triangular d vectors pivots ->
  row_free (vector_matrix m).
Proof.
move=> mv /allP tri.
have /fin_all_exists2[pivot p0 later] (i : 'I_m) : exists2 q : 'I_d, vector_matrix m i q != 0
    & forall j : 'I_m, (i < j)%N -> vector_matrix m j q = 0.
  have iv : (i < size vectors)%N := leq_trans (ltn_ord i) mv.
  have /tri/and3P[qd q0 /(all_nthP [::]) ql] : val i \in iota 0 (size vectors).
    by rewrite mem_iota.
  exists (Ordinal qd) => [|j ij]; rewrite mxE /=.
    rewrite intr_eq0; apply: contra q0 => /eqP e; apply/Z.eqb_spec.
    by rewrite -[LHS]int_of_ZK e.
  have := ql (j - i.+1)%N; rewrite size_drop nth_drop subnKC // => /(_ _)/Z.eqb_spec -> //.
  by have jv := leq_trans (ltn_ord j) mv; rewrite ltn_sub2r // (leq_ltn_trans ij).
exact: triangular_free p0 later.
Qed.

Lemma product_vector t (i : 'I_n) m (l : 'I_m) : (E t *m (vector_matrix m)^T) i l =
  2 ^ eE * (int_of_Z (Zdot (map Zdyadic (nth [::] (context t) i)) (nth [::] vectors l)))%:~R.
Proof.
rewrite (dotE int_of_ZD int_of_ZM (erefl : int_of_Z Z0 = 0)) size_map size_token.
rewrite mxE rmorph_sum mulr_sumr; apply: eq_bigr => j _.
rewrite !mxE rmorphM mulrA; congr (_ * _).
by rewrite mulrC (nth_map zero_dyadic) ?size_token // ZdyadicE.
Qed.

Lemma orthogonal_zero zeros t : orthogonal zeros vectors (context t) ->
  (zeros <= size vectors)%N -> E t *m (vector_matrix zeros)^T = 0.
Proof.
move=> /andP[/(all_nthP [::]) ort _] zv; apply/matrixP => i l; rewrite product_vector mxE.
have := ort l; rewrite size_take nth_take //.
have -> : (l < (if zeros < size vectors then zeros else size vectors))%N.
  by case: ifP => // _; exact: leq_trans zv.
move=> /(_ isT)/(all_nthP [::])/(_ i); rewrite size_map size_context => /(_ (ltn_ord i)).
by rewrite (nth_map [::]) ?size_context // => /Z.eqb_spec ->; rewrite mulr0.
Qed.

Lemma orthogonal_constant zeros t (i j : 'I_n) : orthogonal zeros vectors (context t) ->
  (zeros <= size vectors)%N ->
  row i (E t) *m (vector_matrix (size vectors))^T = row j (E t) *m (vector_matrix
    (size vectors))^T.
Proof.
move=> ort zv; have /andP[_ /(all_nthP [::]) con] := ort.
apply/rowP => l; rewrite -!row_mul [LHS]mxE [RHS]mxE.
have [lz|lz] := ltnP l zeros.
  have zero k : (E t *m (vector_matrix (size vectors))^T) k l = 0.
    have := congr1 (fun A : 'M_(_, _) => A k (Ordinal lz)) (orthogonal_zero ort zv).
    by rewrite product_vector [RHS]mxE /= => e; rewrite product_vector.
  by rewrite !zero.
have := con (l - zeros)%N; rewrite size_drop nth_drop subnKC //.
rewrite ltn_sub2r ?(leq_ltn_trans lz) // => /(_ isT); rewrite !product_vector.
set f := fun x => Zdot x (nth [::] vectors l).
have fE (k : 'I_n) : f (map Zdyadic (nth [::] (context t) k)) =
    nth Z0 (map f (map (map Zdyadic) (context t))) k.
  by rewrite (nth_map [::]) ?size_map ?size_context // (nth_map [::]) ?size_context.
rewrite -!/(f _) !fE; have : size (map f (map (map Zdyadic) (context t))) = n.
  by rewrite !size_map size_context.
case: (map f _) => [|x s] /= ns; first by rewrite !nth_nil.
move=> /(all_nthP Z0) xs; have xE (k : 'I_n) : nth Z0 (x :: s) k = x.
  case: k => -[|k] //= kn; apply/esym/Z.eqb_spec/xs; rewrite -ns in kn; exact: kn.
by rewrite !xE.
Qed.

End Vectors.

Section Words.

Variables (words : array) (roots : numbers).

Let V := size words.
Let w : 'M[R]_(V, d) := stored_matrix R eE V d words.

Lemma known_word t (i : 'I_n) : known words (context t) ->
  exists2 k : 'I_V, val k = place words (nth [::] (context t) i) & row i (E t) = row k w.
Proof.
move=> /(all_nthP [::])/(_ i); rewrite size_context => /(_ (ltn_ord i)) pV.
exists (Ordinal pV) => //; apply/rowP => j; rewrite !mxE; congr (_%:~R * _).
by rewrite [in LHS](place_word pV).
Qed.

Lemma tokens_dim_known : all (known words) contexts -> (tokens_dim E setT <= V)%N.
Proof.
move=> kn; apply: (@tokens_dim_words _ _ _ _ _ _ _ w) => t i _.
by have [k _ ->] := known_word i (of_contexts t kn); exists k.
Qed.

Lemma differences_dim_known : all (known words) contexts -> rooted words roots ->
  all (joined words roots) contexts ->
  (differences_dim E setT <= count (fun k => nth 0%N roots k != k) (iota 0 V))%N.
Proof.
move=> kn /andP[/eqP rV /(all_nthP 0%N) rV'] jo.
have lt (k : 'I_V) : (nth 0%N roots k < V)%N by apply: rV'; rewrite rV.
pose root k := Ordinal (lt k).
have -> : count (fun k => nth 0%N roots k != k) (iota 0 V) = #|[pred k | root k != k]|.
  rewrite -sum1_count -sum1_card -[V in iota 0 V]subn0 -/(index_iota 0 V) big_mkord.
  by apply: eq_bigl => k; rewrite inE -val_eqE.
apply: (@differences_dim_words _ _ _ _ _ _ _ w) => t i j _.
have kt := of_contexts t kn; have /(all_nthP 0%N) jt := of_contexts t jo.
have [k kE ik] := known_word i kt; have [l lE jl] := known_word j kt.
exists k, l; split=> //; apply: val_inj; rewrite /= kE lE.
have one (m : 'I_n) : nth 0%N roots (place words (nth [::] (context t) m)) = seq.head 0%N (map
    (fun token => nth 0%N roots (place words token)) (context t)).
  have := jt m; rewrite size_map size_context => /(_ (ltn_ord m))/eqP <-.
  by rewrite (nth_map [::]) // size_context.
by rewrite !one.
Qed.

End Words.

End Bounds.

Section Sound.

Variables (R : realType) (p z w : int63) (n d T H bound : nat) (contexts : arrays).
Variables (queries : array) (zeros : nat) (vectors : integers) (pivots : numbers).
Variables (words : array) (roots : numbers) (eE eQ : int).

Let E (t : 'I_T) : 'M[R]_(n, d) := stored_matrix R eE n d (nth [::] contexts (t %% size contexts)).
Let Q : 'M[R]_(T, d) := stored_matrix R eQ T d queries.

Hypothesis checked : check_upper_bound p z w n d T H bound contexts queries zeros vectors pivots
  words roots.

(* No two examples are one input. *)
Theorem check_upper_bound_different (s t : 'I_T) : s != t -> ~ same_input E Q s t.
Proof.
have := checked; rewrite /check_upper_bound.
move=> /andP[p1 /andP[p31 /andP[pz /andP[pw /andP[C0 /andP[sh /andP[/allP qd /andP[df _]]]]]]]].
have qdE (r : 'I_T) : size (nth [::] queries r) = d.
  by apply/eqP/qd; rewrite mem_iota /=.
have pow0 e : (2 ^ e : R) != 0 by rewrite expfz_neq0 // pnatr_eq0.
move=> st [Qst [order Est]]; apply/negP: st; rewrite negbK; apply/eqP.
pose f := fingerprints p z w T contexts queries.
have fE (r : 'I_T) : nth 0%uint63 f r = fingerprint p z w
    (arraym p (nth [::] contexts (r %% size contexts))) (map (dyadicm p) (nth [::] queries r)).
  rewrite /f /fingerprints nth_mkseq //; congr fingerprint.
    by rewrite (nth_map [::]) // ltn_pmod.
  have [rq|rq] := ltnP r (size queries); first by rewrite (nth_map [::]).
  by rewrite !nth_default // size_map.
have fst : nth 0%uint63 f s = nth 0%uint63 f t.
  rewrite !fE; apply: (fingerprint_eq p1 p31 pz pw (order := order)).
  - exact: (size_context C0 sh s).
  - exact: (size_context C0 sh t).
  - apply: (@eq_from_nth _ 0) => [|j]; rewrite !size_map !qdE // => jd.
    have := congr1 (fun x : 'rV_d => x 0 (Ordinal jd)) Qst; rewrite !mxE /=.
    move=> /(mulIf (pow0 _))/intr_inj.
    by rewrite !(nth_map zero_dyadic) ?qdE.
  - move=> i; have si := size_token C0 sh s i; have ti := size_token C0 sh t (order i).
    apply: (@eq_from_nth _ 0) => [|j]; rewrite !size_map si ?ti // => jd.
    have := congr1 (fun A : 'M_(n, d) => A i (Ordinal jd)) Est; rewrite !mxE /=.
    move=> /(mulIf (pow0 _))/intr_inj.
    by rewrite !(nth_map zero_dyadic) ?si ?ti.
apply: val_inj; have sf : size f = T by rewrite size_mkseq.
have [lt|gt|//] := ltngtP (val s) (val t); exfalso.
  by apply: (differentP df (i := s) (j := t)) fst; rewrite lt -/f sf /=.
by apply: (differentP df (i := t) (j := s)) (esym fst); rewrite gt -/f sf /=.
Qed.

Theorem check_upper_bound_rank (W : 'I_H -> 'M[R]_d) : (\rank (intermediate E Q W) <= bound)%N.
Proof.
have := checked; rewrite /check_upper_bound.
move=> /andP[_ /andP[_ /andP[_ /andP[_ /andP[C0 /andP[sh /andP[_ /andP[_]]]]]]]].
move=> /andP[zv /andP[tri /andP[ort /andP[bd _]]]].
apply: leq_trans (rank_le_bound (n := fun=> n) E Q W setT) _; apply: leq_trans bd.
rewrite /bound_of cardsT card_ord subnn add0n.
have ortt (t : 'I_T) := of_contexts C0 t ort.
apply: leq_add; last rewrite leq_mul2l; last (apply/orP; right).
  have dz : (tokens_dim E setT <= d - zeros)%N.
    apply: tokens_dim_vectors (vectors_free R zv tri) _ => t _.
    exact: (orthogonal_zero R eE C0 sh (ortt t) zv).
  rewrite /tokens_bound /least; case: ifP => // kn; rewrite leq_min dz /=.
  exact: (tokens_dim_known R T eE C0 sh kn).
have dv : (differences_dim E setT <= d - size vectors)%N.
  apply: differences_dim_vectors (vectors_free R (leqnn _) tri) _ => t i j _.
  exact: (orthogonal_constant R eE C0 sh i j (ortt t) zv).
rewrite /differences_bound /least; case: ifP => // /and3P[kn rt jo]; rewrite leq_min dv /=.
exact: (differences_dim_known R T eE C0 sh kn rt jo).
Qed.

(* For all W_Q and W_K there are targets which no values, output and readout weights give. *)
Theorem check_upper_bound_sound (dh dout : nat) (WQ WK : 'I_H -> 'M[R]_(d, dh)) : (0 < dout)%N ->
  exists Y : 'M[R]_(T, dout), forall dv WV WO WD,
    ~ memorizes (@Layer R d H dh dv dout WQ WK WV WO WD) E Q Y.
Proof.
case: dout => // dout _; set Z := intermediate E Q (fun h => WK h *m (WQ h)^T).
have : ~~ row_free Z.
  have bT : (bound < T)%N by move: checked; rewrite /check_upper_bound; do 12!case/andP=> _.
  by rewrite /row_free neq_ltn (leq_ltn_trans (check_upper_bound_rank _) bT).
move=> Zf; have [t tZ] : exists t, ~~ ((delta_mx 0 t : 'rV_T) <= Z^T)%MS.
  apply/existsP; rewrite -negb_forall; apply: contra Zf => /forallP all.
  rewrite /row_free -mxrank_tr -/(row_full Z^T) -sub1mx; apply/row_subP => t.
  by rewrite row1.
exists (\matrix_(s, j) (s == t)%:R) => dv WV WO WD mem.
have [effective_readout _] := @narrow_readout_layer R n d T H dh dv dout.+1 E Q WQ WK
  (\matrix_(s, j) (s == t)%:R).
have [U [_ ZU]] := effective_readout (ex_intro _ WV (ex_intro _ WO (ex_intro _ WD mem))).
move/negP: tZ; apply; apply/submxP; exists (row 0 U^T).
by rewrite -row_mul -trmx_mul ZU; apply/rowP => s; rewrite !mxE eqxx.
Qed.

End Sound.
