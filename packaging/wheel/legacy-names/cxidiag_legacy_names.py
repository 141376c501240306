"""Runs cxidiag under the name of the entry point: it becomes the tool with this legacy name."""

import os
import sys
from importlib import metadata


def main():
    """Replaces this process by cxidiag."""
    name = os.path.basename(sys.argv[0])
    for file in metadata.files("cxidiag") or []:
        if file.parts[-2:] == ("bin", "cxidiag"):
            os.execv(file.locate(), [name, *sys.argv[1:]])
    sys.exit(f"{name}: error: the package cxidiag has no program; install it again with pip")
