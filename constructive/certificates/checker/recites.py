"""The claims *recites* and *executed* of a decoder: margins of the next token, everywhere."""

from bounds import above, below
from claim import Claim
from executed import OfModel
from files import require
from float_model import INTEGER_MODELS, MODELS, of_decoders


class Recites(Claim):
    """The least margin is what is claimed, or more."""

    name = "recites"
    statement = (
        "at all {} positions of S = {} texts the next token has the largest "
        "logit, by {} or more, in real arithmetic"
    )

    def check(self, about):
        least = about.margins[0]
        known = 0.0 < self.bound <= least
        require(known, f"recites: the least margin is {below(least, 6)}, as shown")
        return about.places, len(about.texts), repr(self.bound)


class ExecutedOfDecoder(OfModel):
    """Rounding takes less than the margin everywhere."""

    models = MODELS | INTEGER_MODELS
    statement = (
        "at all {} positions of S = {} texts the next token has the largest "
        "logit for every program of the model {!r}: {}"
    )

    def check(self, about):
        share = about.margins[1]
        require(share < 1.0, f"executed: rounding may take {above(share)} of a margin")
        return about.places, len(about.texts), self.evidence["model"], of_decoders(about.model)
