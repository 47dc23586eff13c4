"""`certify`: claims about stored weights on stored data, each proved, refuted or left undecided."""

import hashlib
import json
import numbers
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import flint
import numpy as np
from rich.table import Table

from constructive.attention import AttentionLayer
from constructive.capacity import require_positive, require_seed
from constructive.claims import error, grouping, impossible, rank, readout
from constructive.claims.evaluation import evaluate
from constructive.claims.paired import judge as paired
from constructive.dataset import Array, Dataset
from constructive.errors import FormatError, ParameterError
from constructive.exact.ball import BallLayer, enclose_layer, intermediate
from constructive.exact.extended import ExtendedLayer
from constructive.exact.rational import RationalLayer
from constructive.files import replacing
from constructive.memorizer import Memorizer
from constructive.progress import Progress, silent
from constructive.record import BuildRecord, TrainedRecord
from constructive.tables import Sheet
from constructive.verdict import Claim, Verdict

if TYPE_CHECKING:
    import torch

FORMAT = "constructive certificate 1"
PAIRED_FORMAT = "constructive paired certificate 1"
ClaimName = Literal["grouping", "rank", "error", "readout"]
ALL_CLAIMS: tuple[ClaimName, ...] = get_args(ClaimName)

_FIRST_BITS = 128
_LARGEST_DENSE = 2000
"""Examples up to which paired heads are judged as any others, where their own proof fails."""


@dataclass(frozen=True)
class Certificate:
    """Claims about a memorizer and its data, with what an independent checker needs.

    claims:  in the order in which they were asked for
    data:    dtype and shape of each array, and their SHA-256 (`fingerprint`)
    weights: the same; no array for a claim about all weights
    made_by: names and versions of the programs
    format:  which checker reads its file

    `repr` is one line, `str` a table, and so is the HTML which notebooks show. Made by `certify`
    and `upper_bound_certificate`.
    """

    claims: tuple[Claim, ...]
    data: dict[str, Any]
    weights: dict[str, Any]
    made_by: dict[str, str]
    format: str = FORMAT

    @property
    def verdict(self) -> Verdict:
        """PROVED if all claims are, REFUTED if one is, else UNDECIDED."""
        return Verdict.all_of([claim.verdict for claim in self.claims])

    def __getitem__(self, name: str) -> Claim:
        """The claim of that name. Raises KeyError if it was not asked for."""
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise KeyError(name)

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all."""
        content = {
            "format": self.format,
            "verdict": self.verdict.name,
            "made_by": self.made_by,
            "data": self.data,
            "weights": self.weights,
            "claims": {
                claim.name: {
                    "verdict": claim.verdict.name,
                    "statement": claim.statement,
                    "detail": claim.detail,
                    "witness": claim.witness,
                    "evidence": claim.evidence,
                }
                for claim in self.claims
            },
        }
        text = json.dumps(content, indent=1, default=list)
        with replacing(path) as file:
            file.write(text.encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a file written by `save`, without checking what it claims: use `check` for that.

        Raises FormatError if it is not a certificate, OSError if it cannot be read.
        """
        try:
            content = json.loads(Path(path).read_bytes())
            if content["format"] not in (FORMAT, PAIRED_FORMAT):
                raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
            claims = tuple(
                Claim(
                    name,
                    str(claim["statement"]),
                    Verdict[claim["verdict"]],
                    str(claim["detail"]),
                    _frozen(claim["witness"]),
                    dict(claim["evidence"]),
                )
                for name, claim in content["claims"].items()
            )
            data, weights, made_by = (
                dict(content[name]) for name in ("data", "weights", "made_by")
            )
            loaded = cls(claims, data, weights, made_by, content["format"])
            loaded._sheet()  # it can be shown
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as failure:
            message = f"{path} is not a certificate: {failure}"
            suggestion = "a file written by Certificate.save or `constructive certify`"
            raise FormatError(message, witness=str(path), suggestion=suggestion) from failure
        return loaded

    def __repr__(self) -> str:
        claims = ", ".join(f"{claim.name} {claim.verdict.name}" for claim in self.claims)
        return f"<Certificate: {self.verdict.name}, {claims}>"

    def __str__(self) -> str:
        return self._sheet().text(98)

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        data, weights = self.data, self.weights
        total, width = data["queries"]["shape"]
        target_dim = (*data["targets"]["shape"], 1)[1]
        described = (
            f"T = {total}, n = {data['contexts']['shape'][-2]}, d = {width}, "
            f"d_out = {target_dim}; SHA-256 {data['sha256'][:16]}..."
        )
        about, facts = "for all weights", [("data", described)]
        if "W_Q" in weights:
            about = f"for the stored {weights['W_Q']['dtype']} weights, in real arithmetic"
            heads, _, head_dim = weights["W_Q"]["shape"]
            parts = 1 + weights.get("W_V_corrections", {"shape": [0]})["shape"][0]
            more = f", readout a sum of {parts} arrays" if parts > 1 else ""
            stored = f"H = {heads}, d_h = {head_dim}{more}; SHA-256 {weights['sha256'][:16]}..."
            facts.append(("weights", stored))
        table = Table(box=None, pad_edge=False, show_header=False)
        for claim in self.claims:
            table.add_row(claim.name, claim.verdict.name, claim.statement)
            table.add_row("", "", claim.detail)
        return Sheet(f"Certificate: {self.verdict.name}, {about}", tuple(facts), table)


