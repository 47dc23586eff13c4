"""`build_decoder`: one causal layer that recites texts, from Theorem 12, without training.

There are two constructions: `parameters="many"` (`wide_decoder`) solves for a real readout, and
`parameters="few"` (`compact`) for one of short integers, with far fewer weights.
"""

from constructive.constructions.compact import FEW
from constructive.constructions.wide_decoder import MANY, DecoderOptions
from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.arguments import require_known, require_seed
from constructive.support.errors import ParameterError, in_three_parts

DECODERS = {kind.parameters: kind for kind in (MANY, FEW)}


@in_three_parts
def build_decoder(
    text: Text,
    *,
    width: int | None = None,
    parameters: str = "many",
    num_heads: int | None = None,
    head_dim: int | None = None,
    window: int | None = None,
    code_width: int | None = None,
    outputs: int | None = None,
    readout: str | None = None,
    every: bool | None = None,
    seed: int = 0,
) -> Decoder:
    """Build a causal layer that recites texts, word for word, in greedy decoding.

    Args:
        text: one text or several
        width: d, the entries of a token; only for many parameters. Without it, many parameters are
            spent on heads of rank one with a window, which need the fewest
        parameters: "many" for a real readout, "few" for saturated heads and a readout of integers
        num_heads: H; by default a little above R / d for R positions, and more until the margins
            bear every rounding of float32; only for many parameters
        head_dim: d_h; by default d where a width is given, which is much better conditioned than
            less; only for many parameters
        window: how many tokens a position sees, itself among them; by default all up to itself
            where a width is given, else 16, and 8 for few parameters, where it is a power of two
        code_width: d_out, the entries of an output; by default d where a width is given, else 16;
            only for many parameters
        outputs: k, the numbers that choose a token; by default the fewest that work; only for few
            parameters
        readout: "int8", "int16" or "float32", the format that the integers of the readout fit;
            by default "int16"; only for few parameters
        every: whether every position has an equation of its own, so that any other labels of these
            contexts have a readout, too (the claim *rank*); only for few parameters
        seed: of all random choices

    Raises:
        ParameterError: for sizes that are not positive integers, a head dimension above d, options
            of the other construction, unknown names, and windows that are not powers of two for
            few parameters
        DataError: where equal contexts have different continuations; the witness is both positions
        CapacityError: for more positions than (H + 1) d, and for more than d that see one token
            only, first ones or all in a window of one; no weights hold these
        PrecisionError: where the rounded readout does not give every next token, as for widths at
            which codes of tokens are too much alike

    Source: Theorem 12 (proofs/17); Propositions 21.2 to 21.6 (proofs/21).

    Example:
        >>> from constructive import Text, build_decoder
        >>> text = Text.words("the cat sat on the mat, and the cat saw the rat")
        >>> decoder = build_decoder(text, width=64)
        >>> decoder
        Decoder(24 positions, V=10 words, H=1, d=64, d_h=64, float32)
        >>> decoder.joined(decoder.generate("the", len(text)))
        'the cat sat on the mat, and the cat saw the rat'
        >>> small = build_decoder(text, parameters="few")
        >>> small.joined(small.generate("the", len(text)))
        'the cat sat on the mat, and the cat saw the rat'
    """
    if not isinstance(text, Text):
        raise ParameterError(
            f"text is a {type(text).__name__}, not a Text",
            witness=type(text).__name__,
            suggestion="Text.words(text), Text.bytes(content) or Text.of(token_ids)",
        )
    require_known("parameters", parameters, DECODERS)
    require_seed(seed)
    options = DecoderOptions(
        width, num_heads, head_dim, window, code_width, outputs, readout, every, seed
    )
    kind = DECODERS[parameters]
    kind.require(options)
    return kind.build(text, options)
