"""`python -m constructive`."""

from constructive.cli import main

if __name__ == "__main__":
    main()
