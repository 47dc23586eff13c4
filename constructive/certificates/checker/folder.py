"""A folder of instances for verifiers: every row has its files and its proof, and nothing is over.

Its files:

    instances.csv      onnx/NETWORK.onnx,vnnlib/NAME.vnnlib,SECONDS    a row for each instance
    expected.csv       columns instance, answer, network, margin, and others that nothing proves
    onnx/ proofs/      a graph for each network, and a proof for each instance
    vnnlib/ vnnlib2/   properties in VNN-LIB 1.0, or 2.0, or both; there are no other files
    README.md          and perhaps LICENSE: for people, not read
"""

import csv
import re
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

from dyadic import exact
from files import read_json, reading, require, size_of, text_of
from graph_rounding import sentence
from instance import check_instance

NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
ROW = re.compile(
    rf"onnx/({NAME})\.onnx,(vnnlib2?)/({NAME})\.vnnlib,[0-9]{{1,6}}(?:\.[0-9]{{1,6}})?"
)
TABLES = {"instances.csv", "expected.csv"}
WORDS = {"README.md", "LICENSE"}
VERSIONS = ("vnnlib", "vnnlib2")
ENDS = {"onnx": ".onnx", "proofs": ".json"} | dict.fromkeys(VERSIONS, ".vnnlib")
COLUMNS = {"instance", "answer", "network", "margin"}
DIGITS = Fraction(1001, 1000)  # margins in expected.csv are rounded to four digits

# folders: those of properties that are there
Row = namedtuple("Row", "name network answer margin folders")


def check_folder(folder, jobs, most, tell):
    """The lines about each instance, and whether all is proved. What is wrong with files raises."""
    folder = Path(folder)
    rows = rows_of(folder, most)
    check, found = partial(outcome, folder, most), []
    tell("instances", 0, len(rows))
    for made in mapped(check, rows, jobs):
        found.append(made)
        tell("instances", len(found), len(rows))
    width = max(len(row.name) for row in rows)
    lines = [f"{row.name:{width}} {words}" for row, (_, _, words) in zip(rows, found, strict=True)]
    models = sorted({model for _, model, _ in found if model})
    lines += [f"a float32 evaluation is {sentence(model)}" for model in models]
    wrong = [line for line, (proved, _, _) in zip(lines, found, strict=False) if not proved]
    counts = [sum(row.answer == answer for row in rows) for answer in ("sat", "unsat")]
    lines.append(
        f"{len(rows) - len(wrong)} of {len(rows)} answers are proved "
        f"(the folder says {counts[0]} sat, {counts[1]} unsat)"
    )
    return lines, not wrong


def mapped(function, rows, jobs):
    """Results in order, from processes where the system can copy this one."""
    if jobs == 1 or len(rows) == 1 or "fork" not in get_all_start_methods():
        yield from map(function, rows)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(function, rows, chunksize=min(8, 1 + len(rows) // (4 * jobs)))


def outcome(folder, most, row):
    """Whether an answer is proved, in which model, and what to print."""
    try:
        shown = check_row(folder, most, row)
    except Exception as failure:  # hostile files make readers raise nearly everything
        return False, None, f"NOT PROVED: {failure!a:.300}"
    return True, shown.model, shown.sentence


def check_row(folder, most, row):
    content = read_json(folder / "proofs" / f"{row.name}.json", "proof", most)
    graph = bytes_of(folder / "onnx" / f"{row.network}.onnx", most)
    stored = {part: bytes_of(folder / part / f"{row.name}.vnnlib", most) for part in row.folders}
    shown = check_instance(content, graph, stored)
    require(shown.answer == row.answer, "expected.csv says another answer than the proof")
    enough = row.margin <= shown.margin * DIGITS
    require(enough, "expected.csv says a larger margin than is proved")
    return shown


def bytes_of(path, most):
    require(64 * size_of(path, "file") <= most, f"the file {path} is too large for --max-memory")
    with reading(path, "file"):
        return path.read_bytes()


def rows_of(folder, most):
    """The rows of both tables together, if they and the files agree."""
    require(folder.is_dir() and not folder.is_symlink(), f"{folder} is not a folder")
    there = names_in(folder, folders=set(ENDS))
    versions = [part for part in VERSIONS if part in there] or VERSIONS[:1]
    wanted = TABLES | {"onnx", "proofs", *versions}
    agree(there - WORDS, wanted, "")
    found = [instance_row(line.rstrip("\n")) for line in lines_of(folder / "instances.csv", most)]
    require(found, "instances.csv has no rows")
    require({part for _, part, _ in found} == {versions[0]}, f"rows are not of {versions[0]}/")
    expected = expected_rows(folder / "expected.csv", most)
    names = [name for *_, name in found]
    require(len(set(names)) == len(names), "instances.csv names an instance twice")
    require(set(names) == set(expected), "instances.csv and expected.csv have other instances")
    stems = dict.fromkeys(("proofs", *versions), names) | {"onnx": [row[0] for row in found]}
    for part, some in stems.items():
        agree(names_in(folder / part), {stem + ENDS[part] for stem in some}, f"{part}/")
    rows = []
    for network, _, name in found:
        answer, of, margin = expected[name]
        require(of == network, f"expected.csv says another network of {name}")
        rows.append(Row(name, network, answer, margin, tuple(versions)))
    return rows


def agree(there, wanted, part):
    """Require that these are the files, without others."""
    over, missing = sorted(there - wanted), sorted(wanted - there)
    require(not over, f"no row is about the file {part}{''.join(over[:1])}")
    require(not missing, f"the file {part}{''.join(missing[:1])} is not there")


def names_in(folder, folders=()):
    """Names in a folder: files, and folders of these names; no links."""
    names = set()
    for path in folder.iterdir():
        right = path.is_dir() if path.name in folders else path.is_file()
        require(right and not path.is_symlink(), f"{path.name} is a link, or of another kind")
        names.add(path.name)
    return names


def lines_of(path, most):
    return text_of(bytes_of(path, most)).splitlines(keepends=True)


def instance_row(line):
    found = ROW.fullmatch(line)
    require(found is not None, f"instances.csv has the row {line[:60]!r}")
    return found.groups()


def expected_rows(path, most):
    """Answer, network and margin of each instance."""
    header, *rows = list(csv.reader(lines_of(path, most), strict=True)) or [[]]
    known = set(header) >= COLUMNS and len(set(header)) == len(header)
    require(known, f"expected.csv has not the columns {', '.join(sorted(COLUMNS))}")
    found = {}
    for row in rows:
        require(len(row) == len(header), "a row of expected.csv has another length")
        entry = dict(zip(header, row, strict=True))
        name, answer = entry["instance"], entry["answer"]
        require(name not in found, f"expected.csv names {name[:60]} twice")
        require(answer in ("sat", "unsat"), f"expected.csv says {answer[:60]!r} of {name[:60]}")
        margin = margin_of(entry["margin"])
        found[name] = answer, entry["network"], margin
    return found


def margin_of(text):
    """A decimal, perhaps with an exponent of two digits."""
    digits, _, exponent = text.partition("e")
    small = re.fullmatch("(?:-?[0-9]{1,2})?", exponent) is not None
    require(small and bool(exponent) == ("e" in text), f"{text[:30]!r} is not a margin")
    margin = exact(digits) * Fraction(10) ** int(exponent or 0)
    require(margin > 0, f"{text[:30]!r} is not a margin")
    return margin