def certify(
    memorizer: "Memorizer | torch.nn.Module",
    dataset: Dataset,
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
    claims: by default all; for paired heads all but the first, which is about other groups, and so
            for trained weights, which have none. Any of
      "grouping"  every context has rank n, every group's queries are independent, and no group
                  but the first has another query in its span (`claims.grouping`)
      "rank"      the intermediate representation Z has rank T (`claims.rank`)
      "error"     max |f(E_t, e_t) - y_t| <= epsilon (`claims.error`)
      "readout"   an exact readout is within delta of the stored one (`claims.readout`)
    epsilon:  by default 1e-6 times the largest target (1e-6 if all are zero)
    delta:    by default what can be shown
    max_prec: bits after which an undecided claim stays so (paired heads are proved in float64 with
              bounds, without a T x T matrix (`claims.paired`); where that fails and T is small,
              they are judged as any others)
    seed:     of the primes' points; any seed proves the same

    Raises ParameterError for arguments which make no sense, DataError for data whose shapes do not
    fit the layer. A claim which cannot be decided does not raise: its verdict is UNDECIDED.

    >>> from constructive import build_memorizer, certify, generators
    >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    >>> certificate = certify(build_memorizer(data, num_heads=3), data)
    >>> certificate
    <Certificate: PROVED, grouping PROVED, rank PROVED, error PROVED, readout PROVED>
    >>> certificate["rank"].statement
    'rank Z = T = 7: these attention weights memorize every labelling'
    """
    memorizer, dataset = _as_memorizer(memorizer, dataset)
    record, layer = memorizer.record, memorizer.layer
    asked = _checked_claims(claims, record.construction)
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
        epsilon = float(f"{1e-6 * largest:.0e}")
    epsilon, delta = _bound("epsilon", epsilon), _bound("delta", delta)
    require_seed(seed)
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


def upper_bound_certificate(dataset: Dataset, num_heads: int) -> Certificate:
    """Prove that no weights of H heads memorize all labellings of the examples.

    It holds for every T > H(n - 1) + 1 examples with one shared context of rank n, and wherever
    all tokens lie on a hyperplane: the certificate carries x with e.x = 1 for every token, which
    gives H - 1 null vectors of Z whatever the weights are (Theorem 3, `claims.impossible`). The
    claim *impossible* is UNDECIDED where that does not prove it.

    Raises ParameterError if H is not positive.

    >>> from constructive import generators
    >>> data = generators.shared_context(num_examples=8, context_size=3, width=5)
    >>> print(upper_bound_certificate(data, num_heads=3)["impossible"].statement)
    rank Z <= 7 < T = 8 for all weights of H = 3 heads: none memorize every labelling
    """
    require_positive(num_heads=num_heads)
    arrays = _data_arrays(dataset)
    return Certificate(
        claims=(impossible.prove(dataset, num_heads),),
        data=_described(arrays, fingerprint(arrays)),
        weights=_described({}, fingerprint({})),
        made_by=_made_by(),
    )


@dataclass(frozen=True)
class Checked:
    """What the independent checker said: PROVED, or UNDECIDED where it refused.

    report: its output, a line for each claim, then PROVED or the reason why not
    """

    verdict: Verdict
    report: str


def check(
    certificate: str | Path, weights: str | Path | None, data: str | Path, *, quick: bool = False
) -> Checked:
    """Run the independent checker on the files of a certificate, weights and data.

    weights: None for the certificate of an upper bound, which is about all weights

    The checker is one file, run as a process of its own with `python -I`: it imports nothing of
    this package. For paired heads that is `constructive/paired_checker.py`, which needs no T x T
    matrix; for all others `constructive/checker.py`, where `quick` checks the rank claim by
    products with vectors which nobody can choose, in O(T^2), instead of by elimination.

    >>> check("none.json", "none.safetensors", "none.npz").verdict
    <Verdict.UNDECIDED: 'neither was shown; the claim says what to try'>
    """
    paths = [certificate, data] if weights is None else [certificate, weights, data]
    files = [str(Path(path).resolve()) for path in paths]
    in_pairs = weights is not None and _format_of(certificate) == PAIRED_FORMAT
    checker = Path(__file__).with_name("paired_checker.py" if in_pairs else "checker.py")
    command = [sys.executable, "-I", str(checker), *files]
    if quick and not in_pairs:
        command.append("--quick")
    run = subprocess.run(  # noqa: S603 - our own file, and no shell
        command, capture_output=True, text=True, check=False
    )
    verdict = Verdict.PROVED if run.returncode == 0 else Verdict.UNDECIDED
    return Checked(verdict, run.stdout + run.stderr)


def _format_of(path: str | Path) -> object:
    """What a certificate says it is; the checker it names reads it again, and trusts nothing."""
    try:
        return json.loads(Path(path).read_bytes())["format"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


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
    if not (real and 0.0 <= float(value) < float("inf")):
        raise ParameterError(
            f"{name}={value!r} is not a bound", witness=value, suggestion=f"{name}=1e-6"
        )
    return float(value)


def _checked_claims(claims: Iterable[ClaimName] | None, construction: str) -> list[ClaimName]:
    ungrouped = construction in ("paired", "trained")  # their groups are others, or none
    known = ALL_CLAIMS[1:] if ungrouped else ALL_CLAIMS
    asked = list(known) if claims is None else [claims] if isinstance(claims, str) else list(claims)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        what = f"claims about {construction} heads" if ungrouped else "claims"
        raise ParameterError(
            f"claims={claims!r} are not {what}",
            witness=unknown or None,
            suggestion=f"some of {', '.join(known)}",
        )
    if construction == "paired" and "readout" in asked:
        asked.append("rank")  # it rests on the same blocks, which the claim rank names
    return [name for name in known if name in asked]


def _frozen(value: object) -> object:
    return tuple(_frozen(x) for x in value) if isinstance(value, list) else value
