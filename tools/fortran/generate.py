#!/usr/bin/env python3
"""Writes the Fortran module `weft` from api.json: docs/languages.md says how names and arguments follow.

usage: generate.py [--sizes-c | --sizes-f90] API.json     writes to standard output

--sizes-c, --sizes-f90: instead of the module, a test that compares the sizes of all structs with C's.
"""
import json
import re
import sys
import zlib
from pathlib import Path

SCALARS = {"int": "integer(c_int)", "unsigned": "integer(c_int)", "int64_t": "integer(c_int64_t)",
           "uint64_t": "integer(c_int64_t)", "size_t": "integer(c_size_t)", "double": "real(c_double)", "float": "real(c_float)",
           "bool": "logical(c_bool)", "char": "character(kind=c_char)"}
# Inline functions of C without a counterpart, and why.
LEFT_OUT = {"weft_init_mpi": "weft_init_mpi of the module takes a communicator of Fortran",
            "weft_init_mpi_fortran": "the module's weft_init_mpi", "weft_init_communicator": "the module's weft_init_mpi",
            "weft_kernel_error_set": "a function of C with any number of arguments",
            "weft_view_number": "kernels", "weft_local_number": "kernels", "weft_random_words": "kernels",
            "weft_random_uniform": "kernels", "weft_random_uniform_f32": "kernels"}
COUNTS = {"n", "ndim", "num", "max", "num_dims", "num_sizes", "num_names", "num_inputs", "num_outputs", "num_boxes",
          "num_tensors", "num_entries"}
# Counts that no array of the call gives.
KEPT_COUNTS = {("weft_from_local_ex", "ndim")}
# Arguments that may be absent, beside meshes, placements, names, options, contexts, files and outputs by pointer.
OPTIONAL = {"weft_gradients": {"output_gradients"},
            "weft_layer_norm": {"gain", "bias"}, "weft_rms_norm": {"gain"}, "weft_linear": {"bias"}, "weft_conv1d": {"bias"},
            "weft_conv2d": {"bias"}, "weft_conv3d": {"bias"}, "weft_conv_transpose1d": {"bias", "output_padding"},
            "weft_conv_transpose2d": {"bias", "output_padding"}, "weft_conv_transpose3d": {"bias", "output_padding"}, "weft_sgd": {"momenta"}, "weft_graph_call": {"inputs", "scalars"},
            "weft_mesh_flatten": {"name"}, "weft_random_state_use": {"name"}, "weft_random_state_get": {"name"},
            "weft_random_state_set": {"name"}, "weft_set_grad_hook": {"hook"}, "weft_recompute": {"context_size"}, "weft_custom_gradient": {"context_size"}, "weft_here": {"file"},
            "weft_distribute_module": {"partition", "input", "output"}, "weft_module_set_tensor": {"tensor"},
            "weft_module_add_parameter": {"tensor"}, "weft_module_add_buffer": {"tensor"},
            "weft_from_local": {"flags"}, "weft_from_local_even": {"flags"}, "weft_from_dlpack": {"flags"},
            "weft_from_dlpack_unversioned": {"flags"}, "weft_to_dlpack": {"flags"}, "weft_to_dlpack_unversioned": {"flags"},
            "weft_distribute": {"global"}}
# Further conditions on sizes of arrays; a call that breaks one fails with WEFT_ERR_INVALID.
SIZES = {"weft_from_ghosted": "size(locals) == weft_local_ranks()",
         "weft_from_local": "size(locals) == weft_local_ranks()", "weft_from_local_even": "size(locals) == weft_local_ranks()",
         "weft_from_dlpack": "size(locals) == weft_local_ranks()",
         "weft_from_dlpack_unversioned": "size(locals) == weft_local_ranks()"}
RENAMED = {"size": "dim_size"}  # dummies that would hide an intrinsic function


