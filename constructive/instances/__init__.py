"""Instances for verifiers of neural networks, with proved answers."""
