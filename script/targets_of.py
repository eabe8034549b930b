#!/usr/bin/env python3
"""Prints in one line what ninja has to build for some tests of a build folder, whose names stand in stdin, one in each line."""

import json
import os
import subprocess
import sys


def told(folder, what):
    return json.loads(subprocess.run(["meson", "introspect", what, folder], capture_output=True, check=True).stdout)


def main():
    folder = os.path.realpath(sys.argv[1])
    names = {line.strip() for line in sys.stdin}
    needed = {target for test in told(folder, "--tests") if test["name"] in names for target in test["depends"]}
    files = {file for target in told(folder, "--targets") if target["id"] in needed for file in target["filename"]}
    print(*sorted(os.path.relpath(file, folder) for file in files))


main()