class Api:
    """What api.json says, in the form that the module is made from."""

    def __init__(self, file):
        api = json.loads(Path(file).read_text(encoding="utf-8"))
        self.api = api
        self.handles = [handle["name"] for handle in api["handles"]]
        self.enum_names = [enum["name"] for enum in api["enums"] if enum["name"]]
        self.structs = {struct["name"]: [self.declared(field) for field in struct["fields"]] for struct in api["structs"]}
        self.callbacks = {each["name"]: (each["result"], [self.declared(parameter) for parameter in each["parameters"]])
                          for each in api["callbacks"]}
        self.functions = [(re.sub(r"struct DL\w+", "void", each["result"]), each["name"],
                           [self.declared(parameter) for parameter in each["parameters"]]) for each in api["functions"]]

    def declared(self, each):
        """(type without pointers, pointers, name, sizes of the array, is const). Structs of other libraries are pointers alone."""
        kind = "void" if each["type"].startswith("DL") else each["type"]
        return kind, each["pointers"], each["name"], [str(size or "") for size in each["array"]], each["const"]

    def constants(self):
        """[(name, value)]; a text is in quotation marks. Names that differ from a procedure's by capitals alone are changed."""
        ordered, taken = [], {name for _, name, _ in self.functions} | set(self.structs) | set(self.handles)
        for enum in self.api["enums"]:
            for name, value in enum["values"].items():
                ordered.append((name if name.lower() not in taken else enum["name"].upper() + name[len("WEFT"):], value))
        for name, value in self.api["constants"].items():
            if not isinstance(value, str):
                ordered.append((name, value))
            elif name.startswith("WEFT_VERSION"):
                ordered.append((name if name.lower() not in taken else name + "_TEXT", f'"{value}"'))
        return ordered

    def defaults(self):
        """{struct: {field: value}} of the types' own values; further ones under their own names."""
        found = {}
        for each in self.api["defaults"]:
            own = each["name"] in (f"{each['struct']}_init", "WEFT_LOSS_SCALER_DEFAULT")
            found[each["struct"] if own else each["name"].removesuffix("_init")] = each["values"]
        return found

    def struct_of(self, name):
        return next(each["struct"] for each in self.api["defaults"] if each["name"] == f"{name}_init")


