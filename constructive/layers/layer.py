"""What a `Memorizer` asks of a layer, in any arithmetic.

`AttentionLayer` computes in floats, `ExtendedLayer` in balls with a readout of more bits,
`RationalLayer` in exact rational numbers. A `Memorizer` holds any of them; code that needs floats
asks for them (`Layer.floats`), and is refused where there are none.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from constructive.layers.attention import AttentionLayer
from constructive.layers.shapes import HeadShapes
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


class Layer(Protocol):
    """Multi-head attention with a linear readout, in one arithmetic.

    The laws: `layer(contexts, queries)` is `layer.intermediate(contexts, queries)` times the
    effective readout, up to the rounding of its arithmetic; `max_error` is 0.0 only where they
    equal the targets, as it computes.
    """

    @property
    def query_weights(self) -> npt.NDArray[Any]:
        """W_Q, of shape (H, d, d_h)."""
        ...

    @property
    def key_weights(self) -> npt.NDArray[Any]:
        """W_K, of shape (H, d, d_h)."""
        ...

    @property
    def num_heads(self) -> int:
        """H, the number of heads."""
        ...

    @property
    def width(self) -> int:
        """d, the number of entries of a token or a query."""
        ...

    @property
    def head_dim(self) -> int:
        """d_h, the inner dimension of W_K W_Q^T."""
        ...

    @property
    def target_dim(self) -> int:
        """d_out, the number of entries of the output."""
        ...

    @property
    def num_parameters(self) -> int:
        """The number of weights."""
        ...

    @property
    def in_words(self) -> str:
        """In what numbers the weights are, in words."""
        ...

    @property
    def tensors(self) -> dict[str, Array]:
        """The weights by the names which files give them. ParameterError if they are not floats."""
        ...

    @property
    def leading(self) -> AttentionLayer:
        """Floats whose W_Q and W_K, and so whose Z, are those of this layer. ParameterError."""
        ...

    def __call__(self, contexts: Any, queries: Any) -> npt.NDArray[Any]:  # noqa: ANN401
        """Evaluate f: (T, d_out). DataError if shapes do not fit."""
        ...

    def intermediate(self, contexts: Any, queries: Any) -> npt.NDArray[Any]:  # noqa: ANN401
        """Return the intermediate representation Z: (T, H d). DataError if shapes do not fit."""
        ...

    def check_fits(self, dataset: Any) -> None:  # noqa: ANN401 - in any arithmetic
        """Raise DataError if a data set does not fit the layer."""
        ...

    def max_error(self, dataset: Any) -> float:  # noqa: ANN401
        """Return largest `|f - y|` over a data set. DataError if it does not fit."""
        ...

    def floats(self, purpose: str) -> AttentionLayer:
        """Return the layer if its weights are just floats. ParameterError names the purpose."""
        ...

    def with_outputs(self, rng: np.random.Generator) -> "Layer":
        """Return a layer of the same f, whose W_O and W_D are drawn (`layers.outputs`)."""
        ...

    @property
    def corrections(self) -> Iterable[Array]:
        """What is added to W_V of `leading`, exactly: arrays (H, d, d_v)."""
        ...

    @property
    def first_bits(self) -> int:
        """With how many bits to start in balls."""
        ...

    @property
    def precision(self) -> int:
        """How many bits the readout has: 53 of floats."""
        ...


class NotFloats(HeadShapes):
    """A layer whose weights are not just floats, so that nothing that needs these takes it."""

    def floats(self, purpose: str) -> AttentionLayer:
        """Refuse, as the weights are not floats.

        Args:
            purpose: what floats are needed for, as the error names it

        Raises:
            ParameterError: always
        """
        kind = type(self).__name__
        raise ParameterError(
            f"{purpose} hold floats, not the weights of {kind}",
            witness=kind,
            suggestion="a memorizer built with precision=53 and arithmetic='float'",
        )
