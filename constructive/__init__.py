"""Weights that a theorem promises: multi-head attention layers built to memorize, not trained.

>>> from constructive import build_memorizer, generators
>>> data = generators.uniform(num_examples=1861, context_size=32, width=64, seed=0)
>>> build_memorizer(data, num_heads=60).record.max_error < 1e-10
True

Each name is imported when it is first used (PEP 562): `_HOMES` says from where, and the imports
below it say the same to editors and type checkers.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"
DISTRIBUTION = "constructive-attention"  # on package indexes, where `constructive` is too general

_HOMES = {
    "Certificate": "certificates.certificate",
    "certify": "certificates.certify",
    "Checked": "certificates.check",
    "check": "certificates.check",
    "upper_bound_certificate": "certificates.certify",
    "build_memorizer": "constructions.build",
    "build_decoder": "recite.build",
    "Explanation": "constructions.choice",
    "explain": "constructions.choice",
    "generators": "data",
    "plot_heads": "figures.heads",
    "Text": "recite.corpus",
    "Dataset": "data.dataset",
    "token_mixing": "data.dataset",
    "Padded": "data.padded",
    "padded": "data.padded",
    "RationalDataset": "constructions.rational",
    "AttentionLayer": "layers.layer",
    "CausalLayer": "recite.causal",
    "Decoder": "recite.decoder",
    "ExtendedLayer": "layers.extended",
    "HeadRecipe": "layers.memorizer",
    "Memorizer": "layers.memorizer",
    "RationalLayer": "constructions.rational",
    "build_rational": "constructions.rational",
    "BuildRecord": "layers.record",
    "DecoderRecord": "recite.decoder",
    "HeadRecord": "layers.record",
    "TrainedRecord": "layers.record",
    "build_sequence_memorizer": "sequences.build",
    "SequenceDataset": "sequences.examples",
    "SequenceMemorizer": "sequences.memorizer",
    "SequenceRecord": "sequences.memorizer",
    "AssumptionError": "support.errors",
    "CapacityError": "support.errors",
    "ConstructiveError": "support.errors",
    "DataError": "support.errors",
    "FormatError": "support.errors",
    "MissingExtraError": "support.errors",
    "OutOfMemoryError": "support.errors",
    "OutputError": "support.errors",
    "ParameterError": "support.errors",
    "PrecisionError": "support.errors",
    "progress_to": "support.work",
    "Claim": "support.verdict",
    "Verdict": "support.verdict",
    "rank": "exact.dyadic",
    "assumptions": "theory",
    "heads_needed": "theory.bounds",
    "CapacityBounds": "theory.capacity",
    "FewestHeads": "theory.capacity",
    "fewest_heads": "theory.capacity",
    "Capacity": "theory.free_heads",
    "capacity": "theory.free_heads",
    "Labelings": "theory.labelings",
    "kruskal_rank": "theory.kruskal",
    "label_capacity": "theory.labelings",
    "labelings": "theory.labelings",
}

if TYPE_CHECKING:
    from constructive.certificates.certificate import Certificate as Certificate
    from constructive.certificates.certify import certify as certify
    from constructive.certificates.certify import upper_bound_certificate as upper_bound_certificate
    from constructive.certificates.check import Checked as Checked
    from constructive.certificates.check import check as check
    from constructive.constructions.build import build_memorizer as build_memorizer
    from constructive.constructions.choice import Explanation as Explanation
    from constructive.constructions.choice import explain as explain
    from constructive.constructions.rational import RationalDataset as RationalDataset
    from constructive.constructions.rational import RationalLayer as RationalLayer
    from constructive.constructions.rational import build_rational as build_rational
    from constructive.data import generators as generators
    from constructive.data.dataset import Dataset as Dataset
    from constructive.data.dataset import token_mixing as token_mixing
    from constructive.data.padded import Padded as Padded
    from constructive.data.padded import padded as padded
    from constructive.exact.dyadic import rank as rank
    from constructive.figures.heads import plot_heads as plot_heads
    from constructive.layers.extended import ExtendedLayer as ExtendedLayer
    from constructive.layers.layer import AttentionLayer as AttentionLayer
    from constructive.layers.memorizer import HeadRecipe as HeadRecipe
    from constructive.layers.memorizer import Memorizer as Memorizer
    from constructive.layers.record import BuildRecord as BuildRecord
    from constructive.layers.record import HeadRecord as HeadRecord
    from constructive.layers.record import TrainedRecord as TrainedRecord
    from constructive.recite.build import build_decoder as build_decoder
    from constructive.recite.causal import CausalLayer as CausalLayer
    from constructive.recite.corpus import Text as Text
    from constructive.recite.decoder import Decoder as Decoder
    from constructive.recite.decoder import DecoderRecord as DecoderRecord
    from constructive.sequences.build import build_sequence_memorizer as build_sequence_memorizer
    from constructive.sequences.examples import SequenceDataset as SequenceDataset
    from constructive.sequences.memorizer import SequenceMemorizer as SequenceMemorizer
    from constructive.sequences.memorizer import SequenceRecord as SequenceRecord
    from constructive.support.errors import AssumptionError as AssumptionError
    from constructive.support.errors import CapacityError as CapacityError
    from constructive.support.errors import ConstructiveError as ConstructiveError
    from constructive.support.errors import DataError as DataError
    from constructive.support.errors import FormatError as FormatError
    from constructive.support.errors import MissingExtraError as MissingExtraError
    from constructive.support.errors import OutOfMemoryError as OutOfMemoryError
    from constructive.support.errors import OutputError as OutputError
    from constructive.support.errors import ParameterError as ParameterError
    from constructive.support.errors import PrecisionError as PrecisionError
    from constructive.support.verdict import Claim as Claim
    from constructive.support.verdict import Verdict as Verdict
    from constructive.support.work import progress_to as progress_to
    from constructive.theory import assumptions as assumptions
    from constructive.theory.bounds import heads_needed as heads_needed
    from constructive.theory.capacity import CapacityBounds as CapacityBounds
    from constructive.theory.capacity import FewestHeads as FewestHeads
    from constructive.theory.capacity import fewest_heads as fewest_heads
    from constructive.theory.free_heads import Capacity as Capacity
    from constructive.theory.free_heads import capacity as capacity
    from constructive.theory.kruskal import kruskal_rank as kruskal_rank
    from constructive.theory.labelings import Labelings as Labelings
    from constructive.theory.labelings import label_capacity as label_capacity
    from constructive.theory.labelings import labelings as labelings

if not TYPE_CHECKING:  # which would take every name for one that is there
    __all__ = sorted(_HOMES)  # noqa: PLE0605 - a list it is

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        found = getattr(home, name, None)
        if found is None:  # a module of its own
            found = importlib.import_module(f"{home.__name__}.{name}")
        globals()[name] = found  # next time it is there
        return found

    def __dir__() -> list[str]:
        return ["__version__", *__all__]
