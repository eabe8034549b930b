#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/layout.h"

static const char *const op_names[] = { "sum", "avg", "prod", "min", "max" };

weft_placement weft_shard(int dim)
{
    return (weft_placement){ .kind = WEFT_SHARD, .dim = dim };
}

weft_placement weft_shard_balanced(int dim)
{
    return (weft_placement){ .kind = WEFT_SHARD, .dim = dim, .cut = WEFT_CUT_BALANCED };
}

weft_placement weft_shard_sizes(int dim, int parts, const int64_t sizes[])
{
    return (weft_placement){ .kind = WEFT_SHARD, .dim = dim, .cut = WEFT_CUT_SIZES, .sizes = weft_sizes_intern(parts, sizes) };
}

int weft_placement_sizes(weft_placement placement, const int64_t **sizes)
{
    bool has = placement.kind == WEFT_SHARD && placement.cut == WEFT_CUT_SIZES && placement.sizes != NULL;
    if (sizes != NULL) {
        *sizes = has ? placement.sizes->sizes : NULL;
    }
    return has ? (int)placement.sizes->count : 0;
}

weft_placement weft_replicate(void)
{
    return (weft_placement){ .kind = WEFT_REPLICATE };
}

weft_placement weft_partial(weft_reduce_op op)
{
    return (weft_placement){ .kind = WEFT_PARTIAL, .op = op };
}

bool weft_same_cut(weft_placement a, weft_placement b)
{
    a = weft_cut_in_blocks(a);
    b = weft_cut_in_blocks(b);
    return a.cut == b.cut && a.period == b.period && (a.cut != WEFT_CUT_SIZES || a.sizes == b.sizes) &&
           (a.cut != WEFT_CUT_CYCLIC || (a.block == b.block && a.first == b.first));
}

bool weft_placement_equal(weft_placement a, weft_placement b)
{
    return a.kind == b.kind && (a.kind != WEFT_SHARD || (a.dim == b.dim && a.level == b.level && weft_same_cut(a, b))) &&
           (a.kind != WEFT_PARTIAL || a.op == b.op);
}

bool weft_placements_equal(const weft_placement a[], const weft_placement b[], int n)
{
    for (int m = 0; m < n; m++) {
        if (!weft_placement_equal(a[m], b[m])) {
            return false;
        }
    }
    return true;
}

const char *weft_reduce_op_name(weft_reduce_op op)
{
    return (int)op >= 0 && (size_t)op < WEFT_ARRAY_SIZE(op_names) ? op_names[op] : "?";
}

static weft_status normalize_shard(weft_placement in, int index, int ndim, weft_placement *out, char *why, size_t why_size)
{
    if (in.dim < -ndim || in.dim >= ndim) {
        snprintf(why, why_size, "entry %d is Shard(%d), but the tensor has %d dimensions", index, in.dim, ndim);
        return WEFT_ERR_LAYOUT;
    }
    if ((int)in.cut < 0 || in.cut > WEFT_CUT_ZIGZAG) {
        snprintf(why, why_size, "entry %d is Shard(%d) with cut %d, which is no weft_cut_kind", index, in.dim, (int)in.cut);
        return WEFT_ERR_LAYOUT;
    }
    if (in.cut == WEFT_CUT_SIZES && in.sizes == NULL) {
        snprintf(why, why_size, "entry %d is Shard(%d) with no sizes, a negative one, or a sum that overflows int64", index,
                 in.dim);
        return WEFT_ERR_LAYOUT;
    }
    if (in.period < 0) {
        snprintf(why, why_size, "entry %d is Shard(%d) with a period of %lld rows, expected at least 0", index, in.dim,
                 (long long)in.period);
        return WEFT_ERR_LAYOUT;
    }
    if (in.level < 0) {
        snprintf(why, why_size, "entry %d is Shard(%d) with level %d, expected at least 0", index, in.dim, in.level);
        return WEFT_ERR_LAYOUT;
    }
    if (in.cut == WEFT_CUT_CHUNKS && in.block > 0) {
        in.cut = WEFT_CUT_CYCLIC;
        in.first = 0;
    }
    if (in.cut == WEFT_CUT_CYCLIC && (in.block < 1 || in.first < 0)) {
        snprintf(why, why_size, "entry %d is Shard(%d) in blocks of %lld rows, the first one to part %d, expected at least 1 and 0",
                 index, in.dim, (long long)in.block, in.first);
        return WEFT_ERR_LAYOUT;
    }
    bool cyclic = in.cut == WEFT_CUT_CYCLIC;
    *out = (weft_placement){ .kind = WEFT_SHARD, .dim = in.dim < 0 ? in.dim + ndim : in.dim, .cut = in.cut,
                             .sizes = in.cut == WEFT_CUT_SIZES ? in.sizes : NULL, .level = in.level, .period = in.period,
                             .block = cyclic ? in.block : 0, .first = cyclic ? in.first : 0 };
    return WEFT_OK;
}

