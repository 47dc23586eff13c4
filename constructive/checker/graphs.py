"""Reading ONNX files: the operators, constants and shapes of a graph, and nothing else in it.

Graphs have opset 13 of the standard operators, one input and one output in float32 with static
shapes, and constants in the file. Each name is given once, and everything that is there is used.
"""

import math
from collections import namedtuple

import numpy as np

from .files import require

# Protocol buffers, as far as ONNX files need them: fields of a message, in the order of the file.
#
# A message is a sequence of fields; each is a key, 8 number + type, and a value: type 0 is an
# integer of 7 bits a byte, type 2 bytes of a length. Readers differ in what they make of a field
# that is repeated and should not be, so that is refused. Type 5 is a float32 number.

VARINT, BYTES, SINGLE = 0, 2, 5
LONGEST = 10  # bytes of an integer

# Of a field: its name, its type, and whether it may be repeated
Field = namedtuple("Field", "name kind many", defaults=[False])


def varint(data, place):
    """An integer below 2^64, and where the next field begins."""
    value = 0
    for k in range(LONGEST):
        require(place < len(data), "a message is cut off")
        byte = data[place]
        place += 1
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            require(value < 1 << 64, "an integer is too long")
            return value, place
    raise ValueError("an integer is too long")


def signed(value):
    """An integer of 64 bits, two's complement."""
    return value - (1 << 64) if value >> 63 else value


def message(data, fields):
    """The values of a message by name, lists of those that may be repeated.

    fields: what it may contain, by number; anything else is refused
    """
    found = {field.name: [] if field.many else None for field in fields.values()}
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        require(number in fields, f"field {number} of a message is none that is understood")
        field = fields[number]
        require(kind == field.kind, f"{field.name} is of another type")
        if kind == VARINT:
            value, place = varint(data, place)
            value = signed(value)
        elif kind == SINGLE:
            value, place = data[place : place + 4], place + 4
            require(len(value) == 4, f"{field.name} is cut off")
        else:
            length, place = varint(data, place)
            require(length <= len(data) - place, f"{field.name} is cut off")
            value = data[place : place + length]
            place += length
        if field.many:
            found[field.name].append(value)
        else:
            require(found[field.name] is None, f"{field.name} is repeated")
            found[field.name] = value
    return found


OPSETS = (13, 17, 20)
VERSIONS = range(4, 14)  # of the format, where constants need not be inputs
FLOAT, INT64 = 1, 7  # the types of entries of constants
ENTRIES = {FLOAT: np.dtype("<f4"), INT64: np.dtype("<i8")}
MOST = 1 << 26  # entries of a constant

Node = namedtuple("Node", "operator inputs outputs attributes")
# name and shape of the input and of the output; constants by name; nodes in order; opset
Graph = namedtuple("Graph", "input output constants nodes opset", defaults=[13])

MODEL = {
    1: Field("version", VARINT),
    2: Field("producer", BYTES),
    3: Field("of_producer", BYTES),
    4: Field("domain", BYTES),
    5: Field("of_model", VARINT),
    6: Field("words", BYTES),
    7: Field("graph", BYTES),
    8: Field("opset", BYTES, many=True),
}
OPERATOR_SET = {1: Field("domain", BYTES), 2: Field("version", VARINT)}
GRAPH = {
    1: Field("nodes", BYTES, many=True),
    2: Field("name", BYTES),
    5: Field("constants", BYTES, many=True),
    10: Field("words", BYTES),
    11: Field("inputs", BYTES, many=True),
    12: Field("outputs", BYTES, many=True),
}
NODE = {
    1: Field("inputs", BYTES, many=True),
    2: Field("outputs", BYTES, many=True),
    3: Field("name", BYTES),
    4: Field("operator", BYTES),
    5: Field("attributes", BYTES, many=True),
    6: Field("words", BYTES),
    7: Field("domain", BYTES),
}
ATTRIBUTE = {
    1: Field("name", BYTES),
    2: Field("float", SINGLE),
    3: Field("integer", VARINT),
    8: Field("integers", VARINT, many=True),
    20: Field("kind", VARINT),
}
# what attributes of a type have, by its number
ATTRIBUTES = {1: "float", 2: "integer", 7: "integers"}
CONSTANT = {
    1: Field("shape", VARINT, many=True),
    2: Field("kind", VARINT),
    8: Field("name", BYTES),
    9: Field("bytes", BYTES),
}
VALUE = {1: Field("name", BYTES), 2: Field("type", BYTES)}
TYPE = {1: Field("tensor", BYTES)}
TENSOR = {1: Field("kind", VARINT), 2: Field("shape", BYTES)}
SHAPE = {1: Field("dims", BYTES, many=True)}
DIM = {1: Field("size", VARINT)}


