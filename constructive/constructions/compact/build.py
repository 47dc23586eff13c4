"""`build_decoder(text, parameters="few")`: a decoder of few numbers, most of them short integers.

Tokens are signs, and each head reads one token exactly (Proposition 21.2), so that Z is a matrix of
signs, without a softmax (`tokens`, `contexts`). The readout has few outputs: tokens are points of a
lattice, and the nearest one to the output is the next token (`cells`). The shortest real readout
is found from Gram matrices that are exact in float32 (`pivoting`), and rounded to integers
(`rounding`). Long texts are built block by block (`blocks`).

The unembedding has k + 1 columns for k outputs. The last column of U is a single 1, which takes the
constant entry of the token: it adds -|c_v|^2 S to the logits.

Source: Propositions 21.2 to 21.6 (proofs/21); the construction is ours.
"""

from constructive.constructions.compact.assemble import Plan
from constructive.constructions.compact.blocks import build_blocks
from constructive.constructions.compact.cells import order_of, points_of
from constructive.constructions.compact.contexts import following_of
from constructive.constructions.compact.dense import build_dense
from constructive.constructions.compact.options import FORMATS, Options, layout_of, least_share
from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.arrays import Integers
from constructive.support.errors import PrecisionError

LARGEST = 6144
"""Positions of one system of equations; with more of them there are blocks."""
BLOCK = 11
"""Binary digits of a position within a block."""
_LARGEST_SHARE = 0.15
"""Of the spacing, as room for what float32 rounds; with more outputs less is needed."""
_MOST_OUTPUTS = 8


def build_compact(text: Text, wanted: Integers, options: Options) -> Decoder:
    """Build a decoder of few numbers.

    Args:
        text: one text or several
        wanted: places of the different contexts (R,)
        options: sizes, checked

    Raises:
        PrecisionError: where no readout of the format gives every next token
    """
    order = order_of(following_of(text, wanted), text.end + 1)
    long = len(wanted) > LARGEST and text.longest > 1 << BLOCK
    layout = layout_of(text, options, block=BLOCK if long else None)
    largest = 2.0 ** FORMATS[options.readout]
    counts = [options.outputs] if options.outputs else range(1, _MOST_OUTPUTS + 1)
    for outputs in counts:
        plan = Plan(text, wanted, order, layout, points_of(order, outputs))
        if least_share(plan.centred) > _LARGEST_SHARE:
            continue
        build = build_blocks if long else build_dense
        built = build(plan, every=options.every, largest=largest)
        if built is not None:
            return built
    raise PrecisionError(
        f"no readout of {options.readout} with {counts[-1]} outputs gives every next token",
        witness=(options.readout, counts[-1]),
        suggestion="outputs=None, readout='float32' or another seed=",
    )
