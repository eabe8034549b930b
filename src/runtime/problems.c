/* Messages of kernels' error words: kept until the program's next blocking call. */
#include "codelets/cuda/kernels.h"
#include "codelets/problems.h"
#include "runtime/codelets.h"
#include "sharding/operation.h"

/* The operation's name of an input. Kernels number inputs without those that are changed in place. */
static const char *input_name(int number, const weft_operation *operation)
{
    for (int i = 0; operation != NULL && i < WEFT_MAX_INPUTS && operation->inputs[i].name != NULL; i++) {
        bool read = i >= WEFT_MAX_OUTPUTS || !operation->outputs[i].in_place;
        number -= read;
        if (read && number < 0) {
            return operation->inputs[i].name;
        }
    }
    return "an input";
}

void weft_task_run_report(const weft_task_run *run, const weft_operation *operation)
{
    static const char *const memory[] = {
        [WEFT_PROBLEM_RESULTS] = "the results of a task",
        [WEFT_PROBLEM_ROW] = "a row",
        [WEFT_PROBLEM_VECTOR] = "a vector",
        [WEFT_PROBLEM_BLOCKS] = "the blocks of a task",
        [WEFT_PROBLEM_COLUMNS] = "the columns of a task",
        [WEFT_PROBLEM_BLOCK_OF_PRODUCT] = "a block of a product",
        [WEFT_PROBLEM_PRODUCT] = "a product",
    };
    const weft_kernel_error *error = run->error;
    switch ((weft_problem)error->problem) {
    case WEFT_PROBLEM_NONE:
        weft_fail_later(run->operation, error->status, run->function, "%s", error->message);
        break;
    case WEFT_PROBLEM_RANGE:
        weft_fail_later(run->operation, error->status, run->function, "%s has %lld, expected 0 to %lld",
                        input_name(error->input, operation), (long long)error->value,
                        (long long)error->bound);
        break;
    case WEFT_PROBLEM_CHANCE:
        weft_fail_later(run->operation, error->status, run->function, "%s has %g, expected 0 to 1",
                        input_name(error->input, operation), error->number);
        break;
    case WEFT_PROBLEM_DEVICE:
        weft_fail_later(run->operation, error->status, run->function, "the device does not run the kernel: %s",
                        weft_cuda_error_name((int)error->value));
        break;
    case WEFT_PROBLEM_SORT:
        weft_fail_later(run->operation, error->status, run->function, "no memory to sort %lld values",
                        (long long)error->value);
        break;
    case WEFT_PROBLEM_PARTS:
        weft_fail_later(run->operation, error->status, run->function, "no memory for the parts of rank %lld",
                        (long long)error->value);
        break;
    default:
        weft_fail_later(run->operation, error->status, run->function, "no memory for %s",
                        memory[error->problem]);
        break;
    }
}
