"""Heads in pairs are stored once: in files, and as the checker reads them."""

import json

import numpy as np
import pytest

from constructive import Text, build_decoder
from constructive.constructions import compact
from constructive.layers.packed import drawn_signs, pack, unpack


@pytest.fixture(scope="module")
def in_blocks():
    words = Text.of([(7 * i * i + i // 3) % 11 for i in range(200)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "LARGEST", 60)
        patch.setattr(compact, "BLOCK", 6)
        return build_decoder(words, parameters="few")


def test_decoders_in_blocks_come_back_here_and_in_the_checker(checker, in_blocks):
    packed = pack(in_blocks.tensors, 0)
    rules = json.loads(json.dumps(packed.rules))
    bits = np.packbits(packed.bits, bitorder="little")
    for read in (unpack(packed.rules, packed.bits, 0), checker.packed.read(rules, bits, 0)):
        for name, array in in_blocks.tensors.items():
            assert np.array_equal(read[name].view("u4"), array.view("u4"))


def test_pairs_count_once(in_blocks):
    packed = pack(in_blocks.tensors, 0)
    kinds = {name: {run[1] for run in about["columns"]} for name, about in packed.rules.items()}
    assert "paired drawn" in kinds["W_Q"]
    assert "paired drawn" in kinds["W_K"]
    assert kinds["U"] & {"paired integers", "paired fields"}
    readout = in_blocks.layer.readout_weights
    assert packed.num_stored < len(readout)


@pytest.mark.parametrize(("sign", "front"), [(1, 0), (-1, 0), (1, 1), (-1, 1)])
def test_halves_with_a_sign(sign, front):
    rng = np.random.default_rng(0)
    first = rng.integers(-50, 50, (front + 8, 3)).astype(np.float32)
    tensors = dict.fromkeys(("unembedding", "embedding", "positions"), first)
    heads = 3 * drawn_signs("W_Q", 5, (8, 3))
    tensors["W_Q"] = tensors["W_K"] = np.concatenate([heads, sign * heads])[:, :, np.newaxis]
    tensors["U"] = np.concatenate([first[:1], first[-8:], sign * first[-8:] + 0.0])
    packed = pack(tensors, 5)
    assert [run[1:] for run in packed.rules["W_Q"]["columns"]] == [["paired drawn", sign, 3]]
    assert {run[1] for run in packed.rules["U"]["columns"]} <= {"paired integers", "paired fields"}
    assert all(np.array_equal(unpack(packed.rules, packed.bits, 5)[n], tensors[n]) for n in tensors)
    tensors["U"] = tensors["U"].copy()
    tensors["U"][-1] += 1
    assert all("paired" not in run[1] for run in pack(tensors, 5).rules["U"]["columns"])


def test_another_sign_is_refused(checker, in_blocks):
    packed = pack(in_blocks.tensors, 0)
    rules = json.loads(json.dumps(packed.rules))
    run = next(run for run in rules["W_K"]["columns"] if run[1] == "paired drawn")
    run[2] = 2
    bits = np.packbits(packed.bits, bitorder="little")
    with pytest.raises(ValueError, match="sign"):
        unpack(rules, packed.bits, 0)
    with pytest.raises(ValueError, match="sign"):
        checker.packed.read(rules, bits, 0)
