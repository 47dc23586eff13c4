"""Heads that are chosen before the targets, and heads that depend on them: both claims are true."""

import numpy as np
import pytest
import scipy.linalg

from constructive import (
    AttentionLayer,
    Dataset,
    Memorizer,
    TrainedRecord,
    certify,
    check,
    exact_capacity,
    generators,
    upper_bound_certificate,
)


def free_heads(data, num_heads, head_dim, seed=0):
    """Weights near uniform attention, where the readouts cancel, that give these very targets.

    At W_K = 0 and readouts of sum zero all outputs are zero, and linear in small keys: the row of
    an example is C_t v_h times Q_h^T e_t for each head, C_t the covariance of its tokens.
    """
    rng = np.random.default_rng(seed)
    tokens, queries, targets = data.contexts, data.queries, data.targets
    width = tokens.shape[2]
    query_weights = rng.standard_normal((num_heads, width, head_dim))
    directions = rng.standard_normal((num_heads, width))
    directions -= directions.mean(axis=0)
    scores = np.einsum("td,hdk->htk", queries, query_weights)
    centered = tokens - tokens.mean(axis=1, keepdims=True)
    moments = np.einsum("tni,tnj,hj->hti", centered, centered, directions) / tokens.shape[1]
    rows = np.einsum("hti,htk->thik", moments, scores).reshape(len(tokens), -1)
    factor = scipy.linalg.cho_factor(rows @ rows.T)
    scale, keys = 1e3, np.zeros((num_heads, width, head_dim))
    for _ in range(30):  # chord steps from zero keys; the larger the scale, the faster
        readout = (scale * directions).reshape(-1, 1)
        layer = AttentionLayer.from_effective_readout(query_weights, keys, readout)
        missing = (targets - layer(tokens, queries)[:, 0]) / scale
        step = rows.T @ scipy.linalg.cho_solve(factor, missing)
        keys = keys + step.reshape(keys.shape)
    record = TrainedRecord("solved for its targets", scalar_targets=True, constant=False)
    return Memorizer(layer, record)


SOME = generators.gaussian(num_examples=64, context_size=8, width=16, seed=5)  # c(E; 2) = 32
README = generators.uniform(num_examples=20, context_size=3, width=5, seed=0)


@pytest.mark.parametrize(("data", "head_dim", "holds"), [(SOME, 8, 32), (README, 3, 10)])
def test_free_heads_memorize_what_no_fixed_heads_do_and_the_statements_do_not_contradict(
    data, head_dim, holds
):
    heads, total = 2, data.num_examples
    assert exact_capacity(data, heads, head_dim).upper == holds < total
    fixed = upper_bound_certificate(data, heads)
    assert fixed.proved
    assert check(fixed, None, data).proved
    # For all W_Q and W_K there are targets without a readout: the heads come before the targets.
    stated = fixed["impossible"].statement
    assert stated == (
        f"for all W_Q and W_K of H = 2 heads rank Z <= {holds} on {total} different examples: "
        "whichever are chosen, some targets have no readout"
    )
    for seed in range(3):  # whatever the targets are, there are some weights
        targets = np.random.default_rng(seed).standard_normal(total)
        drawn = Dataset(data.contexts, data.queries, targets)
        memorizer = free_heads(drawn, heads, head_dim)
        free = certify(memorizer, drawn, claims=["error", "rank"], epsilon=1e-6)
        assert free["error"].verdict.name == "PROVED"
        assert free["rank"].verdict.name == "REFUTED"  # these heads have no readout for others
        alone = certify(memorizer, drawn, claims="error", epsilon=1e-6)
        assert check(alone, memorizer, drawn).proved
