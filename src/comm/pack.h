/* Format of packs of small messages, and matching of their entries. No transport code.
 *
 * A pack is a run of entries, each a header and the bytes of one message. Entries carry their tags, so the
 * order of packs and of entries does not matter. The receiver keeps an inbox: receives that wait for their
 * message, and messages that arrived before their receive. */
#ifndef WEFT_SRC_COMM_PACK_H
#define WEFT_SRC_COMM_PACK_H

#include "comm/transport.h"

/* Capacity of a pack: a little below MPI's eager limit over TCP (64 KB). */
enum { WEFT_PACK_CAPACITY = 48 * 1024 };

typedef struct weft_pack {
    int used, count; /* bytes, and number of messages */
    _Alignas(16) char bytes[WEFT_PACK_CAPACITY];
} weft_pack;

/* Appends a message from its panel's memory. False: no room. */
bool weft_pack_put(weft_pack *pack, const weft_message *message, const void *memory);

typedef struct weft_inbox weft_inbox;

weft_inbox *weft_inbox_new(void); /* NULL: no memory */
void weft_inbox_free(weft_inbox *inbox);

/* Starts a receive into memory (the handle's start). *came: the message had arrived already, and has been
 * copied; else message, memory and token are kept until it arrives. WEFT_OK or WEFT_ERR_NOMEM. */
weft_status weft_inbox_expect(weft_inbox *inbox, const weft_message *message, void *memory, void *token,
                              bool *came);
/* Takes an arrived pack. Copies messages of waiting receives to their places and appends the tokens to
 * `finished` (weft_finished); keeps the others. WEFT_ERR_COMM: not a pack; WEFT_ERR_NOMEM. */
weft_status weft_inbox_take(weft_inbox *inbox, int peer, const void *bytes, int size, weft_vec *finished);

#endif
