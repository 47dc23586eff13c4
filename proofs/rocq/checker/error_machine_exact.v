(* proofs/11-verified-readout.md, for the claim *error*: error_machine.v computes the integers of *)
(* error_program.v and exp_program.v.                                                             *)
From Coq Require Import ZArith Uint63 Lia.
From mathcomp Require Import all_ssreflect.
From Memorization Require Import attention_program upper_bound_program exp_program error_program.
From Memorization Require Import machine_integers machine_integers_exact error_machine.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope Z_scope.
Local Arguments Z.add : simpl never.
Local Arguments Z.mul : simpl never.
Local Arguments Z.sub : simpl never.

Notation "[ 'values' xs ]" := (map integer_value xs) (at level 0, format "[ 'values'  xs ]").
Notation all_proper := (all both_proper).
Notation rows_proper := (all (all both_proper)).
Notation row_values := (map (map integer_value)).

Lemma proper_positive u : proper u -> both_proper (positive_integer u).
Proof. by rewrite /both_proper /= andbT. Qed.

Lemma positive_value u : integer_value (positive_integer u) = value u.
Proof. by rewrite /integer_value /= Z.sub_0_r. Qed.

(* Products *)
Lemma dot_from_exact s xs ys : both_proper s -> all_proper xs -> all_proper ys ->
  both_proper (dot_from s xs ys) /\
  integer_value (dot_from s xs ys) = integer_value s + Zdot [values xs] [values ys].
Proof.
elim: xs ys s => [|x xs IHxs] [|y ys] s ps; rewrite ?Z.add_0_r;
  try by move=> *; exact: normal_value.
move=> /andP[px pxs] /andP[py pys]; have [p e] := multiply_add_integer_exact px py ps.
have [p' e'] := IHxs _ _ p pxs pys; split=> //=; rewrite e' e /Zdot /=; lia.
Qed.

Lemma dot_exact xs ys : all_proper xs -> all_proper ys ->
  both_proper (dot_product xs ys) /\
  integer_value (dot_product xs ys) = Zdot [values xs] [values ys].
Proof. by move=> px py; have [p e] := dot_from_exact (erefl : both_proper no_integer) px py. Qed.

Lemma dots_exact xs rows : all_proper xs -> rows_proper rows ->
  all_proper (map (dot_product xs) rows) /\
  [values map (dot_product xs) rows] = map (Zdot [values xs]) (row_values rows).
Proof.
move=> px; elim: rows => //= y rows IHrows /andP[py /IHrows[p e]].
by have [p' e'] := dot_exact px py; rewrite p p' e e'.
Qed.

(* Arrays *)
Lemma machine_row_exact row :
  all_proper (machine_row row) /\ [values machine_row row] = map Zdyadic row.
Proof.
elim: row => //= x row [p e]; have [p' e'] := integer_of_Z_exact (Zdyadic x).
by rewrite p p' e e'.
Qed.

Lemma machine_array_exact rows :
  rows_proper (machine_array rows) /\ row_values (machine_array rows) = Zarray rows.
Proof.
by elim: rows => //= row rows [p e]; have [p' e'] := machine_row_exact row; rewrite p p' e e'.
Qed.

Lemma nth_proper xs j : all_proper xs -> both_proper (nth no_integer xs j).
Proof.
move=> /(all_nthP no_integer) pxs; have [h|h] := ltnP j (size xs); first exact: pxs.
by rewrite nth_default.
Qed.

Lemma nth_rows_proper rows j : rows_proper rows -> all_proper (nth [::] rows j).
Proof.
move=> /(all_nthP [::]) prows; have [h|h] := ltnP j (size rows); first exact: prows.
by rewrite nth_default.
Qed.

Lemma nth_value xs j : integer_value (nth no_integer xs j) = nth Z0 [values xs] j.
Proof.
have [h|h] := ltnP j (size xs); first by rewrite (nth_map no_integer).
by rewrite !nth_default ?size_map.
Qed.

Lemma columns_exact n rows : rows_proper rows ->
  rows_proper (columns_of n rows) /\ row_values (columns_of n rows) = Zcolumns n (row_values rows).
Proof.
move=> prows; split.
  rewrite /columns_of /mkseq all_map; apply/allP => j _ /=; rewrite all_map.
  by apply: sub_all prows => row /=; exact: nth_proper.
