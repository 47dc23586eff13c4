"""Reading properties in VNN-LIB 1.0 and 2.0: a box of inputs, and alternatives of conditions.

A property asks whether some x of the box has, for some alternative, all its conditions. Everything
in the file has to be understood: declarations, bounds of each input from both sides, and either
conditions that hold together or one `or` of alternatives. Numbers are decimals without exponents,
and are float32 numbers exactly, or tools would round them.
"""

import re
from collections import namedtuple
from fractions import Fraction

from .files import require, text_of
from .operators import is_single

# lower and upper bounds; alternatives, each some conditions; and how many outputs there are
Property = namedtuple("Property", "lower upper alternatives outputs")
# weights . Y >= threshold, as pairs of an output and its weight
Condition = namedtuple("Condition", "weights threshold")

NUMBER = r"-?[0-9]{1,60}(?:\.[0-9]{1,400})?"
INDEX = r"\[ ?[0-9]{1,9}(?:, ?[0-9]{1,9})* ?\]"
TOKEN = re.compile(
    rf"\s+|;[^\n]*(?:\n|$)|([()]|<=|>=|<2\.0>|{INDEX}|[A-Za-z][A-Za-z0-9_-]*(?:{INDEX})?|{NUMBER})"
)
DEEPEST = 8


def read_property(data, version):
    """The property in a file's bytes, of one of the `VERSIONS`."""
    commands = parsed(text_of(data))
    variables, counts, asserts = VERSIONS[version](commands)
    require(asserts, "the property asserts nothing")
    bounds, conditions, alternatives = {}, [], []
    for command in asserts:
        require(len(command) == 2, "an assert has not one condition")
        (_, claim) = command
        parts = claim[1:] if claim[0] == "and" else [claim]
        if parts and all(is_bound(part, variables) for part in parts):
            for part in parts:
                add_bound(bounds, part, variables)
        elif claim[0] == "or":
            alternatives.append([together(part, variables) for part in claim[1:]])
        else:
            conditions += together(claim, variables)
    require(len(alternatives) + bool(conditions) == 1, "conditions beside an `or`, or none")
    found = alternatives[0] if alternatives else [conditions]
    require(all(found) and found, "an alternative has no conditions")
    require(len(bounds) == 2 * counts[0], "an input is not bounded from both sides")
    lower, upper = ([bounds[side, i] for i in range(counts[0])] for side in (">=", "<="))
    ordered = all(low <= high for low, high in zip(lower, upper, strict=True))
    require(ordered, "a lower bound is above the upper one")
    return Property(lower, upper, found, counts[1])


def parsed(text):
    """The commands of a file, as nested lists of words."""
    stack, place = [[]], 0
    while place < len(text):
        found = TOKEN.match(text, place)
        require(found is not None, f"{text[place : place + 20]!r} is not understood")
        place, word = found.end(), found[1]
        if word == "(":
            stack.append([])
            require(len(stack) <= DEEPEST, "parentheses are too deep")
        elif word == ")":
            done = stack.pop()
            require(stack and done, "parentheses do not fit")
            stack[-1].append(done)
        elif word is not None:
            require(len(stack) > 1, f"{word[:20]!r} is outside of a command")
            stack[-1].append(word)
    require(len(stack) == 1, "parentheses are not closed")
    return stack[0]


def first_declarations(commands):
    """VNN-LIB 1.0: names of inputs and outputs, their counts, and the asserts."""
    declared = [command for command in commands if command[0] == "declare-const"]
    asserts = [command for command in commands if command[0] == "assert"]
    ordered = commands == declared + asserts
    require(ordered, "a command is not understood, or declarations follow asserts")
    names = [command[1] for command in declared if len(command) == 3 and command[2] == "Real"]
    require(len(names) == len(declared), "a variable is not declared as Real")
    counts = [sum(str(name).startswith(role) for name in names) for role in ("X_", "Y_")]
    variables = {
        f"{role}_{i}": (role, i)
        for role, count in zip("XY", counts, strict=True)
        for i in range(count)
    }
    require(sorted(names) == sorted(variables) and all(counts), "the variables are not X_i and Y_j")
    return variables, counts, asserts


def second_declarations(commands):
    """VNN-LIB 2.0: the same; variables are entries of X and Y, of shapes (1, count)."""
    head = [command[0] for command in commands[:2]]
    require(head == ["vnnlib-version", "declare-network"], "no network is declared")
    require(commands[0][1:] == ["<2.0>"], "the version is another")
    _, name, *values = [*commands[1], ""]
    values.pop()
    require(isinstance(name, str) and len(values) == 2, "not one input and one output")
    variables, counts = {}, []
    for role, kind, parts in zip("XY", ("declare-input", "declare-output"), values, strict=True):
        require(isinstance(parts, list) and parts[:3] == [kind, role, "float32"], f"no {kind}")
        shape = [int(size) for size in re.findall("[0-9]+", str(parts[3:]))]
        one = len(parts) == 4 and re.fullmatch(INDEX, str(parts[3])) is not None
        require(one and len(shape) == 2 and shape[0] == 1 <= shape[1] < 1 << 20, "no shape (1, n)")
        variables |= {f"{role}[0,{i}]": (role, i) for i in range(shape[1])}
        counts.append(shape[1])
    asserts = commands[2:]
    require(all(command[0] == "assert" for command in asserts), "a command is not understood")
    return variables, counts, asserts


def variable(word, variables):
    return variables.get(word.replace(" ", "")) if isinstance(word, str) else None


def number(word):
    known = isinstance(word, str) and re.fullmatch(NUMBER, word) is not None
    require(known, f"{str(word)[:20]!r} is not a number")
    value = Fraction(word)
    require(is_single(value), f"{word[:20]} is not a float32 number")
    return value


TURNED = {"<=": ">=", ">=": "<="}


def turned(claim, variables):
    """A comparison with a variable first; numbers may be on the left side."""
    require(isinstance(claim, list) and len(claim) == 3, "a condition is not understood")
    side, one, other = claim
    require(side in ("<=", ">="), f"{str(side)[:20]} is neither <= nor >=")
    first = variable(one, variables) is not None or variable(other, variables) is None
    return (side, one, other) if first else (TURNED[side], other, one)


def is_bound(claim, variables):
    shaped = isinstance(claim, list) and len(claim) == 3
    return shaped and any((variable(part, variables) or "Y")[0] == "X" for part in claim[1:])


def add_bound(bounds, claim, variables):
    side, name, value = turned(claim, variables)
    key = side, variable(name, variables)[1]
    require(key not in bounds, f"{name} is bounded twice from one side")
    bounds[key] = number(value)


def together(claim, variables):
    """Conditions that hold together: one, or `and` of some."""
    require(isinstance(claim, list), "a condition is only a word")
    if claim[0] == "and":
        return [condition(part, variables) for part in claim[1:]]
    return [condition(claim, variables)]


def condition(claim, variables):
    side, *parts = turned(claim, variables)
    one, other = (variable(part, variables) for part in parts)
    require(one is not None and one[0] == "Y", "a condition is not about outputs")
    sign = 1 if side == ">=" else -1
    if other is None:
        return Condition(((one[1], sign),), sign * number(parts[1]))
    require(other[0] == "Y" and other != one, "a condition does not compare two outputs")
    return Condition(((one[1], sign), (other[1], -sign)), Fraction(0))


VERSIONS = {"vnnlib": first_declarations, "vnnlib2": second_declarations}
