"""The families of claims: layers, decoders, sequences, and all weights of some heads."""

from typing import NoReturn

from constructive.certificates.about import describe_arrays, describe_dataset
from constructive.certificates.certificate import (
    DECODER_FORMAT,
    FORMAT,
    PAIRED_FORMAT,
    SEQUENCE_FORMAT,
)
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.kind import Subject
from constructive.certificates.claims.paired import judge
from constructive.certificates.family import ClaimFamily, Description
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset
from constructive.layers.attention import AttentionLayer
from constructive.layers.decoder import Decoder
from constructive.layers.extended import ExtendedLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.rational import RationalLayer
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.sequences.storage import digest
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim


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
        weights.layer.leading.check_fits(data)

    def describe(self, weights: Memorizer, data: Dataset) -> tuple[Description, Description]:
        """Return dtypes, shapes and hashes."""
        return describe_dataset(data), describe_arrays(weights.layer.tensors)

    def judged(self, subject: Subject[Memorizer, Dataset]) -> tuple[tuple[Claim, ...], str]:
        """Prove claims about paired heads together, if they are of that proof; others in turn."""
        names = [kind.name for kind in subject.asked]
        paired = judge.applies(subject.weights, subject.data)
        if paired and set(names) <= set(judge.CLAIMS):
            claims = judge.attempt(subject)
            if claims is not None:
                return claims, PAIRED_FORMAT
        elif subject.options.executor is not None:
            raise ParameterError(
                f"claims {', '.join(names)} about {self.name_of(subject.weights)} are not proved "
                "in pieces, and have no executor=",
                witness=type(subject.options.executor).__name__,
                suggestion=f"paired heads with claims among {', '.join(judge.CLAIMS)}, or no "
                "executor=",
            )
        elif paired:
            judge.require_few(names, subject.data.num_examples)
        return super().judged(subject)


class RationalFamily(LayerFamily):
    """No claims: a rational layer is evaluated exactly."""

    data = RationalDataset | Dataset

    def available(self, weights: Memorizer) -> NoReturn:
        """Refuse the layer. Raises ParameterError."""
        raise ParameterError(
            "a rational layer needs no certificate",
            witness=type(weights.layer).__name__,
            suggestion="compare memorizer.predict(...) with the targets by ==",
        )


class DecoderFamily(ClaimFamily):
    """Claims about a decoder: what a causal layer puts out at every position of a text."""

    name = "decoder"
    words = "decoders"
    data = Text
    format = DECODER_FORMAT

    def require_fit(self, weights: Decoder, data: Text) -> None:
        """Require that the decoder has the tokens of the text. Raises DataError."""
        weights.require_same_tokens(data)

    def describe(self, weights: Decoder, data: Text) -> tuple[Description, Description]:
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
    ) -> tuple[Description, Description]:
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

    def describe(self, weights: AllWeights, data: Dataset) -> tuple[Description, Description]:  # noqa: ARG002
        """Return dtypes, shapes and hashes; of the weights, that there are no arrays."""
        return describe_dataset(data), describe_arrays({})


LAYERS = LayerFamily()
DECODERS = DecoderFamily()
ALL_WEIGHTS = AllWeightsFamily()
# By the type of a memorizer's layer, or of the weights where they have none.
FAMILIES: dict[type, ClaimFamily] = {
    AttentionLayer: LAYERS,
    ExtendedLayer: LAYERS,
    RationalLayer: RationalFamily(),
    SequenceMemorizer: SequenceFamily(),
    Decoder: DECODERS,
}


def family_of(weights: Memorizer | SequenceMemorizer | Decoder) -> ClaimFamily:
    """Return the family of these weights, or of the type that theirs inherits from.

    Raises ParameterError for a layer of another type.
    """
    kind = type(weights.layer if isinstance(weights, Memorizer) else weights)
    found = next((FAMILIES[base] for base in kind.__mro__ if base in FAMILIES), None)
    if found is None:
        raise ParameterError(
            f"certify knows nothing of a {kind.__name__}",
            witness=kind.__name__,
            suggestion="one of " + ", ".join(known.__name__ for known in FAMILIES),
        )
    return found
