"""Intervals of attention kernels: their time, and how much wider they are than errors seen.

    python tests/benchmarks/kernels/intervals.py [--tokens 512 1024]

Time is that of the process, on one thread, against attention in float64 by numpy, whole matrices at
a time: products, softmax in place, products. Errors are those of PyTorch's
`scaled_dot_product_attention` on normal random numbers, against that attention in float64; bounds
are distances from it to the farther end of an interval. Both are the largest over all outputs, so
the last rounding is in both. "worst" is the largest share of its own bound that an error has.

`depth=` and `block=` say what is known of the kernel: here sums of `--depth` additions, and blocks
of 512 keys.
"""

import argparse
import time

import numpy as np
import torch

from constructive.exact.float_model import FORMATS, nearest
from constructive.kernels import bounds

HEADS, WIDTH = 8, 64
FORMATS_SHOWN = "bfloat16", "float16", "float32", "float64"


def attention(q, k, v):
    logits = q @ k.swapaxes(-1, -2)
    logits *= WIDTH**-0.5
    logits -= logits.max(-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(-1, keepdims=True)
    return logits @ v


def least(runs, function, *arguments):
    """Seconds of the fastest run."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        function(*arguments)
        seconds.append(time.process_time() - start)
    return min(seconds)


def drawn(name, tokens, size=1.0):
    random = np.random.default_rng(tokens)
    shape = (3, 1, HEADS, tokens, WIDTH)
    return nearest(size * random.standard_normal(shape), FORMATS[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--depth", type=int, default=32)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"numpy {np.__version__}, PyTorch {torch.__version__}; {HEADS} heads, d = {WIDTH}\n")
    print("keys  forward    bounds    ratio   causal ratio")
    for tokens in given.tokens:
        q, k, v = drawn("bfloat16", tokens)
        causal = np.tri(tokens, dtype=bool)
        forward = least(given.runs, attention, q, k, v)
        seconds = least(given.runs, bounds, q, k, v)
        masked = least(given.runs, bounds, q, k, v, causal)
        print(
            f"{tokens:4}  {forward:7.4f}  {seconds:8.4f}  {seconds / forward:7.2f}  "
            f"{masked / forward:7.2f}"
        )
    print("\nkeys  format    logits  known                bound    error    ratio  worst")
    for tokens in given.tokens:
        for name in FORMATS_SHOWN:
            for size in (1.0, 2.0):
                q, k, v = drawn(name, tokens, size)
                right = attention(q, k, v)
                tensors = (torch.tensor(each).to(getattr(torch, name)) for each in (q, k, v))
                out = torch.nn.functional.scaled_dot_product_attention(*tensors).double().numpy()
                known = {"depth": given.depth, "block": 512} if name == "float32" else {}
                for stated in [{}, known] if known else [{}]:
                    inside = bounds(q, k, v, model=f"flash {name}", **stated)
                    inside.check(out)
                    bound = np.maximum(inside.upper - right, right - inside.lower)
                    error = np.abs(out - right)
                    words = ", ".join(f"{key} {value}" for key, value in stated.items())
                    print(
                        f"{tokens:4}  {name:8}  {size**2:6g}  {words:18}  {bound.max():7.1e}  "
                        f"{error.max():7.1e}  {bound.max() / error.max():7.1f}  "
                        f"{(error / bound).max():5.3f}"
                    )


if __name__ == "__main__":
    main()
