"""`python -m constructive`, and the program `constructive`."""

import signal


def main() -> None:
    """Load the command line and run it.

    Loading takes a second. Ctrl-C ends the process meanwhile as it ends any other, without a
    traceback; there is nothing yet to be put away.
    """
    loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if loading:  # and not ignored, as in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from constructive import cli  # noqa: PLC0415 - see above

    if loading:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
