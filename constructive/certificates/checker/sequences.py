"""Certificates of sequence memorizers: every number is a Python integer or a Fraction."""

import hashlib
import json

import numpy as np

from claim import About, Claim
from columns import Work, in_parts, number
from files import announce, read_json, require, same
from networks import Memorizer, index, items, places

FORMATS = {"memorizer": "constructive sequence memorizer 1", "data": "constructive sequences 1"}
MINUTE = 6e10  # nanoseconds which long numbers may cost


class Equality(Claim):
    """Every label, example by example."""

    name = "equality"
    statement = "f(X) == y for all {} labels of N = {} sequences of n = {} tokens"

    def check(self, about):
        return check_equality(*about.problem)


class Sequences(About):
    """A memorizer, and tokens, sequences and labels."""

    format = "constructive sequence certificate 1"

    def __init__(self, content, files, claims, options):
        del claims
        require(len(files) == 2, "a certificate of sequences needs a memorizer and data")
        options.tell("read the memorizer and the data", 0, 1)
        weights, data = (
            read_json(path, role, options.most) for path, role in zip(files, FORMATS, strict=True)
        )
        for role, read in (("memorizer", weights), ("data", data)):
            require(read["format"] == FORMATS[role], f"the format of the {role} is another")
        for part, read in (("data", data), ("weights", weights)):
            require(content[part]["sha256"] == digest(read), f"it is about other {part}")
        memorizer = Memorizer(weights)
        tokens, labels = read_tokens(data, memorizer), read_labels(data, memorizer)
        size = memorizer.size
        require(data["task"] == memorizer.task, "the data are for another task")
        lengths = {len(items(row)) for row in items(data["ids"])}
        require(lengths == {size}, "lengths differ")
        ids = np.array([[index(i, len(tokens)) for i in row] for row in data["ids"]])
        require(len(np.unique(ids)) == len(tokens), "a token is in no sequence")
        each = ids.size if memorizer.task == "seq2seq" else len(ids)
        require(len(items(data["labels"])) == each, "labels do not fit the sequences")
        expected = [labels[index(i, len(labels))] for i in data["labels"]]
        require(len(set(data["labels"])) == len(labels), "a class is the label of nothing")
        about = {"sequences": len(ids), "context_size": size, "tokens": len(tokens)}
        require_said(content["data"], about | {"task": memorizer.task})
        about = {"nonzero": memorizer.nonzero, "embedding_depth": memorizer.embedding.depth}
        require_said(content["weights"], about | {"classifier_depth": memorizer.classifier.depth})
        short = 100 * (memorizer.embedding.terms * ids.size + memorizer.classifier.terms * each)
        announce(ids.size * 300, short, options.most)
        work = Work(20 * short + MINUTE, options.most / 2, options.tell)
        self.problem = memorizer, tokens, ids, expected, work


def require_said(said, about):
    """Require of a part of the certificate that it says this, and a hash."""
    about = about | {"sha256": said["sha256"]}
    require(same(said, about), f"the certificate says something else than {about}")


def digest(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_equality(memorizer, tokens, ids, expected, work):
    """The numbers of labels, sequences and tokens, where no label is another."""
    per = ids.shape[1] if memorizer.task == "seq2seq" else 1

    def of(part):
        rows = ids[part.start : part.stop]
        used, own = np.unique(rows, return_inverse=True)
        return memorizer(tokens[used], own.reshape(rows.shape), work)

    for part, found in in_parts(of, len(ids)):
        work.tell("equality", part.stop, len(ids))
        for i, x in enumerate(found, part.start * per):
            require(x == expected[i], f"equality: label {i} is not as it should be")
    return len(expected), len(ids), ids.shape[1]


def read_tokens(data, memorizer):
    """Tokens as the network reads them (V, d), which have to be different."""
    require((data["tokens"] is None) != (data["symbols"] is None), "tokens, or symbols")
    if data["tokens"] is None:
        require(memorizer.symbols is not None, "the memorizer knows no symbols")
        known = [memorizer.symbols.get(name) for name in places(data["symbols"])]
        require(None not in known, "a symbol is not one of the memorizer's")
        rows = [[place] for place in known]
    else:
        require(memorizer.symbols is None, "the memorizer reads symbols")
        rows = [[number(x) for x in items(row)] for row in items(data["tokens"])]
        # By their texts, of which a number has one: numbers can be made to have equal hashes.
        require(len(set(map(tuple, data["tokens"]))) == len(rows), "a token is there twice")
    width = memorizer.embedding.inputs
    require(rows and all(len(row) == width > 0 for row in rows), f"tokens have not {width} entries")
    tokens = np.empty((len(rows), width), dtype=object)
    tokens[:] = rows
    return tokens


def read_labels(data, memorizer):
    """What has to be put out for each class of the data."""
    require(len(places(data["classes"])) > 0, "there are no classes")
    if memorizer.classes is not None:
        found = [memorizer.classes.get(json.dumps(value)) for value in data["classes"]]
        require(None not in found, "a label is none of the memorizer's")
        return found
    integers = [kind in {"int", "bool"} for kind, _ in data["classes"]]
    require(all(integers), "a label is none of the memorizer's, which are integers")
    found = [number(x) if kind == "int" else index(x, 2) for kind, x in data["classes"]]
    require(all(type(x) is int for x in found), "a label is not an integer")
    return found
