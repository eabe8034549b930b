/* Task lists as text. */
#include <inttypes.h>

#include "tasks/tasks.h"

static void print_operand(const weft_task_list *list, const weft_task_operand *operand, FILE *file)
{
    const weft_slot *slot = weft_task_list_slots(list) + operand->slot;
    static const char *const access[] = { "?", "r", "w", "rw" };
    fprintf(file, "  %s ", access[operand->access & 3]);
    if (slot->tensor == WEFT_TEMPORARY) {
        fprintf(file, "temporary %" PRId64, slot->panel);
    } else {
        fprintf(file, "t%" PRId32 "[%" PRId32 "].%" PRId64, slot->tensor, slot->shard, slot->panel);
    }
    if (operand->offset != 0) {
        fprintf(file, "+%" PRId64, operand->offset);
    }
}

void weft_task_list_print(const weft_task_list *list, FILE *file)
{
    const weft_temporary *temporaries = list->temporaries.items;
    for (size_t i = 0; i < list->temporaries.count; i++) {
        fprintf(file, "temporary %zu: %" PRId64 " bytes\n", i, temporaries[i].bytes);
    }
    for (size_t i = 0; i < list->tasks.count; i++) {
        const weft_task *task = weft_task_list_tasks(list) + i;
        static const char *const transfers[] = {
            [WEFT_RECORD_SEND] = "send", [WEFT_RECORD_RECEIVE] = "receive"
        };
        fprintf(file, "%zu %s", i,
                task->kind == WEFT_RECORD_TASK ? weft_kernel_info_of(task->kernel)->name
                                               : transfers[task->kind]);
        for (uint32_t k = 0; k < task->num_operands; k++) {
            print_operand(list, weft_task_operand_at(list, task, k), file);
        }
        for (uint32_t k = 0; k < weft_task_num_messages(task); k++) {
            const weft_task_message *message = weft_task_messages(list, task) + k;
            fprintf(file, "  process %" PRId32 ": %" PRId64, message->peer,
                    weft_region_bytes(&message->region));
        }
        fputc('\n', file);
    }
}