rewrite /columns_of /Zcolumns /mkseq -map_comp; apply: eq_map => j /=; rewrite -!map_comp.
by apply: eq_map => row /=; rewrite nth_value.
Qed.

Lemma logits_exact query_columns key_rows context query : rows_proper query_columns ->
  rows_proper key_rows -> rows_proper context -> all_proper query ->
  let ls := machine_logits query_columns key_rows context query in
  all_proper ls /\
  [values ls] = logits (row_values query_columns) (row_values key_rows) (row_values context)
    [values query].
Proof.
move=> pq pk pc pe; have [p1 e1] := dots_exact pe pq; have [p2 e2] := dots_exact p1 pk.
by have [p3 e3] := dots_exact p2 pc; split; rewrite // /machine_logits e3 e2 e1.
Qed.

Lemma effective_exact values outputs column : rows_proper values -> rows_proper outputs ->
  all_proper column ->
  let g := machine_effective values outputs column in
  all_proper g /\
  [values g] = effective_column (row_values values) (row_values outputs) [values column].
Proof.
move=> pv po pc; have [p1 e1] := dots_exact pc po; have [p2 e2] := dots_exact p1 pv.
by split; rewrite // /machine_effective e2 e1.
Qed.

(* The largest logit *)
Lemma larger_exact x y : both_proper x -> both_proper y ->
  both_proper (larger x y) /\
  integer_value (larger x y) = Z.max (integer_value x) (integer_value y).
Proof.
move=> px py; have /andP[x1 x2] := px; have /andP[y1 y2] := py.
have [p1 e1] := add_exact x1 y2; have [p2 e2] := add_exact y1 x2.
rewrite /larger (at_mostE p1 p2) e1 e2; rewrite /integer_value.
by case: Z.leb_spec => h; split=> //; lia.
Qed.

Lemma largest_exact ls : all_proper ls ->
  both_proper (machine_largest ls) /\ integer_value (machine_largest ls) = largest [values ls].
Proof.
move=> pls; rewrite /machine_largest /largest.
have -> : seq.head Z0 [values ls] = integer_value (seq.head no_integer ls) by case: (ls).
have : both_proper (seq.head no_integer ls) by case: (ls) pls => //= x s /andP[].
move: (seq.head _ _) => x0 p0; elim: ls pls => //= x ls IHls /andP[px /IHls[p e]].
by have [p' e'] := larger_exact px p; rewrite e' e.
Qed.

Lemma sum_exact us : all proper us -> proper (sum us) /\ value (sum us) = Zsum (map value us).
Proof.
by elim: us => //= u us IHus /andP[pu /IHus[p e]]; have [p' e'] := add_exact pu p; rewrite e' e.
Qed.

(* Weights *)
Section Weights.

Variables (p r N : nat) (s : Z).
Notation P := (bits p).

Lemma base_pow k : base ^ Z.of_nat k = 2 ^ Z.of_nat (31 * k).
Proof. by rewrite -[base]/(2 ^ 31) -Z.pow_mul_r ?Nat2Z.inj_mul //; lia. Qed.

Lemma lowered_shift k u : proper u ->
  proper (lowered k u) /\ value (lowered k u) = Z.shiftr (value u) (Z.of_nat (31 * k)).
Proof.
by move=> /(lowered_exact k)[pu ->]; rewrite Z.shiftr_div_pow2 ?base_pow //; lia.
Qed.

Lemma one_exact : proper (raised p [:: 1%uint63]) /\
  value (raised p [:: 1%uint63]) = 2 ^ Z.of_nat P.
Proof.
by have [po eo] := @raised_exact p [:: 1%uint63] (erefl _); split; rewrite // eo base_pow Z.mul_1_l.
Qed.

Lemma coefficients_exact n k c : 0 <= k -> 0 <= c ->
  all proper (map of_Z (coefficients_from n k c)) /\
  map value (map of_Z (coefficients_from n k c)) = coefficients_from n k c.
Proof.
elim: n k c => [|n IHn] k c k0 c0 /=; have [po eo] := of_Z_exact c; rewrite po eo Z.max_r //.
have k1 : 0 <= k + 1 by lia.
have c1 : 0 <= c / (k + 1) by apply: Z.div_pos; lia.
by have [pc ec] := IHn _ _ k1 c1; rewrite pc ec.
Qed.

Lemma product_exact u v : proper u -> proper v ->
  proper (lowered p (multiply u v)) /\
  value (lowered p (multiply u v)) = Z.shiftr (value u * value v) (Z.of_nat P).
