#include "io/json.h"

#include <stdlib.h>
#include <string.h>

static const char *name_of(const weft_json *json)
{
    return json->of == NULL ? "header" : json->of;
}

bool weft_json_fail(weft_json *json, const char *format, ...)
{
    if (!json->failed) {
        weft_text text = weft_text_in(json->why, sizeof(json->why));
        va_list arguments;
        va_start(arguments, format);
        weft_text_add_list(&text, format, arguments);
        va_end(arguments);
        weft_text_add(&text, " at byte %zu of the %s", json->at, name_of(json));
    }
    json->failed = true;
    return false;
}

bool weft_json_fail_memory(weft_json *json, const char *what)
{
    json->no_memory |= !json->failed;
    return weft_json_fail(json, "no memory for %s", what);
}

static void skip_spaces(weft_json *json)
{
    while (json->at < json->length && memchr(" \t\n\r", json->text[json->at], 4) != NULL) {
        json->at++;
    }
}

bool weft_json_take(weft_json *json, char character)
{
    skip_spaces(json);
    bool found = !json->failed && json->at < json->length && json->text[json->at] == character;
    json->at += found;
    return found;
}

bool weft_json_expect(weft_json *json, char character)
{
    if (weft_json_take(json, character)) {
        return true;
    }
    bool ends = json->at >= json->length;
    unsigned char found = ends ? 0 : (unsigned char)json->text[json->at];
    return ends                            ? weft_json_fail(json, "expected '%c', and the %s ends", character, name_of(json))
           : found >= 0x20 && found < 0x7f ? weft_json_fail(json, "expected '%c', found '%c'", character, found)
                                           : weft_json_fail(json, "expected '%c', found the byte %02x", character, found);
}

bool weft_json_take_word(weft_json *json, const char *word)
{
    skip_spaces(json);
    size_t length = strlen(word);
    bool found = !json->failed && json->length - json->at >= length && memcmp(json->text + json->at, word, length) == 0;
    json->at += found ? length : 0;
    return found;
}

bool weft_json_integer(weft_json *json, int64_t *value)
{
    skip_spaces(json);
    size_t begin = json->at;
    int64_t number = 0;
    bool fits = !json->failed;
    for (; json->at < json->length && json->text[json->at] >= '0' && json->text[json->at] <= '9'; json->at++) {
        fits = fits && weft_mul_checked(number, 10, &number) &&
               weft_add_checked(number, json->text[json->at] - '0', &number);
    }
    size_t digits = json->at - begin;
    json->at = begin;
    if (digits == 0 || (digits > 1 && json->text[begin] == '0')) {
        return weft_json_fail(json, "no integer that is not negative");
    }
    if (!fits) {
        return weft_json_fail(json, "an integer beyond 64 bits");
    }
    json->at += digits;
    *value = number;
    return true;
}

bool weft_json_end(weft_json *json)
{
    skip_spaces(json);
    return !json->failed && (json->at == json->length || weft_json_fail(json, "more characters after the object"));
}

/* ---- strings ------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at the beginning of `count` bytes; 0: none. */
static size_t utf8_length(const unsigned char *bytes, size_t count)
{
    unsigned char first = bytes[0];
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || length > count) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (first == 0xe0 && bytes[1] < 0xa0) || (first == 0xf0 && bytes[1] < 0x90);
    bool surrogate = first == 0xed && bytes[1] >= 0xa0, beyond = first == 0xf4 && bytes[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : length;
}

bool weft_is_utf8(const char *text)
{
    size_t left = strlen(text), length = 1;
    for (; left > 0 && length > 0; left -= length, text += length) {
        length = utf8_length((const unsigned char *)text, left);
    }
    return length > 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The four digits after \u; -1 with an error. */
static int32_t code_unit(weft_json *json)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = json->at < json->length ? hex_digit(json->text[json->at]) : -1;
        if (digit < 0) {
            weft_json_fail(json, "an escape \\u without four digits");
            return -1;
        }
        unit = unit << 4 | digit;
        json->at++;
    }
    return unit;
}

