"""The layout of the house: who may import whom, and what may not stand in the package."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import constructive

PACKAGE = Path(__file__).parent.parent / "constructive"

# A room may import only from itself and from those before it. The theorem comes first, with its
# checker and certificates; products stand beside it, and it knows none of them.
ROOMS = [
    "checker", "support", "exact", "data", "layers", "theory", "constructions", "certificates",
    "recite", "sequences", "kernels", "rocq", "interop", "instances",
    "strategies", "figures", "pytest_plugin", "cli", "__main__",
]  # fmt: skip

# Exports to other libraries, when they are asked for.
UPWARDS = {
    ("layers.memorizer", "interop"), ("sequences.memorizer", "interop"),
    ("recite.decoder", "interop"),
}  # fmt: skip


def module_name(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = {
    module_name(path).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}


def imports(nodes):
    """The package's own modules which these statements import."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # The checker alone imports relatively, as it runs as a folder of its own, too.
            home = ".".join(filter(None, ["checker" * node.level, node.module]))
            found.add(home)
            found.update(f"{home}.{alias.name}" for alias in node.names)
    return {name.removeprefix("constructive.") for name in found} & set(MODULES)


@functools.cache
def imported(source):
    """Modules which are imported at once, and those imported later, in functions."""
    tree = ast.parse(source)
    at_once = imports(tree.body)
    return at_once, imports(ast.walk(tree)) - at_once


def room(name):
    return name.partition(".")[0]


def wrong_imports(name, source):
    at_once, later = imported(source)
    above = ROOMS[ROOMS.index(room(name)) + 1 :]
    allowed = {wanted for wanted in later if (name, room(wanted)) in UPWARDS}
    return {wanted for wanted in at_once | later if room(wanted) in above} - allowed


def test_the_root_holds_the_rooms():
    assert {room(name) for name in MODULES} == set(ROOMS)
    beside = {"__init__.py", "__main__.py", "py.typed", "__pycache__", "proofs"}
    found = {path.name for path in PACKAGE.iterdir()} - beside
    assert {name.removesuffix(".py") for name in found} == set(ROOMS) - {"__main__"}


