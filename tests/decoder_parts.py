"""Decoders by hand: of two tokens; and compact ones, of integers."""

import dataclasses
import json

import numpy as np
from mutations import safetensors

from constructive import CausalLayer, Decoder, Text
from constructive.certificates.certify import describe_arrays
from constructive.recite.causal import read_tokens
from constructive.recite.decoder import DecoderRecord, file_content
from constructive.recite.packed import drawn_signs, packable
from constructive.support.files import digest

NAMES = ("embedding", "positions", "W_Q", "W_K", "U", "unembedding")
TWO = Text.of([0, 1])
"""Two tokens, and the end."""
TWO_ROWS = np.array([[0.0, 0.1], [0.25, 1.0], [-1.0, -1.0]])
"""Unembedding for which (1, 1) gives the second token, (-1, 0) the end, and (-1, 1) neither."""


def by_hand(text, weights, *, window=None, storage="float32"):
    """A decoder of these six arrays."""
    embedding, positions, w_q, w_k, u, unembedding = (
        np.asarray(weights[name], np.float32) for name in NAMES
    )
    layer = CausalLayer(w_q, w_k, u, window)
    record = DecoderRecord(0, text.num_positions, 1.0, 0.0, 0.0, storage)
    tokens = text.vocabulary, text.unit
    return Decoder(embedding, positions, layer, unembedding, *tokens, record)


def two_tokens(unit=1.0, out=1.0, **others):
    """Two tokens (unit, unit, unit) and (unit, unit, -unit), a head which averages, and what reads.

    The outputs are the last entry of the token, and of the average: (1, 1), then (-1, 0).

    Args:
        unit: the size of tokens
        out: the size of outputs
        others: instead of what it makes
    """
    embedding = unit * np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0]])
    u = np.zeros((6, 2))
    u[2, 0] = u[5, 1] = out / unit
    weights = {
        "embedding": embedding,
        "positions": np.zeros((2, 3)),
        "W_Q": np.zeros((1, 3, 1)),
        "W_K": np.zeros((1, 3, 1)),
        "U": u,
        "unembedding": TWO_ROWS,
    }
    return weights | others


# Their files, as anybody may write them.


@dataclasses.dataclass
class Files:
    """The content of three files: certificate, weights with what is said of them, texts."""

    content: dict
    weights: dict
    about: dict
    text: dict
    packed: bool = False
    spoilt: int = 0

    def signed(self):
        """With the sizes, window, storage and hashes of these very files."""
        self.content["data"] = {
            "texts": len(self.text["texts"]),
            "tokens": sum(map(len, self.text["texts"])),
            "vocabulary": len(self.text["vocabulary"]),
            "sha256": digest(self.text),
        }
        self.content["weights"] = describe_arrays(self.weights) | {
            "window": self.about["window"],
            "storage": self.about["record"]["storage"],
        }
        if "longest" in self.about:
            self.content["weights"]["longest"] = self.about["longest"]
        return self

    def write(self, folder):
        """Write them, whatever they are."""
        paths = [folder / name for name in ("c.json", "d.safetensors", "t.json")]
        paths[0].write_text(json.dumps(self.content))
        paths[1].write_bytes(tensors(self.weights, self.about))
        if self.packed and packable(self.weights):
            paths[1].rename(paths[1].with_suffix(".plain"))
            content = bytearray(file_content(self.weights, self.about))
            bits = np.random.default_rng(self.spoilt)
            for place in bits.integers(len(content), size=self.spoilt):
                content[place] ^= 1 << int(place) % 8
            paths[1].write_bytes(content)
        paths[2].write_text(json.dumps(self.text))
        return [str(path) for path in paths]


def tensors(weights, about):
    """A .safetensors file with metadata."""
    metadata = {"format": "constructive decoder 1", "decoder": json.dumps(about)}
    return safetensors(weights, lambda header: header | {"__metadata__": metadata})


def files_of(decoder, text, content):
    """What would be saved."""
    return Files(
        content,
        {name: np.array(array) for name, array in decoder.tensors.items()},
        decoder.about(),
        text.content(),
    )


# Compact ones: sign tokens, saturated heads, and a readout of integers.

WINDOW = 8
SCALE = 64
SENTENCE = "a rat sat on a mat, a cat sat on a hat, a bat sat"


