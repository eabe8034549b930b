# Shared by the scripts of this folder: messages, the environment, the build. To be sourced from bash.
# Everything that is said here goes to stderr: stdout belongs to the program that a script runs.

weft_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Where weft is installed: the StarPU that it was built with. Empty in a checkout.
weft_starpu=
[ ! -e "$weft_root/script/installed.sh" ] || . "$weft_root/script/installed.sh"
weft_cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/weft

say() {
    printf 'weft: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# Prints the comment at the top of a script, which is its manual.
show_usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$1"
}

# show_progress LOG: says every half minute, on a terminal every second, where ninja is: the last "[12/345]" in LOG.
# Ends with the script.
show_progress() {
    local line interval=30 start=$SECONDS next
    [ ! -t 2 ] || interval=1
    next=$((start + interval))
    # The sleep holds no pipe open when this ends before it.
    while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        [ $SECONDS -ge $next ] || continue
        next=$((SECONDS + interval))
        line=$(tail -c 2000 "$1" | sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 of \2/p' | tail -n 1)
        [ -n "$line" ] || continue
        if [ -t 2 ]; then
            printf '\r\033[Kweft:   %s, %d s' "$line" $((SECONDS - start)) >&2
        else
            say "  $line after $((SECONDS - start)) s"
        fi
    done
}

# step LOG ABOUT COMMAND...: runs a long command with its output added to LOG; says what it does, how far it is, and how
# long it took. When it fails, shows the end of LOG and returns 1.
step() {
    local log=$1 about=$2 start=$SECONDS status=0 watcher
    shift 2
    say "$about"
    show_progress "$log" &
    watcher=$!
    "$@" >>"$log" 2>&1 </dev/null || status=$?
    { kill "$watcher" && wait "$watcher"; } 2>/dev/null || true
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if [ $status = 0 ]; then
        say "  done in $((SECONDS - start)) s"
    else
        say "  failed after $((SECONDS - start)) s; the end of $log:"
        tail -n 30 "$log" | sed 's/^/    /' >&2
        return 1
    fi
}

# use_starpu [--checked] [--tests] [--roots]: installs what is missing, and puts that StarPU in the environment. Where weft is installed nothing
# is missing.
use_starpu() {
    if [ -n "$weft_starpu" ]; then
        PATH=$weft_starpu/bin:$PATH
        return
    fi
    "$weft_root/script/bootstrap" "$@" || exit 1
    local environment
    environment=$("$weft_root/script/bootstrap" "$@" --print-env) || exit 1
    eval "$environment"
}

# build FOLDER [MESON-OPTION...]: sets FOLDER of the checkout up when it is new, or was set up with other options or
# another StarPU, and compiles there: all of it, or the target $build_only, or nothing. Says nothing when there is nothing to do. Two
# at once take turns.
build() {
    local directory=$weft_root/$1 status=0
    shift
    exec 8>"$directory.lock"
    flock 8
    build_locked "$directory" "$@" 8>&- || status=1
    exec 8>&-
    return $status
}

# check_row NAME: ends the script where no row has that name. Those on a GPU are rows on the stand-in too.
check_row() {
    grep -Eq "('name': |\btest\()'${1/#gpu_/device_}'" "$weft_root"/tests/{,*/}meson.build || die "no meson.build in tests/ has a row $1"
}

# list_tests FOLDER [MESON-TEST-OPTION...]: the tests of that build that were asked for: all, or those in `names`, on any number of
# processes; with device_all=yes also their other runs.
list_tests() {
    local directory=$1 name wanted
    shift
    meson test -C "$directory" --no-rebuild --list "$@" 2>/dev/null | sed -n 's/^.* \/ //p; t; s/^weft:\(.*\)$/\1/p' |
        while read -r name; do
            if [ ${#names[@]} = 0 ]; then
                echo "$name"
            fi
            for wanted in "${names[@]}"; do
                case $name in
                    "$wanted" | "$wanted"-on-* | "$wanted"-forwards | "$wanted"-backwards | "$wanted"-shuffled | "$wanted"-sample) echo "$name" ;;
                    "$wanted"-*) [ $device_all = no ] || echo "$name" ;;
                esac
            done
        done
}

count_gpus() {
    { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true
}

build_locked() {
    local directory=$1 log=$1.log
    shift
    # PKG_CONFIG_PATH is among the options so that a change of StarPU is seen as a change of options.
    local options=("$@" "-Dpkg_config_path=$(tr ':' ',' <<<"${PKG_CONFIG_PATH-}")")
    # Nothing runs the kernels for GPUs where there is none: they are optimised when this folder is built where there is one.
    if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
        options+=("-Dgpu_optimization=$([ "$(count_gpus)" = 0 ] && echo 1 || echo 3)")
    fi
    # For the tests of this checkout: what is installed links GLPK, which is under the GPL, on request alone.
    [[ $directory == *build-install ]] || options+=(-Dglpk=auto)
    # In CI a warning is an error.
    if [ -n "${CI-}" ]; then
        options+=(-Dwerror=true)
    fi
    local stamp=$directory/weft-options
    : >"$log"
    if [ ! -f "$directory/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "${options[*]}" ]; then
        local again=()
        [ ! -f "$directory/build.ninja" ] || again=(--reconfigure)
        step "$log" "setting up $directory (some seconds)" \
            meson setup "${again[@]}" "$directory" "$weft_root" "${options[@]}" || return 1
        printf '%s\n' "${options[*]}" >"$stamp"
    fi
    [ "${build_only-}" != nothing ] || return 0
    local targets=() time='three minutes'
    read -ra targets <<<"${build_only:-all}"
    [ "${targets[0]}" = all ] || time='a minute'
    if ! ninja -C "$directory" -n "${targets[@]}" 2>/dev/null | grep -q 'no work to do'; then
        step "$log" "compiling in $directory (when all is new, $time divided by free cores)" \
            ninja -C "$directory" "${targets[@]}" || return 1
        grep -A 4 'warning:' "$log" >&2 || true
    fi
}

own_release() {
    (. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
}

# The addresses that apt on this machine has for its own release of Debian, however its sources are written.
# Archives of others may be among them: those have no sid.
debian_archives() {
    local release
    release=$(own_release)
    apt-get update --print-uris 2>/dev/null |
        sed -nE "s#^'(.*)/dists/($release|stable|testing|unstable|sid)/InRelease'.*#\1#p" | sort -u
}

# What StarPU, OpenBLAS and Open MPI need where several processes share few cores, and where the user is root.
share_the_cores() {
    export STARPU_SILENT=1 STARPU_WORKERS_NOBIND=1 STARPU_MPI_NOBIND=1 OPENBLAS_NUM_THREADS=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}
