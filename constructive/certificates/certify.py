"""`certify`: claims about stored weights on stored data, each proved, refuted or left undecided."""

import importlib
import math
import operator
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, runtime_checkable

import flint
import numpy as np

from constructive import __version__
from constructive.certificates.certificate import (
    FORMAT,
    PAIRED_FORMAT,
    Certificate,
    Described,
)
from constructive.certificates.claims.capacity import (
    ALMOST_IMPOSSIBLE,
    IMPOSSIBLE,
    NEAR,
    ONTO,
    AllWeights,
)
from constructive.certificates.claims.kind import (
    MOST_BITS,
    CertifyOptions,
    ClaimKind,
    Data,
    Subject,
    Weights,
)
from constructive.certificates.claims.layers import ERROR, GROUPING, LABELS, RANK, attempt_paired
from constructive.data.dataset import Dataset
from constructive.data.shapes import LENGTHS, require_examples
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import TrainedRecord
from constructive.support.arrays import Array
from constructive.support.errors import (
    DataError,
    ParameterError,
    in_three_parts,
    refuse,
    require_positive,
    require_seed,
    shown,
    with_article,
)
from constructive.support.tensors import fingerprint
from constructive.support.verdict import Claim
from constructive.support.work import one_blas_thread

if TYPE_CHECKING:
    import torch


def _by_name(*kinds: ClaimKind) -> dict[str, ClaimKind]:
    return {kind.name: kind for kind in kinds}


# A row for each family, in the order in which claims are judged (docs/contributing.md says how to
# add one). Weights of products say where their family is: `claimed_by` names a module with a
# `FAMILY`.
CLAIMS = {
    "layer": _by_name(GROUPING, RANK, ERROR, LABELS, ONTO, NEAR),
    "all weights": _by_name(IMPOSSIBLE, ALMOST_IMPOSSIBLE),
}

# What a certificate says that it is about: the arrays, their hashes, and the programs.


def describe_arrays(arrays: dict[str, Array]) -> Described:
    """Return dtype and shape of each array, by its name in files, and the SHA-256 of all."""
    about = {name: _type(array.dtype, array.shape) for name, array in arrays.items()}
    return about | {"sha256": fingerprint(arrays).hex()}


def describe_dataset(dataset: Dataset) -> Described:
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


def _type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Described:
    return {"dtype": str(dtype), "shape": list(shape)}


def _describe_layer(weights: Memorizer, data: Dataset) -> tuple[Described, Described]:
    weights.layer.check_fits(data)
    return describe_dataset(data), describe_arrays(weights.layer.tensors)


@runtime_checkable
class Claimed(Protocol):
    """Weights of a product, about which a module of its own has claims."""

    claimed_by: ClassVar[str]


@dataclass(frozen=True, eq=False)
class ClaimFamily(Generic[Weights, Data]):
    """One type of weights."""

    words: str  # what its claims are about, as errors name it
    data: type  # the type of data that such weights have
    format: str  # of its certificates
    claims: Mapping[str, ClaimKind]  # its row of `CLAIMS`
    # what a certificate says of the data and of the weights; DataError where they do not fit
    describe: Callable[[Weights, Data], tuple[Described, Described]]
    # claims that a cheaper proof judges together, in a certificate of `PAIRED_FORMAT`; or None
    together: Callable[[Subject[Weights, Data], tuple[str, ...]], tuple[Claim, ...] | None] = (
        lambda _, __: None
    )

    def available(self, weights: Weights) -> Mapping[str, ClaimKind]:
        """Return the claims that apply to these weights, in the order of the registry."""
        return {name: kind for name, kind in self.claims.items() if kind.applies(weights)}

    def prove(
        self,
        weights: Weights,
        data: Data,
        claims: tuple[str, ...],
        options: CertifyOptions,
    ) -> Certificate:
        """Judge available claims in their order, with checked options, and return the certificate.

        Raises DataError for data that do not fit, and ParameterError for options that these weights
        cannot have.
        """
        kinds = tuple(self.claims[name] for name in claims)
        for kind in kinds:
            kind.require_options(weights, options)
        about = self.describe(weights, data)
        fingerprints = b"".join(bytes.fromhex(described["sha256"]) for described in about)
        rng = np.random.default_rng(options.seed)
        subject = Subject(weights, data, options, fingerprints, rng)
        together = self.together(subject, claims)
        judged = together or tuple(kind.judge(subject) for kind in kinds)
        if isinstance(data, Dataset):  # claims are about the data that were hashed
            data.require_unchanged()
        form = PAIRED_FORMAT if together else self.format
        return Certificate(judged, *about, made_by(), form)


LAYERS = ClaimFamily("a layer", Dataset, FORMAT, CLAIMS["layer"], _describe_layer, attempt_paired)
# All weights of some heads, which have no arrays.
ALL_WEIGHTS: ClaimFamily[AllWeights, Dataset] = ClaimFamily(
    "all weights", Dataset, FORMAT, CLAIMS["all weights"],
    lambda _, data: (describe_dataset(data), describe_arrays({})),
)  # fmt: skip


