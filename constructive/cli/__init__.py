"""The command line.

Exit status 0 for success, 1 where a command ends without PROVED, 2 for bad input. Then the message
goes to stderr, without a traceback, and no file is written.
"""

# Each of these files adds its commands to the application.
from constructive.cli import building, claims, demo, instances, kernels, recite, theory  # noqa: F401
from constructive.cli.program import app, main

__all__ = ["app", "main"]
