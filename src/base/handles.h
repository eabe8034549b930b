/* Handles: given to programs in place of addresses. A handle is never dereferenced: it holds the index of
 * a slot in a table and a generation of that slot. Every object in a slot has its own generation, so the
 * handle of a deleted object stays invalid. A table belongs to one thread. PURE.
 *
 *   63 62    61 .. 32      31 .. 4     3 .. 0
 *    1  0    generation     slot        kind
 *
 * Bits 63 and 62 differ, as in no address of a process (x86-64, AArch64), and no small number has them. */
#ifndef WEFT_SRC_BASE_HANDLES_H
#define WEFT_SRC_BASE_HANDLES_H

#include "base/base.h"

_Static_assert(sizeof(void *) == 8, "a handle takes the 64 bits of a pointer");

/* Type of a table's objects. A handle of one kind is invalid for another. */
typedef enum weft_handle_kind {
    WEFT_HANDLE_MODULE = 1,
    WEFT_HANDLE_SAVING = 3,
    WEFT_HANDLE_TENSOR = 5,
    WEFT_HANDLE_FILE = 7,
    WEFT_HANDLE_MESH = 9,
    WEFT_HANDLE_GRAPH = 11,
    WEFT_HANDLE_OPERATION = 13,
    WEFT_HANDLE_INDEX_LIST = 15,
    WEFT_HANDLE_SPARSE = 2
} weft_handle_kind;

enum {
    WEFT_HANDLE_KIND_BITS = 4,
    WEFT_HANDLE_SLOT_BITS = 28,
    WEFT_HANDLE_GENERATION_BITS = 30,
    WEFT_HANDLE_GENERATION_SHIFT = WEFT_HANDLE_KIND_BITS + WEFT_HANDLE_SLOT_BITS
};

typedef struct weft_handle_slot {
    void *object;    /* NULL: free slot */
    uint64_t handle; /* of the object, or of the next one; 0: no generations are left */
    size_t next_free;
} weft_handle_slot;

/* Zero-initialise. */
typedef struct weft_handle_table {
    weft_vec slots; /* weft_handle_slot */
    size_t num_objects;
    size_t first_free; /* 1 + index; 0: none */
} weft_handle_table;

/* A handle of an object (not NULL); NULL: no memory, or no handles are left. */
void *weft_handle_add(weft_handle_table *table, weft_handle_kind kind, void *object);
/* Invalidates the handle. False: it was invalid. */
bool weft_handle_remove(weft_handle_table *table, const void *handle);
/* Invalidates all handles. The table keeps its slots, because generations must not repeat. */
void weft_handle_remove_all(weft_handle_table *table);
/* Frees the memory. A table used again afterwards repeats handles. */
void weft_handle_table_free(weft_handle_table *table);

/* The object; NULL: invalid handle. */
static inline void *weft_handle_get(const weft_handle_table *table, const void *handle)
{
    uint64_t word = (uint64_t)(uintptr_t)handle;
    size_t slot = (size_t)(word >> WEFT_HANDLE_KIND_BITS) & (((size_t)1 << WEFT_HANDLE_SLOT_BITS) - 1);
    const weft_handle_slot *slots = table->slots.items;
    return slot < table->slots.count && slots[slot].handle == word ? slots[slot].object : NULL;
}

#endif
