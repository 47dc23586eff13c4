# The public names, and where they live. `__init__.py` imports each when it is first used.

from .certificates.certificate import Certificate
from .certificates.certify import certify
from .certificates.check import Checked, check
from .certificates.upper_bound import upper_bound_certificate
from .constructions.build import build_memorizer
from .constructions.planning import Explanation, explain
from .data import generators
from .data.dataset import Dataset
from .data.mixing import token_mixing
from .data.rational import RationalDataset
from .layers.attention import AttentionLayer
from .layers.extended import ExtendedLayer
from .layers.memorizer import Memorizer
from .layers.rational import RationalLayer
from .layers.record import BuildRecord, HeadRecord, TrainedRecord
from .sequences.build import build_sequence_memorizer
from .sequences.examples import SequenceDataset
from .sequences.memorizer import SequenceMemorizer, SequenceRecord
from .support.errors import (
    AssumptionError,
    CapacityError,
    ConstructiveError,
    DataError,
    FormatError,
    MissingExtraError,
    OutputError,
    ParameterError,
    PrecisionError,
)
from .support.verdict import Claim, Verdict
from .theory import assumptions
from .theory.bounds import (
    heads_needed,
    nonzero_parameter_count,
    paired_capacity,
    parameter_count,
    rank_one_capacity,
    saturated_capacity,
)
from .theory.capacity_map import CapacityMap, MapPoint, capacity_map
from .theory.exact_capacity import ExactCapacity, exact_capacity
from .theory.published import PublishedBound, capacity_table, comparison, published_bounds

__version__: str

__all__ = [
    "AssumptionError",
    "AttentionLayer",
    "BuildRecord",
    "CapacityError",
    "CapacityMap",
    "Certificate",
    "Checked",
    "Claim",
    "ConstructiveError",
    "DataError",
    "Dataset",
    "ExactCapacity",
    "Explanation",
    "ExtendedLayer",
    "FormatError",
    "HeadRecord",
    "MapPoint",
    "Memorizer",
    "MissingExtraError",
    "OutputError",
    "ParameterError",
    "PrecisionError",
    "PublishedBound",
    "RationalDataset",
    "RationalLayer",
    "SequenceDataset",
    "SequenceMemorizer",
    "SequenceRecord",
    "TrainedRecord",
    "Verdict",
    "assumptions",
    "build_memorizer",
    "build_sequence_memorizer",
    "capacity_map",
    "capacity_table",
    "certify",
    "check",
    "comparison",
    "exact_capacity",
    "explain",
    "generators",
    "heads_needed",
    "nonzero_parameter_count",
    "paired_capacity",
    "parameter_count",
    "published_bounds",
    "rank_one_capacity",
    "saturated_capacity",
    "token_mixing",
    "upper_bound_certificate",
]
