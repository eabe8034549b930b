/* Checks the inputs of a call: one mesh, and types that the operation takes. */
#include <stdio.h>

#include "base/text.h"
#include "sharding/sharding.h"

/* ---- meshes -------------------------------------------------------------------------------------------- */

weft_status weft_check_one_mesh(const char *first_name, const weft_layout *first, const char *other_name,
                                const weft_layout *other, char *why, size_t why_size)
{
    if (other->mesh == first->mesh) {
        return WEFT_OK;
    }
    char first_text[160], other_text[160];
    snprintf(why, why_size, "%s is on mesh %s and %s on mesh %s: weft_redistribute() one of them", first_name,
             weft_mesh_format(first->mesh, first_text, sizeof(first_text)), other_name,
             weft_mesh_format(other->mesh, other_text, sizeof(other_text)));
    return WEFT_ERR_MESH;
}

static weft_status check_meshes(const weft_call_layouts *call, char *why, size_t why_size)
{
    const weft_operation_input *described = call->operation->inputs;
    weft_status status = WEFT_OK;
    for (int i = 1; i < call->num_inputs && status == WEFT_OK; i++) {
        status = weft_check_one_mesh(described[0].name, call->inputs[0], described[i].name, call->inputs[i],
                                     why, why_size);
    }
    return status;
}

/* ---- types --------------------------------------------------------------------------------------------- */

/* "f32 or f64" */
static const char *types_text(unsigned types, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    for (int t = WEFT_DTYPE_COUNT - 1; t >= 0; t--) {
        if (types & WEFT_TYPE_BIT(t)) {
            unsigned left = types & (WEFT_TYPE_BIT(t) - 1);
            const char *between = left == 0 ? "" : (left & (left - 1)) == 0 ? " or " : ", ";
            weft_text_add(&text, "%s%s", weft_dtype_name((weft_dtype)t), between);
        }
    }
    return buffer;
}

static weft_status check_type(const weft_call_layouts *call, int input, char *why, size_t why_size)
{
    const weft_operation_input *described = &call->operation->inputs[input];
    weft_dtype type = call->inputs[input]->dtype, first = call->inputs[0]->dtype;
    if (!(described->types & WEFT_TYPE_BIT(type))) {
        char expected[120];
        snprintf(why, why_size, "%s is %s, expected %s", described->name, weft_dtype_name(type),
                 types_text(described->types, expected, sizeof(expected)));
        return WEFT_ERR_DTYPE;
    }
    if (described->type_of_first && type != first) {
        snprintf(why, why_size, "%s is %s, expected %s, the type of %s", described->name,
                 weft_dtype_name(type), weft_dtype_name(first), call->operation->inputs[0].name);
        return WEFT_ERR_DTYPE;
    }
    return WEFT_OK;
}

/* Whether the inputs that are converted to one type have one: not conditions, indices, and what is copied. */
static bool are_promoted(const weft_call_layouts *call, int refused[2])
{
    const weft_operation *operation = call->operation;
    const weft_output_type kind = operation->outputs[0].type;
    const bool elementwise = operation->kernel < WEFT_KERNEL_COUNT && weft_kernel_is_elementwise(operation->kernel) &&
                             operation->kernel != WEFT_KERNEL_assign;
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    if (!elementwise && kind != WEFT_TYPE_PROMOTED && kind != WEFT_TYPE_FLOATING && kind != WEFT_TYPE_COMPLEX) {
        return true;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        inputs[i] = operation->inputs[i].types != WEFT_TYPES_BOOL ? call->inputs[i] : NULL;
    }
    return weft_are_promoted(call->num_inputs, inputs, refused);
}

weft_status weft_call_check_types(const weft_call_layouts *call, char *why, size_t why_size)
{
    weft_status status = WEFT_OK;
    int refused[2];
    for (int i = 0; i < call->num_inputs && status == WEFT_OK; i++) {
        status = check_type(call, i, why, why_size);
    }
    if (status == WEFT_OK && call->num_inputs > 1 && !are_promoted(call, refused)) {
        const weft_operation_input *described = call->operation->inputs;
        snprintf(why, why_size, "%s is %s and %s %s, which have no common type: weft_to_type() converts one of them",
                 described[refused[0]].name, weft_dtype_name(call->inputs[refused[0]]->dtype), described[refused[1]].name,
                 weft_dtype_name(call->inputs[refused[1]]->dtype));
        return WEFT_ERR_DTYPE;
    }
    return status;
}

static weft_status check_changed(const weft_call_layouts *call, char *why, size_t why_size)
{
    weft_dtype type = weft_promoted(call->num_inputs, call->inputs);
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        if (call->operation->outputs[o].in_place && !weft_dtype_can_hold(call->inputs[o]->dtype, type)) {
            snprintf(why, why_size, "%s is %s and cannot hold the result, which is %s",
                     call->operation->inputs[o].name, weft_dtype_name(call->inputs[o]->dtype),
                     weft_dtype_name(type));
            return WEFT_ERR_DTYPE;
        }
    }
    return WEFT_OK;
}

weft_status weft_call_check_inputs(const weft_call_layouts *call, char *why, size_t why_size)
{
    weft_status status = weft_call_check_types(call, why, why_size);
    status = status == WEFT_OK ? check_changed(call, why, why_size) : status;
    return status == WEFT_OK ? check_meshes(call, why, why_size) : status;
}
