"""All kinds of certificates, and the claims that each may make: a new claim is a line here."""

from decoders import Decoder
from executed import Executed
from grouping import Grouping, WideGrouping
from impossible import Impossible
from layers import Layer
from paired import PairedLayer, PairedRank
from rank import Rank, RankOfDecoder
from real import Error, Readout
from recites import ExecutedOfDecoder, Recites
from sequences import Equality, Sequences
from size import Size

CLAIMS = {
    Layer: (
        Grouping,
        WideGrouping,
        Rank,
        Error,
        Readout,
        Executed,
        Impossible,
    ),
    PairedLayer: (PairedRank, Error, Readout),
    Decoder: (RankOfDecoder, Recites, ExecutedOfDecoder),
    Sequences: (Equality, Size),
}
KINDS = {kind.format: kind for kind in CLAIMS}
