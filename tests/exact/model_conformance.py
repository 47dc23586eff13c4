"""What every model of floating-point programs must do: one line of test for a new row."""

from fractions import Fraction

import numpy as np

from constructive.exact.float_model import MOST_TERMS


def check_model(model):
    """Bounds are finite, grow with what they count, follow the formulas, and are put in words.

    Args:
        model: a `FloatModel`
    """
    counts = np.unique(np.geomspace(1, MOST_TERMS, 300).astype(int))
    for bound in (model.gamma, model.average, model.flushed):
        values = bound(counts)
        assert (values > 0).all()
        assert np.isfinite(values[0])
        assert (np.diff(values[np.isfinite(values)]) >= 0).all()
    for bound in (model.gamma, model.average):
        assert np.isinf(bound([MOST_TERMS + 1, 10.0**30])).all()
    assert model.gamma([[1, 2], [3, 4]]).shape == model.average([[1, 2], [3, 4]]).shape == (2, 2)
    assert model.lost(2) > model.lost(1) > 0
    _follows_formulas(model)
    zeta, more = model.weighted(counts, 1, 1e-6)
    assert (zeta + more <= model.average(counts) * (1 + 1e-9))[np.isfinite(zeta)].all()
    zeta, more = model.weighted(counts, counts, 0.0)
    np.testing.assert_allclose(zeta, model.average(counts), rtol=1e-9)
    assert (more[np.isfinite(more)] < 1e-300).all()
    errors = model.exponents(counts)
    assert (errors > 0.0).all() if model.merged else not errors.any()
    assert model.keeps_logits == (not model.merged and model.constants == 0)
    for words in (model.of_layers(), model.of_decoders()):
        assert f"blocks of {model.block} tokens" in words
        assert ("logsumexp" in words) == model.merged
        assert (f"in {model.constants} roundings" in words) == (model.constants > 0)
        assert (f"stored in {model.storage.name}" in words) == (model.stored_unit > 0)
        assert ("where underflow is gradual" in words) == (
            model.stored_unit > 0 and model.storage.gradual
        )
    assert "without error" in model.of_layers(exact=True)


def _follows_formulas(model):
    """The bounds of `exact.float_model`, as it writes them, are just below those of the model."""
    u, e, s = map(Fraction, (model.unit, model.exp_error, model.stored_unit))
    nested = 1 + model.merged
    for count in {1, 2, 100, min(model.block, 1000), min(model.block, 1000) + 1, 50_000}:
        gamma = nested * count * u / (1 - nested * count * u)
        blocks = 1 + model.merged - (1 - count) // model.block  # they begin anywhere
        t = nested * blocks * (e + u)
        eta = t / (1 - t)
        beta = eta + gamma + eta * gamma
        rho = (1 + nested * u) ** 2 * (1 + s) ** 2 / (1 - s) - 1
        zeta = (2 * beta + rho + beta * rho) / (1 - beta)
        pairs = [(gamma, model.gamma(nested * count))]
        if np.isfinite(model.average(count)):
            pairs.append((zeta, model.average(count)))
        for formula, bound in pairs:
            assert formula <= float(bound) <= float(formula) * (1 + 1e-8), count


def check_contraction(contraction, *, free):
    """No tree of contractions rounds a path of a logit more often than it counts, and one as often.

    Args:
        contraction: a `Contraction`
        free: whether it allows sums over several indices
    """
    arrays = {"x": "i", "K": "ik", "Q": "jk", "e": "j"}
    for width, inner in ((1, 1), (2, 1), (1, 3), (3, 2)):
        extent = {"i": width, "j": width, "k": inner}
        worst = max(_roundings(arrays, extent, free=free))
        assert contraction.logits(width, inner) == worst


def _roundings(arrays, extent, *, free):
    """The roundings of a path in every tree of products of two arrays, or of any sum at the end."""
    if len(arrays) == 1:
        yield 0
        return
    if free:  # all products first, and one sum
        terms = np.prod([extent[index] for index in set("".join(arrays.values()))])
        yield int(terms - 1 + len(arrays) - 1)
    names = list(arrays)
    for a, one in enumerate(names):
        for other in names[a + 1 :]:
            rest = {name: arrays[name] for name in names if name not in (one, other)}
            both = set(arrays[one]) | set(arrays[other])
            kept = both & set("".join(rest.values()))
            if len(both - kept) != 1:
                continue
            summed = extent[(both - kept).pop()]
            joined = rest | {one + other: "".join(sorted(kept))}
            for more in _roundings(joined, extent, free=False):
                yield 1 + (summed - 1) + more
