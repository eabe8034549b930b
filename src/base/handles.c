#include "base/handles.h"

static const uint64_t top_bits = (uint64_t)1 << 63;
static const uint64_t next_generation = (uint64_t)1 << WEFT_HANDLE_GENERATION_SHIFT;
static const uint64_t last_generation = ((uint64_t)1 << WEFT_HANDLE_GENERATION_BITS) - 1;

static uint64_t generation_of(uint64_t handle)
{
    return handle >> WEFT_HANDLE_GENERATION_SHIFT & last_generation;
}

/* NULL: no memory, or no handles are left for new slots. */
static weft_handle_slot *new_slot(weft_handle_table *table, weft_handle_kind kind)
{
    size_t number = table->slots.count;
    weft_handle_slot *slot =
        number >> WEFT_HANDLE_SLOT_BITS != 0 ? NULL : weft_vec_push(&table->slots, sizeof(*slot));
    if (slot != NULL) {
        slot->handle =
            top_bits | next_generation | (uint64_t)number << WEFT_HANDLE_KIND_BITS | (uint64_t)kind;
    }
    return slot;
}

void *weft_handle_add(weft_handle_table *table, weft_handle_kind kind, void *object)
{
    weft_handle_slot *slot;
    if (table->first_free != 0) {
        slot = (weft_handle_slot *)table->slots.items + table->first_free - 1;
        table->first_free = slot->next_free;
    } else {
        slot = new_slot(table, kind);
    }
    if (slot == NULL) {
        return NULL;
    }
    slot->object = object;
    table->num_objects++;
    return (void *)(uintptr_t)slot->handle;
}

/* Frees the slot for its next generation; after the last generation it is not reused. */
static void vacate(weft_handle_table *table, weft_handle_slot *slot)
{
    slot->object = NULL;
    table->num_objects--;
    if (generation_of(slot->handle) == last_generation) {
        slot->handle = 0;
        return;
    }
    slot->handle += next_generation;
    slot->next_free = table->first_free;
    table->first_free = (size_t)(slot - (weft_handle_slot *)table->slots.items) + 1;
}

bool weft_handle_remove(weft_handle_table *table, const void *handle)
{
    if (weft_handle_get(table, handle) == NULL) {
        return false;
    }
    weft_handle_slot *slots = table->slots.items;
    size_t mask = ((size_t)1 << WEFT_HANDLE_SLOT_BITS) - 1;
    vacate(table, &slots[(uint64_t)(uintptr_t)handle >> WEFT_HANDLE_KIND_BITS & mask]);
    return true;
}

void weft_handle_remove_all(weft_handle_table *table)
{
    weft_handle_slot *slots = table->slots.items;
    for (size_t i = 0; i < table->slots.count; i++) {
        if (slots[i].object != NULL) {
            vacate(table, &slots[i]);
        }
    }
}

void weft_handle_table_free(weft_handle_table *table)
{
    weft_vec_free(&table->slots);
    *table = (weft_handle_table){ 0 };
}
