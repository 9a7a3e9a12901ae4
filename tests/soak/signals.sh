#!/usr/bin/env bash
# Signals on four kinds of stack, jumps out of handlers, and cancellation at any instruction: no call is lost or there twice.
set -euo pipefail
end=$((SECONDS + $1))
programs=$(realpath "$(dirname "$0")/../programs")
RANDOM=$((SEED % 32768))
cd "$WORK"
cc=${CC:-cc}
for program in timers cancelled; do "$cc" -O1 -o "$program" "$programs/$program.c" -ldl -lpthread; done
export LD_LIBRARY_PATH=$DRIVER
fail() { echo "signals: SEED=$SEED: $*"; exit 1; }
# The number of a field of the record, all processes together.
sum() { "$CUPEER" report --format json record | grep -o "\"$1\": *[0-9]*" | head -n 1 | grep -o '[0-9]*$'; }
stacks=(own below above context)
jumps=(0 0 2 5 17)
runs=0 calls=0 cancelled=0
while [ "$SECONDS" -lt "$end" ]; do
    stack=${stacks[RANDOM % 4]} jump=${jumps[RANDOM % 5]}
    arguments=("$stack" $((100 + RANDOM % 900)) $((1 + RANDOM % 3)) $((50 + RANDOM % 500)) "$jump")
    rm -rf record
    "$CUPEER" run -o record -- ./timers "${arguments[@]}" >out 2>err || fail "timers ${arguments[*]} ends with $?"
    left=$(grep -c '^left' out || true)
    made=$(sed -n 's/^made \([0-9]*\), in handlers \([0-9]*\)$/\1 + \2/p' out)
    made=$((made)) events=$(sum events) lost=$(sum lost)
    if [ "$lost" != 0 ] || [ "$events" -gt "$made" ] || [ "$events" -lt $((made - left)) ]; then
        fail "timers ${arguments[*]}: $made calls, of which $left were perhaps left; $events recorded, $lost lost"
    fi
    runs=$((runs + 1)) calls=$((calls + made))
    for way in "" --check "--log json --log-file log" "--inject cuDeviceCanAccessPeer:when=3:delay=1us"; do
        rm -rf record
        # shellcheck disable=SC2086
        "$CUPEER" run -o record $way -- ./cancelled 100 >out 2>err || fail "cancelled 100 under '$way' ends with $?"
        cancelled=$((cancelled + 100))
    done
done
echo "signals: $runs runs, $calls calls, $cancelled threads cancelled"
