(* proofs/11-verified-readout.md, for the claim *error*: where error_checker_program.v says yes,  *)
(* the layer with the stored weights is within epsilon of all targets, in real arithmetic.        *)
From Coq Require Import ZArith Uint63.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions list_checker attention_program attention_residues.
From Memorization Require Import attention_rank upper_bound_program upper_bound.
From Memorization Require Import exp_program exp_series exp_enclosure error_program error_head.
From Memorization Require Import error_layer machine_integers machine_integers_exact error_machine.
From Memorization Require Import error_machine_exact error_checker_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma int_of_ZD x y : int_of_Z (Z.add x y) = int_of_Z x + int_of_Z y.
Proof. exact: (rmorphD [rmorphism of int_of_Z] x y). Qed.

Lemma int_dot (u v : seq Z) n : size u = n ->
  int_of_Z (Zdot u v) = \sum_(i < n) int_of_Z (nth Z0 u i) * int_of_Z (nth Z0 v i).
Proof. by move=> <-; exact: (dotE int_of_ZD int_of_ZM (erefl : int_of_Z Z0 = 0)). Qed.

Lemma nth_Zdyadic row j : nth Z0 (map Zdyadic row) j = Zdyadic (nth zero_dyadic row j).
Proof.
have [h|h] := ltnP j (size row); first by rewrite (nth_map zero_dyadic).
by rewrite !nth_default ?size_map.
Qed.

Lemma nth_Zarray rows i j :
  nth Z0 (nth [::] (Zarray rows) i) j = Zdyadic (nth zero_dyadic (nth [::] rows i) j).
Proof.
have [h|h] := ltnP i (size rows); first by rewrite (nth_map [::]) // nth_Zdyadic.
by rewrite [nth [::] (Zarray _) _]nth_default ?size_map // [nth [::] rows i]nth_default // !nth_nil.
Qed.

Lemma nth_Zcolumns n (rows : integer_rows) j i : (j < n)%N ->
  nth Z0 (nth [::] (Zcolumns n rows) j) i = nth Z0 (nth [::] rows i) j.
Proof.
move=> jn; rewrite nth_mkseq //; have [h|h] := ltnP i (size rows); first by rewrite (nth_map [::]).
by rewrite nth_default ?size_map // [nth [::] rows i]nth_default // nth_nil.
Qed.

Lemma size_Zcolumns n (rows : integer_rows) j : (j < n)%N ->
  size (nth [::] (Zcolumns n rows) j) = size rows.
Proof. by move=> jn; rewrite nth_mkseq // size_map. Qed.

Lemma size_Zarray rows : size (Zarray rows) = size rows. Proof. exact: size_map. Qed.

