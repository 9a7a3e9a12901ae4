#!/usr/bin/env bash
# One system call at a time is forbidden, with EPERM or ENOSYS: recorded, checked, logged or under a plan, a program gets the
# same answers as without cupeer. seccomp.sh SECONDS, with LIBRARY, DRIVER, WORK and SEED.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=$1
: "${LIBRARY:?}" "${DRIVER:?}" "${WORK:?}" "${SEED:=$RANDOM}"
RANDOM=$SEED
programs=$here/../programs

"${CC:-cc}" -O1 -I "$programs" -o "$WORK/program" "$here/seccomp.c" "$DRIVER/libcuda.so" -ldl -pthread
export LD_LIBRARY_PATH=$DRIVER

run() {
    local status=0 said
    said=$(env "$@" "$WORK/program" "${arguments[@]}" 2>"$WORK/stderr") || status=$?
    echo "$status:$said"
}

# What no rule of a plan hits is what the program gets.
plan='cuIpcOpen*:thread=nobody:error=MAP_FAILED;@peer:per=thread:when=3:delay=1us'
modes=(
    "CUPEER_OUT=$WORK/record"
    "CUPEER_OUT=$WORK/record CUPEER_RECORD=ring:1M"
    "CUPEER_OUT=$WORK/record CUPEER_CHECK=notes"
    "CUPEER_INJECT=$plan"
    "CUPEER_OUT=$WORK/record CUPEER_INJECT=$plan"
    "CUPEER_LOG=json CUPEER_LOG_FILE=$WORK/log"
)

runs=0 without=0 lost=0
end=$((SECONDS + seconds))
# From a random call on, so that short runs come to all of them in the end.
number=$((RANDOM % 460))
arguments=(-1 0 0)
if [ "$(run)" != "9:done, 0 wrong" ]; then
    echo "seccomp: the program itself fails"
    exit 1
fi
while [ $SECONDS -lt $end ]; do
    number=$(((number + 1) % 460))
    arguments=("$number" $((RANDOM % 2 ? 1 : 38)) $((RANDOM % 2 * 5)))
    plain=$(run)
    # What the program itself cannot do without says nothing, and neither does a filter that is not allowed.
    if [ "$plain" != "9:done, 0 wrong" ]; then
        without=$((without + 1))
        continue
    fi
    for mode in "${modes[@]}"; do
        read -ra variables <<<"$mode"
        rm -rf "$WORK/record" "$WORK/log"
        seen=$(run "LD_PRELOAD=$LIBRARY" "${variables[@]}")
        if [ "$seen" != "$plain" ]; then
            echo "seccomp: call $number, errno ${arguments[1]}, ${arguments[2]} calls before, $mode (seed $SEED): $seen"
            cat "$WORK/stderr"
            exit 1
        fi
        runs=$((runs + 1))
        [ ! -s "$WORK/stderr" ] || lost=$((lost + 1))
    done
done
echo "seccomp: $runs runs alike, $lost of them short of something, $without calls needed by the program (seed $SEED)"
