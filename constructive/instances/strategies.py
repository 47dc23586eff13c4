"""Hypothesis strategies for networks of softmax heads, and for twins with proved answers.

`constructive.strategies` has the same names.
"""

import numpy as np

from constructive.instances.instance import Twins
from constructive.instances.making import KINDS, planted
from constructive.instances.network import Head, Network
from constructive.support.errors import MissingExtraError, hint

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtraError(
        "constructive.instances.strategies needs hypothesis, which is not installed",
        witness="hypothesis",
        suggestion=hint("strategies"),
    ) from error

_LARGEST_SEED = 2**16
_FRACTION = 8.0


@st.composite
def softmax_networks(
    draw: st.DrawFn,
    /,
    *,
    max_inputs: int = 3,
    max_tokens: int = 4,
    max_heads: int = 3,
    outputs: int = 1,
    largest: int = 64,
) -> Network:
    """Small networks whose entries are multiples of 1/8.

    Example:
        >>> from hypothesis import given
        >>> @given(softmax_networks())
        ... def test_it_is_an_average(network):
        ...     (output,) = network(np.zeros((1, network.input_dim)))[0]
        ...     most = sum(head.values.max() for head in network.heads)
        ...     assert output <= most + 1e-9
        >>> test_it_is_an_average()
    """
    inputs = draw(st.integers(1, max_inputs))
    tokens = draw(st.integers(2, max_tokens))
    entries = st.integers(-8 * largest, 8 * largest)

    def array(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        count = int(np.prod(shape))
        drawn = draw(st.lists(entries, min_size=count, max_size=count))
        return np.array(drawn, dtype=np.float64).reshape(shape) / _FRACTION

    heads = draw(st.integers(1, max_heads))
    return Network(
        tuple(
            Head(array(tokens, inputs), array(tokens), array(tokens, outputs)) for _ in range(heads)
        )
    )


def twins(
    *, max_inputs: int = 8, scales: tuple[float, float] = (4.0, 256.0), margin: float = 0.05
) -> st.SearchStrategy[Twins]:
    """Twins of all kinds with a planted maximum: one network, two thresholds, opposite answers.

    Example:
        >>> from hypothesis import given, settings
        >>> @settings(max_examples=10)
        ... @given(twins())
        ... def test_twins_have_one_network(pair):
        ...     assert pair.sat.network is pair.unsat.network
        >>> test_twins_have_one_network()
    """
    return st.builds(
        planted,
        dim=st.integers(1, max_inputs),
        scale=st.floats(*scales),
        kind=st.sampled_from(KINDS),
        margin=st.just(margin),
        seed=st.integers(0, _LARGEST_SEED),
    )
