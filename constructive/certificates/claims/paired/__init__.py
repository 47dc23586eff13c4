"""Claims about paired rank-one heads where no T x T matrix fits: *rank*, *error*, *readout*.

All heads score tokens along one key direction k, so head h has logits s_{t,h} (E_t k) with
s_{t,h} = q_h.e_t. Pair p is *certified to agree* on example t where s_{t,2p} and s_{t,2p+1} have
one sign, and the smaller of them times the gap between the extreme scores is at least `MARGIN`
nats: both heads then give all but (n - 1) exp(-MARGIN) of their attention to the same token. So ::

    x_{t,p} = E_t^T (alpha_{2p,t} - alpha_{2p+1,t})    has entries of at most
    tail_t = 2 (n - 1) exp(-MARGIN) max |E_t|.

One T x H matrix product decides that for all t and p. The other entries, the blocks D_p of the
pairs' own examples and a few beside them, are evaluated with bounds (`exact.verified`).

*Lemma* (proofs/12-paired-heads.md). Let X = Z K for some matrix K, and R be any matrix with T
columns. If I - X R is at most N entry by entry, and N w < w for some positive vector w, then
rank Z >= T.
*Proof.* If X R g = 0 for g != 0, let i maximize `|g_i| / w_i`. Then `|g_i| = |((I - X R) g)_i| <=
sum_j N_ij w_j |g_j| / w_j <= (N w)_i |g_i| / w_i < |g_i|`. So X R is nonsingular. QED

Here K takes the difference of the two heads of each pair (and one more column, below), and R holds
approximate right inverses R_p of the blocks. N has the defects of D_p R_p, rows `|x_{t,p} R_p|`
where a pair does not agree on an example of another, and tails. For c > 1 the iteration
w = 1 + c N w converges where c N has a spectral radius below 1, to w with N w < w / c. With c = 2
it does if no example couples to a pair whose examples couple back to its own, directly or through
others: in the order of pairs from which the coupling leads, X R is block triangular up to defects
and tails, and the iteration ends after as many steps as coupling is deep. Where there are circles
it converges for a smaller c, if they contract. Nothing of size T x T is formed.

*The extra example* `t*` belongs to no pair. The last column of K is `x* / |x*|^2` for the token
`x*` on which pair 0 agrees at `t*`, read by its second head; the last unknown solves the equation
of `t*`.

*Error.* f(t) = sum_p (x_{t,p}.U_{2p} + z_{t,2p+1}.V_p) with V_p = U_{2p} + U_{2p+1}, which is zero
but for pair 0 (if there is an extra example). Entries that agree contribute `tail_t |U_{2p}|_1`.

*Readout.* X R g = r has a solution with `|g_i| <= w_i max_j (|r_j| / w_j) / (1 - q)`, by the
argument of the lemma, for q = max (N w)_i / w_i; the readout U + K R g is exact.

`examples` and `readouts` (at size one) -> `scan` (the one pass over contexts; `reading`, what heads
read from those in memory) -> `entries` (which pairs agree, and what is read where they do not, from
the few contexts of these once more) -> `inverse` (the lemma) and `residuals` -> `judge`.
"""
