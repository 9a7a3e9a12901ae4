#!/usr/bin/env bash
# Random ways to the driver, with random tools preloaded on both sides of cupeer: every call is seen or its library named.
#
# usage: ways.sh SECONDS, with LIBRARY, DRIVER, WORK and SEED. The oracle is what the fake driver of tests/programs wrote down.
# Whatever the program prints, and how it ends, must be as without cupeer, too.
set -euo pipefail
programs=$(cd "$(dirname "$0")/../programs" && pwd)
RANDOM=$SEED
cd "$WORK"
compile() { "${CC:-cc}" -g -O1 -pthread -I "$programs" "$@"; }
shared() { compile -shared -fPIC "$@"; }

ln -s "$DRIVER" driver
link=(-DLINKED -Wl,--no-as-needed "$PWD/driver/libcuda.so")
compile "$programs/opened.c" -o opened
compile "$programs/host.c" -o host
compile "$programs/default.c" -o default
compile "$programs/threads.c" -o threads
compile "$programs/lookup.c" -o lookup
for name in linked default threads forks lookup; do compile "$programs/$name.c" -o "linked-$name" "${link[@]}"; done
shared "$programs/plugin.c" -DOPENS -o opens.so
shared "$programs/plugin.c" -DBY_DEFAULT -o by-default.so
shared "$programs/plugin.c" -DBY_NEXT -o by-next.so "${link[@]}"
shared "$programs/plugin.c" -o plugin.so "${link[@]}"
shared "$programs/wrapper.c" -o wrapper.so
shared "$programs/wrapper.c" -DBY_HANDLE -o wrapper-by-handle.so
shared "$programs/wrapper.c" -DWRAP_DLSYM -o wraps-dlsym.so
shared "$programs/wrapper.c" -DREPLACE_DLSYM -o replaces-dlsym.so
shared "$programs/wrapper.c" -DREPLACE_DLSYM -DSECRET -o secret.so
tools=(wrapper wrapper-by-handle wraps-dlsym replaces-dlsym secret)
scenes=("opened libcuda.so.1 local" "opened libcuda.so global" "default" "threads" "lookup handle4" "lookup self5"
    "linked-linked" "linked-default" "linked-threads" "linked-forks" "linked-lookup linked5"
    "host 100 local ./opens.so" "host 100 deepbind ./opens.so" "host 100 keep driver/libcuda.so.1 local ./by-default.so"
    "host 100 local ./plugin.so" "host 100 global ./plugin.so" "host 100 deepbind ./plugin.so" "host 100 local ./by-next.so")

# What must be the same: addresses of a function differ by the way in where its driver lies before us, and the loader names
# whoever asked.
same() { sed -E 's/^(address is that of|look-up:.*as by handle).*//; s/[^ ]*: undefined symbol/undefined symbol/' "$1"; }
fail() { echo "ways: SEED=$SEED, run $runs: $*"; exit 1; }

runs=0 seen=0 named=0
end=$((SECONDS + $1))
while [ $SECONDS -lt $end ]; do
    runs=$((runs + 1))
    read -ra scene <<<"${scenes[RANDOM % ${#scenes[@]}]}"
    before=() after=()
    for side in before after; do
        [ $((RANDOM % 2)) -eq 0 ] || declare -n list=$side
        [ ! -R list ] || list+=("$PWD/${tools[RANDOM % ${#tools[@]}]}.so")
        unset -n list
    done
    [ $((RANDOM % 6)) -ne 0 ] || before=("$PWD/driver/libcuda.so.1" "${before[@]}")
    # Two ways to ask for one address give two of them, where the driver has the linked one.
    [[ ${before[*]} != */driver/* || ${scene[0]} != *lookup ]] || continue
    what="${scene[*]}, behind ${before[*]##*/} and before ${after[*]##*/}"
    rm -rf oracle.* log out.*
    for with in 0 1; do
        preload=("${before[@]}")
        [ $with -eq 0 ] || preload+=("$LIBRARY")
        preload+=("${after[@]}")
        status=0
        # The shell says it of itself where a run crashes, as some do without cupeer.
        {
            env LD_LIBRARY_PATH="$PWD/driver" LD_PRELOAD="$(IFS=:; echo "${preload[*]}")" FAKE_DRIVER_LOG="$PWD/oracle.$with" \
                CUPEER_LOG=json CUPEER_LOG_FILE="$PWD/log" CUPEER_TRACE=all \
                timeout 60 "./${scene[0]}" "${scene[@]:1}" >"out.$with" 2>&1 || status=$?
        } 2>/dev/null
        echo "status $status" >>"out.$with"
        touch "oracle.$with" log
        # Some of these tools end a program already by themselves.
        [ $with -eq 1 ] || [ $status -lt 124 ] || continue 2
    done
    cmp -s <(same out.0) <(same out.1) || { diff <(same out.0) <(same out.1) | head -5 || true; fail "$what: differs from how it is without cupeer"; }
    for with in 0 1; do awk '$1 == "first" { print $2 }' "oracle.$with" | sort >"oracle.$with.calls"; done
    cmp -s oracle.0.calls oracle.1.calls || fail "$what: the driver has other calls than without cupeer"
    { grep -oE '"function":"(cu|nvml)[^"]*"' log || true; } | cut -d'"' -f4 | sort >log.calls
    # Nothing is seen that was not called, nor twice. A tool that finds no driver answers a call itself.
    { cat log.calls; awk '{ if ($1 == "wrapper") { w[$2]++ } else { d[$2]++ } }
        END { for (f in w) print "=" f, w[f]; for (f in d) print "=" f, d[f] }' oracle.1; } |
        awk '/^=/ { f = substr($1, 2); if ($2 > most[f]) most[f] = $2; next } { seen[$1]++ }
            END { for (f in seen) if (seen[f] > most[f]) { print f; exit 1 } }' >too-often ||
        fail "$what: seen and not called, or twice: $(cat too-often)"
    missed=$(comm -23 oracle.1.calls log.calls | wc -l)
    seen=$((seen + $(wc -l <log.calls)))
    if [ "$missed" -gt 0 ]; then
        grep -q '"escaped"' log || fail "$what: $missed calls not seen, and nobody is named"
        named=$((named + 1))
    fi
done
echo "ways: $runs runs, $seen calls seen, $named runs in which a library was named"