def family_of(weights: "Memorizer | Claimed") -> ClaimFamily[Any, Any]:
    """Return the family of these weights. Raises ParameterError for other layers than of floats."""
    if not isinstance(weights, Memorizer):
        family: ClaimFamily[Any, Any] = importlib.import_module(weights.claimed_by).FAMILY
        return family
    if isinstance(weights.layer, AttentionLayer):
        return LAYERS
    kind = type(weights.layer)
    raise ParameterError(
        f"certify knows nothing of {with_article(kind.__name__)}",
        witness=kind.__name__,
        suggestion="an AttentionLayer or an ExtendedLayer",
    )


# What users call.


@in_three_parts
def certify(
    memorizer: "Memorizer | Claimed | torch.nn.Module",
    dataset: Any,  # noqa: ANN401 - of the type that such weights have
    *,
    claims: Iterable[str] | None = None,
    epsilon: float | None = None,
    max_prec: int = MOST_BITS,
    seed: int = 0,
    model: str | None = None,
) -> Certificate:
    """Prove what a memorizer does on a dataset.

    This function looks for evidence; the verdict is the checker's (`constructive/checker`), on the
    arrays in memory. A claim that cannot be decided does not raise: its verdict is UNDECIDED.
    Paired heads are proved in float64 with bounds, without a T x T matrix; where that fails, or
    *labels* is asked for in the same call, they are judged as any others. Above T = 2,000 ask for
    *rank* in one call, and for *labels* in another one.

    An option that none of the claims takes is refused: no certificate may be read as if it were
    about that option. A `seed` is never refused, as any seed proves the same.

    Args:
        memorizer: or a PyTorch module, which is read by `Memorizer.from_torch`. Where it has
            biases, the certificate is about `dataset.with_constant()`
        dataset: T examples; a `SequenceDataset` for a `SequenceMemorizer`, and a `Text` for a
            `Decoder`
        claims: some of those in docs/claims.md, which says what each proves and which are usual
        epsilon: of *error*: the largest error, in units of the targets; by default 1e-6 times the
            largest target, to one digit (1e-6 if all are zero)
        max_prec: of *error*: bits after which an undecided claim stays so; by default 4096
        seed: of the primes' points; any seed proves the same
        model: of the claim *executed* of a decoder: "float32, pairwise" (by default, with its own
            storage), "float32, pairwise, blocks of 16", "float32, scaled" or "float32, any
            contraction" (docs/claims.md); for a decoder of integers also "float32, TF32
            products", "float32, bfloat16 products" or "float32, float16 products"

    Raises:
        ParameterError: for arguments that make no sense, options that no claim takes, *labels*
            with *rank* of more than 2,000 examples of paired heads, a memorizer with rational
            weights, which needs no certificate, and a module that `Memorizer.from_torch` refuses
        DataError: for data whose shapes do not fit the layer, or of another kind

    Example:
        >>> from constructive import build_memorizer, certify, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> certificate = certify(build_memorizer(data, num_heads=3), data)
        >>> certificate
        <Certificate: PROVED, grouping PROVED, rank PROVED, error PROVED>
        >>> certificate["rank"].statement
        'rank Z = T = 7: for all Y some effective readout U (H d, d_out) has Z U = Y'
    """
    weights, data = _read(memorizer, dataset)
    family = family_of(weights)
    if not isinstance(data, family.data):
        kinds = type(weights).__name__, type(data).__name__
        raise DataError(
            f"{with_article(kinds[0])} does not fit {with_article(kinds[1])}",
            witness=kinds,
            suggestion="a SequenceMemorizer with a SequenceDataset, a Decoder with a Text, any "
            "other with a Dataset",
        )
    known = family.available(weights)
    options = CertifyOptions(epsilon, max_prec, seed, model).checked()
    if claims is None and epsilon is None and _is_classifier(weights, data):
        claims = ["labels"]
    names = _checked_claims(claims, weights, family.words, known)
    _require_taken(options, names, known)
    product = math.inf
    if isinstance(weights, Memorizer) and isinstance(data, Dataset):
        product = data.largest_product(weights.layer.num_heads)
    with one_blas_thread(product):
        return family.prove(weights, data, names, options)


