(* proofs/10-exact-rank.md: what attention_program.v says of Z of a stored layer holds. *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra zify ssrZ.
From mathcomp Require Import boolp.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions readout theorem_4 hermite list_checker.
From Memorization Require Import attention_program attention_residues.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The logits of one example in one head, without their power of two *)
Definition int_logits n d dh (E : 'M[int]_(n, d)) (WK WQ : 'M[int]_(d, dh)) (e : 'rV[int]_d) :
  'cV[int]_n :=
  E *m (WK *m WQ^T) *m e^T.

Section Sound.

Variables (p r a : int63).
Hypothesis ok : moduli p r a.

Let P := nat63 p.
Notation toF := (@residue [ringType of 'F_P]).
Notation toZr := (@residue [ringType of 'Z_(nat63 r)]).

Let p1 : PrimInt63.ltb 1%uint63 p. Proof. by case/and5P: ok. Qed.
Let p31 : PrimInt63.ltb p 2147483648%uint63. Proof. by case/and5P: ok. Qed.
Let r1 : PrimInt63.ltb 1%uint63 r. Proof. by case/and5P: ok. Qed.
Let r31 : PrimInt63.ltb r 2147483648%uint63. Proof. by case/and5P: ok. Qed.
Let ap : reduced p a. Proof. by case/and5P: ok => _ _ _ _ /andP[]. Qed.

Lemma Fp0 : (nat63 p)%:R = 0 :> 'F_P.
Proof.
have P1 := P_gt1 p1 p31; have /dvdnP[q Pq] := pdiv_dvd P.
apply: (etrans (congr1 (fun k => k%:R : 'F_P) Pq)).
have /char_Zp c : (1 < pdiv P)%N by rewrite prime_gt1 ?pdiv_prime.
by rewrite natrM [X in _ * X](c : (pdiv P)%:R = 0 :> 'F_P) mulr0.
Qed.

Lemma Zr0 : (nat63 r)%:R = 0 :> 'Z_(nat63 r).
Proof. by rewrite char_Zp // (P_gt1 r1 r31). Qed.

Lemma toF_exp_mod k : toF a ^+ (k %% nat63 r) = toF a ^+ k.
Proof.
have /Uint63.eqb_spec e : PrimInt63.eqb (powm p a r) 1%uint63 by case/and5P: ok => _ _ _ _ /andP[].
have := toF_powm Fp0 p1 p31 r ap; rewrite e => er.
by rewrite [in RHS](divn_eq k (nat63 r)) exprD mulnC exprM -er expr1n mul1r.
Qed.

Section Logits.

Variables (n d dh : nat) (wq wk context : seq (seq dyadic)) (query : seq dyadic).
Hypotheses (kd : size wk = d) (qd : size query = d) (cn : size context = n).

Let K := int_logits (int_matrix n d context) (int_matrix d dh wk) (int_matrix d dh wq)
  (\row_j int_of_dyadic (nth zero_dyadic query j)).

Let e := map (dyadicm r) query.
Let v := map (dotm r 0%uint63 e) (transpose dh (arraym r wq)).
Let u := map (dotm r 0%uint63 v) (arraym r wk).

Lemma logitE (i : 'I_n) : toZr (dotm r 0%uint63 u (nth [::] (arraym r context) i)) = (K i 0)%:~R.
Proof.
have red0 := reduced0 r1 r31.
have redv : all (reduced r) v.
  by rewrite all_map; apply/(all_nthP [::]) => k _ /=; apply: reduced_dotm.
have redu : all (reduced r) u.
  by rewrite all_map; apply/(all_nthP [::]) => k _ /=; apply: reduced_dotm.
have vE (k : 'I_dh) : toZr (nth 0%uint63 v k) =
    (((int_matrix d dh wq)^T *m (\row_j int_of_dyadic (nth zero_dyadic query j))^T) k 0)%:~R.
  rewrite (nth_map [::]) ?size_mkseq // nth_mkseq // (toF_dotm Zr0 r1 r31 (N := d)) ?reduced_column
    ?reduced_dyadics //; last first.
    by rewrite {1}/e size_map qd leqnn.
  rewrite add0r mxE rmorph_sum; apply: eq_bigr => l _.
  rewrite nth_column (nth_dyadics Zr0) // (nth_arraym Zr0) // !mxE -intrM [in RHS]mulrC //.
have uE (j : 'I_d) : toZr (nth 0%uint63 u j) =
    ((int_matrix d dh wk *m ((int_matrix d dh wq)^T *m (\row_j int_of_dyadic (nth zero_dyadic query
      j))^T)) j 0)%:~R.
  rewrite (nth_map [::]) ?size_map ?kd // (toF_dotm Zr0 r1 r31 (N := dh)) ?reduced_arraym //; last
    first.
    by rewrite {1}/v size_map size_mkseq leqnn.
  rewrite add0r mxE rmorph_sum; apply: eq_bigr => k _.
  rewrite [X in X * _](vE k) (nth_arraym Zr0) //.
  by rewrite rmorphM [RHS]mulrC; congr (_ * _); rewrite /= mxE.
have sizes : (size u <= d)%N || (size (nth [::] (arraym r context) i) <= d)%N by rewrite {1}/u
  !size_map kd leqnn.
apply: (etrans (toF_dotm Zr0 r1 r31 red0 redu (reduced_arraym r1 r31 context i) sizes)).
rewrite add0r /K /int_logits -!mulmxA mxE rmorph_sum; apply: eq_bigr => j _.
rewrite [X in X * _](uE j) (nth_arraym Zr0) //.
by rewrite rmorphM [RHS]mulrC; congr (_ * _); rewrite /= mxE.
Qed.

Lemma powersE (i : 'I_n) (k : nat) : k%:R = (K i 0)%:~R :> 'Z_(nat63 r) ->
  toF (nth 0%uint63 (powers p r a (transpose dh (arraym r wq)) (arraym r wk) (arraym r context) e)
    i) = toF a ^+ k.
Proof.
move=> kE; rewrite (nth_map [::]) ?size_map ?cn // (toF_powm Fp0) //.
rewrite -/v -/u -[RHS]toF_exp_mod -[LHS]toF_exp_mod; congr (_ ^+ _).
have := logitE i; rewrite -kE => /(congr1 val) /=.
by rewrite !val_Zp_nat // (P_gt1 r1 r31).
Qed.

Lemma size_powers : size (powers p r a (transpose dh (arraym r wq)) (arraym r wk) (arraym r
  context) e) = n.
Proof. by rewrite !size_map. Qed.

Lemma reduced_powers : all (reduced p) (powers p r a (transpose dh (arraym r wq)) (arraym r wk)
  (arraym r context) e).
Proof. by rewrite all_map; apply/(all_nthP [::]) => k _ /=; apply: reduced_powm. Qed.

End Logits.

Section Example.

Variables (n d dh H : nat) (context : seq (seq dyadic)) (query : seq dyadic).
Variables (query_weights key_weights : seq (seq (seq dyadic))).

Let K (h : 'I_H) := int_logits (int_matrix n d context) (int_matrix d dh (nth [::] key_weights h))
  (int_matrix d dh (nth [::] query_weights h)) (\row_j int_of_dyadic (nth zero_dyadic query j)).
Let heads := mkseq (fun h => (transpose dh (arraym r (nth [::] query_weights h)), arraym r (nth
  [::] key_weights h))) H.

Variable k : 'I_H -> 'I_n -> nat.
Hypothesis kE : forall h i, (k h i)%:R = (K h i 0)%:~R :> 'Z_(nat63 r).
Hypothesis kd : forall h : 'I_H, size (nth [::] key_weights h) = d.
Hypotheses (cn : size context = n) (qd : size query = d).

Let w (h : nat) := powers p r a (transpose dh (arraym r (nth [::] query_weights h))) (arraym r (nth
  [::] key_weights h))
  (arraym r context) (map (dyadicm r) query).

Lemma wE (h : 'I_H) (i : 'I_n) : toF (nth 0%uint63 (w h) i) = toF a ^+ k h i.
Proof. by apply: powersE => //; rewrite kE. Qed.

Lemma size_w h : size (w h) = n. Proof. exact: size_powers. Qed.

Lemma reduced_w h : all (reduced p) (w h). Proof. exact: reduced_powers. Qed.

Lemma sum_wE (h : 'I_H) : toF (sum63 p (w h)) = \sum_i toF a ^+ k h i.
Proof.
have [-> _] := toF_sum Fp0 p1 p31 (reduced_w h).
by rewrite (big_nth 0%uint63) size_w big_mkord; apply: eq_bigr => i _; exact: wE.
Qed.

Let others (h g : nat) := if g == h then PrimInt63.mod 1%uint63 p else sum63 p (w g).

Lemma reduced_others h : all (reduced p) (mkseq (others h) H).
Proof.
rewrite all_map; elim: (iota 0 H) => //= g s ->; rewrite andbT /others; case: ifP => _; first
  exact: reduced_mod.
exact: (toF_sum Fp0 p1 p31 (reduced_w g)).2.
Qed.

Lemma product_othersE (h : 'I_H) :
  toF (product63 p (mkseq (others h) H)) = \prod_(g | g != h) \sum_i toF a ^+ k g i.
Proof.
have [-> _] := toF_product Fp0 p1 p31 (reduced_others h).
rewrite /mkseq big_map -[X in iota 0 X](subn0 H) -/(index_iota 0 H) big_mkord [RHS]big_mkcond.
apply: eq_bigr => g _; rewrite /others (_ : (g != h) = ~~ (nat_of_ord g == nat_of_ord h)) //.
case: eqP => _ /=; last exact: sum_wE.
exact: (toF_one Fp0 p1 p31).
Qed.

Let row := representation p r a d heads context query.

Lemma rowE : row = mkseq (fun h => map (fun column => mulm p (dotm p 0%uint63 (w h) column)
  (product63 p (mkseq (others h) H)))
  (transpose d (arraym p context))) H.
Proof.
have wsE : map (fun head => powers p r a head.1 head.2 (arraym r context) (map (dyadicm r) query))
  heads = mkseq w H.
  by rewrite /heads /mkseq -map_comp; apply: eq_map.
rewrite /row /representation wsE size_mkseq; apply/eq_in_map => h; rewrite mem_iota /= => hH.
rewrite nth_mkseq //. congr map; apply: funext => column; congr (mulm _ _ (product63 _ _));
  apply/eq_in_map => g.
rewrite mem_iota /= => gH; rewrite /others; case: ifP => // _.
by rewrite (nth_map [::]) ?size_mkseq // nth_mkseq.
Qed.

Lemma representationE (h : 'I_H) (j : 'I_d) : toF (nth 0%uint63 (nth [::] row h) j) =
  (\sum_i (int_matrix n d context i j)%:~R * toF a ^+ k h i) *
    \prod_(g | g != h) \sum_i toF a ^+ k g i.
Proof.
rewrite rowE nth_mkseq // (nth_map [::]) ?size_mkseq // nth_mkseq //.
have red0 := reduced0 p1 p31; have cr := reduced_column p1 p31 context j.
have prod2 := (toF_product Fp0 p1 p31 (reduced_others h)).2.
rewrite (toF_mulm Fp0 p1 p31) ?(reduced_dotm p1 p31) // product_othersE; congr (_ * _).
have sizes : (size (w h) <= n)%N || (size (map (fun row : seq int63 => nth 0%uint63 row j) (arraym
  p context)) <= n)%N.
  by rewrite size_w leqnn.
apply: (etrans (toF_dotm Fp0 p1 p31 red0 (reduced_w h) cr sizes)).
rewrite [residue _ _]toF0 add0r; apply: eq_bigr => i _.
by rewrite wE nth_column (nth_arraym Fp0) // mulrC mxE.
Qed.

Lemma size_row : size row = H. Proof. by rewrite rowE size_mkseq. Qed.

Lemma row_shape : all (fun x : seq int63 => size x <= d)%N row /\ all (all (reduced p)) row.
Proof.
rewrite rowE !all_map; split; elim: (iota 0 H) => //= h s ->; rewrite andbT.
  by rewrite size_map size_mkseq.
by rewrite all_map; apply/(all_nthP [::]) => j _ /=; exact: reduced_mod.
Qed.

End Example.

Section Rows.

Variables (n d dh T H : nat) (contexts : seq (seq (seq dyadic))) (queries : seq (seq dyadic)).
Variables (query_weights key_weights : seq (seq (seq dyadic))).

Let E (t : 'I_T) := int_matrix n d (nth [::] contexts t).
Let K (t : 'I_T) (h : 'I_H) := int_logits (E t) (int_matrix d dh (nth [::] key_weights h))
  (int_matrix d dh (nth [::] query_weights h)) (\row_j int_of_dyadic (nth zero_dyadic (nth [::]
    queries t) j)).

Variable k : 'I_T -> 'I_H -> 'I_n -> nat.
Hypothesis kE : forall t h i, (k t h i)%:R = (K t h i 0)%:~R :> 'Z_(nat63 r).
Hypothesis kd : forall h : 'I_H, size (nth [::] key_weights h) = d.

Variables (marks : seq bitseq) (inverse : seq (seq (seq int63))).

Hypothesis checked : check_attention p r a n d dh T H contexts queries query_weights key_weights
  marks inverse.

Lemma checked_row_free : row_free (map_mx (evaluate (toF a)) (cleared E k)).
Proof.
case/and5P: checked => _ _ _ red /allP okT.
pose W (s : 'I_T) := \matrix_(h < H, j < d)
  toF (nth 0%uint63 (spread (nth [::] marks h) (nth [::] (nth [::] inverse s) h)) j).
apply/row_freeP; exists (\matrix_s mxvec (W s))^T; apply/matrixP => t s; rewrite [RHS]mxE.
have /okT : val t \in iota 0 T by rewrite mem_iota /=.
case/and3P => /eqP cn /eqP qd /allP/(_ (val s)); rewrite mem_iota /= => /(_ (ltn_ord
  s))/Uint63.eqb_spec.
move=> /(congr1 (toF)) e.
have [sh rr] := row_shape d dh H (nth [::] contexts t) (nth [::] queries t) query_weights
  key_weights.
have inv : all (all (reduced p)) (nth [::] inverse s).
  have [si|si] := ltnP s (size inverse); last by rewrite nth_default.
  by move: red => /(all_nthP [::]); apply.
have red0 := reduced0 p1 p31.
have sr := eq_leq (size_row d dh H (nth [::] contexts t) (nth [::] queries t) query_weights
  key_weights).
move: e; rewrite (toF_dotm2 Fp0 p1 p31 marks red0 rr inv sr sh) [residue _ 0%uint63]toF0 add0r => e.
transitivity (toF (if val t == val s then 1%uint63 else 0%uint63)); last by rewrite -val_eqE; case:
  eqP.
rewrite -[RHS]e mxE sum_mxvec_index; apply: eq_bigr => h _; apply: eq_bigr => j _.
by rewrite (representationE (kE t) kd cn qd) [X in X * _]mxE evaluate_cleared [X in _ * X]mxE
  [X in _ * X]mxE mxvecE [X in _ * X]mxE.
Qed.

End Rows.

(* Exponents that are not negative, the same modulo r *)
Lemma natural_exponents T H (n : 'I_T -> nat) (kappa : forall t, 'I_H -> 'I_(n t) -> int) :
  exists (k : forall t, 'I_H -> 'I_(n t) -> nat) (M : 'I_T -> 'I_H -> nat),
    (forall t h i, (k t h i)%:Z = kappa t h i + (M t h)%:Z) /\
    (forall t h i, (k t h i)%:R = (kappa t h i)%:~R :> 'Z_(nat63 r)).
Proof.
have r0 : (0 < nat63 r)%N by exact: ltn_trans (P_gt1 r1 r31).
pose M t h := (nat63 r * \sum_i absz (kappa t h i))%N.
pose k t h i := absz (kappa t h i + (M t h)%:Z).
have kZ t h i : (k t h i)%:Z = kappa t h i + (M t h)%:Z.
  rewrite /k gez0_abs //; have : (absz (kappa t h i) <= M t h)%N.
    by apply: leq_trans (leq_pmull _ r0); rewrite (bigD1 i) //= leq_addr.
  by move: (kappa t h i) (M t h) => x y; lia.
exists k, M; split=> // t h i.
by rewrite -[LHS]/((k t h i)%:Z)%:~R kZ rmorphD /= /M PoszM rmorphM /= [X in _ + X * _]Zr0 mul0r
  addr0.
Qed.

End Sound.

(* What a stored array is: its integers times one power of two. *)
Definition stored_matrix (R : realType) (e : int) m n (rows : seq (seq dyadic)) : 'M[R]_(m, n) :=
  \matrix_(i, j) ((int_of_dyadic (nth zero_dyadic (nth [::] rows i) j))%:~R * 2 ^ e).

Section Real.

Variable R : realType.

Lemma stored_matrixE e m n rows : stored_matrix R e m n rows = 2 ^ e *: map_mx intr (int_matrix m n
  rows).
Proof. by apply/matrixP => i j; rewrite !mxE mulrC. Qed.

Lemma real_logits n d dh (E : 'M[int]_(n, d)) (WK WQ : 'M[int]_(d, dh)) (e : 'rV[int]_d) (x y z u :
  R) :
  (x *: map_mx intr E) *m ((y *: map_mx intr WK) *m (z *: map_mx intr WQ)^T) *m (u *: map_mx intr
    e)^T =
  (x * y * z * u) *: map_mx intr (int_logits E WK WQ e).
Proof.
have tr c m1 m2 (A : 'M[int]_(m1, m2)) : (c *: map_mx intr A)^T = c *: map_mx intr A^T :> 'M[R]_(_,
  _).
  by rewrite linearZ /= map_trmx.
have mul c1 c2 m1 m2 m3 (A : 'M[int]_(m1, m2)) (B : 'M[int]_(m2, m3)) :
    (c1 *: map_mx intr A) *m (c2 *: map_mx intr B) = (c1 * c2) *: map_mx intr (A *m B) :> 'M[R]_(_,
      _).
  by rewrite -scalemxAl -scalemxAr scalerA map_mxM.
by rewrite !tr !mul mulrA.
Qed.

(* The rank of Z, for the layer with weights W_Q and W_K, on the examples (E_t, e_t) *)
Theorem check_attention_sound p r a (n d dh T H : nat) contexts queries query_weights key_weights
  marks inverse
    (eE eq eQ eK : int) :
  check_attention p r a n d dh T H contexts queries query_weights key_weights marks inverse ->
  \rank (intermediate (fun t : 'I_T => stored_matrix R eE n d (nth [::] contexts t)) (stored_matrix
    R eq T d queries)
    (fun h : 'I_H => stored_matrix R eK d dh (nth [::] key_weights h) *m
                     (stored_matrix R eQ d dh (nth [::] query_weights h))^T)) = T.
Proof.
move=> checked; have := checked; rewrite /check_attention; case/and5P => ok n0 /allP okH _ _.
pose q (t : 'I_T) := \row_j int_of_dyadic (nth zero_dyadic (nth [::] queries t) j) : 'rV[int]_d.
pose E (t : 'I_T) := int_matrix n d (nth [::] contexts t).
pose K (t : 'I_T) (h : 'I_H) := int_logits (E t) (int_matrix d dh (nth [::] key_weights h))
  (int_matrix d dh (nth [::] query_weights h)) (q t).
have [k [M [kZ kE]]] := natural_exponents (n := fun=> n) ok (fun t h i => K t h i 0).
have kd (h : 'I_H) : size (nth [::] key_weights h) = d by apply/eqP/okH; rewrite mem_iota /=.
have rf := checked_row_free ok kE kd checked.
have tr := hermite_power_of_two R (eE + eK + eQ + eq).
apply: (@rank_of_step R n d T H E k _ _ _ (2 ^ eE) _ (fun t h => - (M t h)%:R *
  2 ^ (eE + eK + eQ + eq)) _ _ n0 _ tr _ _ rf).
- by rewrite expfz_neq0 // pnatr_eq0.
- by move=> t; rewrite stored_matrixE.
move=> t h i; rewrite -mulrDl !stored_matrixE.
have -> : row t (2 ^ eq *: map_mx intr (int_matrix T d queries)) = 2 ^ eq *: map_mx intr (q t) :>
  'rV[R]_d.
  by apply/rowP => j; rewrite !mxE.
rewrite real_logits mxE mulrC [map_mx _ _ _ _]mxE -/(K t h); congr (_ * _).
  by rewrite -[(k t h i)%:R]/((k t h i)%:Z)%:~R kZ rmorphD /= addrK.
by rewrite !expfzDr // pnatr_eq0.
Qed.

(* So for all targets there are value, output and readout weights with which the layer memorizes
  them. *)
Corollary check_attention_memorizes p r a (n d dh T H : nat) contexts queries query_weights
  key_weights marks inverse
    (eE eq eQ eK : int) :
  check_attention p r a n d dh T H contexts queries query_weights key_weights marks inverse ->
  forall (dv dout : nat) (Y : 'M[R]_(T, dout)), (dout <= dv)%N ->
  exists WV WO WD, memorizes
    (@Layer R d H dh dv dout (fun h => stored_matrix R eQ d dh (nth [::] query_weights h))
      (fun h => stored_matrix R eK d dh (nth [::] key_weights h)) WV WO WD)
    (fun t : 'I_T => stored_matrix R eE n d (nth [::] contexts t)) (stored_matrix R eq T d queries)
      Y.
Proof.
move=> checked dv dout Y; apply: readout; rewrite /row_free.
by apply/eqP; apply: check_attention_sound checked.
Qed.

End Real.
