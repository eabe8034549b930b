/* Which processes run on one machine. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/machine.h"

void weft_machine_name(char *name, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    bool known = file != NULL && fgets(name, (int)size, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (!known && gethostname(name, size) != 0) {
        snprintf(name, size, "unknown");
    }
    name[size - 1] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

uint64_t weft_machine_id(void)
{
    char name[128] = "";
    struct stat network;
    weft_machine_name(name, sizeof(name));
    bool known = stat("/proc/self/ns/net", &network) == 0;
    return weft_hash_bytes(name, strlen(name), known ? network.st_ino : 0);
}
