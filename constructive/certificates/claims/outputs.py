"""The claims about outputs of layers: *error*, *readout*, *executed*, *labels*, *inseparable*.

The layer is enclosed on all examples, for all these claims: first in float64 with
a-priori bounds (`exact.float_enclosure`), which is fast, then in balls of more and more bits
(`exact.balls`). An example surely beyond epsilon refutes *error*; one whose ball straddles it
asks for more bits. A checker has arithmetic of its own, so an error has to be a little below
epsilon (`ROOM`), and epsilon more than 0 (but for a readout of zeros, where nothing is rounded).

*readout* is Theorem 5 (proofs/11-verified-readout.md) for D Z, where the powers of two 2^(-e_t) of
the diagonal D bring every context to size one. For most layers float64 finds the R of the theorem;
for the ill-conditioned ones R is a right inverse of D Z in balls, where q = 0.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from flint import arb, arb_mat

from constructive.certificates.claims.kind import CertifyOptions, ClaimKind, Subject
from constructive.certificates.claims.rank import vectors_of
from constructive.constructions.separation import separate
from constructive.data.dataset import Dataset
from constructive.exact import verified
from constructive.exact.balls import exact_matrix, largest, right_inverse_bound
from constructive.exact.directed import (
    at_least,
    at_most,
    percent,
    short_bound,
    upper,
    working_precision,
)
from constructive.exact.float_enclosure import Bounded, BoundedReadout, Enclosure
from constructive.exact.float_model import FloatModel, model_named
from constructive.exact.upward import LONGEST, UNIT, gamma, up
from constructive.layers.attention import Chunk, after_attention, examples
from constructive.layers.exact_logits import LogitRounding, rounding
from constructive.layers.extended import (
    BallLayer,
    FloatLayer,
    effective_readout,
    enclose,
    intermediate,
)
from constructive.layers.layer import FLOAT64_BITS, AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import floats_of
from constructive.support.arrays import Array, Integers
from constructive.support.verdict import Claim, Verdict, pack
from constructive.support.work import report
from constructive.theory.capacity import spans_of

_READOUT_BITS = 128  # Bits in which W_V W_O W_D is multiplied, before it is rounded


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Residuals f(E_t, e_t) - y_t in balls, and scaled rows of Z in float64."""

    prec: int  # bits with which residuals were computed; 53 in float64
    residuals: arb_mat  # (T, d_out) balls
    readout: arb  # bounds every entry of the effective readout U; 0 only if all of them are
    # e_t, (T,), so that the entries of E_t, and of row t of Z, are below 2^(e_t) in size
    exponents: Integers
    # Z, with row t times 2^(-e_t), near enough; (T, H d), or None if it was not asked for
    midpoints: Array | None
    radius: float  # bounds every entry of the difference; infinite if balls are not finite

    @property
    def bounded(self) -> bool:
        """Whether this is float64 with a-priori bounds, and no balls."""
        return self.prec == FLOAT64_BITS

    @property
    def how(self) -> str:
        """In what arithmetic residuals were enclosed, in words."""
        return "float64 with a-priori bounds" if self.bounded else f"balls of {self.prec} bits"

    @property
    def rows(self) -> Array:
        """Z, as `midpoints`, which have been kept."""
        if self.midpoints is None:
            raise TypeError("the evaluation did not keep Z")
        return self.midpoints

    @property
    def largest_residual(self) -> arb:
        """An upper bound of every `|f - y|`."""
        return largest(self.residuals)

    @property
    def largest_scaled_residual(self) -> arb:
        """An upper bound of every `|f - y| 2^(-e_t)`."""
        return largest(self.scaled(self.residuals))

    def scaled(self, matrix: arb_mat) -> arb_mat:
        """Return a matrix with row t times 2^(-e_t)."""
        pairs = zip(matrix.tolist(), self.exponents.tolist(), strict=True)
        return arb_mat([[x * _power(-exponent) for x in row] for row, exponent in pairs])


