#!/usr/bin/env bash
# From a clone to a program of one's own, as README.md says: installs weft into a folder, compiles the README's program with the README's
# command, runs it, and compares what it prints with what the README shows. Needs what script/demo has installed.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# block [LANGUAGE]: the first block of README.md in that language, or in none.
block() {
    awk -v language="${1-}" '/^```/ { if (open) { if (wanted) exit } else wanted = $0 == "```" language; open = !open; next } open && wanted' README.md
}

script/bootstrap --prefix "$folder/weft"
export PKG_CONFIG_PATH="$folder/weft/lib/pkgconfig"
block c >"$folder/program.c"
# The command stands there for a folder in one's home.
command=$(sed -nE 's/^    (cc program\.c .*)$/\1/p' README.md)
command=${command//'$HOME/opt/weft'/$folder/weft}
cd "$folder"
eval "$command -o program"
./program >printed
cd - >/dev/null
# BLAS has other kernels for other processors, and so other last digits.
rounded() {
    perl -pe 's/-?\d+\.\d+/sprintf("%.9g", $&)/ge'
}
diff <(rounded <"$folder/printed") <(block | rounded)
echo "the README's program prints what the README shows"