def test_imports_go_down():
    found = {name: wrong_imports(name, path.read_text()) for name, path in MODULES.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_wrong_import_would_be_seen():
    assert wrong_imports("data.dataset", "from constructive.layers.memorizer import Memorizer") == {
        "layers.memorizer"
    }
    later = "def f():\n    from constructive.interop import pytorch"
    assert not wrong_imports("layers.memorizer", later)
    assert wrong_imports("layers.layer", later) == {"interop", "interop.pytorch"}
    assert wrong_imports("layers.memorizer", "from constructive.interop import pytorch")
    assert not wrong_imports("data.dataset", "from constructive.support.errors import DataError")


def circle(sources):
    """The modules of a circle of imports, or () where there is none.

    All imports count: those for types, and those in functions. A package is what its `__init__`
    imports, but for those within it.
    """
    graph = {
        name: {
            other
            for part in imported(source)
            for other in part
            if not f"{name}.".startswith(f"{other}.")
        }
        for name, source in sources.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return tuple(error.args[1])
    return ()


def test_no_import_goes_in_a_circle():
    assert circle({name: path.read_text() for name, path in MODULES.items()}) == ()


def test_a_circle_for_types_would_be_seen():
    down = "from constructive.data.dataset import Dataset"
    up = (
        "if TYPE_CHECKING:\n    from constructive.layers.layer import AttentionLayer\n"
        "def f():\n    from constructive.layers.layer import AttentionLayer"
    )
    assert circle({"layers.layer": down, "data.dataset": ""}) == ()
    assert set(circle({"layers.layer": down, "data.dataset": up})) == {
        "layers.layer", "data.dataset",
    }  # fmt: skip


def twice(sources):
    """Names of classes that stand in more than one place."""
    names = [
        node.name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    ]
    return sorted({name for name in names if names.count(name) > 1})


def test_no_two_classes_have_one_name():
    """But for the checker, whose claims have the names of those that it judges."""
    outside = [path for name, path in MODULES.items() if room(name) != "checker"]
    assert twice(path.read_text() for path in outside) == []


def test_a_name_of_two_classes_would_be_seen():
    assert twice(["class Head: ...", "class Group:\n    class Head: ..."]) == ["Head"]


# The most lines and files of each room: what it once came to, and a tenth. Who raises a number says
# in the commit what for.
BUDGET = {
    "__init__": (180, 0),
    "__main__": (30, 2),
    "certificates": (1460, 6),
    "checker": (7652, 28),
    "cli": (2090, 10),
    "constructions": (4040, 13),
    "data": (1880, 6),
    "exact": (2170, 7),
    "figures": (1601, 8),
    "instances": (4051, 13),
    "interop": (980, 4),
    "kernels": (8031, 19),
    "layers": (2120, 6),
    "pytest_plugin": (160, 2),
    "recite": (2980, 9),
    "rocq": (1580, 4),
    "sequences": (2380, 7),
    "strategies": (410, 2),
    "support": (1530, 7),
    "theory": (2590, 7),
}


def sizes():
    """Lines and files of each room; `__init__` is not a file."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = module_name(path).partition(".")[0]
        lines, files = found.get(name, (0, 0))
        count = len(path.read_text().splitlines())
        found[name] = lines + count, files + (path.name != "__init__.py")
    return found


def over(found, budget):
    """The rooms that are larger than their budget, or have none."""
    return {
        name: size
        for name, size in found.items()
        if any(number > most for number, most in zip(size, budget.get(name, (0, 0)), strict=True))
    }


def test_rooms_keep_to_their_budget():
    assert over(sizes(), BUDGET) == {}, "make it smaller, or raise BUDGET and say what for"
    assert set(BUDGET) == set(sizes())


def test_a_room_that_grows_would_be_seen():
    budget = {"data": (100, 2)}
    assert over({"data": (100, 2)}, budget) == {}
    assert over({"data": (101, 2)}, budget) == {"data": (101, 2)}
    assert over({"data": (100, 3)}, budget) == {"data": (100, 3)}
    assert over({"new": (1, 1)}, budget) == {"new": (1, 1)}


def loaded_by(code):
    code += "\nimport sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_what_takes_long_is_imported_when_it_is_used():
    assert not loaded_by("import constructive") & {"numpy", "scipy", "flint", "rich", "typer"}
    slow = {"scipy.linalg", "scipy.stats", "flint", "constructive.constructions.build"}
    assert not loaded_by("import constructive.cli") & slow
    built = loaded_by("from constructive import build_memorizer")
    assert "scipy.stats" not in built
    assert "constructive.constructions.build" in built


def test_no_check_by_assert():
    texts = {module_name(path): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert len(texts) > len(MODULES)
    assert [
        (name, node.lineno)
        for name, text in texts.items()
        if "assert " in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert)
    ] == []


def test_the_top_level_holds_what_the_layout_names():
    allowed = {
        "README.md", "pyproject.toml", "LICENSE", "constructive", "proofs", "tests", "docs",
    }  # fmt: skip
    # Other files may be the output of a command; folders and sources may not.
    found = {
        path.name
        for path in PACKAGE.parent.iterdir()
        if not path.name.startswith(".")
        and (path.is_dir() or path.suffix in {".py", ".md", ".toml", ".cfg", ".sh"})
    }
    assert found - {"build", "dist", "constructive-demo"} <= allowed


def test_every_public_name_has_a_docstring_and_is_in_the_api_pages():
    pages = "".join(page.read_text() for page in (PACKAGE.parent / "docs").rglob("*.md"))
    for name in constructive.__all__:
        assert getattr(constructive, name).__doc__, name
        directive = rf"^\.\. auto\w+:: constructive\.(assumptions\.)?{name}$"
        module = name in {"assumptions", "generators"}
        assert module or re.search(directive, pages, re.MULTILINE), f"{name} is not in docs/api"


def test_what_is_shown_of_the_package_is_what_is_public():
    assert set(dir(constructive)) == {"__version__", *constructive.__all__}
    assert {"certify", "generators"} <= set(constructive.__all__)


def test_editors_are_told_what_is_imported():
    """The table in `constructive/__init__.py`, and the imports for type checkers below it."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (told,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found = {alias.name: node.module for node in told.body for alias in node.names}
    assert found == {name: f"constructive.{home}" for name, home in constructive._HOMES.items()}
