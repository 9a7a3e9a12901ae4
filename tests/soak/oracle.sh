#!/usr/bin/env bash
# Counted calls of processes that are killed at random, and records that are read while they are written: none lost, none twice.
set -euo pipefail
end=$((SECONDS + $1))
programs=$(realpath "$(dirname "$0")/../programs")
RANDOM=$((SEED % 32768))
cd "$WORK"
cc=${CC:-cc}
"$cc" -O1 -DLINKED -o counted "$programs/counted.c" "$DRIVER/libcuda.so" -ldl -lpthread
export LD_LIBRARY_PATH=$DRIVER
fail() { echo "oracle: SEED=$SEED: $*"; exit 1; }
threads=4
# What the threads have counted: each has a page, with its number and then its calls.
counted() {
    local thread all=0 one
    for ((thread = 0; thread < threads; thread++)); do
        one=$(od -A n -t u8 -j $((4096 * thread + 8)) -N 8 counters 2>/dev/null | tr -d ' ')
        all=$((all + ${one:-0}))
    done
    echo "$all"
}
field() { grep -o "\"$1\": *[0-9]*" <<<"$2" | head -n 1 | grep -o '[0-9]*$'; }
# Compares the record with what was counted before it was read, and what is counted afterwards.
compare() {
    local before after text events lost
    before=$(counted)
    text=$("$CUPEER" report --format json record 2>err) || fail "report ends with $? ($1)"
    after=$(counted) events=$(field events "$text") lost=$(field lost "$text")
    if [ "$lost" != 0 ] || [ "$events" -lt "$before" ] || [ "$events" -gt $((after + threads)) ]; then
        fail "$1: $before to $after calls were counted, $events are there, $lost lost"
    fi
    readings=$((readings + 1))
}
runs=0 readings=0 calls=0
while [ "$SECONDS" -lt "$end" ]; do
    rm -rf record counters
    "$CUPEER" run --exec --record full -o record -- ./counted counters "$threads" >out 2>&1 &
    pid=$!
    until [ "$(counted)" -gt $((RANDOM % 2000)) ]; do kill -0 "$pid" || fail "counted has ended"; done
    for ((reading = RANDOM % 3; reading > 0; reading--)); do compare "while it is written"; done
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
    compare "after the kill"
    runs=$((runs + 1)) calls=$((calls + $(counted)))
done
echo "oracle: $runs processes killed, $readings readings, $calls calls"
