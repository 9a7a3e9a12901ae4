#!/usr/bin/env bash
# Random schedules of virtual memory over four processes: what is found is what was planted, at the call and in the record.
set -euo pipefail
seconds=$1
here=$(cd "$(dirname "$0")" && pwd)
"${CC:-cc}" -O1 -Wall -I "$here/../../include" "$here/spaces.c" -o "$WORK/spaces" -ldl
modes=("--check=notes" "--check=off")
machines=(nvlink none)
seed=$SEED runs=0 wrong=0
fail() {
    echo "spaces: $* (SEED=$seed, $mode, $kind $machine; $WORK/said, $WORK/planted, $WORK/found and $WORK/record have more)"
    exit 1
}
# How often each rule was broken at each function, by lines of a rule, a function and a count.
sums() { awk '{ sum[$1 " " $2] += $3 } END { for (what in sum) print what, sum[what] }' | sort; }
end=$((SECONDS + seconds))
while :; do
    mode=${modes[runs % 2]} machine=${machines[runs / 2 % 2]} kind=planted
    [ $((runs % 5)) -ne 4 ] || kind=right
    rm -rf "$WORK/record"
    "$CUPEER" run --sim=$machine:2 "$mode" --out "$WORK/record" -- "$WORK/spaces" "$((seed & 0x3fffffff))" 60 $kind $machine 10 \
        >"$WORK/out" 2>"$WORK/said" || fail "a schedule has failed: $(grep -m1 -E 'was to be found|spaces' "$WORK/said" || true)"
    steps=$(grep -E '^[0-9]+ steps' "$WORK/out") || fail "a schedule has not come to its end"
    wrong=$((wrong + $(cut -d' ' -f3 <<<"$steps")))
    # What random schedules seem to pile up, or to do otherwise than their siblings, is not planted.
    awk '/^planted / { print $2, $3, 1 }' "$WORK/out" | sums >"$WORK/planted"
    "$CUPEER" report "$WORK/record" --format json | awk -F'"' '
        /^  "findings"/ { inside = 1 } /^  \]/ { inside = 0 }
        inside && /^      "rule"/ { rule = $4 } inside && /^      "function"/ { function_ = $4 }
        inside && /^      "count"/ { gsub(/[^0-9]/, "", $3); if (rule !~ /^(call-failed|exchange-differs|piles-up|ranks-)/) print rule, function_, $3 }
    ' | sums >"$WORK/found"
    cmp -s "$WORK/planted" "$WORK/found" || fail "$(diff "$WORK/planted" "$WORK/found" | sed -n 2p): that was planted (<), or found (>)"
    runs=$((runs + 1)) seed=$((seed + 10))
    [ $SECONDS -lt $end ] || break
done
rm -rf "$WORK/record"
echo "spaces: $((runs * 10)) schedules of 60 steps, $wrong broken rules, each found and nothing else"
