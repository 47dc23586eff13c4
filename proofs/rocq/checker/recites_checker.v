(* proofs/21-compact-decoders.md, for the claim *recites*: where recites_program.v says yes, the  *)
(* decoder with the stored integers recites all texts, by the margin, in real arithmetic.         *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions decoders saturated_heads recitation.
From Memorization Require Import recites_program recites_lists.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Stored integers as real numbers *)
Definition stored_row (R : realType) n (u : seq Z) : 'rV[R]_n :=
  \row_j (int_of_Z (nth Z0 u j))%:~R.
Definition stored_rows (R : realType) m n (rows : integers) : 'M[R]_(m, n) :=
  \matrix_(i, j) (int_of_Z (nth Z0 (nth [::] rows i) j))%:~R.
Definition stored_margin (R : realType) (margin : Z) (bits : nat) : R :=
  (int_of_Z margin)%:~R / 2%:R ^+ bits.

(* Positions are periodic. *)
Definition stored_decoder (R : realType) d H dh k V (window : nat) (embedding positions : integers)
    (query_weights key_weights : blocks) (skip : integers) (readouts : blocks)
    (unembedding : integers) : decoder R d H dh k V :=
  Decoder (fun v => stored_row R d (nth [::] embedding v))
    (fun i => stored_row R d (nth [::] positions (i %% size positions))) window
    (fun h => stored_rows R d dh (nth [::] query_weights h))
    (fun h => stored_rows R d dh (nth [::] key_weights h))
    (stored_rows R d k skip) (fun h => stored_rows R d k (nth [::] readouts h))
    (stored_rows R V.+1 k unembedding).

(* The readout with one block below the other *)
Definition stacked_readouts (A : Type) d H k (blocks : 'I_H -> 'M[A]_(d, k)) : 'M[A]_(H * d, k) :=
  \matrix_(i, o) mxvec (\matrix_(h, c) blocks h c o) 0 i.

