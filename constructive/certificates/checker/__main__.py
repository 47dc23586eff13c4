"""Check a certificate without trusting the program which made it.

    python -I constructive/certificates/checker CERTIFICATE [WEIGHTS] DATA
              [--quick] [--claims rank error] [--epsilon 1e-9] [--max-memory 8] [--progress]
    python -I constructive/certificates/checker instances FOLDER
              [--jobs 2] [--max-memory 8] [--progress]

An island: this folder imports the standard library, numpy and mpmath, and nothing of the package
around it. It reads the files itself and has its own arithmetic and its own forward pass:

    command         arguments, and the verdict, once for all claims
    registry        the four kinds of certificates, and the claims of each
    claim           what a claim is, and what it is about
    files, stored   reading hostile files; what is needed, before it is taken; rows of a folder
    steps           what is being done, on stderr: on a terminal, or with --progress

    attend          attention, once, for any numbers and any view:
      views           own contexts, a shared one, all tokens before, or a window
      residues        integers modulo a prime (`modular`)
      digits          digits of 20 bits, with an integer bound (`fixed`)
      floating        float64 with bounds (`bounds`)
      table           logits which are short integers
      pairs           high and low parts, for pairs of heads
    rounding        what programs of a model (`float_model`) make of logits

    layers          certificates of one layer: grouping, rank, error and readout (`real`,
                    real_claims, float_claims, inverse), executed, impossible
    paired          certificates of paired heads: scan, coupling
    decoders        certificates of decoders: rank, recites, executed (recites, margins, integers)
                    packed: weights of few bits; integers: sums in int64
    sequences       certificates of sequence memorizers: Python's integers and Fractions
                    (columns, networks), and their size

    folder          instances for verifiers of neural networks: every row, file and proof
    instance        one of them: an answer, for real numbers and for float32
    graphs          ONNX files (protobuf), and what operators make of exact numbers (operators)
    properties      VNN-LIB files, 1.0 and 2.0
    softmaxes       bounds of sums of softmax heads on a box: slabs, intervals (dyadic)
    graph_rounding  what float32 evaluations of a graph are off by (float_model)

It says on stderr what it needs, and refuses what is more than --max-memory. It prints each claim
and PROVED, with status 0, or why not, with status 1. docs/certificates.md says why it holds.
"""

import sys

try:
    from command import main
except ModuleNotFoundError as missing:
    name = (missing.name or "").partition(".")[0]
    if name not in ("numpy", "mpmath"):
        raise
    install = f"{sys.executable} -m pip install numpy mpmath"
    print(f"NOT PROVED: {sys.executable} has no {name}; try: {install}")
    sys.exit(1)

sys.exit(main())
