#include "base/text.h"

#include <stdlib.h>
#include <string.h>

weft_text weft_text_in(char *buffer, size_t size)
{
    if (size > 0) {
        buffer[0] = '\0';
    }
    return (weft_text){ .characters = buffer, .size = size };
}

weft_text weft_text_growing(void)
{
    return (weft_text){ .grows = true };
}

void weft_text_free(weft_text *text)
{
    if (text->grows) {
        free(text->characters);
    }
    *text = (weft_text){ .characters = NULL };
}

/* Room for `more` characters and the terminating 0. */
static bool reserve(weft_text *text, size_t more)
{
    size_t needed = text->length + more + 1;
    if (needed <= text->size) {
        return true;
    }
    size_t size = needed < 256 ? 256 : 2 * needed;
    char *larger = text->failed ? NULL : realloc(text->characters, size);
    if (larger == NULL) {
        text->failed = true;
        return false;
    }
    text->characters = larger;
    text->size = size;
    return true;
}

void weft_text_add_list(weft_text *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    size_t room = text->length < text->size ? text->size - text->length : 0;
    int length = vsnprintf(room == 0 ? NULL : text->characters + text->length, room, format, arguments);
    size_t more = length < 0 ? 0 : (size_t)length;
    if (text->grows && more >= room) {
        if (reserve(text, more)) {
            vsnprintf(text->characters + text->length, more + 1, format, again);
        } else if (room > 0) {
            text->characters[text->length] = '\0';
        }
    }
    va_end(again);
    text->length += text->failed ? 0 : more;
}

void weft_text_add(weft_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    weft_text_add_list(text, format, arguments);
    va_end(arguments);
}

void weft_text_add_sizes(weft_text *text, int count, const int64_t sizes[], const char *between)
{
    for (int i = 0; i < count; i++) {
        weft_text_add(text, "%s%lld", i == 0 ? "" : between, (long long)sizes[i]);
    }
}

bool weft_text_file_open(weft_text_file *file)
{
    *file = (weft_text_file){ .characters = NULL };
    file->file = open_memstream(&file->characters, &file->length);
    return file->file != NULL;
}

bool weft_text_file_close(weft_text_file *file, char *buffer, size_t size, size_t *length)
{
    bool complete = fclose(file->file) == 0 && file->characters != NULL;
    if (complete && size > 0) {
        size_t kept = file->length < size ? file->length : size - 1;
        memcpy(buffer, file->characters, kept);
        buffer[kept] = '\0';
    }
    if (complete && length != NULL) {
        *length = file->length;
    }
    free(file->characters);
    return complete;
}