static weft_status normalize_one(weft_placement in, int index, int ndim, weft_placement *out, char *why,
                                 size_t why_size)
{
    switch (in.kind) {
    case WEFT_REPLICATE:
        *out = weft_replicate();
        return WEFT_OK;
    case WEFT_SHARD:
        return normalize_shard(in, index, ndim, out, why, why_size);
    case WEFT_PARTIAL:
        if ((int)in.op < 0 || (size_t)in.op >= WEFT_ARRAY_SIZE(op_names)) {
            snprintf(why, why_size, "entry %d is Partial with op %d, which is no weft_reduce_op", index,
                     (int)in.op);
            return WEFT_ERR_LAYOUT;
        }
        *out = weft_partial(in.op);
        return WEFT_OK;
    }
    snprintf(why, why_size, "entry %d has kind %d, which is no weft_placement_kind", index, (int)in.kind);
    return WEFT_ERR_LAYOUT;
}

weft_status weft_placements_normalize(const weft_placement *in, int n, int ndim, weft_placement out[],
                                      char *why, size_t why_size)
{
    weft_placement canonical[WEFT_MAX_DIMS];
    for (int m = 0; m < n; m++) {
        weft_placement one = in == NULL ? weft_replicate() : in[m];
        weft_status status = normalize_one(one, m, ndim, &canonical[m], why, why == NULL ? 0 : why_size);
        if (status != WEFT_OK) {
            return status;
        }
    }
    memcpy(out, canonical, (size_t)n * sizeof(*out));
    return WEFT_OK;
}

weft_status weft_placements_check_sizes(const weft_mesh_impl *mesh, const weft_placement placements[], const int64_t shape[],
                                        char *why, size_t why_size)
{
    bool cut[WEFT_MAX_DIMS] = { false };
    int order[WEFT_MAX_DIMS];
    why_size = why == NULL ? 0 : why_size;
    weft_cut_order(mesh->ndim, placements, order);
    for (int i = 0; i < mesh->ndim; i++) {
        int m = order[i];
        weft_placement p = placements[m];
        bool listed = p.kind == WEFT_SHARD && p.cut == WEFT_CUT_SIZES;
        if (listed && cut[p.dim] && p.period == 0) {
            snprintf(why, why_size, "entry %d lists sizes of dimension %d, which another mesh dimension cuts before it", m, p.dim);
            return WEFT_ERR_LAYOUT;
        }
        if (listed && p.sizes->count != mesh->shape[m]) {
            snprintf(why, why_size, "entry %d lists %lld sizes, and mesh dimension %d has %lld ranks", m,
                     (long long)p.sizes->count, m, (long long)mesh->shape[m]);
            return WEFT_ERR_LAYOUT;
        }
        if (listed && p.period > 0 && p.sizes->total != p.period) {
            snprintf(why, why_size, "entry %d lists sizes of %lld rows in all, and repeats every %lld", m, (long long)p.sizes->total,
                     (long long)p.period);
            return WEFT_ERR_LAYOUT;
        }
        if (listed && p.period == 0 && p.sizes->total != shape[p.dim]) {
            snprintf(why, why_size, "entry %d lists sizes of %lld rows in all, and dimension %d has %lld", m,
                     (long long)p.sizes->total, p.dim, (long long)shape[p.dim]);
            return WEFT_ERR_LAYOUT;
        }
        if (p.kind == WEFT_SHARD && p.cut == WEFT_CUT_CYCLIC && p.first >= mesh->shape[m]) {
            snprintf(why, why_size, "entry %d deals the first block to part %d, and mesh dimension %d has %lld ranks", m, p.first, m,
                     (long long)mesh->shape[m]);
            return WEFT_ERR_LAYOUT;
        }
        if (p.kind == WEFT_SHARD && mesh->shape[m] > 1) {
            cut[p.dim] = true;
        }
    }
    return WEFT_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static void skip_blanks(const char **text)
{
    while (isspace((unsigned char)**text)) {
        (*text)++;
    }
}

static bool take(const char **text, char expected)
{
    skip_blanks(text);
    if (**text != expected) {
        return false;
    }
    (*text)++;
    return true;
}

static bool read_dim(const char **text, int *dim)
{
    skip_blanks(text);
    const char *digits = **text == '-' ? *text + 1 : *text;
    if (!isdigit((unsigned char)*digits)) {
        return false;
    }
    char *end = NULL;
    long value = strtol(*text, &end, 10);
    *text = end;
    *dim = (int)value;
    return value > -1000 && value < 1000;
}

static bool read_op(const char **text, weft_reduce_op *op)
{
    skip_blanks(text);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(op_names); i++) {
        size_t length = strlen(op_names[i]);
        size_t same = 0;
        while (same < length && tolower((unsigned char)(*text)[same]) == op_names[i][same]) {
            same++;
        }
        if (same == length) {
            *text += length;
            *op = (weft_reduce_op)i;
            return true;
        }
    }
    return false;
}

