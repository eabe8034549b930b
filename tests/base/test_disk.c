/* src/base/disk.h: what is opened, and what is refused without waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"

enum { FILE_KIND, LINK, NAMES, PIPE, FOLDER, DEVICE, ABSENT, NUM_KINDS };

static char folder[64], path[96], other[96];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weft-disk-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(path);
    remove(other);
    return remove(folder);
}

static void write_text(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_text(const char *of, const char *expected)
{
    char text[64] = "";
    FILE *file = fopen(of, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

/* Puts this kind at `path`; links and names are those of `other`. Returns the path to use. */
static const char *put(int kind)
{
    remove(path);
    write_text(other, "secret");
    if (kind == FILE_KIND) {
        write_text(path, "old");
    } else if (kind == LINK) {
        assert_int_equal(symlink(other, path), 0);
    } else if (kind == NAMES) {
        assert_int_equal(link(other, path), 0);
    } else if (kind == PIPE) {
        assert_int_equal(mkfifo(path, 0600), 0);
    } else if (kind == FOLDER) {
        assert_int_equal(mkdir(path, 0700), 0);
    }
    return kind == DEVICE ? "/dev/null" : path;
}

/* A step that failed without errno says why; with errno, the system does. */
static void assert_says(const char *failed, const char *expected)
{
    char text[120];
    assert_non_null(failed);
    assert_non_null(strstr(weft_disk_failure(failed, text, sizeof(text)), expected));
}

static const char *const why[NUM_KINDS] = { NULL,        "a symbolic link", "several names", "a pipe",
                                            "a directory", "a device",        "No such file" };

static void test_reading(void **state)
{
    (void)state;
    for (int kind = 0; kind < NUM_KINDS; kind++) {
        const char *from = put(kind);
        bool readable = kind == FILE_KIND || kind == LINK || kind == NAMES;
        int file = 7;
        int64_t size = -1;
        char text[120] = "", bytes[8];
        const char *failed = weft_disk_open(from, &file, &size);
        if (readable) {
            assert_null(failed);
            assert_int_equal(size, kind == FILE_KIND ? 3 : 6);
            assert_null(weft_disk_read(file, bytes, size, 0));
            assert_says(weft_disk_read(file, bytes, size, 1), "read: the file ends there");
            close(file);
        } else {
            assert_int_equal(file, -1);
            assert_says(failed, why[kind]);
        }
        FILE *stream = weft_disk_stream(from, text, sizeof(text));
        assert_int_equal(stream != NULL, readable);
        assert_true(readable || strstr(text, why[kind]) != NULL);
        if (stream != NULL) {
            fclose(stream);
        }
    }
}

static void test_creating(void **state)
{
    (void)state;
    for (int anew = 0; anew < 2; anew++) {
        for (int kind = 0; kind < NUM_KINDS; kind++) {
            const char *to = put(kind);
            bool may = kind == FILE_KIND || kind == ABSENT || (anew && kind == NAMES);
            int file = 7;
            struct stat about;
            const char *failed = anew ? weft_disk_create_new(to, &file) : weft_disk_create(to, &file);
            if (may) {
                assert_null(failed);
                assert_null(weft_disk_write(file, "new", 3, 0));
                assert_null(weft_disk_finish(file));
                assert_text(to, "new");
                weft_disk_remove(to);
                assert_int_equal(lstat(to, &about), -1);
            } else {
                assert_int_equal(file, -1);
                assert_says(failed, why[kind]);
                weft_disk_remove(to);
                assert_int_equal(lstat(to, &about), 0); /* not ours */
            }
            assert_text(other, "secret");
        }
    }
}

/* Regular files, and links to them, are replaced; what a link leads to stays. */
static void test_replacing(void **state)
{
    (void)state;
    char from[96];
    bool renamed;
    snprintf(from, sizeof(from), "%s/new", folder);
    for (int kind = 0; kind < NUM_KINDS; kind++) {
        const char *to = put(kind);
        bool may = kind == FILE_KIND || kind == LINK || kind == NAMES || kind == ABSENT;
        write_text(from, "new");
        const char *failed = weft_disk_rename(from, to, &renamed);
        if (may) {
            assert_null(failed);
            assert_text(to, "new");
        } else {
            assert_says(failed, why[kind]);
            assert_int_equal(remove(from), 0);
        }
        assert_int_equal(renamed, may);
        assert_text(other, "secret");
    }
}

/* Only a name that nothing has, not even a link that leads nowhere. */
static void test_renaming_to_a_new_name(void **state)
{
    (void)state;
    char from[96];
    bool renamed;
    snprintf(from, sizeof(from), "%s/new", folder);
    for (int kind = 0; kind <= NUM_KINDS; kind++) {
        const char *to = put(kind);
        if (kind == NUM_KINDS) {
            assert_int_equal(symlink("nowhere", path), 0);
        }
        write_text(from, "new");
        assert_int_equal(weft_disk_is_taken(to), kind != ABSENT);
        const char *failed = weft_disk_rename_new(from, to, &renamed);
        assert_int_equal(renamed, kind == ABSENT);
        if (kind == ABSENT) {
            assert_null(failed);
            assert_text(to, "new");
        } else {
            assert_says(failed, "rename: File exists");
            assert_text(from, "new");
            assert_int_equal(remove(from), 0);
        }
        assert_text(other, "secret");
    }
    remove(path);
    assert_says(weft_disk_rename_new(from, path, &renamed), "rename: No such file"); /* and the name is free again */
    assert_false(renamed || weft_disk_is_taken(path));
}

static uint64_t stamp_of(const char *of)
{
    int file;
    int64_t size;
    assert_null(weft_disk_open(of, &file, &size));
    uint64_t stamp = weft_disk_stamp(file);
    close(file);
    return stamp;
}

static void test_stamps(void **state)
{
    (void)state;
    put(FILE_KIND);
    uint64_t first = stamp_of(path);
    assert_true(first == stamp_of(path));
    assert_true(first != stamp_of(other));
    write_text(path, "older");
    assert_true(first != stamp_of(path));
}

/* What the program names may be a pipe that somebody reads, a device, or a link. */
static void test_writing_to_what_the_program_names(void **state)
{
    (void)state;
    for (int kind = 0; kind < NUM_KINDS; kind++) {
        const char *to = put(kind);
        FILE *stream = weft_disk_stream_to(to, false);
        if (kind == PIPE || kind == FOLDER) {
            assert_null(stream);
            assert_int_equal(errno, kind == PIPE ? ENXIO : EISDIR); /* nobody reads: it does not wait */
            continue;
        }
        assert_non_null(stream);
        fputs("one", stream);
        assert_int_equal(fclose(stream), 0);
        stream = weft_disk_stream_to(to, true);
        fputs(" two", stream);
        assert_int_equal(fclose(stream), 0);
        if (kind != DEVICE) {
            assert_text(to, "one two");
        }
    }
    put(PIPE);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    FILE *stream = weft_disk_stream_to(path, false);
    char bytes[8] = "";
    assert_non_null(stream);
    assert_int_equal(fcntl(fileno(stream), F_GETFL) & O_NONBLOCK, 0); /* a slow reader gets everything */
    fputs("piped", stream);
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(read(reader, bytes, sizeof(bytes)), 5);
    close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_creating),
        cmocka_unit_test(test_replacing), cmocka_unit_test(test_renaming_to_a_new_name), cmocka_unit_test(test_stamps),
        cmocka_unit_test(test_writing_to_what_the_program_names),
    };
    return cmocka_run_group_tests_name("disk", tests, make_folder, remove_folder);
}
