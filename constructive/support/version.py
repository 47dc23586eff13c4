"""The version of this package, and its name on package indexes."""

__version__ = "0.1.0"
DISTRIBUTION = "constructive-attention"
"""The name on package indexes, where `constructive` would be too general."""
