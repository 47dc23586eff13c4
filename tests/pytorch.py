"""PyTorch for tests; where it is not installed, a test is skipped once it uses it.

`from pytorch import torch` is for files whose other tests do without. Files that are about PyTorch
are in `collect_ignore` of conftest.py.
"""

import pytest


class Missing:
    """In the place of `torch`: any attribute skips the test."""

    def __getattr__(self, name):
        pytest.skip(f'torch.{name} needs pip install ".[test,torch]"')


try:
    import torch
except ModuleNotFoundError:
    torch = Missing()
