/* Shrinks a failing program: fewer and simpler steps, smaller shapes, while it is valid and fails in the
 * same way. Each try is a worker of its own, so crashes and hangs are shrunk too. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "driver.h"

enum { TRY_SECONDS = 25 };

typedef struct shrinker {
    const driver *driver;
    program *best;
    program *next; /* the one that is tried */
    outcome wanted;
    time_t until;
    int tries;
} shrinker;

/* ---- one try ------------------------------------------------------------------------------------------- */

/* Whether `next`, as it has been changed, is valid and still fails; then it is the best. */
static bool try(shrinker *s)
{
    evaluation e;
    if (time(NULL) > s->until) {
        return false;
    }
    program_tidy(s->next);
    bool valid =
        s->next->num_steps > 0 && memcmp(s->next, s->best, sizeof(*s->next)) != 0 && evaluate(&e, s->next);
    if (s->next->num_steps > 0 && valid) {
        evaluation_end(&e);
    }
    if (!valid) {
        return false;
    }
    s->tries++;
    if (run_alone(s->driver, s->next, TRY_SECONDS, NULL) != s->wanted) {
        return false;
    }
    *s->best = *s->next;
    return true;
}

static program *begin(shrinker *s)
{
    *s->next = *s->best;
    return s->next;
}

/* ---- fewer steps --------------------------------------------------------------------------------------- */

static bool drop_steps(shrinker *s)
{
    bool any = false;
    for (int size = s->best->num_steps; size > 0; size /= 2) {
        for (int first = s->best->num_steps - size; first >= 0; first -= size) {
            program *p = begin(s);
            for (int i = first; i < first + size && i < p->num_steps; i++) {
                p->steps[i].operation = NULL;
            }
            any |= try(s);
        }
    }
    return any;
}

/* ---- simpler steps ------------------------------------------------------------------------------------- */

/* Replaces a step's outputs by given values, in each simple layout. */
static bool give_outputs(shrinker *s)
{
    bool any = false;
    for (int i = s->best->num_steps - 1; i >= 0; i--) {
        const step *old = &s->best->steps[i];
        if (old->num_outputs != 1 || old->operation->flags & (GIVES | IN_PLACE)) {
            continue;
        }
        evaluation e;
        evaluate(&e, s->best);
        const dense *x = e.values[old->outputs[0]];
        int mesh = e.meshes[old->outputs[0]];
        for (int way = 0; way <= x->ndim; way++) {
            program *p = begin(s);
            step given = {
                .operation = operation_find("from_local"), .num_outputs = 1, .mesh = mesh, .num_wholes = 2
            };
            given.outputs[0] = old->outputs[0];
            given.wholes[0] = VALUES_SMALL;
            given.dtype = x->dtype;
            given.ndim = x->ndim;
            memcpy(given.shape, x->shape, sizeof(given.shape));
            given.salt = old->salt + 1;
            for (int m = 0; m < p->meshes[mesh].ndim; m++) {
                given.placements[m] = way == 0 ? weft_replicate() : weft_shard(way - 1);
            }
            p->steps[i] = given;
            if (try(s)) {
                any = true;
                break;
            }
        }
        evaluation_end(&e);
    }
    return any;
}

static bool simplify_steps(shrinker *s)
{
    bool any = false;
    for (int i = 0; i < s->best->num_steps; i++) {
        for (int m = 0; m < MAX_MESH_DIMS; m++) {
            program *p = begin(s);
            if (p->steps[i].mesh >= 0 && m < p->meshes[p->steps[i].mesh].ndim) {
                p->steps[i].placements[m] = weft_replicate();
                any |= try(s);
            }
        }
        program *p = begin(s);
        if (p->steps[i].operation->flags & GIVES) {
            p->steps[i].operation = operation_find("from_local");
            p->steps[i].wholes[0] = VALUES_SMALL;
            any |= try(s);
        }
    }
    return any;
}

/* ---- smaller shapes ------------------------------------------------------------------------------------ */

/* Replaces every size `from` of given or made values by `to`, in step `only` (-1: in all). */
static void replace_size(program *p, int only, int64_t from, int64_t to)
{
    for (int i = 0; i < p->num_steps; i++) {
        for (int d = 0; d < p->steps[i].ndim && (only < 0 || only == i); d++) {
            int64_t *size = &p->steps[i].shape[d];
            *size = *size == from ? to : *size;
        }
    }
}

