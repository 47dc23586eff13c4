"""Hostile folders of instances for verifiers.

An honest folder with twins is changed somewhere, hashes are made consistent as a forger would, and
the checker reads it. `instance_judge` judges what it accepts. Every forgery takes a random
generator and a copy of the files, and returns what to call it, or None if it does not apply.
"""

import copy
import functools
import json
import re
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import instance_judge
import numpy as np
import onnx
from forgeries import Case
from google.protobuf.message import DecodeError
from mutations import pick, spoil
from onnx import helper, numpy_helper

from constructive import instances

VERSIONS = "vnnlib", "vnnlib2"
OUTPUT = re.compile(r"(\([<>]= Y\S+ )(-?[0-9.]+)(\)+)")
INPUT = re.compile(r"(\(([<>]=) X(?:_|\[0,)(\d+)\]? )(-?[0-9.]+)(\))")


@dataclass
class Folder:
    """Files by their paths, of two instances on one network."""

    files: dict
    network: str

    @property
    def names(self):
        return sorted(Path(path).stem for path in self.files if path.startswith("proofs/"))

    def proof(self, name):
        return json.loads(self.files[f"proofs/{name}.json"])

    def put(self, name, proof):
        self.files[f"proofs/{name}.json"] = json.dumps(proof).encode()

    def texts(self, name):
        return {
            part: self.files[f"{part}/{name}.vnnlib"].decode()
            for part in VERSIONS
            if f"{part}/{name}.vnnlib" in self.files
        }

    def of(self, answer):
        """The instance whose proof says so."""
        (name,) = [each for each in self.names if self.proof(each)["answer"] == answer]
        return name

    def sign(self):
        """With the hashes of these very files, where proofs can be read."""
        for name in self.names:
            try:
                proof = self.proof(name)
            except ValueError:
                continue
            if not isinstance(proof, dict):
                continue
            for key, path in (("onnx", f"onnx/{self.network}.onnx"),
                              *((part, f"{part}/{name}.vnnlib") for part in VERSIONS)):  # fmt: skip
                if key in proof and path in self.files:
                    proof[key] = sha256(self.files[path]).hexdigest()
            self.put(name, proof)
        return self

    def write(self, folder):
        root = folder / "folder"
        for path, data in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        return ["instances", str(root)]


@functools.cache
def honest():
    """Folders with twins of all families."""
    drawn = [
        ("needle", (1, 5), {"scale": 64.0}),
        ("needle", (2, 3), {"scale": 16.0}),
        ("needle", (1, 2), {"scale": 6.0}),
        ("corner", (2, 5), {"scale": 84.0}),
        ("corner", (1, 3), {"scale": 24.0}),
        ("shadow", (1, 4), {"scale": 64.0}),
        ("stacked", (1, 4), {"scale": 64.0}),
        ("readout", (2, 4), {}),
        ("rounding", (1, 3), {"step": 16.0}),
        *(("operator", (1, 2), {}) for _ in range(6)),
        *(("narrow", (1, 2), {"width": width}) for width in (1e-8, 1e-5, 1e-3)),
    ]
    found = []
    for seed, (kind, dims, options) in enumerate(drawn):
        for dim in dims:
            pair = instances.FAMILIES[kind]().make(dim, seed=seed, **options)
            with tempfile.TemporaryDirectory() as root:
                folder = Path(root) / "folder"
                instances.save(folder, pair)
                files = {
                    path.relative_to(folder).as_posix(): path.read_bytes()
                    for path in sorted(folder.rglob("*"))
                    if path.is_file()
                }
            found.append(Folder(files, pair[0].network_name))
    return found


def decimal(value):
    text = f"{Fraction(value)}"
    return text if "/" not in text else format_exactly(Fraction(value))


def format_exactly(value):
    twos = value.denominator.bit_length() - 1
    digits = str(abs(value.numerator) * 5**twos).rjust(twos + 1, "0")
    return f"{'-' * (value < 0)}{digits[:-twos]}.{digits[-twos:]}"


def single(value):
    return Fraction(float(np.float32(float(value))))


def rewrite(folder, name, change, only=None):
    """Change the text of a property, in all versions or in one."""
    for part, text in folder.texts(name).items():
        if only in (None, part):
            folder.files[f"{part}/{name}.vnnlib"] = change(text).encode()


# Properties.