Proof.
by move=> pu pv; have [pm em] := multiply_exact pu pv; have [pl el] := lowered_shift p pm;
  rewrite el em.
Qed.

Lemma series_exact y cs : proper y -> all proper cs ->
  proper (machine_series p y cs) /\
  value (machine_series p y cs) = series P (value y) (map value cs).
Proof.
move=> py; elim: cs => //= c cs IHcs /andP[pc /IHcs[ps es]].
have [pp ep] := product_exact py ps; have [pm em] := monus_exact pc pp.
by rewrite em ep es.
Qed.

Lemma square_down_exact n x : proper x ->
  proper (machine_square_down p n x) /\
  value (machine_square_down p n x) = square_down P n (value x).
Proof.
elim: n x => //= n IHn x px; have [pp ep] := product_exact px px.
by have [pn en] := IHn _ pp; rewrite en ep.
Qed.

Lemma square_up_exact n x : proper x ->
  proper (machine_square_up p n x) /\ value (machine_square_up p n x) = square_up P n (value x).
Proof.
elim: n x => //= n IHn x px; have [pp ep] := product_exact px px.
have [pa ea] := add_digit_exact (erefl : to_Z 1%uint63 < base) pp.
by have [pn en] := IHn _ pa; rewrite en ea ep.
Qed.

Lemma shifted_exact e u : proper u ->
  proper (lowered (places e) (multiply u (factor e))) /\
  value (lowered (places e) (multiply u (factor e))) = Z.shiftl (value u) e.
Proof.
move=> pu; set k := places e.
have ek : 0 <= e + 31 * Z.of_nat k.
  rewrite /k /places; have := Z.mod_pos_bound (30 - e) 31 (erefl _).
  have := Z_div_mod_eq_full (30 - e) 31.
  by move: (_ / _) (_ mod _) => q m; lia.
have [pf ef] := of_Z_exact (Z.shiftl 1 (e + 31 * Z.of_nat k)).
have [pm em] := multiply_exact pu pf; have [pl el] := lowered_shift k pm.
split; rewrite // el em ef Z.max_r; last by apply/Z.shiftl_nonneg.
rewrite Z.shiftl_1_l -Z.shiftl_mul_pow2 // Z.shiftr_shiftl_l //; congr (Z.shiftl _ _).
by rewrite Nat2Z.inj_mul; lia.
Qed.

Lemma enclose_exact D : proper D ->
  let e := s + Z.of_nat P - Z.of_nat r in
  let ws := machine_enclose p r (map of_Z (coefficients P N)) (raised p [:: 1%uint63])
    (of_Z (tiny P r)) (factor e) (places e) D in
  [/\ proper ws.1, proper ws.2 &
      (value ws.1, value ws.2) = enclose P r (coefficients P N) s (value D)].
Proof.
move=> pD; rewrite /machine_enclose /enclose.
have [py ey] := shifted_exact (s + Z.of_nat P - Z.of_nat r) pD.
move: (lowered _ _) py ey => y py <-.
have [po eo] := one_exact.
have [p16 e16] := @multiply_add_digit_exact 16%uint63 zero y [::]
  (erefl : to_Z 16%uint63 < base) (erefl : 0 < base) py (erefl : proper [::]).
rewrite (at_mostE po p16) eo e16 [value [::]]/= zeroE !Z.add_0_r sixteenE; case: Z.leb_spec => _.
  have [pt et] := of_Z_exact (tiny P r); split=> //=; rewrite et Z.max_r // /tiny.
  by have : 0 <= Z.shiftl 1 (Z.of_nat P - 2 ^ (Z.of_nat r - 4)) by [apply/Z.shiftl_nonneg]; lia.
have [pc ec] := coefficients_exact N (Z.le_refl 0) (Z.pow_nonneg 2 (Z.of_nat P) Z.le_0_2).
have [pm em] := series_exact py pc; rewrite ec in em.
have [pa ea] := add_digit_exact (erefl : to_Z 5%uint63 < base) pm.
have [pb eb] := @monus_exact _ [:: 6%uint63] pm (erefl _).
have [pd ed] := square_down_exact r pb; have [pu eu] := square_up_exact r pa.
by split=> //=; rewrite ed eu eb ea em.
Qed.

Definition weight_values : seq (natural * natural) -> seq (Z * Z) :=
  map (fun w => (value w.1, value w.2)).

