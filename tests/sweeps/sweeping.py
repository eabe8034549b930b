#!/usr/bin/env python3
"""Prints a header for tests: each call of a public function first frees the layouts that nothing holds (src/sweep.c). A
sanitizer then sees where one is used that a holder has not met.

Usage: sweeping.py HEADER...
"""

import re
import sys
from pathlib import Path

# Functions whose numbers are of any type: macros, too.
MACRO = re.compile(r"^#define (weft_\w+)\(([^)]*)\)\s*(?:\\\n)?\s*\1\((.*)\)$", re.MULTILINE)
FUNCTION = re.compile(r"^WEFT_API\s[^;{]*?\b(weft_\w+)\(", re.MULTILINE)

headers = [Path(name) for name in sys.argv[1:] if name.endswith(".h")]
print("#ifndef WEFT_TESTS_SWEEPING_H\n#define WEFT_TESTS_SWEEPING_H\n")
print("#define _GNU_SOURCE /* as the tests define that */\n")
for header in headers:
    print(f"#include <weft/{header.name}>")
print("\n#undef _DEFAULT_SOURCE /* likewise */\n\nvoid weft_sweep_for_tests(void);\n")
for header in headers:
    text = header.read_text(encoding="utf-8")
    macros = {name: (parameters, arguments) for name, parameters, arguments in MACRO.findall(text)}
    for name in FUNCTION.findall(text):
        if name in macros:
            print(f"#undef {name}\n#define {name}({macros[name][0]}) (weft_sweep_for_tests(), ({name})({macros[name][1]}))")
            continue
        print(f"#define {name}(...) (weft_sweep_for_tests(), {name}(__VA_ARGS__))")
print("\n#endif")