Lemma mul_readouts (A : comRingType) d H k (x : 'rV[A]_d) (Z : 'M[A]_(H, d)) (U : 'M[A]_(d, k))
    (blocks : 'I_H -> 'M[A]_(d, k)) :
  row_mx x (mxvec Z) *m col_mx U (stacked_readouts blocks) = x *m U + \sum_h row h Z *m blocks h.
Proof.
rewrite mul_row_col; congr (_ + _); apply/rowP => o; rewrite mxE summxE.
have -> : \sum_h (row h Z *m blocks h) 0 o = \sum_h \sum_c Z h c * blocks h c o.
  by apply: eq_bigr => h _; rewrite mxE; apply: eq_bigr => c _; rewrite mxE.
rewrite pair_bigA (reindex _ (curry_mxvec_bij _ _)) /=; apply: eq_bigr => -[h c] _ /=.
by rewrite mxE !mxvecE mxE.
Qed.

(* The last step, on numbers *)
Lemma margin_of_lead (R : realType) (margin lead gap room error : int) (bits m : nat) (a b : R) :
  margin * 2 ^+ m + room * 2 ^+ bits <= lead * 2 ^+ bits * 2 ^+ m ->
  lead <= gap -> error <= room -> gap%:~R - error%:~R * 2%:R ^- m <= a - b ->
  b + margin%:~R / 2%:R ^+ bits <= a.
Proof.
move=> enough leads below near; rewrite addrC -ler_subr_addr; apply: le_trans near.
have pow0 j : 0 < 2%:R ^+ j :> R by rewrite exprn_gt0 ?ltr0n.
apply: (@le_trans _ _ (lead%:~R - room%:~R * 2%:R ^- m)); last first.
  by rewrite ler_add ?ler_int // ler_opp2 ler_wpmul2r ?ler_int // invr_ge0 ltW.
rewrite ler_subr_addr addf_div ?gt_eqF // ler_pdivr_mulr; last exact: mulr_gt0.
by move: enough; rewrite -(ler_int R) !intrD !intrM !rmorphX mulrA.
Qed.

Section Sound.

Variables (d dh H k V window prompt : nat) (margin : Z) (margin_bits : nat).
Variables (embedding positions : integers) (query_weights key_weights : blocks).
Variables (skip : integers) (readouts : blocks) (unembedding : integers).

Hypotheses (k0 : (0 < k)%N) (w0 : (0 < window)%N).
Hypothesis shaped_queries : all_shaped H d dh query_weights.
Hypothesis shaped_keys : all_shaped H d dh key_weights.
Hypothesis shaped_skip : shaped d k skip.
Hypothesis shaped_readouts : all_shaped H d k readouts.
Hypothesis shaped_unembedding : shaped V.+1 k unembedding.

Let WQ (h : 'I_H) := int_rows d dh (nth [::] query_weights h).
Let WK (h : 'I_H) := int_rows d dh (nth [::] key_weights h).
Let U0 := int_rows d k skip.
Let U (h : 'I_H) := int_rows d k (nth [::] readouts h).
Let O := int_rows V.+1 k unembedding.

Section Text.

Variable text : seq nat.

Notation xs := (tokens embedding positions text).
Hypothesis signs_xs : all (are_signs d) xs.
Let signs := map (map (Z.ltb 0)) xs.
Let x i := int_row d (nth [::] xs i).

Lemma size_xs : size xs = size text. Proof. exact: size_mkseq. Qed.
Lemma size_signs : size signs = size text. Proof. by rewrite size_map size_xs. Qed.

Lemma token_signs i : (i < size text)%N -> are_signs d (nth [::] xs i).
Proof. by rewrite -size_xs => it; exact: (all_nthP [::] signs_xs). Qed.

Lemma size_token i : (i < size text)%N -> size (nth [::] xs i) = d.
Proof. by move=> /token_signs/andP[/eqP]. Qed.

Lemma token_is_sign i j : (i < size text)%N -> is_sign (x i 0 j).
Proof.
move=> it; have /andP[/eqP s /(all_nthP Z0)/(_ j)] := token_signs it.
by rewrite s mxE /is_sign /is_signZ => /(_ (ltn_ord j)); lia.
Qed.

Lemma sign_rowE i : (i < size text)%N -> sign_row d (nth [::] signs i) = x i.
Proof.
move=> it; apply/rowP => j; rewrite [LHS]mxE [RHS]mxE (nth_map [::]) ?size_xs //.
rewrite (nth_map Z0) ?size_token //; have := token_is_sign j it; rewrite mxE /is_sign.
by case: ifP; lia.
Qed.

Lemma size_sign i : (i < size text)%N -> size (nth [::] signs i) = d.
Proof. by move=> it; rewrite (nth_map [::]) ?size_xs // size_map size_token. Qed.

Section Position.

Variable i : nat.
Hypothesis it : (i < size text)%N.

Notation n := (minn window i.+1).
Let E : 'M[int]_(n, d) := \matrix_(j < n) x (i - j).

Lemma n0 : (0 < n)%N. Proof. by rewrite leq_min w0. Qed.

Lemma seen_text (j : 'I_n) : (i - j < size text)%N.
Proof. exact: leq_ltn_trans (leq_subr _ _) it. Qed.

Notation pairs h := (map (fun s => (signed dh s (nth [::] key_weights h),
  signed k s (nth [::] readouts h))) signs).
Notation rows h := (head_rows dh k window query_weights key_weights readouts signs h).

Lemma size_all_pairs h : size (pairs h) = size text.
Proof. by rewrite size_map size_signs. Qed.

Lemma nth_head_rows h : nth [::] (rows h) i = read
  (signed dh (nth [::] signs i) (nth [::] query_weights h))
  (nth [::] (contexts window [::] (pairs h)) i).
Proof.
have e : size (map (fun s => signed dh s (nth [::] query_weights h)) signs) =
    size (contexts window [::] (pairs h)) by rewrite size_contexts !size_map.
rewrite (nth_map ([::], [::])); last by rewrite size_zip -e minnn size_map size_signs.
by rewrite nth_zip //= (nth_map [::]) ?size_signs.
Qed.

Lemma pair_of (h : 'I_H) (j : 'I_n) :
  nth ([::], [::]) (nth [::] (contexts window [::] (pairs h)) i) j =
  (signed dh (nth [::] signs (i - j)) (nth [::] key_weights h),
   signed k (nth [::] signs (i - j)) (nth [::] readouts h)).
Proof.
by rewrite nth_context ?size_all_pairs // (nth_map [::]) ?size_signs // seen_text.
Qed.

Lemma size_pairs h : size (nth [::] (contexts window [::] (pairs h)) i) = n.
Proof. by rewrite size_context ?size_all_pairs. Qed.

Lemma size_head_row (h : 'I_H) : (size (nth [::] (rows h) i) <= k)%N.
Proof.
rewrite nth_head_rows; apply: size_read; apply/(all_nthP ([::], [::])) => j; rewrite size_pairs.
move=> jn.
have := pair_of h (Ordinal jn); rewrite /= => ->.
by rewrite /= (size_signed _ (all_shapedP shaped_readouts (ltn_ord h))).
Qed.

(* If a head reads one token, its logit leads, and the head gives this token's readout. *)
Lemma head_reads (h : 'I_H) : (0 < size (nth [::] (rows h) i))%N -> exists picked : 'I_n,
  int_row k (nth [::] (rows h) i) = x (i - picked) *m U h /\
  forall j, j != picked -> (E *m (WK h *m (WQ h)^T) *m (x i)^T) j 0 + 128 <=
    (E *m (WK h *m (WQ h)^T) *m (x i)^T) picked 0.
Proof.
have sq := all_shapedP shaped_queries (ltn_ord h).
have sk := all_shapedP shaped_keys (ltn_ord h).
have su := all_shapedP shaped_readouts (ltn_ord h).
rewrite nth_head_rows; case/readP => j [jn e leads]; rewrite size_pairs in jn leads.
exists (Ordinal jn); split=> [|l lj].
  rewrite e (pair_of h (Ordinal jn)) /= (signedE su) ?size_sign ?sign_rowE //;
    exact: (seen_text (Ordinal jn)).
have logit (m : 'I_n) : int_of_Z (product (signed dh (nth [::] signs i) (nth [::] query_weights h))
    (signed dh (nth [::] signs (i - m)) (nth [::] key_weights h))) =
    (E *m (WK h *m (WQ h)^T) *m (x i)^T) m 0.
  rewrite (@productE dh) ?(size_signed _ sq) ?(size_signed _ sk) //.
  rewrite (signedE sq) ?(signedE sk) ?size_sign ?sign_rowE ?seen_text //.
  have -> (A : 'cV[int]_n) : A m 0 = (row m A) 0 0 by rewrite mxE.
  have tr (A : 'M[int]_1) : A 0 0 = A^T 0 0 by rewrite mxE.
  by rewrite [LHS]tr !row_mul rowK !trmx_mul !trmxK !mulmxA.
have := leads l (ltn_ord l); rewrite (pair_of h l) (pair_of h (Ordinal jn)) /= !logit.
by rewrite (logit (Ordinal jn)); apply.
Qed.

Lemma size_rows h : size (rows h) = size text.
Proof. by rewrite size_map size_zip size_contexts size_all_pairs size_map size_signs minnn. Qed.

Notation sums hs := (foldr (fun h => add_rows (rows h)) (map (fun s => signed k s skip) signs) hs).

Lemma size_sums hs : size (sums hs) = size text.
Proof.
elim: hs => [|h hs IHhs] /=; first by rewrite size_map size_signs.
by rewrite size_map size_zip size_rows IHhs minnn.
Qed.

Lemma nth_sums h hs : nth [::] (sums (h :: hs)) i = added (nth [::] (rows h) i)
  (nth [::] (sums hs) i).
Proof.
rewrite (nth_map ([::], [::])) ?size_zip ?size_rows ?size_sums ?minnn //.
by rewrite nth_zip ?size_rows ?size_sums.
Qed.

Lemma sums_read hs : let row := nth [::] (sums hs) i in (size row <= k)%N /\
  (size row = k -> (forall h, h \in hs -> (k <= size (nth [::] (rows h) i))%N) /\
    int_row k row = x i *m U0 + \sum_(h <- hs) int_row k (nth [::] (rows h) i)).
Proof.
elim: hs => [|h hs [le IHhs]]; cbv zeta.
  rewrite /= (nth_map [::]) ?size_signs // (size_signed _ shaped_skip); split=> // _; split=> //.
  by rewrite big_nil addr0 (signedE shaped_skip) ?size_sign ?sign_rowE.
rewrite nth_sums size_added; split=> [|e]; first by rewrite geq_min le orbT.
have [kh ks] : (k <= size (nth [::] (rows h) i))%N /\ size (nth [::] (sums hs) i) = k.
  by move: e le; rewrite /minn; case: ltnP => *; lia.
have [all_k sum_k] := IHhs ks; split=> [h'|].
  by rewrite inE => /orP[/eqP->|/all_k].
by rewrite added_row ?ks // sum_k big_cons addrCA.
Qed.

Lemma outputs_read : let row := nth [::] (outputs dh H k window query_weights key_weights skip
    readouts signs) i in
  size row = k -> exists picked : 'I_H -> 'I_n,
    int_row k row = x i *m U0 + \sum_h x (i - picked h) *m U h /\
    forall h j, j != picked h -> (E *m (WK h *m (WQ h)^T) *m (x i)^T) j 0 + 128 <=
      (E *m (WK h *m (WQ h)^T) *m (x i)^T) (picked h) 0.
Proof.
move=> row e; have [_ /(_ e)[all_k rowE]] := sums_read (iota 0 H).
have reads (h : 'I_H) : (0 < size (nth [::] (rows h) i))%N.
  by apply: leq_trans k0 _; apply: all_k; rewrite mem_iota /=.
have [picked leads] := fin_all_exists (fun h => head_reads (reads h)).
exists picked; split=> [|h]; last by have [_] := leads h.
rewrite rowE; congr (_ + _).
rewrite (_ : iota 0 H = index_iota 0 H) ?big_mkord; last by rewrite /index_iota subn0.
apply: eq_bigr => h _; by have [] := leads h.
Qed.

(* Differences of logits in real arithmetic are nearly those of the integers. *)
Variable R : realType.
Let D := stored_decoder R d H dh k V window embedding positions query_weights key_weights skip
  readouts unembedding.
Hypothesis known : all (fun v => (v < V)%N) text.

Let real a b (A : 'M[int]_(a, b)) : 'M[R]_(a, b) := map_mx intr A.

Lemma real_token j : (j < size text)%N -> token D text j = real (x j).
Proof.
move=> jt; have s := size_token jt; move: s; rewrite nth_mkseq // size_added => s.
apply/rowP => c; rewrite !mxE nth_mkseq // nth_added ?int_of_ZD ?intrD //.
  by apply: leq_trans (ltn_ord c) _; rewrite -[X in (X <= _)%N]s geq_minl.
by apply: leq_trans (ltn_ord c) _; rewrite -[X in (X <= _)%N]s geq_minr.
Qed.

Lemma real_context : context D text i = real E.
Proof. by apply/matrixP => j c; rewrite [LHS]mxE real_token ?seen_text // !mxE. Qed.

Lemma real_rows m p (rows : integers) : stored_rows R m p rows = real (int_rows m p rows).
Proof. by apply/matrixP => a b; rewrite !mxE. Qed.

Let stack : 'M[int]_(d + H * d, k) := col_mx U0 (stacked_readouts U).

Lemma real_logits : logits D text i = row_mx (real (x i))
  (mxvec (\matrix_h head (real E) (real (WK h *m (WQ h)^T)) (real (x i)))) *m real stack *m
  (real O)^T.
Proof.
have -> : real stack = col_mx (real U0) (stacked_readouts (fun h => real (U h))).
  rewrite /real map_col_mx; congr col_mx; apply/matrixP => a o; rewrite !mxE.
  by case/mxvec_indexP: a => h c; rewrite !mxvecE !mxE.
rewrite mul_readouts /logits real_token // real_context /= !real_rows; congr (_ *m _).
congr (_ + _); apply: eq_bigr => h _; rewrite rowK !real_rows.
by rewrite /real map_mxM map_trmx.
Qed.

Variables most lead : Z.
Hypothesis small : all_at_most skip readouts unembedding most.
Hypothesis enough_lead : enough d H k window margin margin_bits most lead.

Lemma small_rows m p rows : shaped m p rows -> at_most most rows -> forall a b,
  `|int_rows m p rows a b| <= int_of_Z most.
Proof.
case/shapedP => s sizes /(all_nthP [::]) le a b; rewrite mxE.
have := le a; rewrite s => /(_ (ltn_ord a))/(all_nthP Z0)/(_ b); rewrite sizes //.
by move=> /(_ (ltn_ord b))/size_at_most.
Qed.

Lemma most_ge0 : 0 <= int_of_Z most.
Proof.
have /and3P[h _ _] := small.
exact: le_trans (small_rows shaped_unembedding h ord0 (Ordinal k0)).
Qed.

Lemma small_stack c o : `|stack c o| <= int_of_Z most.
Proof.
have /and3P[_ us /allP uh] := small.
rewrite /stack; have [c'|c'] := split_ordP c => ->; first by rewrite col_mxEu small_rows.
rewrite col_mxEd mxE; case/mxvec_indexP: c' => h j; rewrite mxvecE mxE.
apply: small_rows (all_shapedP shaped_readouts (ltn_ord h)) _ _ _.
by apply: uh; apply: mem_nth; case/andP: shaped_readouts => /eqP ->.
Qed.

Lemma sizes_below u v : 2 * (n - 1)%:Z * (\sum_o \sum_c `|stack c o| * `|O u o - O v o|) <=
  int_of_Z (room d H k window most).
Proof.
have m0 := most_ge0; set m := int_of_Z most in m0.
have each o c : `|stack c o| * `|O u o - O v o| <= m * (2 * m).
  apply: ler_pmul => //; first exact: small_stack.
  apply: le_trans (ler_norm_sub _ _) _; rewrite mulr_natl mulr2n.
  have /and3P[h _ _] := small.
  by rewrite ler_add // small_rows.
have -> : int_of_Z (room d H k window most) = 2 * window%:Z * (k * (d + H * d))%:Z * (m * (2 * m)).
  by rewrite /room !int_of_ZM -/m int_of_Znat PoszM !mulrA.
rewrite -[X in _ <= X]mulrA; apply: ler_pmul => //.
- by rewrite sumr_ge0 // => o _; rewrite sumr_ge0 // => c _; rewrite mulr_ge0.
- by rewrite ler_pmul2l // lez_nat (leq_trans (leq_subr _ _)) // geq_minl.
apply: le_trans (ler_sum _ (fun o _ => ler_sum _ (fun c _ => each o c))) _.
by rewrite !sumr_const !card_ord -mulrnA -[_ *+ _]mulr_natl mulnC natz.
Qed.

Let row_i := nth [::] (outputs dh H k window query_weights key_weights skip readouts signs) i.
Hypothesis is_right : right k unembedding lead row_i (next V text i).

Lemma recites_at : exists2 u : 'I_V.+1, u = next V text i :> nat & forall v, v != u ->
  logits D text i 0 v + stored_margin R margin margin_bits <= logits D text i 0 u.
Proof.
have nV : (next V text i < V.+1)%N.
  rewrite /next; have [h|h] := ltnP i.+1 (size text); last by rewrite nth_default.
  by rewrite ltnS ltnW //; exact: (all_nthP V known).
exists (Ordinal nV) => // v vu; move: is_right; rewrite /right => /andP[/eqP sk ahead].
have [picked [rowE leads]] := outputs_read sk.
have signs_E j c : is_sign (E j c) by rewrite mxE token_is_sign // seen_text.
have near := margins R stack O signs_E leads (Ordinal nV) v; rewrite /= in near.
move: near; rewrite mul_readouts -/(real _) -/(real stack) -/(real O) -real_logits.
have -> : \sum_h row h (\matrix_h' row (picked h') E) *m U h = \sum_h x (i - picked h) *m U h.
  by apply: eq_bigr => h _; rewrite rowK /E rowK.
have logit w : (int_row k row_i *m O^T) 0 w = int_of_Z (product row_i (nth [::] unembedding w)).
  have [_ so] := shapedP shaped_unembedding; rewrite (@productE k) ?so // !mxE.
  by apply: eq_bigr => o _; rewrite !mxE.
rewrite -rowE -/row_i !logit.
apply: (@margin_of_lead _ _ (int_of_Z lead)) _ (sizes_below _ _).
  have /Z.leb_le/le_int_of_Z := enough_lead.
  rewrite int_of_ZD (int_of_ZM margin) (int_of_ZM (room _ _ _ _ _)) (int_of_ZM (Z.mul lead _)).
  by rewrite (int_of_ZM lead) !int_of_power.
have [su _] := shapedP shaped_unembedding.
have := all_butP ahead; rewrite size_map su => /(_ v (ltn_ord v)).
rewrite !(nth_map [::]) ?su // => /(_ _)/Z.leb_le/le_int_of_Z.
rewrite int_of_ZD addrC -ler_subr_addr.
by apply; apply: contra vu => /eqP e; apply/eqP/val_inj.
Qed.

End Position.

End Text.

End Sound.

(* The program on stored integers *)
Theorem check_recites_sound (R : realType) d dh H k V window prompt margin margin_bits
    (embedding positions : integers) (query_weights key_weights : blocks) (skip : integers)
    (readouts : blocks) (unembedding : integers) (texts : texts) :
  check_recites d dh H k V window prompt margin margin_bits embedding positions query_weights
    key_weights skip readouts unembedding texts ->
  let D := stored_decoder R d H dh k V window embedding positions query_weights key_weights skip
    readouts unembedding in
  let m := stored_margin R margin margin_bits in
  0 < m /\ forall text : seq nat, text \in texts -> recites D text prompt m.
Proof.
rewrite /check_recites; set most := largest _ _ _; set lead := least _ _ _ _ _ _ _.
case/and5P => /Z.ltb_lt m0 k0 w0 _ /and5P[_ sq sk ss /and5P[sr so small en /allP ok]].
split=> [|text /ok]; first by rewrite divr_gt0 ?exprn_gt0 ?ltr0n // ltr0z; move: m0; lia.
rewrite /check_text; set xs := tokens _ _ _; set rows := outputs _ _ _ _ _ _ _ _ _.
case/and3P => known signs /(all_nthP ([::], 0%N)) rights i /andP[pi it].
have size_rows : size rows = size text by rewrite /rows /outputs size_sums.
have expected : size (rcons (behead text) V) = size text.
  by rewrite size_rcons size_behead prednK // (leq_ltn_trans (leq0n i)).
refine (recites_at k0 w0 sq sk ss sr so signs it R known small en _).
have pi' : (prompt.-1 <= i)%N by case: (prompt) pi.
have := rights (i - prompt.-1)%N; rewrite size_drop size_zip size_rows expected minnn nth_drop.
rewrite subnKC // nth_zip ?size_rows ?expected //= nth_rcons size_behead nth_behead.
rewrite ltn_sub2r ?(leq_ltn_trans pi') // => /(_ isT).
suff -> : (if (i < (size text).-1)%N then nth 0%N text i.+1 else
  if i == (size text).-1 then V else 0%N) = next V text i by [].
rewrite /next; have [h|h] := ltnP i (size text).-1.
  by apply: set_nth_default; rewrite -ltn_predRL.
have -> : i = (size text).-1 by apply/eqP; rewrite eqn_leq h andbT -ltnS (ltn_predK it).
by rewrite eqxx nth_default // (ltn_predK it).
Qed.
