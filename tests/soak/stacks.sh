#!/usr/bin/env bash
# Calls on small stacks in every mode: threads with PTHREAD_STACK_MIN bytes and more, alternate stacks of 8 KiB and more.
# usage: stacks.sh SECONDS, with CUPEER, WORK and SEED. In a build that is not optimized our part of a stack is larger, so
# that twice that is asked for there, and for plans of faults on threads as well.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
ends=$((SECONDS + $1))
RANDOM=$((SEED % 32768))
program=$WORK/stacks
"${CC:-cc}" -O1 -o "$program" "$here/stacks.c" -ldl -lpthread
factor=1
case $(realpath "$CUPEER") in */debug/* | */target/tmp/install-*) factor=2 ;; esac
plan='all,^@lookup:site=new:caller=*:thread=*:dev=^7:delay=1us;cuIpcOpen*:stack=^1:handle=^1:delay-after=1us'
modes=(off full ring text json file check plan deny all)
runs=0
# What each mode is for: the options of `cupeer run`, and whether it asks more of an alternate stack than a record.
options() {
    heavy=0
    case $1 in
    off) given=(--record off) ;;
    full) given=(-o "$WORK/out") ;;
    ring) given=(-o "$WORK/out" --record ring:1M) ;;
    text) given=(--record off --log text --trace all) ;;
    json) given=(--record off --log json --trace all) ;;
    file) given=(--record off --log json --trace all --log-file "$WORK/log.%h.%p") ;;
    check) given=(-o "$WORK/out" --check) ;;
    plan) given=(-o "$WORK/out" --inject "$plan") heavy=1 ;;
    deny) given=(-o "$WORK/out" --deny-peer all) heavy=1 ;;
    all) given=(-o "$WORK/out" --check --log json --trace all --log-file "$WORK/log.%p" --inject "$plan" --deny-peer all) heavy=1 ;;
    esac
}
while :; do
    for mode in "${modes[@]}"; do
        options "$mode"
        first=$([ $((RANDOM % 2)) = 0 ] && echo threads || echo handler)
        # The least in one case of three; else anything up to 64 KiB, in steps of 1 KiB.
        stack=$((heavy && factor > 1 ? 32768 : 0)) alternate=$((8192 * factor * (1 + heavy)))
        if [ $((RANDOM % 3)) != 0 ]; then stack=$((16384 * (heavy ? factor : 1) + RANDOM % 48 * 1024)) alternate=$((alternate + RANDOM % 48 * 1024)); fi
        rm -rf "$WORK/out"
        status=0
        "$CUPEER" run --sim "${given[@]}" -- "$program" "$first" "$stack" "$alternate" >"$WORK/said" 2>"$WORK/errors" || status=$?
        runs=$((runs + 1))
        if [ "$status" != 0 ] || [ "$(tail -n 1 "$WORK/said")" != "done" ]; then
            echo "stacks: SEED=$SEED, mode $mode, $first first, threads $stack (0: the least), alternate $alternate: status $status"
            tail -n 5 "$WORK/said" "$WORK/errors"
            exit 1
        fi
    done
    [ "$SECONDS" -lt "$ends" ] || break
done
echo "stacks: $runs runs in ${#modes[@]} modes, none over the end of a stack"
