"""Decoders: seconds and memory, one token beside PyTorch's, and training: docs/performance.md.

    python tests/benchmarks/recite.py [--only NAME ...]

The text is LICENSE, whose tokens are words and single characters between them. Every part is a
process of its own.

    whole     the whole text: build, greedy decoding from the first token, and peak memory
    proof     certify and check of the same decoder
    training  1,000 tokens: Adam in PyTorch on a layer of the same shape, from random weights, until
              the largest logit is right at every position, or a cap; and a build
    token     one token more after n, on one thread: `Decoder.generate`, and a layer of the same H,
              d and d_h of PyTorch's own parts with a cache of keys and values, in turn; medians
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from measuring import CONSOLE, alone, forget_peak, megabytes, memory, saved, table, timed

from constructive import Text, build_decoder, certify, check
from constructive.exact.directed import percent

LICENSE = Path(__file__).parent.parent.parent / "LICENSE"
PARTS = ["whole", "proof", "training", "token"]
WIDTH, RUNS = 256, 5
# Seconds of training.
CAP = 300.0
# Tokens on which a layer is trained.
SHORT = 1000
# Tokens which are decoded for one measurement.
MORE = 256
# Heads of a decoder whose build only loads libraries.
FIRST = 8


def license_text(tokens=None):
    words = Text.words(LICENSE.read_text()).tokens
    return Text.words("".join(words[:tokens]))


def warm():
    build_decoder(license_text(100), width=64, num_heads=FIRST)


def whole():
    text = license_text()
    warm()
    before = forget_peak()
    build, decoder = timed(lambda: build_decoder(text, width=WIDTH))
    peak = memory("VmHWM") - before
    decode, tokens = timed(lambda: decoder.generate(text.tokens[:1]))
    return {
        "decoder": repr(decoder),
        "parameters": f"{decoder.num_parameters:,}",
        "build": f"{build:.1f} s",
        "memory of the build": megabytes(peak),
        "decode from the first token": f"{decode:.1f} s",
        "every token right": tokens == text.tokens,
        "of the margins float32 may take": percent(decoder.record.share, 0),
    }


def proof():
    text = license_text()
    decoder = build_decoder(text, width=WIDTH)
    before = forget_peak()
    seconds, certificate = timed(lambda: certify(decoder, text))
    peak = memory("VmHWM") - before
    with tempfile.TemporaryDirectory() as folder:
        files = saved(folder, certificate, decoder, text)
        checking, checked = timed(lambda: check(*files))
    return {
        "certify": f"{seconds:.1f} s",
        "memory of it": megabytes(peak),
        "check": f"{checking:.1f} s",
        "verdicts": f"{certificate.verdict.name}, {checked.verdict.name}",
    }


def own_step(decoder, count):
    """A step of a layer as PyTorch has it: projections, a cache of `count` and more, a readout."""
    import torch
    from torch import nn

    heads, width, inner = decoder.layer.num_heads, decoder.layer.width, decoder.layer.head_dim
    query, key, value = (nn.Linear(width, heads * inner, bias=False) for _ in range(3))
    output = nn.Linear(heads * inner, width, bias=False)
    last = nn.Linear(width, decoder.end + 1, bias=False)
    tokens, positions = nn.Embedding(decoder.end + 1, width), nn.Embedding(count + MORE, width)
    keys, values = torch.randn(2, 1, heads, count + MORE, inner)

    def steps():
        following = torch.zeros(1, dtype=torch.int64)
        for place in range(count, count + MORE):
            x = tokens(following) + positions.weight[place]
            q, k, v = (each(x).view(1, heads, 1, inner) for each in (query, key, value))
            keys[:, :, place], values[:, :, place] = k[:, :, 0], v[:, :, 0]
            attended = nn.functional.scaled_dot_product_attention(
                q, keys[:, :, : place + 1], values[:, :, : place + 1]
            )
            following = last(x + output(attended.flatten(1))).argmax(dim=1)

    return steps


def token(counts):
    """Milliseconds of one token, ours and PyTorch's, and their ratio, for each length before it."""
    import torch

    text = license_text()
    decoder = build_decoder(text, width=WIDTH)
    rows = []
    for count in counts:
        prompt = text.tokens[:count]
        steps = own_step(decoder, count)
        found = []
        for _ in range(RUNS + 1):
            with torch.inference_mode():
                theirs, _ = timed(steps)
            # what is done once for all tokens is in both
            once, _ = timed(lambda prompt=prompt: decoder.generate(prompt, len(prompt) + 1))
            ours, tokens = timed(
                lambda prompt=prompt: decoder.generate(prompt, len(prompt) + 1 + MORE)
            )
            if tokens != text.tokens[: len(tokens)]:
                raise SystemExit("the decoder does not recite")
            found.append(((ours - once) / MORE, theirs / MORE))
        found = found[1:]  # the first one loads libraries
        ours, theirs = (statistics.median(each) for each in zip(*found, strict=True))
        ratio = statistics.median(theirs / ours for ours, theirs in found)
        rows.append([count, f"{1e3 * ours:.2f} ms", f"{1e3 * theirs:.2f} ms", f"{ratio:.1f}"])
    layer = decoder.layer
    return f"H = {layer.num_heads}, d = {layer.width}, d_h = {layer.head_dim}", rows


def training():
    """Adam until the largest logit is right at every position of so many tokens, or a cap."""
    import torch

    text = license_text(SHORT)
    warm()
    build, decoder = timed(lambda: build_decoder(text, width=WIDTH))
    torch.manual_seed(0)
    module = decoder.to_torch()
    sizes = {
        "embedding": 0.5, "positions": 0.5, "W_Q": WIDTH**-0.5, "W_K": WIDTH**-0.5,
        "U": decoder.layer.inner_dim**-0.5, "unembedding": WIDTH**-0.5,
    }  # fmt: skip
    for name, weights in module.named_parameters():
        torch.nn.init.normal_(weights, std=sizes[name])  # logits of heads as large as ours
    ids = torch.tensor(text.ids[None])
    following = torch.tensor([*text.ids[1:].tolist(), text.end])
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    start, steps, right = time.perf_counter(), 0, 0
    while True:
        logits = module(ids)[0]
        right = int((logits.argmax(dim=1) == following).sum())
        seconds = time.perf_counter() - start
        if right == len(text) or seconds > CAP:
            break
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, following).backward()
        optimizer.step()
        steps += 1
    return {
        "decoder": repr(decoder),
        "build": f"{build:.2f} s",
        "of the margins float32 may take": percent(decoder.record.share, 0),
        "Adam": f"{seconds:.1f} s, {steps} steps",
        "of the next tokens right": f"{right} of {len(text)}",
        "Adam / build": f"{seconds / build:.1f}",
        "proof of what Adam found": "none",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    CONSOLE.print(f"{os.cpu_count()} cores; LICENSE: {license_text()!r}\n")
    for work in (whole, proof, training):
        if work.__name__ in given.only:
            table(work.__name__, ["", ""], alone(work).items())
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    if "token" in given.only:
        os.environ |= one
        counts = [n for n in (250, 1000, 3000) if n + MORE < len(license_text())]
        shape, rows = alone(token, counts)
        table("one token", ["n", "ours", "PyTorch", "ratio"], rows)
        CONSOLE.print(shape)


if __name__ == "__main__":
    main()
