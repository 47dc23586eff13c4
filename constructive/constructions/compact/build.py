"""`build_decoder(text, parameters="few")`: a decoder of few numbers, most of them short integers.

Tokens are signs, and each head reads one token exactly (Proposition 2), so that Z is a matrix of
signs, without a softmax. The readout has few outputs: tokens are points of a lattice, and the
nearest one to the output is the next token (`cells`). The shortest real readout is found from Gram
matrices that are exact in float32 (`pivoting`), and rounded to integers (`rounding`).

The unembedding has k + 1 columns for k outputs. The last column of U is a single 1, which takes the
constant entry of the token: it adds -|c_v|^2 S to the logits.

Source: Propositions 2 to 5 (proofs/20); the construction is ours.
"""

import math
from typing import NamedTuple

import numpy as np

from constructive.constructions.compact.assemble import Plan, Readout, assembled
from constructive.constructions.compact.cells import cells_of, order_of, points_of
from constructive.constructions.compact.contexts import contexts, following_of
from constructive.constructions.compact.exact import gamma
from constructive.constructions.compact.readout import Problem, Shortest, rounded_together, shortest
from constructive.constructions.compact.tokens import Layout
from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.arrays import Integers
from constructive.support.errors import PrecisionError
from constructive.support.progress import report

PARITIES = 16
"""Signs of a position; one more where d would be even."""
_LEAST_PERIOD = 8
"""Binary digits of a position: enough for that many different masks."""
_CONSTANT = 100
"""How much cheaper the entries of the constant and of "not the most frequent" are."""
_CODE = 5
"""How much cheaper those of the token's own code are."""
_FOR_EQUATIONS, _FOR_OTHERS, _FOR_EVERY = 1.2, 0.4, 1.1
"""Columns for a position with an equation, with an inequality, and where all have equations."""
_MORE_HEADS = 1.08
_ATTEMPTS = 12
_LARGEST_SHARE = 0.15
"""Of the spacing, as room for what float32 rounds; with more outputs less is needed."""
_SPARE = 1.1
"""For outputs that grow when the readout is rounded."""
FORMATS = {"int8": 7, "int16": 15, "float32": 24}
"""Binary digits of the entries of U; float32 has all integers of 24."""
_MOST_OUTPUTS = 8


class Options(NamedTuple):
    """What is asked for.

    Attributes:
        outputs: k; None for the fewest that work
        readout: the format of the entries of U, one of `FORMATS`
        every: whether all positions have equations
        window: w, a power of two, 2 or more
        seed: of signs
    """

    outputs: int | None
    readout: str
    every: bool
    window: int
    seed: int


def build_dense(text: Text, wanted: Integers, options: Options) -> Decoder:
    """Build a decoder for a text whose positions are one system of equations.

    Args:
        text: one text or several
        wanted: places of the different contexts (R,)
        options: sizes, checked

    Raises:
        PrecisionError: where no readout of the format gives every next token
    """
    order = order_of(following_of(text, wanted), text.end + 1)
    layout = layout_of(text, options)
    counts = [options.outputs] if options.outputs else range(1, _MOST_OUTPUTS + 1)
    for outputs in counts:
        points = points_of(order, outputs)
        plan = Plan(text, wanted, order, layout, points)
        if least_share(plan.centred) > _LARGEST_SHARE:
            continue
        built = _built(plan, options)
        if built is not None:
            return built
    raise PrecisionError(
        f"no readout of {options.readout} with {counts[-1]} outputs gives every next token",
        witness=(options.readout, counts[-1]),
        suggestion="outputs=None, readout='float32' or another seed=",
    )


def layout_of(text: Text, options: Options, blocks: int = 0) -> Layout:
    """Return the entries of tokens.

    Args:
        text: one text or several
        options: sizes
        blocks: binary digits of the number of a block
    """
    code = 1 + max(1, (len(text.vocabulary) - 1).bit_length())
    parities = PARITIES + (code + PARITIES + blocks) % 2  # d is odd
    whole = max(_LEAST_PERIOD, options.window.bit_length() - 1, (text.longest - 1).bit_length())
    return Layout(options.window, code, parities, whole - blocks, blocks, options.seed)


def least_share(points: Integers) -> float:
    """Return the part of the spacing that rounding of logits may take, for outputs at the points.

    Args:
        points: of tokens, centred (V + 1, k)
    """
    size = float((3.0 * points.astype(np.float64) ** 2).sum(axis=1).max())
    return gamma(points.shape[1] + 1) * size


def _built(plan: Plan, options: Options) -> Decoder | None:
    """A decoder with the fewest heads that are tried; None where the format is too short."""
    following = following_of(plan.text, plan.wanted)
    cells = cells_of(plan.points, following, every=options.every)
    total = len(following)
    if options.every:
        wished = _FOR_EVERY * total
    else:
        equations = max(int(each.equations.sum()) for each in cells)
        wished = _FOR_EQUATIONS * equations + _FOR_OTHERS * (total - equations)
    each = plan.layout.width - 1
    heads = max(1, math.ceil(wished / each) - 1)
    for _ in range(_ATTEMPTS):
        found = _with_heads(plan, options, heads)
        if found is not None:
            return found
        heads = max(heads + 1, math.ceil(heads * _MORE_HEADS))
        if heads * each > 4 * total + 8 * each:
            break
    return None


def _with_heads(plan: Plan, options: Options, heads: int) -> Decoder | None:
    """A decoder with so many heads; None where there is no such readout."""
    weights = plan.layout.heads(heads)
    seen = contexts(plan.text, plan.wanted, plan.layout, plan.order, weights)
    cells = cells_of(plan.points, seen.following, every=options.every)
    cheap = np.ones(seen.rows.shape[1])
    if not options.every:
        cheap[: 1 + plan.layout.code] = _CODE
        cheap[:2] = _CONSTANT
    real: list[Shortest] = []
    for number, each in enumerate(cells):
        report("solve", number, len(cells))
        one = shortest(Problem(seen.rows, cheap, each))
        if one is None:
            return None
        real.append(one)
    report("round", 0, 1)
    found = rounded_together(real, _share(plan, real))
    if found is None:
        return None
    readout = Readout(*found, _condition(real))
    built = assembled(plan, weights, seen, readout)
    largest = float(np.abs(readout.entries).max())
    fits = largest < 2 ** FORMATS[options.readout] and built.record.share < 1.0
    return built if fits else None


def _share(plan: Plan, real: list[Shortest]) -> float:
    """The part of the spacing that rounding of logits may take."""
    outputs = np.stack([one.solved.outputs for one in real], axis=1) - plan.shift
    sizes = np.abs(plan.centred).astype(np.float64)
    largest = float((2.0 * np.abs(outputs) @ sizes.T + (sizes**2).sum(axis=1)).max())
    return _SPARE * gamma(len(real) + 1) * largest


def _condition(real: list[Shortest]) -> float:
    """The largest ratio of pivots: an estimate of the condition number of Z, from below."""
    return max(one.solved.pivots for one in real)
