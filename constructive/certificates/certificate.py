"""`Certificate`: claims with their verdicts, what they are about, and their file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from constructive.support.files import reading, replacing
from constructive.support.tables import Sheet, Shown
from constructive.support.verdict import Claim, Verdict, no_boolean

FORMAT = "constructive certificate 1"
PAIRED_FORMAT = "constructive paired certificate 1"
SEQUENCE_FORMAT = "constructive sequence certificate 1"
DECODER_FORMAT = "constructive decoder certificate 1"
# What a certificate may be; the checker takes another path for each.
FORMATS = FORMAT, PAIRED_FORMAT, SEQUENCE_FORMAT, DECODER_FORMAT


Described = dict[str, Any]  # What a certificate says of arrays, as JSON values


@dataclass(frozen=True)
class Certificate(Shown):
    """Claims about a memorizer and its data, with what an independent checker needs.

    It is not a Boolean: ask `proved`. `repr` is one line, `str` a table, which notebooks show.
    Made by `certify` and `upper_bound_certificate`.

    Attributes:
        claims: in the order in which `certify` lists them, however they were asked for
        data: dtype and shape of each array, and the SHA-256 of all; sizes and the SHA-256 of the
            JSON for sequences
        weights: the same; no array for a claim about all weights
        made_by: names and versions of the programs
        format: which path the checker takes
    """

    claims: tuple[Claim, ...]
    data: Described
    weights: Described
    made_by: dict[str, str]
    format: str = FORMAT

    sheet_width = 98

    @property
    def verdict(self) -> Verdict:
        """PROVED if all claims are, REFUTED if one is, else UNDECIDED."""
        return Verdict.all_of([claim.verdict for claim in self.claims])

    @property
    def proved(self) -> bool:
        """Whether all claims are PROVED."""
        return self.verdict is Verdict.PROVED

    def __bool__(self) -> bool:
        raise no_boolean("a certificate", "its .proved, or its .verdict")

    def __getitem__(self, name: str) -> Claim:
        """Return the claim of that name. Raises KeyError if it was not asked for."""
        for claim in self.claims:
            if claim.name == name:
                return claim
        known = ", ".join(claim.name for claim in self.claims)
        raise KeyError(f"no claim {name!r} was asked for, but {known}")

    def save(self, path: str | Path) -> None:
        """Write a JSON file, whole or not at all.

        Args:
            path: the file, .json; an old one of that name is replaced

        Raises:
            OutputError: where it cannot be written
        """
        content = {
            "format": self.format,
            "verdict": self.verdict.name,
            "made_by": self.made_by,
            "data": self.data,
            "weights": self.weights,
            "claims": {
                claim.name: {
                    "verdict": claim.verdict.name,
                    "statement": claim.statement,
                    "detail": claim.detail,
                    "witness": claim.witness,
                    "evidence": claim.evidence,
                }
                for claim in self.claims
            },
        }
        text = json.dumps(content, indent=1, default=list)
        with replacing(path, ".json") as file:
            file.write(text.encode() + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a file written by `save`, without checking what it claims: use `check` for that.

        Args:
            path: the file

        Raises:
            FormatError: if it is not a certificate
            OSError: if it cannot be read
        """
        written_by = "Certificate.save or `constructive certify`"
        with reading(path, "a certificate", written_by) as stored:
            content = json.loads(stored)
            if content["format"] not in FORMATS:
                raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
            claims = tuple(
                Claim(
                    name,
                    str(claim["statement"]),
                    Verdict[claim["verdict"]],
                    str(claim["detail"]),
                    _frozen(claim["witness"]),
                    dict(claim["evidence"]),
                )
                for name, claim in content["claims"].items()
            )
            data, weights, made_by = (
                dict(content[name]) for name in ("data", "weights", "made_by")
            )
            loaded = cls(claims, data, weights, made_by, content["format"])
            loaded._sheet()  # it can be shown
        return loaded

    def __repr__(self) -> str:
        claims = ", ".join(f"{claim.name} {claim.verdict.name}" for claim in self.claims)
        return f"<Certificate: {self.verdict.name}, {claims}>"

    def _sheet(self) -> Sheet:
        about, *sizes = _ABOUT.get(self.format, _about_layers)(self.data, self.weights)
        named = zip(("data", "weights"), (self.data, self.weights), sizes, strict=False)
        facts = tuple(
            (name, f"{size}; SHA-256 {described['sha256'][:16]}...")
            for name, described, size in named
        )
        table = Table(box=None, pad_edge=False, show_header=False)
        for claim in self.claims:
            table.add_row(claim.name, claim.verdict.name, claim.statement)
            table.add_row("", "", claim.detail)
        return Sheet(f"Certificate: {self.verdict.name}, {about}", facts, table)


# What certificates are about, and sizes of the data, and of the weights if there are any.


def _about_layers(data: Described, weights: Described) -> tuple[str, ...]:
    total, width = data["queries"]["shape"]
    target_dim = (*data["targets"]["shape"], 1)[1]
    size = f"n {'<=' if 'lengths' in data else '='} {data['contexts']['shape'][-2]}"
    sizes = f"T = {total}, {size}, d = {width}, d_out = {target_dim}"
    if "W_Q" not in weights:
        return "without stored weights", sizes
    heads, _, head_dim = weights["W_Q"]["shape"]
    parts = 1 + weights.get("W_V_corrections", {"shape": [0]})["shape"][0]
    more = f", readout a sum of {parts} arrays" if parts > 1 else ""
    kind = weights["W_Q"]["dtype"]
    about = f"for the stored {kind} weights, in real arithmetic unless a claim names another"
    return about, sizes, f"H = {heads}, d_h = {head_dim}{more}"


def _about_sequences(data: Described, weights: Described) -> tuple[str, ...]:
    return (
        "for the stored rational weights, in rational arithmetic",
        f"N = {data['sequences']}, n = {data['context_size']}, {data['tokens']} tokens, task "
        f"{data['task']}",
        f"{weights['nonzero']} non-zero, depth {weights['embedding_depth']} + "
        f"{weights['classifier_depth']}",
    )


def _about_decoders(data: Described, weights: Described) -> tuple[str, ...]:
    heads, width, head_dim = weights["W_Q"]["shape"]
    window = "" if weights["window"] is None else f", window {weights['window']}"
    return (
        f"for the stored {weights['storage']} weights of a decoder",
        f"S = {data['texts']}, {data['tokens']} tokens, V = {data['vocabulary']}",
        f"H = {heads}, d = {width}, d_h = {head_dim}{window}",
    )


_ABOUT = {SEQUENCE_FORMAT: _about_sequences, DECODER_FORMAT: _about_decoders}


def _frozen(value: object) -> object:
    return tuple(_frozen(x) for x in value) if isinstance(value, list) else value
