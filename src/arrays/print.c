/* Tensors as text: weft_tensor_print() prints dtype, shape, placements, mesh, and the values in nested
 * brackets, long dimensions abbreviated. */
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "codelets/half.h"
#include "layout/drawing.h"
#include "tensor/actions.h"

enum { EDGE = 3, LONGEST = 8 }; /* a dimension longer than LONGEST shows EDGE entries at both ends */

static void print_value(FILE *file, weft_dtype dtype, const void *values, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        fprintf(file, "%.17g", ((const double *)values)[i]);
        break;
    case WEFT_F32:
        fprintf(file, "%.9g", (double)((const float *)values)[i]);
        break;
    case WEFT_BF16:
        fprintf(file, "%.4g", (double)weft_bf16_to_f32(((const uint16_t *)values)[i]));
        break;
    case WEFT_F16:
        fprintf(file, "%.5g", (double)weft_f16_to_f32(((const uint16_t *)values)[i]));
        break;
    case WEFT_I64:
        fprintf(file, "%lld", (long long)((const int64_t *)values)[i]);
        break;
    case WEFT_I32:
        fprintf(file, "%ld", (long)((const int32_t *)values)[i]);
        break;
    case WEFT_U8:
        fprintf(file, "%u", (unsigned)((const uint8_t *)values)[i]);
        break;
    case WEFT_BOOL:
        fputs(((const uint8_t *)values)[i] ? "true" : "false", file);
        break;
    case WEFT_C64:
        fprintf(file, "%.9g%+.9gi", (double)((const float *)values)[2 * i], (double)((const float *)values)[2 * i + 1]);
        break;
    case WEFT_I8:
        fprintf(file, "%d", ((const int8_t *)values)[i]);
        break;
    case WEFT_I16:
        fprintf(file, "%d", ((const int16_t *)values)[i]);
        break;
    case WEFT_U16:
        fprintf(file, "%u", ((const uint16_t *)values)[i]);
        break;
    case WEFT_U32:
        fprintf(file, "%lu", (unsigned long)((const uint32_t *)values)[i]);
        break;
    case WEFT_U64:
        fprintf(file, "%llu", (unsigned long long)((const uint64_t *)values)[i]);
        break;
    case WEFT_F8_E4M3:
        fprintf(file, "%.4g", (double)weft_f8_e4m3_to_f32(((const uint8_t *)values)[i]));
        break;
    case WEFT_F8_E5M2:
        fprintf(file, "%.4g", (double)weft_f8_e5m2_to_f32(((const uint8_t *)values)[i]));
        break;
    case WEFT_C128:
        fprintf(file, "%.17g%+.17gi", ((const double *)values)[2 * i], ((const double *)values)[2 * i + 1]);
        break;
    }
}

static void print_values(FILE *file, const weft_layout *layout, const void *values, int dim, int64_t first,
                         int64_t step)
{
    if (dim == layout->ndim) {
        print_value(file, layout->dtype, values, first);
        return;
    }
    int64_t size = layout->shape[dim];
    int64_t inner = size == 0 ? 0 : step / size;
    bool innermost = dim == layout->ndim - 1;
    fputc('[', file);
    for (int64_t i = 0; i < size; i++) {
        if (size > LONGEST && i == EDGE) {
            fputs(innermost ? ", ..." : ",\n ...", file);
            i = size - EDGE;
        }
        if (i > 0) {
            fputs(innermost ? ", " : ",", file);
        }
        if (i > 0 && !innermost) {
            fprintf(file, "\n%*s", dim + 1, "");
        }
        print_values(file, layout, values, dim + 1, first + i * inner, inner);
    }
    fputc(']', file);
}

const char *weft_tensor_describe(const weft_tensor *handle, char *text, size_t size)
{
    if (text == NULL || size == 0) {
        return "";
    }
    if (!weft_may_call()) {
        snprintf(text, size, "%p, which is no tensor of this thread", (const void *)handle);
        return text;
    }
    const weft_tensor_impl *tensor = weft_tensor_get(handle);
    if (tensor == NULL) {
        snprintf(text, size, "%p, which is not a live tensor", (const void *)handle);
        return text;
    }
    char layout[512];
    snprintf(text, size, "%s%s%s", tensor->name == NULL ? "" : tensor->name, tensor->name == NULL ? "" : ": ",
             weft_layout_describe(tensor->layout, layout, sizeof(layout)));
    return text;
}

