"""Adapters: problems in the words of libraries. A new one is a row, and its functions."""

from constructive.kernels.adapters.adapter import Adapter
from constructive.kernels.adapters.runtimes import RUNTIMES
from constructive.kernels.adapters.torch_attention import TORCH

ADAPTERS: dict[str, Adapter] = TORCH | RUNTIMES
