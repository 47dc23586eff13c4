"""Draw a program of a model: every choice that its sentence leaves open.

A choice is made by a function that takes one of several options: `strategies.programs` has one of
Hypothesis, and `choices` one of a seed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from constructive.exact.float_model import FloatModel
from constructive.exact.programs.softmax import DIVISIONS, MERGES, Softmax
from constructive.exact.programs.sums import ORDERS, Order
from constructive.exact.programs.trees import Tree, sums
from constructive.layers.programs import Program, Scale

Choose: TypeAlias = Callable[[Sequence[Any]], Any]

# Arrays of a logit with their indices, but for those of examples, in the order of pairs.
LOGITS = {"x": "nd", "W_K": "hdk", "W_Q": "hek", "e": "e"}
PROJECTED: Tree = (("x", "W_K"), ("W_Q", "e"))  # The tree of a logit of a query and a key
OUTPUTS = {"a": "hn", "x": "nd", "W_V": "hdv", "W_O": "hvb", "W_D": "bo"}  # Arrays of an output
# Trees of the next token's logits: readout of all that a position has, or of heads and itself.
READOUTS: tuple[Tree, ...] = ((("z", "U"), "O"), ((("a", "x"), "U"), "O"))
# The same where any arrays may be multiplied first.
FREE_READOUTS: tuple[Tree, ...] = (
    *READOUTS,
    ("z", ("U", "O")),
    ("z", "U", "O"),
    (("a", "x", "U"), "O"),
    (("a", ("x", "U")), "O"),
    (("a", "x"), ("U", "O")),
    ("a", ("x", ("U", "O"))),
    (("a", "x"), "U", "O"),
    ("a", "x", "U", "O"),
)

_SEEDS = range(1000)
_WIDER = (1, 1, 1, 2)  # Blocks are usually as small as they may be
_CONSTANTS = (1.0, 2.0**0.5, 0.3, 3.7, 64.0)


def choices(seed: int) -> Choose:
    """Return a function that takes one of several options, as a seed says."""
    rng = np.random.default_rng(seed)
    return lambda options: options[int(rng.integers(len(options)))]


def drawn(model: FloatModel, choose: Choose, *, decoder: bool = False) -> Program:
    """Draw a program of a model, for layers or for decoders.

    Example:
        >>> from constructive.exact.models import FLOAT32
        >>> drawn(FLOAT32, choices(5)).model
        'float32, pairwise'
    """
    free = model.contraction.free
    logits = PROJECTED
    if not model.contraction.projects:
        logits = _tree(tuple(LOGITS), choose, free=free)
    if decoder:
        outputs = choose(FREE_READOUTS if free else READOUTS)
        together = choose((True, False))
    else:
        outputs = _tree(tuple(OUTPUTS), choose, free=free)
        nodes = (node for node in sums(outputs, OUTPUTS, "o") if "h" in node)
        together = (free or next(nodes) & set("dv")) and choose((True, False))
    apart = "" if together else "h" if not free else choose(("h", "nh", "hdkenvb"))
    division = choose(DIVISIONS + MERGES * model.merged)
    block = model.block * choose(_WIDER)
    base_two = model.constants > 0 and choose((True, False))
    form = Softmax(
        division,
        block,
        choose((1, max(1, block // 2), block)),
        choose((1, 1, 2)),
        choose((True, False)),
        base_two,
        _stored(model, choose, division),
        choose((True, False)),
    )
    scale = Scale()
    if model.constants:
        scale = Scale(choose(_CONSTANTS), choose((("logits",), ("e",), ("x",), ("e", "x"))))
    return Program(
        model.name,
        logits,
        outputs,
        _order(choose),
        _order(choose),
        _order(choose),
        apart,
        form,
        scale,
        tuple(
            name for name in ("outputs", "logits") if model.stored_unit and choose((True, False))
        ),
        fused=choose((True, False)),
        flush=choose((True, False)),
        edge=choose((True, False)),
        signs=choose((0, 0, 1, -1)),
        seed=choose(_SEEDS),
    )


def _order(choose: Choose) -> Order:
    return Order(choose(ORDERS), choose(_SEEDS))


def _stored(model: FloatModel, choose: Choose, division: str) -> tuple[str, ...]:
    """Draw which results of softmax are stored in fewer bits."""
    if not model.stored_unit:
        return ()
    kinds = ("exponentials", "weights", "") if division == "before" else ("exponentials", "")
    names = choose(kinds), choose(("averages", ""))
    return tuple(filter(None, names))


def _tree(names: tuple[str, ...], choose: Choose, *, free: bool) -> Tree:
    """Draw a tree: brackets around pairs of neighbours, or groups of any arrays."""
    if not free:
        tree: Tree = choose(tuple(brackets(names)))
        return tree
    waiting: list[Tree] = list(names)
    while len(waiting) > 1:
        size = choose(range(2, len(waiting) + 1))
        group = tuple(waiting.pop(choose(range(len(waiting)))) for _ in range(size))
        waiting.append(group)
    return waiting[0]


def brackets(names: tuple[str, ...]) -> Iterator[Tree]:
    """Yield all trees of pairs of neighbours, which share an index.

    Example:
        >>> list(brackets(("x", "y", "z")))
        [('x', ('y', 'z')), (('x', 'y'), 'z')]
    """
    if len(names) == 1:
        yield names[0]
    for at in range(1, len(names)):
        for left in brackets(names[:at]):
            for right in brackets(names[at:]):
                yield left, right
