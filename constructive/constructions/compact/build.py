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

from constructive.constructions.compact.blocks import build_blocks
from constructive.constructions.compact.cells import order_of, points_of
from constructive.constructions.compact.contexts import following_of
from constructive.constructions.compact.dense import build_dense
from constructive.constructions.compact.exact import least_share
from constructive.constructions.compact.plan import Plan
from constructive.constructions.compact.tokens import layout_of
from constructive.constructions.decoder_kind import DecoderKind, DecoderOptions
from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.arguments import require_known, require_positive
from constructive.support.errors import ParameterError, PrecisionError

LARGEST = 6144  # Positions of one system of equations; with more of them there are blocks
BLOCK = 11  # Binary digits of a position within a block
# Binary digits of the entries of U; float32 has all integers of 24.
_FORMATS = {"int8": 7, "int16": 15, "float32": 24}
# Of the spacing, as room for what float32 rounds; with more outputs less is needed.
_LARGEST_SHARE = 0.15
_MOST_OUTPUTS = 8
_WINDOW = 8  # Tokens that a position sees by default: readouts are shortest for 8
_LARGEST_WINDOW = 256


class Few(DecoderKind):
    """Saturated heads, and a readout of integers."""

    parameters = "few"
    takes = frozenset({"window", "outputs", "readout", "every"})

    def build(self, text: Text, options: DecoderOptions) -> Decoder:
        """Build a decoder of few numbers, with the fewest outputs that work if none are given."""
        window = _WINDOW if options.window is None else options.window
        require_positive(window=window)
        if not 1 < window <= _LARGEST_WINDOW or window & (window - 1):
            raise ParameterError(
                f"window={window} is not a power of two from 2 to {_LARGEST_WINDOW}",
                witness=window,
                suggestion=f"window={_WINDOW}, the default",
            )
        if options.outputs is not None:
            require_positive(outputs=options.outputs)
        readout = "int16" if options.readout is None else options.readout
        require_known("readout", readout, _FORMATS)
        wanted = text.different(window)
        order = order_of(following_of(text, wanted), text.end + 1)
        long = len(wanted) > LARGEST and text.longest > 1 << BLOCK
        layout = layout_of(text, window, options.seed, block=BLOCK if long else None)
        build = build_blocks if long else build_dense
        counts = [options.outputs] if options.outputs else range(1, _MOST_OUTPUTS + 1)
        for outputs in counts:
            points, every = points_of(order, outputs), bool(options.every)
            plan = Plan(text, wanted, order, layout, points, every, 2.0 ** _FORMATS[readout])
            if least_share(plan) > _LARGEST_SHARE:
                continue
            built = build(plan)
            if built is not None:
                return built
        raise PrecisionError(
            f"no readout of {readout} with {counts[-1]} outputs gives every next token",
            witness=(readout, counts[-1]),
            suggestion="outputs=None, readout='float32' or another seed=",
        )


FEW = Few()
