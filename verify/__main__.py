"""`python -m verify` is `attncert`."""

from verify.cli import main

main()
