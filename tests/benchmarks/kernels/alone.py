"""Import one module of a package without the rest of it, which may need a GPU or much else."""

import enum
import importlib.machinery
import sys
import types
from unittest.mock import MagicMock


class _Stub(types.ModuleType):
    """A module that has every name."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


class _Finder:
    """Finds real modules of a package by their names, and stubs for all others."""

    def __init__(self, package, real, given):
        self.package, self.real, self.given = package, set(real), given
        self.parents = {name.rsplit(".", n)[0] for name in real for n in range(1, 9)}
        where = importlib.machinery.PathFinder.find_spec(package, sys.path)
        if where is None:
            raise ImportError(f"{package} is not installed")
        self.root = where.submodule_search_locations[0]

    def find_spec(self, name, *_):
        if name.split(".")[0] != self.package:
            return None
        file = "/".join([self.root, *name.split(".")[1:]])
        if name in self.real:
            return importlib.machinery.ModuleSpec(
                name, importlib.machinery.SourceFileLoader(name, f"{file}.py"), origin=f"{file}.py"
            )
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = _Stub(spec.name)
        for name, value in self.given.get(spec.name, {}).items():
            setattr(module, name, value)
        return module

    def exec_module(self, module):
        """Nothing: a stub has all it needs."""


def alone(package, modules, given=None):
    """Make modules of a package importable; all others are stubs, with what is given."""
    if not any(isinstance(each, _Finder) and each.package == package for each in sys.meta_path):
        finder = _Finder(package, modules, given or {})
        # `SourceFileLoader` needs `__file__`, which a spec with an origin gives
        sys.meta_path.insert(0, finder)


class Platform:
    """What vLLM asks about a GPU by NVIDIA."""

    def __getattr__(self, name):
        return lambda *_, **__: False

    def is_cuda(self):
        return True

    def is_cuda_alike(self):
        return True

    def fp8_dtype(self):
        import torch

        return torch.float8_e4m3fn

    def has_device_capability(self, *_, **__):
        return True


class KVQuantMode(enum.IntEnum):
    """vLLM's names of quantized caches, by their numbers in `vllm.v1.kv_cache_interface`."""

    NONE = 0
    FP8_PER_TENSOR = 1
    INT8_PER_TOKEN_HEAD = 2
    FP8_PER_TOKEN_HEAD = 3
    INT4_PER_TOKEN_HEAD = 4
