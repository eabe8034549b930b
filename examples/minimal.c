#include <stdio.h>
#include <weft/weft.h>

int main(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;                        /* in this process, or spread over mpirun's */
    weft_init(&config);
    weft_mesh_push(weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *[]){ "dp", "tp" }));

    weft_placement rows[2], columns[2];
    weft_placements_parse("S0,R", 2, rows);      /* sharded by rows over dp, replicated over tp */
    weft_placements_parse("R,S1", 2, columns);   /* replicated over dp, sharded by columns over tp */

    weft_scope_begin();
    weft_tensor *x = weft_randn(WEFT_F64, 2, (int64_t[]){ 5, 300 }, NULL, rows);
    weft_tensor *w = weft_randn(WEFT_F64, 2, (int64_t[]){ 300, 4 }, NULL, columns);
    weft_tensor *y = weft_matmul(x, w);          /* S0,S1: every rank has a tile; no communication */
    weft_tensor *sum = weft_sum(y, 0, false);    /* P,S0: along dp, addends */
    weft_tensor *total = weft_redistribute(sum, NULL, NULL); /* R,R: adds them up */
    weft_tensor_print(y, stdout);                /* the first call that waits */
    weft_tensor_print(total, stdout);
    weft_scope_end();

    int failed = weft_last_status() != WEFT_OK;  /* one check for the whole chain */
    if (failed) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    weft_finalize();
    return failed;
}
