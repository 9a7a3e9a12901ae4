#!/usr/bin/env bash
# Random schedules of sharing processes with exec, fork, kills and old forms: nothing certain is said that is not so.
set -euo pipefail
seconds=$1
here=$(cd "$(dirname "$0")" && pwd)
"${CC:-cc}" -O1 -Wall -I "$here/../../include" "$here/schedules.c" -o "$WORK/schedules" -ldl
modes=("--check=notes" "--check=notes --record=ring:1M" "--check=off" "--check=off --record=ring:1M")
seed=$SEED runs=0 wrong=0
fail() {
    echo "schedules: $* (SEED=$seed, $mode, $kind; $WORK/said and $WORK/record have more)"
    exit 1
}
end=$((SECONDS + seconds))
while :; do
    mode=${modes[runs % 4]} kind=right
    # Where rules are checked, wrong steps are found as well.
    [[ $mode == --check=off* ]] || [ $((runs / 4 % 2)) -eq 0 ] || kind=wrong
    rm -rf "$WORK/record"
    # shellcheck disable=SC2086
    "$CUPEER" run --sim=nvlink:2 $mode --out "$WORK/record" -- "$WORK/schedules" "$((seed & 0x7fffffff))" 600 $kind \
        >"$WORK/said" 2>&1 || fail "a schedule has failed: $(grep -m1 -E 'missed|said, and|schedules.c' "$WORK/said" || true)"
    steps=$(grep -E '^[0-9]+ steps' "$WORK/said") || fail "a schedule has not come to its end"
    wrong=$((wrong + $(cut -d' ' -f3 <<<"$steps")))
    if [ $kind = right ]; then
        "$CUPEER" report "$WORK/record" --format json >"$WORK/report"
        false=$(grep -m1 -oE 'ipc-(freed|event-destroyed|context-ended)-while-open|driver-contradicts-state|"freed while open"' \
            "$WORK/report" || true)
        [ -z "$false" ] || fail "the report says $false"
    fi
    runs=$((runs + 1)) seed=$((seed + 1))
    [ $SECONDS -lt $end ] || break
done
rm -rf "$WORK/record"
echo "schedules: $runs schedules of 600 steps, $wrong wrong steps, each found and nothing else"
