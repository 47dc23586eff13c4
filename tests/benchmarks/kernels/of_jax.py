"""JAX: attention by XLA and by cuDNN, with log-sum-exps and gradients."""

import numpy as np
from libraries import SHORT, Row

from constructive.kernels.masks import Causal, RightPadding, Window

# What JAX puts in the place of hidden logits, and so the log-sum-exp of a row without keys
_HIDDEN = float(np.float32(-0.7) * np.finfo(np.float32).max)


def _attention(problem, implementation, *, residual=False):
    """Return a function of q, k and v (B, T, H, d)."""
    import jax
    import jax.numpy as jnp

    spec, given = problem.spec, {"scale": problem.spec.factor, "implementation": implementation}
    masks, window = spec.masks, spec.mask(Window)
    plain = all(isinstance(m, (Causal, Window, RightPadding)) for m in masks)
    aligned = all(
        getattr(m, "alignment", "top-left") == "top-left" or spec.queries == spec.keys
        for m in masks
    )
    if problem.mask is not None and plain and aligned:
        given["is_causal"] = spec.mask(Causal) is not None
        if window is not None and None not in (window.left, window.right):
            given["local_window_size"] = (window.left, window.right)
        elif window is not None:
            given["mask"] = jnp.asarray(problem.visible)
        if spec.mask(RightPadding) is not None:
            given["key_value_seq_lengths"] = jnp.asarray(spec.lengths[1], jnp.int32)
            given["query_seq_lengths"] = jnp.full(spec.batch, spec.queries, jnp.int32)
    elif problem.mask is not None:
        given["mask"] = jnp.asarray(problem.visible)
    if problem.bias is not None:
        given["bias"] = jnp.asarray(problem.bias, spec.dtype)
    if residual:
        given["return_residual"] = True
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **given)


def _forward(implementation):
    def run(problem, device):
        import jax

        q, k, v = problem.tensors("jax", layout="BTHd", device=_named(device))
        out, lse = jax.jit(_attention(problem, implementation, residual=True))(q, k, v)
        return np.asarray(out, np.float64), np.asarray(lse, np.float64)

    return run


def _backward(implementation):
    def run(backward, device):
        import jax
        import jax.numpy as jnp

        problem = backward.problem
        q, k, v = problem.tensors("jax", layout="BTHd", device=_named(device))
        d_out = jnp.asarray(backward.d_out.transpose(0, 2, 1, 3), q.dtype)

        def gradients(q, k, v):
            return jax.vjp(_attention(problem, implementation), q, k, v)[1](d_out)

        found = jax.jit(gradients)(q, k, v)
        return tuple(np.asarray(x, np.float64).transpose(0, 2, 1, 3) for x in found)

    return run


def _named(device):
    return "gpu" if device == "cuda" else device


def rows():
    """Return the rows of JAX."""
    common = {"modules": ("jax",), "layout": "BTHd", "takes": ("mask", "top-left", "scale")}
    xla = common | {"on_cuda": SHORT, "on_cpu": ("float32", *SHORT), "models": None}
    cudnn = common | {"on_cuda": SHORT, "has_width": False, "parts": 2}
    for each in (xla, cudnn):
        each["given"] = {"fully_masked": "mean"}
    return [
        Row("jax xla, lse", "jax", _forward("xla"), says={"fully_masked_lse": _HIDDEN}, **xla),
        Row("jax xla, gradients", "jax", _backward("xla"), kind="backward", **xla),
        Row("jax cudnn, lse", "jax", _forward("cudnn"), **cudnn),
        Row("jax cudnn, gradients", "jax", _backward("cudnn"), kind="backward", **cudnn),
    ]
