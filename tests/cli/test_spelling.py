"""Errors of the command line name options, not arguments of functions."""

import pytest

from constructive.cli.common import app
from constructive.cli.spelling import options_of, spelled

OPTIONS = {"--heads", "--construction", "--exact-logits", "--every"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("num_heads=6", "--heads 6"),
        ("construction='generic', which holds Hd", "--construction generic, which holds Hd"),
        ("exact_logits=True; every=, outputs=", "--exact-logits; --every, outputs="),
        ("use 3 heads (d=5), H = 9", "use 3 heads (d=5), H = 9"),
    ],
)
def test_only_arguments_that_are_options_become_options(message, expected):
    assert spelled(message, OPTIONS) == expected


def test_each_command_has_its_own_options():
    assert "--heads" in options_of(app, ["build", "data.npz", "--heads", "2"])
    assert "--max-memory" in options_of(app, ["instances", "check", "folder"])
    assert "--heads" not in options_of(app, ["predict", "layer.safetensors"])