def threshold(rng, folder):
    """That of the twin, one near the bounds of the proof, or any."""
    name = pick(rng, folder.names)
    twin = next(other for other in folder.names if other != name)
    own, other = (
        [Fraction(found[1]) for found in OUTPUT.findall(folder.texts(each)["vnnlib"])]
        for each in (name, twin)
    )
    if not own or not other:
        return None
    kind = rng.integers(4)
    moved = [
        other[0],
        single((own[0] + other[0]) / 2),
        single(own[0] + Fraction(float(rng.normal())) * (other[0] - own[0])),
        single(own[0] * (1 + Fraction(float(rng.choice([-1, 1]))) / 2**20)),
    ][kind]
    only = pick(rng, VERSIONS) if rng.random() < 0.2 else None
    rewrite(folder, name, lambda text: OUTPUT.sub(rf"\g<1>{decimal(moved)}\g<3>", text), only)
    return f"threshold {kind} of {name} in {only or 'all'}"


def box(rng, folder):
    """A bound moved, dropped or bounding another input; or only the first input is there."""
    name = pick(rng, folder.names)
    kind = rng.integers(5)
    only = pick(rng, VERSIONS) if rng.random() < 0.2 else None
    if kind == 4:
        kept = re.compile(r".*(X_0|X\[0,0\]|Y|declare-network|version|declare-input|^\)).*")

        def change(text):
            lines = [line for line in text.splitlines() if kept.match(line)]
            return re.sub(r"float32 \[1, \d+\]", "float32 [1, 1]", "\n".join(lines), count=1)
    else:
        lines = INPUT.findall(folder.texts(name)["vnnlib"])
        _, side, index, value, _ = pick(rng, lines)
        by = Fraction(float(rng.choice([2.0**-10, 0.25, 4.0]))) * int(rng.choice([-1, 1]))
        moved = decimal(single(Fraction(value) + by))

        def change(text):
            def one(found):
                if found[2] != side or found[3] != index:
                    return found[0]
                return {
                    0: f"{found[1]}{moved}{found[5]}",
                    1: f"{found[1]}{moved}{found[5]}",
                    2: found[0].replace(f"X_{index}", "X_0").replace(f"X[0,{index}]", "X[0,0]"),
                    3: "true",
                }[int(kind)]

            return INPUT.sub(one, text)

    rewrite(folder, name, change, only)
    return f"box {kind} of {name} in {only or 'all'}"


def conditions(rng, folder):
    """Another form of the condition."""
    name = pick(rng, folder.names)
    old, new = pick(
        rng,
        [("(>= Y", "(<= Y"), ("(<= Y", "(>= Y"), ("(or ", "(and "), ("(and ", "(or "),
         ("Y_0", "Y_1"), ("Y_1", "Y_0"), ("(>= Y", "(> Y"), ("(and ", "")],
    )  # fmt: skip
    rewrite(folder, name, lambda text: text.replace(old, new))
    return f"{old} is {new} in {name}"


# Proofs.


def slabs_of(folder):
    name = folder.of("unsat")
    proof = folder.proof(name)
    parts = [each for each in proof["refutations"] if each["kind"] == "slabs"]
    return name, proof, parts


def slabs(rng, folder):
    """A slab dropped, shrunk, moved, repeated, or the direction changed."""
    name, proof, parts = slabs_of(folder)
    if not parts:
        return None
    part = pick(rng, parts)
    listed = part["slabs"]
    slab = pick(rng, listed)
    kind = rng.integers(7)
    start, end = Fraction(slab["from"]), Fraction(slab["to"])
    share = Fraction(float(rng.choice([2.0**-30, 0.125, 0.5])))
    if kind == 0:
        listed.remove(slab)
    elif kind == 1:
        slab["to"] = str(end - share * max(end - start, Fraction(1, 2**20)))
    elif kind == 2:
        slab["from"] = str(start + share * max(end - start, Fraction(1, 2**20)))
    elif kind == 3:
        slab["from"], slab["to"] = str(start + share), str(end + share)
    elif kind == 4:
        listed.append(copy.deepcopy(slab))
    elif kind == 5:
        place = rng.integers(len(part["direction"]))
        part["direction"][place] = str(pick(rng, [0, -1, 2, Fraction(1, 3)]))
    else:
        part["direction"] = part["direction"][:-1] if rng.random() < 0.5 else []
    folder.put(name, proof)
    return f"slabs {kind}"


