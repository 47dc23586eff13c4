"""All claims by name, and `ClaimFamily`: one type of weights, and how it is certified."""

import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import flint
import numpy as np

from constructive import __version__
from constructive.certificates.certificate import (
    DECODER_FORMAT,
    FORMAT,
    PAIRED_FORMAT,
    SEQUENCE_FORMAT,
    Certificate,
)
from constructive.certificates.claims import paired
from constructive.certificates.claims.decoders import DECODER_EXECUTED, DECODER_RANK, RECITES
from constructive.certificates.claims.executed import EXECUTED
from constructive.certificates.claims.grouping import GROUPING, WIDE_GROUPING
from constructive.certificates.claims.impossible import IMPOSSIBLE, AllWeights
from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.labels import INSEPARABLE, LABELS
from constructive.certificates.claims.rank import RANK
from constructive.certificates.claims.real import ERROR, READOUT
from constructive.certificates.claims.sequences import EQUALITY, SIZE
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.data.shapes import LENGTHS
from constructive.layers.attention import AttentionLayer
from constructive.layers.decoder import Decoder
from constructive.layers.extended import ExtendedLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.rational import RationalLayer
from constructive.layers.record import floats_of
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.arrays import Array
from constructive.support.errors import ParameterError
from constructive.support.files import digest
from constructive.support.tensors import fingerprint
from constructive.support.verdict import Claim


def _by_name(*kinds: ClaimKind) -> dict[str, ClaimKind]:
    return {kind.name: kind for kind in kinds}


# A row for each family, in the order in which claims are judged. A new kind is a file and a line
# here, its check among those of the checker, and a word in the help of `constructive certify`.
CLAIMS = {
    "layer": _by_name(GROUPING, WIDE_GROUPING, RANK, ERROR, READOUT, LABELS, INSEPARABLE, EXECUTED),
    "decoder": _by_name(DECODER_RANK, RECITES, DECODER_EXECUTED),
    "sequences": _by_name(EQUALITY, SIZE),
    "all weights": _by_name(IMPOSSIBLE),
}

# What a certificate says that it is about: the arrays, their hashes, and the programs.


def describe_arrays(arrays: dict[str, Array]) -> dict[str, Any]:
    """Return dtype and shape of each array, by its name in files, and the SHA-256 of all."""
    about = {name: _type(array.dtype, array.shape) for name, array in arrays.items()}
    return about | {"sha256": fingerprint(arrays).hex()}


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return the same of a dataset, whose contexts may be on disk."""
    about = {
        "contexts": _type(dataset.context_dtype, dataset.context_shape),
        "queries": _type(dataset.queries.dtype, dataset.queries.shape),
        "targets": _type(dataset.targets.dtype, dataset.targets.shape),
    }
    if dataset.lengths is not None:
        about[LENGTHS] = _type(np.dtype(np.float64), dataset.lengths.shape)
    return about | {"sha256": dataset.fingerprint().hex()}


def made_by() -> dict[str, str]:
    """Return names and versions of the programs that make a certificate."""
    return {
        "constructive": __version__,
        "python-flint": flint.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dtype": str(dtype), "shape": list(shape)}


class ClaimFamily(ABC):
    """One type of weights."""

    name: ClassVar[str]  # of its row in the registry of claims
    words: ClassVar[str]  # what its claims are about, as errors name it
    data: ClassVar[type]  # the type of data that such weights have
    format: ClassVar[str]  # of its certificates

    @abstractmethod
    def describe(self, weights: Any, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401
        """Return what a certificate says of the data and of the weights, with their SHA-256."""

    def name_of(self, weights: Any) -> str:  # noqa: ANN401, ARG002 - of this family
        """Return what claims about these weights are about, as errors name it."""
        return self.words

    def require_fit(self, weights: Any, data: Any) -> None:  # noqa: ANN401, B027 - of this family
        """Require that data of the type fit the weights. Raises DataError."""

    def available(self, weights: Any) -> Mapping[str, ClaimKind]:  # noqa: ANN401 - of this family
        """Return the claims that apply to these weights, in the order of the registry."""
        return {name: kind for name, kind in CLAIMS[self.name].items() if kind.applies(weights)}

    def prove(
        self,
        weights: Any,  # noqa: ANN401 - of this family
        data: Any,  # noqa: ANN401 - of this family
        claims: tuple[str, ...],
        options: CertifyOptions,
    ) -> Certificate:
        """Judge available claims in their order, with checked options, and return the certificate.

        Raises DataError for data that do not fit the weights, and ParameterError for options that
        these weights cannot have.
        """
        kinds = tuple(CLAIMS[self.name][name] for name in claims)
        self.require_fit(weights, data)
        for kind in kinds:
            kind.require_options(weights, options)
        about = self.describe(weights, data)
        fingerprints = b"".join(bytes.fromhex(described["sha256"]) for described in about)
        rng = np.random.default_rng(options.seed)
        judged, form = self.judged(Subject(weights, data, options, kinds, fingerprints, rng))
        if isinstance(data, Dataset):  # claims are about the data that were hashed
            data.require_unchanged()
        return Certificate(judged, *about, made_by(), form)

    def judged(self, subject: Subject[Any, Any]) -> tuple[tuple[Claim, ...], str]:
        """Return all claims, and the format of their certificate."""
        for kind in subject.asked:
            subject.judged[kind.name] = kind.judge(subject)
        return tuple(subject.judged.values()), self.format


class LayerFamily(ClaimFamily):
    """Claims about a layer of floats, built here or elsewhere."""

    name = "layer"
    words = "a layer"
    data = Dataset
    format = FORMAT

    def name_of(self, weights: Memorizer) -> str:
        """Return the construction of heads without groups, which have fewer claims."""
        return self.words if weights.record.grouped else f"{weights.record.construction} heads"

    def require_fit(self, weights: Memorizer, data: Dataset) -> None:
        """Require that shapes fit. Raises DataError."""
        floats_of(weights.layer).leading.check_fits(data)

    def describe(self, weights: Memorizer, data: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return dtypes, shapes and hashes."""
        return describe_dataset(data), describe_arrays(floats_of(weights.layer).tensors)

    def judged(self, subject: Subject[Memorizer, Dataset]) -> tuple[tuple[Claim, ...], str]:
        """Prove claims about paired heads together, if they are of that proof; others in turn."""
        claims = paired.attempt(subject)
        return super().judged(subject) if claims is None else (claims, PAIRED_FORMAT)


