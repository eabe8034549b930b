#include "comm/pack.h"

#include <stdlib.h>
#include <string.h>

/* What both sides must agree on, so that messages of processes that do different things do not match. */
typedef struct header {
    uint32_t tag, bytes;
    uint64_t digest;
} header;

static header header_of(const weft_message *message)
{
    return (header){ message->tag, (uint32_t)message->bytes, weft_message_digest(message) };
}

/* Of one message in a pack: every header is aligned as the first one is. */
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

/* ---- the inbox: a hash table with chains --------------------------------------------------------------- */

typedef struct item {
    struct item *next;
    int peer;
    header head;
    const weft_message *message; /* a receive that waits; NULL: a message that came, in `kept` */
    void *memory, *token;
    char kept[];
} item;

struct weft_inbox {
    item **chains;
    size_t num_chains; /* a power of two */
    int count;
};

weft_inbox *weft_inbox_new(void)
{
    enum { FIRST_CHAINS = 256 };
    weft_inbox *inbox = calloc(1, sizeof(*inbox));
    if (inbox != NULL) {
        inbox->num_chains = FIRST_CHAINS;
        inbox->chains = calloc(FIRST_CHAINS, sizeof(item *));
    }
    if (inbox != NULL && inbox->chains == NULL) {
        free(inbox);
        return NULL;
    }
    return inbox;
}

void weft_inbox_free(weft_inbox *inbox)
{
    if (inbox == NULL) {
        return;
    }
    for (size_t i = 0; i < inbox->num_chains; i++) {
        for (item *each = inbox->chains[i], *next; each != NULL; each = next) {
            next = each->next;
            free(each);
        }
    }
    free(inbox->chains);
    free(inbox);
}

static item **chain_of(const weft_inbox *inbox, int peer, const header *head)
{
    uint64_t hash = weft_hash_u64(head->digest ^ (uint64_t)head->tag << 32 ^ (uint32_t)peer);
    return &inbox->chains[hash & (inbox->num_chains - 1)];
}

/* Without memory the chains stay as long as they are. */
static void spread_out(weft_inbox *inbox)
{
    weft_inbox wider = { calloc(2 * inbox->num_chains, sizeof(item *)), 2 * inbox->num_chains, inbox->count };
    if (wider.chains == NULL) {
        return;
    }
    for (size_t i = 0; i < inbox->num_chains; i++) {
        for (item *each = inbox->chains[i], *next; each != NULL; each = next) {
            next = each->next;
            item **chain = chain_of(&wider, each->peer, &each->head);
            each->next = *chain;
            *chain = each;
        }
    }
    free(inbox->chains);
    *inbox = wider;
}

/* Takes out one that waits for a message, or one that was kept. NULL: there is none. */
static item *take_out(weft_inbox *inbox, int peer, const header *head, bool waiting)
{
    for (item **link = chain_of(inbox, peer, head); *link != NULL; link = &(*link)->next) {
        item *each = *link;
        if (each->peer == peer && each->head.tag == head->tag && each->head.bytes == head->bytes &&
            each->head.digest == head->digest && (each->message != NULL) == waiting) {
            *link = each->next;
            inbox->count--;
            return each;
        }
    }
    return NULL;
}

static item *put_in(weft_inbox *inbox, int peer, const header *head, size_t kept_bytes)
{
    item *new = malloc(sizeof(*new) + kept_bytes);
    if (new == NULL) {
        return NULL;
    }
    if ((size_t)inbox->count >= inbox->num_chains) {
        spread_out(inbox);
    }
    item **chain = chain_of(inbox, peer, head);
    *new = (item){ .next = *chain, .peer = peer, .head = *head };
    *chain = new;
    inbox->count++;
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
