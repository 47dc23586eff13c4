(* proofs/21-compact-decoders.md: a causal decoder in real arithmetic, and what it means that it  *)
(* recites a text.                                                                                *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.analysis Require Import reals sequences exp.
From Memorization Require Import Definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The weights: V tokens of d entries and a row for each position, H heads of dimension dh, the   *)
(* readout of the token itself and of each head, and the unembedding, whose last row is the end   *)
(* of a text. A position sees so many tokens as the window says.                                  *)
Record decoder (R : realType) (d H dh k V : nat) := Decoder {
  embedding : nat -> 'rV[R]_d;
  positions : nat -> 'rV[R]_d;
  window : nat;
  queries : 'I_H -> 'M[R]_(d, dh);
  keys : 'I_H -> 'M[R]_(d, dh);
  skip : 'M[R]_(d, k);
  readouts : 'I_H -> 'M[R]_(d, k);
  unembedding : 'M[R]_(V.+1, k)
}.

Section Recites.

Variables (R : realType) (d H dh k V : nat) (D : decoder R d H dh k V) (text : seq nat).

Definition token (i : nat) : 'rV[R]_d := embedding D (nth 0%N text i) + positions D i.

(* What position i sees: the last tokens, itself first *)
Definition seen (i : nat) : nat := minn (window D) i.+1.
Definition context (i : nat) : 'M[R]_(seen i, d) := \matrix_(j < seen i) token (i - j).

Definition logits (i : nat) : 'rV[R]_V.+1 :=
  (token i *m skip D +
    \sum_h head (context i) (keys D h *m (queries D h)^T) (token i) *m readouts D h)
  *m (unembedding D)^T.

(* What has to follow: the next token, or the end, which is number V *)
Definition next (i : nat) : nat := nth V text i.+1.

(* From the last token of a prompt on, the next token has the largest logit, by the margin or     *)
(* more: so greedy decoding from the prompt gives the text, and ends where it ends.               *)
Definition recites (prompt : nat) (margin : R) : Prop :=
  forall i, (prompt <= i.+1 <= size text)%N -> exists2 u : 'I_V.+1, u = next i :> nat &
    forall v, v != u -> logits i 0 v + margin <= logits i 0 u.

End Recites.

(* A greedy decoder has said the first tokens of a text, the prompt or more. Whichever token or   *)
(* end of a text has the largest logit then, it is what follows in the text.                      *)
Definition Greedy : Prop :=
  forall (R : realType) (d H dh k V : nat) (D : decoder R d H dh k V) (text : seq nat)
      (prompt : nat) (margin : R), 0 < margin -> recites D text prompt margin ->
  forall n, (0 < n)%N -> (prompt <= n <= size text)%N -> forall v : 'I_V.+1,
    (forall u, logits D (take n text) n.-1 0 u <= logits D (take n text) n.-1 0 v) ->
  v = nth V text n :> nat.

(* What follows is not seen. *)
Lemma logits_take (R : realType) d H dh k V (D : decoder R d H dh k V) text i :
  logits D (take i.+1 text) i = logits D text i.
Proof.
have same j : (j <= i)%N -> token D (take i.+1 text) j = token D text j.
  by move=> ji; rewrite /token nth_take.
have seen_same : context D (take i.+1 text) i = context D text i.
  apply/matrixP => j c; rewrite [LHS]mxE [RHS]mxE same //; exact: leq_subr.
by rewrite /logits seen_same same.
Qed.

Theorem greedy : Greedy.
Proof.
move=> R d H dh k V D text prompt margin m0 says [//|i] _ /says[u ui ahead] v.
rewrite logits_take => /(_ u); have [-> //|vu] := eqVneq v u.
by rewrite leNgt (lt_le_trans _ (ahead v vu)) // ltr_addl.
Qed.
