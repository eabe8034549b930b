#!/bin/sh
# own_tmpdir.sh COMMAND...: with a TMPDIR of its own, which is removed afterwards. Two that start together share no folder:
# Open MPI's launchers disturb each other where they make theirs, and what a killed test leaves behind is nobody else's.

TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/weft-XXXXXX") || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$@"
