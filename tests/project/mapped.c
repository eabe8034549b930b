/* Prints the shared libraries that are mapped into it: "start FILE" before it calls weft, "end FILE" after a product. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int print_mapped(const char *when)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL) {
        perror("/proc/self/maps");
        return 1;
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *file = strchr(line, '/');
        if (file != NULL && strstr(file, ".so") != NULL && strcmp(file, last) != 0) {
            printf("%s %s", when, file);
            snprintf(last, sizeof(last), "%s", file);
        }
    }
    fclose(maps);
    return 0;
}

int main(void)
{
    if (print_mapped("start") != 0) {
        return 1;
    }
    if (weft_init(NULL) != WEFT_OK) {
        return 1;
    }
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    weft_scope_begin();
    weft_tensor *ones = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 64 }, NULL, NULL);
    weft_tensor *product = weft_matmul(ones, ones);
    int failed = product == NULL || weft_wait() != WEFT_OK;
    failed = print_mapped("end") != 0 || failed;
    weft_scope_end();
    return weft_finalize() != WEFT_OK || failed;
}
