"""VNN-LIB as the checker reads it: two versions, exact decimals, and all that it refuses."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructive.instances import Atom, Box, Property
from constructive.instances.vnnlib import version_1, version_2

FIRST = """; a comment ( that is left out
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 -0.5))
(assert (<= X_0 0.25))
(assert (>= X_1 0.0))
(assert (<= X_1 1))
(assert (>= Y_0 0.171875))
"""
SECOND = """(vnnlib-version <2.0>)
(declare-network N
    (declare-input X float32 [1, 2])
    (declare-output Y float32 [1, 2])
)
(assert (>= X[0,0] -0.5)) (assert (<= X[0, 0] 0.25))
(assert (>= X[0,1] 0.0)) (assert (<= X[0,1] 1))
(assert (>= Y[0,0] 0.171875))
"""
TEXTS = {"vnnlib": FIRST, "vnnlib2": SECOND}


def read(checker, text, version="vnnlib"):
    return checker.properties.read_property(text.encode(), version)


@pytest.mark.parametrize("version", TEXTS)
def test_a_property_is_read(checker, version):
    found = read(checker, TEXTS[version], version)
    assert found.lower == [Fraction(-1, 2), 0]
    assert found.upper == [Fraction(1, 4), 1]
    ((condition,),) = found.alternatives
    assert condition == (((0, 1),), Fraction(11, 64))
    assert found.outputs == 2


def test_forms_of_conditions(checker):
    last = "(assert (>= Y_0 0.171875))"
    for text, expected in {
        "(<= Y_1 0.5)": [[(((1, -1),), Fraction(-1, 2))]],
        "(>= Y_1 Y_0)": [[(((1, 1), (0, -1)), 0)]],
        "(<= Y_1 Y_0)": [[(((1, -1), (0, 1)), 0)]],
        "(and (>= Y_0 1) (<= Y_1 0))": [[(((0, 1),), 1), (((1, -1),), 0)]],
        "(or (and (>= Y_0 1) (<= Y_1 0)) (>= Y_1 2))": [
            [(((0, 1),), 1), (((1, -1),), 0)], [(((1, 1),), 2)],
        ],
    }.items():  # fmt: skip
        assert read(checker, FIRST.replace(last, f"(assert {text})")).alternatives == expected
    both = read(checker, f"{FIRST}(assert (<= Y_1 0.5))")
    assert [len(conditions) for conditions in both.alternatives] == [2]


NUMBERS = st.floats(-4.0, 4.0, width=32)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4),
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans(), NUMBERS), min_size=1, max_size=3),
             min_size=1, max_size=3),
)  # fmt: skip
def test_what_is_written_is_read(checker, ends, drawn):
    box = Box(*zip(*(sorted(pair) for pair in ends), strict=True))
    disjuncts = tuple(
        tuple(Atom([(1.0 if up else -1.0) * (j == k) for k in range(3)], c) for j, up, c in atoms)
        for atoms in drawn
    )
    wanted = Property(box, disjuncts)
    one = read(checker, version_1(wanted))
    assert one == read(checker, version_2(wanted), "vnnlib2")
    assert one.lower == [Fraction(x) for x in box.lower.tolist()]
    assert one.upper == [Fraction(x) for x in box.upper.tolist()]
    assert one.outputs == 3
    for atoms, conditions in zip(disjuncts, one.alternatives, strict=True):
        for atom, condition in zip(atoms, conditions, strict=True):
            ((output, sign),) = condition.weights
            assert atom.coefficients[output] == sign
            assert Fraction(atom.threshold) == condition.threshold


Y = "(assert (>= Y_0 0.171875))"
REFUSED = {
    "exponent": (Y, "(assert (>= Y_0 1e-1))"),
    "not float32": (Y, "(assert (>= Y_0 0.1))"),
    "too large": (Y, f"(assert (>= Y_0 {2**128}))"),
    "plus": (Y, "(assert (>= Y_0 +1))"),
    "two numbers": (Y, "(assert (>= Y_0 1.5.0))"),
    "strict": (Y, "(assert (> Y_0 0.5))"),
    "equal": (Y, "(assert (= Y_0 0.5))"),
    "not": (Y, "(assert (not (>= Y_0 0.5)))"),
    "sum": (Y, "(assert (>= (+ Y_0 Y_1) 0.5))"),
    "number first": (Y, "(assert (<= 0.5 Y_0))"),
    "number only": (Y, "(assert (<= 0.5 0.5))"),
    "input and output": (Y, "(assert (>= Y_0 X_0))"),
    "output and input": (Y, "(assert (>= X_0 Y_0))"),
    "the same": (Y, "(assert (>= Y_0 Y_0))"),
    "unknown": (Y, "(assert (>= Y_2 0.5))"),
    "word": (Y, "(assert Y_0)"),
    "true": (Y, "(assert true)"),
    "two conditions": (Y, "(assert (>= Y_0 0.5) (>= Y_1 0.5))"),
    "nothing": (Y, ""),
    "empty or": (Y, "(assert (or))"),
    "empty and": (Y, "(assert (and))"),
    "empty alternative": (Y, "(assert (or (and) (>= Y_0 0.5)))"),
    "or within": (Y, "(assert (or (and (or (>= Y_0 0.5)))))"),
    "condition beside or": (Y, f"{Y}(assert (or (>= Y_1 1)))"),
    "two ors": (Y, "(assert (or (>= Y_0 1)))(assert (or (>= Y_1 1)))"),
    "input in or": (Y, "(assert (or (and (>= X_0 0) (>= Y_0 1))))"),
    "input in and": ("(assert (>= X_1 0.0))", "(assert (and (>= X_1 0.0)))"),
    "no lower bound": ("(assert (>= X_1 0.0))", ""),
    "no upper bound": ("(assert (<= X_1 1))", ""),
    "bounded twice": ("(assert (<= X_1 1))", "(assert (<= X_1 1))(assert (<= X_1 0.5))"),
    "the other way around": ("(assert (>= X_1 0.0))", "(assert (>= X_1 2.0))"),
    "bound by an input": ("(assert (<= X_1 1))", "(assert (<= X_1 X_0))"),
    "strict bound": ("(assert (<= X_1 1))", "(assert (< X_1 1))"),
    "Int": ("(declare-const X_1 Real)", "(declare-const X_1 Int)"),
    "function": ("(declare-const X_1 Real)", "(declare-fun X_1 () Real)"),
    "declared twice": ("(declare-const X_1 Real)", "(declare-const X_0 Real)"),
    "a gap": ("(declare-const X_1 Real)", "(declare-const X_2 Real)"),
    "another variable": ("(declare-const X_1 Real)", "(declare-const Z_0 Real)"),
    "no outputs": ("(declare-const Y_0 Real)\n(declare-const Y_1 Real)", ""),
    "later declaration": (Y, f"{Y}(declare-const Y_2 Real)"),
    "another command": (Y, f"{Y}(check-sat)"),
    "logic": ("(declare-const X_0 Real)", "(set-logic QF_LRA)(declare-const X_0 Real)"),
    "open": (Y, Y[:-1]),
    "closed twice": (Y, f"{Y})"),
    "nothing in parentheses": (Y, f"{Y}()"),
    "outside": (Y, f"{Y} sat"),
    "deep": (Y, f"(assert {'(' * 20}>= Y_0 1{')' * 20})"),
    "quoted": (Y, "(assert (>= |Y_0| 0.5))"),
    "hidden from some readers by CR": (Y, f"; a note\r(assert (>= Y_0 100.0))\n{Y}"),
    "hidden from some readers by a form feed": (Y, f"; a note\x0c(assert (>= Y_0 100.0))\n{Y}"),
    "hidden from some readers by NUL": (Y, f"; a note\x00\n{Y}"),
    "not ascii": (Y, "(assert (>= Y_\u0660 0.5))"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(checker, name):
    old, new = REFUSED[name]
    assert old in FIRST
    with pytest.raises((ValueError, TypeError, UnicodeDecodeError)):
        read(checker, FIRST.replace(old, new))


SECOND_REFUSED = {
    "first version": (SECOND, FIRST),
    "version": ("<2.0>", "<2.1>"),
    "no version": ("(vnnlib-version <2.0>)", ""),
    "two inputs": ("(declare-input X", "(declare-input Z float32 [1, 2]) (declare-input X"),
    "double": ("X float32", "X float64"),
    "batch": ("X float32 [1, 2]", "X float32 [2, 2]"),
    "flat": ("X float32 [1, 2]", "X float32 [2]"),
    "other names": ("declare-output Y", "declare-output Z"),
    "hidden": ("(declare-output Y float32 [1, 2])",
               "(declare-hidden H float32 [1, 2] h) (declare-output Y float32 [1, 2])"),
    "first names": ("X[0,1] 0.0", "X_1 0.0"),
    "another row": ("X[0,1] 0.0", "X[1,1] 0.0"),
    "no index": ("X[0,1] 0.0", "X 0.0"),
    "more outputs than conditions know": ("Y[0,0]", "Y[0,2]"),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND_REFUSED)
def test_what_is_refused_of_the_second_version(checker, name):
    old, new = SECOND_REFUSED[name]
    assert old in SECOND
    with pytest.raises((ValueError, TypeError)):
        read(checker, SECOND.replace(old, new), "vnnlib2")
    with pytest.raises((ValueError, TypeError)):
        read(checker, SECOND, "vnnlib")


def test_float32_numbers(checker):
    single = checker.operators.is_single
    for value in (0.0, 1.0, -0.171875, 2.0**-149, 2.0**-149 * 3, (2.0 - 2.0**-23) * 2.0**127):
        assert single(Fraction(value))
    for value in (0.1, 2.0**-150, 2.0**128, 2.0**24 + 1, 1.0 + 2.0**-24, 2.0**-126 + 2.0**-150):
        assert not single(Fraction(value))
    assert not single(Fraction(1, 3))


def test_numbers_of_proofs(checker):
    exact = checker.operators.exact
    assert exact("-0.125") == Fraction(-1, 8)
    assert exact("2/6") == Fraction(1, 3)
    for text in ("1e3", "", "nan", "0x1", " 1", "1_0", "1/-2", "1.", ".5", "1.0/2", 1, 0.5, None):
        with pytest.raises(ValueError, match="neither a decimal"):
            exact(text)
    with pytest.raises(ZeroDivisionError):
        exact("1/0")
    assert checker.operators.decimal_below(Fraction(1, 3)) == "0.333"
    assert checker.operators.decimal_below(Fraction(2, 3)) == "0.666"