@in_three_parts
def upper_bound_certificate(
    dataset: Dataset, num_heads: int, *, head_dim: int | None = None, seed: int = 0
) -> Certificate:
    """Prove that whichever H fixed heads you choose, some targets of the data have no readout.

    It holds wherever different examples are more than c(E; H) (Theorem 8, `theory.capacity`): for
    T > H(n - 1) + 1 examples with one shared context of rank n, for T > Hd with contexts of their
    own, and wherever tokens are few or lie in a subspace. It does not say that some targets are
    out of reach: heads that depend on the targets memorize more. The certificate carries the
    examples J to blame, and vectors that show what their tokens span. Else the claim *impossible*
    is UNDECIDED; where it says that contexts allow all inputs, it is false for almost all queries,
    by Theorem 9.

    With `head_dim` it proves instead that almost no targets are returned by any weights, where the
    examples are more than c_1 (Theorem 36): the claim *almost_impossible*.

    Args:
        dataset: T examples; their targets do not matter, but for how many entries they have
        num_heads: H
        head_dim: d_h, for weights that may depend on the targets
        seed: of the search for J; whatever it finds is a proof

    Raises:
        ParameterError: for what is not a dataset, if H is not positive, and for a negative seed

    Example:
        >>> from constructive import generators
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement.split(":")[0])
        for all W_Q and W_K of H = 3 heads rank Z <= 7 on 8 different examples
    """
    require_examples(dataset, Dataset)
    given = {"num_heads": num_heads} | ({} if head_dim is None else {"head_dim": head_dim})
    require_positive(**given)
    require_seed(seed)
    weights = AllWeights(*map(operator.index, given.values()))  # as certificates keep them
    names = tuple(ALL_WEIGHTS.available(weights))
    with one_blas_thread(dataset.largest_product(weights.num_heads)):
        return ALL_WEIGHTS.prove(weights, dataset, names, CertifyOptions(seed=seed))


def _read(given: Any, dataset: object) -> tuple["Memorizer | Claimed", object]:  # noqa: ANN401 - a module, perhaps
    """What was given as a memorizer and its data, with a constant entry for a module's biases."""
    if isinstance(given, Memorizer | Claimed) and _is_data(dataset):
        return given, dataset
    if hasattr(given, "state_dict") and isinstance(dataset, Dataset):
        memorizer = Memorizer.from_torch(given, dataset)
        return memorizer, dataset.with_constant() if memorizer.record.constant else dataset
    named = type(given).__name__, type(dataset).__name__
    raise ParameterError(
        "certify takes a memorizer and then a dataset, "
        f"not {with_article(named[0])} and then {with_article(named[1])}",
        witness=named,
        suggestion="certify(memorizer, dataset): a Memorizer or a PyTorch module, and a "
        "Dataset; of files Memorizer.load(path) and Dataset.open(path); of an AttentionLayer "
        "Memorizer(layer, TrainedRecord(source, scalar_targets=False, constant=False))",
    )


def _is_data(dataset: object) -> bool:
    """Return whether it is a dataset, or the data of a product, whose files have a format."""
    return isinstance(dataset, Dataset) or (
        hasattr(dataset, "FORMAT") and not isinstance(dataset, Claimed)
    )


def _is_classifier(weights: object, data: object) -> bool:
    """Return whether a layer was trained for classes: its outputs are scores, not targets."""
    trained = isinstance(weights, Memorizer) and isinstance(weights.record, TrainedRecord)
    return trained and isinstance(data, Dataset) and len(data.classes) > 1


def _checked_claims(
    claims: object, weights: object, about: str, known: Mapping[str, ClaimKind]
) -> tuple[str, ...]:
    """Return the claims that are asked for, in their order. Raises ParameterError for others."""
    if claims is None:
        return tuple(name for name, kind in known.items() if kind.is_usual(weights))
    asked = [claims] if isinstance(claims, str) else claims
    listed = list(asked) if isinstance(asked, Iterable) else []
    unknown = [name for name in listed if not isinstance(name, str) or name not in known]
    if unknown or not listed:
        if isinstance(weights, Memorizer) and not weights.record.grouped:  # which has fewer claims
            about = f"{weights.record.construction} heads"
        named = listed and all(isinstance(name, str) for name in listed)
        labels = named and "labels" in unknown
        if labels and about == LAYERS.words:
            about += " with one output"
        hint = "; labels of data from Dataset.of_classes" * bool(labels)
        words = repr(" ".join(listed)) if named else shown(claims)
        raise ParameterError(
            f"claims={words} are not claims about {about}",
            witness=unknown or None,
            suggestion=f"some of {', '.join(known)}" + hint,
        )
    return tuple(name for name in known if name in listed)


def _require_taken(
    options: CertifyOptions, claims: tuple[str, ...], known: Mapping[str, ClaimKind]
) -> None:
    """Refuse options that none of the claims takes. Raises ParameterError.

    A seed is left out: any seed proves the same, so that programs may give it to all their calls.
    """
    taken = frozenset({"seed"}).union(*(known[name].options for name in claims))
    idle = {name: value for name, value in options.given().items() if name not in taken}
    if not idle:
        return
    takers = {
        option: [name for name, kind in known.items() if option in kind.options] for option in idle
    }
    ways = [f"{option}= with {' or '.join(names)}" for option, names in takers.items() if names]
    asked = {f"{option}=": shown(value) for option, value in idle.items()}
    raise refuse(asked, f"claims={' '.join(claims)!r}", ways)
