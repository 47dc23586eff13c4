"""The layers of memorizers: multi-head attention with a linear readout, in three kinds of numbers.

`layer(contexts, queries)` is `layer.intermediate(contexts, queries)` times the effective readout,
up to the rounding of its numbers. `max_error` is 0.0 only where outputs equal targets, as it
computes. Code that needs plain floats calls `require_float_layer`.

Tables, `enclose` and `certify` read four things of all three, beside their shapes:

- `in_words`: in what numbers the weights are
- `leading`: the `AttentionLayer` of their floats, which is the layer itself if these are all; a
  `RationalLayer` has none, and raises ParameterError
- `corrections`: arrays (H, d, d_v) of float64 that are added to the W_V of `leading`, exactly
- `first_bits`: with how many bits enclosures start

`float_model`, which exports write down, is of an `AttentionLayer` alone.
"""

from typing import TypeAlias

from constructive.layers.attention import AttentionLayer
from constructive.layers.extended import ExtendedLayer
from constructive.layers.rational import RationalLayer
from constructive.support.errors import ParameterError

Layer: TypeAlias = AttentionLayer | ExtendedLayer | RationalLayer


def require_float_layer(layer: Layer, purpose: str) -> AttentionLayer:
    """Return a layer of floats as it is. Raises ParameterError, with the purpose, for others."""
    if isinstance(layer, AttentionLayer):
        return layer
    kind = type(layer).__name__
    raise ParameterError(
        f"{purpose} hold floats, not the weights of {kind}",
        witness=kind,
        suggestion="a memorizer built with precision=53 and arithmetic='float'",
    )
