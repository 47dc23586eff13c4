"""A sequence memorizer as a PyTorch module. Needs torch (`pip install ".[torch]"`)."""

from dataclasses import astuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu, scaled_dot_product_attention

from constructive.sequences.attention import WEIGHTS, UniformAttention
from constructive.sequences.network import Network
from constructive.sequences.rounded import RoundedNetwork, require_exact
from constructive.support.errors import ParameterError

_DTYPES = {torch.float64: np.float64, torch.float32: np.float32}


class TokenwiseModule(nn.Module):
    """A ReLU network of linear layers with skip connections.

    Example:
        >>> from constructive.sequences.network import Affine, Program
        >>> program = Program(("x",), {"r": Affine({"x": 2}, 1)}, (), (Affine({"r": 1}),))
        >>> module = TokenwiseModule(program.network(), torch.float64)
        >>> module(torch.tensor([[3.0]], dtype=torch.float64)).tolist()
        [[7.0]]
    """

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        super().__init__()
        require_exact(network.numbers(), _DTYPES[dtype])
        layers = RoundedNetwork.of(network, _DTYPES[dtype]).layers
        self.weights = nn.ParameterList(torch.tensor(weights) for weights, _ in layers)
        self.biases = nn.ParameterList(torch.tensor(bias) for _, bias in layers)

    def forward(self, values: Tensor) -> Tensor:
        """Evaluate tokens: (..., inputs) to (..., outputs)."""
        start, *inner, last = zip(self.weights, self.biases, strict=True)
        values = linear(values, *start)
        for first, second in zip(inner[::2], inner[1::2], strict=True):
            values = values + linear(relu(linear(values, *first)), *second)
        return linear(values, *last)


class SequenceModule(nn.Module):
    """Two token-wise networks around a head of attention whose queries and keys are zero.

    Made by `SequenceMemorizer.to_torch`.

    Args:
        embedding: of the `SequenceMemorizer`
        attention: of the `SequenceMemorizer`
        classifier: of the `SequenceMemorizer`
        task: of the `SequenceMemorizer`
        dtype: torch.float64, the default, or torch.float32

    Attributes:
        W_Q: (width, 1), for a stream of so many entries
        W_K: (width, 1)
        W_V: (width, 1)
        W_O: (1, width)

    Raises:
        ParameterError: for another dtype
        PrecisionError: where a weight is not a number of that dtype

    Example:
        >>> from constructive import build_sequence_memorizer
        >>> memorizer = build_sequence_memorizer(["ab", "cd"], ["x", "y"])
        >>> memorizer.to_torch()(torch.tensor(memorizer.arrays(["ba", "cd"]))).round().tolist()
        [0.0, 1.0]
    """

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor

    def __init__(
        self,
        embedding: Network,
        attention: UniformAttention,
        classifier: Network,
        *,
        task: str,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if dtype not in _DTYPES:
            raise ParameterError(
                f"dtype={dtype!r} has too few bits for sequences",
                witness=str(dtype),
                suggestion="torch.float64, or torch.float32 for few of them",
            )
        require_exact(attention.numbers(), _DTYPES[dtype])
        self.task = task
        self.embedding = TokenwiseModule(embedding, dtype)
        self.classifier = TokenwiseModule(classifier, dtype)
        for name, weights in zip(WEIGHTS, astuple(attention), strict=True):
            tensor = torch.tensor([float(weight) for weight in weights], dtype=dtype)
            shaped = tensor[None, :] if name == "W_O" else tensor[:, None]
            self.register_parameter(name, nn.Parameter(shaped))

    def forward(self, sequences: Tensor) -> Tensor:
        """Evaluate sequences (N, n, d): outputs (N,), or (N, n) for seq2seq.

        Args:
            sequences: (N, n, d), in the dtype of the weights (`SequenceMemorizer.arrays`)
        """
        stream = self.embedding(sequences)
        query, key, value = (stream @ weights for weights in (self.W_Q, self.W_K, self.W_V))
        attended = scaled_dot_product_attention(query, key, value, scale=1.0)
        moved = stream + attended @ self.W_O
        own = moved if self.task == "seq2seq" else moved[:, -1]
        outputs: Tensor = self.classifier(own)[..., 0]
        return outputs
