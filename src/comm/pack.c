#include "comm/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* Digest of what both sides must agree on, so that messages of different calls do not match. */
typedef struct header {
    uint32_t tag, bytes;
    uint64_t digest;
} header;

static header header_of(const weft_message *message)
{
    return (header){ message->tag, (uint32_t)message->bytes, weft_message_digest(message) };
}

/* Header of one message in a pack; each is aligned as the first one is. */
static int64_t entry_size(int64_t bytes)
{
    return (int64_t)sizeof(header) + weft_ceil_div(bytes, 16) * 16;
}

bool weft_pack_put(weft_pack *pack, const weft_message *message, const void *memory)
{
    int64_t size = entry_size(message->bytes);
    if (pack->used + size > WEFT_PACK_CAPACITY) {
        return false;
    }
    header head = header_of(message);
    char *entry = pack->bytes + pack->used;
    memcpy(entry, &head, sizeof(head));
    weft_region_read(&message->region, memory, entry + sizeof(head));
    pack->used += (int)size;
    pack->count++;
    return true;
}

/* ---- the inbox ----------------------------------------------------------------------------------------- */

typedef struct item {
    int peer;
    header head;
    const weft_message *message; /* a waiting receive; NULL: an arrived message, in `kept` */
    void *memory, *token;
    char kept[];
} item;

struct weft_inbox {
    weft_map items;
};

weft_inbox *weft_inbox_new(void)
{
    return calloc(1, sizeof(weft_inbox));
}

void weft_inbox_free(weft_inbox *inbox)
{
    if (inbox == NULL) {
        return;
    }
    for (weft_map_slot *slot = NULL; (slot = weft_map_each(&inbox->items, slot)) != NULL;) {
        free(slot->value);
    }
    weft_map_free(&inbox->items);
    free(inbox);
}

static uint64_t hash_of(int peer, const header *head)
{
    return weft_hash_u64(head->digest ^ (uint64_t)head->tag << 32 ^ (uint32_t)peer);
}

/* Takes out a waiting receive, or a kept message. NULL: none. */
static item *take_out(weft_inbox *inbox, int peer, const header *head, bool waiting)
{
    weft_map_slot *slot = weft_map_first(&inbox->items, hash_of(peer, head));
    for (; slot != NULL; slot = weft_map_next(&inbox->items, slot)) {
        item *each = slot->value;
        if (each->peer == peer && each->head.tag == head->tag && each->head.bytes == head->bytes &&
            each->head.digest == head->digest && (each->message != NULL) == waiting) {
            weft_map_remove(&inbox->items, slot);
            return each;
        }
    }
    return NULL;
}

static item *put_in(weft_inbox *inbox, int peer, const header *head, size_t kept_bytes)
{
    item *new = malloc(sizeof(*new) + kept_bytes);
    if (new == NULL || !weft_map_add(&inbox->items, hash_of(peer, head), new)) {
        free(new);
        return NULL;
    }
    *new = (item){ .peer = peer, .head = *head };
    return new;
}

weft_status weft_inbox_expect(weft_inbox *inbox, const weft_message *message, void *memory, void *token,
                              bool *came)
{
    header head = header_of(message);
    item *kept = take_out(inbox, message->peer, &head, false);
    *came = kept != NULL;
    if (kept != NULL) {
        weft_region_write(&message->region, memory, kept->kept);
        free(kept);
        return WEFT_OK;
    }
    item *waiting = put_in(inbox, message->peer, &head, 0);
    if (waiting == NULL) {
        return WEFT_ERR_NOMEM;
    }
    waiting->message = message;
    waiting->memory = memory;
    waiting->token = token;
    return WEFT_OK;
}

static weft_status take_entry(weft_inbox *inbox, int peer, const header *head, const char *bytes,
                              weft_vec *finished)
{
    item *waiting = take_out(inbox, peer, head, true);
    if (waiting == NULL) {
        item *kept = put_in(inbox, peer, head, head->bytes);
        if (kept != NULL) {
            memcpy(kept->kept, bytes, head->bytes);
        }
        return kept != NULL ? WEFT_OK : WEFT_ERR_NOMEM;
    }
    weft_finished *ended = weft_vec_push(finished, sizeof(*ended));
    if (ended != NULL) {
        weft_region_write(&waiting->message->region, waiting->memory, bytes);
        *ended = (weft_finished){ waiting->token, WEFT_OK };
    }
    free(waiting);
    return ended != NULL ? WEFT_OK : WEFT_ERR_NOMEM;
}

weft_status weft_inbox_take(weft_inbox *inbox, int peer, const void *bytes, int size, weft_vec *finished)
{
    const char *entry = bytes;
    weft_status status = WEFT_OK;
    for (int64_t left = size; left > 0 && status == WEFT_OK;) {
        header head;
        if (left < (int64_t)sizeof(head)) {
            return WEFT_ERR_COMM;
        }
        memcpy(&head, entry, sizeof(head));
        if (entry_size(head.bytes) > left) {
            return WEFT_ERR_COMM;
        }
        status = take_entry(inbox, peer, &head, entry + sizeof(head), finished);
        entry += entry_size(head.bytes);
        left -= entry_size(head.bytes);
    }
    return status;
}
