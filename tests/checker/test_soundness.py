"""What broke certificates once: false bounds at small scales, and files which ask for too much.

Each was a false statement which somebody called PROVED, or a true one which nobody could prove.
"""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from checker_parts import signed
from decoder_parts import TWO

from constructive import (
    AttentionLayer,
    Dataset,
    Memorizer,
    Verdict,
    build_memorizer,
    certify,
    check,
    generators,
)
from constructive.layers.record import TrainedRecord


def one_head(contexts, queries, readout, targets):
    contexts = np.array(contexts, dtype=float)
    zeros = np.zeros((1, contexts.shape[-1], 1))
    layer = AttentionLayer.from_effective_readout(zeros, zeros, np.array(readout, dtype=float))
    record = TrainedRecord("Layer", scalar_targets=True, constant=False)
    return Memorizer(layer, record), Dataset(contexts, queries, targets)


def test_a_residual_which_no_float_holds_is_not_zero():
    """Z = [1e-300], f = 1e-340, y = 0."""
    memorizer, data = one_head([[[1e-300]]], [[1.0]], [[1e-40]], [0.0])
    certificate = certify(memorizer, data)
    assert certificate.proved
    assert "max |f - y| <= 0 " not in certificate["error"].detail
    assert check(certificate, memorizer, data).proved


def test_what_is_exactly_right_is_proved_where_nothing_is_rounded():
    zero, nothing = one_head([[[2.0]]], [[1.0]], [[0.0]], [0.0])  # where nothing is rounded
    exact = certify(zero, nothing, epsilon=0.0)
    assert exact.proved
    assert check(exact, zero, nothing).proved


@pytest.mark.parametrize("digits", [1, 3, 8])
def test_printed_numbers_never_contradict_a_claim(digits):
    """They are rounded away from what they bound, but not beyond what is claimed."""
    memorizer, data = one_head([[[2.0]]], [[1.0]], [[3.0]], [6.0 + 5.8213e-06])
    error = float(abs(data.targets[0] - 6.0))
    above = float(f"{error * (1 + 10.0**-digits):.16e}")
    for epsilon in (above, np.nextafter(np.nextafter(error, 1), 1) * (1 + 1e-8)):
        claim = certify(memorizer, data, claims=["error"], epsilon=float(epsilon))["error"]
        assert claim.verdict is Verdict.PROVED
        shown = float(claim.detail.split("<= ")[1].split()[0])
        assert error <= shown <= epsilon
    below = error * (1 - 10.0**-digits)
    claim = certify(memorizer, data, claims=["error"], epsilon=below)["error"]
    assert claim.verdict is Verdict.REFUTED
    shown = float(claim.detail.split("is ")[1].split()[0])
    assert below < shown <= error


# Files.


@pytest.mark.usefixtures("own_process")
def test_wide_tokens_do_not_take_the_square_of_their_width():
    width = 40_000
    ones = np.ones((1, width, 1))
    layer = AttentionLayer(ones, ones, ones / width, np.ones((1, 1)), np.ones((1, 1)))
    record = TrainedRecord("Layer", scalar_targets=True, constant=False)
    data = Dataset(np.ones((1, width)), np.ones((1, width)), np.ones(1))
    # certify forms W_Q W_K^T; so it is shown about a part, and the statement signed for the whole.
    small = Dataset(np.ones((1, 1)), np.ones((1, 1)), np.ones(1))
    one = AttentionLayer(*(np.ones((1, 1, 1)),) * 3, np.ones((1, 1)), np.ones((1, 1)))
    certificate = certify(Memorizer(one, record), small, claims=["error"])
    wide = Memorizer(layer, record)
    said = check(signed(certificate, wide, data), wide, data, max_memory=0.5)
    assert said.proved, said.report


def test_long_integers_of_sequences_are_counted_before_they_are_computed(checker):
    sequences, long = checker.sequences, 1 << 40_000
    column = sequences.Column(np.array([long] * 100, dtype=object))
    row = [([0], [long], 0)]
    work = sequences.Work(4e8, 1e9)
    longer = sequences.affine(row, [column], 100, work)[0]
    assert (longer.bits, longer.integers) == (80_001, True)
    assert 1e8 < work.spent < 4e8
    with pytest.raises(ValueError, match="long numbers would take more than a minute"):
        sequences.affine(row, [longer], 100, work)
    with pytest.raises(MemoryError):
        sequences.affine(row, [column], 100, sequences.Work(1e15, 1e5))


