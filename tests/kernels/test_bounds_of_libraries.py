"""Released kernels are inside the intervals of their models."""

import numpy as np
import pytest

from constructive.kernels.intervals import bounds

torch = pytest.importorskip("torch")
NAMES = ["float64", "float32", "bfloat16", "float16"]


def tensors(name, queries=33, keys=70, heads=(4, 2), size=1.0):
    random = torch.Generator().manual_seed(0)
    batch, width = 2, 16
    shapes = (
        (batch, heads[0], queries, width), (batch, heads[1], keys, width),
        (batch, heads[1], keys, 2 * width),
    )  # fmt: skip
    return [
        (size * torch.randn(shape, generator=random, dtype=torch.float64)).to(getattr(torch, name))
        for shape in shapes
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1.0, 4.0])
def test_torch(name, size):
    q, k, v = tensors(name, size=size)
    attention = torch.nn.functional.scaled_dot_product_attention
    visible = torch.rand(33, 70, generator=torch.Generator().manual_seed(1)) < 0.5
    for mask in (None, visible):
        inside = bounds(q, k, v, mask, model=f"flash {name}")
        repeated = [each.repeat_interleave(2, 1) for each in (k, v)]
        out = attention(q, *repeated, attn_mask=mask)
        inside.check(out)
        assert not inside.contains(attention(q, *repeated, attn_mask=mask, scale=0.23))
        wrong = [each.repeat(1, 2, 1, 1) for each in (k, v)]
        assert not inside.contains(attention(q, *wrong, attn_mask=mask))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_logits_in_sixteen_bits(name):
    """As transformers and others compute: products, softmax and products again."""
    q, k, v = tensors(name, heads=(2, 2), size=3.0)
    logits = q @ k.transpose(-1, -2) * 0.25
    weights = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
    out = weights @ v
    wide, narrow = (bounds(q, k, v, model=f"{row} {name}") for row in ("eager", "logits"))
    narrow.check(out)
    assert (narrow.lower >= wide.lower).all()
    assert (narrow.upper <= wide.upper).all()
    scaled = torch.softmax((q * 0.3) @ k.transpose(-1, -2), dim=-1, dtype=torch.float32)
    scaled = scaled.to(q.dtype) @ v
    bounds(q, k, v, scale=0.3, model=f"eager {name}").check(scaled)
    assert not bounds(q, k, v, model=f"flash {name}").contains(out)


def test_arrays_of_ml_dtypes():
    types = pytest.importorskip("ml_dtypes")
    q, k, v = tensors("bfloat16", heads=(2, 2))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    arrays = [each.float().numpy().astype(types.bfloat16) for each in (q, k, v, out)]
    inside = bounds(*arrays[:3])
    assert inside.contains(arrays[3])
    assert np.array_equal(inside.lower, bounds(q, k, v).lower)
