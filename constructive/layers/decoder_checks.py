"""What the parts of a decoder have to be, and what it is given. Each check raises what it says."""

from collections.abc import Mapping

import numpy as np

from constructive.data.corpus import Text, Token
from constructive.layers.causal import CausalLayer
from constructive.support.arrays import Array, Integers
from constructive.support.errors import DataError, ParameterError, shown


def require_parts(layer: CausalLayer, tensors: Mapping[str, Array], count: int) -> None:
    """Require a skip connection, and arrays that fit V = count tokens: ParameterError."""
    if not layer.skip:
        raise ParameterError(
            "the layer of a decoder has no skip connection",
            witness=layer.inner_dim,
            suggestion="CausalLayer(..., skip=True), with a readout of (H + 1) d rows",
        )
    shapes = {name: array.shape for name, array in tensors.items()}
    positions = len(tensors["positions"])
    wanted = {
        "embedding": (count, layer.width),
        "positions": (positions, layer.width),
        "unembedding": (count + 1, layer.target_dim),
    }
    if not positions or any(shapes[name] != shape for name, shape in wanted.items()):
        raise ParameterError(
            f"arrays have shapes {shapes}, for {count} tokens",
            witness=shapes,
            suggestion="embedding (V, d), positions (L, d), unembedding (V + 1, d_out)",
        )
    kinds = {str(array.dtype) for array in tensors.values()}
    finite = all(np.isfinite(array).all() for array in tensors.values())
    if kinds != {"float32"} or not finite:
        raise ParameterError(
            f"arrays are {', '.join(sorted(kinds))}{'' if finite else ', not all finite'}",
            witness=tuple(sorted(kinds)),
            suggestion="finite float32",
        )


def require_ids(numbers: Integers, count: int, positions: int) -> None:
    """Require numbers of V = count tokens (S, N), of sequences that are not too long: DataError."""
    whole = numbers.ndim == 2 and numbers.dtype.kind in "iu" and numbers.size
    if not whole or numbers.min() < 0 or numbers.max() >= count:
        raise DataError(
            "ids are not numbers of tokens (S, N)",
            witness=shown(numbers.shape),
            suggestion=f"integers from 0 to {count - 1}; `ids` finds them",
        )
    if numbers.shape[1] > positions:
        raise DataError(
            f"{numbers.shape[1]} tokens are more than the {positions} positions of this decoder",
            witness=numbers.shape[1],
            suggestion=f"sequences of at most {positions} tokens",
        )


def require_text(text: object, vocabulary: tuple[Token, ...], unit: str, positions: int) -> None:
    """Require a `Text` of these tokens that is not too long: DataError."""
    if not isinstance(text, Text):
        raise DataError(
            f"the text is a {type(text).__name__}, not a Text",
            witness=type(text).__name__,
            suggestion="Text.words(string), Text.bytes(string) or Text.load(path)",
        )
    if text.vocabulary != vocabulary or text.unit != unit:
        raise DataError(
            f"the text has other tokens than the decoder: {text!r}",
            witness=(text.unit, len(text.vocabulary)),
            suggestion="the text which it was built for",
        )
    if text.longest > positions:
        raise DataError(
            f"the text has {text.longest} tokens, and the decoder {positions} positions",
            witness=text.longest,
            suggestion="the text which it was built for",
        )