Lemma logits_int n d dh (wq wk context : array) query (i : 'I_n) :
  size wk = d -> size query = d -> size context = n ->
  int_of_Z (nth Z0 (logits (Zcolumns dh (Zarray wq)) (Zarray wk) (Zarray context)
    (map Zdyadic query)) i) =
  int_logits (int_matrix n d context) (int_matrix d dh wk) (int_matrix d dh wq)
    (\row_j int_of_dyadic (nth zero_dyadic query j)) i 0.
Proof.
move=> sk se sc; rewrite /logits; set v := map _ (Zcolumns _ _); set u := map _ (Zarray wk).
have sv : size v = dh by rewrite size_map size_mkseq.
have su : size u = d by rewrite size_map size_Zarray.
rewrite (nth_map [::]) ?size_Zarray ?sc // (int_dot _ su) /int_logits -!mulmxA mxE.
apply: eq_bigr => j _; rewrite [in RHS]mulrC nth_Zarray ZdyadicE [X in _ = _ * X]mxE; congr (_ * _).
rewrite (nth_map [::]) ?size_Zarray ?sk // (int_dot _ sv) [RHS]mxE.
apply: eq_bigr => k _; rewrite [in RHS]mulrC nth_Zarray ZdyadicE [X in _ = _ * X]mxE; congr (_ * _).
rewrite (nth_map [::]) ?size_mkseq // (@int_dot _ _ d) ?size_map // [RHS]mxE.
apply: eq_bigr => l _; rewrite nth_Zdyadic nth_Zcolumns // nth_Zarray !ZdyadicE.
by rewrite !mxE mulrC.
Qed.

Lemma effective_int d dv dout (values outputs readout : array) (j : 'I_d) (l : 'I_dout) :
  size values = d -> size outputs = dv -> size readout = dv ->
  int_of_Z (nth Z0 (effective_column (Zarray values) (Zarray outputs)
    (nth [::] (Zcolumns dout (Zarray readout)) l)) j) =
  (int_matrix d dv values *m int_matrix dv dv outputs *m int_matrix dv dout readout) j l.
Proof.
move=> sv so sr; rewrite /effective_column (nth_map [::]) ?size_Zarray ?sv //.
rewrite (@int_dot _ _ dv) ?size_map ?size_Zarray // -mulmxA [RHS]mxE; apply: eq_bigr => k _.
rewrite [in RHS]mulrC nth_Zarray ZdyadicE [X in _ = _ * X]mxE; congr (_ * _).
rewrite (nth_map [::]) ?size_Zarray ?so // (@int_dot _ _ dv); last first.
  by rewrite size_Zcolumns ?size_Zarray.
rewrite [RHS]mxE; apply: eq_bigr => c _.
by rewrite nth_Zcolumns // !nth_Zarray !ZdyadicE !mxE mulrC.
Qed.

Lemma eq_mkseq_ord (A : Type) (f g : nat -> A) n :
  (forall i : 'I_n, f i = g i) -> mkseq f n = mkseq g n.
Proof.
move=> fg; apply: (@eq_from_nth _ (f 0%N)); rewrite ?size_mkseq // => i ni.
by rewrite !nth_mkseq //; exact: (fg (Ordinal ni)).
Qed.

Section Sound.

Variable R : realType.
Notation toR := (@toR R).

(* The blocks of W_O, one for each head, one above the other *)
Definition stacked H dv (blocks : 'I_H -> 'M[R]_dv) : 'M[R]_(H * dv, dv) :=
  \matrix_(i, c) mxvec (\matrix_(h, k) blocks h k c) 0 i.

Lemma shiftl_exact x k : Z.le Z0 k -> toR (Z.shiftl x k) = toR x * 2%:R ^ int_of_Z k.
Proof.
move=> k0; have [n ->] : exists n, k = Z.of_nat n by exists (Z.to_nat k); lia.
by rewrite Z.shiftl_mul_pow2 ?toRM ?toRX ?int_of_Znat //; lia.
Qed.

Lemma shifted_to x (e g : int) : Z.le Z0 (Z_of_int (e - g)) ->
  2%:R ^ g * toR (Z.shiftl (Zdyadic x) (Z_of_int (e - g))) =
  (int_of_dyadic x)%:~R * 2%:R ^ e :> R.
Proof.
move=> /shiftl_exact ->; rewrite Z_of_intK /exp_series.toR ZdyadicE mulrCA; congr (_ * _).
by rewrite -expfzDr ?pnatr_eq0 // addrC subrK.
Qed.

(* The program on stored arrays, whose powers of two are eE (contexts), eq (queries), eQ, eK, eV, *)
(* eO, eD (weights), eY (targets) and ee (epsilon). Averages have 31 bits a place more.           *)
Definition check_stored_error p r N places (eE eq eQ eK eV eO eD eY ee : int) :=
  let unit := eE - (31 * places)%N%:Z + (eV + eO + eD) in
  check_error p r N places (Z_of_int (eE + eK + eQ + eq)) (Z_of_int (eY - unit))
    (Z_of_int (ee - unit)).

Theorem check_error_sound p r N places n d dh dv dout T H contexts queries query_weights key_weights
    value_weights output_weights readout_weights targets epsilon
    (eE eq eQ eK eV eO eD eY ee : int) :
  check_stored_error p r N places eE eq eQ eK eV eO eD eY ee n d dh dv dout T H contexts queries
    query_weights key_weights value_weights output_weights readout_weights targets epsilon ->
  let L := @Layer R d H dh dv dout
    (fun h => stored_matrix R eQ d dh (nth [::] query_weights h))
    (fun h => stored_matrix R eK d dh (nth [::] key_weights h))
    (fun h => stored_matrix R eV d dv (nth [::] value_weights h))
    (stacked (fun h => stored_matrix R eO dv dv (nth [::] output_weights h)))
    (stored_matrix R eD dv dout readout_weights) in
  let E (t : 'I_T) := stored_matrix R eE n d (nth [::] contexts t) in
  let Q := stored_matrix R eq T d queries in
  let Y := stored_matrix R eY T dout targets in
  forall t l, `|output L (E t) (row t Q) 0 l - Y t l| <= (int_of_dyadic epsilon)%:~R * 2%:R ^ ee.
Proof.
rewrite /check_stored_error /check_error; set eU := eE - _; set g := eU + _.
set s := Z_of_int (_ + eq); set wqs := mkseq _ H; set wks := mkseq _ H.
set readout := columns_of _ _; set vs := mkseq _ H; set os := mkseq _ H.
set effective := mkseq _ dout.
case/and5P => pr /Z.leb_le tY /Z.leb_le te /eqP sr /andP[/allP sizes /allP oks] t l.
set L := (X in output X _ _); set Q := stored_matrix R eq _ _ _.
have [sk sv so] : [/\ forall h : 'I_H, size (nth [::] key_weights h) = d,
    forall h : 'I_H, size (nth [::] value_weights h) = d
    & forall h : 'I_H, size (nth [::] output_weights h) = dv].
  by split=> h; have /sizes/and3P[/eqP a /eqP b /eqP c] : val h \in iota 0 H by
    rewrite mem_iota /=.
have /oks : val t \in iota 0 T by rewrite mem_iota /=.
rewrite /check_example; set context := machine_array _; set query := machine_row _.
set columns := columns_of d _; set most := most_of _; set digits := _.+1.
set ws := mkseq _ H; set rows := mkseq _ H; case/and4P => /eqP sc /eqP sq /allP fits /allP near.
have sc' : size (nth [::] contexts t) = n by rewrite -sc size_map.
have sq' : size (nth [::] queries t) = d by rewrite -sq size_map.
have l_in : val l \in iota 0 dout by rewrite mem_iota /=.
have {}near := near _ l_in.
have pow0 (e : int) : 0 <= 2%:R ^ e :> R by rewrite exprz_ge0 ?ler0n.
have YE : stored_matrix R eY T dout targets t l =
    (int_of_dyadic (nth zero_dyadic (nth [::] targets t) l))%:~R * 2%:R ^ eY.
  by rewrite mxE.
rewrite YE -(shifted_to _ tY) -(shifted_to _ te) /g !(expfzDr eU) ?pnatr_eq0 //.
have [pc ec] := machine_array_exact (nth [::] contexts t).
have [pe ee'] := machine_row_exact (nth [::] queries t).
have [pcs ecs] := columns_exact d pc; rewrite ec in ecs.
have [pm mostP] := most_exact pc; rewrite ec in mostP.
(* Logits and weights of head h, as integers *)
pose ls (h : 'I_H) := logits (Zcolumns dh (Zarray (nth [::] query_weights h)))
  (Zarray (nth [::] key_weights h)) (Zarray (nth [::] contexts t))
  (map Zdyadic (nth [::] queries t)).
have [pw ew] : (forall h : 'I_H, all (fun w => proper w.1 && proper w.2) (nth [::] ws h)) /\
    forall h : 'I_H, weight_values (nth [::] ws h) = weights (31 * p) r N s (ls h).
  suff both (h : 'I_H) : all (fun w => proper w.1 && proper w.2) (nth [::] ws h) /\
      weight_values (nth [::] ws h) = weights (31 * p) r N s (ls h) by split=> h; have [] := both h.
  rewrite nth_mkseq // /wqs /wks !nth_mkseq //.
  have [pq eq'] := machine_array_exact (nth [::] query_weights h).
  have [pk ek] := machine_array_exact (nth [::] key_weights h).
  have [pqc eqc] := columns_exact dh pq; have [pl el] := logits_exact pqc pk pc pe.
  by have [pw ew] := weights_exact p r N s pl; split; rewrite // ew el eqc eq' ek ec ee'.
have fit (h : 'I_H) : Z.lt Z0 (total (weight_values (nth [::] ws h))).
  have /fits : val h \in iota 0 H by rewrite mem_iota /=.
  have [pt et _ _] := total_exact (pw h); rewrite (at_mostE pt (isT : proper [::])) et.
  by case: Z.leb_spec.
have rE (h : 'I_H) : nth [::] rows h = machine_head places digits (nth [::] ws h)
    (most_of (machine_array (nth [::] contexts t)))
    (columns_of d (machine_array (nth [::] contexts t))).
  by rewrite nth_mkseq.
(* Effective readouts *)
have [pg eg] : (forall h : 'I_H, all both_proper (nth [::] (nth [::] effective l) h)) /\
    forall h : 'I_H, map integer_value (nth [::] (nth [::] effective l) h) =
      effective_column (Zarray (nth [::] value_weights h)) (Zarray (nth [::] output_weights h))
        (nth [::] (Zcolumns dout (Zarray readout_weights)) l).
  suff both (h : 'I_H) : all both_proper (nth [::] (nth [::] effective l) h) /\
      map integer_value (nth [::] (nth [::] effective l) h) =
      effective_column (Zarray (nth [::] value_weights h)) (Zarray (nth [::] output_weights h))
        (nth [::] (Zcolumns dout (Zarray readout_weights)) l) by split=> h; have [] := both h.
  rewrite !nth_mkseq //.
  have [pv ev] := machine_array_exact (nth [::] value_weights h).
  have [po eo] := machine_array_exact (nth [::] output_weights h).
  have [pr' er] := machine_array_exact readout_weights.
  have [prc _] := columns_exact dout pr'.
  have prl : all both_proper (nth [::] readout l) by exact: nth_rows_proper.
  rewrite [nth [::] readout l]nth_mkseq // in prl.
  have [pe' eeff] := effective_exact pv po prl; split=> //.
  rewrite eeff ev eo -er -!map_comp; congr (effective_column _ _ _).
  by apply: eq_map => row /=; exact: nth_value.
pose Zrows := mkseq (fun h => bound_values (nth [::] rows h)) H.
pose Zeffective := mkseq (fun h => map integer_value (nth [::] (nth [::] effective l) h)) H.
have sigmaE : 2%:R ^ eE = 2%:R ^ eU * toR (Z.pow 2 (Z.of_nat (31 * places))) :> R.
  by rewrite toRX -[2%:R ^+ _]/(2%:R ^ (31 * places)%N%:Z) -expfzDr ?pnatr_eq0 // subrK.
have columnsE (h : 'I_H) := head_exact places digits (pw h) pm pcs (fit h).
apply: (output_sound (rows := Zrows) (columns := Zeffective)) => //.
- move=> h; rewrite [nth _ Zrows h]nth_mkseq // [nth _ Zeffective h]nth_mkseq // eg rE.
  have [rs _ _] := columnsE h; split; last by rewrite size_map size_Zarray.
  by rewrite /bound_values size_map rs size_mkseq.
- move=> h j; lazy zeta; rewrite [nth _ Zrows h]nth_mkseq // rE.
  have [_ _ cE] := columnsE h; have := cE j; rewrite size_mkseq => /(_ (ltn_ord j)); lazy zeta.
  move: (nth (Z0, Z0) _ j) => b ->; rewrite ew ecs.
  apply: (head_sound (n := n)) => //.
  + by rewrite -ew; exact: fit.
  + by rewrite size_map size_Zarray.
  + by rewrite size_Zcolumns ?size_Zarray.
  + by apply: Z.pow_nonneg.
  + exact: value_ge0.
  + by move=> i; rewrite nth_Zcolumns.
  + move=> i; rewrite /exp_series.toR (logits_int (n := n) (d := d)) //.
    rewrite /attention_matrix /= !stored_matrixE.
    have -> : row t Q = 2 ^ eq *: map_mx intr (\row_j int_of_dyadic (nth zero_dyadic (nth [::]
        queries t) j) : 'rV[int]_d).
      by apply/rowP => k; rewrite !mxE mulrC.
    rewrite real_logits mxE mulrC; congr (_ * _); first by rewrite mxE.
    by rewrite Z_of_intK !expfzDr ?pnatr_eq0.
  move=> i; rewrite nth_Zcolumns // nth_Zarray {2}/exp_series.toR ZdyadicE mulrA -sigmaE.
  by rewrite mxE mulrC.
- move=> h j; rewrite [nth _ Zeffective h]nth_mkseq // eg /exp_series.toR.
  rewrite (effective_int (dv := dv)) //.
  rewrite /effective_readout /= !stored_matrixE.
  have -> : output_block L h = 2 ^ eO *: map_mx intr (int_matrix dv dv (nth [::] output_weights h)).
    by apply/matrixP => k c; rewrite mxE /= mxE mxvecE mxE stored_matrixE.
  rewrite -!scalemxAl -!scalemxAr -!scalemxAl !scalerA -!map_mxM mxE [map_mx _ _ _ _]mxE.
  by rewrite !expfzDr ?pnatr_eq0 // [2 ^ eD * _]mulrC mulrA.
move: near; congr (within (layer_output _) _ _); apply: eq_mkseq_ord => h.
rewrite [nth _ Zrows h]nth_mkseq // [nth _ Zeffective h]nth_mkseq // output_exact ?pg // rE.
by have [] := columnsE h.
Qed.

End Sound.
