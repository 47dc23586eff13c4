"""Random inputs of a shape that shows a bug, and the features that inputs have.

A bug says which features it needs (`needs`); a bug that meets no inputs with them never ran.
"""

import ml_dtypes
import numpy as np

from options import Options, Run

DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
SPECIAL = {"poison", "large-logits", "large-values", "large-bias", "sunk-logits"}
"""What no test with normal inputs has."""


def features(run: Run, block: int = 16) -> set[str]:
    """The features of some inputs, for a kernel with blocks of that many queries and keys."""
    o, d, dv, tq, tk = run.o, run.d, run.dv, run.tq, run.tk
    name = next(n for n, t in DTYPES.items() if t == run.q.dtype)
    uneven, blocks = len(set(run.lengths)) > 1, -(-tk // block)
    has = {
        name: True,
        "half": name in {"float16", "bfloat16"},
        "batch": run.batch > 1,
        "heads": run.heads > 1,
        "grouped": run.group > 1,
        "kv-heads": 1 < run.kv_heads < run.heads,
        "odd-group": run.group & (run.group - 1) != 0 and run.kv_heads > 1,
        "heads-and-batch": run.batch > 1 and run.heads > 1,
        "one-query": tq == 1,
        "many-queries": tq > 1,
        "query-blocks": tq > block,
        "partial-query-block": tq % block != 0,
        "key-blocks": tk > block,
        "many-keys": tk > 1,
        "partial-key-block": tk % block != 0,
        "unequal": tq != tk,
        "equal": tq == tk,
        "wide-value": dv > d,
        "other-value": dv != d,
        "odd-d": d & (d - 1) != 0,
        "inexact-scale": d & (d - 1) != 0 or (d.bit_length() - 1) % 2 == 1,
        "d-tail": d % 8 != 0,
        "dv-tail": dv % 8 != 0,
        "causal": o.causal is not None,
        "not-causal": o.causal is None,
        "top-left": o.causal == "top-left",
        "bottom-right": o.causal == "bottom-right",
        "window": o.window != (None, None),
        "window-left": o.window[0] is not None,
        "window-right": o.window[1] is not None and o.causal is None,
        "window-uneven": o.window[0] != o.window[1] and o.causal is None,
        "mask": o.mask is not None,
        "head-mask": o.mask is not None and o.mask.shape[1] > 1,
        "batch-mask": o.mask is not None and o.mask.shape[0] > 1,
        "bias": o.bias is not None,
        "head-bias": o.bias is not None and o.bias.shape[1] > 1,
        "batch-bias": o.bias is not None and o.bias.shape[0] > 1,
        "shared-bias": o.bias is not None and o.bias.shape[:2] == (1, 1),
        "infinite-bias": o.bias is not None and bool(np.isneginf(o.bias.astype(float)).any()),
        "large-bias": o.bias is not None and bool((o.bias.astype(float) > 100).any()),
        "alibi": o.slopes is not None,
        "softcap": o.softcap is not None,
        "sinks": o.sinks is not None,
        "scale": o.scale is not None and not np.isclose(o.scale, d**-0.5),
        "lengths": bool((run.lengths < tk).any()),
        "uneven-lengths": uneven,
        "partial-lengths": bool((run.lengths % block != 0).any() and (run.lengths < tk).any()),
        "starts": bool((run.starts > 0).any()),
        "empty-sequence": bool((run.lengths <= run.starts).any()),
        "pages": o.block_table is not None,
        "part-page": o.block_table is not None and bool((run.lengths % run.page != 0).any()),
        "splits": o.splits > 1 and tk > block,
        "empty-split": blocks <= -(-blocks // o.splits) * (o.splits - 1),
        "uneven-splits": o.splits > 1 and tk > block and blocks % o.splits != 0,
        "packed": o.query_offsets is not None,
        "strided": any(x.size and not x.flags.c_contiguous for x in (run.q, run.k, run.v)),
        "large-values": bool((np.abs(_finite(run.v)) > 60000).any()),
    }
    if run.k.ndim == 4 and o.block_table is None and o.query_offsets is None:
        k = np.repeat(_finite(run.k), run.group, 1)
        scale = d**-0.5 if o.scale is None else o.scale
        s = np.einsum("bhqd,bhkd->bhqk", _finite(run.q), k) * scale
        has["large-logits"] = bool((np.abs(s) > 200).any())
        has["sunk-logits"] = bool((s.max(-1) < -60000).any())
        hidden = np.arange(tk)[None] >= run.lengths[:, None]
        hidden |= np.arange(tk)[None] < run.starts[:, None]
        has["poison"] = bool(np.isnan(run.v.astype(float))[hidden[:, None] & _rows(run)].any())
        has["empty-row"] = bool((~_seen(run).any(-1)).any())
    return {feature for feature, it in has.items() if it}


def _finite(x):
    return np.nan_to_num(x.astype(np.float64))


def _rows(run):
    return np.ones((run.batch, run.kv_heads, run.tk), bool)


def _seen(run):
    from flash import Flash  # the right masks

    return np.broadcast_to(
        Flash().visible(run, np.arange(run.tq), np.arange(run.tk)),
        (run.batch, run.heads, run.tq, run.tk),
    )


def random_case(needs, seed, longer=0):
    """Draw (q, k, v, options) that have the features, otherwise as general as possible.

    longer: tokens added to queries and keys (of packed sequences, to the last).
    """
    rng = np.random.default_rng(seed)
    needs = set(needs)
    batch, heads, kv_heads = 3, 6, 2
    tq, tk, d, dv = 37, 59, 24, 40
    if needs & {"d-tail", "dv-tail"}:
        d, dv = 21, 43
    if "equal" in needs:
        tq = tk
    if "one-query" in needs:
        tq = 1
    if "empty-row" in needs or "more-queries" in needs:
        tq, tk = 59, 37
    tq, tk = tq + longer * (tq > 1), tk + longer
    o = {}
    chosen = [n for n in DTYPES if n in needs]
    halves = ["float16", "bfloat16"]
    every = halves if "half" in needs else ["float32", *halves]
    dtype = DTYPES[chosen[0] if chosen else every[seed % len(every)]]
    if needs & {"causal", "top-left", "bottom-right", "empty-row"}:
        named = needs & {"top-left", "bottom-right"}
        o["causal"] = next(iter(named)) if named else ("bottom-right", "top-left")[seed % 2]
        if "empty-row" in needs and not named:
            o["causal"] = "bottom-right"
    if needs & {"window", "window-left", "window-right", "window-uneven"}:
        o["window"] = (int(rng.integers(3, 9)), None if o.get("causal") else 2)
    if "lengths" in needs or needs & {"uneven-lengths", "partial-lengths", "poison", "part-page"}:
        o["key_lengths"] = np.array([tk, tk - 9, tk - 20])[rng.permutation(3)]
    if "empty-sequence" in needs:
        o["key_lengths"] = np.array([tk, 0, tk - 9])
    if "starts" in needs:
        o["key_starts"] = np.array([0, 5, 11])
    if needs & {"mask", "head-mask", "batch-mask"}:
        mask = rng.random((batch, heads, tq, tk)) < 0.6
        mask[..., 0] = True
        o["mask"] = mask
    if needs & {"bias", "head-bias", "batch-bias", "infinite-bias", "large-bias", "shared-bias"}:
        shape = (1, 1, tq, tk) if "shared-bias" in needs else (batch, heads, tq, tk)
        bias = rng.standard_normal(shape) * (300 if "large-bias" in needs else 1)
        if "infinite-bias" in needs:
            bias[rng.random(shape) < 0.3] = -np.inf
        o["bias"] = bias.astype(np.float32).astype(dtype)
    if "alibi" in needs:
        o["slopes"] = 2.0 ** -np.arange(1, heads + 1) * 1.1
    if "softcap" in needs:
        o["softcap"] = 1.7
    if "sinks" in needs:
        o["sinks"] = rng.standard_normal(heads) + 2
    if "scale" in needs:
        o["scale"] = 0.7 * d**-0.5
    if needs & {"splits", "uneven-splits"}:
        o["splits"] = 3 if "uneven-splits" in needs else 2
    if "empty-split" in needs:
        o["splits"] = 6
    normal = lambda *shape: rng.standard_normal(shape)  # noqa: E731
    q, k = normal(batch, heads, tq, d), normal(batch, kv_heads, tk, d)
    v = normal(batch, kv_heads, tk, dv)
    if "large-logits" in needs:
        q, k = q * 16, k * 16
    if "sunk-logits" in needs:
        q, k = np.sign(q) * 0 + 140 + q, -(k * 0 + 140) + k
    if "large-values" in needs:
        v = v * 1e5
    if "packed" in needs:
        tq, tk = 50 + longer, 70 + longer
        q, k, v = normal(1, heads, tq, d), normal(1, kv_heads, tk, d), normal(1, kv_heads, tk, dv)
        o["query_offsets"] = np.array([0, 20, 29, tq])
        o["key_offsets"] = np.array([0, 21, 47, tk])
    q, k, v = (x.astype(np.float32).astype(dtype) for x in (q, k, v))
    if "poison" in needs:
        for b, length in enumerate(o["key_lengths"]):
            k[b, :, length:] = v[b, :, length:] = np.nan
    if needs & {"pages", "part-page"}:
        k, v, o["block_table"] = paged(k, v, 8, rng)
    if "strided" in needs:
        q, k, v = (strided(x) for x in (q, k, v))
    return q, k, v, Options(**o)


def paged(k, v, page, rng):
    """Spread keys and values over shuffled pages of a cache: (keys, values, block table)."""
    batch, kv_heads, tk, _ = k.shape
    per = -(-tk // page)
    table = rng.permutation(2 * batch * per)[: batch * per].reshape(batch, per)
    caches = []
    for x in (k, v):
        cache = rng.standard_normal((2 * batch * per, kv_heads, page, x.shape[3]))
        cache = cache.astype(np.float32).astype(x.dtype)
        for b in range(batch):
            for n in range(per):
                rows = x[b, :, n * page : (n + 1) * page]
                cache[table[b, n], :, : rows.shape[1]] = rows
        caches.append(cache)
    return (*caches, table)


def strided(x):
    """The same values as a view of (batch, tokens, heads, d + 4)."""
    batch, heads, tokens, d = x.shape
    memory = np.zeros((batch, tokens, heads, d + 4), x.dtype)
    memory[..., :d] = np.swapaxes(x, 1, 2)
    return np.swapaxes(memory[..., :d], 1, 2)