class Module:
    def __init__(self, headers):
        self.headers = headers
        self.lines = []
        self.interfaces = []
        self.procedures = []
        self.public = []

    # ---- types ----
    def base(self, kind):
        if kind in SCALARS:
            return SCALARS[kind]
        if kind in self.headers.enum_names:
            return "integer(c_int)"
        if kind in self.headers.structs or kind in self.headers.handles:
            return f"type({kind})"
        raise SystemExit(f"generate.py: no Fortran type for {kind}")

    def component(self, field, default):
        kind, stars, name, sizes, _ = field
        if kind in self.headers.callbacks:
            return f"type(c_funptr) :: {name} = c_null_funptr"
        if stars == 1 and kind in self.headers.handles:
            return f"type({kind}) :: {name}"
        if stars:
            return f"type(c_ptr) :: {name} = c_null_ptr"
        shape = "".join(f"({size})" for size in sizes)
        kind_text = self.base(kind)
        if kind_text.startswith("type("):
            return f"{kind_text} :: {name}{shape}"
        if kind_text.startswith("logical"):
            value = ".true._c_bool" if default else ".false._c_bool"
        elif kind_text.startswith("character"):
            value = "c_null_char"
        elif kind_text.startswith("real"):
            value = f"{float(default or 0)!r}".replace("e", "d") + ("" if "e" in repr(float(default or 0)) else "_c_double")
        else:
            value = str(default or 0)
            value += "_" + re.search(r"\((\w+)\)", kind_text)[1]
        return f"{kind_text} :: {name}{shape} = {value}"

    def types(self):
        write = self.lines.append
        defaults = self.headers.defaults()
        for name in self.headers.handles:
            write(f"type, bind(C), public :: {name}\n  type(c_ptr) :: handle = c_null_ptr\nend type")
        for name, fields in self.ordered_structs():
            values = defaults.get(name, {})
            write(f"type, bind(C), public :: {name}")
            for field in fields:
                write("  " + self.component(field, values.get(field[2])))
            write("end type")
        for name in set(defaults) - set(self.headers.structs):
            kind = self.headers.struct_of(name)
            fields = self.headers.structs[kind]
            given = ", ".join(f"{field[2]}={defaults[name].get(field[2], 0)}_{'c_size_t' if field[0] == 'size_t' else 'c_double'}"
                              for field in fields)
            write(f"type({kind}), parameter, public :: {name.upper().replace('_OPTIONS', '_DEFAULT')} = &\n  {kind}({given})")

    def ordered_structs(self):
        """Each after those that it contains."""
        done, ordered = set(), []

        def visit(name):
            if name in done:
                return
            done.add(name)
            for kind, stars, *_ in self.headers.structs[name]:
                if not stars and kind in self.headers.structs:
                    visit(kind)
            ordered.append((name, self.headers.structs[name]))

        for name in self.headers.structs:
            if name != "weft_communicator":
                visit(name)
        return ordered

    def abstract(self):
        out = ["abstract interface"]
        for name, (result, parameters) in self.headers.callbacks.items():
            head = "function" if result != "void" else "subroutine"
            names = ", ".join(parameter[2] for parameter in parameters)
            out.append(f"  {head} {name}({names}) bind(C)\n    import")
            for kind, stars, dummy, sizes, const in parameters:
                array = "(*)" if sizes else ""
                intent = "intent(in)" if const else "intent(inout)"
                if kind == "void" or kind == "char":
                    text = "type(c_ptr), value"
                elif kind in self.headers.handles and (stars > 1 or array):
                    text = f"type({kind}), {intent}"
                elif stars and kind in self.headers.handles:
                    text = f"type({kind}), value"
                elif stars or array:
                    text = f"{self.base(kind)}, {intent}"
                else:
                    text = f"{self.base(kind)}, value"
                out.append(f"    {text} :: {dummy}{array}")
            if result != "void":
                out.append(f"    integer(c_int) :: {name}")
            out.append(f"  end {head}")
            self.public.append(name)
        out.append("end interface")
        self.lines += out

    # ---- functions ----
    def function(self, result, name, parameters):
        wide = any(kind == "int64_t" and (stars == 0) for kind, stars, *_ in parameters)
        optional_only = all(parameter[2] in OPTIONAL.get(name, ()) for parameter in parameters
                            if parameter[0] == "int64_t" and parameter[1] == 0)
        if wide and not optional_only:
            self.wrapper(result, name, parameters, "_i8", "c_int64_t")
            self.wrapper(result, name, parameters, "_i4", "c_int32_t")
            self.lines.append(f"interface {name}\n  module procedure {name}_i8, {name}_i4\nend interface")
        else:
            self.wrapper(result, name, parameters, "", "c_int64_t")
        self.public.append(name)

    def wrapper(self, result, name, parameters, suffix, kind64):
        call = Call(self, name, parameters, kind64)
        interface_result, is_function = call.result(result)
        if suffix in ("", "_i8"):
            head = "function" if result != "void" else "subroutine"
            self.interfaces.append(f"{head} c_{name}({', '.join(parameter[2] for parameter in parameters)}) &\n"
                                   f"    bind(C, name=\"{name}\")" +
                                   (" result(r)" if result != "void" else "") + "\n  import")
            self.interfaces += ["  " + line for line in call.interface]
            if result != "void":
                self.interfaces.append(f"  {interface_result} :: r")
            self.interfaces.append(f"end {head}")
        head = "function" if is_function else "subroutine"
        self.procedures.append(
            f"{head} {name}{suffix}({', '.join(call.dummies)})" + (" result(r)" if is_function else ""))
        self.procedures += ["  " + line for line in call.declarations + call.before]
        self.procedures += ["  " + line for line in call.call + call.after]
        self.procedures.append(f"end {head}")

    def text(self):
        self.all_constants = self.headers.constants()
        for name, value in self.all_constants:
            if isinstance(value, str):
                self.lines.append(f"character(*), parameter, public :: {name} = {value}")
            else:
                shown = str(value) if value > -2147483648 else "-2147483647 - 1"
                self.lines.append(f"integer(c_int), parameter, public :: {name} = {shown}")
        self.types()
        self.abstract()
        special = Path(__file__).with_name("special.f90").read_text(encoding="utf-8")
        by_hand = set(re.findall(r"^(?:elemental )?(?:function|subroutine) (weft_\w+)", special, re.MULTILINE))
        names = {name for _, name, _ in self.headers.functions}
        for result, name, parameters in self.headers.functions:
            if name in by_hand or name in LEFT_OUT:
                continue
            self.function(result, name, parameters)
        if "weft_init_mpi_fortran" not in names:
            special = re.sub(r"! ---- MPI\n.*?! ---- end of MPI\n", "", special, flags=re.DOTALL)
        self.public += sorted(name for name in by_hand if f" {name}(" in special)
        shims, bodies = special.split("! ==== procedures\n")
        out = ["! Made from the headers of weft. Compile it with the program's own compiler where that is another one.",
               "module weft", "use, intrinsic :: iso_c_binding", "implicit none", "private"]
        out += [f"public :: {name}" for name in self.public]
        out += self.lines + ["type(c_ptr), save :: c_stdout = c_null_ptr", "interface"]
        out += self.interfaces + [shims, "end interface", "contains"] + self.procedures + [bodies, "end module"]
        return "\n".join(folded(line) for line in "\n".join(out).split("\n")) + "\n"


