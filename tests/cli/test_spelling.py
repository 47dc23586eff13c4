"""Errors of the command line name options, not arguments of functions."""

import pytest

from constructive.cli.common import app
from constructive.cli.spelling import options_of, spelled
from constructive.support.errors import shown

NAMES = "heads", "construction", "exact-logits", "every", "claims", "epsilon", "jobs"
OPTIONS = {f"--{name}" for name in NAMES}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("num_heads=6", "--heads 6"),
        ("construction='generic', which holds Hd", "--construction generic, which holds Hd"),
        ("exact_logits=True; every=, outputs=", "--exact-logits; --every, outputs="),
        ("no executor=, or construction='paired'", "no --jobs, or --construction paired"),
        ("use 3 heads (d=5), H = 9", "use 3 heads (d=5), H = 9"),
    ],
)
def test_only_arguments_that_are_options_become_options(message, expected):
    assert spelled(message, OPTIONS) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-1.0, "--epsilon -1.0"),
        (1e-20, "--epsilon 1e-20"),
        (float("-inf"), "--epsilon -inf"),
        (float("nan"), "--epsilon nan"),
        (10**30, f"--epsilon {10**30}"),
        ("rank", "--epsilon rank"),
        ("rank error", "--epsilon 'rank error'"),
        ("", "--epsilon ''"),
        ("it's", """--epsilon 'it'"'"'s'"""),
        ('say "it\'s"', """--epsilon 'say "it'"'"'s"'"""),
        (("rank error",), "--epsilon 'rank error'"),
        (["rank", "errors"], "--epsilon rank,errors"),
        (("a)b", "c]d"), "epsilon=('a)b', 'c]d')"),
        ((16.0, 2.0), "epsilon=(16.0, 2.0)"),
        ([], "epsilon=[]"),
        ({"a": 1}, "epsilon={'a': 1}"),
        (None, "epsilon=None"),
        (False, "epsilon=False"),
        (True, "--epsilon"),
        (["rank"] * 99, None),  # longer than what a message shows
        ("x" * 999, None),
    ],
)
def test_no_value_is_garbled(value, expected):
    """It is written as a user types it, or as Python writes it; nothing is cut out of it."""
    message = f"epsilon={shown(value)} is not a bound\n  try: epsilon=1e-6"
    said = spelled(message, OPTIONS)
    problem = f"epsilon={shown(value)}" if expected is None else expected
    assert said == f"{problem} is not a bound\n  try: --epsilon 1e-6"


def test_each_command_has_its_own_options():
    assert "--heads" in options_of(app, ["build", "data.npz", "--heads", "2"])
    assert "--max-memory" in options_of(app, ["instances", "check", "folder"])
    assert "--heads" not in options_of(app, ["predict", "layer.safetensors"])
