/* The record of a search. */
#include <string.h>

#include "sharding/candidates.h"

void weft_search_note(const weft_searcher *s, const int strategies[], const weft_considered *figures)
{
    weft_search_record *record = s->search->record;
    if (figures == NULL) {
        record->num_impossible++;
        return;
    }
    weft_considered *considered = weft_vec_push(&record->considered, sizeof(*considered));
    if (considered == NULL) {
        record->failed = true;
        return;
    }
    *considered = *figures;
    for (int d = 0; d < s->mesh->ndim; d++) {
        const weft_strategy *strategy = &s->strategies[d][strategies[d]];
        considered->factors[d] = strategy->factor < 0 ? '\0' : s->binding->factors[strategy->factor].name;
    }
    for (int o = 0; o < s->binding->num_outputs; o++) {
        weft_placement placements[WEFT_MAX_DIMS];
        for (int d = 0; d < s->mesh->ndim; d++) {
            placements[d] = s->strategies[d][strategies[d]].outputs[o];
        }
        const weft_layout *output = weft_searched_output(s, o, placements);
        record->failed = record->failed || output == NULL;
        memcpy(considered->outputs[o], output == NULL ? placements : output->placements, sizeof(placements));
    }
}
