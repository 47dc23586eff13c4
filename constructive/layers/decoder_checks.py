"""What the weights of a decoder have to be."""

from collections.abc import Mapping

import numpy as np

from constructive.layers.causal.layer import CausalLayer
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError


def require_parts(layer: CausalLayer, tensors: Mapping[str, Array], count: int) -> None:
    """Require that weights fit together.

    Args:
        layer: of the decoder
        tensors: all weights by name
        count: V, of tokens

    Raises:
        ParameterError: for a layer without a skip connection, and for shapes or dtypes that do not
            fit
    """
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
