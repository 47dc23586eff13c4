"""What a row of a table asks for: a result, or a refusal with a word of its reason."""

import contextlib

import pytest


def refused(words, error=ValueError):
    """An error with these words; without words, none."""
    return pytest.raises(error, match=words) if words else contextlib.nullcontext()