def folded(line):
    """Lines of at most 132 characters."""
    out = ""
    while len(line) > 120:
        cut = max(line.rfind(", ", 0, 118) + 2, line.rfind(" .and. ", 0, 112) + 7)
        if cut < 10:
            raise SystemExit(f"generate.py: cannot fold {line}")
        out += line[:cut] + "&\n"
        line = "      " + line[cut:]
    return out + line


class Call:
    """How one procedure of the module calls one function of C."""

    def __init__(self, module, name, parameters, kind64):
        self.module, self.name, self.parameters, self.kind64 = module, name, parameters, kind64
        self.interface, self.dummies, self.declarations, self.before, self.after = [], [], [], [], []
        self.locals, self.actuals, self.call, self.optional_dummies = [], [], [], []
        self.optional = OPTIONAL.get(name, set())
        counted = self.counts()
        position = 0
        while position < len(parameters):
            kind, stars, dummy, sizes, const = parameters[position]
            following = [parameter[:3] for parameter in parameters[position:position + 3]]
            if following == [("char", 1, "text"), ("size_t", 0, "size"), ("size_t", 1, "length")]:
                self.text_output()
                position += 3
                continue
            if kind in module.headers.structs and following[1:2] == [("size_t", 0, "size")]:
                self.argument(*parameters[position])
                self.interface.append("integer(c_size_t), value :: size")
                self.actuals.append(f"c_sizeof({RENAMED.get(dummy, dummy)})")
                position += 2
                continue
            if dummy in counted:
                self.interface.append(f"integer(c_int), value :: {dummy}")
                self.actuals.append(counted[dummy])
            else:
                self.argument(*parameters[position])
            position += 1
        self.declarations += self.locals

    def counts(self):
        """{count's name: expression}: the size of the first array after it, or -1 where the others differ."""
        found = {}
        for position, (kind, stars, dummy, sizes, _) in enumerate(self.parameters):
            if kind != "int" or stars or sizes or dummy not in COUNTS or (self.name, dummy) in KEPT_COUNTS:
                continue
            arrays = []
            for other in self.parameters[position + 1:]:
                if other[0] == "int" and other[2] in COUNTS:
                    break
                if (other[3] or other[2] == "out") and other[2] not in ("strides", "locals") and not (other[3] and other[3][0]):
                    arrays.append(other[2])
            if not arrays:
                continue
            if dummy == "n" and self.name == "weft_split":
                arrays = ["sizes", "outputs"]
            first = arrays[0]
            conditions = [f"size({first}) == size({other})" for other in arrays[1:] if not self.may_be_absent(other)]
            conditions += [f"fits_{self.family(other)}({other}, size({first}))" for other in arrays[1:] if self.may_be_absent(other)]
            if self.name in SIZES and dummy == "ndim":
                conditions.append(SIZES[self.name])
            found[dummy] = f"merge(size({first}), -1, {' .and. '.join(conditions)})" if conditions else f"size({first})"
        return found

    def family(self, dummy):
        kind = next(parameter[0] for parameter in self.parameters if parameter[2] == dummy)
        return {"char": "text", "weft_tensor": "tensor"}[kind]

    def may_be_absent(self, dummy):
        return dummy in self.optional or dummy == "names" and self.name.startswith("weft_mesh_") and "submesh" not in self.name

    def dummy(self, name, text, shape="", optional=False):
        """A dummy argument; those that may be absent come where they stand in C."""
        name = RENAMED.get(name, name)
        self.dummies.append(name)
        self.declarations.append(f"{text}{', optional' if optional else ''} :: {name}{shape}")
        return name

    def argument(self, kind, stars, dummy, sizes, const):
        headers, given = self.module.headers, dummy in self.optional
        shown = RENAMED.get(dummy, dummy)
        if kind in headers.callbacks:
            self.interface.append(f"type(c_funptr), value :: {dummy}")
            self.dummy(dummy, f"procedure({kind})", optional=given)
            self.pointer(shown, "c_funptr", f"c_funloc({shown})", given)
        elif kind == "FILE":
            self.interface.append(f"type(c_ptr), value :: {dummy}")
            self.dummy(dummy, "type(c_ptr), intent(in)", optional=True)
            self.locals.append(f"type(c_ptr) :: {shown}_p")
            self.before += [f"{shown}_p = standard_output()", f"if (present({shown})) {shown}_p = {shown}"]
            self.actuals.append(f"{shown}_p")
            self.after.append(f"if (c_fflush({shown}_p) /= 0) continue")
        elif kind == "void":
            self.memory(stars, dummy, sizes)
        elif kind == "char":
            self.texts(dummy, stars, sizes)
        elif kind in headers.handles:
            self.handle(kind, stars, dummy, sizes, const)
        elif kind == "weft_placement" and stars == 1 and const and not sizes:
            self.interface.append(f"type(c_ptr), value :: {dummy}")
            self.dummy(dummy, "type(weft_placement), intent(in)", "(:)", True)
            self.locals += [f"type(weft_placement), target :: {dummy}_(WEFT_MAX_DIMS)", f"type(c_ptr) :: {dummy}_p"]
            self.before += [f"{dummy}_p = c_null_ptr", f"if (present({dummy})) then", f"  call fill_placements({dummy}, {dummy}_)",
                            f"  {dummy}_p = c_loc({dummy}_)", "end if"]
            self.actuals.append(f"{dummy}_p")
        elif kind == "weft_scalar" and not stars:
            self.interface.append(f"type(weft_scalar), value :: {dummy}")
            self.actuals.append(f"to_scalar({self.dummy(dummy, 'class(*), intent(in)')})")
        elif kind in headers.structs:
            self.struct(kind, stars, dummy, sizes, const)
        else:
            self.number(kind, stars, dummy, sizes, const)

    def pointer(self, shown, kind, value, given):
        self.locals.append(f"type({kind}) :: {shown}_p")
        null = "c_null_funptr" if kind == "c_funptr" else "c_null_ptr"
        self.before += [f"{shown}_p = {null}", f"{f'if (present({shown})) ' if given else ''}{shown}_p = {value}"]
        self.actuals.append(f"{shown}_p")

    # Without INTENT(IN), as structs that lead to memory: gfortran -O3 takes it as a promise that this memory does not change later either.
    def memory(self, stars, dummy, sizes):
        if sizes:
            self.interface.append(f"type(c_ptr) :: {dummy}(*)")
            self.actuals.append(self.dummy(dummy, "type(c_ptr)", "(:)"))
        else:
            self.interface.append(f"type(c_ptr), value :: {dummy}")
            given = dummy in self.optional or dummy == "context"
            self.dummy(dummy, "type(c_ptr)", optional=given)
            self.pointer(dummy, "c_ptr", dummy, given)

    def texts(self, dummy, stars, sizes):
        given = self.may_be_absent(dummy)
        if sizes:
            self.interface.append(f"type(c_ptr), value :: {dummy}")
            self.dummy(dummy, "character(*), intent(in)", "(:)", given)
            self.locals += [f"character(kind=c_char), allocatable, target :: {dummy}_(:, :)",
                            f"type(c_ptr), allocatable, target :: {dummy}_a(:)", f"type(c_ptr) :: {dummy}_p"]
            self.before += [f"{dummy}_p = c_null_ptr", *([f"if (present({dummy})) then"] if given else []),
                            f"allocate({dummy}_(len({dummy}) + 1, size({dummy})), {dummy}_a(size({dummy})))",
                            f"call c_texts({dummy}, {dummy}_, {dummy}_a)", f"{dummy}_p = c_loc({dummy}_a)",
                            *(["end if"] if given else [])]
            self.actuals.append(f"{dummy}_p")
            return
        self.interface.append(f"type(c_ptr), value :: {dummy}")
        self.dummy(dummy, "character(*), intent(in)", optional=given)
        self.locals += [f"character(kind=c_char), allocatable, target :: {dummy}_(:)", f"type(c_ptr) :: {dummy}_p"]
        self.before += [f"{dummy}_p = c_null_ptr", *([f"if (present({dummy})) then"] if given else []),
                        f"{dummy}_ = c_text({dummy})", f"{dummy}_p = c_loc({dummy}_)", *(["end if"] if given else [])]
        self.actuals.append(f"{dummy}_p")

    def handle(self, kind, stars, dummy, sizes, const):
        given = dummy in self.optional
        if sizes:
            intent = "intent(in)" if const else "intent(inout)"
            self.interface.append(f"type({kind}), {intent}{', optional' if given else ''} :: {dummy}(*)")
            self.actuals.append(self.dummy(dummy, f"type({kind}), {intent}", "(:)", given))
        elif stars == 2:
            self.interface.append(f"type({kind}), intent(out), optional :: {dummy}")
            self.actuals.append(self.dummy(dummy, f"type({kind}), intent(out)", optional=True))
        else:
            given = given or kind == "weft_mesh" and any(parameter[2] in ("placements", "partition") for parameter in self.parameters)
            self.interface.append(f"type(c_ptr), value :: {dummy}")
            self.dummy(dummy, f"type({kind}), intent(in)", optional=given)
            if given:
                self.pointer(dummy, "c_ptr", f"{dummy}%handle", True)
            else:
                self.actuals.append(f"{dummy}%handle")

    def struct(self, kind, stars, dummy, sizes, const):
        if stars == 0 and not sizes:
            self.interface.append(f"type({kind}), value :: {dummy}")
            self.actuals.append(self.dummy(dummy, f"type({kind}), intent(in)"))
            return
        leads_to_memory = any(field[0] == "void" and field[1] and not field[4] for field in self.module.headers.structs[kind])
        intent = "" if leads_to_memory else ", intent(in)" if const else ", intent(inout)"
        given = const and not sizes and (dummy in ("options", "config"))
        shape = "(:)" if sizes else ""
        self.interface.append(f"type({kind}){intent}{', optional' if given else ''} :: {dummy}{'(*)' if sizes else ''}")
        self.actuals.append(self.dummy(dummy, f"type({kind}){intent}", shape, given))

    def number(self, kind, stars, dummy, sizes, const):
        text, shown, given = self.module.base(kind), RENAMED.get(dummy, dummy), dummy in self.optional
        if stars or sizes:
            self.numbers(kind, text, dummy, sizes, const, given)
            return
        self.interface.append(f"{text}, value :: {dummy}")
        if kind == "bool":
            self.dummy(dummy, "logical, intent(in)")
            self.actuals.append(f"logical({shown}, c_bool)")
        elif kind == "int64_t":
            self.dummy(dummy, f"integer({self.kind64}), intent(in)")
            self.actuals.append(f"int({shown}, c_int64_t)")
        elif given:
            self.dummy(dummy, f"{text}, intent(in)", optional=True)
            self.locals.append(f"{text} :: {shown}_v")
            self.before += [f"{shown}_v = 0", f"if (present({shown})) {shown}_v = {shown}"]
            self.actuals.append(f"{shown}_v")
        else:
            self.actuals.append(self.dummy(dummy, f"{text}, intent(in)"))

    def numbers(self, kind, text, dummy, sizes, const, given):
        if not sizes and kind == "bool":
            self.interface.append(f"logical(c_bool), intent(out) :: {dummy}")
            self.dummy(dummy, "logical, intent(out)")
            self.locals.append(f"logical(c_bool) :: {dummy}_v")
            self.before.append(f"{dummy}_v = .false.")
            self.after.append(f"{dummy} = {dummy}_v")
            self.actuals.append(f"{dummy}_v")
        elif not sizes:
            self.interface.append(f"{text}, intent(inout) :: {dummy}")
            self.actuals.append(self.dummy(dummy, f"{text}, intent(inout)"))
        elif kind == "int64_t" and not const:  # one for each dimension
            self.interface.append(f"{text}, intent(inout) :: {dummy}(*)")
            self.dummy(dummy, f"integer({self.kind64}), intent(out)", "(:)")
            self.locals.append(f"{text} :: {dummy}_(WEFT_MAX_DIMS)")
            self.before.append(f"{dummy}_ = 0")
            self.after += [f"{dummy} = 0", f"{dummy}(:min(size({dummy}), WEFT_MAX_DIMS)) = "
                           f"int({dummy}_(:min(size({dummy}), WEFT_MAX_DIMS)), {self.kind64})"]
            self.actuals.append(f"{dummy}_")
        else:
            intent = "intent(in)" if const else "intent(inout)"
            self.interface.append(f"{text}, {intent}{', optional' if given else ''} :: {dummy}(*)")
            self.dummy(dummy, f"{text if kind != 'int64_t' else f'integer({self.kind64})'}, {intent}",
                       f"({sizes[0] or ':'})", given)
            if kind != "int64_t":
                self.actuals.append(dummy)
            elif not given:
                self.actuals.append(f"int({dummy}, c_int64_t)")
            else:  # unallocated is absent
                self.locals.append(f"{text}, allocatable :: {dummy}_(:)")
                self.before.append(f"if (present({dummy})) {dummy}_ = {dummy}")
                self.actuals.append(f"{dummy}_")

    def text_output(self):
        self.interface += ["type(c_ptr), value :: text", "integer(c_size_t), value :: size",
                           "integer(c_size_t), intent(inout) :: length"]
        self.dummies.append("text")
        self.declarations.append("character(:), allocatable, intent(out) :: text")
        self.locals += ["character(kind=c_char), allocatable, target :: text_(:)", "integer(c_size_t) :: length"]
        self.text = True
        self.actuals += ["c_null_ptr", "0_c_size_t", "length"]

    def result(self, result):
        """Completes the call; (C's result in the interface, whether the procedure is a function)."""
        name, actuals = self.name, ", ".join(self.actuals)
        plain = result.replace("const ", "")
        if hasattr(self, "text"):
            self.before.append("length = 0")
            second = actuals.replace("c_null_ptr, 0_c_size_t", "c_loc(text_), size(text_, kind=c_size_t)")
            self.call = [f"code = c_{name}({actuals})", "allocate(text_(length + 1))", "text_ = c_null_char",
                         f"if (code == WEFT_OK) code = c_{name}({second})", "text = f_text(text_)"]
            self.status()
            return "integer(c_int)", False
        if plain == "weft_status" and name != "weft_last_status":
            self.call = [f"code = c_{name}({actuals})"]
            self.status()
            return "integer(c_int)", False
        if plain == "void":
            self.call = [f"call c_{name}({actuals})"]
            return "", False
        if plain.endswith("*"):
            return self.pointer_result(plain[:-1].strip(), actuals)
        kind = self.module.base(plain)
        self.declarations.append(f"{'logical' if plain == 'bool' else kind} :: r")
        self.call = [f"r = c_{name}({actuals})"]
        return kind, True

    def status(self):
        self.dummies.append("status")
        self.declarations.append("integer(c_int), intent(out), optional :: status")
        self.declarations.append("integer(c_int) :: code")
        self.after.append("if (present(status)) status = code")

    def pointer_result(self, kind, actuals):
        name = self.name
        if kind == "char":
            self.declarations.append("character(:), allocatable :: r")
            self.call = [f"r = f_pointer_text(c_{name}({actuals}))"]
        elif kind == "void":
            self.declarations.append("type(c_ptr) :: r")
            self.call = [f"r = c_{name}({actuals})"]
        elif name.endswith("_inplace"):
            self.status()
            self.after.insert(0, "code = WEFT_OK")
            self.after.insert(1, "if (.not. c_associated(changed)) code = c_weft_last_status()")
            self.declarations.append("type(c_ptr) :: changed")
            self.call = [f"changed = c_{name}({actuals})"]
            return "type(c_ptr)", False
        else:
            self.declarations.append(f"type({kind}) :: r")
            self.call = [f"r%handle = c_{name}({actuals})"]
        return "type(c_ptr)", True