def compact(
    text=None, *, heads=None, window=WINDOW, period=32, seed=0, spacing=2001, outputs=1, even=False
):
    """A decoder of integers that recites a text, and the text: dense solve, then rounding.

    Args:
        text: one text
        heads: H, by default enough for a full rank
        window: a power of two
        period: rows of positions, a power of two
        seed: of W_Q and W_K
        spacing: S, of the points on the line
        outputs: k; the points of tokens are the digits of their numbers in base ceil(V^(1/k))
        even: whether tokens have an even number of entries, so that queries may be 0
    """
    text = Text.words(SENTENCE) if text is None else text
    weights = arrays(text, heads or 2 + len(text) // 6, window, period, seed, even)
    x = weights["embedding"][text.ids] + weights["positions"][np.arange(len(text)) % period]
    at = picked(x, weights["W_Q"], weights["W_K"], window)
    z = read_tokens(x, at).astype(float)
    base = int(np.ceil((len(text.vocabulary) + 1) ** (1 / outputs)))
    numbers = np.arange(len(text.vocabulary) + 1)[:, None] // base ** np.arange(outputs) % base
    points = base // 2 - numbers
    wanted = points[np.append(text.ids[1:], text.end)]
    solution = np.linalg.lstsq(z, spacing * wanted.astype(float), rcond=None)[0]
    u = np.zeros((z.shape[1], outputs + 1))
    u[:, :outputs] = np.rint(solution)
    u[0, outputs] = 1.0  # the constant, which o_v multiplies by -|c_v|^2 S
    squares = -(points**2).sum(1, keepdims=True) * spacing
    unembedding = np.concatenate([2 * points, squares], axis=1)
    weights = weights | {"U": u, "unembedding": unembedding}
    weights = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    decoder = Decoder(
        weights["embedding"],
        weights["positions"],
        CausalLayer(weights["W_Q"], weights["W_K"], weights["U"], window),
        weights["unembedding"],
        text.vocabulary,
        text.unit,
        DecoderRecord(seed, len(text), 1.0, 0.0, 0.0),
        len(text),
    )
    return decoder, text


def picked(x, w_q, w_k, window):
    """The token that each head reads, the last of equal ones, from the definition: (N, H)."""
    logits = np.einsum("id,hdk,hek,je->ihj", x, w_q, w_k, x)
    place = np.arange(len(x))
    back = place[:, None] - place
    hidden = (back < 0) | (back >= window)
    logits[np.broadcast_to(hidden[:, None], logits.shape)] = -np.inf
    return len(x) - 1 - logits[:, :, ::-1].argmax(axis=2)


def arrays(text, heads, window, period, seed, even):
    """Tokens (1 | digits of the token | digits of the position), W_Q of signs, W_K of ladders."""
    code = max(1, (len(text.vocabulary) - 1).bit_length())
    digits = (period - 1).bit_length()
    code += (1 + code + digits) % 2 == (1 if even else 0)
    width, steps = 1 + code + digits, min(digits, (window - 1).bit_length())
    embedding = np.zeros((len(text.vocabulary), width))
    embedding[:, 0] = 1
    embedding[:, 1 : 1 + code] = signs_of(np.arange(len(text.vocabulary)), code)
    positions = np.zeros((period, width))
    positions[:, 1 + code :] = signs_of(np.arange(period), digits)
    sizes = np.full(width, 2 * window)
    sizes[0], sizes[1 + code : 1 + code + steps] = 0, 2 ** np.arange(steps)
    return {
        "embedding": embedding,
        "positions": positions,
        "W_Q": drawn_signs("W_Q", seed, (heads, width, 1)),
        "W_K": SCALE * sizes[:, None] * drawn_signs("W_K", seed, (heads, width, 1)) + 0.0,
    }


def signs_of(numbers, digits):
    """1 where a binary digit is 0, and -1 where it is 1, the lowest first."""
    return 1 - 2 * (numbers[:, None] >> np.arange(digits) & 1)


def changed(decoder, name, place=None, value=None, array=None):
    """The decoder with another entry of a tensor, or another tensor."""
    tensors = {key: np.array(each) for key, each in decoder.tensors.items()}
    if array is not None:
        tensors[name] = np.asarray(array, np.float32)
    else:
        tensors[name][place] = value
    layer = dataclasses.replace(
        decoder.layer,
        query_weights=tensors["W_Q"],
        key_weights=tensors["W_K"],
        readout_weights=tensors["U"],
    )
    names = "embedding", "positions", "unembedding"
    return dataclasses.replace(decoder, layer=layer, **{key: tensors[key] for key in names})
