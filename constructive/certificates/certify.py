"""`certify`: claims about stored weights on stored data, each proved, refuted or left undecided."""

import hashlib
import math
import numbers
import operator
import platform
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import flint
import numpy as np

from constructive.certificates.claims import error, impossible, rank, readout, sequences
from constructive.certificates.claims.evaluation import evaluate
from constructive.certificates.claims.paired import judge as paired
from constructive.constructions.registry import CONSTRUCTIONS
from constructive.data.dataset import Dataset
from constructive.layers.attention import AttentionLayer
from constructive.layers.balls import BallLayer, enclose_layer, intermediate
from constructive.layers.extended import ExtendedLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.rational import RationalLayer
from constructive.layers.record import BuildRecord, TrainedRecord
from constructive.sequences.examples import SequenceDataset
from constructive.sequences.memorizer import SequenceMemorizer
from constructive.sequences.storage import digest
from constructive.support.arguments import require_positive, require_seed
from constructive.support.arrays import Array
from constructive.support.errors import DataError, ParameterError, shown
from constructive.support.progress import Progress, silent
from constructive.support.verdict import Claim, Verdict
from constructive.theory import grouping

if TYPE_CHECKING:
    import torch

from constructive.certificates.certificate import PAIRED_FORMAT, SEQUENCE_FORMAT, Certificate

LayerClaim = Literal["grouping", "rank", "error", "readout"]
SequenceClaim = Literal["equality", "size"]
ClaimName = LayerClaim | SequenceClaim
LAYER_CLAIMS: tuple[LayerClaim, ...] = get_args(LayerClaim)
SEQUENCE_CLAIMS: tuple[SequenceClaim, ...] = get_args(SequenceClaim)

_USUAL = {"epsilon": None, "delta": None, "max_prec": 4096, "seed": 0}
"""What applies to layers, and not to sequences."""
_FIRST_BITS = 128
_LARGEST_DENSE = 2000
"""Examples up to which paired heads are judged as any others, where their own proof fails."""


def certify(
    memorizer: "Memorizer | SequenceMemorizer | torch.nn.Module",
    dataset: Dataset | SequenceDataset,
    *,
    claims: Iterable[ClaimName] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    max_prec: int = 4096,
    seed: int = 0,
    progress: Progress = silent,
) -> Certificate:
    """Prove what a memorizer does on a data set, in exact and ball arithmetic.

    memorizer: or a PyTorch module, which is read by `Memorizer.from_torch`. Where it has biases,
              the certificate is about `dataset.with_constant()`
    dataset:  a `SequenceDataset` for a `SequenceMemorizer`
    claims: by default all; for paired heads all but the first, which is about other groups, and so
            for trained weights, which have none. Any of
      "grouping"  every context has rank n, every group's queries are independent, and no group
                  but the first has another query in its span (`theory.grouping`)
      "rank"      the intermediate representation Z has rank T (`claims.rank`)
      "error"     max |f(E_t, e_t) - y_t| <= epsilon (`claims.error`)
      "readout"   some exact effective readout is within delta of the stored one (`claims.readout`)
            and for sequences
      "equality"  every label is put out, with == (`claims.sequences`)
      "size"      the non-zero parameters are at most those of Theorem 7's formula
    epsilon:  by default 1e-6 times the largest target (1e-6 if all are zero)
    delta:    by default what can be shown
    max_prec: bits after which an undecided claim stays so (paired heads are proved in float64 with
              bounds, without a T x T matrix (`claims.paired`); where that fails and T is small,
              they are judged as any others)
    seed:     of the primes' points; any seed proves the same

    Sequences need none of the last four: their claims are exact.

    Raises ParameterError for arguments which make no sense, DataError for data whose shapes do not
    fit the layer. A claim which cannot be decided does not raise: its verdict is UNDECIDED.

    >>> from constructive import build_memorizer, certify, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    >>> certificate = certify(build_memorizer(data, num_heads=3), data)
    >>> certificate
    <Certificate: PROVED, grouping PROVED, rank PROVED, error PROVED, readout PROVED>
    >>> certificate["rank"].statement
    'rank Z = T = 7: for all Y some effective readout U (H d, d_out) has Z U = Y'
    """
    about_sequences = SequenceMemorizer, SequenceDataset
    if isinstance(memorizer, about_sequences) or isinstance(dataset, about_sequences):
        options = {"epsilon": epsilon, "delta": delta, "max_prec": max_prec, "seed": seed}
        given = {name: options[name] for name, usual in _USUAL.items() if options[name] != usual}
        if given:
            raise ParameterError(
                "claims about sequences are exact, and have no bounds, bits or seeds",
                witness=shown(given),
                suggestion="none of " + ", ".join(f"{name}=" for name in _USUAL),
            )
        return _certify_sequences(memorizer, dataset, claims, progress)
    memorizer, dataset = _as_memorizer(memorizer, dataset)
    record, layer = memorizer.record, memorizer.layer
    asked = _layer_claims(claims, record)
    if isinstance(layer, RationalLayer):
        raise ParameterError(
            "a rational layer needs no certificate",
            witness=type(layer).__name__,
            suggestion="compare memorizer.predict(...) with the targets by ==",
        )
    leading = layer.leading if isinstance(layer, ExtendedLayer) else layer
    leading.check_fits(dataset)
    if epsilon is None:
        largest = float(np.abs(dataset.targets).max()) or 1.0
        epsilon = float(f"{1e-6 * largest:.0e}") or math.ulp(0.0)
    epsilon, delta = _bound("epsilon", epsilon), _bound("delta", delta)
    require_seed(seed)
    require_positive(max_prec=max_prec)
    hashes = fingerprint(_data_arrays(dataset)), fingerprint(layer.tensors)
    rng = np.random.default_rng(seed)
    if paired.applies(memorizer, dataset):
        claimed = paired.prove(memorizer, dataset, asked, epsilon, delta, progress=progress)
        decided = all(claim.verdict is not Verdict.UNDECIDED for claim in claimed)
        if decided or dataset.num_examples > _LARGEST_DENSE:
            return Certificate(
                claims=claimed,
                data=_described(_data_arrays(dataset), hashes[0]),
                weights=_described(layer.tensors, hashes[1]),
                made_by=_made_by(),
                format=PAIRED_FORMAT,
            )

    done: dict[str, Claim] = {}
    if "grouping" in asked and isinstance(record, BuildRecord):
        progress("check the groups", 0, 1)
        groups = tuple((head.start, head.stop) for head in record.heads)
        done["grouping"] = grouping.prove(dataset, groups, rng)
    if "rank" in asked:
        progress("eliminate modulo a prime", 0, 1)
        done["rank"] = rank.prove(leading, dataset, b"".join(hashes), rng)
    in_balls = [name for name in asked if name in {"error", "readout"}]
    if in_balls:
        hopeless = "rank" in done and done["rank"].verdict is not Verdict.PROVED
        done |= _decide_in_balls(
            layer, dataset, in_balls, epsilon, delta,
            max_prec=max_prec, singular=hopeless, progress=progress,
        )  # fmt: skip
    return Certificate(
        claims=tuple(done[name] for name in asked),
        data=_described(_data_arrays(dataset), hashes[0]),
        weights=_described(layer.tensors, hashes[1]),
        made_by=_made_by(),
    )


