"""What tests of graphs share: small networks, their graphs, and boxes."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from constructive.instances import Atom, Box, Head, Network, Property
from constructive.instances.graphs import written
from constructive.instances.properties import version_1

NOT_NEGATIVE = ((Atom([1.0], 0.0),),)


def network(heads=2, tokens=3, inputs=2, outputs=2, seed=0, size=2.0):
    """Entries with few bits, some of them zeros."""
    random = np.random.default_rng(seed)

    def entries(*shape):
        drawn = np.round(random.normal(size=shape) * size * 16) / 16
        return np.where(random.random(shape) < 0.2, 0.0, drawn)

    return Network(
        tuple(
            Head(entries(tokens, inputs), entries(tokens), entries(tokens, outputs))
            for _ in range(heads)
        )
    )


def unit_box(inputs=2):
    return Box(-np.ones(inputs), np.ones(inputs))


def graph_bytes(made, graph="split"):
    """The graph that is written, or one with softmax as a quotient of exponentials."""
    if graph == "split":
        return written(made)
    return changed(written(made), with_exponentials)


def with_exponentials(model):
    nodes = []
    for each in model.graph.node:
        if each.op_type != "Softmax":
            nodes.append(each)
            continue
        (logits,), (attention,) = each.input, each.output
        powers, whole, axes = (attention.replace("attention", n) for n in ("exp", "whole", "axes"))
        nodes.append(helper.make_node("Exp", [logits], [powers]))
        nodes.append(helper.make_node("ReduceSum", [powers, axes], [whole], keepdims=1))
        nodes.append(helper.make_node("Div", [powers, whole], [attention]))
        model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), axes))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def constants(model):
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


def replace_constant(model, name, array):
    for each in model.graph.initializer:
        if each.name == name:
            each.CopyFrom(numpy_helper.from_array(np.asarray(array), name))


def changed(data, change):
    """The bytes of a model after a change."""
    model = onnx.ModelProto.FromString(data)
    found = change(model)
    return (found if isinstance(found, onnx.ModelProto) else model).SerializeToString()


def ints(box, checker):
    """A box as the checker takes it: integers in units of 2^-149."""
    return [
        list(checker.operators.integers(np.asarray(side, np.float32)))
        for side in (box.lower, box.upper)
    ]


def problem(checker, data, box, disjuncts=NOT_NEGATIVE):
    """What the checker makes of a graph and a property."""
    text = version_1(Property(box, disjuncts)).encode()
    wanted = checker.properties.read_property(text, "vnnlib")
    model = checker.softmaxes.KNOWN["float32, pairwise"]
    return checker.folder.Problem(checker.graphs.read_graph(data), wanted, model)
