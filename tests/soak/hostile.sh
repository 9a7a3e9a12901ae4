#!/usr/bin/env bash
# Hostile directories: links, pipes, devices, files of holes and another user's files at every name that cupeer uses. Nothing is
# written elsewhere, nothing hangs, nothing is killed, and no planted library is loaded.
set -euo pipefail
seconds=$1 end=$((SECONDS + $1)) rounds=0 refused=0 ran=0
RANDOM=$SEED
boot=$(head -c 8 /proc/sys/kernel/random/boot_id)
nobody=65534
pick() { local all=("$@"); chosen=${all[RANDOM % ${#all[@]}]}; }
fail() { echo "hostile.sh: $* (seed $SEED, round $rounds)" >&2; exit 1; }
plant() { # KIND PATH
    case $1 in
    link) ln -s "$WORK/victim" "$2" ;;
    nowhere) ln -s "$WORK/created" "$2" ;;
    zero) ln -s /dev/zero "$2" ;;
    pipe) mkfifo "$2" ;;
    directory) mkdir "$2" ;;
    sparse) truncate -s 16G "$2" ;;
    junk) head -c $((RANDOM % 9000)) /dev/urandom >"$2" ;;
    theirs) printf 'cupeer job 1\nkey=000102030405060708090a0b0c0d0e0f\n' >"$2" ;;
    esac
    # As another user has it, where that is possible.
    [ $((RANDOM % 2)) = 0 ] || [ "$(id -u)" != 0 ] || chown -h $nobody:$nobody "$2"
}
while [ $SECONDS -lt $end ]; do
    rounds=$((rounds + 1))
    rm -rf "$WORK/d" && mkdir "$WORK/d" && pick 0700 0777 1777 2775 && chmod "$chosen" "$WORK/d"
    echo secret >"$WORK/victim" && chmod 600 "$WORK/victim"
    pick job "live-$boot" vllm-cache log "faults-$boot-00000000" release-x sweep.jsonl plan 1-2-3.cupeer symbols.json && name=$chosen
    pick link nowhere zero pipe directory sparse junk theirs && kind=$chosen
    plant "$kind" "$WORK/d/$name"
    case $name in
    log) set -- run --sim --log text --log-file "$WORK/d/log" -- true ;;
    plan) set -- run --sim --inject-file "$WORK/d/plan" -- true ;;
    sweep.jsonl) set -- sweep --resume "$WORK/d" ;;
    symbols.json | *.cupeer) set -- report "$WORK/d" ;;
    release-x) set -- release "$WORK/d" x ;;
    *) set -- run --sim --check --deny-peer all --record full -o "$WORK/d" -- true ;;
    esac
    # Neither waits nor grows; a pipe as a log has a reader or none.
    status=0
    (ulimit -v 8000000; exec timeout -k 1 30 "$CUPEER" "$@") </dev/null >"$WORK/out" 2>&1 || status=$?
    [ "$status" != 124 ] && [ "$status" -lt 128 ] && [ "$status" != 101 ] || fail "$kind at $name: status $status: $(tail -c 300 "$WORK/out")"
    # A link of one's own is followed where the user has named it.
    if [ "$name" != log ]; then
        [ "$(cat "$WORK/victim")" = secret ] && [ "$(stat -c %a "$WORK/victim")" = 600 ] || fail "$kind at $name: the victim was written to"
        [ ! -e "$WORK/created" ] || fail "$kind at $name: a file was made behind a link"
    fi
    rm -f "$WORK/created"
    ! LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$WORK/out" || fail "$kind at $name: something a terminal obeys: $(cat -v "$WORK/out" | tail -n 3)"
    if [ $status = 125 ]; then refused=$((refused + 1)); else ran=$((ran + 1)); fi
done
echo "hostile: $rounds directories in $seconds s, $ran ran and $refused were refused"
