#!/usr/bin/env bash
# Limits of random size at random moments: in every mode, a program ends as it does without cupeer.
# limits.sh SECONDS, with LIBRARY, DRIVER, WORK and SEED.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=$1
: "${LIBRARY:?}" "${DRIVER:?}" "${WORK:?}" "${SEED:=$RANDOM}"
RANDOM=$SEED
programs=$here/../programs

# A program that calls the driver under a limit of its own.
"${CC:-cc}" -O1 -DLINKED -I "$programs" -o "$WORK/program" "$programs/short_memory.c" "$DRIVER/libcuda.so" -ldl -pthread
export LD_LIBRARY_PATH=$DRIVER

plan='cuIpcOpen*:when=7:error=MAP_FAILED;@peer:per=thread:when=3:delay=1us'
modes=(record ring check plan planned deny denied log everything)
variables_of() {
    case $1 in
        record) echo "CUPEER_OUT=$WORK/record" ;;
        ring) echo "CUPEER_OUT=$WORK/record CUPEER_RECORD=ring:1M" ;;
        check) echo "CUPEER_OUT=$WORK/record CUPEER_CHECK=errors" ;;
        plan) echo "CUPEER_INJECT=$plan" ;;
        planned) echo "CUPEER_OUT=$WORK/record CUPEER_INJECT=$plan" ;;
        deny) echo "CUPEER_DENY_PEER=all CUPEER_PEER_LIMIT=2" ;;
        denied) echo "CUPEER_OUT=$WORK/record CUPEER_DENY_PEER=all" ;;
        log) echo "CUPEER_LOG=json CUPEER_LOG_FILE=$WORK/log.%p" ;;
        everything) echo "CUPEER_OUT=$WORK/record CUPEER_CHECK=notes CUPEER_INJECT=$plan CUPEER_LOG=text CUPEER_LOG_FILE=$WORK/log" ;;
    esac
}

# Runs the program, under a limit from outside as well where there is one; says how it ended and what it printed.
run() {
    local outer=$1 status=0 said
    shift
    # shellcheck disable=SC2086
    said=$( ([ "$outer" = none ] || ulimit $outer; exec env "$@" "$WORK/program" "${arguments[@]}") 2>"$WORK/stderr") ||
        status=$?
    echo "$status:$said"
}

runs=0 short=0 without=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
    name=${modes[RANDOM % ${#modes[@]}]}
    read -ra variables <<<"$(variables_of "$name")"
    size=$(((RANDOM * 32768 + RANDOM) % (RANDOM % 3 ? 1200000 : 40000)))
    limits=(none as data locked files size stack)
    arguments=("${limits[RANDOM % ${#limits[@]}]}" $((RANDOM % 2 * (RANDOM % 40))) "$size" $((RANDOM % 300)) 0)
    outer=none
    case $((RANDOM % 6)) in
        0) outer="-S -f $((RANDOM % 400))" ;;
        1) outer="-S -n $((4 + RANDOM % 30))" ;;
        2) outer="-S -s $((96 + RANDOM % 400))" ;;
        3) outer="-S -l 0" ;;
    esac
    plain=$(run "$outer")
    # A limit that the program itself cannot live with says nothing.
    if [ "$plain" != 9:done ]; then
        without=$((without + 1))
        continue
    fi
    rm -rf "$WORK/record" "$WORK"/log*
    seen=$(run "$outer" "LD_PRELOAD=$LIBRARY" "${variables[@]}")
    if [ "$seen" != "$plain" ]; then
        echo "limits: $name, $outer, ${arguments[*]} (seed $SEED): $plain without, $seen with cupeer"
        cat "$WORK/stderr"
        exit 1
    fi
    runs=$((runs + 1))
    [ ! -s "$WORK/stderr" ] || short=$((short + 1))
done
echo "limits: $runs runs alike, $short of them short of something, $without limits too low for the program (seed $SEED)"