def evaluate_in_floats(
    layer: AttentionLayer, dataset: Dataset, *, representation: bool
) -> Evaluation:
    """Run a layer in float64 on data that fit it, with bounds, which may be infinite.

    `representation` says whether to keep Z.
    """
    total = dataset.num_examples
    exponents = _context_exponents(dataset)
    with working_precision(_READOUT_BITS):
        exact = effective_readout(layer)
        readout = _nearest(exact, (layer.num_heads, layer.width, layer.target_dim))
    midpoints = np.empty((total, layer.num_heads * layer.width)) if representation else None
    radius, entries = 0.0, []
    weights = layer.query_weights, layer.key_weights

    def enclosed(chunk: Chunk[Enclosure]) -> tuple[slice, Enclosure, float]:
        z = chunk.representation
        if midpoints is not None:
            midpoints[chunk.rows] = z.numbers.reshape(-1, midpoints.shape[1])
        return chunk.rows, readout.outputs(z), float(np.nan_to_num(z.errors, nan=np.inf).max())

    view = examples(dataset.contexts, dataset.queries)
    for rows, outputs, error in after_attention(enclosed, Bounded(), weights, view):
        radius = max(radius, error)
        entries += _residuals(outputs, exponents[rows], dataset.target_matrix[rows])
        report("enclose the layer", rows.stop, total)
    if midpoints is not None and not np.isfinite(midpoints).all():
        radius = float("inf")
    residuals = arb_mat(total, dataset.target_dim, entries)
    return Evaluation(FLOAT64_BITS, residuals, largest(exact), exponents, midpoints, radius)


def _residuals(outputs: Enclosure, exponents: Integers, targets: Array) -> list[arb]:
    """Return residuals f - y as balls around what float64 has."""
    targets = targets.astype(np.float64, copy=False)
    scale = exponents[:, np.newaxis]
    with np.errstate(all="ignore"):  # an infinite ball decides nothing
        middle = np.ldexp(outputs.numbers, scale) - targets
        # Underflow of the first takes 2^-1075, the difference is rounded.
        spread = up(np.ldexp(outputs.errors, scale) + UNIT * np.abs(middle))
    pairs = zip(middle.ravel().tolist(), spread.ravel().tolist(), strict=True)
    return [arb(m, r) for m, r in pairs]


def nearest_readout(layer: FloatLayer, shape: tuple[int, int, int]) -> BoundedReadout:
    """Return the effective readout as floats of another shape, with bounds."""
    with working_precision(_READOUT_BITS):
        return _nearest(effective_readout(layer), shape)


def _nearest(exact: arb_mat, shape: tuple[int, int, int]) -> BoundedReadout:
    middle = np.array([float(x.mid()) for x in exact.entries()]).reshape(shape)
    # Most balls are points: a readout is usually a product with identities.
    radii = [0.0 if x.is_exact() else upper(x.rad()) for x in exact.entries()]
    radius = np.array(radii).reshape(shape)
    # A midpoint becomes one of both floats next to it, so off by less than their gap.
    return BoundedReadout(middle, up(radius + 2.0**-52 * np.abs(middle)))


def evaluate(enclosed: BallLayer, dataset: Dataset, *, representation: bool) -> Evaluation:
    """Run a layer in balls on the data, keeping Z in float64 if `representation` is wanted."""
    total, prec = dataset.num_examples, enclosed.prec
    targets = exact_matrix(dataset.target_matrix).tolist()
    exponents = _context_exponents(dataset)
    columns = enclosed.layer.num_heads * dataset.width
    midpoints = np.empty((total, columns)) if representation else None
    ones = arb_mat(columns, 1, [1] * columns)
    radius = 0.0
    entries: list[arb] = []
    for row in enclosed(dataset):
        with working_precision(prec):
            pairs = zip(row.output.entries(), targets[row.example], strict=True)
            entries += [output - target for output, target in pairs]
            if midpoints is not None:
                z = row.representation * _power(-exponents[row.example])
                midpoints[row.example] = [float(x) for x in z.entries()]
                # (z - its midpoint) sums to a ball whose radius is at least every radius of z.
                spread = ((z - z.mid()) * ones)[0, 0].abs_upper()
                # A midpoint becomes one of both floats next to it, so off by less than their gap.
                rounding = 2.0**-52 * np.abs(midpoints[row.example]).max() + 2.0**-1070
                radius = max(radius, upper(spread) + rounding)
        report("enclose the layer", row.example + 1, total)
    if midpoints is not None and not (np.isfinite(midpoints).all() and np.isfinite(radius)):
        radius = float("inf")
    residuals = arb_mat(total, dataset.target_dim, entries)
    size = largest(enclosed.readout)
    return Evaluation(prec, residuals, size, exponents, midpoints, radius * (1 + 2.0**-50))


