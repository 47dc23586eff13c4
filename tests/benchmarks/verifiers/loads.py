"""Which tools load ONNX files with one static input, and bound their outputs near zero.

    /path/to/venv/bin/python tests/benchmarks/verifiers/loads.py FILE.onnx ..

Run it with the Python that has the tools. Files come from `constructive instances --graph ..`.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime

RADIUS = 0.1


def given(path):
    """The shape of the input, and the output at zero in onnxruntime."""
    session = onnxruntime.InferenceSession(path)
    (start,) = session.get_inputs()
    return start.shape, session.run(None, {start.name: np.zeros(start.shape, np.float32)})[0]


def by_lirpa(convert, method):
    def bounds(path):
        import torch
        from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm

        shape, wanted = given(path)
        x, module = torch.zeros(shape), convert(path).eval()
        if np.abs(module(x).detach().numpy() - wanted).max() > 1e-4:
            raise ValueError("the converted network is another one")
        box = BoundedTensor(x, PerturbationLpNorm(x_L=x - RADIUS, x_U=x + RADIUS))
        low, high = BoundedModule(module, x).compute_bounds(x=(box,), method=method)
        return "bounds" if (low <= high).all() else "NaN"

    return bounds


def onnx2pytorch(path):
    from onnx2pytorch import ConvertModel

    return ConvertModel(onnx.load(path), experimental=True)


def onnx2torch(path):
    from onnx2torch import convert

    return convert(path)


def marabou(path):
    from maraboupy import Marabou

    Marabou.read_onnx(path)
    return "loads"


def vibecheck(path):
    from vibecheck import verify

    size = int(np.prod(given(path)[0]))
    lines = [f"(declare-const X_{i} Real)" for i in range(size)] + ["(declare-const Y_0 Real)"]
    lines += [f"(assert (<= X_{i} {RADIUS}))\n(assert (>= X_{i} -{RADIUS}))" for i in range(size)]
    with TemporaryDirectory() as folder:
        wanted = Path(folder) / "property.vnnlib"
        wanted.write_text("\n".join([*lines, "(assert (>= Y_0 1000000.0))"]))
        result = verify(path, str(wanted), timeout=10, device="cpu")
    reason = result.details.get("error") or result.details.get("reason") or ""
    return f"{result.verdict} {reason}"[:160]


TOOLS = {
    "onnx2pytorch, IBP": by_lirpa(onnx2pytorch, "IBP"),
    "onnx2pytorch, CROWN": by_lirpa(onnx2pytorch, "CROWN"),
    "onnx2torch, IBP": by_lirpa(onnx2torch, "IBP"),
    "onnx2torch, CROWN": by_lirpa(onnx2torch, "CROWN"),
    "maraboupy": marabou,
    "vibecheck-nn": vibecheck,
}

for path in sys.argv[1:]:
    for name, tool in TOOLS.items():
        try:
            found = tool(path)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"[:160].replace("\n", " ")
        print(f"| {Path(path).stem} | {name} | {found} |", file=sys.stderr)
