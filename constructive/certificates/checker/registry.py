"""All kinds of certificates, by the formats they name; each knows its claims."""

from decoders import Decoder
from layers import Layer
from paired import PairedLayer
from sequences import Sequences

KINDS = {kind.format: kind for kind in (Layer, PairedLayer, Sequences, Decoder)}