def bounds(rng, folder):
    """Bounds, weights and tilts of heads."""
    name, proof, parts = slabs_of(folder)
    if not parts:
        return None
    heads = pick(rng, pick(rng, parts)["slabs"])["heads"]
    head = pick(rng, heads)
    kind = rng.integers(8)
    c, place = Fraction(head["bound"]), rng.integers(len(head["weights"]))
    if kind == 0:
        head["bound"] = str(c * (1 - Fraction(float(2.0 ** -rng.integers(2, 40)))))
    elif kind == 1:
        head["bound"] = str(c + Fraction(float(2.0 ** -rng.integers(2, 40))))
    elif kind == 2:
        by = Fraction(float(2.0 ** -rng.integers(2, 12)))
        for other, sign in zip(heads, (1, -1), strict=False):
            other["bound"] = str(Fraction(other["bound"]) + sign * by)
    elif kind == 3:
        head["weights"][place] = str(pick(rng, [0, 1, -1, 10**9, "1e9", Fraction(1, 10**30)]))
    elif kind == 4:
        head["weights"] = [head["weights"][i] for i in rng.permutation(len(head["weights"]))]
    elif kind == 5:
        head["tilts"][place] = str(pick(rng, [0, 1, -1000, Fraction(1, 7)]))
    elif kind == 6:
        field = pick(rng, ["weights", "tilts"])
        head[field] = head[field][:-1] if rng.random() < 0.5 else [*head[field], "1"]
    else:
        heads.remove(head)
    folder.put(name, proof)
    return f"bounds {kind}"


def cells(rng, folder):
    """The bound that intervals of operators reach: lower, higher, or of another condition."""
    name = folder.of("unsat")
    proof = folder.proof(name)
    parts = [each for each in proof["refutations"] if each["kind"] == "cells"]
    if not parts:
        return None
    part, kind = pick(rng, parts), rng.integers(5)
    most, (_, value, _) = Fraction(part["most"]), OUTPUT.findall(folder.texts(name)["vnnlib"])[0]
    apart = abs(Fraction(value)) - abs(most)
    if kind == 0:
        part["most"] = decimal(most - abs(apart) * Fraction(float(rng.choice([1, 8, 64]))))
    elif kind == 1:
        part["most"] = decimal(most + apart * Fraction(float(rng.choice([0.5, 1, 2]))))
    elif kind == 2:
        part["most"] = pick(rng, ["1e9", "-1e999", "", None, "1/0", -1, "-" + part["most"]])
    elif kind == 3:
        part["kind"] = pick(rng, ["interval", "slabs", "more"])
    else:
        part["atom"] = pick(rng, [1, -1, True, "0"])
    folder.put(name, proof)
    return f"cells {kind}"


def witness(rng, folder):
    """A witness that is shorter, longer, elsewhere, or not of float32 numbers."""
    name = folder.of("sat")
    proof = folder.proof(name)
    point = proof["witness"]
    kind, place = rng.integers(6), rng.integers(len(point))
    text = folder.texts(name)["vnnlib"]
    ends = {(side, int(i)): Fraction(value) for _, side, i, value, _ in INPUT.findall(text)}
    low, high = (ends[side, int(place)] for side in (">=", "<="))
    x = Fraction(point[place])
    if kind == 0:
        point.pop()
    elif kind == 1:
        point.append("0")
    elif kind == 2:
        point[place] = str(single(high + Fraction(1, 2**12)))
    elif kind == 3:
        point[place] = str(low + (high - low) / 3)
    elif kind == 4:
        point[place] = str(single(low + (high - low) * Fraction(float(rng.random()))))
    else:
        point[place] = str(single(x + Fraction(1, 2 ** int(rng.integers(2, 20)))))
    folder.put(name, proof)
    return f"witness {kind}"


def answer(rng, folder):
    """Answers and evidence exchanged between twins, or in one of them."""
    one, other = folder.names
    first, second = folder.proof(one), folder.proof(other)
    kind = rng.integers(3)
    if kind == 0:
        folder.put(one, second)
        folder.put(other, first)
    elif kind == 1:
        name, proof = pick(rng, [(one, first), (other, second)])
        proof["answer"] = "sat" if proof["answer"] == "unsat" else "unsat"
        folder.put(name, proof)
    else:
        first["answer"], second["answer"] = second["answer"], first["answer"]
        for key in ("witness", "refutations"):
            pair = [proof.pop(key, None) for proof in (first, second)]
            for proof, value in zip((second, first), pair, strict=True):
                if value is not None:
                    proof[key] = value
        folder.put(one, first)
        folder.put(other, second)
    if rng.random() < 0.7:
        swap_answers(folder)
    return f"answer {kind}"


def swap_answers(folder):
    table = folder.files["expected.csv"].decode()
    marked = table.replace(",unsat,", ",?,").replace(",sat,", ",unsat,").replace(",?,", ",sat,")
    folder.files["expected.csv"] = marked.encode()