def _certify_sequences(
    memorizer: object,
    dataset: object,
    claims: Iterable[ClaimName] | None,
    progress: Progress,
) -> Certificate:
    asked = _checked_claims(claims, SEQUENCE_CLAIMS, "claims about sequences")
    given = type(memorizer).__name__, type(dataset).__name__
    if not isinstance(memorizer, SequenceMemorizer) or not isinstance(dataset, SequenceDataset):
        raise DataError(
            f"a {given[0]} does not fit a {given[1]}",
            witness=given,
            suggestion="a SequenceMemorizer with a SequenceDataset, any other with a Dataset",
        )
    done: dict[str, Claim] = {}
    if "equality" in asked:
        progress("evaluate every example", 0, 1)
        done["equality"] = sequences.equality(memorizer, dataset)
    if "size" in asked:
        done["size"] = sequences.size(memorizer, dataset)
    count, size = dataset.ids.shape
    data = {
        "sequences": count,
        "context_size": size,
        "tokens": len(dataset.tokens),
        "task": dataset.task,
        "sha256": digest(dataset.content()),
    }
    weights = {
        "nonzero": memorizer.nonzero_parameters,
        "embedding_depth": memorizer.embedding.depth,
        "classifier_depth": memorizer.classifier.depth,
        "sha256": digest(memorizer.content()),
    }
    claimed = tuple(done[name] for name in asked)
    return Certificate(claimed, data, weights, _made_by(), SEQUENCE_FORMAT)


def upper_bound_certificate(dataset: Dataset, num_heads: int) -> Certificate:
    """Prove that no weights of H heads memorize all labellings of the examples.

    It holds for every T > H(n - 1) + 1 examples with one shared context of rank n, and wherever
    all tokens lie on a hyperplane: the certificate carries x with e.x = 1 for every token, which
    gives H - 1 null vectors of Z whatever the weights are (Theorem 3, `theory.upper_bounds`). The
    claim *impossible* is UNDECIDED where that does not prove it.

    Raises ParameterError if H is not positive.

    >>> from constructive import generators
    >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
    >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement)
    rank Z <= 7 < T = 8 for all weights of H = 3 heads: none memorize every labelling
    """
    require_positive(num_heads=num_heads)
    num_heads = operator.index(num_heads)  # as certificates keep it
    arrays = _data_arrays(dataset)
    return Certificate(
        claims=(impossible.prove(dataset, num_heads),),
        data=_described(arrays, fingerprint(arrays)),
        weights=_described({}, fingerprint({})),
        made_by=_made_by(),
    )


