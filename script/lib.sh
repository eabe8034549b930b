# Shared by the scripts of this folder: messages, the environment, the build. Source it from bash.
# Everything that is said here goes to stderr: stdout belongs to the program that a script runs.

weft_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
weft_cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/weft

say() {
    printf 'weft: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}

# step LOG ABOUT COMMAND...: runs a long command with its output in LOG; says what it does and how long it
# took. When it fails, shows the end of LOG and returns 1.
step() {
    local log=$1 about=$2 start=$SECONDS
    shift 2
    say "$about"
    if "$@" >>"$log" 2>&1 </dev/null; then
        say "  done in $((SECONDS - start)) s"
    else
        say "  failed after $((SECONDS - start)) s; the end of $log:"
        tail -n 30 "$log" | sed 's/^/    /' >&2
        return 1
    fi
}

# use_starpu default|checked: installs what is missing and puts that StarPU in the environment.
use_starpu() {
    local flags=()
    [ "$1" = checked ] && flags=(--checked)
    "$weft_root/script/bootstrap" "${flags[@]}" || exit 1
    local environment
    environment=$("$weft_root/script/bootstrap" "${flags[@]}" --print-env) || exit 1
    eval "$environment"
}

# build DIRECTORY [MESON-OPTION...]: sets up DIRECTORY when it is new, was left half-made, or was set up
# with other options or another StarPU; then compiles. Says nothing when there is nothing to do.
build() {
    local directory=$weft_root/$1 log=$weft_root/$1.log
    shift
    local options=("$@")
    # ${PKG_CONFIG_PATH-} is among the options so that a change of StarPU is seen as one of options.
    options+=("-Dpkg_config_path=$(tr ':' ',' <<<"${PKG_CONFIG_PATH-}")")
    local wanted="${options[*]}" stamp=$directory/weft-options
    if [ ! -f "$directory/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        rm -rf "$directory"
        : >"$log"
        step "$log" "setting up $directory (some seconds)" \
            meson setup "$directory" "$weft_root" "${options[@]}" || return 1
        printf '%s\n' "$wanted" >"$stamp"
    fi
    if ! ninja -C "$directory" -n 2>/dev/null | grep -q 'no work to do'; then
        : >"$log"
        step "$log" "compiling in $directory (less than a minute when all is new)" \
            ninja -C "$directory" || return 1
    fi
    rm -f "$log"
}

# What StarPU and MPI need where several processes share few cores, and where the user is root.
quiet_environment() {
    export STARPU_SILENT=1 STARPU_WORKERS_NOBIND=1 STARPU_MPI_NOBIND=1 OPENBLAS_NUM_THREADS=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}