Lemma foldr_max_ge (zs : seq Z) x0 : all (fun z => Z.leb z (foldr Z.max x0 zs)) zs.
Proof.
elim: zs => //= z zs IHzs; apply/andP; split; first by apply/Z.leb_le; lia.
by apply: sub_all IHzs => y /Z.leb_le h; apply/Z.leb_le; lia.
Qed.

Lemma weights_exact ls : all_proper ls ->
  let ws := machine_weights p r N s ls in
  [/\ all (fun w => proper w.1 && proper w.2) ws &
      weight_values ws = weights P r N s [values ls]].
Proof.
move=> pls; have [pt et] := largest_exact pls; rewrite /machine_weights /weights -et.
have := foldr_max_ge [values ls] (seq.head Z0 [values ls]); rewrite -/(largest _) -et.
move: (machine_largest ls) pt {et} => top pt; elim: ls pls => //= x ls IHls.
move=> /andP[px pls] /andP[/Z.leb_le xt below]; have [ps es] := IHls pls below.
have [/andP[p1 _] vE _] := difference_exact pt px; rewrite Z.max_r in vE; last by lia.
have [q1 q2 e] := enclose_exact p1; rewrite vE in e.
by split; rewrite ?q1 ?q2 ?ps //= es e.
Qed.

End Weights.

(* Heads *)
Notation weight_proper := (fun w : natural * natural => proper w.1 && proper w.2).
Notation bounds_proper := (fun b : integer * natural => both_proper b.1 && proper b.2).

Lemma total_exact ws : all weight_proper ws ->
  [/\ proper (machine_total ws), value (machine_total ws) = total (weight_values ws),
      proper (sum (map snd ws)) & value (sum (map snd ws)) = Zsum (map snd (weight_values ws))].
Proof.
move=> pws; have p1 : all proper (map fst ws) by rewrite all_map; apply: sub_all pws => w /andP[].
have p2 : all proper (map snd ws) by rewrite all_map; apply: sub_all pws => w /andP[].
have [q1 e1] := sum_exact p1; have [q2 e2] := sum_exact p2.
by split; rewrite // ?e1 ?e2 /total /weight_values -!map_comp.
Qed.

Definition bound_values : seq (integer * natural) -> seq (Z * Z) :=
  map (fun b => (integer_value b.1, value b.2)).

Lemma raised_unit k u : proper u ->
  proper (raised k u) /\ value (raised k u) = 2 ^ Z.of_nat (31 * k) * value u.
Proof. by move=> /(raised_exact k)[p e]; rewrite e base_pow Z.mul_comm. Qed.

Lemma head_exact places digits ws most columns : all weight_proper ws -> proper most ->
  rows_proper columns -> 0 < total (weight_values ws) ->
  let row := machine_head places digits ws most columns in
  [/\ size row = size columns, all bounds_proper row &
    forall j, (j < size columns)%N -> let b := nth (Z0, Z0) (bound_values row) j in
      b.2 = radius (31 * digits) (2 ^ Z.of_nat (31 * places)) (value most) (weight_values ws)
        (nth [::] (row_values columns) j) b.1].
Proof.
move=> pws pm pcs total0; have [pt et ph eh] := total_exact pws.
have pl : all_proper (map (fun w => positive_integer w.1) ws).
  by rewrite all_map; apply: sub_all pws => w /andP[/= p _]; exact: proper_positive.
have el : [values map (fun w => positive_integer w.1) ws] = map fst (weight_values ws).
  by rewrite /weight_values -!map_comp; apply: eq_map => w /=; rewrite positive_value.
have [psl esl] := monus_exact ph pt; rewrite eh et in esl.
rewrite /machine_head; have [] := of_Z_exact (reciprocal (31 * digits) (value (machine_total ws))).
move: (of_Z _) => rho pr er; rewrite et Z.max_r in er; last first.
  by apply: Z.div_pos => //; apply: Z.pow_nonneg.
