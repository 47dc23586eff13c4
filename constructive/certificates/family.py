"""`ClaimFamily`: one type of weights, with the claims about them and how they are certified."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar

import numpy as np

from constructive.certificates.about import made_by
from constructive.certificates.certificate import Certificate
from constructive.certificates.claims.kind import ClaimKind, Subject
from constructive.certificates.claims.options import CertifyOptions
from constructive.certificates.claims.registry import CLAIMS
from constructive.data.dataset import Dataset
from constructive.support.verdict import Claim

Description = dict[str, Any]  # What a certificate says of data or of weights, with their SHA-256


class ClaimFamily(ABC):
    """One type of weights."""

    name: ClassVar[str]  # of its row in the registry of claims
    words: ClassVar[str]  # what its claims are about, as errors name it
    data: ClassVar[type | UnionType]  # the type of data that such weights have
    format: ClassVar[str]  # of its certificates

    @abstractmethod
    def describe(self, weights: Any, data: Any) -> tuple[Description, Description]:  # noqa: ANN401
        """Return what a certificate says of the data and of the weights."""

    def name_of(self, weights: Any) -> str:  # noqa: ANN401, ARG002 - of this family
        """Return what claims about these weights are about, as errors name it."""
        return self.words

    def require_fit(self, weights: Any, data: Any) -> None:  # noqa: ANN401, B027 - of this family
        """Require that data of the type fit the weights. Raises DataError."""

    def require_unchanged(self, data: Any) -> None:  # noqa: ANN401 - of this family
        """Raise DataError if data, which may be on disk, are not those that were described."""
        if isinstance(data, Dataset):
            data.require_unchanged()

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
        subject = Subject(weights, data, options, kinds, fingerprints, rng)
        judged, form = self.judged(subject)
        self.require_unchanged(data)  # so that claims are about the data that were hashed
        return Certificate(judged, *about, made_by(), form)

    def judged(self, subject: Subject[Any, Any]) -> tuple[tuple[Claim, ...], str]:
        """Return all claims, and the format of their certificate."""
        for kind in subject.asked:
            subject.judged[kind.name] = kind.judge(subject)
        return tuple(subject.judged.values()), self.format
