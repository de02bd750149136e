"""A real Kubernetes of one to three nodes on one Linux machine, without Docker."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"Python 3.11 or later is missing: this is {sys.version.split()[0]} (make PYTHON=python3.11 ...)")
