# Test suites that others wrote for CUDA, on the simulated driver: sourced by scripts/test-clients.
#
# A suite runs without cupeer, recorded and checked: each of its tests has the same outcome in all three, and as many
# pass as suites.txt says. The crates come from crates.io and are tested in their unpacked sources; numba-cuda's tests
# are in its wheel. Those of cuda-bindings are in no registry: CUDA_BINDINGS_TESTS names them, where there is a checkout.

suites=$PWD/tests/clients/suites.txt
machine=$PWD/tests/clients/machine.toml

# of NAME COLUMN: what suites.txt says of a suite.
of() { awk -v name="$1" -v column="$2" '$1 == name { print $column }' "$suites"; }

# outcomes FILE: a line for each test, as libtest, pytest and numba_driver.py say it.
outcomes() {
    sed -nE -e 's/^test (.*) \.\.\. (ok|FAILED|ignored).*/\2 \1/p;t' -e '/^(ok|failed|skipped|PASSED|FAILED|ERROR) [^ ]+/p' "$1" |
        cut -d' ' -f1,2 | sort
}

# suite NAME COMMAND...
suite() {
    local name=$1 way least passed
    shift
    local log=$work/suites/$name
    rm -rf "$log"
    mkdir -p "$log"
    # What fails is counted, and has to fail alike.
    timeout 600 "$cupeer" run --sim=$machine --exec -- env -u LD_PRELOAD "$@" >"$log/plain" 2>"$log/plain.err" || true
    timeout 600 "$cupeer" run --sim=$machine --record full --out "$log/full" -- "$@" >"$log/recorded" 2>"$log/recorded.err" || true
    timeout 600 "$cupeer" run --sim=$machine --check=notes --record full --out "$log/record" -- "$@" \
        >"$log/checked" 2>"$log/checked.err" || true
    for way in plain recorded checked; do outcomes "$log/$way" >"$log/$way.outcomes"; done
    for way in recorded checked; do
        diff "$log/plain.outcomes" "$log/$way.outcomes" || { echo "$name: outcomes differ when $way: $log"; exit 1; }
    done
    least=$(of "$name" 3)
    passed=$(grep -cE '^(ok|PASSED) ' "$log/plain.outcomes" || true)
    [ "$passed" -ge "$least" ] || { echo "$name: $passed tests pass, and $least did: $log"; exit 1; }
    echo "$name $(of "$name" 2): $passed of $(wc -l <"$log/plain.outcomes") tests pass, alike plain, recorded and checked"
    [ "$passed" -eq "$least" ] || echo "$name: $((passed - least)) more than tests/clients/suites.txt says: raise it"
}

# crate NAME OPTIONS...: tests of a crate, in its unpacked sources.
crate() {
    local name=$1 version source home=$work/crates/$1
    shift
    version=$(of "$name" 2)
    if ! [ -e "$home-$version/.complete" ]; then
        rm -rf "$home" "$home-$version"
        mkdir -p "$home/src"
        touch "$home/src/lib.rs"
        # cargo brings what somebody depends on.
        printf '[package]\nname = "fetched"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = { version = "=%s", default-features = false }\n' \
            "$name" "$version" >"$home/Cargo.toml"
        # cudarc asks which CUDA it is for.
        [ "$name" = cudarc ] && sed -i 's/default-features = false/&, features = ["cuda-13000"]/' "$home/Cargo.toml"
        source=$(cd "$home" && cargo metadata --quiet --format-version 1 2>"$home/log" | python3 -c "import json, sys
print(*[p['manifest_path'] for p in json.load(sys.stdin)['packages'] if p['name'] == '$name'])" 2>/dev/null) ||
            { echo "left out: $name cannot be fetched: $(tail -n 1 "$home/log")"; return 0; }
        cp -rL "${source%/*}" "$home-$version"
        chmod -R u+w "$home-$version"
        # It is no part of the workspace around it.
        printf '\n[workspace]\n' >>"$home-$version/Cargo.toml"
        touch "$home-$version/.complete"
    fi
    # They link the driver, and look for CUDA where its header is.
    mkdir -p "$work/cuda/include" "$work/cuda/lib64"
    touch "$work/cuda/include/cuda.h"
    ln -sf "$sim" "$work/cuda/lib64/libcuda.so"
    local tests
    tests=$(cd "$home-$version" && CUDA_PATH=$work/cuda CUDA_LIBRARY_PATH=$work/cuda CARGO_TARGET_DIR=$work/crates/target \
        cargo test --quiet --no-run --message-format=json "$@" 2>"$home/log" | python3 -c "import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if told.get('executable') and told['profile']['test']: print(told['executable'])") ||
        { echo "left out: $name cannot be built here: $(grep -m1 error "$home/log")"; return 0; }
    # shellcheck disable=SC2016
    (cd "$home-$version" && RUST_TEST_THREADS=2 RUST_BACKTRACE=0 suite "$name" sh -c 'for test; do "$test" $SKIPPED; done' sh $tests)
}

crate rustacuda
crate cust --lib
# Some tests compare the time that copies take.
SKIPPED="--skip faster" crate cudarc --lib --no-default-features --features std,driver,dynamic-loading,cuda-13000

# numba NAME MODULE...: tests of numba-cuda's wheel, each module in a process of its own.
numba() {
    local name=$1
    shift
    LD_LIBRARY_PATH=$work/numba/nvidia/cu13/lib suite "$name" sh -c 'for module; do python3 "$0" "$NUMBA" "$module"; done' \
        "$PWD/tests/clients/numba_driver.py" "$@"
}
if fetch numba "numba-cuda==$(of numba-cuda 2)" "cuda-bindings==13.0.*" "nvidia-cuda-runtime==13.0.*" "filecheck<2" psutil cffi pytest; then
    export NUMBA=$work/numba
    driver="context_stack cuda_auto_context cuda_memory deallocations emm_plugins events host_alloc"
    others="array_attr cuda_array_slicing cuda_devicerecord cuda_driver cuda_ndarray detect init is_fp16 managed_alloc pinned profiler reset_device runtime select_device streams"
    # shellcheck disable=SC2046,SC2086
    numba numba-cuda $(printf 'numba.cuda.tests.cudadrv.test_%s ' $driver)
    if [ "${1:-}" = --all ]; then
        # shellcheck disable=SC2046,SC2086
        numba numba-cuda-all $(printf 'numba.cuda.tests.cudadrv.test_%s ' $others) numba.cuda.tests.cudapy.test_ipc.TestIpcMemory
    fi
else
    echo "left out: numba-cuda cannot be fetched: $(tail -n 1 "$work/pip.log")"
fi

if [ -n "${CUDA_BINDINGS_TESTS:-}" ] && fetch bindings "cuda-bindings==13.3.*" pytest numpy; then
    PYTHONPATH=$work/bindings suite cuda-bindings python3 -m pytest -q -rA --tb=no -p no:cacheprovider \
        "$CUDA_BINDINGS_TESTS/test_cuda.py"
else
    echo "left out: cuda-bindings' own tests are in no registry (CUDA_BINDINGS_TESTS=DIR names them in a checkout)"
fi
