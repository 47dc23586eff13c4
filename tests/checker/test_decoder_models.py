"""What a model of decoders allows, and programs one step beyond it that say another token.

Each step was open in the words of a model, or in what they were counted as, once.
"""

import numpy as np
import pytest
from decoder_parts import TWO, by_hand, two_tokens

from constructive import Text, Verdict, certify
from constructive.exact.float_model import MODELS, rounded
from constructive.layers.margins import recital

ANY = "float32, any contraction"


def shown(decoder, text, model, prompted):
    """The share that the checker finds."""
    checker, ids = prompted
    weights = {name: np.asarray(array) for name, array in decoder.tensors.items()}
    on = object.__new__(checker.decoders.Decoder)  # of no files
    on.weights, on.texts, on.prompt, on.window = weights, ids, text.prompt, None
    on.storage, on.model = MODELS[model].storage.name, checker.float_model.MODELS[model]
    return checker.margins.real_margins(on)[1]


@pytest.mark.parametrize(("size", "proved"), [(2.0**50, True), (2.0**56, False)])
def test_products_of_any_arrays_stay_in_range(size, proved):
    """Logits are 4 and short in any unit, but x times x times W_Q overflows where W_Q is large."""
    unit = 2.0**36
    first = np.array([[[1.0], [0.0], [0.0]]])
    weights = two_tokens(unit, W_Q=size * first, W_K=4.0 / (unit**2 * size) * first)
    decoder = by_hand(TWO, weights)
    assert certify(decoder, TWO, claims=["executed"]).verdict is Verdict.PROVED
    claim = certify(decoder, TWO, claims=["executed"], model=ANY)["executed"]
    assert (claim.verdict is Verdict.PROVED) == proved
    x = np.float32(weights["embedding"])
    with np.errstate(over="ignore"):
        product = x[0, 0] * x[0, 0] * np.float32(size)
    assert np.isfinite(product) == proved


def in_blocks(decoder, size, keep):
    """The last logits, in bfloat16 with blocks, where `keep` stores what rescales sums."""
    x = decoder.embedding[0] + decoder.positions
    layer = decoder.layer
    logits = (x @ layer.key_weights[0] @ layer.query_weights[0].T @ x[-1]).astype(np.float32)
    top, total, sums = np.float32(-np.inf), np.float32(0), np.zeros(x.shape[1], np.float32)
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        before, top = top, max(top, logits[block].max())
        again = keep(np.exp(before - top))
        terms = rounded(np.exp(logits[block] - top), "bfloat16")
        total = total * again + terms.sum()
        sums = sums * again + terms @ x[block]
    z = np.concatenate([x[-1], rounded(sums / total, "bfloat16")])
    outputs = rounded(z @ layer.readout_weights, "bfloat16")
    return rounded(outputs @ decoder.unembedding.T, "bfloat16")


