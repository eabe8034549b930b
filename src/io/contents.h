/* Headers that the program has open. */
#ifndef WEFT_SRC_IO_CONTENTS_H
#define WEFT_SRC_IO_CONTENTS_H

#include <weft/checkpoint.h>

/* Closes all, with the end of the world. */
void weft_files_stop(void);

#endif
