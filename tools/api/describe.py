#!/usr/bin/env python3
"""Describes the public headers as JSON, from which bindings are made: docs/languages.md has the format.

usage: describe.py HEADER...             writes api.json to standard output
       describe.py --check-c API.json    writes a C program that compiles if the compiler agrees
"""
import json
import re
import sys
from pathlib import Path

# Sizes and alignments on the 64-bit systems of Unix; the test that compiles --check-c compares them with the compiler.
SIZES = {"int": 4, "unsigned": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "double": 8, "float": 4, "bool": 1, "char": 1}
POINTER = 8
COMMENT = re.compile(r"//.*|/\*.*?\*/", re.DOTALL)
DOC = re.compile(r"/\*\*(?!<).*?\*/", re.DOTALL)
ITEM = re.compile(
    r"(?P<close>/\*\* \\\} \*/)|(?P<trailing>/\*\*<.*?\*/)|(?P<doc>/\*\*(?!<).*?\*/)|(?P<blank>\n[ \t]*\n)"
    r"|WEFT_API\s+(?P<result>[^;(]*?)\s*\b(?P<function>weft_\w+)\s*\((?P<parameters>[^;]*)\);"
    r"|(?:static inline|WEFT_INLINE) [^;{]*?\b(?P<inline>weft_\w+)\s*\("
    r"|typedef struct (?P<struct>weft_\w+) \{"
    r"|typedef struct (?P<handle>weft_\w+) \w+;"
    r"|\benum (?P<enum>weft_\w+)"
    r"|typedef [\w ]+?\(\*(?P<callback>weft_\w+)\)\(", re.DOTALL)


def without_comments(text):
    return COMMENT.sub(" ", text)


