"""The claims themselves."""

from collections.abc import Sequence

import numpy as np

from constructive.attention import AttentionLayer
from constructive.claims import rank
from constructive.claims.error import downwards, upwards
from constructive.claims.paired.entries import Entries, evaluate
from constructive.claims.paired.examples import (
    Examples,
    UndecidedError,
    layer_of,
    require_range,
)
from constructive.claims.paired.inverse import Inverse, bound_inverse
from constructive.claims.paired.residuals import residuals_of
from constructive.dataset import Array, Dataset
from constructive.exact.compensated import SLACK, TINY
from constructive.memorizer import Memorizer
from constructive.progress import Progress
from constructive.record import BuildRecord
from constructive.verdict import Claim, Verdict, pack

_SMALLEST = 1e-100
"""No smaller distance is claimed unasked: a checker may have to round up."""


def applies(memorizer: Memorizer, dataset: Dataset) -> bool:
    """Whether these are paired heads of rank one, along one key direction, for these examples.

    The record is not trusted: its order and its groups have to fit the data.
    """
    layer, record = memorizer.layer, memorizer.record
    if not isinstance(record, BuildRecord) or not isinstance(layer, AttentionLayer):
        return False
    pairs, total = layer.num_heads // 2, dataset.num_examples
    keys = layer.key_weights[: 2 * pairs]
    stops = [0, *(head.stop for head in record.heads[1 : 2 * pairs : 2])]
    sizes = np.diff(stops)
    return bool(
        record.construction == "paired"
        and pairs > 0
        and not layer.query_weights[:, :, 1:].any()
        and (keys == keys[:1]).all()
        and not dataset.shared_context
        and dataset.context_size > 1
        and sorted(record.order) == list(range(total))
        and len(sizes) == pairs
        and 0 <= sizes.min() <= sizes.max() <= dataset.width
        and total - 1 <= stops[-1] <= total
    )


def prove(
    memorizer: Memorizer,
    dataset: Dataset,
    asked: Sequence[str],
    epsilon: float,
    delta: float | None,
    *,
    progress: Progress,
) -> tuple[Claim, ...]:
    """Decide the claims that are asked for, among rank, error and readout."""
    total = dataset.num_examples
    statements = {
        "rank": f"rank Z = T = {total}: these attention weights memorize every labelling",
        "error": f"max |f(E_t, e_t) - y_t| <= {epsilon!r}",
        "readout": "an exact readout is near the stored one",
    }
    done: dict[str, Claim] = {}
    try:
        require_range(memorizer, dataset)
        examples = Examples.of(memorizer, dataset)
        entries = evaluate(examples, progress)
        if "error" in asked or "readout" in asked:
            residuals, slack = residuals_of(examples, entries, memorizer)
        if "error" in asked:
            done["error"] = _error(examples, residuals, slack, epsilon)
        if "rank" in asked or "readout" in asked:
            progress("bound the inverse", 0, 1)
            inverse = bound_inverse(examples, entries)
        if "rank" in asked:
            done["rank"] = _rank(statements["rank"], examples, entries, inverse)
        if "readout" in asked:
            done["readout"] = _readout(inverse, residuals + slack, delta)
    except UndecidedError as reason:
        for name in set(asked) - set(done):
            done[name] = Claim(name, statements[name], Verdict.UNDECIDED, str(reason))
        refuted = rank.refute(layer_of(memorizer), dataset) if "rank" in asked else None
        if refuted is not None:
            done["rank"] = Claim("rank", statements["rank"], Verdict.REFUTED, *refuted)
    return tuple(done[name] for name in asked)


def _rank(statement: str, examples: Examples, entries: Entries, inverse: Inverse) -> Claim:
    detail = (
        f"{len(examples.stops)} blocks, {len(entries.pairs)} coupled entries beside them, all "
        f"others below {upwards(float(examples.tail.max()))}; contraction "
        f"{upwards(inverse.contraction)}"
    )
    return Claim("rank", statement, Verdict.PROVED, detail, evidence=_evidence(examples))


def _evidence(examples: Examples) -> dict[str, str]:
    return {"order": pack(examples.order), "stops": pack(examples.stops)}


def _error(examples: Examples, residuals: Array, slack: Array, epsilon: float) -> Claim:
    statement = f"max |f(E_t, e_t) - y_t| <= {epsilon!r}"
    surely = residuals * (2.0 - SLACK) - slack > epsilon
    if surely.any():
        position, entry = (int(i) for i in np.argwhere(surely)[0])
        example = int(examples.order[position])
        least = float(residuals[position, entry] - slack[position, entry])
        detail = f"at example {example}, |f - y| is {downwards(least)} or more"
        witness = (example, entry) if residuals.shape[1] > 1 else example
        return Claim("error", statement, Verdict.REFUTED, detail, witness)
    bounds = (residuals + slack) * SLACK
    if not (bounds <= epsilon).all():
        worst = int(np.nan_to_num(bounds.max(axis=1), nan=np.inf).argmax())
        detail = (
            f"at example {examples.order[worst]} the bound {bounds[worst].max():.1e} in float64 "
            "straddles epsilon; a larger epsilon="
        )
        return Claim("error", statement, Verdict.UNDECIDED, detail)
    detail = (
        f"max |f - y| <= {upwards(float(bounds.max()))} (float64 with bounds, "
        f"{len(bounds)} examples)"
    )
    return Claim("error", statement, Verdict.PROVED, detail, evidence={"bound": epsilon.hex()})


def _readout(inverse: Inverse, bounds: Array, delta: float | None) -> Claim:
    scaled = float((bounds / inverse.weights[:, np.newaxis]).max()) * SLACK
    bound = inverse.spread * scaled / (1.0 - inverse.contraction) * SLACK + TINY
    # Unasked, more is claimed than was shown: a checker has another R and w, and rounds too.
    shown = delta if delta is not None else float(upwards(max(2.0 * bound, _SMALLEST)))
    statement = f"an exact readout is within {shown!r} of the stored one, entry by entry"
    if not bound <= shown or not np.isfinite(bound):
        detail = f"only a distance of at most {bound:.1e} is shown; a larger delta="
        return Claim("readout", statement, Verdict.UNDECIDED, detail)
    detail = f"distance at most {upwards(bound)} (contraction {upwards(inverse.contraction)})"
    return Claim("readout", statement, Verdict.PROVED, detail, evidence={"bound": shown.hex()})
