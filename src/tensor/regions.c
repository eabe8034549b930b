/* Named regions of a program: an interposer counts the redistributions of the public calls inside; strict
 * regions refuse them, printing regions print them. */
#include <weft/regions.h>

#include <stdlib.h>
#include <string.h>

#include "call/deferral.h"
#include "tensor/actions.h"
#include "tensor/regions.h"

enum { MAX_NAME = 63, MAX_PATH = 512 };

typedef struct open_region {
    size_t path_length; /* the enclosing region */
    unsigned flags;     /* own flags and those of the enclosing regions */
} open_region;

typedef struct weft_regions {
    weft_interposer interposer; /* the first member */
    char path[MAX_PATH];
    weft_vec open;  /* open_region */
    weft_vec rows;  /* weft_region_counters, whose names are owned */
} weft_regions;

static weft_regions *regions(void)
{
    return weft_runtime.regions;
}

static const open_region *innermost(void)
{
    const weft_regions *all = regions();
    return all == NULL || all->open.count == 0 || weft_runtime.context.unobserved ? NULL : (const open_region *)all->open.items + all->open.count - 1;
}

/* ---- counting ------------------------------------------------------------------------------------------ */

/* The counters of a function in the open region; NULL: no memory, the call is not counted. */
static weft_region_counters *row_of(weft_regions *all, const char *function)
{
    weft_region_counters *rows = all->rows.items;
    for (size_t i = 0; i < all->rows.count; i++) {
        if (strcmp(rows[i].function, function) == 0 && strcmp(rows[i].region, all->path) == 0) {
            return &rows[i];
        }
    }
    char *region = strdup(all->path);
    weft_region_counters *row = region == NULL ? NULL : weft_vec_push(&all->rows, sizeof(*row));
    if (row == NULL) {
        free(region);
        return NULL;
    }
    *row = (weft_region_counters){ .region = region, .function = function };
    return row;
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    const weft_counters before = weft_runtime.counters, *now = &weft_runtime.counters;
    const char *function = frame->call->function;
    weft_status status = weft_call_next(frame);
    weft_region_counters *row = row_of((weft_regions *)self, function);
    if (row != NULL) {
        row->calls++;
        row->failed += status != WEFT_OK;
        row->tasks += now->tasks - before.tasks;
        row->stages += now->stages - before.stages;
        row->transfers += now->transfers - before.transfers;
        row->bytes += now->bytes_moved - before.bytes_moved;
        row->messages += now->messages - before.messages;
    }
    return status;
}

/* ---- what moves ---------------------------------------------------------------------------------------- */

bool weft_in_region(void)
{
    return innermost() != NULL;
}

bool weft_is_strict(void)
{
    const open_region *region = innermost();
    return region != NULL && (region->flags & WEFT_REGION_STRICT);
}

bool weft_check_explicit(const char *function, const char *what, const weft_layout *from, const weft_layout *to)
{
    if (from == to || !weft_is_strict() || weft_is_local_slice(from, to)) {
        return true;
    }
    char first[160], second[160];
    weft_fail(WEFT_ERR_LAYOUT, function,
              "in the strict region \"%s\" %s would be moved from %s to %s: weft_redistribute() it", regions()->path,
              what, weft_layout_format(from, first, sizeof(first)), weft_layout_format(to, second, sizeof(second)));
    return false;
}

/* Whether each rank has the indices that it reads. */
static bool is_local_access(const weft_layout *from, const weft_access_map *map)
{
    bool local = true;
    for (int64_t i = 0; i < from->mesh->num_ranks && local; i++) {
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_box own, read;
        weft_mesh_unravel(from->mesh, i, coordinate);
        weft_layout_coordinate_box(from, coordinate, &own);
        weft_access_map_box(map, coordinate, &read);
        if (weft_box_count(from->ndim, &read) > 0) {
            for (int d = 0; d < from->ndim; d++) {
                bool all = map->has[d] && map->of[d].periodic && own.extent[d] == from->shape[d]; /* wraps onto itself */
                local = local && (all || (read.offset[d] >= own.offset[d] &&
                                          read.offset[d] + read.extent[d] <= own.offset[d] + own.extent[d]));
            }
        }
    }
    return local;
}

bool weft_check_explicit_access(const char *function, const char *what, const weft_layout *from,
                                const weft_access_map *map)
{
    if (!weft_is_strict() || (innermost()->flags & WEFT_REGION_ALLOW_HALOS) || is_local_access(from, map)) {
        return true;
    }
    char text[160];
    weft_fail(WEFT_ERR_LAYOUT, function,
              "in the strict region \"%s\" ranks would read each other's parts of %s, %s: weft_redistribute() it, or "
              "begin a region with WEFT_REGION_ALLOW_HALOS",
              regions()->path, what, weft_layout_format(from, text, sizeof(text)));
    return false;
}

