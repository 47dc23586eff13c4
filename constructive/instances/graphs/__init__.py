"""Graphs by name. A new one is a file and a line here."""

from constructive.instances.graphs.graph import NetworkGraph
from constructive.support.registry import Registry

# As `--graph` takes them.
GRAPHS: Registry[type[NetworkGraph]] = Registry(
    {
        "split": "constructive.instances.graphs.split:Split",
        "fused": "constructive.instances.graphs.fused:Fused",
        "flat": "constructive.instances.graphs.flat:Flat",
        "exp": "constructive.instances.graphs.exponentials:Exponentials",
    }
)
