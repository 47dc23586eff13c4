"""Adapters: a problem in the words of a library. A new one is a file and a line here."""

from typing import TYPE_CHECKING

from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.kernels.adapters.adapter import Adapter

_HERE = "constructive.kernels.adapters"

# Classes by name; call one without arguments for an adapter.
ADAPTERS: "Registry[type[Adapter]]" = Registry(
    {
        "torch": f"{_HERE}.torch_attention:TorchSdpa",
        "torch-boolean": f"{_HERE}.torch_attention:Boolean",
        "torch-additive": f"{_HERE}.torch_attention:Additive",
        "torch-lower-right": f"{_HERE}.torch_attention:LowerRight",
        "torch-math": f"{_HERE}.torch_attention:Math",
        "torch-flash": f"{_HERE}.torch_attention:Flash",
        "torch-efficient": f"{_HERE}.torch_attention:Efficient",
        "torch-cudnn": f"{_HERE}.torch_attention:Cudnn",
        "torch-mha": f"{_HERE}.torch_attention:Multihead",
        "torch-mha-weights": f"{_HERE}.torch_attention:MultiheadWeights",
        "torch-flex": f"{_HERE}.torch_attention:Flex",
        "torch-flex-compiled": f"{_HERE}.torch_attention:FlexCompiled",
        "onnxruntime": f"{_HERE}.onnxruntime:Standard",
        "onnxruntime-mha": f"{_HERE}.onnxruntime:Multihead",
        "onnxruntime-gqa": f"{_HERE}.onnxruntime:Grouped",
        "onnx": f"{_HERE}.onnx_graph:Reference",
        "jax": f"{_HERE}.jax_attention:Jax",
        "flax": f"{_HERE}.jax_attention:Flax",
        "flax-nnx": f"{_HERE}.jax_attention:FlaxNnx",
        "keras": f"{_HERE}.jax_attention:Keras",
        "mlx": f"{_HERE}.mlx:Mlx",
        "openvino": f"{_HERE}.openvino:OpenVino",
        "openvino-f16": f"{_HERE}.openvino:OpenVinoShort",
        "paddle": f"{_HERE}.paddle:Paddle",
        "transformers": f"{_HERE}.transformers:Eager",
        "transformers-sdpa": f"{_HERE}.transformers:Sdpa",
        "x-transformers": f"{_HERE}.x_transformers:Plain",
        "x-transformers-flash": f"{_HERE}.x_transformers:Flash",
        "sglang-prefill": f"{_HERE}.sglang:Prefill",
        "sglang-extend": f"{_HERE}.sglang:Extend",
        "flash-attn": f"{_HERE}.flash_attention:FlashAttention",
        "flash-attn-varlen": f"{_HERE}.flash_attention:VariableLength",
        "flash-attn-kvcache": f"{_HERE}.flash_attention:KeyValueCache",
    }
)
