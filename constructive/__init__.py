"""Weights which a theorem promises: multi-head attention layers built to memorize, not trained.

>>> from constructive import build_memorizer, generators
>>> data = generators.uniform(num_examples=1861, context_size=32, width=64, seed=0)
>>> build_memorizer(data, num_heads=60).record.max_error < 1e-10
True

The public names are in `__init__.pyi`; each is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
