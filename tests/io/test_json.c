/* The scanner of JSON (io/json.h): strings with escapes of all code points, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

static char *read_string(const char *text, weft_json *json)
{
    *json = (weft_json){ .text = text, .length = strlen(text) };
    return weft_json_string(json);
}

static void reads(const char *text, const char *expected)
{
    weft_json json;
    char *string = read_string(text, &json);
    if (string == NULL) {
        fail_msg("%s: %s", text, json.why);
    }
    assert_string_equal(string, expected);
    assert_true(weft_json_end(&json));
    free(string);
}

static void refuses(const char *text, const char *why)
{
    weft_json json;
    assert_null(read_string(text, &json));
    assert_true(json.failed);
    if (strstr(json.why, why) == NULL) {
        fail_msg("%s: \"%s\" has no \"%s\"", text, json.why, why);
    }
}

static void test_escapes(void **state)
{
    (void)state;
    reads("\"\"", "");
    reads("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    reads("\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac");
    reads("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"); /* a surrogate pair */
    reads("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\\ud800\\udc00\\udbff\\udfff\"",
          "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

/* Each code point as an escape, and as it is, is the same text. */
static void test_every_code_point(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= 0xffff; code += code < 0x900 ? 1 : 61) {
        if (code >= 0xd800 && code <= 0xdfff) {
            continue;
        }
        char text[16], again[64], *string;
        snprintf(text, sizeof(text), "\"\\u%04x\"", (unsigned)code);
        weft_json json;
        string = read_string(text, &json);
        assert_non_null(string);
        assert_true(weft_is_utf8(string));
        weft_text written = weft_text_in(again, sizeof(again));
        weft_json_add_string(&written, string);
        reads(again, string);
        free(string);
    }
}

static void test_refused_strings(void **state)
{
    (void)state;
    refuses("\"\\u12\"", "without four digits");
    refuses("\"\\u12g4\"", "without four digits");
    refuses("\"\\u", "without four digits");
    refuses("\"\\u0000\"", "U+0000");
    refuses("\"\\ud800\"", "half of a surrogate pair");
    refuses("\"\\ud800\\n\"", "half of a surrogate pair");
    refuses("\"\\ud800\\u0041\"", "half of a surrogate pair");
    refuses("\"\\udc00\"", "half of a surrogate pair");
    refuses("\"\\x\"", "");
    refuses("\"\xc3\"", "UTF-8");
    refuses("\"\xed\xa0\x80\"", "UTF-8"); /* a surrogate */
    refuses("\"\xc0\x80\"", "UTF-8");     /* more bytes than it needs */
    refuses("\"\n\"", "");
    refuses("\"open", "");
    refuses("12", "");
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool right;
        int64_t value;
    } cases[] = { { "0", true, 0 },
                  { "9223372036854775807", true, INT64_MAX },
                  { "9223372036854775808", false, 0 },
                  { "-1", false, 0 },
                  { "", false, 0 },
                  { "x", false, 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_json json = { .text = cases[i].text, .length = strlen(cases[i].text) };
        int64_t value = 0;
        assert_int_equal(weft_json_integer(&json, &value), cases[i].right);
        assert_int_equal(value, cases[i].value);
        assert_int_equal(json.failed, !cases[i].right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_refused_strings),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
