"""What the claims about one decoder share."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.data.texts import Text
from constructive.exact.float_model import FloatModel
from constructive.layers.causal.margins import Margins
from constructive.layers.decoder import Decoder
from constructive.layers.recital import recital


@dataclass
class Subject:
    """A decoder, a text, and what was found of them.

    Attributes:
        decoder: the weights
        text: which has its tokens
        fingerprints: the SHA-256 of the data, followed by that of the weights
        rng: of primes' points
        model: how programs round, of which the claim *executed* speaks
        known: the margins, where they were bounded before with the usual model
    """

    decoder: Decoder
    text: Text
    fingerprints: bytes
    rng: np.random.Generator
    model: FloatModel
    known: Margins | None = None

    @cached_property
    def margins(self) -> Margins:
        """The margins of all positions. Raises PrecisionError where there are none."""
        if self.known is not None:
            return self.known
        return recital(self.decoder, self.text, model=self.model)

    def witness(self, index: int) -> tuple[int, int]:
        """A position, as text and token.

        Args:
            index: among the margins
        """
        text, token = self.text.position(int(self.margins.places[index]))
        return int(text), int(token)