def _context_exponents(dataset: Dataset) -> Integers:
    """Return the least e_t with all entries of E_t below 2^(e_t) in size: (T,)."""
    exponents = np.empty(dataset.num_examples, dtype=np.int64)
    for rows, contexts in dataset.filled.context_chunks():
        exponents[rows] = np.frexp(np.abs(contexts).max(axis=(1, 2)))[1]
    return exponents


def _power(exponent: int) -> arb:
    return arb(2) ** int(exponent)


class Evaluations:
    """A layer on all examples, with more bits each time that one more is asked for.

    First in float64 with a-priori bounds, if it is all in floats; then in balls, with twice the
    bits each time. The last one is kept, and the next claim starts with it.
    """

    def __init__(self, subject: Subject[Memorizer, Dataset]) -> None:
        self._layer, self._dataset = floats_of(subject.weights.layer), subject.data
        self._max_prec = subject.options.max_prec
        self._keep_rows = any(kind.needs_rows for kind in subject.asked)
        self._last: Evaluation | None = None

    @classmethod
    def of(cls, subject: Subject[Memorizer, Dataset]) -> "Evaluations":
        """Return those that all claims about a layer share."""
        return subject.once(cls, lambda: cls(subject))

    def __iter__(self) -> Iterator[Evaluation]:
        last = self._last = self._last or self._first()
        yield last
        while last.prec < self._max_prec:
            last = self._last = self._at(max(2 * last.prec, self._layer.first_bits))
            yield last

    def judged_by(self, judge: Callable[[Evaluation], Claim]) -> Claim:
        """Judge at increasing precision until the claim is decided or `max_prec` is reached."""
        for evaluation in self:
            claim = judge(evaluation)
            if claim.verdict is not Verdict.UNDECIDED:
                break
        return claim

    def _first(self) -> Evaluation:
        leading = self._layer.leading
        # A sum of several floats is there for more bits than these bounds can show.
        if leading is not self._layer or self._max_prec < FLOAT64_BITS:
            return self._at(self._layer.first_bits)
        return evaluate_in_floats(leading, self._dataset, representation=self._keep_rows)

    def _at(self, prec: int) -> Evaluation:
        layer = enclose(self._layer, min(prec, self._max_prec))
        return evaluate(layer, self._dataset, representation=self._keep_rows)


# The claim *error*.

ROOM = 1 + 2.0**-30


class Error(ClaimKind):
    """The claim *error*: `max |f(E_t, e_t) - y_t| <= epsilon`."""

    name = "error"
    statement = "max |f(E_t, e_t) - y_t| <= {!r}"
    options = frozenset({"epsilon", "max_prec"})

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Compare every residual with epsilon, with as many bits as that takes."""
        epsilon = epsilon_of(subject)
        return Evaluations.of(subject).judged_by(lambda found: judge_error(found, epsilon))


def epsilon_of(subject: Subject[Memorizer, Dataset]) -> float:
    """Return the epsilon that was given, or a millionth of the largest target, to one digit."""
    if subject.options.epsilon is not None:
        return subject.options.epsilon
    largest = float(np.abs(subject.data.targets).max()) or 1.0
    return float(f"{1e-6 * largest:.0e}") or math.ulp(0.0)


def judge_error(evaluation: Evaluation, epsilon: float) -> Claim:
    """Compare every residual with epsilon."""
    statement = Error.statement.format(epsilon)
    allowed, straddling = arb(epsilon), None
    room = epsilon > 0 or evaluation.readout == 0
    rows, columns = evaluation.residuals.nrows(), evaluation.residuals.ncols()
    with working_precision(evaluation.prec):
        for index, residual in enumerate(evaluation.residuals.entries()):
            size = abs(residual)
            if room and size * ROOM <= allowed:
                continue
            example, entry = divmod(index, columns)
            if size > allowed and size.is_finite():
                detail = f"at example {example}, |f - y| is {at_least(size, epsilon)} or more"
                witness = (example, entry) if columns > 1 else example
                return Claim("error", statement, Verdict.REFUTED, detail, witness)
            straddling = example if straddling is None else straddling
        if straddling is not None:
            detail = (
                f"at example {straddling} the enclosure straddles epsilon ({evaluation.how}); "
                "raise max_prec= or epsilon="
            )
            return Claim("error", statement, Verdict.UNDECIDED, detail)
        bound = at_most(evaluation.largest_residual, epsilon)
    detail = f"max |f - y| <= {bound} ({evaluation.how}, {rows} examples)"
    return Claim("error", statement, Verdict.PROVED, detail, evidence={"bound": epsilon.hex()})


# The claim *readout*.

# The statement where no distance is shown.
UNKNOWN = "some U' with Z U' = Y is near the stored effective readout U (H d, d_out)"
# Entries of Z up to which an ill-conditioned one is inverted in balls (16 bytes a bit or so).
LARGEST_IN_BALLS = 2_000_000
_ROOM = 1.25  # What is claimed is this much more than what is shown, as a checker has another R
# A distance of exactly 0 is claimed as this part of the readout, for he rounds, too.
_LEAST = 2.0**-100


class Readout(ClaimKind):
    """The claim *readout*: some U' with Z U' = Y is within delta of the stored readout U."""

    name = "readout"
    statement = (
        "some U' with Z U' = Y is within {!r} of the stored effective readout U (H d, d_out), "
        "entry by entry"
    )
    options = frozenset({"delta", "max_prec"})
    needs_rows = True
    usual = False

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Bound the distance with more and more bits, unless Z looks singular."""
        layer, dataset = floats_of(subject.weights.layer), subject.data

        def with_bits(evaluation: Evaluation) -> Claim:
            report("bound the exact readout", 0, 1)
            return judge_readout(
                evaluation,
                subject.options.delta,
                lambda: intermediate(enclose(layer, evaluation.prec), dataset),
            )

        rank = subject.judged.get("rank")
        if rank is not None and not rank.proved:  # more bits would not find an exact readout
            return with_bits(next(iter(Evaluations.of(subject))))
        return Evaluations.of(subject).judged_by(with_bits)


