"""`certify`: claims about stored weights on stored data, each proved, refuted or left undecided."""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from constructive.certificates.certificate import Certificate
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.kind import MOST_BITS, CertifyOptions, ClaimKind
from constructive.certificates.families import ALL_WEIGHTS, family_of
from constructive.data.corpus import Text
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset
from constructive.data.shapes import require_examples
from constructive.layers.decoder import Decoder
from constructive.layers.memorizer import Memorizer
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.errors import (
    DataError,
    ParameterError,
    in_three_parts,
    refuse,
    require_positive,
    require_seed,
    shown,
)
from constructive.support.work import one_blas_thread

if TYPE_CHECKING:
    import torch

_DATA = Dataset, RationalDataset, SequenceDataset, Text


@in_three_parts
def certify(
    memorizer: "Memorizer | SequenceMemorizer | Decoder | torch.nn.Module",
    dataset: Dataset | SequenceDataset | Text,
    *,
    claims: Iterable[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    max_prec: int = MOST_BITS,
    seed: int = 0,
    model: str | None = None,
) -> Certificate:
    """Prove what a memorizer does on a data set, in exact and ball arithmetic.

    A claim that cannot be decided does not raise: its verdict is UNDECIDED. Paired heads are
    proved in float64 with bounds, without a T x T matrix (`claims.paired`); where that fails, or
    *executed* is asked for in the same call, they are judged as any others. Above T = 2,000 ask for
    *rank* and *readout* in one call, and for *executed* in another one.

    An option that none of the claims takes is refused: no certificate may be read as if it were
    about that option. A `seed` is never refused, as any seed proves the same.

    Args:
        memorizer: or a PyTorch module, which is read by `Memorizer.from_torch`. Where it has
            biases, the certificate is about `dataset.with_constant()`
        dataset: T examples; a `SequenceDataset` for a `SequenceMemorizer`, and a `Text` for a
            `Decoder`
        claims: some of those that docs/claims.md explains. By default "rank", "error", and
            "grouping" or "wide_grouping" where heads have groups of Theorems 1 and 2 or of
            Theorem 10; "labels" alone where labels were fit. If you ask for them, also "readout"
            (which brings the rank with it where paired heads have their own proof), "inseparable"
            and "executed". Of sequences "equality" and "size", of decoders "rank", "recites" and
            "executed"
        epsilon: of *error*, and of *executed* of a layer: the largest error, in units of the
            targets; by default 1e-6 times the largest target, to one digit (1e-6 if all are zero).
            The claim *executed* is UNDECIDED where its bound is larger than an epsilon that was
            given
        delta: of *readout*: the largest distance of an entry from an exact readout; by default what
            can be shown
        max_prec: of *error*, *readout* and *executed* of a layer: bits after which an undecided
            claim stays so; by default 4096
        seed: of the primes' points; any seed proves the same
        model: of the claim *executed*: "float32, pairwise" (by default; for a decoder with its own
            storage), "float32, pairwise, blocks of 16", "float32, scaled" or "float32, any
            contraction" (`exact.float_model`); for a decoder of integers also "float32, TF32
            products", "float32, bfloat16 products" or "float32, float16 products"

    Raises:
        ParameterError: for arguments that make no sense, options that no claim takes, *executed*
            with *rank* or *readout* of more than 2,000 examples of paired heads, a memorizer with
            rational weights, which needs no certificate, and a module that `Memorizer.from_torch`
            refuses
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
        raise DataError(
            f"a {type(weights).__name__} does not fit a {type(data).__name__}",
            witness=(type(weights).__name__, type(data).__name__),
            suggestion="a SequenceMemorizer with a SequenceDataset, a Decoder with a Text, any "
            "other with a Dataset",
        )
    known = family.available(weights)
    names = _checked_claims(claims, weights, family.name_of(weights), known)
    options = CertifyOptions(epsilon, delta, max_prec, seed, model).checked()
    _require_taken(options, names, known)
    product = math.inf
    if isinstance(weights, Memorizer) and isinstance(data, Dataset):
        product = data.largest_product(weights.layer.num_heads)
    with one_blas_thread(product):
        return family.prove(weights, data, names, options)


@in_three_parts
def upper_bound_certificate(dataset: Dataset, num_heads: int, *, seed: int = 0) -> Certificate:
    """Prove that no weights of H heads memorize all labellings of the examples.

    It holds wherever different examples are more than c(E; H) (Theorem 8,
    `theory.context_capacity`): for
    T > H(n - 1) + 1 examples with one shared context of rank n, for T > Hd with contexts of their
    own, and wherever tokens are few or lie in a subspace. The certificate carries the examples J to
    blame, and vectors that show what their tokens span. Else the claim *impossible* is UNDECIDED;
    where it says that contexts hold all inputs, it is false for almost all queries, by Theorem 9.

    Args:
        dataset: T examples; their targets do not matter
        num_heads: H
        seed: of the search for J; whatever it finds is a proof

    Raises:
        ParameterError: for what is not a data set, if H is not positive, and for a negative seed

    Example:
        >>> from constructive import generators
        >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
        >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement.split(":")[0])
        for all weights of H = 3 heads rank Z <= 7 on 8 different examples
    """
    require_examples(dataset, Dataset)
    require_positive(num_heads=num_heads)
    require_seed(seed)
    weights = AllWeights(operator.index(num_heads))  # as certificates keep it
    names = tuple(ALL_WEIGHTS.available(weights))
    with one_blas_thread(dataset.largest_product(weights.num_heads)):
        return ALL_WEIGHTS.prove(weights, dataset, names, CertifyOptions(seed=seed))


def _read(given: Any, dataset: object) -> tuple[Memorizer | SequenceMemorizer | Decoder, object]:  # noqa: ANN401 - a module, perhaps
    """What was given as a memorizer and its data, with a constant entry for a module's biases."""
    if isinstance(given, Memorizer | SequenceMemorizer | Decoder) and isinstance(dataset, _DATA):
        return given, dataset
    if hasattr(given, "state_dict") and isinstance(dataset, Dataset):
        memorizer = Memorizer.from_torch(given, dataset)
        return memorizer, dataset.with_constant() if memorizer.record.constant else dataset
    named = type(given).__name__, type(dataset).__name__
    swapped = isinstance(given, _DATA) and not isinstance(dataset, _DATA)
    raise ParameterError(
        "certify takes a memorizer and a data set"
        + (" in this order; here they are swapped" if swapped else "")
        + f", not a {named[0]} and a {named[1]}",
        witness=named,
        suggestion="certify(memorizer, dataset): a Memorizer or a PyTorch module, and a "
        "Dataset; of files Memorizer.load(path) and Dataset.open(path)",
    )


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
        raise ParameterError(
            f"claims={shown(claims)} are not claims about {about}",
            witness=unknown or None,
            suggestion=f"some of {', '.join(known)}",
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
