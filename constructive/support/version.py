"""The version of this package, and its name on package indexes."""

__version__ = "0.1.0"
# The name on package indexes, where `constructive` would be too general.
DISTRIBUTION = "constructive-attention"
