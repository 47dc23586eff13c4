"""How far exponentials are off in the libraries which evaluate a decoder: every float32 there is.

    python tests/benchmarks/exponentials.py [--stride 1]

All float32 numbers l from -0 down to -104 (or every so many-th), and some down to -inf, go through
the exponential of each library, and are compared with numpy's in float64, whose own error is less
than 10^-8 of what is looked for. `checker/float_model.py` assumes that results are within `ULPS`
units in the last place where they are twice the smallest normal number or more, and off by no more
than twice that number where they are less.

Softmax and attention show their exponentials as the ratio of two weights, with one rounding or two
more. For attention, queries are rows of logits, and keys and values are unit vectors: so each
output is the softmax of a row, from 0 and 70 numbers l, which vector loops and their ends share.
"""

import argparse
import platform
import re
import sys
from pathlib import Path

import numpy as np

from constructive.checker.float_model import ULPS

# Numbers beside a 0: four vectors of 16, and some more.
ROW = 70
# So few that all stays in the cache; one thread is enough then.
ROWS = 1 << 9
SMALLEST = 2.0**-126
# Exact results from here on are to be within `ULPS`; below, within `SURE` of what is right.
SURE = 2.0 * SMALLEST
# Bits of -0, of the first number beyond -104, and of -inf.
ZERO, END, INFINITE = 0x80000000, 0xC2D00001, 0xFF800000
# Of the numbers beyond -104 so many-th are taken.
RARE = 1009


def numbers(stride):
    """All of them, as (rows, 70), a few at a time; what is left over is filled up with -inf.

    At the end comes a row of -inf alone.
    """
    for first, last, step in ((ZERO, END, stride), (END, INFINITE + 1, stride * RARE)):
        for start in range(first, last, ROW * ROWS * step):
            bits = np.arange(start, min(start + ROW * ROWS * step, last), step, dtype=np.uint32)
            rest = np.full(-len(bits) % ROW, INFINITE, dtype=np.uint32)
            yield np.concatenate([bits, rest]).view(np.float32).reshape(-1, ROW)
    yield np.full((1, ROW), -np.inf, dtype=np.float32)


