"""`python -m verify` is `attncert`."""

import os
import sys

# -m puts the working folder first: a kernel could leave a numpy.py there for us to import.
if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.getcwd()):  # noqa: PTH109
    sys.path.append(sys.path.pop(0))

from verify.cli import main

main()
