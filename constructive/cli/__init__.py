"""The command line.

Exit status 0 for success, 1 where a command ends without PROVED, 2 for bad input. Then the message
goes to stderr, without a traceback, and no file is written.
"""

from constructive.cli import (
    building,
    claims,
    demo,
    instances,
    kernels,
    recite,
    theory,
)
from constructive.cli.program import app, main

__all__ = [
    "app",
    "building",
    "claims",
    "demo",
    "instances",
    "kernels",
    "main",
    "recite",
    "theory",
]
