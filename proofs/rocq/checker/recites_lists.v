(* proofs/21-compact-decoders.md, for the claim *recites*: what the operations on lists of        *)
(* recites_program.v are, as rows and matrices of integers.                                       *)
From Coq Require Import ZArith.
From mathcomp Require Import all_ssreflect all_algebra zify ring ssrZ.
From Memorization Require Import recites_program.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition int_row n (u : seq Z) : 'rV[int]_n := \row_j int_of_Z (nth Z0 u j).
Definition int_rows m n (rows : integers) : 'M[int]_(m, n) :=
  \matrix_(i, j) int_of_Z (nth Z0 (nth [::] rows i) j).
Definition sign_row n (signs : bitseq) : 'rV[int]_n := \row_j (if nth false signs j then 1 else -1).

Lemma int_of_ZD x y : int_of_Z (Z.add x y) = int_of_Z x + int_of_Z y. Proof. lia. Qed.
Lemma int_of_ZB x y : int_of_Z (Z.sub x y) = int_of_Z x - int_of_Z y. Proof. lia. Qed.
Lemma int_of_ZM x y : int_of_Z (Z.mul x y) = int_of_Z x * int_of_Z y. Proof. lia. Qed.

Lemma int_of_Znat n : int_of_Z (Z.of_nat n) = n%:Z. Proof. lia. Qed.
Lemma int_of_power n : int_of_Z (power n) = 2 ^+ n.
Proof.
rewrite /power; elim: n => // n IHn; rewrite Nat2Z.inj_succ Z.pow_succ_r ?int_of_ZM ?IHn ?exprS //.
exact: Nat2Z.is_nonneg.
Qed.
Lemma le_int_of_Z x y : Z.le x y -> int_of_Z x <= int_of_Z y. Proof. lia. Qed.
Lemma size_at_most x most : Z.leb (Z.abs x) most -> `|int_of_Z x| <= int_of_Z most. Proof. lia. Qed.

Lemma shapedP m n rows : shaped m n rows ->
  size rows = m /\ forall i, (i < m)%N -> size (nth [::] rows i) = n.
Proof. by case/andP => /eqP <- /all_nthP h; split=> // i im; apply/eqP/h. Qed.

Lemma all_shapedP H m n matrices h : all_shaped H m n matrices -> (h < H)%N ->
  shaped m n (nth [::] matrices h).
Proof. by case/andP => /eqP <- /all_nthP; apply. Qed.

Lemma size_added u v : size (added u v) = minn (size u) (size v).
Proof. by elim: u v => [|x u IHu] [|y v] //=; rewrite IHu minnSS. Qed.

Lemma size_subtracted u v : size (subtracted u v) = minn (size u) (size v).
Proof. by elim: u v => [|x u IHu] [|y v] //=; rewrite IHu minnSS. Qed.

Lemma nth_added u v j : (j < size u)%N -> (j < size v)%N ->
  nth Z0 (added u v) j = Z.add (nth Z0 u j) (nth Z0 v j).
Proof. by elim: u v j => [|x u IHu] [|y v] // [|j] //=; rewrite !ltnS; apply: IHu. Qed.

Lemma nth_subtracted u v j : (j < size u)%N -> (j < size v)%N ->
  nth Z0 (subtracted u v) j = Z.sub (nth Z0 u j) (nth Z0 v j).
Proof. by elim: u v j => [|x u IHu] [|y v] // [|j] //=; rewrite !ltnS; apply: IHu. Qed.

Lemma added_row n u v : (n <= size u)%N -> (n <= size v)%N ->
  int_row n (added u v) = int_row n u + int_row n v.
Proof.
move=> nu nv; apply/rowP => j; rewrite !mxE nth_added ?int_of_ZD //.
  exact: leq_trans nu.
exact: leq_trans nv.
Qed.

Lemma productE n u v : size u = n -> size v = n ->
  int_of_Z (product u v) = (int_row n u *m (int_row n v)^T) 0 0.
Proof.
move=> <-; rewrite mxE; elim: u v => [|x u IHu] [|y v] //= => [_|[e]]; first by rewrite big_ord0.
rewrite int_of_ZD int_of_ZM (IHu v e) big_ord_recl !mxE; congr (_ + _).
by apply: eq_bigr => j _; rewrite !mxE.
Qed.

Lemma size_signed n m signs rows : shaped m n rows -> size (signed n signs rows) = n.
Proof.
case/andP => _; elim: signs rows => [|b signs IHs] [|row rows] /=; rewrite ?size_nseq // => /andP[].
move=> /eqP sr /IHs e.
by case: b; rewrite ?size_added ?size_subtracted e sr minnn.
Qed.

Lemma signedE n m signs rows : shaped m n rows -> size signs = m ->
  int_row n (signed n signs rows) = sign_row m signs *m int_rows m n rows.
Proof.
case/andP => /eqP <- sizes ss; apply/rowP => o; rewrite !mxE.
elim: signs rows sizes ss => [|b signs IHs] [|row rows] //= => [_ _|/andP[/eqP sr rs] [ss]].
  by rewrite big_ord0 nth_nseq if_same.
rewrite big_ord_recl !mxE /=.
have e : int_of_Z (nth Z0 (signed n signs rows) o) = \sum_(j < size rows)
    sign_row (size rows) signs 0 j * int_rows (size rows) n rows j o by exact: IHs.
have sn : size (signed n signs rows) = n.
  by apply: (@size_signed _ (size rows)); rewrite /shaped eqxx.
have -> : \sum_(i < size rows) sign_row (size rows).+1 (b :: signs) 0 (lift ord0 i) *
    int_rows (size rows).+1 n (row :: rows) (lift ord0 i) o = \sum_(j < size rows)
    sign_row (size rows) signs 0 j * int_rows (size rows) n rows j o.
  by apply: eq_bigr => j _; rewrite !mxE.
rewrite -e; case: b; rewrite ?nth_added ?nth_subtracted ?sn ?sr ?ltn_ord //.
  by rewrite int_of_ZD mul1r addrC.
by rewrite int_of_ZB mulN1r addrC.
Qed.

Section Contexts.

Variables (T : Type) (z : T) (w : nat).

Lemma size_contexts past (s : seq T) : size (contexts w past s) = size s.
Proof. by elim: s past => //= x s IHs past; rewrite IHs. Qed.

Lemma take_take_cat (a b : seq T) : take w (a ++ take w b) = take w (a ++ b).
Proof.
by rewrite !take_cat; case: ltnP => // aw; rewrite take_take // leq_subr.
Qed.

Lemma nth_contexts past (s : seq T) i : (i < size s)%N ->
  nth [::] (contexts w past s) i = take w (rev (take i.+1 s) ++ past).
Proof.
elim: s past i => [|x s IHs] past [|i] //= => [_|]; first by rewrite take0 /=.
by rewrite ltnS => si; rewrite IHs // rev_cons cat_rcons take_take_cat.
Qed.

Lemma size_context (s : seq T) i : (i < size s)%N ->
  size (nth [::] (contexts w [::] s) i) = minn w i.+1.
Proof. by move=> si; rewrite nth_contexts // cats0 size_take size_rev size_takel // /minn. Qed.

Lemma nth_context (s : seq T) i j : (i < size s)%N -> (j < minn w i.+1)%N ->
  nth z (nth [::] (contexts w [::] s) i) j = nth z s (i - j).
Proof.
rewrite leq_min => si /andP[jw ji]; rewrite nth_contexts // cats0 nth_take //.
by rewrite nth_rev size_takel // subSS nth_take // ltnS leq_subr.
Qed.

End Contexts.

Lemma filter_one (T : Type) (z : T) (p : pred T) s e : filter p s = [:: e] ->
  exists j, [/\ (j < size s)%N, nth z s j = e
    & forall i, (i < size s)%N -> i != j -> ~~ p (nth z s i)].
Proof.
elim: s => //= x s IHs; case: ifP => [px [-> none]|px /IHs[j [js e' h]]].
  exists 0%N; split=> // -[|i] // si _; apply/negP => pi.
  have : has p s by apply/(has_nthP z); exists i.
  by rewrite has_count -size_filter none.
by exists j.+1; split=> // -[|i]; rewrite ?px // ltnS => si; rewrite eqSS; apply: h.
Qed.

Lemma readP query seen : (0 < size (read query seen))%N ->
  exists j, [/\ (j < size seen)%N, read query seen = (nth ([::], [::]) seen j).2
    & forall i, (i < size seen)%N -> i != j ->
      int_of_Z (product query (nth ([::], [::]) seen i).1) + 128 <=
      int_of_Z (product query (nth ([::], [::]) seen j).1)].
Proof.
rewrite /read; set ls := map _ seen; set top := foldr _ _ _.
case e : (filter _ ls) => [|one [|? ?]] //; case: ifP => // lead _.
have [j [jl le others]] := filter_one (Z0, [::]) e; rewrite size_map in jl.
have lE i : (i < size seen)%N -> nth (Z0, [::]) ls i =
    (product query (nth ([::], [::]) seen i).1, (nth ([::], [::]) seen i).2).
  by move=> si; rewrite (nth_map ([::], [::])).
exists j; split=> // [|i si ij]; first by rewrite -le lE.
have := others i; rewrite size_map lE //= => /(_ si ij).
by move: lead; rewrite -le lE //=; lia.
Qed.

Lemma size_read query seen k : all (fun pair => size pair.2 == k) seen ->
  (size (read query seen) <= k)%N.
Proof.
move=> /(all_nthP ([::], [::])) h; case: (posnP (size (read query seen))) => [-> //|].
by case/readP => j [js -> _]; rewrite (eqP (h j js)).
Qed.

Lemma all_butP p n s v : all_but p n s -> (v < size s)%N -> v != n -> p (nth Z0 s v).
Proof.
elim: s n v => //= x s IHs [|n] [|v] //=; first by move=> /(all_nthP Z0) h; rewrite ltnS => /h.
  by case/andP.
by case/andP => _ /IHs h; rewrite ltnS eqSS; apply: h.
Qed.
