/* A build without NCCL. */
#include "comm/nccl_open.h"

weft_status weft_nccl_open(const char *function, const weft_settings *settings, weft_transport *transport, bool *told)
{
    (void)transport;
    *told = false;
    return settings->nccl != 1 ? WEFT_OK
                               : weft_fail(WEFT_ERR_UNSUPPORTED, function, "WEFT_NCCL is 1, but weft was built without NCCL");
}
