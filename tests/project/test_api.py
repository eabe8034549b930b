"""The binary interface (ABI): what a program was compiled with against the last release is still there, or the library has another soname.

usage: test_api.py API.json abi.json SOVERSION
       PYTHONPATH=tests/support test_api.py --write API.json abi.json SOVERSION     after SOVERSION has changed, or something was added
"""
import json
import sys
import unittest
from pathlib import Path

import cases


def summary(api, soversion):
    """What compiled programs depend on."""
    def form(declared):
        return declared["type"] + "*" * (declared["pointers"] + (1 if declared["array"] else 0))

    # A struct whose size the program passes may get more fields.
    sized = {struct["name"] for struct in api["structs"] if any(field["name"] == "size" for field in struct["fields"])}
    for function in api["functions"]:
        parameters = function["parameters"]
        sized |= {first["type"] for first, second in zip(parameters, parameters[1:])
                  if first["pointers"] == 1 and (second["name"], second["type"]) == ("size", "size_t")}
    return {
        "soversion": soversion,
        "functions": {each["name"]: f"{each['result']} ({', '.join(map(form, each['parameters']))})" for each in api["functions"]},
        "callbacks": {each["name"]: f"{each['result']} ({', '.join(map(form, each['parameters']))})" for each in api["callbacks"]},
        "structs": {each["name"]: {
            "size": each["size"], "grows": each["name"] in sized,
            "fields": {field["name"]: f"{field['offset']}: {field['type']}{'*' * field['pointers']}"
                                      f"{''.join(f'[{count}]' for count in field['array'])}" for field in each["fields"]}}
            for each in api["structs"]},
        "values": {name: value for each in api["enums"] for name, value in each["values"].items()},
    }


def differences(old, new):
    """Sentences about what a program that was compiled with `old` meets in `new`."""
    found = []
    for kind in ("functions", "callbacks", "values"):
        for name, was in old[kind].items():
            now = new[kind].get(name)
            if now != was:
                found.append(f"{name} was {was}, is {now if now is not None else 'gone'}")
    for name, was in old["structs"].items():
        now = new["structs"].get(name)
        if now is None:
            found.append(f"{name} is gone")
            continue
        for field, place in was["fields"].items():
            if now["fields"].get(field) != place:
                found.append(f"{name}.{field} was at {place}, is at {now['fields'].get(field, 'no place')}")
        if now["size"] != was["size"] and not (was["grows"] and now["size"] > was["size"]):
            found.append(f"{name} had {was['size']} bytes, has {now['size']}")
    return found


class Interface(unittest.TestCase):
    def test_programs_of_the_last_release_run(self):
        api, soversion = json.loads(Path(API).read_text(encoding="utf-8")), SOVERSION
        old, new = json.loads(Path(ABI).read_text(encoding="utf-8")), summary(api, soversion)
        self.assertEqual(old["soversion"], soversion, f"write {ABI} for this soname: test_api.py --write")
        if "weft_init_communicator" not in new["functions"]: # a build without MPI has no <weft/mpi.h>
            for kind in ("functions", "structs"):
                old[kind] = {name: was for name, was in old[kind].items() if "communicator" not in name and "init_mpi" not in name}
        self.assertEqual(differences(old, new), [], "programs that are compiled already would break: raise the version")

    def test_that_differences_are_seen(self):
        old = json.loads(Path(ABI).read_text(encoding="utf-8"))
        new = json.loads(json.dumps(old))
        self.assertEqual(differences(old, new), [])
        del new["functions"]["weft_add"]
        new["functions"]["weft_scale"] = "weft_tensor * (weft_tensor*, double)"
        new["structs"]["weft_config"]["size"] += 8 # its size is passed: it may grow
        new["structs"]["weft_config"]["fields"]["seed"] = "8: uint64_t"
        new["structs"]["weft_box"]["size"] += 8
        new["values"]["WEFT_I32"] += 1
        self.assertEqual({sentence.split()[0] for sentence in differences(old, new)},
                         {"weft_add", "weft_scale", "WEFT_I32", "weft_config.seed", "weft_box"})


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        text = json.dumps(summary(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), sys.argv[4]), indent=1)
        Path(sys.argv[3]).write_text(text + "\n", encoding="utf-8")
    else:
        API, ABI, SOVERSION = sys.argv[1:4]
        cases.main(Interface)
