"""The checker: what is proved, is proved here (`__main__` says what stands where)."""

from .capacity import derivative as derivative
from .capacity import zero_point as zero_point
from .claim import PROVED as PROVED
from .claim import REFUTED as REFUTED
from .claim import UNDECIDED as UNDECIDED
from .claim import About as About
from .claim import Found as Found
from .decoders import Decoder as Decoder
from .float_model import INTEGER_MODELS as INTEGER_MODELS
from .float_model import MODELS as MODELS
from .layers import Layer as Layer
from .margins import Margins as Margins
from .modular import VANISHES as VANISHES
from .near import distances as distances
from .paired import PairedLayer as PairedLayer
from .sequences import Sequences as Sequences
from .verify import STATEMENTS as STATEMENTS
from .verify import check as check
from .verify import decoder as decoder
from .verify import layer as layer
from .verify import paired_layer as paired_layer
from .verify import sequence_memorizer as sequence_memorizer
from .verify import verify as verify