have [pa ea] := add_digit_exact (erefl : to_Z 1%uint63 < base) pr; rewrite er in ea.
set f := fun column => (_, _).
have one c : all_proper c -> bounds_proper (f c) /\ value (f c).2 = radius (31 * digits)
    (2 ^ Z.of_nat (31 * places)) (value most) (weight_values ws) [values c] (integer_value (f c).1).
  move=> pc; rewrite /f /=; have [/andP[d1 d2] ed] := dot_exact pl pc; rewrite el in ed.
  move: (dot_product _ _) d1 d2 ed => dot d1 d2 ed.
  have [r1 f1] := raised_unit places d1; have [r2 f2] := raised_unit places d2.
  have [m1 _] := multiply_exact r1 pr; have [m2 _] := multiply_exact r2 pr.
  have [l1 _] := lowered_exact digits m1; have [l2 _] := lowered_exact digits m2.
  set center := (lowered _ _, lowered _ _).
  have pcen : both_proper center by apply/andP.
  have ptot : both_proper ([::], machine_total ws) by [].
  have psum : both_proper (raised places dot.1, raised places dot.2) by apply/andP.
  have [po eo] := multiply_add_integer_exact pcen ptot psum.
  have [pso eso] := size_of_exact po; have [psc esc] := size_of_exact pcen.
  have [prm erm] := raised_unit places pm; have [pas eas] := add_exact prm psc.
  have [pmm emm] := multiply_exact psl pas; have [poff eoff] := add_exact pso pmm.
  have [pq eq] := multiply_exact poff pa; have [plq elq] := lowered_shift digits pq.
  have [pf ef] := add_digit_exact (erefl : to_Z 1%uint63 < base) plq.
  split; first by rewrite pcen.
  rewrite ef elq eq eoff emm eas erm esc eso eo esl ea /radius; congr (Z.shiftr (_ * _) _ + _).
  have -> : integer_value ([::], machine_total ws) = - total (weight_values ws) by rewrite -et.
  have -> : integer_value (raised places dot.1, raised places dot.2) =
      2 ^ Z.of_nat (31 * places) * integer_value dot.
    by rewrite [LHS]/integer_value f1 f2 -Z.mul_sub_distr_l.
  by rewrite ed.
split; [exact: size_map | by rewrite all_map; apply: sub_all pcs => c /one[] |].
move=> j jc; rewrite (nth_map (no_integer, [::])) ?size_map // (nth_map [::]) // (nth_map [::]) //.
by have [_] := one _ (nth_rows_proper j pcs).
Qed.

Lemma most_exact rows : rows_proper rows -> proper (most_of rows) /\
  forall i j, Z.abs (nth Z0 (nth [::] (row_values rows) i) j) <= value (most_of rows).
Proof.
have row_most row m : all_proper row -> proper m ->
    let m' := foldr (fun x m => let y := size_of x in if at_most m y then y else m) m row in
    [/\ proper m', value m <= value m' & forall j, Z.abs (nth Z0 [values row] j) <= value m'].
  move=> + pm; elim: row => [_|x row IHrow /andP[px /IHrow[p le h]]] /=.
    by split=> // [|j]; [exact: Z.le_refl | rewrite nth_nil; exact: value_ge0].
  have [ps es] := size_of_exact px; rewrite (at_mostE p ps); case: Z.leb_spec => c; split=> //.
  - by lia.
  - by case=> [|j] /=; [lia | have := h j; lia].
  - by case=> [|j] /=; [lia | exact: h].
elim: rows => [_|row rows IHrows /andP[prow /IHrows[p h]]] /=.
  by split=> // i j; rewrite !nth_nil; exact: (value_ge0 [::]).
have [p' le h'] := row_most row _ prow p; split=> // -[|i] j //=.
exact: Z.le_trans (h i j) le.
Qed.

Lemma output_exact row column : all bounds_proper row -> all_proper column ->
  machine_output row column = head_output (bound_values row) [values column].
Proof.
move=> prow pc; rewrite /machine_output /head_output.
have p1 : all_proper (map fst row) by rewrite all_map; apply: sub_all prow => b /andP[].
have p2 : all_proper (map (fun b => positive_integer b.2) row).
  by rewrite all_map; apply: sub_all prow => b /andP[_ p]; exact: proper_positive.
have p3 : all_proper (map (fun x => positive_integer (size_of x)) column).
  by rewrite all_map; apply: sub_all pc => x /size_of_exact[p _]; exact: proper_positive.
have [_ ->] := dot_exact p1 pc; have [_ ->] := dot_exact p2 p3.
rewrite /bound_values -!map_comp; congr (_, Zdot _ _).
  by apply: eq_map => b; rewrite /= positive_value.
elim: column pc {p3} => //= x column IHcolumn /andP[px /IHcolumn ->].
by have [_ <-] := size_of_exact px; rewrite positive_value.
Qed.
