"""Heads that are chosen before the targets, and heads that depend on them: both claims are true."""

import numpy as np
import pytest

from constructive import (
    Dataset,
    build_memorizer,
    certify,
    check,
    generators,
    upper_bound_certificate,
)

SOME = generators.gaussian(num_examples=64, context_size=8, width=16, seed=5)  # c(E; 2) = 32
README = generators.uniform(num_examples=20, context_size=3, width=5, seed=0)


@pytest.mark.parametrize(("data", "head_dim", "holds"), [(SOME, 8, 32), (README, 3, 10)])
def test_free_heads_memorize_what_no_fixed_heads_do_and_the_statements_do_not_contradict(
    data, head_dim, holds
):
    heads, total = 2, data.num_examples
    fixed = upper_bound_certificate(data, heads)
    assert fixed.proved
    assert check(fixed, None, data).proved
    # For all W_Q and W_K there are targets without a readout: the heads come before the targets.
    assert fixed["impossible"].statement == (
        f"for all W_Q and W_K of H = 2 heads rank Z <= {holds} on {total} different examples: "
        "whichever are chosen, some targets have no readout"
    )
    for seed in range(3):  # whatever the targets are, there are some weights
        targets = np.random.default_rng(seed).standard_normal(total)
        drawn = Dataset(data.contexts, data.queries, targets)
        sizes = {"num_heads": heads, "head_dim": head_dim}
        memorizer = build_memorizer(drawn, construction="tangent", **sizes)
        free = certify(memorizer, drawn, claims=["error", "rank"], epsilon=1e-6)
        assert free["error"].verdict.name == "PROVED"
        assert free["rank"].verdict.name == "REFUTED"  # these heads have no readout for others
        alone = certify(memorizer, drawn, claims="error", epsilon=1e-6)
        assert check(alone, memorizer, drawn).proved