def in_float32(rng, folder):
    """The answer in float32: changed, dropped, given to another instance, or by another point."""
    name = pick(rng, folder.names)
    proof, kind = folder.proof(name), rng.integers(6)
    entry = proof.get("float32")
    if entry is None or kind == 0:
        answer = pick(rng, ["sat", "unsat"])
        proof["float32"] = {"answer": answer}
        if answer == "sat":
            proof["float32"]["witness"] = folder.proof(folder.of("sat"))["witness"]
    elif kind == 1:
        del proof["float32"]
    elif kind == 2:
        entry["answer"] = "sat" if entry["answer"] == "unsat" else "unsat"
        entry.pop("witness", None)
    elif kind == 3:
        other = folder.proof(next(each for each in folder.names if each != name))
        proof["float32"] = other["float32"]
    elif kind == 4 and "witness" in entry:
        place = rng.integers(len(entry["witness"]))
        by = Fraction(float(rng.choice([-1, 1])) / 2 ** int(rng.integers(0, 12)))
        entry["witness"][place] = str(single(Fraction(entry["witness"][place]) + by))
    else:
        entry[pick(rng, ["witness", "refutations", "more"])] = pick(rng, [[], ["0"], None])
    folder.put(name, proof)
    if rng.random() < 0.7:
        deployed = proof.get("float32", proof).get("answer")
        table = folder.files["expected.csv"].decode()
        row = re.compile(rf"^({re.escape(name)},\w+),\w+,", re.MULTILINE)
        folder.files["expected.csv"] = row.sub(rf"\1,{deployed},", table).encode()
    return f"in float32 {kind}"


def residual(rng, model):
    """What is added to the input, or to the outputs of heads."""
    adds = [each for each in model.graph.node if each.op_type == "Add"]
    node = pick(rng, adds or model.graph.node)
    names = [name for each in model.graph.node for name in (*each.input, *each.output)]
    node.input[rng.integers(len(node.input))] = pick(rng, ["X", *names])


def numbers(rng, folder):
    """The bound of rounding, and the model."""
    name = pick(rng, folder.names)
    proof = folder.proof(name)
    key, value = pick(
        rng,
        [("rounding", "0"), ("rounding", "1"), ("rounding", "-1"), ("rounding", "0.05"),
         ("model", "tf32"), ("model", "float32, any contraction"), ("model", "bfloat16, pairwise"),
         ("format", "constructive instance 2"), ("more", 1)],
    )  # fmt: skip
    proof[key] = value
    folder.put(name, proof)
    return f"{key} {value}"


def fields(rng, folder):
    """Any values of a proof."""
    name = pick(rng, folder.names)
    proof = folder.proof(name)
    for _ in range(rng.integers(1, 3)):
        spoil(rng, proof)
    folder.put(name, proof)
    return "fields"


# Graphs.


def entries(rng, model):
    found = pick(rng, model.graph.initializer)
    array = numpy_helper.to_array(found).copy()
    flat = array.reshape(-1)
    if rng.random() < 0.3:
        array *= np.float32(pick(rng, [0.5, 1.0 + 2.0**-10, 1.5, -1.0]))
    else:
        flat[rng.integers(flat.size)] = np.float32(pick(rng, [0, 1, -3, 1e-3, 50, np.nan, 1e38]))
    found.CopyFrom(numpy_helper.from_array(array, found.name))


def turned(rng, model):
    found = pick(rng, model.graph.initializer)
    array = numpy_helper.to_array(found)
    array = array.T if rng.random() < 0.5 else array[::-1]
    found.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), found.name))


def operator(rng, model):
    pick(rng, model.graph.node).op_type = pick(
        rng,
        ["Gemm", "MatMul", "Add", "Sub", "Softmax", "Exp", "LogSoftmax", "Mul", "Identity", "Relu",
         "Sigmoid", "Tanh", "Sin", "Cos", "Abs", "Sqrt", "Log", "Neg", "Div", "Gelu", "LeakyRelu"],
    )  # fmt: skip


def attribute(rng, model):
    name, value = pick(
        rng, [("axis", 0), ("axis", 1), ("axis", -1), ("alpha", 2.0), ("beta", 0.5), ("transA", 1),
              ("transB", 1), ("keepdims", 0), ("more", 1)]
    )  # fmt: skip
    node = pick(rng, model.graph.node)
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def wires(rng, model):
    node = pick(rng, model.graph.node)
    others = [name for each in model.graph.node for name in (*each.input, *each.output)]
    node.input[rng.integers(len(node.input))] = pick(rng, others)


