"""Check a certificate without trusting the program which made it.

    python -I constructive/certificates/checker CERTIFICATE [WEIGHTS] DATA
              [--quick] [--claims rank error] [--epsilon 1e-9] [--max-memory 8] [--progress]

An island: this folder imports the standard library, numpy and mpmath, and nothing of the package
around it. It reads the files itself and has its own arithmetic and its own forward pass:

    command         arguments, and which of the four kinds of certificate it is
    statements      what claims state
    files           reading hostile files; what is needed, before it is taken
    stored          contexts in a folder, which are read by rows
    steps           what is being done, on stderr: on a terminal, or with --progress
    layers          certificates of one layer; their claims are in
      exact_claims    grouping, rank: integers modulo a prime (`modular`)
      impossible      impossible, for all weights: a set of examples, and integer vectors
      real_claims     error, readout: digits of 20 bits, with an integer bound (`fixed`)
    paired          certificates of paired heads: float64 with bounds (`bounds`)
    decoders        certificates of decoders: residues, and float64 with bounds
    sequences       certificates of sequence memorizers: Python's integers and Fractions

It says on stderr what it needs, and refuses what is more than --max-memory. It prints each claim
and PROVED, with status 0, or why not, with status 1. docs/certificates.md says why it holds.
"""

import sys

from command import main

sys.exit(main())