def backends():
    """Functions of (rows, 70) numbers, by name."""
    import onnxruntime
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def attention(rows):
        units = torch.eye(rows.shape[1])[None, None]
        queries = torch.tensor(np.maximum(rows, np.finfo(np.float32).min))  # -inf times 0 is none
        return scaled_dot_product_attention(queries[None, None], units, units, scale=1.0)[0, 0]

    def session(operator, **attributes):
        from onnx import TensorProto, helper

        names = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["a", "b"]) for n in "xy"]
        node = helper.make_node(operator, ["x"], ["y"], **attributes)
        model = helper.make_model(
            helper.make_graph([node], operator, names[:1], names[1:]),
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=9,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        made = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return lambda values: made.run(None, {"x": values})[0]

    return {
        "numpy.exp": np.exp,
        "torch.exp": lambda values: torch.exp(torch.tensor(values)).numpy(),
        "torch.softmax": ratios(lambda rows: torch.softmax(torch.tensor(rows), 1).numpy()),
        "scaled_dot_product_attention": ratios(lambda rows: attention(rows).numpy()),
        "onnxruntime Exp": session("Exp"),
        "onnxruntime Softmax": ratios(session("Softmax", axis=-1)),
    }


def ratios(softmax):
    """Exponentials from softmax: weights over the weight of a 0 beside them."""

    def exponentials(values):
        rows = np.concatenate([np.zeros((len(values), 1), np.float32), values], axis=1)
        weights = softmax(rows).astype(np.float64)
        return weights[:, 1:] / weights[:, :1]

    return exponentials


class Worst:
    """The largest errors so far, and where."""

    def __init__(self):
        self.ulps, self.place, self.low, self.low_place = 0.0, 0.0, 0.0, 0.0

    def see(self, function, values, exact, unit):
        """Some numbers, with exact results, and 2^23 over the power of two below each of these."""
        errors = np.abs(function(values) - exact)
        errors[np.isnan(errors)] = np.inf
        sure = exact >= SURE
        if not sure.all():
            low = np.where(sure, 0.0, errors)
            worst = low.argmax()
            if low.flat[worst] > self.low:
                self.low, self.low_place = low.flat[worst], values.flat[worst]
            errors[~sure] = 0.0
        errors *= unit
        worst = errors.argmax()
        if errors.flat[worst] > self.ulps:
            self.ulps, self.place = errors.flat[worst], values.flat[worst]

    @property
    def holds(self):
        return self.ulps <= ULPS and self.low <= SURE


def measured(functions, stride):
    """What is the worst of each function, by name, and how many numbers these were."""
    worst = {name: Worst() for name in functions}
    count = 0
    for values in numbers(stride):
        exact = np.exp(values.astype(np.float64))
        binade = (exact.view(np.uint64) & np.uint64(0x7FF0000000000000)).view(np.float64)
        unit = 2.0**23 / np.maximum(binade, SMALLEST)
        for name, function in functions.items():
            worst[name].see(function, values, exact, unit)
        count += values.size
    return worst, count


def short():
    """A lower bound of the relative error of exponentials in attention on tensors of bfloat16.

    Beside a 0 stands one number between -18 and -80: their sum is 1, and the weight is the
    exponential rounded to bfloat16. Where that is not the nearest number, the exponential was
    beyond the middle of the two.
    """
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    bits = np.arange(0xC190, 0xC2A0, dtype=np.uint32) << 16
    values = torch.tensor(bits.view(np.float32)).to(torch.bfloat16)
    rows = torch.full((len(values), 64), -1e4, dtype=torch.bfloat16)
    rows[:, 0], rows[:, 1] = 0.0, values
    units = torch.eye(64, dtype=torch.bfloat16)[None, None]
    weights = scaled_dot_product_attention(rows[None, None], units, units, scale=1.0)[0, 0, :, 1]
    exact = values.double().exp()
    nearest = exact.to(torch.bfloat16)
    middle = (weights.double() + nearest.double()) / 2.0
    return float(((middle / exact - 1.0).abs() * (weights != nearest)).max())


def machine():
    import onnxruntime
    import torch

    about = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", about.read_text()) if about.exists() else []
    used = np.lib.introspect.opt_func_info(func_name="^exp$", signature="float32")
    loops = {loop["current"] for signature in used.values() for loop in signature.values()}
    return (
        f"{(names or [platform.processor()])[0]}\n"
        f"numpy {np.__version__}, {', '.join(loops)}; PyTorch {torch.__version__}, "
        f"{torch.backends.cpu.get_cpu_capability()}; onnxruntime {onnxruntime.__version__}"
    )


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stride", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(machine(), flush=True)
    worst, count = measured(backends(), given.stride)
    which = "all float32" if given.stride == 1 else f"every {given.stride}th float32"
    print(f"\n{which} from -0 to -104, and some to -inf: {count:,} numbers\n")
    print(f"{'':28}  {'ulps':>5}  {'at':>12}   below  {'at':>10}")
    for name, each in worst.items():
        print(
            f"{name:28}  {each.ulps:5.2f}  {each.place:12.6g}  {each.low / SMALLEST:6.3f}  "
            f"{each.low_place:10.5g}"
        )
    print(
        "\nulps: the largest error where exact results are twice the smallest normal number or "
        f"more; {ULPS} are assumed.\nbelow: the largest error where they are less, in units "
        "of the smallest normal number; 2 are assumed."
    )
    least = short()
    print(
        f"\nAttention on bfloat16 tensors has other exponentials: an error of {least:.1e} at "
        f"least, {least * 2.0**23:.0f} ulps of float32."
    )
    sys.exit(not all(each.holds for each in worst.values()))


if __name__ == "__main__":
    main()