/* Not negative. */
static bool read_number(const char **text, int64_t *number)
{
    skip_blanks(text);
    char *end = NULL;
    errno = 0;
    long long value = isdigit((unsigned char)**text) ? strtoll(*text, &end, 10) : -1;
    bool right = value >= 0 && errno == 0;
    *number = right ? value : 0;
    *text = right ? end : *text;
    return right;
}

/* The sizes up to a brace. False: no list, or no memory. */
static bool read_sizes(const char **text, const weft_sizes **out)
{
    weft_vec sizes = { 0 };
    bool right = true, more = true;
    while (right && more) {
        int64_t size, *added = read_number(text, &size) ? weft_vec_push(&sizes, sizeof(*added)) : NULL;
        right = added != NULL;
        if (right) {
            *added = size;
            more = take(text, ',');
        }
    }
    *out = right && take(text, '}') ? weft_sizes_intern((int64_t)sizes.count, sizes.items) : NULL;
    weft_vec_free(&sizes);
    return *out != NULL;
}

/* The dimension of a Shard, its cut, and its level. */
static bool read_shard(const char **text, weft_placement *out)
{
    int64_t first = 0;
    *out = weft_shard(0);
    bool right = take(text, '(') ? read_dim(text, &out->dim) && take(text, ')') : read_dim(text, &out->dim);
    if (right && take(text, '=')) {
        out->cut = WEFT_CUT_BALANCED;
    } else if (right && (take(text, 'z') || take(text, 'Z'))) {
        out->cut = WEFT_CUT_ZIGZAG;
    } else if (right && take(text, '*')) {
        out->cut = WEFT_CUT_CYCLIC;
        right = read_number(text, &out->block) && out->block > 0 && (!take(text, '+') || read_number(text, &first)) && first <= INT_MAX;
        out->first = (int)first;
    } else if (right && take(text, '{')) {
        out->cut = WEFT_CUT_SIZES;
        right = read_sizes(text, &out->sizes);
    }
    if (right && take(text, '%')) {
        right = read_number(text, &out->period) && out->period > 0;
    }
    return right && (!take(text, '@') || (read_dim(text, &out->level) && out->level >= 0));
}

