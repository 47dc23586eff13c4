"""Layers with data, drawn by a number: built ones and random ones, at the edge of each claim."""

import dataclasses

import numpy as np

from constructive import AttentionLayer, Dataset, Memorizer, build_memorizer, generators
from constructive.layers.record import TrainedRecord

DRAWN = TrainedRecord("drawn", scalar_targets=False, constant=False)


def random_layer(rng, sharpness):
    """A layer of random weights, contexts, queries and its outputs."""
    heads, width, inner, value_dim, outputs, size, total = (
        int(rng.integers(1, most)) for most in (6, 7, 4, 4, 4, 7, 20)
    )
    draw = rng.standard_normal
    weights = draw((heads, width, inner)) * sharpness, draw((heads, width, inner))
    values = draw((heads, width, value_dim)), draw((heads * value_dim, value_dim))
    layer = AttentionLayer(*weights, *values, draw((value_dim, outputs)))
    contexts, queries = draw((total, size, width)), draw((total, width))
    contexts = contexts[0] if rng.random() < 0.3 else contexts
    return layer, contexts, queries, layer(contexts, queries)


def built(rng, kind, seed):
    """A layer that is built, as many examples as it holds at most, some in float32."""
    size, width, heads = (int(rng.integers(*ends)) for ends in ((2, 7), (6, 20), (1, 8)))
    total = int(rng.integers(1, heads * (min(size, width) - 1) + 2))
    shapes = {"num_examples": total, "context_size": size, "width": width, "seed": seed}
    if kind == 4:  # more than Theorem 1 says
        width, heads = int(rng.integers(4, 9)), int(rng.integers(2, 5))
        total = int(rng.integers(2, heads * width))
        shapes |= {"num_examples": total, "context_size": 5, "width": width}
    make = {1: generators.gaussian, 2: generators.shared_context, 4: generators.gaussian}
    if kind == 3:
        shapes["target_dim"] = 3
    data = make.get(kind, generators.uniform)(**shapes)
    construction = "generic" if kind == 4 else "auto"
    memorizer = build_memorizer(data, num_heads=heads, construction=construction, seed=seed)
    return (memorizer.astype(np.float32) if rng.random() < 0.2 else memorizer), data


def broken(rng, seed):
    """A layer that is built, and data of which something breaks a claim, or nearly does."""
    data = generators.uniform(num_examples=12, context_size=4, width=8, seed=seed)
    memorizer = build_memorizer(data, num_heads=4, seed=seed)
    contexts, queries = data.contexts.copy(), data.queries.copy()
    one, other = rng.choice(12, 2, replace=False)
    match int(rng.integers(6)):
        case 0:
            queries[one] = 2 * queries[other]
        case 1:
            contexts[one, 0] = contexts[one, 1] + contexts[one, 2]
        case 2:
            queries[one], contexts[one] = queries[other], contexts[other]
        case 3:
            contexts[one, 0] = contexts[one, 1] * (1 + 2.0**-52)
        case 4:
            queries[11] = queries[0] + queries[1] * 2.0**-60
    return memorizer, Dataset(contexts, queries, data.targets)


def case(number):
    """A memorizer and data: five in ten are built, the others random."""
    rng, kind = np.random.default_rng([7, number]), number % 10
    if kind < 5:
        return built(rng, kind, number)
    if kind == 9:
        return broken(rng, number)
    sharpness = 1.0 if kind == 7 else 10.0 ** rng.integers(-1, 5)
    layer, contexts, queries, outputs = random_layer(rng, sharpness)
    if kind == 6:  # errors of any size
        outputs = outputs + rng.standard_normal(outputs.shape) * 10.0 ** rng.integers(-16, 0)
    if kind == 7:  # at any scale
        scale = 2.0 ** int(rng.integers(-400, 400))
        outputs = outputs * scale
        layer = dataclasses.replace(layer, readout_weights=layer.readout_weights * scale)
    if kind == 8:  # labels, some wrong, some targets not one-hot
        outputs = np.eye(outputs.shape[1])[outputs.argmax(axis=1)]
        if rng.random() < 0.4:
            outputs[0] = np.roll(outputs[0], 1)
        if rng.random() < 0.2:
            outputs[-1, 0] += 0.5
    return Memorizer(layer, DRAWN), Dataset(contexts, queries, outputs)
