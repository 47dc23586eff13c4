"""onnxruntime's GroupQueryAttention: quantized caches, and rotary embeddings of its own."""

import sys
from pathlib import Path

import numpy as np
import pytest

from constructive.kernels import (
    CASES,
    Problem,
    Quantized,
    Rotated,
    Spec,
    examine,
    packed_four_bits,
)
from constructive.kernels.masks import Causal
from constructive.kernels.problem import attempt

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "kernels"))

from of_onnx import evaluated, graph

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
KINDS = {"PER_TENSOR": "tensor", "PER_CHANNEL": "channel"}


def run(problem, q, k, v, past, *, scales=(None, None), rotary=(None, None), **attributes):
    """The output for the last queries: `past` are keys and values of a cache."""
    spec = problem.spec

    def flat(x):
        found = np.asarray(x, np.float32).swapaxes(1, 2)
        return np.ascontiguousarray(found.reshape(*found.shape[:2], -1))

    new = slice(spec.keys - spec.queries, None)
    inputs = {
        "q": flat(q), "k": flat(k[:, :, new]), "v": flat(v[:, :, new]),
        "past_k": past[0], "past_v": past[1],
        "seqlens": np.full(spec.batch, spec.keys - 1, np.int32),
        "total": np.array(spec.keys, np.int32), "cos": rotary[0], "sin": rotary[1],
        "positions": None, "bias": None, "sink": None, "k_scale": scales[0], "v_scale": scales[1],
    }  # fmt: skip
    heads = {"num_heads": spec.heads[0], "kv_num_heads": spec.heads[1], "scale": spec.factor}
    content = graph("GroupQueryAttention", inputs, heads | attributes, 3)
    out = evaluated(content, {n: x for n, x in inputs.items() if x is not None})
    return out.reshape(spec.batch, spec.queries, spec.heads[0], -1).swapaxes(1, 2)


def quantized_problems(kind, bits):
    for seed, case in enumerate(2 * [case for case in CASES if case != "fine scale"]):
        r = np.random.default_rng(seed)
        kv, queries = int(r.integers(1, 4)), 1 if seed % 2 else 4
        spec = Spec(
            batch=1 + seed % 2, heads=(kv * int(r.integers(1, 3)), kv), queries=queries,
            keys=queries + int(r.integers(1, 50)), head_dim=64, masks=(Causal(),), seed=seed,
        )  # fmt: skip
        problem = attempt(spec, case)
        if isinstance(problem, Problem):
            yield Quantized.of(problem, form=f"int{bits}", k=KINDS[kind], v=KINDS[kind])


def passes(quantized, kind, bits, v_scale):
    """Keys before the queries are in a cache; new ones are given in real numbers."""
    problem, old = quantized.problem, quantized.problem.spec.keys - quantized.problem.spec.queries
    past = [np.ascontiguousarray(x[:, :, :old]) for x in (quantized.k, quantized.v)]
    if bits == 4:
        past = [packed_four_bits(x, "int4") for x in past]
    out = run(
        problem, problem.q, problem.k, problem.v, past, scales=(quantized.k_scale, v_scale),
        k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits,
    )  # fmt: skip
    return examine(problem, out).passed


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_quantized_caches(kind, bits):
    ran = caught = 0
    for quantized in quantized_problems(kind, bits):
        assert passes(quantized, kind, bits, quantized.v_scale)
        caught += not passes(quantized, kind, bits, np.ones_like(quantized.v_scale))
        ran += 1
    assert ran >= 18
    assert caught >= ran - 2  # a row that reads its own key reads none of the cache


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_embeddings(layout):
    ran = caught = 0
    for seed, case in enumerate(("random", "ties", "last", "low")):
        for queries, keys in ((1, 30 + seed), (7, 7)):
            spec = Spec(
                batch=2, heads=(4, 2), queries=queries, keys=keys, masks=(Causal(),), seed=seed
            )
            problem = Problem.build(spec, case)
            rotated = Rotated.of(problem, layout=layout)
            new = keys - queries
            past = [np.float32(x[:, :, :new]) for x in (problem.k, problem.v)]
            for turn in (0, 1):
                out = run(
                    problem, rotated.q, rotated.k, problem.v, past,
                    rotary=(rotated.cos, rotated.sin), do_rotary=1,
                    rotary_interleaved=(layout == "interleaved") ^ turn,
                )  # fmt: skip
                passed = examine(problem, out).passed
                assert passed or turn
                caught += not passed
            ran += 1
    assert caught >= ran - 1
