#!/usr/bin/env bash
# Builds Debian's packages of the last commit by dpkg-buildpackage, has lintian look at them, installs them, and checks the installation:
# weft-selftest alone and under mpirun, and a program in C that pkg-config compiles. To be run as root on a machine
# that it may install packages on: script/bare_root --packages trixie makes one.
#
#   packaging/debian/make.sh [FOLDER]      FOLDER: where the packages stay; else a temporary one

set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$(mktemp -d)}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

mkdir -p "$folder/weft"
git -C "$tree" archive HEAD | tar -x -C "$folder/weft"
cp -r "$folder/weft/packaging/debian" "$folder/weft/debian"
rm "$folder/weft/debian/make.sh"
cd "$folder/weft"

apt-get update -qq
apt-get install -qq --no-install-recommends build-essential lintian >/dev/null
apt-get build-dep -qq --no-install-recommends . >/dev/null
dpkg-buildpackage -b -us -uc
cd ..
lintian --allow-root --info --display-info --fail-on error,warning ./*.changes

# Another folder than the build's, with what users have: the packages and what they depend on.
apt-get install -qq --no-install-recommends ./*.deb openmpi-bin gcc pkgconf >/dev/null
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export STARPU_WORKERS_NOBIND=1 OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
weft-selftest
WEFT_RANKS=5 mpirun -n 3 weft-selftest
weft-plan --help >/dev/null
weft-run -- true
examples=/usr/share/doc/weft/examples
gcc "$examples/minimal.c" -o minimal $(pkg-config --cflags --libs weft) -lm
mpirun -n 2 ./minimal
echo "packages: $(echo ./*.deb)"