/* One of R, S0, S(0), S0=, S0{1,2}, S0*64, S0*64+1, S0z, S0%10, S0@1, P, P(sum). */
static bool read_placement(const char **text, weft_placement *out)
{
    skip_blanks(text);
    char letter = (char)toupper((unsigned char)**text);
    if (letter == '\0') {
        return false;
    }
    (*text)++;
    if (letter == 'R') {
        *out = weft_replicate();
        return true;
    }
    if (letter == 'S') {
        return read_shard(text, out);
    }
    *out = weft_partial(WEFT_SUM);
    return letter == 'P' && (!take(text, '(') || (read_op(text, &out->op) && take(text, ')')));
}

weft_status weft_placements_read(const char *text, int n, weft_placement out[], char *why, size_t why_size)
{
    why_size = why == NULL ? 0 : why_size;
    if (text == NULL || out == NULL || n < 0 || n > WEFT_MAX_DIMS) {
        snprintf(why, why_size, "%s",
                 text == NULL  ? "text is NULL"
                 : out == NULL ? "out is NULL"
                               : "n is out of range, expected 0 to 8");
        return WEFT_ERR_INVALID;
    }
    weft_placement read[WEFT_MAX_DIMS];
    const char *rest = text;
    for (int m = 0; m < n; m++) {
        bool separated = m == 0 || take(&rest, ',');
        const char *begin = rest;
        if (!separated || !read_placement(&rest, &read[m])) {
            rest = begin;
            snprintf(why, why_size,
                     "text is \"%s\", expected %d placements such as R, S0, P(sum); stopped at \"%s\"", text,
                     n, rest);
            return WEFT_ERR_INVALID;
        }
    }
    skip_blanks(&rest);
    if (*rest != '\0') {
        snprintf(why, why_size, "text is \"%s\", expected %d placements and no more; stopped at \"%s\"", text,
                 n, rest);
        return WEFT_ERR_INVALID;
    }
    memcpy(out, read, (size_t)n * sizeof(*out));
    return WEFT_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

/* `most`: of more sizes the first and the last ones. */
static void write_cut(weft_text *text, weft_placement shard, int64_t most)
{
    if (shard.cut == WEFT_CUT_BALANCED) {
        weft_text_add(text, "=");
    }
    if (shard.cut == WEFT_CUT_SIZES && shard.sizes != NULL) {
        const int64_t *sizes = shard.sizes->sizes, count = shard.sizes->count;
        const int64_t shown = count <= most ? count : most / 2;
        weft_text_add(text, "{");
        weft_text_add_sizes(text, (int)shown, sizes, ",");
        if (shown < count) {
            weft_text_add(text, ", ... ,%lld", (long long)sizes[count - 1]);
        }
        weft_text_add(text, "}");
    }
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        weft_text_add(text, "z");
    }
    if (shard.cut == WEFT_CUT_CYCLIC || (shard.cut == WEFT_CUT_CHUNKS && shard.block > 0)) {
        weft_text_add(text, "*%lld", (long long)shard.block);
        if (shard.cut == WEFT_CUT_CYCLIC && shard.first != 0) {
            weft_text_add(text, "+%d", shard.first);
        }
    }
    if (shard.period > 0) {
        weft_text_add(text, "%%%lld", (long long)shard.period);
    }
    if (shard.level != 0) {
        weft_text_add(text, "@%d", shard.level);
    }
}

static void write_all(weft_text *text, const weft_placement *placements, int n, int64_t most)
{
    for (int m = 0; m < n; m++) {
        const char *between = m == 0 ? "" : ",";
        switch (placements[m].kind) {
        case WEFT_SHARD:
            weft_text_add(text, "%sS%d", between, placements[m].dim);
            write_cut(text, placements[m], most);
            break;
        case WEFT_PARTIAL:
            weft_text_add(text, "%sP(%s)", between, weft_reduce_op_name(placements[m].op));
            break;
        default:
            weft_text_add(text, "%sR", between);
        }
    }
}

void weft_placements_write(weft_text *text, const weft_placement *placements, int n)
{
    write_all(text, placements, n, INT64_MAX);
}

void weft_placements_show(weft_text *text, const weft_placement *placements, int n)
{
    write_all(text, placements, n, 16);
}

char *weft_placements_text(const weft_placement *placements, int n, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    weft_text_add(&text, "[");
    weft_placements_show(&text, placements, n);
    weft_text_add(&text, "]");
    return buffer;
}