def test_factors_that_rescale_are_not_stored():
    """Each is just above the middle of two numbers of bfloat16, and 64 blocks are rescaled."""
    count, size = 1024, 16
    place = np.arange(count)
    positions = np.stack([0 * place, place // size, np.where(place < count // 2, 1, -1)], axis=1)
    readout = np.zeros((6, 2))
    readout[0, 0] = readout[5, 1] = 1.0
    text = Text.of([0] * count, prompt=count)
    weights = {
        "embedding": [[1.0, 0.0, 0.0]],
        "positions": positions,
        "W_Q": [[[2.0**-9], [0.0], [0.0]]],
        "W_K": [[[0.0], [1.0], [0.0]]],
        "U": readout,
        "unembedding": [[0.0, 0.0], [-(2.0**-7), -1.0]],
    }
    decoder = by_hand(text, weights, storage="bfloat16")
    model = "bfloat16, pairwise, blocks of 16"
    claim = certify(decoder, text, claims=["executed"], model=model)["executed"]
    assert claim.verdict is Verdict.PROVED
    assert "factors that rescale sums in float32" in claim.statement
    within = in_blocks(decoder, size, np.float32)
    beyond = in_blocks(decoder, size, lambda x: rounded(np.array([x]), "bfloat16")[0])
    assert within.argmax() == text.end
    assert beyond.argmax() != text.end


def test_averages_come_before_the_readout():
    """Values of 2^-25, one for each head, are zero in float16; averages of tokens are not."""
    heads, given = 16, [0, 1]
    readout = np.zeros((3 * heads + 3, 2))
    readout[0, 0], readout[5::3, 1] = 1.0, 2.0**-24
    text = Text.of(given, prompt=2)
    weights = {
        "embedding": [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        "positions": np.zeros((2, 3)),
        "W_Q": np.zeros((heads, 3, 1)),
        "W_K": np.zeros((heads, 3, 1)),
        "U": readout,
        "unembedding": [[0.0, 0.0], [0.0, 0.0], [-(2.0**-8), 2.0**15]],
    }
    decoder = by_hand(text, weights, storage="float16")
    claim = certify(decoder, text, claims=["executed"])["executed"]
    assert claim.verdict is Verdict.PROVED
    assert "averages before the readout" in claim.statement
    x, by_head = decoder.embedding, readout[3:].reshape(heads, 3, 2)
    averages = np.tile(rounded(x.mean(axis=0), "float16"), (heads, 1))
    values = np.float32([[x @ each] for each in by_head])[:, 0].mean(axis=1)
    for parts, right in (
        (np.einsum("hd,hdo->ho", averages, by_head), True),
        (rounded(values.astype(np.float32), "float16"), False),
    ):
        outputs = rounded(np.float32(x[1] @ readout[:3] + parts.sum(axis=0)), "float16")
        assert ((outputs @ decoder.unembedding.T).argmax() == text.end) == right


@pytest.mark.parametrize("longest", [8, 900])
@pytest.mark.parametrize("model", [name for name in MODELS if name.startswith("float32")])
def test_certify_takes_no_smaller_share_than_the_checker(checker, longest, model):
    """Where texts of other lengths stand beside the one whose margin is small."""
    text = Text.of([0, 1], [0] * longest, prompt=2)
    positions = np.zeros((longest, 3))
    positions[-1, 1] = 1.0
    readout = np.zeros((6, 3))
    readout[2, 0] = readout[1, 1] = readout[5, 2] = 1.0
    weights = {
        "embedding": [[1.0, 0.0, 1.0], [1.0, 0.0, -1.0]],
        "positions": positions,
        "W_Q": np.zeros((1, 3, 1)),
        "W_K": np.zeros((1, 3, 1)),
        "U": readout,
        "unembedding": [[1.0, 0.0, 0.0], [0.0, 0.0, -5000.0], [-1.0, 10.0, 0.0]],
    }
    decoder = by_hand(text, weights)
    share = recital(decoder, text, model=MODELS[model]).share.max()
    assert 0.01 < share < 1.0
    found = shown(decoder, text, model, (checker, np.split(text.ids, [2])))
    assert found <= share * (1.0 + 2.0**-20)


def test_certify_leaves_room_for_the_checker(monkeypatch):
    """A share that is as good as one is not claimed."""
    text = Text.of([0, 1])
    decoder = by_hand(text, two_tokens())
    found = recital(decoder, text)
    nearly = np.full(len(found.share), 1.0 - 2.0**-30)
    known = type(found)(found.places, found.least, found.most, found.error, nearly)
    monkeypatch.setattr("constructive.certificates.claims.recites.recital", lambda *_, **__: known)
    claim = certify(decoder, text, claims=["executed"])["executed"]
    assert claim.verdict is Verdict.UNDECIDED


def test_constants_have_a_product_and_a_range(checker):
    """So `scaled` counts their roundings for exponents, and keeps 2^16 of the range for them."""
    scaled, plain = MODELS["float32, scaled"], MODELS["float32, pairwise, blocks of 16"]
    words = "their product is 1 (log2 e for exp2), and from 2^-16 to 2^16 on the way"
    assert words in scaled.of_layers()
    assert "constants" not in plain.of_layers()
    assert (scaled.stretch, plain.stretch) == (2.0**16, 1.0)
    theirs = checker.float_model
    assert theirs.stretch(theirs.MODELS[scaled.name]) == scaled.stretch
    first = np.array([[[1.0], [0.0], [0.0]]])
    for size, proved in ((2.0**50, True), (2.0**110, False)):
        decoder = by_hand(TWO, two_tokens(W_Q=size * first, W_K=first / size))
        assert certify(decoder, TWO, claims=["executed"]).proved
        assert certify(decoder, TWO, claims=["executed"], model=scaled.name).proved == proved
