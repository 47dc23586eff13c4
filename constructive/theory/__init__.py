"""Statements in integers, and exact facts about data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["assumptions"])
