"""Names that docs/api lists say what they take and raise, and others have no sections."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import constructive
from constructive.support import errors

ROOT = Path(__file__).parent.parent
SECTION = re.compile(r"^(?:Args|Raises|Returns|Yields|Attributes):$", re.MULTILINE)
KINDS = {name for name, thing in vars(errors).items() if inspect.isclass(thing)}


def object_at(path):
    """What a dotted name means, through the lazy names of the package."""
    thing = constructive
    for name in path.split(".")[1:]:
        if not hasattr(thing, name):
            __import__(f"{thing.__name__}.{name}")
        thing = getattr(thing, name)
    return thing


def documented():
    """What the pages of the API show: names with the objects behind them."""
    found = {}
    for page in (ROOT / "docs" / "api").glob("*.md"):
        text = page.read_text()
        for path in re.findall(r"auto(?:function|class|exception):: ([\w.]+)", text):
            thing = found[path] = object_at(path)
            if inspect.isclass(thing) and f":: {path}\n   :members:" in text:
                hidden = re.findall(rf"{re.escape(path)}\n.*\n   :exclude-members: (.*)", text)
                found |= {
                    f"{path}.{name}": getattr(thing, name)
                    for name, member in vars(thing).items()
                    if not name.startswith("_")
                    and name not in ", ".join(hidden).split(", ")
                    and (inspect.isfunction(member) or isinstance(member, classmethod))
                }
    return found


PUBLIC = documented()


def entries(thing, *titles):
    """The names which a section of a docstring has lines for."""
    parts = re.split(r"^(\w+):\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    found = []
    for title, section in zip(parts[1::2], parts[2::2], strict=True):
        if title in titles:
            lines = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", section, re.MULTILINE)
            found += [name.lstrip("*") for line in lines for name in line.split(", ")]
    return set(found)


def odd_parameters(thing, overridden=frozenset()):
    """Parameters without a line, and lines without a parameter; others are in `overridden`."""
    if inspect.isclass(thing):
        if thing.__init__ is object.__init__ or issubclass(thing, Exception):
            return set()  # docstrings of errors are on their page
        if "__members__" in dir(thing):
            return set()  # as are members of enums
    names = {name for name in inspect.signature(thing).parameters if name != "self"}
    known = entries(thing, "Args", "Attributes")
    return names - known - overridden | (set() if inspect.isclass(thing) else known - names)


def odd_errors(thing):
    """Errors of ours that are raised there, and have no line."""
    known = entries(thing, "Raises")
    if inspect.isclass(thing):
        thing = vars(thing).get("__post_init__", lambda: None)
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except OSError:  # strategies of Hypothesis hide theirs, and raise nothing of ours
        return set()
    return set(re.findall(r"raise (\w+)\(", source)) & KINDS - known


def inherited(path):
    """The names which the methods that this one overrides have lines for."""
    owner, _, name = path.rpartition(".")
    classes = PUBLIC[owner].__mro__[1:] if inspect.isclass(PUBLIC.get(owner)) else ()
    overridden = (vars(base)[name] for base in classes if name in vars(base))
    return {parameter for method in overridden for parameter in entries(method, "Args")}


def test_every_parameter_and_error_has_its_line():
    found = {
        path: odd_parameters(thing, inherited(path)) | odd_errors(thing)
        for path, thing in PUBLIC.items()
        if callable(thing)
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_what_has_no_line_would_be_seen():
    def undocumented(known, unknown):
        """Do something.

        Args:
            known: something
            gone: something else

        Raises:
            DataError: sometimes
        """
        if known:
            raise errors.DataError("a", witness="b", suggestion="c")
        raise CapacityError(unknown)  # noqa: F821

    assert odd_parameters(undocumented) == {"unknown", "gone"}
    assert odd_errors(undocumented) == {"CapacityError"}
    assert {"constructive.Memorizer.save", "constructive.generators.uniform"} <= set(PUBLIC)


def shown():
    """Module and qualified name of what pages show, with the methods that it inherits."""
    yield "constructive.data.generators", "_Generator.__call__"  # shown as each generator
    yield from ((errors.__name__, name) for name in KINDS)  # which say that they are the package's
    for path, thing in PUBLIC.items():
        thing = inspect.unwrap(thing)  # noqa: PLW2901
        module, _, name = path.rpartition(".")
        yield module, name
        yield getattr(thing, "__module__", ""), getattr(thing, "__qualname__", name)
        for owner in inspect.getmro(thing) if inspect.isclass(thing) else ():
            for member in vars(owner):
                yield owner.__module__, f"{owner.__qualname__}.{member}"


def sectioned(node, module, prefix=""):
    """What has sections in its docstring that only the pages of the API have a reader for."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{prefix}{child.name}."
            if SECTION.search(ast.get_docstring(child) or ""):
                yield module, inner[:-1]
        yield from sectioned(child, module, inner)


def test_internals_have_no_sections():
    others = {"cli", "proofs", "checker"}
    package = ROOT / "constructive"
    paths = [p for p in package.rglob("*.py") if not others & {*p.relative_to(ROOT).parts}]
    found = {
        name
        for path in paths
        for name in sectioned(
            ast.parse(path.read_text()),
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"),
        )
    }
    assert len(found) > 100
    assert sorted(found - set(shown())) == []