/* The character of an escape \u, whose second half may follow; 0 with an error. */
static int32_t code_point(weft_json *json)
{
    int32_t high = code_unit(json), low = 0;
    if (high >= 0xd800 && high < 0xdc00) {
        bool follows = json->at + 2 <= json->length && memcmp(json->text + json->at, "\\u", 2) == 0;
        json->at += follows ? 2 : 0;
        low = follows ? code_unit(json) : 0;
        if (low < 0xdc00 || low > 0xdfff) {
            weft_json_fail(json, "half of a surrogate pair");
            return 0;
        }
        return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    if (high == 0 || (high >= 0xdc00 && high <= 0xdfff)) {
        weft_json_fail(json, high == 0 ? "the character U+0000" : "half of a surrogate pair");
    }
    return json->failed ? 0 : high;
}

static size_t write_utf8(int32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    size_t length = code < 0x10000 ? 3 : 4;
    out[0] = (char)((length == 3 ? 0xe0 : 0xf0) | code >> 6 * (int)(length - 1));
    for (size_t i = 1; i < length; i++) {
        out[i] = (char)(0x80 | (code >> 6 * (int)(length - 1 - i) & 0x3f));
    }
    return length;
}

/* After a backslash: writes its character and returns its bytes; 0 with an error. */
static size_t take_escape(weft_json *json, char *out)
{
    static const char escapes[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->length ? json->text[json->at] : '\0';
    const char *found = c == '\0' ? NULL : strchr(escapes, c);
    if (found != NULL) {
        json->at++;
        *out = characters[found - escapes];
        return 1;
    }
    if (c != 'u') {
        weft_json_fail(json, "an escape that JSON does not have");
        return 0;
    }
    json->at++;
    int32_t code = code_point(json);
    return code == 0 ? 0 : write_utf8(code, out);
}

/* After the opening quote, to the closing one. `out` has room for as many bytes as the string has in the text. */
static bool take_characters(weft_json *json, char *out)
{
    while (json->at < json->length && json->text[json->at] != '"') {
        const unsigned char *from = (const unsigned char *)json->text + json->at;
        size_t length = utf8_length(from, json->length - json->at);
        if (length == 0 || *from < 0x20) {
            return weft_json_fail(json, length == 0 ? "bytes that are not UTF-8" : "a control character in a string");
        }
        json->at += length;
        if (*from == '\\') {
            length = take_escape(json, out);
        } else {
            memcpy(out, from, length);
        }
        if (length == 0) {
            return false;
        }
        out += length;
    }
    *out = '\0';
    return weft_json_expect(json, '"');
}

/* Bytes up to the closing quote. */
static size_t raw_length(const weft_json *json)
{
    size_t end = json->at;
    while (end < json->length && json->text[end] != '"') {
        end += json->text[end] == '\\' && end + 1 < json->length ? 2 : 1;
    }
    return end - json->at;
}

bool weft_json_is_string(weft_json *json)
{
    skip_spaces(json);
    return !json->failed && json->at < json->length && json->text[json->at] == '"';
}

char *weft_json_string(weft_json *json)
{
    if (json->failed || !weft_json_expect(json, '"')) {
        return NULL;
    }
    char *string = malloc(raw_length(json) + 1);
    if (string == NULL) {
        weft_json_fail_memory(json, "a string");
    } else if (!take_characters(json, string)) {
        free(string);
        string = NULL;
    }
    return string;
}

/* ---- values that nobody asks for ------------------------------------------------------------------------- */

static size_t take_digits(weft_json *json)
{
    size_t begin = json->at;
    while (json->at < json->length && json->text[json->at] >= '0' && json->text[json->at] <= '9') {
        json->at++;
    }
    return json->at - begin;
}

static bool take_one_of(weft_json *json, const char *characters)
{
    bool found = json->at < json->length && json->text[json->at] != '\0' && strchr(characters, json->text[json->at]) != NULL;
    json->at += found;
    return found;
}

static bool skip_number(weft_json *json)
{
    take_one_of(json, "-");
    bool zero = json->at < json->length && json->text[json->at] == '0';
    size_t digits = take_digits(json);
    bool right = digits > 0 && !(zero && digits > 1);
    if (right && take_one_of(json, ".")) {
        right = take_digits(json) > 0;
    }
    if (right && take_one_of(json, "eE")) {
        take_one_of(json, "+-");
        right = take_digits(json) > 0;
    }
    return right || weft_json_fail(json, "no value of JSON");
}

static bool skip_string(weft_json *json)
{
    char *string = weft_json_string(json);
    free(string);
    return string != NULL;
}

/* A string, a number or a word. */
static bool skip_plain(weft_json *json)
{
    if (weft_json_is_string(json)) {
        return skip_string(json);
    }
    return weft_json_take_word(json, "true") || weft_json_take_word(json, "false") || weft_json_take_word(json, "null") ||
           skip_number(json);
}

/* After an opening bracket or a comma of an object: the key. */
static bool skip_key(weft_json *json)
{
    return skip_string(json) && weft_json_expect(json, ':');
}

enum { MOST_BRACKETS = 128 };

/* Brackets that are open. */
typedef struct brackets {
    int open;
    bool is_object[MOST_BRACKETS];
} brackets;

/* After a value: closes what ends there, up to the comma before the next value. */
static bool skip_ends(weft_json *json, brackets *b)
{
    while (b->open > 0) {
        bool object = b->is_object[b->open - 1];
        if (weft_json_take(json, ',')) {
            return !object || skip_key(json);
        }
        if (!weft_json_expect(json, object ? '}' : ']')) {
            return false;
        }
        b->open--;
    }
    return true;
}

bool weft_json_skip(weft_json *json)
{
    brackets b = { .open = 0 };
    bool done;
    do {
        bool object = weft_json_take(json, '{'), array = !object && weft_json_take(json, '[');
        if ((object || array) && b.open == MOST_BRACKETS) {
            return weft_json_fail(json, "more than %d brackets inside of each other", MOST_BRACKETS);
        }
        if (object || array) {
            b.is_object[b.open++] = object;
        }
        if ((object && weft_json_take(json, '}')) || (array && weft_json_take(json, ']'))) {
            b.open--;
            done = skip_ends(json, &b);
        } else {
            done = object ? skip_key(json) : array || (skip_plain(json) && skip_ends(json, &b));
        }
    } while (done && b.open > 0);
    return done;
}

void weft_json_add_string(weft_text *text, const char *string)
{
    weft_text_add(text, "\"");
    while (*string != '\0') {
        size_t plain = 0;
        while ((unsigned char)string[plain] >= 0x20 && string[plain] != '"' && string[plain] != '\\') {
            plain++;
        }
        weft_text_add(text, "%.*s", (int)plain, string);
        string += plain;
        if (*string == '"' || *string == '\\') {
            weft_text_add(text, "\\%c", *string++);
        } else if (*string != '\0') {
            weft_text_add(text, "\\u%04x", (unsigned char)*string++);
        }
    }
    weft_text_add(text, "\"");
}
