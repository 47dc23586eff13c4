"""Check a certificate without trusting the program which made it.

    python -I constructive/checker CERTIFICATE [WEIGHTS] DATA
              [--quick] [--claims rank error] [--epsilon 1e-9]
              [--jobs 2] [--max-memory 8] [--progress]
    python -I constructive/checker instances FOLDER
              [--jobs 2] [--max-memory 8] [--progress]

An island: this folder imports the standard library, numpy and mpmath, and nothing of the package
around it. It reads the files itself and has its own arithmetic and its own forward pass:

    verify          which claims each kind of certificates has; they are judged about arrays in
                    memory, or about files
    command         arguments, and what is printed
    claim           what a claim is, and what it is about
    files           reading hostile files; what is needed, before it is taken; rows of a folder;
                    what is being done, on stderr: on a terminal, or with --progress

    attend          attention, once, for any numbers and any view: own contexts, a shared one, all
                    tokens before, or a window
      modular         integers modulo a prime
      floating        float64 with bounds; digits of 20 bits with an integer bound; a table of
                      exponentials, for logits which are short integers
    pieces          pieces of work on several threads
    bounds          what rounding does to float64, and numbers of many digits
    float_model     programs in floating point, and what they make of logits

    layers          certificates of one layer
    capacity        claims about all weights: impossible, almost_impossible, onto
    near            exact weights near the stored ones
    rank, error     the other claims of a layer: rank and grouping; error and labels
    paired          certificates of paired heads
    decoders        certificates of decoders: rank, recites, executed
    margins, integers, packed      their margins, those of integers, and weights of few bits
    sequences       certificates of sequence memorizers: Python's integers and Fractions

    instances       folders of instances for verifiers: every row, file and proof
    graphs          ONNX files, and what their operators make of exact numbers (operators)
    properties      VNN-LIB files, 1.0 and 2.0
    softmaxes       bounds of sums of softmax heads on a box, and what float32 makes of them

It says on stderr what it needs, and refuses what is more than --max-memory. It prints each claim
and PROVED, with status 0, or why not, with status 1. docs/certificates.md says why it holds.
"""

import os
import sys

# Before numpy reads them: pieces of work have the cores, and products in them one each.
for library in ("OPENBLAS_NUM", "OMP_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{library}_THREADS", "1")

if not __package__:  # Python runs the folder: it is a package, whatever its name is
    from pathlib import Path
    from types import ModuleType

    __package__ = "checker"
    package = sys.modules[__package__] = ModuleType(__package__)
    package.__path__ = [str(Path(__file__).resolve().parent)]
    sys.path.pop(0)  # nothing is imported from here by other names

try:
    from .command import main
except ModuleNotFoundError as missing:
    name = (missing.name or "").partition(".")[0]
    if name not in ("numpy", "mpmath"):
        raise
    install = f"{sys.executable} -m pip install numpy mpmath"
    print(f"NOT PROVED: {sys.executable} has no {name}; try: {install}")
    sys.exit(1)

sys.exit(main())
