#include "output.h"

#include <stdio.h>
#include <sys/wait.h>

#include "base/base.h"

char *output_of(const char *program, const char *arguments, bool errors, int *status)
{
    char command[4096];
    snprintf(command, sizeof(command), "'%s' %s %s", program, arguments, errors ? "2>&1 >/dev/null" : "2>/dev/null");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    weft_vec text = { NULL, 0, 0 };
    for (size_t got = 1; got > 0; text.count += got) {
        assert_true(weft_vec_reserve(&text, text.count + 4096, 1));
        got = fread((char *)text.items + text.count, 1, 4095, pipe);
    }
    ((char *)text.items)[text.count] = '\0';
    int ended = pclose(pipe);
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    return text.items;
}