def test_certificates_from_many_threads_are_those_of_one():
    """python-flint has one precision for all threads."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    import flint  # noqa: PLC0415

    data = generators.shared_context(num_examples=16, context_size=6, width=8)
    memorizers = [
        build_memorizer(data, num_heads=3 + k % 3, precision=[53, 120, 300][k % 3])
        for k in range(8)
    ]
    alone = [certify(memorizer, data) for memorizer in memorizers]
    before = flint.ctx.prec
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda memorizer: certify(memorizer, data), memorizers))
    assert together == alone
    assert flint.ctx.prec == before


# What the checker has to prove, and what it refuses before it takes long.


# Exact numbers stay exact.


@pytest.fixture
def no_floats_among_fractions(monkeypatch):
    """Arithmetic of a Fraction and a float gives a float, rounded to no side: it raises here."""

    def guarded(name):
        original = getattr(Fraction, name)

        def method(self, other):
            if isinstance(other, float):
                raise AssertionError(f"Fraction.{name} with the float {other!r}")
            return original(self, other)

        return method

    for name in ("add", "sub", "mul", "truediv"):
        for method in (f"__{name}__", f"__r{name}__"):
            monkeypatch.setattr(Fraction, method, guarded(method))


@pytest.mark.usefixtures("no_floats_among_fractions")
def test_no_fraction_meets_a_float(checker, proved, paired):
    with pytest.raises(AssertionError, match="with the float"):
        _ = Fraction(1, 3) * 2.0
    for data, memorizer, _, folder in (proved, paired):
        assert certify(memorizer, data).proved
        assert certify(memorizer, data, epsilon=1e-3).proved
        assert certify(memorizer, data, epsilon=0.0).verdict is not Verdict.PROVED
        names = ("certificate.json", "weights.safetensors", "data.npz")
        assert checker.check([folder / name for name in names])


# What is false by a little, and only one line of the checker refuses it.
#
# Each test is of a change of that line which all other tests let pass.

# Decoders: margins, and what rounding takes of them.


def test_a_share_of_one_is_too_much_and_a_margin_may_be_claimed_in_full(checker):
    claims = checker.decoders
    executed = claims.Executed({"evidence": {"model": "float32, pairwise"}})
    recites = claims.Recites({"evidence": {"bound": (0.25).hex()}})
    about = SimpleNamespace(
        texts=[TWO.ids], places=2, model=checker.float_model.MODELS["float32, pairwise"]
    )
    about.position = lambda index: (0, index)
    for least, share, proved in (
        (0.25, np.nextafter(1.0, 0), "PROVED"),
        (np.nextafter(0.25, 0), 1.0, "UNDECIDED"),
        (0.25, np.nan, "UNDECIDED"),
    ):
        rows = [0, 1], [0.5, least], [0.5, 0.5], [0.0, 0.0], [0.0, share]
        about.margins = checker.margins.Margins(*map(np.array, rows))
        found = [claim.judge(about) for claim in (recites, executed)]
        assert found[1].verdict == proved
        assert (found[0].verdict == "PROVED") == (least == 0.25)
        assert found[0].witness == (None if least == 0.25 else (0, 1))


# Sequence memorizers: the formula of Theorem 7 where no network limits its numbers.


@pytest.mark.parametrize(
    ("residue", "total", "bound", "hashed"),
    [(0, 21, 702, 605), (2, 41, 1010, 965)],
)
def test_each_size_has_a_limit_of_its_own(checker, monkeypatch, residue, total, bound, hashed):
    """One sequence of three tokens 0 and 4, with labels 0 to 2; hashes may have a million bits.

    The bound is 66 + 14 (total + 10) + 8, for two dictionaries of one key 97 each, and 14 residue;
    or where no weights are kept, 40 residue for the second one.
    """
    monkeypatch.setattr(checker.sequences, "extents", lambda *_: (10**6, []))
    memorizer = SimpleNamespace(task="next", size=3, nonzero=0)
    given = np.array([[0], [4]], dtype=object), np.array([[0, 1, 1]]), [0, 1, 2]
    work = checker.sequences.Work(10**9, 10**9)
    sizes = {"keys": 1, "width": 1, "label_bits": 2}  # as the data have it
    sizes |= {"token_bits": 4, "residue_bits": residue, "kept": 1}
    sizes |= {"weight_bits": 10, "sum_bits": total, "key_bits": 10}  # the largest
    checker.sequences.check_size(sizes, memorizer, *given, work)
    assert checker.sequences.bound_of(sizes) == bound
    checker.sequences.check_size(sizes | {"kept": 0}, memorizer, *given, work)
    assert checker.sequences.bound_of(sizes | {"kept": 0}) == hashed
    for name, size in sizes.items():
        if name == "residue_bits":  # at most those of tokens
            continue
        with pytest.raises(ValueError, match="sizes"):
            checker.sequences.check_size(sizes | {name: size + 1}, memorizer, *given, work)


def test_seven_values_of_a_unit_have_three_bits(checker):
    network = SimpleNamespace(layers=[(1, [([0], [1], 0)])])
    memorizer = SimpleNamespace(
        embedding=network, streams=lambda rows, _: rows, values=lambda stream, _: stream[:, 0]
    )
    for largest, bits in ((6, 3), (7, 4)):
        tokens = np.array([[0], [largest]], dtype=object)
        work = checker.sequences.Work(10**9, 10**9)
        assert checker.sequences.extents(memorizer, tokens, work) == (3, [bits])