def sizes(headers, language):
    names = [name for name, _ in Module(headers).ordered_structs()]
    if language == "c":
        rows = "".join(f"    sizeof({name}),\n" for name in names)
        return ("#include <stddef.h>\n#include <weft/weft.h>\n\nsize_t weft_size_in_c(int i);\nsize_t weft_size_in_c(int i)\n{\n"
                f"    static const size_t sizes[] = {{\n{rows}    }};\n    return sizes[i];\n}}\n")
    # Another text for another module, so that an incremental build compiles it again.
    digest = zlib.crc32(Module(headers).text().encode())
    out = [f"! module {digest:08x}", "subroutine check_sizes(failed)", "use, intrinsic :: iso_c_binding", "use weft", "implicit none",
           "integer, intent(inout) :: failed", "interface", "function size_in_c(i) bind(C, name='weft_size_in_c')", "import",
           "integer(c_int), value :: i", "integer(c_size_t) :: size_in_c", "end function", "end interface"]
    out += [f"type({name}) :: v{i}" for i, name in enumerate(names)]
    for i, name in enumerate(names):
        out += [f"if (c_sizeof(v{i}) /= size_in_c({i})) then", "failed = failed + 1",
                f"print *, '{name}:', c_sizeof(v{i}), 'bytes, in C', size_in_c({i})", "end if"]
    return "\n".join([*out, "end subroutine"]) + "\n"


def main():
    arguments = sys.argv[1:]
    headers = Api(arguments[-1])
    if "--sizes-c" in arguments or "--sizes-f90" in arguments:
        sys.stdout.write(sizes(headers, "c" if "--sizes-c" in arguments else "f90"))
    else:
        sys.stdout.write(Module(headers).text())


if __name__ == "__main__":
    main()
