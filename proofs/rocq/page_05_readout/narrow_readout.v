(* proofs/5-readout.md, 18-narrow-values.md: Lemma 5.1 for values of any width d_v. Which *)
(* effective readouts are a layer's.                                                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals.
From Memorization Require Import Definitions readout.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

(* The d rows of U that belong to head h *)
Definition part (F : Type) H d p (U : 'M[F]_(H * d, p)) (h : 'I_H) : 'M[F]_(d, p) :=
  \matrix_(i, j) U (mxvec_index h i) j.

(* U is the effective readout of value, output and readout weights, with m columns between the *)
(* last two: the output for heads with the rows A is that of U. In [layer], m = dv.            *)
Definition effective (F : fieldType) H d dv m dout (WV : 'I_H -> 'M[F]_(d, dv)) (WO : 'M[F]_(H *
  dv, m))
    (WD : 'M[F]_(m, dout)) (U : 'M[F]_(H * d, dout)) : Prop :=
  forall A : 'M[F]_(H, d), mxvec (\matrix_h (row h A *m WV h)) *m WO *m WD = mxvec A *m U.

(* U is a layer's if and only if each head's part has rank dv at most, and U has rank m at most. *)
(* (With m >= dout the second condition holds for all U; with dv >= dout, or dv >= d, the first  *)
(* one does.)                                                                                    *)
Definition Narrow_readout : Prop :=
  forall (F : fieldType) (H d dv m dout : nat) (U : 'M[F]_(H * d, dout)),
  (exists (WV : 'I_H -> 'M[F]_(d, dv)) (WO : 'M[F]_(H * dv, m)) (WD : 'M[F]_(m, dout)), effective
    WV WO WD U) <->
  (forall h, (\rank (part U h) <= dv)%N) /\ (\rank U <= m)%N.

(* So for layers as in [layer], where m = dv, it is enough that U has rank dv at most. *)
Definition Narrow_readout_layer : Prop :=
  forall (R : realType) (n d T H dh dv dout : nat) (E : 'I_T -> 'M[R]_(n, d)) (Q : 'M[R]_(T, d))
      (WQ WK : 'I_H -> 'M[R]_(d, dh)) (Y : 'M[R]_(T, dout)),
    let Z := intermediate E Q (fun h => WK h *m (WQ h)^T) in
  (exists WV WO WD, memorizes (@Layer R d H dh dv dout WQ WK WV WO WD) E Q Y) <->
  (exists U : 'M[R]_(H * d, dout), (\rank U <= dv)%N /\ Z *m U = Y).

Section Factor.

Variable F : fieldType.

(* A matrix of rank k at most is a product with k columns between. *)
Lemma factor m n k (A : 'M[F]_(m, n)) : (\rank A <= k)%N -> exists (B : 'M[F]_(m, k)) (C :
  'M[F]_(k, n)), A = B *m C.
Proof.
move=> Ak; exists (col_base A *m pid_mx (\rank A)), (pid_mx (\rank A) *m row_base A).
by rewrite -mulmxA (mulmxA (pid_mx _)) pid_mx_id // pid_mx_1 mul1mx mulmx_base.
Qed.

Lemma mxvec_part H d p (A : 'M[F]_(H, d)) (U : 'M[F]_(H * d, p)) : mxvec A *m U = \sum_h row h A *m
  part U h.
Proof.
apply/rowP => j; rewrite summxE; under [RHS]eq_bigr do rewrite mxE.
rewrite mxE pair_bigA /= (reindex _ (curry_mxvec_bij _ _)) /=.
by apply: eq_bigr => -[h i] _; rewrite /= mxvecE [row _ _ _ _]mxE [part _ _ _ _]mxE.
Qed.

Lemma part_mul H d p q (U : 'M[F]_(H * d, p)) (C : 'M[F]_(p, q)) h : part (U *m C) h = part U h *m
  C.
Proof. by apply/matrixP => i j; rewrite !mxE; apply: eq_bigr => k _; rewrite !mxE. Qed.

(* Any parts *)
Lemma parts H d p (P : 'I_H -> 'M[F]_(d, p)) : exists U : 'M[F]_(H * d, p), forall h, part U h = P
  h.
Proof.
exists (\matrix_(j < p) mxvec (\matrix_(h, i) P h i j))^T => h.
by apply/matrixP => i j; rewrite mxE mxE mxE mxvecE mxE.
Qed.

Lemma partsP H d p (U V : 'M[F]_(H * d, p)) : (forall h, part U h = part V h) -> U = V.
Proof.
move=> UV; apply/matrixP => k j; case/mxvec_indexP: k => h i.
by have /matrixP/(_ i j) := UV h; rewrite !mxE.
Qed.

Lemma effectiveP H d dv m dout (WV : 'I_H -> 'M[F]_(d, dv)) (WO : 'M[F]_(H * dv, m)) (WD :
  'M[F]_(m, dout)) U :
  effective WV WO WD U <-> forall h, part U h = WV h *m part WO h *m WD.
Proof.
have outE (A : 'M[F]_(H, d)) : mxvec (\matrix_h (row h A *m WV h)) *m WO *m WD =
    \sum_h row h A *m (WV h *m part WO h *m WD).
  rewrite -mulmxA mxvec_part; apply: eq_bigr => h _.
  by rewrite rowK part_mul !mulmxA.
split=> [e h|e A]; last first.
  by rewrite outE mxvec_part; apply: eq_bigr => h _; rewrite e.
apply/row_matrixP => i; have := e (delta_mx h i); rewrite outE mxvec_part.
have only (P : 'I_H -> 'M[F]_(d, dout)) : \sum_g row g (delta_mx h i) *m P g = row i (P h).
  rewrite (bigD1 h) //= big1 ?addr0 => [|g gh].
    by rewrite (_ : row h _ = delta_mx 0 i) -?rowE //; apply/rowP => k; rewrite !mxE !eqxx.
  by rewrite (_ : row g _ = 0) ?mul0mx //; apply/rowP => k; rewrite !mxE (negPf gh).
by rewrite !only.
Qed.

End Factor.

Theorem narrow_readout : Narrow_readout.
Proof.
move=> F H d dv m dout U; split=> [[WV [WO [WD /effectiveP UE]]]|[Uh Um]].
  split=> [h|].
    rewrite UE; apply: leq_trans (mxrankM_maxl _ _) _; apply: leq_trans (mxrankM_maxl _ _) _.
    exact: rank_leq_col.
  have [V VE] := parts (fun h => WV h *m part WO h).
  have -> : U = V *m WD by apply: partsP => h; rewrite part_mul VE UE.
  by apply: leq_trans (mxrankM_maxl _ _) _; exact: rank_leq_col.
pose D : 'M[F]_(m, dout) := pid_mx (\rank U) *m row_base U.
pose B : 'M[F]_(H * d, m) := col_base U *m pid_mx (\rank U).
have UBD : U = B *m D by rewrite -mulmxA (mulmxA (pid_mx _)) pid_mx_id // pid_mx_1 mul1mx
  mulmx_base.
(* B is U times some matrix, so its parts have rank dv at most, too. *)
have [C UC] : exists C, B = U *m C.
  have /row_freeP[M rM] := row_base_free U.
  by exists (M *m pid_mx (\rank U)); rewrite -[U in U *m _]mulmx_base mulmxA -(mulmxA _ _ M) rM
    mulmx1.
have /fin_all_exists[WV /fin_all_exists[P WP]] (h : 'I_H) :
    exists (V : 'M[F]_(d, dv)) (P : 'M[F]_(dv, m)), part B h = V *m P.
  by apply: factor; rewrite UC part_mul; apply: leq_trans (mxrankM_maxl _ _) (Uh h).
have [WO WOP] := parts P; exists WV, WO, D; apply/effectiveP => h.
by rewrite [in LHS]UBD part_mul WP WOP.
Qed.

Theorem narrow_readout_layer : Narrow_readout_layer.
Proof.
move=> R n d T H dh dv dout E Q WQ WK Y Z.
have outE WV WO WD U t : effective WV WO WD U ->
    output (@Layer R d H dh dv dout WQ WK WV WO WD) (E t) (row t Q) = row t (Z *m U).
  move=> e; rewrite row_mul rowK -e /output /attention_matrix /=; congr (mxvec _ *m _ *m _).
  by apply/row_matrixP => h; rewrite !rowK.
split=> [[WV [WO [WD mem]]]|[U [Ur ZU]]].
  have [U UP] := parts (fun h => WV h *m part WO h *m WD).
  have e : effective WV WO WD U by apply/effectiveP.
  exists U; split; last by apply/row_matrixP => t; rewrite -(outE _ _ _ _ t e) mem.
  by have [|_ //] := (@narrow_readout _ _ _ dv dv _ U).1; exists WV, WO, WD.
have [|WV [WO [WD e]]] := (@narrow_readout _ _ _ dv dv _ U).2.
  split=> // h; apply: leq_trans Ur.
  have -> : part U h = rowsub (mxvec_index h) U by apply/matrixP => i j; rewrite !mxE.
  by rewrite rowsubE mxrankM_maxr.
by exists WV, WO, WD => t; rewrite (outE _ _ _ _ t e) ZU.
Qed.