/* BLOCKS: every process gathers the tensor; this process prints it to the file details->memory if
 * numbers[0] says so. */
static weft_status perform_print(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const char *function = call->function;
    bool here = call->attributes.numbers[0] != 0;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    FILE *file = call->details->memory;
    const weft_layout *layout = tensor->layout;
    int64_t count = 1;
    weft_count_checked(layout->ndim, layout->shape, &count);
    bool fake = weft_runtime.world == WEFT_WORLD_FAKE || tensor->fake;
    size_t bytes = (size_t)count * weft_dtype_size(layout->dtype);
    void *values = fake ? NULL : malloc(bytes + 1);
    if (values == NULL && !fake) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld elements", (long long)count);
    }
    weft_status status = fake ? WEFT_OK : weft_tensor_to_host(function, tensor, values, bytes);
    if (status == WEFT_OK && here) {
        char text[512];
        fprintf(file, "weft_tensor%s%s %s\n", tensor->name == NULL ? "" : " ",
                tensor->name == NULL ? "" : tensor->name, weft_layout_describe(layout, text, sizeof(text)));
        if (!fake) {
            print_values(file, layout, values, 0, 0, count);
            fputc('\n', file);
        }
        status = ferror(file) ? weft_fail(WEFT_ERR_IO, function, "writing failed") : WEFT_OK;
    }
    free(values);
    return status;
}

static weft_status print_tensor(const char *function, weft_tensor *handle, bool here, FILE *file)
{
    static const weft_operation action = { .name = "tensor_print", .perform = perform_print, .effects = WEFT_ONLY_READS };
    if (weft_check_tensor(function, "tensor", handle) == NULL) {
        return weft_latest_status();
    }
    return weft_act(&(weft_call){ .function = function,
                                  .operation = &action,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .attributes = { .num_numbers = 1, .numbers = { here } },
                                  .details = &(weft_call_details){ .memory = file } },
                    NULL);
}

weft_status weft_tensor_print(weft_tensor *handle, FILE *file)
{
    static const char function[] = "weft_tensor_print";
    if (file == NULL && weft_check_tensor(function, "tensor", handle) != NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    return print_tensor(function, handle, weft_runtime.process == 0, file);
}

weft_status weft_tensor_print_text(weft_tensor *handle, char *text, size_t size, size_t *length)
{
    static const char function[] = "weft_tensor_print_text";
    if (text == NULL && size > 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "text is NULL with size %zu", size);
    }
    weft_text_file file;
    if (!weft_text_file_open(&file)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a text");
    }
    weft_status status = print_tensor(function, handle, true, file.file);
    bool right = status == WEFT_OK;
    bool complete = weft_text_file_close(&file, right ? text : NULL, right ? size : 0, right ? length : NULL);
    return right && !complete ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for a text") : status;
}

weft_status weft_visualize_sharding(const weft_tensor *handle, weft_sharding_format format, FILE *file)
{
    static const char function[] = "weft_visualize_sharding";
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (format != WEFT_SHARDING_TEXT && format != WEFT_SHARDING_SVG) {
        return weft_fail(WEFT_ERR_INVALID, function, "format is %d, which is no weft_sharding_format",
                         (int)format);
    }
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    char head[640];
    weft_tensor_describe(handle, head, sizeof(head));
    if (!weft_check_boxes(function, "tensor", tensor->layout)) {
        return weft_latest_status();
    }
    weft_drawing *drawing = weft_drawing_new(tensor->layout);
    bool done = drawing != NULL && weft_drawing_print(drawing, head, format == WEFT_SHARDING_SVG, file);
    weft_drawing_free(drawing);
    if (!done) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to draw %lld ranks",
                         (long long)tensor->layout->mesh->num_ranks);
    }
    return ferror(file) ? weft_fail(WEFT_ERR_IO, function, "writing failed") : WEFT_OK;
}
