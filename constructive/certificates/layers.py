"""Certificates of layers: claims one after the other, or the shorter proof of paired heads."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from constructive.certificates.about import described, described_data, made_by
from constructive.certificates.certificate import FORMAT, PAIRED_FORMAT, Certificate
from constructive.certificates.claims.kind import Evaluations, Subject
from constructive.certificates.claims.paired import judge as paired
from constructive.certificates.claims.registry import CLAIMS
from constructive.certificates.prover import Asked, Known
from constructive.constructions.registry import CONSTRUCTIONS
from constructive.data.dataset import Dataset
from constructive.exact.models import model_named
from constructive.layers.memorizer import Memorizer
from constructive.support.errors import ParameterError
from constructive.support.verdict import Claim, Verdict

_LARGEST_DENSE = 2000
"""Examples up to which paired heads are judged as any others, where their own proof fails."""


def known_claims(memorizer: Memorizer) -> Known:
    """The claims which there are about a memorizer, and how to call them."""
    record = memorizer.record
    construction = CONSTRUCTIONS.get(record.construction)  # weights are judged whoever built them
    grouped = record.heads and (construction is None or construction.grouped)
    kinds = {name: kind for name, kind in CLAIMS.items() if grouped or not kind.grouped}
    # Groups of Theorems 1 and 2 are small, and taken in the order given.
    wide = not record.small_groups or record.context_size > memorizer.layer.width
    wide = wide or bool(record.order)
    fits = {name for name, kind in kinds.items() if not kind.grouped or kind.wide == wide}
    usual = tuple(name for name, kind in kinds.items() if kind.usual and name in fits)
    what = "a layer" if grouped else f"{record.construction} heads"
    return Known(tuple(kinds), usual, f"claims about {what}")


def refused(memorizer: Memorizer) -> Known:
    """Refuse a layer which is exact anyway: raises ParameterError."""
    return Known((), (), repr(memorizer.layer.leading))


def prove(memorizer: Memorizer, dataset: Dataset, asked: Asked) -> Certificate:
    """Judge the claims about a layer which are asked for."""
    layer = memorizer.layer
    layer.leading.check_fits(dataset)
    model = model_named(asked.model)  # refused before long work
    epsilon = _usual_epsilon(dataset) if asked.epsilon is None else asked.epsilon
    data, weights = described_data(dataset), described(layer.tensors)

    def certificate(claims: Sequence[Claim], form: str) -> Certificate:
        dataset.require_unchanged()  # so that claims are about the data which were hashed
        return Certificate(tuple(claims), data, weights, made_by(), form)

    if set(asked.claims) <= set(paired.CLAIMS) and paired.applies(memorizer, dataset):
        grounds = paired.with_grounds(asked.claims)
        proved = paired.prove(
            memorizer, dataset, grounds, epsilon, asked.delta,
            executor=asked.executor)  # fmt: skip
        decided = all(claim.verdict is not Verdict.UNDECIDED for claim in proved)
        if decided or dataset.num_examples > _LARGEST_DENSE:
            return certificate(proved, PAIRED_FORMAT)
    elif asked.executor is not None:
        raise ParameterError(
            f"claims {', '.join(asked.claims)} about {memorizer.record.construction} heads are not "
            "proved in pieces, and have no executor= (--jobs)",
            witness=type(asked.executor).__name__,
            suggestion=f"paired heads with claims among {', '.join(paired.CLAIMS)}, or no "
            "executor= (--jobs)",
        )

    kinds = {name: CLAIMS[name] for name in asked.claims}
    subject = Subject(
        layer=layer,
        dataset=dataset,
        heads=memorizer.record.heads,
        order=memorizer.record.order,
        epsilon=epsilon,
        allowed=asked.epsilon,
        model=model,
        delta=asked.delta,
        fingerprints=_both(data, weights),
        evaluations=Evaluations(
            layer,
            dataset,
            max_prec=asked.max_prec,
            keep_rows=any(kind.keeps_rows for kind in kinds.values()),
        ),
        rng=np.random.default_rng(asked.seed),
    )
    for name, kind in kinds.items():
        subject.judged[name] = kind.judge(subject)
    return certificate([subject.judged[name] for name in asked.claims], FORMAT)


def _usual_epsilon(dataset: Dataset) -> float:
    """A millionth of the largest target, to one digit."""
    largest = float(np.abs(dataset.targets).max()) or 1.0
    return float(f"{1e-6 * largest:.0e}") or math.ulp(0.0)


def _both(data: dict[str, Any], weights: dict[str, Any]) -> bytes:
    return bytes.fromhex(data["sha256"] + weights["sha256"])
