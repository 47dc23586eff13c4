"""Layers in the formats of other libraries: PyTorch modules (both ways) and ONNX files."""