def judge_readout(
    evaluation: Evaluation, delta: float | None, representation: Callable[[], arb_mat]
) -> Claim:
    """Bound the distance to an exact readout; without a delta, the claim is what was shown.

    The evaluation has kept Z; `representation` gives Z in balls, where float64 does not suffice.
    """
    midpoints = evaluation.rows
    how = "float64 with a-priori bounds"
    with working_precision(evaluation.prec):
        middle = [[x.mid() for x in row] for row in evaluation.residuals.tolist()]
        sharp = evaluation.largest_residual <= 2 * largest(arb_mat(middle))
        if evaluation.bounded and delta is None and not sharp:
            detail = f"{how} show more than twice the distance; raise max_prec="
            return Claim("readout", UNKNOWN, Verdict.UNDECIDED, detail)
        kappa = arb(verified.right_inverse_bound(midpoints, evaluation.radius))
        balls = not evaluation.bounded and midpoints.size <= LARGEST_IN_BALLS
        if balls and not kappa.is_finite():
            kappa = right_inverse_bound(evaluation.scaled(representation()), evaluation.prec)
            how = evaluation.how
        bound = kappa * evaluation.largest_scaled_residual
        if bound == 0:
            bound = evaluation.readout * _LEAST
        shown = short_bound(bound * _ROOM) if delta is None else delta
        statement = Readout.statement.format(shown)
        if not bound.is_finite() or not np.isfinite(shown):
            detail = f"{how} find no right inverse of Z; raise max_prec="
            return Claim("readout", UNKNOWN, Verdict.UNDECIDED, detail)
        if not bound * _ROOM <= shown:
            detail = (
                f"{how} show a distance of at most {at_most(bound)}, and {_ROOM} times that may be "
                "claimed; raise max_prec= or delta="
            )
            return Claim("readout", statement, Verdict.UNDECIDED, detail)
    detail = f"distance at most {at_most(bound, shown)}; kappa = {at_most(kappa)} ({how})"
    return Claim("readout", statement, Verdict.PROVED, detail, evidence={"bound": shown.hex()})


# The claim *executed*: `|f - y|` of a layer is within a bound for all programs of a model.
#
# In real arithmetic f is near y, as in the claim *error*, and no program of the model
# (`exact.float_model`) is farther from that than `layers.exact_logits` says. Logits need not be
# exact. Where heads read small differences of large numbers, their logits are not; then the bound
# is large, and vacuous where no target is larger. Where weights and data are such short
# numbers that all logits are exact, the statement says that, too.

# Part of the bound of rounding by which others, who check it, may round it up.
_OTHERS = Fraction(1, 1 << 10)


