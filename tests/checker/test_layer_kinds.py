"""certify asks the layer what it is, and refuses what it does not know."""

import dataclasses

import numpy as np
import pytest

from constructive import (
    AttentionLayer,
    Dataset,
    ExtendedLayer,
    FormatError,
    Memorizer,
    ParameterError,
    Verdict,
    build_memorizer,
    certify,
    explain,
    generators,
)


@pytest.fixture(scope="module")
def data():
    return generators.uniform(num_examples=40, context_size=4, width=8)


@pytest.fixture(scope="module")
def paired(data):
    return build_memorizer(data, num_heads=14, construction="paired")


def corrected(memorizer, size):
    shape = (1, *memorizer.layer.value_weights.shape)
    return Memorizer(ExtendedLayer(memorizer.layer, np.full(shape, size), 106), memorizer.record)


def test_corrections_are_judged_whatever_the_record_says(data, paired):
    """A record of 53 bits, and a layer of more, of which the proof of pairs knows nothing."""
    wrong = corrected(paired, 5.0)
    assert wrong.max_error(data) > 100
    certificate = certify(wrong, data)
    assert certificate["error"].verdict is Verdict.REFUTED
    assert certificate.format == "constructive certificate 1"
    right = certify(corrected(paired, 0.0), data)
    assert right.proved
    assert right.format == "constructive certificate 1"
    assert certify(paired, data).format == "constructive paired certificate 1"


def test_a_file_with_corrections_of_no_bits_is_refused(paired, tmp_path):
    corrected(paired, 5.0).save(tmp_path / "m.safetensors")
    with pytest.raises(FormatError, match="precision=53 is not a number of bits beyond a float64"):
        Memorizer.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("precision", [53, 0, -500, 1 << 14, 106.0, True])
def test_corrections_are_bits_beyond_a_float(paired, precision):
    layer = paired.layer
    with pytest.raises(ParameterError, match="is not a number of bits beyond a float64"):
        ExtendedLayer(layer, np.zeros((1, *layer.value_weights.shape)), precision)


def test_a_layer_which_inherits_is_judged_as_its_kind(data):
    class Mine(AttentionLayer):
        """Another name for the same."""

    memorizer = build_memorizer(data, num_heads=14)
    mine = Memorizer(Mine(*vars(memorizer.layer).values()), memorizer.record)
    assert certify(mine, data).proved


def test_a_layer_of_no_kind_is_refused(data, paired):
    class Other:
        target_dim = 1

    with pytest.raises(ParameterError, match="certify knows nothing of a Other") as caught:
        certify(Memorizer(Other(), paired.record), data)
    assert "AttentionLayer" in caught.value.suggestion


def test_the_readout_of_pairs_brings_its_rank(data, paired):
    names = [claim.name for claim in certify(paired, data, claims=["readout"]).claims]
    assert names == ["rank", "readout"]
    wide = build_memorizer(data, num_heads=14, construction="paired", precision=106)
    assert [claim.name for claim in certify(wide, data, claims=["readout"]).claims] == ["readout"]


def test_what_is_built_has_the_precision_of_its_layer(data):
    for precision in (53, 106):
        memorizer = build_memorizer(data, num_heads=14, precision=precision)
        assert memorizer.record.precision == getattr(memorizer.layer, "precision", 53) == precision


def test_a_record_of_nonsense_proves_nothing(data, paired):
    for order in (("a", 1), (None,) * 40, (*range(39), 0)):
        record = dataclasses.replace(paired.record, order=order)
        certificate = certify(Memorizer(paired.layer, record), data, claims=["rank"])
        assert certificate.format == "constructive certificate 1"


def test_other_arguments_which_are_none(data, paired):
    with pytest.raises(ParameterError, match="unknown arithmetic='Rational'"):
        explain(data, num_heads=3, arithmetic="Rational")
    with pytest.raises(ParameterError, match="value_dim=True is not a positive integer"):
        build_memorizer(data, num_heads=14, value_dim=True)
    for kind in (paired, paired.layer):
        with pytest.raises(ParameterError, match="dtype='x' is not a dtype"):
            kind.astype("x")


@pytest.mark.parametrize(
    "option",
    [{"shared_keys": True}, {"value_dim": 2}, {"precision": 106}, {"saturated_fraction": 0.5}],
)
def test_rational_weights_take_no_options_of_floats(option):
    data = generators.integers(num_examples=3, context_size=2, width=3)
    with pytest.raises(ParameterError, match=next(iter(option)).replace("saturated_", "")):
        build_memorizer(data, num_heads=2, arithmetic="rational", **option)


def test_data_which_do_not_fit_a_rational_layer():
    data = generators.integers(num_examples=3, context_size=2, width=3)
    layer = build_memorizer(data, num_heads=2, arithmetic="rational").layer
    layer.check_fits(data)
    wide = Dataset(np.ones((2, 4)), np.ones((3, 4)), np.zeros(3))
    with pytest.raises(ValueError, match="queries have d=4, the layer d=3"):
        layer.check_fits(wide)


def test_many_paired_examples_have_no_other_claim_beside_the_rank(data, paired):
    """Certificates of pairs have no place for `executed`, and others take a T x T matrix."""
    together = certify(paired, data, claims=["rank", "error", "executed"])
    assert together.format == "constructive certificate 1"
    assert together["rank"].verdict is Verdict.PROVED
    many = generators.gaussian(num_examples=2001, context_size=3, width=64, seed=4)
    memorizer = build_memorizer(many, num_heads=72, construction="paired")
    for dense in ("rank", "readout"):
        with pytest.raises(ParameterError, match=f"{dense} beside executed") as caught:
            certify(memorizer, many, claims=[dense, "error", "executed"])
        assert caught.value.witness == 2001
        assert "two certificates" in caught.value.suggestion
    alone = certify(memorizer, many, claims=["rank", "error"])
    assert alone.format == "constructive paired certificate 1"
    assert alone.proved
