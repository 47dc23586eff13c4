"""What it costs to have Rocq prove rank Z = T of stored layers: time, memory, and size of file.

    python tests/benchmarks/rocq_instances.py FOLDER [--large]

FOLDER keeps the compiled theory. --large adds T = 621 on a shared context, in two minutes.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

from constructive import build_memorizer, certify, generators
from constructive.certificates.rocq.confirm import confirm_rank, instance_of
from constructive.certificates.rocq.instance import write
from constructive.theory import rocq

CASES = [  # T, n, d, H, construction, shared
    (7, 3, 5, 3, "saturated", False),
    (31, 4, 8, 10, "saturated", False),
    (61, 7, 11, 10, "saturated", False),
    (100, 12, 16, 9, "saturated", False),
    (100, 12, 16, 9, "rank_one", False),
    (100, 12, 16, 9, "saturated", True),
]
LARGE = [(621, 32, 64, 20, "saturated", True)]


def measure(case, theory):
    total, size, width, heads, construction, shared = case
    make = generators.shared_context if shared else generators.uniform
    data = make(num_examples=total, context_size=size, width=width, seed=0)
    memorizer = build_memorizer(data, num_heads=heads, construction=construction)
    certificate = certify(memorizer, data, claims=["rank"])
    length = len(write(instance_of(certificate, memorizer, data)))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("c.json", "m.safetensors", "d.npz")]
        for thing, path in zip((certificate, memorizer, data), paths, strict=True):
            thing.save(path)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = confirm_rank(*paths, folder=theory)
        wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    kind = f"{construction}, {'shared' if shared else 'own'}"
    print(
        f"| {total} | {size} | {width} | {heads} | {memorizer.layer.head_dim} | {kind} | "
        f"{done.verdict.name} | {length / 1e6:.2f} MB | {wall:.0f} s | {cpu:.0f} s | "
        f"{after.ru_maxrss / 1e6:.2f} GB |",
        flush=True,
    )


def main():
    theory = Path(sys.argv[1])
    with rocq.compiled("checker/attention_rank", theory):
        pass
    print("| T | n | d | H | d_h | weights, contexts | | file | wall | CPU | largest process yet |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in CASES + LARGE * ("--large" in sys.argv):
        measure(case, theory)


if __name__ == "__main__":
    main()
