"""The margins of an integer readout, exactly, and what float32 may take of them.

Proposition 21.3: outputs are sums of integers below 2^24, so float32 gives them exactly. Each of
two logits is a sum of k + 1 products, so it is off by at most gamma_{k+1} times the sizes of these.
So a spacing S has to leave room, half of what two logits 2 c f - c^2 S may be off by together.
"""

from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.contexts import Contexts
from constructive.constructions.compact.plan import Plan
from constructive.layers.causal.saturated import EXACT
from constructive.support.arrays import Array, row_chunks

_UNIT = 2.0**-24  # Of rounding to nearest in float32
_MORE = 1.0 + 2.0**-20  # For what float64 rounds in the bound itself
_ENTRIES = 1 << 21  # Of the logits that are in memory at once
_SPARE = 1.1  # For outputs that grow when the readout is rounded


class Margins(NamedTuple):
    """How a readout recites."""

    least: float  # the smallest margin, an integer
    share: float  # what rounding may take of a margin, at most; 0 where logits are exact


def margins(contexts: Contexts, readout: Array, unembedding: Array) -> Margins:
    """Return the margins of some positions, where outputs are exact.

    All numbers are integers below 2^53, so that float64 is exact.

    readout: the rows of U that the positions meet (K, k);  unembedding: O (V + 1, k)
    """
    bound = _gamma(unembedding.shape[1])
    least, share = np.inf, 0.0
    largest = max(len(unembedding), len(readout))
    for part in row_chunks(len(contexts.following), largest, _ENTRIES):
        follows = contexts.following[part]
        outputs = contexts.rows[part].astype(np.float64) @ readout
        logits = outputs @ unembedding.T
        sizes = np.abs(outputs) @ np.abs(unembedding).T
        at = np.arange(len(follows))
        margin = logits[at, follows][:, np.newaxis] - logits
        error = bound * (sizes + sizes[at, follows][:, np.newaxis]) * _MORE
        if sizes.max() < EXACT:
            error[:] = 0.0
        margin[at, follows] = np.inf
        least = min(least, float(margin.min()))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(margin > 0.0, error / margin, np.inf)
        share = max(share, float(shares.max()))
    return Margins(least, share)


def least_share(plan: Plan) -> float:
    """Return the share of the spacing that rounding of logits may take, for outputs at points."""
    size = float((3.0 * plan.centred.astype(np.float64) ** 2).sum(axis=1).max())
    return _gamma(plan.points.shape[1] + 1) * size


def share_of(plan: Plan, outputs: Array) -> float:
    """Return the same for outputs (R, k), in units of the spacing."""
    sizes = np.abs(plan.centred).astype(np.float64)
    reach = 2.0 * np.abs(outputs - plan.shift) @ sizes.T + (sizes**2).sum(axis=1)
    return _SPARE * _gamma(plan.points.shape[1] + 1) * float(reach.max())


def _gamma(terms: int) -> float:
    """Return gamma_n = n u / (1 - n u), the relative error of a sum of n products."""
    return terms * _UNIT / (1.0 - terms * _UNIT)
