"""The steps of attention in float64 in the checker: what its bounds count, and hidden tokens."""

import numpy as np
import pytest
from real_parts import FREE
from test_float_claims import cancelling, sharpened


def random_layer(seed, heads=3, width=4, inner=2):
    rng = np.random.default_rng(seed)
    shape = heads, width, inner
    return {"W_Q": rng.standard_normal(shape), "W_K": rng.standard_normal(shape)}


class TestBounds:
    """What `Bounded` counts, which random logits do not reach."""

    @pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 3), (1, 100, 40)])
    def test_each_rounding_of_a_logit(self, checker, shape):
        """Sums over d, d_h and d entries, one after the other."""
        found = checker.floating.Bounded({"W_Q": np.zeros(shape)}).gamma
        steps = 2 * shape[1] + shape[2]
        assert checker.bounds.gamma(steps) <= found <= checker.bounds.gamma(steps + 16)

    @pytest.mark.parametrize("size", [2, 300, 5000])
    def test_each_rounding_of_a_sum(self, checker, size):
        """Numerators are summed, and so are averages."""
        logits = checker.floating.Sized(np.zeros((1, 1, size)), np.zeros((1, 1, 1)))
        numbers = checker.floating.Bounded({"W_Q": np.zeros((1, 1, 1))})
        attention, error, unknown = numbers.softmax(logits, None)
        assert error[0, 0] >= 2 * checker.bounds.gamma(size)
        assert (attention == 1 / size).all()
        assert not unknown.any()


class TestHidden:
    """Tokens beyond the length of a context."""

    @pytest.mark.parametrize("most", [0, 100])
    @pytest.mark.parametrize("seed", range(3))
    def test_they_do_not_count(self, checker, seed, most):
        """In floats, alone, and to digits: attention is that of a context without them."""
        rng, weights = np.random.default_rng(seed), random_layer(seed)
        weights = cancelling(sharpened(weights, [1.0, 1e4, 1.0]), 2)
        lengths = np.array([5, 2, 1, 4])
        data = {"contexts": rng.standard_normal((4, 5, 4)), "queries": rng.standard_normal((4, 4))}
        data["contexts"][1, 2:] = 10.0 * data["contexts"][1, :1]
        view = checker.views.Examples(data | {"lengths": lengths}, [slice(None)])
        ((_, _, attention, error),) = checker.floating.attended(weights, view, most, FREE)
        assert (attention[np.broadcast_to(self.beyond(lengths), attention.shape)] == 0.0).all()
        for k, length in enumerate(lengths):
            alone = {"contexts": data["contexts"][k : k + 1, :length]}
            alone["queries"] = data["queries"][k : k + 1]
            view = checker.views.Examples(alone, [slice(None)])
            ((_, _, wanted, off),) = checker.floating.attended(weights, view, most, FREE)
            apart = np.abs(attention[k, :, :length] - wanted[0]).sum(axis=1)
            assert (apart <= error[k] + off[0]).all()
            assert most == 0 or error[k].max() < 1e-9

    def beyond(self, lengths):
        return (np.arange(5) >= lengths[:, None])[:, None]
