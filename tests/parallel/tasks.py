"""Work for the tests of executors; a module of its own, so that workers can import it."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor


def fatal_elsewhere(task):
    """Kill the process it runs in, for one of the numbers, unless that is the test itself."""
    number, home = task
    if number == 3 and os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class Murdered(ProcessPoolExecutor):
    """Kills its processes as soon as it has something to do."""

    def submit(self, function, /, *args, **kwargs):
        future = super().submit(function, *args, **kwargs)
        for process in list((self._processes or {}).values()):
            os.kill(process.pid, signal.SIGKILL)
        return future
