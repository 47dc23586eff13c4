"""alpha-beta-CROWN with input split: its program, once for each instance.

The variable ALPHA_BETA_CROWN is the folder of its abcrown.py.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from answering import answer_all

HOME = Path(os.environ["ALPHA_BETA_CROWN"]).resolve()
OPTIONS = """\
general: {device: cpu, save_adv_example: true}
bab: {branching: {method: naive, input_split: {enable: true}}}
"""


def answer(problem):
    with tempfile.TemporaryDirectory() as folder:
        options, results, example = (Path(folder) / n for n in ("o.yaml", "r.txt", "x.txt"))
        options.write_text(OPTIONS)
        command = [sys.executable, "abcrown.py", f"--config={options}"]
        command += [f"--onnx_path={problem['onnx']}", f"--vnnlib_path={problem['vnnlib']}"]
        command += [f"--timeout={problem['timeout']}", f"--results_file={results}"]
        run = subprocess.run(
            [*command, f"--cex_path={example}"],
            check=False,
            cwd=HOME,
            capture_output=True,
            text=True,
        )
        if not results.is_file():
            lines = run.stderr.strip().splitlines() or ["no result"]
            return f"error,{lines[-1][:300]}"
        said = results.read_text().split()[0]
        values = re.findall(r"X_\d+\s+\S+\)", example.read_text()) if example.is_file() else []
        return said + (",(" + " ".join(f"({value}" for value in values) + ")" if values else "")


found = re.search(r"version__ = '([^']+)'", (HOME / "__init__.py").read_text())
answer_all(f"alpha-beta-CROWN {found[1] if found else 'of unknown version'}", answer)