class Executed(ClaimKind):
    """The claim *executed* of a layer, which is made if it is asked for."""

    name = "executed"
    statement = "max |fl(f(E_t, e_t)) - y_t| <= {!r}{} for every program fl of the model {!r}: {}"
    # Added where the bound is no less than the targets.
    vacuous = " (vacuous, as no target is larger than {!r})"
    # The statement where nothing is bounded.
    unshown = "fl(f(E_t, e_t)) is near y_t for every program fl of the model {!r}"
    options = frozenset({"model", "epsilon", "max_prec"})
    usual = False

    def require_options(self, weights: Memorizer, options: CertifyOptions) -> None:  # noqa: ARG002
        """Refuse a model that there is not. Raises ParameterError."""
        model_named(options.model)

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Judge it with more and more bits, if rounding has a bound."""
        layer = floats_of(subject.weights.layer)
        model = model_named(subject.options.model)
        unknown = Executed.unshown.format(model.name)
        if layer.leading is not layer:
            detail = (
                f"{layer.in_words}: a sum of several arrays is not evaluated in float32; "
                "precision=53 in build_memorizer"
            )
            return Claim("executed", unknown, Verdict.UNDECIDED, detail)
        found = rounding(layer.leading, subject.data, model)
        beyond = np.flatnonzero(~np.isfinite(found.bounds).all(axis=1))
        if len(beyond):
            first = int(beyond[0])
            detail = (
                f"vacuous: nothing bounds rounding at example {first}: products of weights and "
                "data may be beyond float32, or sums have more than 2^20 terms; scale contexts, "
                "queries or targets, or take another model="
            )
            return Claim("executed", unknown, Verdict.UNDECIDED, detail, first)
        largest, allowed = float(np.abs(subject.data.targets).max()), subject.options.epsilon
        return Evaluations.of(subject).judged_by(
            lambda evaluation: judge_executed(evaluation, model, found, largest, allowed)
        )


def judge_executed(
    evaluation: Evaluation,
    model: FloatModel,
    found: LogitRounding,
    largest: float,
    allowed: float | None,
) -> Claim:
    """Add what rounding does to the largest error of a layer in real arithmetic.

    `largest` is the size of the largest target, `allowed` the largest bound, or None for any.
    """
    unknown = Executed.unshown.format(model.name)
    bounds = found.bounds.max(axis=1)
    worst = int(bounds.argmax())
    moved = float(bounds[worst])
    with working_precision(evaluation.prec):
        wide = max(residual.rad() for residual in evaluation.residuals.entries())
        real = upper(evaluation.largest_residual * ROOM + moved * 2.0**-20)
        narrow = wide <= moved
    finite = np.isfinite(moved) and np.isfinite(real)
    bound = short_bound(Fraction(real) + Fraction(moved) * (1 + _OTHERS)) if finite else np.inf
    if not np.isfinite(bound) or not narrow:
        detail = f"{evaluation.how} do not enclose the layer; raise max_prec="
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    detail = (
        f"at most {at_most(real)} in real arithmetic, and {at_most(moved)} by rounding, at example "
        f"{worst}: {_logits(found, worst)}"
    )
    vacuous = bound >= largest
    if vacuous:
        detail += (
            "; logits of construction='generic' are smaller, more heads or a smaller "
            "saturated_fraction= may help"
        )
    if allowed is not None and bound > allowed:
        detail += f"; that is more than epsilon={allowed!r}"
        return Claim("executed", unknown, Verdict.UNDECIDED, detail)
    words = model.of_layers(exact=found.exact == 1.0)
    said = Executed.vacuous.format(largest) if vacuous else ""
    evidence = {"model": model.name, "bound": bound.hex(), "real": real.hex()}
    if vacuous:
        evidence["vacuous"] = largest.hex()
    statement = Executed.statement.format(bound, said, model.name, words)
    return Claim("executed", statement, Verdict.PROVED, detail, evidence=evidence)


def _logits(found: LogitRounding, example: int) -> str:
    """Return the part of a bound that is due to logits, in words."""
    if found.exact == 1.0:
        return "none of that by logits, which are exact"
    entry = int(found.bounds[example].argmax())
    share = float(found.logits[example, entry] / found.bounds[example, entry])
    words = f"{percent(share, 0)} of that by logits, which are off by "
    words += f"{at_most(float(found.logit_errors.max()))} at most"
    exact = percent(found.exact, 0, above=False)
    return words + (f", {exact} of them exact" if found.exact > 0.0 else "")


# The claims *labels* and *inseparable*: the largest output is that of the label; or never is.
#
# *labels*. Let rows of Z be scaled by powers of two that bring contexts to size one, which scales
# outputs by positive numbers. In float64 z is within a radius of Z, entry by entry, and u near the
# effective readout U. So f = Z U is within gamma |z| |u| + radius sum |u| + |z| |u - U| (and terms
# of second order) of z u, and that bounds by how much each label leads.
#
# *inseparable*, by Proposition 32 (proofs/23-labels.md). The certificate carries B, as positive
# integers -B_tj for each example t and each class j but its own, and vectors that show which
# columns of Z are combinations of others whatever the weights are (`claims.rank`).

_SHORT = 2.0  # What is claimed is this much less than what is shown, as a checker has other bounds
_MOST = (1 << 32) - 1  # Largest of the integers m_tj


def leads(
    z: Array, radius: float, readout: BoundedReadout, labels: Integers
) -> tuple[Array, Array]:
    """Bound by how much each label leads, below and above: (T,), in units of the rows of z.

    z: (T, H d), within `radius` of the true rows;  readout: U (1, H d, C)
    """
    numbers, errors = readout.numbers[0], readout.errors[0]
    rows = np.arange(len(z))
    with np.errstate(all="ignore"):  # what overflows, or is not a number, bounds nothing
        outputs = z @ numbers
        sizes = np.abs(z)
        off = gamma(z.shape[1] + 2) * up(sizes @ np.abs(numbers))
        off += up(radius * up((np.abs(numbers) + errors).sum(axis=0))) + up(sizes @ errors)
        off = up(off + 4.0 * UNIT * np.abs(outputs))  # and the differences
        if max(z.shape) > LONGEST:
            off = np.full_like(off, np.inf)
        own, own_off = outputs[rows, labels][:, np.newaxis], off[rows, labels][:, np.newaxis]
        least, most = own - outputs - up(own_off + off), own - outputs + up(own_off + off)
    least[rows, labels] = most[rows, labels] = np.inf
    return least.min(axis=1), most.min(axis=1)


class Labels(ClaimKind):
    """The claim *labels*, of data with one-hot targets."""

    name = "labels"
    statement = (
        "targets are one-hot, and the output of each label is larger than any other by {!r} or more"
    )
    # The statement where nothing is shown.
    unshown: ClassVar[str] = (
        "targets are one-hot, and the output of each label is larger than any other"
    )
    needs_rows = True
    usual = False

    def applies(self, weights: Memorizer) -> bool:
        """Return whether there are several outputs."""
        return weights.layer.target_dim > 1

    def judge(self, subject: Subject[Memorizer, Dataset]) -> Claim:
        """Refute it where targets are not classes, else look at Z in float64."""
        targets = subject.data.target_matrix
        one_hot = ((targets == 0.0) | (targets == 1.0)).all(axis=1) & (targets.sum(axis=1) == 1.0)
        if not one_hot.all():
            wrong = int(np.argmin(one_hot))
            detail = f"the target of example {wrong} is not one-hot"
            statement = self.unshown.format(len(targets))
            return Claim(self.name, statement, Verdict.REFUTED, detail, wrong)
        evaluation = next(iter(Evaluations.of(subject)))  # of all examples
        return self.judged(subject, evaluation, targets.argmax(axis=1))

    def judged(
        self, subject: Subject[Memorizer, Dataset], evaluation: Evaluation, labels: Integers
    ) -> Claim:
        """Judge it from Z in float64, and the place of each label."""
        report("bound the leads of labels", 0, 1)
        layer = floats_of(subject.weights.layer)
        shape = 1, layer.leading.num_heads * layer.leading.width, layer.leading.target_dim
        readout = nearest_readout(layer, shape)
        least, most = leads(evaluation.rows, evaluation.radius, readout, labels)
        wrong = np.flatnonzero(most < 0.0)
        if len(wrong):
            example = int(wrong[0])
            detail = f"at example {example} another output is larger than that of its label"
            return Claim("labels", self.unshown, Verdict.REFUTED, detail, example)
        with np.errstate(over="ignore"):
            rounded = np.ldexp(least, evaluation.exponents).min()  # below 2^-1022
            shown = float(np.nextafter(rounded, -np.inf))
        claimed = float(f"{shown / _SHORT:.1e}") if 0.0 < shown < np.inf else 0.0
        if not claimed > 0.0:
            detail = (
                f"at example {int(np.argmin(least))} float64 does not show that the label leads; "
                "where outputs are near the targets, the claim error with an epsilon below 1/2 "
                "proves labels"
            )
            return Claim("labels", self.unshown, Verdict.UNDECIDED, detail)
        detail = f"labels lead by {at_least(arb(shown), claimed)} or more ({evaluation.how}, "
        detail += f"{len(labels)} examples)"
        statement, evidence = self.statement.format(claimed), {"bound": claimed.hex()}
        return Claim("labels", statement, Verdict.PROVED, detail, evidence=evidence)


class Inseparable(Labels):
    """The claim *inseparable*, of the same data."""

    name = "inseparable"
    statement = unshown = (
        "targets are one-hot, and no readout of these heads, the stored W_Q and W_K, makes the "
        "output of the label the largest one at all of {} examples"
    )

    def judged(
        self, subject: Subject[Memorizer, Dataset], evaluation: Evaluation, labels: Integers
    ) -> Claim:
        """Look for a readout, or for a combination that excludes it."""
        statement = self.statement.format(len(labels))

        def said(verdict: Verdict, detail: str, **more: object) -> Claim:
            return Claim(self.name, statement, verdict, detail, **more)  # type: ignore[arg-type]

        dataset, classes = subject.data, subject.weights.layer.target_dim
        contexts = dataset.filled.contexts
        spans = spans_of(contexts[np.newaxis] if dataset.shared_context else contexts)
        vectors = vectors_of(spans, spans.orthogonal)
        # Columns of Z that span all, whatever the weights are, as the vectors show.
        heads = floats_of(subject.weights.layer).leading.num_heads
        kept = np.ones((heads, dataset.width), dtype=bool)
        kept[0, list(spans.pivots[: vectors["zeros"]])] = False
        kept[1:, list(spans.pivots)] = False
        z = evaluation.rows[:, kept.ravel()]
        found = separate(z, labels, classes)
        if found.effective is not None:
            exact = BoundedReadout(found.effective[None], 0.0 * found.effective[None])
            least = leads(z, evaluation.radius, exact, labels)[0].min()
            if least > 0.0:
                detail = "some readout of these heads has the labels"
                return said(Verdict.REFUTED, detail, witness={"lead": float(least)})
        if found.combination is None:
            return said(Verdict.UNDECIDED, "float64 finds no combination that shows it")
        multipliers = _integers(found.combination, labels)
        report("a right inverse of Z^T", 0, 1)
        kappa = verified.right_inverse_bound(z.T, evaluation.radius)
        allowed = up(kappa * rest(z, evaluation.radius, combination(multipliers, labels)))
        others = multipliers > 0
        if not (others.sum(axis=1) == classes - 1).all() or not (
            _SHORT * allowed < multipliers[others].min()
        ):
            detail = f"float64 shows no combination: {allowed:.1e} of 2^32 may be lost, and the "
            detail += f"least coefficient is {multipliers.min(where=others, initial=_MOST):.1e}"
            return said(Verdict.UNDECIDED, detail)
        detail = "a combination of leads with positive coefficients is zero for every readout, by "
        detail += f"Gordan; kappa <= {kappa:.1e}"
        return said(Verdict.PROVED, detail, evidence={"multipliers": pack(multipliers)} | vectors)


def _integers(found: Array, labels: Integers) -> Integers:
    """Return -B as integers of 32 bits, and zeros at labels."""
    sizes = -found
    sizes[np.arange(len(labels)), labels] = 0.0
    rounded: Integers = np.rint(sizes * (_MOST / sizes.max())).astype(np.int64)
    return rounded


def combination(multipliers: Integers, labels: Integers) -> Array:
    """Return B (T, C): integers, with rows that sum to zero."""
    whole = -multipliers.astype(np.float64)
    whole[np.arange(len(labels)), labels] = multipliers.sum(axis=1)
    return whole


def rest(z: Array, radius: float, whole: Array) -> Array:
    """Bound all entries of Z^T B, for Z within `radius` of z."""
    with np.errstate(all="ignore"):
        sizes = np.abs(whole)
        off = gamma(len(z) + 2) * up(np.abs(z).T @ sizes)
        off += up(radius * up(sizes.sum(axis=0)))
        bound: Array = up(np.abs(z.T @ whole) + off).max()
    return bound


ERROR, READOUT, EXECUTED = Error(), Readout(), Executed()
LABELS, INSEPARABLE = Labels(), Inseparable()
