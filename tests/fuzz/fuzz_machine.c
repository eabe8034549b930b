/* The fuzzer's bytes are a file of a machine's figures (WEFT_MACHINE, `weft-machine --figures`), in both of its forms. A file that is
 * accepted is written and read again. */
#include "fuzz.h"
#include "machine/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    FILE *file = fmemopen((void *)(data + 1), size - 1, "r"), *again = tmpfile();
    FUZZ_REQUIRE(file != NULL && again != NULL);
    char why[64] = "";
    if (data[0] % 2 == 0) {
        weft_machine machine;
        if (weft_machine_read(file, &machine)) {
            FUZZ_REQUIRE(weft_machine_possible(&machine));
            FUZZ_REQUIRE(weft_machine_write(&machine, again) && fseek(again, 0, SEEK_SET) == 0);
            FUZZ_REQUIRE(weft_machine_read(again, &machine));
        }
    } else {
        weft_machine_model model;
        if (weft_machine_model_read(file, &model, why, sizeof(why))) {
            FUZZ_REQUIRE(weft_machine_possible(&model.machine));
            FUZZ_REQUIRE(weft_machine_model_write(&model, again) && fseek(again, 0, SEEK_SET) == 0);
            FUZZ_REQUIRE(weft_machine_model_read(again, &model, why, sizeof(why)));
        } else {
            FUZZ_REQUIRE(why[0] != '\0');
        }
    }
    fclose(file);
    fclose(again);
    return 0;
}
