"""`certify`: claims about stored weights on stored data, each proved, refuted or left undecided."""

import math
import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from constructive.certificates import layers, sequences
from constructive.certificates.certificate import Certificate
from constructive.certificates.prover import Asked, Prover
from constructive.data.dataset import Dataset
from constructive.data.rational import RationalDataset
from constructive.layers.attention import AttentionLayer
from constructive.layers.extended import ExtendedLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.rational import RationalLayer
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.support.arguments import require_positive
from constructive.support.errors import DataError, ParameterError, shown
from constructive.support.progress import Progress, silent

if TYPE_CHECKING:
    import torch

_LAYERS = Prover(Dataset, layers.known_claims, layers.prove)
PROVERS = {
    AttentionLayer: _LAYERS,
    ExtendedLayer: _LAYERS,
    RationalLayer: Prover(RationalDataset | Dataset, layers.known_claims, layers.prove),
    SequenceMemorizer: Prover(SequenceDataset, sequences.known_claims, sequences.prove, exact=True),
}
"""By the kind of a memorizer's layer, or of the memorizer where it has none."""

_DATA = Dataset, RationalDataset, SequenceDataset
_USUAL = {"epsilon": None, "delta": None, "max_prec": 4096, "seed": 0}
"""What applies to layers, and not to claims which are exact."""


def certify(
    memorizer: "Memorizer | SequenceMemorizer | torch.nn.Module",
    dataset: Dataset | SequenceDataset,
    *,
    claims: Iterable[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    max_prec: int = 4096,
    seed: int = 0,
    progress: Progress = silent,
) -> Certificate:
    """Prove what a memorizer does on a data set, in exact and ball arithmetic.

    A claim which cannot be decided does not raise: its verdict is UNDECIDED. Paired heads are
    proved in float64 with bounds, without a T x T matrix (`claims.paired`); where that fails and T
    is small, they are judged as any others. Sequences take none of `epsilon`, `delta`, `max_prec`
    and `seed`, as their claims are exact.

    Args:
        memorizer: or a PyTorch module, which is read by `Memorizer.from_torch`. Where it has
            biases, the certificate is about `dataset.with_constant()`
        dataset: T examples; a `SequenceDataset` for a `SequenceMemorizer`
        claims: by default all; for paired heads all but the first, which is about other groups,
            and so for trained weights, which have none. Any of

            - ``"grouping"``: every context has rank n, every group's queries are independent, and
              no group but the first has another query in its span (`theory.grouping`)
            - ``"rank"``: the intermediate representation Z has rank T (`claims.rank`)
            - ``"error"``: `max |f(E_t, e_t) - y_t| <= epsilon` (`claims.error`)
            - ``"readout"``: some exact effective readout is within delta of the stored one
              (`claims.readout`)

            and for sequences

            - ``"equality"``: every label is put out, with == (`claims.sequences`)
            - ``"size"``: the non-zero parameters are at most those of Theorem 7's formula
        epsilon: the largest error, in units of the targets; by default 1e-6 times the largest
            target, to one digit (1e-6 if all are zero)
        delta: the largest distance of an entry from an exact readout; by default what can be shown
        max_prec: bits after which an undecided claim stays so; by default 4096
        seed: of the primes' points; any seed proves the same
        progress: called with (step, done, total) during long work

    Raises:
        ParameterError: for arguments which make no sense, a memorizer with rational weights, which
            needs no certificate, and a module which `Memorizer.from_torch` refuses
        DataError: for data whose shapes do not fit the layer, or of another kind

    Example:
        >>> from constructive import build_memorizer, certify, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> certificate = certify(build_memorizer(data, num_heads=3), data)
        >>> certificate
        <Certificate: PROVED, grouping PROVED, rank PROVED, error PROVED, readout PROVED>
        >>> certificate["rank"].statement
        'rank Z = T = 7: for all Y some effective readout U (H d, d_out) has Z U = Y'
    """
    weights, data = _border(memorizer, dataset)
    kind = getattr(weights, "layer", weights)
    prover = PROVERS[type(kind)]
    if not isinstance(data, prover.data):
        raise DataError(
            f"a {type(weights).__name__} does not fit a {type(data).__name__}",
            witness=(type(weights).__name__, type(data).__name__),
            suggestion="a SequenceMemorizer with a SequenceDataset, any other with a Dataset",
        )
    options = {"epsilon": epsilon, "delta": delta, "max_prec": max_prec, "seed": seed}
    given = {name: options[name] for name, usual in _USUAL.items() if options[name] != usual}
    if prover.exact and given:
        raise ParameterError(
            "claims about sequences are exact, and have no bounds, bits or seeds",
            witness=shown(given),
            suggestion="none of " + ", ".join(f"{name}=" for name in _USUAL),
        )
    require_positive(max_prec=max_prec)
    asked = Asked(
        _checked_claims(claims, *prover.known_claims(weights)),
        _bound("epsilon", epsilon),
        _bound("delta", delta),
        max_prec,
        seed,
        progress,
    )
    return prover.prove(weights, data, asked)


def _border(given: Any, dataset: object) -> tuple[Memorizer | SequenceMemorizer, object]:  # noqa: ANN401 - a module, perhaps
    """What was given as a memorizer and its data, with a constant entry for a module's biases."""
    if isinstance(given, Memorizer | SequenceMemorizer) and isinstance(dataset, _DATA):
        return given, dataset
    if hasattr(given, "state_dict") and isinstance(dataset, Dataset):
        memorizer = Memorizer.from_torch(given, dataset)
        return memorizer, dataset.with_constant() if memorizer.record.constant else dataset
    named = type(given).__name__, type(dataset).__name__
    raise ParameterError(
        f"certify takes a memorizer and a data set, not a {named[0]} and a {named[1]}",
        witness=named,
        suggestion="certify(memorizer, dataset): a Memorizer or a PyTorch module, and a "
        "Dataset; of files Memorizer.load(path) and Dataset.load(path)",
    )


@overload
def _bound(name: str, value: float) -> float: ...
@overload
def _bound(name: str, value: None) -> None: ...
def _bound(name: str, value: float | None) -> float | None:
    """A bound as a float of Python, as certificates state it."""
    if value is None:
        return None
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        bound = float(value) if real else math.nan
    except OverflowError:  # of integers and fractions
        bound = math.inf
    if not 0.0 <= bound < math.inf:
        raise ParameterError(
            f"{name}={shown(value)} is not a bound", witness=shown(value), suggestion=f"{name}=1e-6"
        )
    return bound


def _checked_claims(
    claims: Iterable[str] | None, known: tuple[str, ...], what: str
) -> tuple[str, ...]:
    """The claims which are asked for, in their order. Raises ParameterError for others."""
    asked = list(known) if claims is None else [claims] if isinstance(claims, str) else list(claims)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ParameterError(
            f"claims={claims!r} are not {what}",
            witness=unknown or None,
            suggestion=f"some of {', '.join(known)}",
        )
    return tuple(name for name in known if name in asked)
