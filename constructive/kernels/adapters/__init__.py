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
        "onnxruntime": f"{_HERE}.runtimes:Standard",
        "onnxruntime-mha": f"{_HERE}.runtimes:Multihead",
        "onnxruntime-gqa": f"{_HERE}.runtimes:Grouped",
        "onnx": f"{_HERE}.runtimes:Reference",
        "jax": f"{_HERE}.runtimes:Jax",
        "flax": f"{_HERE}.runtimes:Flax",
        "flax-nnx": f"{_HERE}.runtimes:FlaxNnx",
        "keras": f"{_HERE}.runtimes:Keras",
        "mlx": f"{_HERE}.runtimes:Mlx",
        "openvino": f"{_HERE}.runtimes:OpenVino",
        "openvino-f16": f"{_HERE}.runtimes:OpenVinoShort",
        "paddle": f"{_HERE}.runtimes:Paddle",
        "transformers": f"{_HERE}.torch_attention:Transformers",
        "transformers-sdpa": f"{_HERE}.torch_attention:TransformersSdpa",
        "x-transformers": f"{_HERE}.torch_attention:XTransformers",
        "x-transformers-flash": f"{_HERE}.torch_attention:XTransformersFlash",
        "sglang-prefill": f"{_HERE}.serving:Prefill",
        "sglang-extend": f"{_HERE}.serving:Extend",
        "vllm": f"{_HERE}.serving:Unified",
        "flash-attn": f"{_HERE}.serving:FlashAttention",
        "flash-attn-varlen": f"{_HERE}.serving:VariableLength",
        "flash-attn-kvcache": f"{_HERE}.serving:KeyValueCache",
    }
)