static bool shrink_sizes(shrinker *s)
{
    bool any = false;
    for (int i = -1; i < s->best->num_steps; i++) {
        for (int64_t size = 2; size <= 64; size++) {
            int64_t smaller[] = { 1, 2, size / 2, size - 1 };
            for (int k = 0; k < 4; k++) {
                program *p = begin(s);
                if (smaller[k] < size) {
                    replace_size(p, i, size, smaller[k]);
                    any |= try(s);
                }
            }
        }
    }
    return any;
}

/* ---- a simpler world ----------------------------------------------------------------------------------- */

static void drop_mesh(program *p, int mesh)
{
    for (int i = 0; i < p->num_steps; i++) {
        p->steps[i].mesh -= p->steps[i].mesh > mesh;
    }
    for (int m = mesh; m + 1 < p->num_meshes; m++) {
        p->meshes[m] = p->meshes[m + 1];
        p->meshes[m].of -= p->meshes[m].of > mesh;
    }
    p->num_meshes--;
}

static bool is_used(const program *p, int mesh)
{
    for (int i = 0; i < p->num_steps; i++) {
        if (p->steps[i].mesh == mesh) {
            return true;
        }
    }
    for (int m = 0; m < p->num_meshes; m++) {
        if (p->meshes[m].kind >= MESH_FLATTENED && p->meshes[m].of == mesh) {
            return true;
        }
    }
    return false;
}

static bool simplify_world(shrinker *s)
{
    bool any = false;
    for (int way = 0; way < 10; way++) {
        program *p = begin(s);
        p->scoped |= way == 0;
        p->plan = way == 1 ? 0 : p->plan;
        p->compares &= way != 2;
        p->packs &= way != 3;
        p->implicit &= way != 9;
        p->cache = way == 8 ? 0 : p->cache;
        p->panel_rows = way == 4 ? 0 : way == 5 ? 1 : p->panel_rows;
        for (int m = 0; m < p->num_meshes && way == 6; m++) {
            p->meshes[m].kind = MESH_OF_RANKS; /* flattened ones too: they have their ranks */
        }
        for (int m = 0; m < p->num_meshes && way == 7; m++) {
            p->meshes[m].kind = MESH_OF_RANKS;
            for (int i = 0; i < MAX_RANKS; i++) {
                p->meshes[m].ranks[i] = i;
            }
        }
        any |= try(s);
    }
    for (int ranks = s->best->processes; ranks < s->best->ranks; ranks++) {
        program *p = begin(s);
        p->ranks = ranks;
        bool fits = true;
        for (int m = 0; m < p->num_meshes; m++) {
            for (int i = 0; i < mesh_count(&p->meshes[m]); i++) {
                fits &= p->meshes[m].ranks[i] < ranks;
            }
        }
        any |= fits && try(s);
    }
    for (int mesh = s->best->num_meshes - 1; mesh >= 0 && s->best->num_meshes > 1; mesh--) {
        if (!is_used(s->best, mesh)) {
            drop_mesh(begin(s), mesh);
            any |= try(s);
        }
    }
    return any;
}

/* Sizes of meshes become smaller, one dimension at a time. */
static bool shrink_meshes(shrinker *s)
{
    bool any = false;
    for (int m = 0; m < s->best->num_meshes; m++) {
        for (int d = 0; d < s->best->meshes[m].ndim; d++) {
            for (int64_t size = 1; size < s->best->meshes[m].shape[d]; size++) {
                program *p = begin(s);
                p->meshes[m].kind = MESH_OF_RANKS;
                p->meshes[m].shape[d] = size;
                any |= try(s);
            }
        }
    }
    return any;
}

void shrink(const driver *d, program *p, outcome wanted)
{
    shrinker s = { .driver = d, .best = p, .next = calloc(1, sizeof(*p)), .wanted = wanted };
    s.until = time(NULL) + d->shrink_seconds;
    for (bool any = true; any && time(NULL) < s.until;) {
        any = drop_steps(&s);
        any |= give_outputs(&s);
        any |= simplify_steps(&s);
        any |= simplify_world(&s);
        any |= shrink_meshes(&s);
        any |= shrink_sizes(&s);
    }
    printf("%d smaller programs were tried\n", s.tries);
    free(s.next);
}
