"""A program that evaluates a layer or a decoder, as a value that can be printed and drawn.

`exact.float_model` says what a program of a model may do, and bounds its errors. Here is what it
does: `Program.of_layer` and `Program.of_decoder` follow its trees, orders, blocks and roundings
(`exact.programs`). Names of arrays are those of trees: for logits x, W_K, W_Q and e; for outputs a
(attention), x, W_V, W_O and W_D; for decoders z, U and O, or a, x, U and O.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from constructive.data.dataset import Dataset
from constructive.exact import programs
from constructive.exact.float_model import INTEGER_MODELS, MODELS, FloatModel
from constructive.exact.programs import (
    DIVISIONS,
    MERGES,
    ORDERS,
    Contractor,
    Labelled,
    Machine,
    Order,
    Softmax,
    Tree,
    contract,
    leaves,
    sums,
)
from constructive.layers.attend import Causal, View, examples
from constructive.layers.attention import AttentionLayer
from constructive.layers.causal import CausalLayer
from constructive.layers.margins import readout_parts
from constructive.support.arrays import Array

LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Scale:
    """Constants on the way to exponentials."""

    weights: float = 1.0  # what W_Q is multiplied by; 1 for nothing
    # which arrays are multiplied by its inverse: "e", "x" or "logits", or two of them, each by a
    # root of it
    inverse: tuple[str, ...] = ("logits",)


@dataclass(frozen=True)
class Program:
    """What one program does.

    Example:
        >>> from constructive import build_memorizer, generators
        >>> data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
        >>> layer = build_memorizer(data, num_heads=3).layer
        >>> bool(abs(Program().of_layer(layer, data)[:, 0] - data.targets).max() < 1e-3)
        True
    """

    model: str = "float32, pairwise"  # the name of its model, of `exact.float_model`
    logits: Tree = (("x", "W_K"), ("W_Q", "e"))  # the tree of a logit
    outputs: Tree = ((("a", ("x", "W_V")), "W_O"), "W_D")  # the tree of an output
    logit_order: Order = field(default_factory=Order)  # of sums on the way to logits
    average_order: Order = field(default_factory=Order)  # of sums over tokens
    output_order: Order = field(default_factory=Order)  # of all other sums
    apart: str = ""  # indices that are summed alone, after all others: "h" for heads
    form: Softmax = field(default_factory=Softmax)  # blocks and divisions of softmax
    scale: Scale = field(default_factory=Scale)  # constants
    stored: tuple[str, ...] = ()  # what else is stored in fewer bits: "outputs", "logits"
    fused: bool = False  # whether products and additions are rounded together
    flush: bool = False  # whether small numbers become zeros
    # whether each operation is off by the most that is allowed (`exact.programs.machine`)
    edge: bool = False
    signs: int = 0  # of errors: 1, -1, or 0 where each is drawn
    exp_share: float = 1.0  # how much of the allowed error exponentials have
    seed: int = 0  # of directions that are drawn

    def machine(self) -> Machine:
        """Make the machine, with directions from the seed."""
        model: FloatModel = (MODELS | INTEGER_MODELS)[self.model]
        rng = np.random.default_rng(self.seed)
        return Machine(model, rng, self.fused, self.flush, self.edge, self.signs, self.exp_share)

    def of_layer(self, layer: AttentionLayer, dataset: Dataset) -> Array:
        """Evaluate a layer on all examples: (T, d_out), not finite where sums overflow."""
        with np.errstate(all="ignore"):
            machine = self.machine()
            w_q, w_k, w_v, w_o, w_d = map(machine.load, layer.tensors.values())
            view = examples(dataset.contexts, dataset.queries)
            logits, x = self._logits(machine, view, w_q, w_k)
            arrays = {
                "a": logits,
                "x": x,
                "W_V": Labelled(w_v, "hdv"),
                "W_O": Labelled(w_o.reshape(layer.num_heads, layer.value_dim, -1), "hvb"),
                "W_D": Labelled(w_d, "bo"),
            }
            return _turned(self._contractor(machine).evaluate(self.outputs, arrays, "to"), "to")

    def of_decoder(self, layer: CausalLayer, unembedding: Array, tokens: Array) -> Array:
        """Evaluate the logits of all next tokens, at all positions: (S, N, V)."""
        with np.errstate(all="ignore"):
            machine = self.machine()
            w_q, w_k, readout, outputs = (
                machine.load(each) for each in (*layer.tensors.values(), unembedding)
            )
            logits, x = self._logits(machine, Causal(tokens, layer.window), w_q, w_k)
            made = self._contractor(machine)
            sources = [
                source
                for part in readout_parts(readout, machine.model.factors)
                for source in self._sources(made, logits, x, part, Labelled(outputs, "vo"))
            ]
            if all(len(tree) == 2 and tree[1] == "O" for tree, _ in sources):
                first = self._added(made, [(tree[0], arrays) for tree, arrays in sources], "tio")
                f = Labelled(self._kept(machine, first, "outputs"), "tio")
                sources = [(("f", "O"), {"f": f, "O": Labelled(outputs, "vo")})]
                whole = replace(machine.model, factors=None)  # of this product none is rounded
                made = self._contractor(replace(machine, model=whole))
            return self._kept(machine, self._added(made, sources, "tiv"), "logits")

    def _sources(
        self, made: Contractor, logits: Labelled, x: Labelled, readout: Array, o: Labelled
    ) -> list[tuple[Tree, dict[str, Labelled]]]:
        """Trees whose results are added, with their arrays: one of z, or of heads and of x."""
        heads, width = logits.array.shape[2], x.array.shape[2]
        skipped = len(readout) - heads * width
        own = Labelled(x.array, "tid")
        if "z" in leaves(self.outputs):
            z = _turned(made.evaluate(("a", "x"), {"a": logits, "x": x}, "tihd"), "tihd")
            parts = [own.array] * (skipped > 0) + [z.reshape(*own.array.shape[:2], -1)]
            whole = Labelled(np.concatenate(parts, axis=2), "tik")
            return [(self.outputs, {"z": whole, "U": Labelled(readout, "ko"), "O": o})]
        by_head = Labelled(readout[skipped:].reshape(heads, width, -1), "hdo")
        found = [(self.outputs, {"a": logits, "x": x, "U": by_head, "O": o})]
        if skipped:
            rows = Labelled(readout[:skipped], "do")
            found.append(((("x", "U"), "O"), {"x": own, "U": rows, "O": o}))
        return found

    @staticmethod
    def _added(
        made: Contractor, sources: list[tuple[Tree, dict[str, Labelled]]], wanted: str
    ) -> Array:
        """Evaluate trees, and add their results."""
        results = [_turned(made.evaluate(tree, arrays, wanted), wanted) for tree, arrays in sources]
        total = results[0]
        for result in results[1:]:
            total = made.machine.add(total, result, made.machine.directions(total.shape))
        return total

    def _kept(self, machine: Machine, array: Array, name: str) -> Array:
        return machine.store(array) if name in self.stored else array

    def _contractor(self, machine: Machine) -> Contractor:
        """Evaluate all but logits, with averages in the form of this program."""
        made = Contractor(machine, self.output_order, self.apart)

        def averaged(logits: Labelled, parts: list[Labelled], over: str) -> Labelled:
            return self._averaged(made, logits, parts, over)

        return Contractor(machine, self.output_order, self.apart, averaged)

    def _averaged(
        self, made: Contractor, logits: Labelled, parts: list[Labelled], over: str
    ) -> Labelled:
        """Contract arrays with attention; over tokens alone first, if that is the form."""
        others = "".join(index for index in over if index != "n")
        alone = "n" in over and set(others) <= set(self.apart)
        joint = len(parts) > 1 or not alone
        if joint:
            weights = programs.attention(made.machine, logits.array, self.form, self.average_order)
            whole = [Labelled(weights, logits.indices), *parts]
            return contract(made.machine, whole, over, self.average_order)
        (values,) = parts
        rest = "".join(index for index in values.indices if index not in logits.indices)
        wanted = logits.indices[:-1] + "n" + rest
        sizes = dict(zip(values.indices, values.array.shape, strict=True))
        axes = [index for index in wanted if index in sizes]
        turned = values.array.transpose([values.indices.index(index) for index in axes])
        turned = turned.reshape(
            [sizes.get(index, 1) for index in wanted[: len(wanted) - len(rest)]] + [-1]
        )
        result = programs.average(made.machine, logits.array, turned, self.form, self.average_order)
        shape = *result.shape[:-1], *(sizes[index] for index in rest)
        averages = Labelled(result.reshape(shape), logits.indices[:-1] + rest)
        return made.reduced([averages], others) if others else averages

    def _logits(
        self, machine: Machine, view: View, w_q: Array, w_k: Array
    ) -> tuple[Labelled, Labelled]:
        """Load tokens and queries, and evaluate logits with constants; return them and tokens.

        Logits of hidden tokens are -inf. Indices are t of examples or sequences, i of positions,
        h of heads and n of tokens.
        """
        seen, asking = machine.load(view.tokens), "ti"[: len(view.shape)]
        asked = seen if view.queries is view.tokens else machine.load(view.queries)
        x = Labelled(seen[0], "nd") if view.is_shared else Labelled(seen, "tnd")
        e, wanted = Labelled(asked, asking + "e"), asking + "hn"
        arrays = {"x": x, "e": e, "W_Q": Labelled(w_q, "hek"), "W_K": Labelled(w_k, "hdk")}
        root = self.scale.weights ** (-1.0 / len(self.scale.inverse))
        factors = dict.fromkeys(self.scale.inverse, root) | {"W_Q": self.scale.weights}
        if self.scale.weights != 1.0:
            for name in arrays.keys() & factors.keys():
                arrays[name] = _times(machine, arrays[name], factors[name])
        made = Contractor(machine, self.logit_order, self.apart)
        found = Labelled(_turned(made.evaluate(self.logits, arrays, wanted), wanted), wanted)
        if self.scale.weights != 1.0 and "logits" in factors:
            found = _times(machine, found, factors["logits"])
        if self.form.base_two:
            found = _times(machine, found, LOG2_E)
        hidden = view.hidden
        if hidden is not None:
            shown = np.where(hidden[:, np.newaxis], -np.inf, found.array)
            found = found._replace(array=shown)
        return found, x


def _times(machine: Machine, array: Labelled, constant: float) -> Labelled:
    """Multiply by a constant of the format."""
    rounded = machine.load(np.array(constant))
    signs = machine.directions(array.array.shape)
    return Labelled(machine.multiply(array.array, rounded, signs), array.indices)


def _turned(found: Labelled, wanted: str) -> Array:
    """Return an array with its axes in this order; those that are missing have a length of one."""
    there = [index for index in wanted if index in found.indices]
    turned = found.array.transpose([found.indices.index(index) for index in there])
    return turned[tuple(slice(None) if index in there else np.newaxis for index in wanted)]


# Draw a program of a model: every choice that its sentence leaves open.
#
# A choice is made by a function that takes one of several options: `strategies.programs` has one
# of Hypothesis, and `choices` one of a seed.


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
        >>> from constructive.exact.float_model import FLOAT32
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
