"""The claims *error* and *readout*: numbers, which `real_claims` shows together."""

import real_claims
from claim import Bound
from rank import needs


class Error(Bound):
    """No output is further from its target than a bound."""

    name, of_lengths = "error", True
    statement = "max |f(E_t, e_t) - y_t| <= {!r}"

    @property
    def error(self):
        return self.bound

    def needs(self, about):
        return (0, 0) if "readout" in about.names else about.real_needs()


class Readout(Bound):
    """Some exact readout is as near to the stored one, entry by entry."""

    name, of_lengths = "readout", True
    statement = (
        "some U' with Z U' = Y is within {!r} of the stored effective readout U "
        "(H d, d_out), entry by entry"
    )

    def needs(self, about):
        """Those of digits; and, without a rank, of looking whether Z is singular."""
        real, products = real_claims.first(about.shapes, keep=True)
        held, operations = (0, 0) if "rank" in about.names else needs(about.shapes, beside=1)
        return max(held, real), operations + products