void weft_print_move(const char *function, const weft_plan *plan)
{
    const open_region *region = innermost();
    if (region == NULL || !(region->flags & WEFT_REGION_PRINT) || weft_runtime.process != 0) {
        return;
    }
    char first[160], second[160];
    bool along[WEFT_MAX_DIMS];
    weft_layout_format(plan->from, first, sizeof(first));
    weft_layout_format(plan->to, second, sizeof(second));
    bool maps = plan->num_stages > 0 && plan->stages[0].access_map != NULL;
    fprintf(stderr, "weft: %s: %s %s %s%s%s:", regions()->path, function, maps ? "reads across ranks" : "moves", first,
            maps ? "" : " to ", maps ? "" : second);
    for (int i = 0; i < plan->num_stages; i++) {
        fprintf(stderr, "%s %s", i > 0 ? "," : "", weft_stage_kind_name(weft_stage_kind_of(&plan->stages[i], along)));
    }
    fprintf(stderr, " (predicted %.3g us)\n", plan->predicted_us);
}

/* ---- the functions ------------------------------------------------------------------------------------- */

static bool check_name(const char *function, const weft_regions *all, const char *name, unsigned flags)
{
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || length > MAX_NAME) {
        weft_fail(WEFT_ERR_INVALID, function, "name is %s, expected 1 to %d bytes",
                  name == NULL ? "NULL" : length == 0 ? "empty" : "too long", MAX_NAME);
        return false;
    }
    if ((flags & ~(unsigned)(WEFT_REGION_STRICT | WEFT_REGION_PRINT | WEFT_REGION_ALLOW_HALOS)) != 0) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "flags is 0x%x, expected WEFT_REGION_STRICT, WEFT_REGION_PRINT and WEFT_REGION_ALLOW_HALOS only", flags);
        return false;
    }
    if (strlen(all->path) + 1 + length >= sizeof(all->path)) {
        weft_fail(WEFT_ERR_INVALID, function, "the regions' names are longer than %d bytes together", MAX_PATH - 1);
        return false;
    }
    return true;
}

/* NULL: no memory. Calls are counted from the first region on. */
static weft_regions *obtain(void)
{
    if (weft_runtime.regions == NULL) {
        weft_runtime.regions = calloc(1, sizeof(weft_regions));
        if (weft_runtime.regions != NULL) {
            regions()->interposer = (weft_interposer){ .order = WEFT_OBSERVER, .around = around };
            weft_interposer_install(&regions()->interposer);
        }
    }
    return regions();
}

weft_status weft_region_begin(const char *name, unsigned flags)
{
    static const char function[] = "weft_region_begin";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_deferral_finish_implicit(function);
    weft_regions *all = obtain();
    if (all != NULL && !check_name(function, all, name, flags)) {
        return weft_latest_status();
    }
    const open_region *enclosing = innermost();
    unsigned inherited = enclosing == NULL ? 0 : enclosing->flags;
    open_region *region = all == NULL ? NULL : weft_vec_push(&all->open, sizeof(*region));
    if (region == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a region");
    }
    size_t length = strlen(all->path);
    *region = (open_region){ .path_length = length, .flags = flags | inherited };
    if (length > 0) {
        all->path[length++] = '/';
    }
    memcpy(all->path + length, name, strlen(name) + 1);
    return WEFT_OK;
}

weft_status weft_region_end(void)
{
    static const char function[] = "weft_region_end";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    const open_region *region = innermost();
    if (region == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "no region has begun");
    }
    regions()->path[region->path_length] = '\0';
    regions()->open.count--;
    return WEFT_OK;
}

int weft_region_counts(int max, weft_region_counters counters[])
{
    static const char function[] = "weft_region_counts";
    if (weft_require_init(function) != WEFT_OK) {
        return -1;
    }
    if (max < 0 || (max > 0 && counters == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "max is %d%s", max, max < 0 ? "" : " and counters NULL");
        return -1;
    }
    int count = regions() == NULL ? 0 : (int)regions()->rows.count;
    if (count > 0 && max > 0) {
        memcpy(counters, regions()->rows.items, (size_t)(max < count ? max : count) * sizeof(counters[0]));
    }
    return count;
}

static weft_status print_rows(const char *function, FILE *file)
{
    fprintf(file, "%-32s %-28s %8s %8s %8s %10s %14s %10s\n", "region", "function", "calls", "tasks", "stages", "transfers",
            "bytes", "messages");
    const weft_region_counters *rows = regions() == NULL ? NULL : regions()->rows.items;
    for (size_t i = 0; rows != NULL && i < regions()->rows.count; i++) {
        fprintf(file, "%-32s %-28s %8llu %8llu %8llu %10llu %14llu %10llu\n", rows[i].region, rows[i].function,
                (unsigned long long)rows[i].calls, (unsigned long long)rows[i].tasks,
                (unsigned long long)rows[i].stages, (unsigned long long)rows[i].transfers,
                (unsigned long long)rows[i].bytes, (unsigned long long)rows[i].messages);
    }
    return ferror(file) ? weft_fail(WEFT_ERR_IO, function, "writing failed") : WEFT_OK;
}

weft_status weft_print_regions(FILE *file)
{
    static const char function[] = "weft_print_regions";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    return file == NULL ? weft_fail(WEFT_ERR_INVALID, function, "file is NULL") : print_rows(function, file);
}

void weft_regions_stop(void)
{
    weft_regions *all = regions();
    if (all == NULL) {
        return;
    }
    weft_region_counters *rows = all->rows.items;
    for (size_t i = 0; i < all->rows.count; i++) {
        free((void *)(uintptr_t)rows[i].region);
    }
    weft_interposer_remove(&all->interposer);
    weft_vec_free(&all->rows);
    weft_vec_free(&all->open);
    free(all);
    weft_runtime.regions = NULL;
}
