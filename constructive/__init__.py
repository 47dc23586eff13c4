"""Weights which a theorem promises: multi-head attention layers built to memorize, not trained.

>>> from constructive import build_memorizer, generators
>>> data = generators.uniform(num_examples=1861, context_size=32, width=64, seed=0)
>>> build_memorizer(data, num_heads=60).record.max_error < 1e-10
True
"""

from importlib.metadata import version as _version

from constructive import assumptions, generators
from constructive.attention import AttentionLayer
from constructive.build import build_memorizer
from constructive.capacity import (
    heads_needed,
    nonzero_parameter_count,
    parameter_count,
    rank_one_capacity,
    saturated_capacity,
)
from constructive.capacity_map import CapacityMap, MapPoint, capacity_map
from constructive.certificate import Certificate
from constructive.certification import certify, upper_bound_certificate
from constructive.checking import Checked, check
from constructive.contextual.build import build_sequence_memorizer
from constructive.contextual.examples import SequenceDataset
from constructive.contextual.memorizer import SequenceMemorizer, SequenceRecord
from constructive.data_capacity import ExactCapacity, exact_capacity
from constructive.dataset import Dataset
from constructive.errors import (
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
from constructive.exact.extended import ExtendedLayer
from constructive.exact.rational import RationalDataset, RationalLayer
from constructive.memorizer import Memorizer
from constructive.mixing import token_mixing
from constructive.planning import Explanation, explain, paired_capacity
from constructive.published import PublishedBound, capacity_table, comparison, published_bounds
from constructive.record import BuildRecord, HeadRecord, TrainedRecord
from constructive.verdict import Claim, Verdict

__version__ = _version("constructive")

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