class DecoderFamily(ClaimFamily):
    """Claims about a decoder: what a causal layer puts out at every position of a text."""

    name = "decoder"
    words = "decoders"
    data = Text
    format = DECODER_FORMAT

    def require_fit(self, weights: Decoder, data: Text) -> None:
        """Require that the decoder has the tokens of the text. Raises DataError."""
        weights.require_same_tokens(data)

    def describe(self, weights: Decoder, data: Text) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return sizes of the text and hashes."""
        about_text = {
            "texts": data.num_texts,
            "tokens": len(data),
            "vocabulary": len(data.vocabulary),
            "sha256": digest(data.content()),
        }
        more = {"window": weights.layer.window, "storage": weights.record.storage}
        return about_text, describe_arrays(weights.tensors) | more | weights.periodic


class SequenceFamily(ClaimFamily):
    """Claims about a sequence memorizer, which are exact."""

    name = words = "sequences"
    data = SequenceDataset
    format = SEQUENCE_FORMAT

    def describe(
        self, weights: SequenceMemorizer, data: SequenceDataset
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return sizes and hashes."""
        count, size = data.ids.shape
        about_data = {
            "sequences": count,
            "context_size": size,
            "tokens": len(data.tokens),
            "task": data.task,
            "sha256": digest(data.content()),
        }
        about_weights = {
            "nonzero": weights.nonzero_parameters,
            "embedding_depth": weights.embedding.depth,
            "classifier_depth": weights.classifier.depth,
            "sha256": digest(weights.content()),
        }
        return about_data, about_weights


class AllWeightsFamily(ClaimFamily):
    """Claims about all weights of some heads, of which there are no arrays."""

    name = words = "all weights"
    data = Dataset
    format = FORMAT

    def describe(self, weights: AllWeights, data: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        """Return dtypes, shapes and hashes; of the weights, that there are no arrays."""
        return describe_dataset(data), describe_arrays({})


LAYERS, DECODERS, SEQUENCES = LayerFamily(), DecoderFamily(), SequenceFamily()
ALL_WEIGHTS = AllWeightsFamily()


def family_of(weights: Memorizer | SequenceMemorizer | Decoder) -> ClaimFamily:
    """Return the family of these weights. Raises ParameterError for other layers than of floats."""
    if not isinstance(weights, Memorizer):
        return DECODERS if isinstance(weights, Decoder) else SEQUENCES
    if isinstance(weights.layer, AttentionLayer | ExtendedLayer):
        return LAYERS
    kind = type(weights.layer)
    if issubclass(kind, RationalLayer):
        raise ParameterError(
            "a rational layer needs no certificate",
            witness=kind.__name__,
            suggestion="compare memorizer.predict(...) with the targets by ==",
        )
    raise ParameterError(
        f"certify knows nothing of a {kind.__name__}",
        witness=kind.__name__,
        suggestion="an AttentionLayer or an ExtendedLayer",
    )
