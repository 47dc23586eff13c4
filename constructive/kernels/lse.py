"""The log-sum-exp that every admissible kernel returns beside its output (Theorem 20)."""

import math
from dataclasses import dataclass

import numpy as np

from constructive.exact.kernel_model import KERNEL_MODELS
from constructive.kernels.answer import (
    TANH_ERROR,
    Answer,
    beside,
    exp0_error,
    near_exp_error,
    near_weight,
    operand_error,
    tail_of_cap,
)
from constructive.kernels.cases import LOGIT_ERROR, Draft
from constructive.kernels.spec import Spec
from constructive.support.arguments import require_known
from constructive.support.arrays import Array

LN2 = math.log(2.0)
BASES = {"e": 1.0, "2": LN2}
UNIT = 2.0**-24  # log-sum-exps are in float32, or in more bits
LOG_ERROR = 2.0**-20  # eps_l: a logarithm is off by at most this part of itself, and log 1 = 0
_FAINT = 2.0**-70  # what a key or a sink far below adds
_ENTRIES = 6  # roundings to the format of inputs, where logits and entries are stored


@dataclass(frozen=True, eq=False)
class Lse:
    """Log-sum-exps of rows: log sum_j exp(l_j), its two parts, and what a kernel may return."""

    # (B, H, T_q) in the base that was asked for; NaN in rows that are not checked, the convention
    # in rows that see no key
    expected: Array
    slack: Array  # (B, H, T_q) how far an admissible one may be away; about 2^-60: bit for bit
    level: Array  # (B, H, T_q) logits of winners
    total: Array  # (B, H, T_q) weights of all keys, where a winner has 1
    base: str  # "e" or "2"


def expected_lse(
    spec: Spec, draft: Draft, given: Answer, sinks: Array | None, *, base: str = "e",
    sink_in_lse: bool = True, fully_masked_lse: float = -math.inf, model: str | None = None,
) -> Lse:  # fmt: skip
    """Return the log-sum-exps of a problem, by Theorem 20."""
    require_known("base", base, BASES)
    counted = sinks if sink_in_lse else None
    level, of_level = _level(spec, draft)
    total = np.asarray(given.weights.sum(-1) + beside(draft, counted))
    log = np.log(np.maximum(total, 1.0))
    size = np.abs(level)
    slack = np.where(total == 1.0, 0.0, 5.0 * UNIT * (size + log) + 1.2 * LOG_ERROR * log)
    whole = np.exp2(np.round(np.log2(np.maximum(total, 1.0)))) == total
    slack = slack + np.where(whole, 0.0, 4.0 * UNIT * (spec.keys + 8.0))
    slack = (
        slack + _FAINT * (spec.keys + 1) + 1.01 * exp0_error(spec) + tail_of_cap(spec) + of_level
    )
    if math.frexp(spec.factor)[0] != 0.5 or spec.soft_cap is not None:  # noqa: PLR2004 - 2^k
        stored = 0.0
        if model is not None and KERNEL_MODELS[model].stores_logits:
            stored = _ENTRIES * KERNEL_MODELS[model].stored_unit
        rounded = 6.0 * UNIT + stored + operand_error(spec)
        slack = slack + rounded * size + np.where(size > 0.0, 1.01 * near_exp_error(spec), 0.0)
    slack = slack + _of_near(spec, draft, given, total)
    alone = np.broadcast_to(fully_masked_lse, level.shape)
    off = np.zeros_like(slack)
    if counted is not None:
        alone = np.broadcast_to(np.asarray(counted)[:, None], level.shape)
        off = 3.0 * UNIT * np.abs(alone)
    expected = level + log
    if base == "2":
        expected, slack = expected / LN2, (slack + 3.0 * UNIT * (size + log)) / LN2
        if counted is not None:
            alone, off = alone / LN2, 2.0 * off / LN2
    expected = np.where(given.empty, alone, np.where(given.checked, expected, np.nan))
    return Lse(expected, np.where(given.empty, off, slack), level, total, base)


def _level(spec: Spec, draft: Draft) -> tuple[Array, Array | float]:
    """Return logits of winners, and how far a soft cap may move them."""
    level, cap = draft.levels * spec.factor, spec.soft_cap
    if cap is None:
        return level, 0.0
    ends = [np.tanh(level * (1.0 + sign * LOGIT_ERROR) / cap) for sign in (-1.0, 1.0)]
    capped = np.tanh(level / cap)
    moved = np.maximum(*(np.abs(end - capped) for end in ends)) + TANH_ERROR * np.abs(capped)
    return cap * capped, cap * moved


def _of_near(spec: Spec, draft: Draft, given: Answer, total: Array) -> Array | float:
    """Return how far a near key may move the logarithm."""
    if draft.near is None:
        return 0.0
    part, ends = near_weight(spec, draft)
    near = ((given.weights > 0.0) & (given.weights < 1.0)).sum(-1)
    safe = np.maximum(total, 1.0)
    moved = [np.abs(np.log((safe + near * (end - part)) / safe)) for end in ends]
    return np.asarray(np.maximum(*moved))