def fingerprint(arrays: dict[str, Array]) -> bytes:
    """SHA-256 of arrays: for each its name, dtype and shape as a line, then its bytes, in C order.

    >>> fingerprint({"targets": np.array([1.0])}).hex()[:16]
    'fd807a0555012eb8'
    """
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        hashed.update(f"{name} {little.dtype.str} {list(little.shape)}\n".encode())
        hashed.update(little.data)
    return hashed.digest()


def _as_memorizer(
    given: "Memorizer | torch.nn.Module", dataset: Dataset
) -> tuple[Memorizer, Dataset]:
    """A module as a memorizer, and its data with a constant entry where it has biases."""
    module = hasattr(given, "state_dict")
    if not (isinstance(given, Memorizer) or module) or not isinstance(dataset, Dataset):
        named = type(given).__name__, type(dataset).__name__
        raise ParameterError(
            f"certify takes a memorizer and a data set, not a {named[0]} and a {named[1]}",
            witness=named,
            suggestion="certify(memorizer, dataset): a Memorizer or a PyTorch module, and a "
            "Dataset; of files Memorizer.load(path) and Dataset.load(path)",
        )
    if isinstance(given, Memorizer):
        return given, dataset
    memorizer = Memorizer.from_torch(given, dataset)
    biased = isinstance(memorizer.record, TrainedRecord) and memorizer.record.constant
    return memorizer, dataset.with_constant() if biased else dataset


def _data_arrays(dataset: Dataset) -> dict[str, Array]:
    return {
        "contexts": dataset.contexts,
        "queries": dataset.queries,
        "targets": dataset.targets,
    }


def _made_by() -> dict[str, str]:
    return {
        "constructive": version("constructive"),
        "python-flint": flint.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _described(arrays: dict[str, Array], digest: bytes) -> dict[str, Any]:
    described: dict[str, Any] = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    return described | {"sha256": digest.hex()}


def _decide_in_balls(
    layer: AttentionLayer | ExtendedLayer,
    dataset: Dataset,
    asked: Sequence[str],
    epsilon: float,
    delta: float | None,
    *,
    max_prec: int,
    singular: bool,
    progress: Progress,
) -> dict[str, Claim]:
    """Judge the claims at more and more bits, until they are decided or bits run out.

    Where Z looks singular, more bits would not find an exact readout.
    """
    prec = min(max_prec, _FIRST_BITS)
    if isinstance(layer, ExtendedLayer):
        prec = min(max_prec, 2 * layer.precision + _FIRST_BITS)
    while True:
        enclosed = _enclose(layer, prec)
        evaluation = evaluate(
            enclosed, dataset, representation="readout" in asked, progress=progress
        )
        done: dict[str, Claim] = {}
        if "error" in asked:
            done["error"] = error.judge(evaluation, epsilon)
        if "readout" in asked:
            progress("bound the exact readout", 0, 1)
            done["readout"] = readout.judge(
                evaluation, delta, partial(intermediate, enclosed, dataset)
            )
        undecided = {name for name in done if done[name].verdict is Verdict.UNDECIDED}
        if singular:
            undecided.discard("readout")
        if not undecided or prec >= max_prec:
            return done
        prec = min(2 * prec, max_prec)


def _enclose(layer: AttentionLayer | ExtendedLayer, prec: int) -> BallLayer:
    if isinstance(layer, ExtendedLayer):
        return layer.enclose(prec)
    return enclose_layer(layer, prec=prec)


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


def _layer_claims(
    claims: Iterable[ClaimName] | None, record: BuildRecord | TrainedRecord
) -> list[str]:
    if isinstance(record, TrainedRecord):  # without groups
        return _checked_claims(claims, LAYER_CLAIMS[1:], "claims about trained heads")
    construction = CONSTRUCTIONS.get(record.construction)
    if construction is None:  # weights are judged whoever built them
        return _checked_claims(claims, LAYER_CLAIMS, "claims about a layer")
    whole = construction.claims == LAYER_CLAIMS
    what = "claims about a layer" if whole else f"claims about {construction.name} heads"
    asked = _checked_claims(claims, construction.claims, what)
    asked += [other for name in tuple(asked) for other in construction.rests_on.get(name, ())]
    return [name for name in construction.claims if name in asked]


def _checked_claims(
    claims: Iterable[ClaimName] | None, known: tuple[str, ...], what: str
) -> list[str]:
    """The claims which are asked for, in their order. Raises ParameterError for others."""
    asked = list(known) if claims is None else [claims] if isinstance(claims, str) else list(claims)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ParameterError(
            f"claims={claims!r} are not {what}",
            witness=unknown or None,
            suggestion=f"some of {', '.join(known)}",
        )
    return [name for name in known if name in asked]
