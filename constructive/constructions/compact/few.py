"""The construction of decoders with few parameters, as `build_decoder` finds it."""

from constructive.constructions.compact.build import build_compact
from constructive.constructions.compact.options import FORMATS, Options
from constructive.constructions.decoder_kind import DecoderKind, DecoderOptions
from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.arguments import require_known, require_positive
from constructive.support.errors import ParameterError

WINDOW = 8
"""Tokens that a position sees by default: readouts are shortest for 8."""
_LARGEST_WINDOW = 256


class Few(DecoderKind):
    """Saturated heads, and a readout of integers."""

    parameters = "few"
    takes = frozenset({"window", "outputs", "readout", "every"})

    def build(self, text: Text, options: DecoderOptions) -> Decoder:
        """Build a compact decoder."""
        window = WINDOW if options.window is None else options.window
        require_positive(window=window)
        if not 1 < window <= _LARGEST_WINDOW or window & (window - 1):
            raise ParameterError(
                f"window={window} is not a power of two from 2 to {_LARGEST_WINDOW}",
                witness=window,
                suggestion=f"window={WINDOW}, the default",
            )
        if options.outputs is not None:
            require_positive(outputs=options.outputs)
        readout = "int16" if options.readout is None else options.readout
        require_known("readout", readout, FORMATS)
        wanted = text.different(window)
        chosen = Options(options.outputs, readout, bool(options.every), window, options.seed)
        return build_compact(text, wanted, chosen)


FEW = Few()
