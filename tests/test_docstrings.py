"""Every public name says what it takes, and which errors it raises."""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import constructive
from constructive.support import errors

ROOT = Path(__file__).parent.parent
ENTRY = re.compile(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*):")
KINDS = [name for name, thing in vars(errors).items() if inspect.isclass(thing)]


def documented():
    """What the pages of the API show: names with the objects behind them."""
    found, hidden = {}, {}
    for page in (ROOT / "docs" / "api").glob("*.md"):
        text = page.read_text()
        for kind, path in re.findall(r"auto(function|class|exception|module):: ([\w.]+)", text):
            thing = _object(path)
            if kind == "module":
                members = {
                    f"{path}.{name}": member
                    for name, member in vars(thing).items()
                    if getattr(member, "__module__", None) == thing.__name__
                    and not name.startswith("_")
                    and name not in _hidden(text, path)
                }
                found |= members if f"automodule:: {path}\n   :members:" in text else {}
            else:
                found[path] = thing
                if f":: {path}\n   :members:" in text:
                    hidden[path] = _hidden(text, path)
    for path, thing in tuple(found.items()):
        if inspect.isclass(thing) and path in hidden:
            found |= {
                f"{path}.{name}": getattr(thing, name)
                for name, member in vars(thing).items()
                if not name.startswith("_")
                and name not in hidden[path]
                and (inspect.isfunction(member) or isinstance(member, classmethod))
            }
    return found


def _hidden(page, path):
    """What a page leaves out of a module or a class, as internal."""
    listed = re.findall(rf"{re.escape(path)}\n.*\n   :exclude-members: (.*)", page)
    return ", ".join(listed).split(", ")


def _object(path):
    """What a dotted name means, through the lazy names of the package."""
    thing, rest = constructive, path.split(".")[1:]
    for name in rest:
        try:
            thing = getattr(thing, name)
        except AttributeError:
            thing = __import__(f"{thing.__name__}.{name}", fromlist=["_"])
    return thing


PUBLIC = documented()
CALLED = {path: thing for path, thing in PUBLIC.items() if callable(thing)}


def _source(thing):
    """The text of a function; strategies of Hypothesis hide theirs, and raise nothing of ours."""
    try:
        return inspect.getsource(thing)
    except OSError:
        return ""


def section(thing, *titles):
    """The lines of a section of a docstring."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    starts = [i for i, line in enumerate(lines) if line in [f"{title}:" for title in titles]]
    found = []
    for start in starts:
        for line in lines[start + 1 :]:
            if line and not line.startswith(" "):
                break
            found.append(line)
    return found


def entries(thing, *titles):
    """The names which a section has lines for."""
    matches = map(ENTRY.match, section(thing, *titles))
    return [name.lstrip("*") for match in matches if match for name in match[1].split(", ")]


def inherited(path):
    """The names which the methods that this one overrides have lines for."""
    owner, _, name = path.rpartition(".")
    classes = PUBLIC[owner].__mro__[1:] if inspect.isclass(PUBLIC.get(owner)) else ()
    overridden = [vars(base)[name] for base in classes if name in vars(base)]
    return [parameter for method in overridden for parameter in entries(method, "Args")]


def odd_parameters(thing, overridden=()):
    """Parameters without a line, and lines without a parameter.

    `overridden` are parameters that a method of a base class has lines for.
    """
    if inspect.isclass(thing) and thing.__init__ is object.__init__:
        return set()
    if inspect.isclass(thing) and (issubclass(thing, Exception) or "__members__" in dir(thing)):
        return set()  # their docstrings are on the page of errors; members of enums are listed
    try:
        names = {name for name in inspect.signature(thing).parameters if name != "self"}
    except ValueError:
        names = set()
    known = set(entries(thing, "Args", "Attributes"))
    if inspect.isclass(thing):
        return names - known
    return (names - known - set(overridden)) | (known - names)


def odd_errors(thing):
    """Errors of ours that are raised there, and have no line."""
    known = set(entries(thing, "Raises"))
    if inspect.isclass(thing):
        thing = vars(thing).get("__post_init__", lambda: None)
    source = ast.parse(textwrap.dedent(_source(thing)))
    raised = {
        node.exc.func.id
        for node in ast.walk(source)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
    }
    return raised & set(KINDS) - known


def test_every_parameter_has_its_line():
    found = {path: odd_parameters(thing, inherited(path)) for path, thing in CALLED.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_error_raised_there_has_its_line():
    found = {path: odd_errors(thing) for path, thing in CALLED.items()}
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


def shown(paths):
    """Module and qualified name of what pages show, with the methods that it inherits."""
    found = {("constructive.data.generators", "_Generator.__call__")}  # shown as each generator
    found |= {(errors.__name__, name) for name in KINDS}  # which say that they are of the package
    for path in paths:
        module, _, name = path.rpartition(".")
        found |= {
            (module, name),
            (module.rpartition(".")[0], f"{module.rpartition('.')[2]}.{name}"),
        }
        thing = inspect.unwrap(paths[path])
        found.add((thing.__module__, getattr(thing, "__qualname__", name)))
        for owner in inspect.getmro(thing) if inspect.isclass(thing) else ():
            found |= {
                (owner.__module__, f"{owner.__qualname__}.{member}") for member in vars(owner)
            }
    return found


def sectioned(source, module):
    """What has sections in its docstring that only the pages of the API have a reader for."""

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inner = f"{prefix}{child.name}."
                text = ast.get_docstring(child) or ""
                if re.search(r"^(Args|Raises|Returns|Yields|Attributes):$", text, re.MULTILINE):
                    yield module, inner[:-1]
            yield from visit(child, inner)

    return set(visit(ast.parse(source), ""))


def test_internals_have_no_sections():
    package = ROOT / "constructive"
    rooms = [path for path in package.iterdir() if path.name not in {"cli", "proofs"}]
    island = package / "certificates" / "checker"
    found = {
        name
        for room in rooms
        for path in (room.rglob("*.py") if room.is_dir() else [room])
        if island not in path.parents and path.suffix == ".py"
        for name in sectioned(
            path.read_text(),
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"),
        )
    }
    assert len(found) > 100
    assert sorted(found - shown(PUBLIC)) == []


def test_there_are_many():
    assert len(CALLED) > 100
    assert "constructive.Memorizer.save" in CALLED
    assert "constructive.generators.uniform" in CALLED
