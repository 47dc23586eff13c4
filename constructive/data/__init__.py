"""What is memorized: data sets, their generators, and how tokens are made of text and images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["generators"])
