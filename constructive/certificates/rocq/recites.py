"""The claim *recites* for Rocq: a stored decoder of integers recites stored texts."""

from fractions import Fraction
from typing import Any

import numpy as np

from constructive.certificates.certificate import Certificate
from constructive.certificates.rocq.definitions import (
    FilledTheory,
    NotConfirmableError,
    StoredNumbers,
    Theory,
    bound_of,
    evidence_of,
    theorems,
)
from constructive.data.corpus import Text
from constructive.layers.causal import picks
from constructive.layers.decoder import Decoder
from constructive.support.arrays import Array
from constructive.support.errors import ConstructiveError

# Additions of integers that a head makes for a token, over all: hours of Rocq's machine.
_MOST_STEPS = 10**10
_WHOLE = 2.0**53


def confirmed(instance: FilledTheory) -> list[str]:
    """Return in lines what Rocq has proved where it accepts the files."""
    values = instance.values
    lengths, ((margin,),) = values["lengths"], values["margin"]
    positions = sum(int(length) - values["prompt"] + 1 for length in lengths)
    bound = float(Fraction(int(margin), 1 << values["margin_bits"]))
    return [
        f"at all {positions} positions of S = {len(lengths)} texts the next token has the largest "
        f"logit, by {bound!r} or more,",
        "  in real arithmetic, of the stored decoder",
    ]


THEORY = Theory(
    name="checker/recites_checker",
    claim="recites",
    modules="Definitions decoders recites_program recites_checker",
    definitions={
        **dict.fromkeys(["d", "dh", "H", "k", "V", "window", "prompt", "margin_bits"], "nat"),
        **dict.fromkeys(["margin", "embedding", "positions"], "integers"),
        **dict.fromkeys(["query_weights", "key_weights"], "blocks"),
        "skip": "integers",
        "readouts": "blocks",
        "unembedding": "integers",
        **dict.fromkeys(["lengths", "ids"], "numbers"),
    },
    confirmed=confirmed,
    conclusion="recites_all",
    tail="Definition all_texts : texts := reshape lengths ids.\n"
    "Definition least_margin : Z := nth Z0 (nth [::] margin 0%N) 0%N.\n"
    + theorems(
        "Decoder",
        """check_recites d dh H k V window prompt least_margin margin_bits embedding positions
  query_weights key_weights skip readouts unembedding all_texts""",
        """\
Let D := stored_decoder R d H dh k V window embedding positions query_weights key_weights skip
  readouts unembedding.
Let m := stored_margin R least_margin margin_bits.
Theorem recites_all : 0 < m /\\ forall text, text \\in all_texts -> recites D text prompt m.
Proof. exact: check_recites_sound checked. Qed.
""",
    ),
)


def stored(decoder: Decoder, text: Text, bound: float) -> StoredNumbers:
    """Return the numbers that Rocq has to speak of: all weights, the texts and the least margin.

    U is given by its blocks: that of the token itself, and one for each head. Raises
    NotConfirmableError unless the decoder has integers, tokens of signs and saturated heads, and
    for more heads and tokens than Rocq can look at in hours.
    """
    decoder.require_same_tokens(text)
    weights = {name: _whole(name, array) for name, array in decoder.tensors.items()}
    heads, width, inner = weights["W_Q"].shape
    outputs = weights["U"].shape[1]
    steps = len(text) * heads * width * (2 * inner + outputs)
    if steps > _MOST_STEPS:
        raise NotConfirmableError(
            f"{len(text):,} tokens and {heads:,} heads take Rocq too long",
            witness=f"{steps:.1e} additions, and {_MOST_STEPS:.0e} are the most",
            suggestion="a shorter text, or no --rocq",
        )
    _require_saturated(decoder, text)
    readout = weights["U"].reshape(heads + 1, width, outputs)
    margin = Fraction(bound)
    arrays = {
        "margin": np.array([[margin.numerator]]),
        "embedding": weights["embedding"],
        "positions": weights["positions"],
        "query_weights": weights["W_Q"],
        "key_weights": weights["W_K"],
        "skip": readout[0],
        "readouts": readout[1:],
        "unembedding": weights["unembedding"],
        "lengths": text.lengths,
        "ids": text.ids,
    }
    sizes = {
        "d": width,
        "dh": inner,
        "H": heads,
        "k": outputs,
        "V": text.end,
        "window": decoder.layer.window or text.longest,
        "prompt": text.prompt,
        "margin_bits": margin.denominator.bit_length() - 1,
    }
    # Rocq counts tokens, lengths and room for sums in units, which take no more than a number.
    units = sizes["window"] * outputs * (heads + 1) * width
    units += int(text.ids.sum()) + int(text.lengths.sum())
    return StoredNumbers(arrays, sizes, units)


def known_of(certificate: Certificate, decoder: Decoder, text: Text) -> StoredNumbers:
    """Return the numbers of `stored`, with the margin of the claim *recites* of a certificate."""
    return stored(decoder, text, evidence_of(certificate, "recites", _margin_of, "recite"))


def _margin_of(evidence: dict[str, Any]) -> float:
    """The margin that evidence states: a tie is not a lead."""
    margin = bound_of(evidence)
    if margin == 0.0:
        raise ValueError(f"the bound is {margin!r}")
    return margin


def instance_of(certificate: Certificate, decoder: Decoder, text: Text) -> FilledTheory:
    """Return what Rocq has to check; of the certificate only the margin is taken."""
    return known_of(certificate, decoder, text).filled(THEORY)


def _whole(name: str, array: Array) -> Array:
    """Return the integers that an array holds."""
    if not ((np.abs(array) < _WHOLE) & (np.rint(array) == array)).all():
        raise NotConfirmableError(
            "the claim recites is confirmed for decoders of integers",
            witness=f"{name} has other entries",
            suggestion="a decoder of build_decoder(text, parameters='few'), or no --rocq",
        )
    whole: Array = array.astype(np.int64)
    return whole


def _require_saturated(decoder: Decoder, text: Text) -> None:
    """Require tokens of signs, and heads whose largest logit leads by 128 or more."""
    weights = decoder.layer.query_weights, decoder.layer.key_weights
    for ids in np.split(text.ids, np.cumsum(text.lengths)[:-1]):
        try:
            picks(decoder.embedded(ids[np.newaxis])[0], *weights, decoder.layer.window)
        except ConstructiveError as error:
            raise NotConfirmableError(
                f"the claim recites is confirmed for saturated heads: {error.problem}",
                witness=error.witness,
                suggestion="a decoder of build_decoder(text, parameters='few'), or no --rocq",
            ) from error
