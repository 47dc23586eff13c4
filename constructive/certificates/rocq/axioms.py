"""What a proof of stored numbers may rest on: axioms by their full names, and how Rocq says so.

Rocq prints an axiom by the shortest name that means it, which depends on what is imported. So it is
asked in a file that imports nothing, and what the names mean there is asked, too.
"""

import re

from constructive.certificates.rocq.definitions import MAIN

NAME = "axioms"  # The file that asks

# Three axioms of mathcomp, and Rocq's machine integers.
AXIOMS = {
    *(f"mathcomp.classical.boolp.{name}" for name in (
        "constructive_indefinite_description", "functional_extensionality_dep",
        "propositional_extensionality",
    )),
    *(f"Coq.Numbers.Cyclic.Int63.PrimInt63.{name}" for name in (
        "add", "eqb", "int", "land", "leb", "lor", "lsl", "lsr", "ltb", "mod", "mul", "sub",
    )),
    *(f"Coq.Numbers.Cyclic.Int63.Uint63.{name}" for name in (
        "add_spec", "eqb_correct", "eqb_refl", "land_spec", "leb_spec", "lor_spec", "lsl_spec",
        "lsr_spec", "ltb_spec", "mod_spec", "mul_spec", "of_to_Z", "sub_spec",
    )),
}  # fmt: skip

_MEANING = re.compile(r"^Expands to: Constant\s+([\w.]+)$", re.MULTILINE)


def question(conclusion: str) -> str:
    """Return the file that asks what names of axioms mean, and which ones a theorem rests on.

    Example:
        >>> question("both").splitlines()[::len(AXIOMS) + 1]
        ['Require Stored.stored.', 'Print Assumptions Stored.stored.both.']
    """
    about = "".join(f"About {_short(name)}.\n" for name in sorted(AXIOMS))
    return f"Require Stored.{MAIN}.\n{about}Print Assumptions Stored.{MAIN}.{conclusion}.\n"


def objection(printed: str) -> str:
    r"""Say what is wrong with what Rocq prints for `question`; "" if all axioms are in `AXIOMS`.

    Example:
        >>> names = "".join(f"Expands to: Constant {name}\n" for name in sorted(AXIOMS))
        >>> objection(names + "Axioms:\nPrimInt63.sub : int\nboolp.sub\n  : forall x, x\n")
        'axioms: boolp.sub'
        >>> objection(names + "Axioms:\nfalse' : False\nf is assumed to be guarded.\n")
        "axioms: f is assumed to be guarded., false'"
        >>> objection("Expands to: Constant Stored.stored.sub\nAxioms:\nPrimInt63.sub : int\n")
        'axioms: their names mean others, Stored.stored.sub'
    """
    meanings, said, named = printed.partition("Axioms:\n")
    meant = _MEANING.findall(meanings)
    if meant != sorted(AXIOMS):
        others = ", ".join(sorted(set(meant) - AXIOMS)) or "or nothing is said of them"
        return f"axioms: their names mean others, {others}"
    if not said:
        return "axioms: nothing is said of them"
    # What a type takes more lines for is indented. A check of the kernel that is switched off is a
    # line without a type, such as "f is assumed to be guarded.".
    found = {line.partition(" :")[0] for line in named.splitlines() if line[:1].strip()}
    more = sorted(found - set(map(_short, AXIOMS)))
    return f"axioms: {', '.join(more)}" if more else ""


def _short(name: str) -> str:
    """Return the name of an axiom after that of its module."""
    return ".".join(name.split(".")[-2:])
