"""Layers of labels, and records of layers that nobody built."""

import numpy as np
from sklearn.svm import LinearSVC

from constructive import AttentionLayer, Memorizer, TrainedRecord
from constructive.layers.record import BuildRecord, HeadRecord


def label_layer(data, num_heads):
    """Random heads, whose readout is a linear classifier with the classes of all the data."""
    labels, sign = data.target_matrix.argmax(axis=1), np.array([-1.0, 1.0])
    scale = np.abs(data.contexts).max()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        weights = rng.standard_normal((2, num_heads, data.width, 1))
        nothing = np.zeros((num_heads * data.width, data.target_dim))
        layer = AttentionLayer.from_effective_readout(*weights, nothing)
        z = layer.intermediate(data.contexts, data.queries) / scale
        found = LinearSVC(C=1e9, fit_intercept=False, max_iter=10**5, random_state=0)
        if found.fit(z, labels).score(z, labels) == 1.0:
            readout = found.coef_.T if len(found.coef_) > 1 else found.coef_.T * sign
            layer = AttentionLayer.from_effective_readout(*weights, readout / scale)
            return Memorizer(
                layer, TrainedRecord("LinearSVC", scalar_targets=False, constant=False)
            )
    raise ValueError("no readout of random heads was found that has these labels")


def record_of(construction, data, groups, order):
    """A record of heads with these groups (start, stop), of which nothing else is known."""
    return BuildRecord(
        construction=construction,
        num_examples=data.num_examples,
        context_size=data.context_size,
        capacity=data.num_examples,
        seed=0,
        saturated_fraction=0.0,
        scalar_targets=data.targets.ndim == 1,
        condition=1.0,
        max_error=0.0,
        largest_target=1.0,
        heads=tuple(HeadRecord(start, stop, 0.0, 0.0, stop) for start, stop in groups),
        order=tuple(map(int, order)),
    )
