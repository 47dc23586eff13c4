(* proofs/19-kernels.md: what Theorems 13 and 14 say, of any attention kernel that stays within  *)
(* the model of that page: which numbers come out exactly, whatever the order of its sums is.    *)
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* One row of attention: what its program may do. A relation `rounds x y` says that the exact    *)
(* result x may become y; it need not be a function, so two operations may round differently.   *)
Record softmax_row (F : realFieldType) (key : eqType) := Softmax_row {
  logit : key -> F;               (* the computed logit of each key that is read, or of a sink   *)
  format : F -> Prop;             (* numbers which accumulators hold *)
  rounds : F -> F -> Prop;        (* of sums and products *)
  weight : F -> F -> F -> Prop;   (* weight l m w: a key of logit l, read at the reference m     *)
  factor : F -> F -> F -> Prop;   (* factor m m' r: sums at the reference m, when it becomes m'  *)
  scale : F;                      (* c, the weight at logit 0 and reference 0; often 1           *)
  gap : F;                        (* G: logits are 0 or at most -G *)
  lag : F;                        (* how far a logit may exceed the reference                    *)
  u : F;                          (* the largest relative error of a sum or product              *)
  eta : F;                        (* what a number may be increased by, so that it rounds back   *)
  omega : F;                      (* the largest weight, over c, of a logit which is G below     *)
  Lambda : F;                     (* the largest weight of all, over c *)
  rho : F                         (* the largest factor *)
}.

Section Model.

Variables (F : realFieldType) (key : eqType) (M : softmax_row F key).

(* A result may also be left as it is, as in a fused operation or a wider accumulator. *)
Definition kept (x y : F) : Prop := y = x \/ rounds M x y.

(* The hypotheses of the model, but for those on the logits of a problem *)
Definition admissible :=
  [/\ [/\ 0 <= lag M, lag M < gap M, 0 <= u M & 0 <= eta M],
      [/\ 0 < scale M, 0 <= omega M, 1 <= Lambda M & 1 <= rho M],
      (* sums and products of numbers which are not negative *)
      (forall x y, 0 <= x -> rounds M x y -> 0 <= y <= (1 + u M) * x) /\
      (forall z e y, format M z -> 0 <= e < eta M * z -> rounds M (z + e) y -> y = z),
      (* weights *)
      [/\ forall w, weight M 0 0 w -> w = scale M,
          forall l m w, l - m <= - gap M -> weight M l m w -> 0 <= w <= scale M * omega M
        & forall l m w, l <= m + lag M -> weight M l m w -> 0 <= w <= scale M * Lambda M]
    & (* factors *)
      [/\ forall m r, factor M m m r -> r = 1,
          forall m m' r, m - m' <= - gap M -> factor M m m' r -> 0 <= r <= omega M
        & forall m m' r, m <= m' -> factor M m m' r -> 0 <= r <= rho M]].

(* Winners have the logit 0 exactly, and all other keys are far below. *)
Definition winner (j : key) : bool := logit M j == 0.
Definition saturated := forall j, winner j \/ logit M j <= - gap M.

(* sums x s m y D C: the numbers x of the keys s, each times its weight, may be summed to y at   *)
(* the reference m; on no path from a key to the result are there more than D additions, or more *)
(* than C of them where the reference changes. The reference is a logit of some key of the row.  *)
(* With x = 1 this is the denominator, with x = v an entry of the numerator.                     *)
Inductive sums (x : key -> F) : seq key -> F -> F -> nat -> nat -> Prop :=
| Read j m w y :
    (exists i, m = logit M i) -> logit M j <= m + lag M ->
    weight M (logit M j) m w -> kept (w * x j) y ->
  sums x [:: j] m y 0 0
| Merge s1 s2 m1 m2 m y1 y2 r1 r2 t1 t2 y D1 D2 C1 C2 :
    sums x s1 m1 y1 D1 C1 -> sums x s2 m2 y2 D2 C2 ->
    (exists i, m = logit M i) -> m1 <= m -> m2 <= m ->
    (forall j, j \in s1 ++ s2 -> logit M j <= m + lag M) ->
    factor M m1 m r1 -> factor M m2 m r2 -> kept (r1 * y1) t1 -> kept (r2 * y2) t2 ->
    kept (t1 + t2) y ->
  sums x (s1 ++ s2) m y (maxn D1 D2).+1 (maxn (C1 + (m1 != m)) (C2 + (m2 != m))).

(* All which is not the winners', over c, for numbers of at most V *)
Definition tail (V : F) (N D C : nat) : F :=
  omega M * Lambda M * V * N%:R * (1 + u M) ^+ (2 * D).+1 * rho M ^+ C.

(* What winners add up to *)
Definition held (x : key -> F) (s : seq key) : F := \sum_(j <- s | winner j) x j.

(* The results of a row: both sums, stored, and their quotient, rounded to any format in which   *)
(* that quotient is a number.                                                                    *)
Definition output (v : key -> F) (s : seq key) (N D C : nat) (stored : F -> F -> Prop)
    (out : F) : Prop :=
  exists mL yL DL CL mA yA DA CA L A,
    [/\ sums (fun=> 1) s mL yL DL CL /\ sums v s mA yA DA CA,
        [/\ (size s <= N)%N, (DL <= D)%N, (CL <= C)%N, (DA <= D)%N & (CA <= C)%N],
        rounds M yL L, rounds M yA A & stored (A / L) out].

End Model.

(* Theorem 13, one winner: the output is its value, bit for bit. Values are between 1 and V.     *)
Definition One_winner : Prop :=
  forall (F : realFieldType) (key : eqType) (M : softmax_row F key) (v : key -> F) (t : key)
      (s : seq key) (V : F) (N D C : nat) (stored : F -> F -> Prop) (out : F),
    admissible M -> saturated M -> (forall j, winner M j = (j == t)) ->
    uniq s -> t \in s -> (forall j, 1 <= v j <= V) ->
    format M (scale M) -> format M (scale M * v t) -> tail M V N D C < eta M ->
    (forall y, stored (v t) y -> y = v t) ->
    output M v s N D C stored out ->
  out = v t.

(* Theorem 14, ties: the output is the average of the winners' values. Values of winners are     *)
(* natural numbers up to B, not all of them 0 (a sink has the value 0); others are up to V.      *)
Definition Ties : Prop :=
  forall (F : realFieldType) (key : eqType) (M : softmax_row F key) (v : key -> F) (k : key -> nat)
      (s : seq key) (V : F) (B N D C : nat) (stored : F -> F -> Prop) (out : F),
    admissible M -> saturated M -> (0 < B)%N -> 1 <= V ->
    0 < held M v s ->
    (forall j, winner M j -> v j = (k j)%:R /\ (k j <= B)%N) -> (forall j, 0 <= v j <= V) ->
    (forall n, (n <= B * count (winner M) s)%N -> format M (scale M * n%:R)) ->
    tail M V N D C < eta M ->
    (forall y, stored (held M v s / (count (winner M) s)%:R) y ->
       y = held M v s / (count (winner M) s)%:R) ->
    output M v s N D C stored out ->
  out = held M v s / (count (winner M) s)%:R.
