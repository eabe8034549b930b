/* Small messages that travel together: what a pack is, and whom its entries are for. No transport in here.
 *
 * A pack is a run of entries, each a header and the bytes of one message. Entries carry their tags, so
 * neither the order of packs nor that of entries matters. The receiving side keeps an inbox: receives that
 * wait for their message, and messages that came before their receive was started. */
#ifndef WEFT_SRC_COMM_PACK_H
#define WEFT_SRC_COMM_PACK_H

#include "comm/transport.h"

/* Of a pack. What MPI sends without asking first over TCP (64 KB), less something. */
enum { WEFT_PACK_CAPACITY = 48 * 1024 };

typedef struct weft_pack {
    int used, count; /* bytes, and messages in them */
    _Alignas(16) char bytes[WEFT_PACK_CAPACITY];
} weft_pack;

/* Appends a message, from its panel's memory. False: it is too full. */
bool weft_pack_put(weft_pack *pack, const weft_message *message, const void *memory);

typedef struct weft_inbox weft_inbox;

weft_inbox *weft_inbox_new(void); /* NULL: no memory */
void weft_inbox_free(weft_inbox *inbox);

/* A receive starts: into memory (the handle's start). *came: its message was here already, and has been
 * copied. Else message, memory and token are kept until it comes. WEFT_OK or WEFT_ERR_NOMEM. */
weft_status weft_inbox_expect(weft_inbox *inbox, const weft_message *message, void *memory, void *token,
                              bool *came);
/* A pack has come from a process. Copies what is waited for into its place, and appends the tokens to
 * `finished` (weft_finished); keeps the rest. WEFT_ERR_COMM: this is not a pack; WEFT_ERR_NOMEM. */
weft_status weft_inbox_take(weft_inbox *inbox, int peer, const void *bytes, int size, weft_vec *finished);

#endif