def read_graph(data):
    """The graph of an ONNX file's bytes."""
    model = message(data, MODEL)
    require(model["version"] in VERSIONS, "the version of the format is none that is understood")
    opsets = [message(part, OPERATOR_SET) for part in model["opset"]]
    known = [(each["domain"] or b"", each["version"]) for each in opsets]
    right = len(known) == 1 and not known[0][0] and known[0][1] in OPSETS
    require(right, "the operators are not those of one opset that is understood")
    require(model["graph"] is not None, "the file has no graph")
    graph = message(model["graph"], GRAPH)
    constants = [constant(part) for part in graph["constants"]]
    nodes = [node(part) for part in graph["nodes"]]
    ends = [value(part) for part in graph["inputs"]], [value(part) for part in graph["outputs"]]
    require(len(ends[0]) == len(ends[1]) == 1, "the graph has not one input and one output")
    (start,), (end,) = ends
    given = [start[0], *(name for name, _ in constants)]
    given += [name for each in nodes for name in each.outputs]
    require(len(set(given)) == len(given) and "" not in given, "a name is given twice, or empty")
    used = {name for each in nodes for name in each.inputs} | {end[0]}
    require(used == set(given), "a value is not used, or is not there")
    return Graph(start, end, dict(constants), nodes, known[0][1])


def text(data, role):
    require(data is not None and len(data) < 1000, f"{role} has no name")
    return data.decode("ascii")


def node(data):
    found = message(data, NODE)
    require(not found["domain"], "an operator is of another domain")
    attributes = [attribute(part) for part in found["attributes"]]
    names = [name for name, _ in attributes]
    require(len(set(names)) == len(names), "an attribute is given twice")
    inputs, outputs = (
        tuple(text(part, "a value") for part in found[role]) for role in ("inputs", "outputs")
    )
    return Node(text(found["operator"], "an operator"), inputs, outputs, dict(attributes))


def attribute(data):
    found = message(data, ATTRIBUTE)
    name = text(found["name"], "an attribute")
    field = ATTRIBUTES.get(found["kind"])
    others = [each for each in ATTRIBUTES.values() if each != field and found[each]]
    known = field is not None and found[field] is not None and not others
    require(known, f"the attribute {name} is not a number or some integers")
    value = found[field]
    if field == "float":
        (value,) = np.frombuffer(value, ENTRIES[FLOAT]).tolist()
        require(math.isfinite(value), f"the attribute {name} is not finite")
    return name, value


def constant(data):
    """Name and entries: float32, all finite, or integers."""
    found = message(data, CONSTANT)
    name, shape = text(found["name"], "a constant"), tuple(found["shape"])
    require(found["kind"] in ENTRIES, f"the constant {name} is neither float32 nor int64")
    require(all(size > 0 for size in shape) and math.prod(shape) <= MOST, f"{name} has no shape")
    kind, stored = ENTRIES[found["kind"]], found["bytes"] or b""
    require(len(stored) == math.prod(shape) * kind.itemsize, f"the constant {name} is cut off")
    array = np.frombuffer(stored, kind).reshape(shape)
    require(np.isfinite(array).all(), f"the constant {name} is not finite")
    return name, array


def value(data):
    """Name and shape of the input or of the output."""
    found = message(data, VALUE)
    name = text(found["name"], "a value")
    tensor = message(message(found["type"] or b"", TYPE)["tensor"] or b"", TENSOR)
    require(tensor["kind"] == FLOAT, f"{name} is not float32")
    dims = message(tensor["shape"] or b"", SHAPE)["dims"]
    shape = tuple(message(dim, DIM)["size"] for dim in dims)
    static = bool(shape) and all(type(size) is int and 0 < size <= MOST for size in shape)
    require(static and math.prod(shape) <= MOST, f"the shape of {name} is not static")
    return name, shape
