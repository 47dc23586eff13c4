"""A search for the program, and the case, that use the largest part of a bound."""

import dataclasses

import numpy as np
from cases import DecoderCase, LayerCase, share
from emulated import choices, drawn

from constructive import AttentionLayer, Dataset
from constructive.layers.causal import CausalLayer

TOGETHER = (
    ("logits", "logit_order"), ("outputs", "apart", "output_order"), ("average_order",),
    ("form", "scale"), ("stored",), ("fused", "flush"), ("edge", "signs"), ("seed",),
)  # fmt: skip
"""Fields of programs that are drawn anew together: they fit each other."""


def climb(case, model, rng, steps):
    """The largest share there is after so many steps, and what has it."""
    choose = choices(int(rng.integers(1 << 30)))
    decoder = isinstance(case, DecoderCase)
    best = drawn(model, choose, decoder=decoder)
    bounds = case.bounds(model)
    top = share(case, best, bounds)
    for _ in range(steps):
        program, where, known = best, case, bounds
        if rng.random() < 0.5:
            other = drawn(model, choose, decoder=decoder)
            names = TOGETHER[rng.integers(len(TOGETHER))]
            program = dataclasses.replace(best, **{name: getattr(other, name) for name in names})
        else:
            where = moved(case, rng)
            known = where.bounds(model)
        found = share(where, program, known)
        if found > top:
            top, best, case, bounds = found, program, where, known
    return top, best, case


def moved(case, rng):
    """A case with some entries changed; whole numbers stay such, as decoders need them."""
    if isinstance(case, LayerCase):
        weights = list(case.layer.tensors.values())
        arrays = [*weights, case.dataset.contexts, case.dataset.queries]
        at = rng.integers(len(arrays))
        arrays[at] = changed(arrays[at], rng).astype(arrays[at].dtype)
        data = Dataset(arrays[5], arrays[6], case.dataset.targets)
        return LayerCase(AttentionLayer(*arrays[:5]), data)
    weights = [*case.layer.tensors.values(), case.unembedding]
    at = rng.integers(2, 4)
    weights[at] = changed(weights[at], rng).astype(np.float16).astype(np.float32)
    if rng.random() < 0.3:
        signs = rng.choice([-1.0, 1.0], case.tokens.shape[2]).astype(np.float32)
        case = case._replace(tokens=np.where(rng.random() < 0.5, abs(case.tokens), 1) * signs)
    layer = CausalLayer(*weights[:3], case.layer.window, case.layer.skip)
    return DecoderCase(layer, weights[3], case.tokens.astype(np.float32))


def changed(array, rng):
    """Signs, sizes or last places of some entries."""
    kind = rng.integers(5)
    some = rng.random(array.shape) < rng.choice([0.2, 1.0])
    if kind == 0:
        return np.where(some, -array, array)
    if kind == 1:
        return np.where(some, array * 2.0 ** rng.integers(-3, 4), array)
    if kind == 2:
        return np.where(some, array * (1.0 + 2.0**-12 * rng.standard_normal(array.shape)), array)
    if kind == 3:
        return np.where(some, np.abs(array), array)
    return np.where(some, rng.standard_normal(array.shape), array)
