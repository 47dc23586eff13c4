"""Work for the tests of executors; a module of its own, so that workers can import it."""

import os
import signal


def fatal_elsewhere(task):
    """Kill the process it runs in, for one of the numbers, unless that is the test itself."""
    number, home = task
    if number == 3 and os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number
