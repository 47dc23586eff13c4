"""Adapters: a problem in the words of a library. A new one is a file and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.kernels.adapters.adapter import Adapter

ADAPTERS: "Registry[type[Adapter]]" = Registry(
    {
        "torch": "constructive.kernels.adapters.torch_sdpa:TorchSdpa",
    }
)
"""Classes by name; call one without arguments for an adapter."""