def plain(comment):
    """The text of a comment, without its stars and the marks of groups."""
    text = re.sub(r"^[ \t]*\*(?!\*) ?", "", re.sub(r"\*/$", "", comment[3:]), flags=re.MULTILINE)
    text = re.sub(r"[ \t]*\\[{}]", "", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def docs_of(header):
    """{name: comment} of a header's functions, structs, enums, handles and callbacks: the comment after it on its line, or the one
    before it, which also stands for those that follow without an empty line; else that of its group."""
    found, comment, groups, last = {}, "", [], None
    for match in ITEM.finditer(header):
        if match["blank"]:
            comment, last = "", None
        elif match["close"]:
            groups = groups[:-1]
            comment = ""
        elif match["trailing"]:
            if last is not None: # a function's; fields and values have theirs inside of structs and enums
                found[last] = plain("/**" + match["trailing"][4:])
            comment, last = "", None
        elif match["doc"]:
            text = plain(match["doc"])
            if "\\file" not in text and "\\page" not in text and re.search(r"\w{3}", text):
                comment = text
                if "\\{" in match["doc"]:
                    groups = [*groups, text]
                    comment = ""
        else:
            kind = next(kind for kind in ("function", "inline", "struct", "handle", "enum", "callback") if match[kind])
            last = match[kind] if kind == "function" else None
            found.setdefault(match[kind], comment or (groups[-1] if groups else ""))
    return found


class Headers:
    """What the headers declare. Lists keep their order."""

    def __init__(self, files):
        texts = {Path(file).name: Path(file).read_text(encoding="utf-8") for file in files}
        self.docs = {}
        for text in texts.values():
            self.docs.update(docs_of(text))
        self.header_of = {name: header for header, text in texts.items()
                          for name in re.findall(r"WEFT_API\s[^;(]*?\b(weft_\w+)\s*\(", without_comments(text))}
        text = without_comments("\n".join(texts.values())).replace("\\\n", " ")
        text = re.sub(r"^struct \w+;$", "", text, flags=re.MULTILINE)
        self.macros = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(WEFT_\w+)[ \t]+(\S.*?)[ \t]*$", text, re.MULTILINE))
        for name in ("WEFT_API", "WEFT_INLINE", "WEFT_SCALAR_CONSTRUCTORS", "WEFT_HERE"):
            self.macros.pop(name, None)
        code = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
        code = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", code)
        self.inline = re.findall(r"(?:static inline|WEFT_INLINE) [^;{]*?(weft_\w+)\(", code)
        self.initialisers = {name: (kind, body) for name, kind, body in re.findall(
            r"static inline void (weft_\w+)_init\((weft_\w+) \*\w+\)\s*\{(.*?)\n\}", code, re.DOTALL)}
        self.enums = {}
        for name, body in re.findall(r"(?:typedef )?\benum (\w*)\s*(?::[\w\s]*)?\{(.*?)\}", code, re.DOTALL):
            self.enums.setdefault(name, []).extend(part.strip() for part in body.split(",") if part.strip())
        self.structs = {name: self.fields(body) for name, body in re.findall(
            r"typedef struct (weft_\w+) \{(.*?)\n\} \w+;", code, re.DOTALL)}
        forward = re.findall(r"typedef struct (weft_\w+) \w+;", code)
        self.handles = [name for name in dict.fromkeys(forward) if name not in self.structs]
        self.callbacks = {name: (result.strip(), self.parameters(rest)) for result, name, rest in re.findall(
            r"typedef ([\w ]+?)\(\*(weft_\w+)\)\((.*?)\);", code, re.DOTALL)}
        self.functions = [(re.sub(r"\s+", " ", result).strip(), name, self.parameters(rest)) for result, name, rest in
                          re.findall(r"WEFT_API\s+([^;(]*?)\s*\b(weft_\w+)\s*\(([^;]*)\);", code)]
        self.values = {}

    def declaration(self, text):
        """An object of the JSON for one parameter or field."""
        text = whole = re.sub(r"\s+", " ", text.strip())
        array = re.findall(r"\[(\w*)\]", text)
        text = re.sub(r"\[\w*\]", "", text)
        name = re.search(r"(\w+)$", text)[1]
        rest = text[:-len(name)]
        const = bool(re.match(r"const |struct const", rest.strip())) or "*const" in rest
        kind = re.sub(r"\b(const|struct)\b|\*", " ", rest).strip()
        return {"name": name, "type": kind, "pointers": rest.count("*"), "array": array, "const": const, "c": whole}

    def parameters(self, text):
        return [] if text.strip() == "void" else [self.declaration(part) for part in text.split(",")]

    def fields(self, body):
        body = body.replace("WEFT_SCALAR_CONSTRUCTORS", "")
        body = re.sub(r"union \{.*?(weft_view outputs\[\w+\];)\s*\};", r"\1", body, flags=re.DOTALL)
        found = []
        for line in body.split(";"):
            if not line.strip():
                continue
            parts = [part.strip() for part in line.split(",")]
            first = self.declaration(parts[0])
            found.append(first)
            found += [self.declaration(f"{first['type']} {part}" if not part.startswith("*") else f"const {first['type']} {part}")
                      for part in parts[1:]]
        return found

    def evaluate(self, text):
        text = re.sub(r"\bINT32_MIN\b", "(-2147483648)", text)
        text = re.sub(r"\bWEFT_TYPE_BIT\(([^()]*)\)", r"(1 << (\1))", text)
        for _ in range(20):
            text = re.sub(r"\bWEFT_\w+", lambda match: f"({self.values.get(match[0], self.macros.get(match[0]))})", text)
            text = re.sub(r"\bWEFT_TYPE_BIT\)?\(([^()]*)\)", r"(1 << (\1))", text)
        return eval(re.sub(r"(\d)u\b", r"\1", text), {"__builtins__": {}, "true": True, "false": False, "NULL": None})

    def describe(self):
        enums = []
        for enum, members in self.enums.items():
            following, values = 0, {}
            for member in members:
                name, _, text = (part.strip() for part in member.partition("="))
                following = self.evaluate(text) if text else following
                values[name] = self.values[name] = following
                following += 1
            enums.append({"name": enum, "doc": self.docs.get(enum, ""), "values": values})
        constants = {}
        for name, text in self.macros.items():
            if text.startswith('"'):
                constants[name] = text.strip('"')
            elif not re.search(r"[{\"]|^__", text) and "BEGIN" not in name and "END" not in name:
                constants[name] = self.values[name] = self.evaluate(text)
        structs = [{"name": name, "doc": self.docs.get(name, ""), "size": 0, "fields": [self.sized(field) for field in fields]}
                   for name, fields in self.structs.items()]
        return {"library": "weft", "version": constants["WEFT_VERSION"], "constants": constants, "enums": enums,
                "handles": [{"name": name, "doc": self.docs.get(name, "")} for name in self.handles],
                "structs": lay_out(structs, set(self.callbacks), {enum for enum in self.enums if enum}),
                "defaults": self.defaults(),
                "callbacks": [{"name": name, "doc": self.docs.get(name, ""), "result": result,
                               "parameters": [self.sized(parameter) for parameter in parameters]}
                              for name, (result, parameters) in self.callbacks.items()],
                "functions": [{"name": name, "header": f"weft/{self.header_of[name]}", "doc": self.docs.get(name, ""),
                               "result": result, "parameters": [self.sized(parameter) for parameter in parameters]}
                              for result, name, parameters in self.functions],
                "inline": self.inline}

    def sized(self, declared):
        """With the sizes of arrays as numbers; 0 is an array of a parameter, of any size."""
        return {**declared, "array": [self.evaluate(size) if size else 0 for size in declared["array"]]}

    def defaults(self):
        """[{name, struct, values}] of the initialisers, and of WEFT_LOSS_SCALER_DEFAULT, which has none."""
        found = []
        for name, (kind, body) in self.initialisers.items():
            match = re.search(r"all = (\{.*\}|\w+);", body)
            found.append({"name": f"{name}_init", "struct": kind, "values": self.initial(kind, match[1] if match else "{}")})
        found.append({"name": "WEFT_LOSS_SCALER_DEFAULT", "struct": "weft_loss_scaler",
                      "values": self.initial("weft_loss_scaler", "WEFT_LOSS_SCALER_DEFAULT")})
        return found

    def initial(self, kind, text):
        inside = self.macros.get(text, text).strip()[1:-1].strip()
        parts = [part.strip() for part in re.sub(r"\{[^{}]*\}", "0", inside).split(",") if part.strip()]
        return {field["name"]: 0 if part.startswith("sizeof") else self.evaluate(part)
                for field, part in zip(self.structs[kind], parts)}


def lay_out(structs, callbacks, enums):
    """Adds the fields' offsets and the structs' sizes."""
    by_name, done = {struct["name"]: struct for struct in structs}, {}

    def measure(name):
        if name in SIZES:
            return SIZES[name], SIZES[name]
        if name in callbacks:
            return POINTER, POINTER
        if name in enums:
            return 4, 4
        if name not in done:
            offset, alignment = 0, 1
            for field in by_name[name]["fields"]:
                size, align = (POINTER, POINTER) if field["pointers"] else measure(field["type"])
                offset = (offset + align - 1) // align * align
                field["offset"] = offset
                for count in field["array"]:
                    size *= count
                offset += size
                alignment = max(alignment, align)
            by_name[name]["size"] = (offset + alignment - 1) // alignment * alignment
            done[name] = by_name[name]["size"], alignment
        return done[name]

    for struct in structs:
        measure(struct["name"])
    return structs


def check_c(api):
    """A program that compiles if sizes, offsets, values and functions are those of the headers."""
    out = ["#include <stddef.h>", "#include <stdio.h>", "#include <weft/weft.h>"]
    for header in ("build", "mpi"):
        if any(function["header"] == f"weft/{header}.h" for function in api["functions"]):
            out.append(f"#include <weft/{header}.h>")
    for struct in api["structs"]:
        out.append(f"_Static_assert(sizeof({struct['name']}) == {struct['size']}, \"{struct['name']}\");")
        for field in struct["fields"]:
            member = f"offsetof({struct['name']}, {field['name']})"
            out.append(f"_Static_assert({member} == {field['offset']}, \"{struct['name']}.{field['name']}\");")
    for enum in api["enums"]:
        out += [f"_Static_assert({name} == {value}, \"{name}\");" for name, value in enum["values"].items()]
    out += [f"_Static_assert({name} == {value}, \"{name}\");" for name, value in api["constants"].items() if isinstance(value, int)]
    # Declared once more: the compiler refuses what differs.
    for function in api["functions"]:
        parameters = ", ".join(parameter["c"] if parameter["pointers"] or parameter["array"] else
                               f"{parameter['type']} {parameter['name']}" for parameter in function["parameters"])
        out.append(f"{function['result']} ({function['name']})({parameters or 'void'});") # some are macros, too
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--check-c"] and len(arguments) == 2:
        sys.stdout.write(check_c(json.loads(Path(arguments[1]).read_text(encoding="utf-8"))))
    elif arguments and not arguments[0].startswith("-"):
        json.dump(Headers(arguments).describe(), sys.stdout, indent=1)
        print()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
