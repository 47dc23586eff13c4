"""The rules that store columns. A new one is a class, and a line here."""

from constructive.layers.packed.formulas import (
    Constant,
    DrawnSigns,
    OrderParity,
    Parabola,
    Parity,
)
from constructive.layers.packed.numbers import Coded, Fields, Floats, Places
from constructive.layers.packed.paired import Paired
from constructive.layers.packed.rules import Rule

FLOATS = Floats()
# All rules by name, formulas first: of two that take as many bits, the first one is taken.
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Constant(),
        Parity(),
        OrderParity(),
        Parabola(),
        DrawnSigns(),
        Paired(DrawnSigns()),
        Places(),
        Paired(Fields()),
        Fields(),
        Paired(Coded()),
        Coded(),
        FLOATS,
    )
}
