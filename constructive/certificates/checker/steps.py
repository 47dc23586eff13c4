"""Steps of the checker, told on stderr. Nothing that is proved depends on them."""

import time
from contextlib import suppress

EVERY = 0.5  # seconds between lines about one step
WIDTH = 79


def silent(step, done, total):
    """Tell nobody."""


class Told:
    """Steps as lines of a stream: on a terminal in the place of the last one, else below it."""

    def __init__(self, stream):
        self.stream, self.terminal = stream, stream.isatty()
        self.step, self.last = None, 0.0

    def __call__(self, step, done, total):
        now = time.monotonic()
        if step == self.step and now - self.last < EVERY:
            return
        self.step, self.last = step, now
        self.write(f"... {step}: {done} of {total}")

    def write(self, line):
        with suppress(OSError, ValueError):  # nobody listens any more
            self.stream.write(f"\r{line:{WIDTH}.{WIDTH}}\r" if self.terminal else f"{line}\n")
            self.stream.flush()

    def end(self):
        """Leave a terminal as it was."""
        if self.terminal and self.step is not None:
            self.write("")