def about(rng, model):
    kind = rng.integers(6)
    if kind == 0:
        model.opset_import[0].version = int(rng.integers(9, 20))
    elif kind == 1:
        pick(rng, model.graph.node).domain = "other"
    elif kind == 2:
        pick(rng, model.graph.node).doc_string = "words"
    elif kind == 3:
        model.producer_name = "somebody"
    elif kind == 4:
        pick(rng, [*model.graph.input, *model.graph.output]).type.tensor_type.shape.dim[
            1
        ].dim_value += 1
    else:
        initializers = list(model.graph.initializer)
        del model.graph.initializer[:]
        model.graph.initializer.extend(initializers[::-1])


def doubled(_rng, model):
    """Y is twice what it was."""
    last = model.graph.node[-1]
    last.output[0] = "half"
    model.graph.node.append(helper.make_node("Add", ["half", "half"], ["Y"]))


def axes(rng, model):
    """Zeros are added to a value, which may get more axes or rows of them."""
    place = rng.integers(len(model.graph.node))
    node = model.graph.node[place]
    zeros = np.zeros(pick(rng, [(1,), (1, 1), (1, 1, 1), (2, 1)]), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(zeros, "zeros"))
    model.graph.node.insert(place, helper.make_node("Add", [node.input[0], "zeros"], ["wider"]))
    model.graph.node[place + 1].input[0] = "wider"


def graph(rng, folder):
    """Operators, attributes, constants and wires of the ONNX file."""
    path = f"onnx/{folder.network}.onnx"
    model = onnx.ModelProto.FromString(folder.files[path])
    edit = pick(rng, [entries, entries, turned, operator, attribute, wires, residual, about,
                      doubled, axes])  # fmt: skip
    edit(rng, model)
    folder.files[path] = model.SerializeToString()
    return f"graph: {edit.__name__}"


def other_network(rng, folder):
    """The network of another folder."""
    other = pick(rng, honest())
    folder.files[f"onnx/{folder.network}.onnx"] = other.files[f"onnx/{other.network}.onnx"]
    return f"the network {other.network}"


# Files.


def spoilt(rng, folder):
    """Bytes of any file but the README, which nobody reads."""
    path = pick(rng, sorted(set(folder.files) - {"README.md"}))
    data = bytearray(folder.files[path])
    kind = rng.integers(3)
    if kind == 0:
        data = data[: rng.integers(len(data))]
    elif kind == 1:
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    else:
        start, stop = np.sort(rng.integers(len(data), size=2))
        data = data[:stop] + data[start:]
    folder.files[path] = bytes(data)
    return f"bytes {kind} of {path}"


def tables(rng, folder):
    """Rows, and files beside them."""
    path = pick(rng, ["instances.csv", "expected.csv"])
    lines = folder.files[path].decode().splitlines()
    place = rng.integers(len(lines))
    kind = rng.integers(8)
    if kind == 0:
        lines.pop(place)
    elif kind == 1:
        lines.append(lines[place])
    elif kind == 2:
        lines[place] = lines[place].replace("onnx/", "../onnx/").replace("_a", "_b")
    elif kind == 3:
        lines[place] = re.sub(r"0\.\d+", "0.5", lines[place])
    elif kind == 4:
        folder.files[pick(rng, ["more.txt", "onnx/more.onnx", "proofs/more.json"])] = b"{}"
    elif kind == 5:
        folder.files.pop(pick(rng, sorted(folder.files)))
    elif kind == 6:
        swap_answers(folder)
        lines = folder.files[path].decode().splitlines()
    else:
        lines[place] += ",more"
    if path in folder.files:
        folder.files[path] = ("\n".join(lines) + "\n").encode()
    return f"tables {kind}"


FORGERIES = (
    threshold, threshold, box, box, conditions, slabs, slabs, bounds, bounds, cells, cells, witness,
    answer, in_float32, in_float32, numbers, fields, graph, graph, other_network, spoilt, tables,
)  # fmt: skip


def forgery(rng, ways=FORGERIES):
    """A case: a folder with one change, or two."""
    words = []
    while not words:
        base = pick(rng, honest())
        folder = copy.deepcopy(base)
        for _ in range(rng.choice([1, 2], p=[0.8, 0.2])):
            try:
                found = pick(rng, ways)(rng, folder)
            except (
                ValueError, ArithmeticError, LookupError, TypeError, AttributeError, DecodeError,
            ):  # fmt: skip
                continue  # a second change of what the first one spoilt
            words += [found] if found else []
    if rng.random() < 0.95:
        folder.sign()
    judge = functools.partial(instance_judge.all_true, base, folder)
    return Case("; ".join(words), folder.write, judge)
