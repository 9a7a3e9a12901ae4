# What a job pays where cupeer top looks at it, and what a look takes. Sourced by scripts/overhead.
#
# One process makes calls as fast as it can, all of which are kept, with nobody looking and with a screen of cupeer top on it,
# by turns; then 64 processes on the simulated driver make a call or two a millisecond, and what of a processor the screen takes is read
# from /proc.
# The screen gets a terminal from `script` (Debian: bsdutils). TOP names the command where it is not to be built.
# shellcheck shell=bash disable=SC2154
top=${TOP:-}
if [ -z "$top" ]; then
    CUPEER_EMBED=0 cargo build --quiet --release --workspace
    top=$(realpath "$CARGO_TARGET_DIR/release/cupeer")
fi
"$cc" -O2 -o "$work/recorded" "$programs/recorded.c" -ldl
fitting_events

# looked_at DIRECTORY: a screen on it, until stop_looking. Its pid is in $screen.
screen=
looked_at() {
    until compgen -G "$1/*.cupeer" >/dev/null; do sleep 0.01; done
    TERM=xterm script --quiet --return --command "stty rows 50 columns 200; echo \$\$ >$work/screen; exec $top top $1" /dev/null \
        </dev/null >"$work/drawn" 2>&1 &
    until [ -s "$work/screen" ]; do sleep 0.01; done
    screen=$(cat "$work/screen")
    rm "$work/screen"
}
stop_looking() {
    [ -n "$screen" ] || return 0
    kill "$screen" 2>/dev/null || true
    wait 2>/dev/null || true
    screen=
    grep -q "cupeer top" "$work/drawn" || { echo "scripts/overhead: cupeer top drew nothing" >&2; exit 1; }
}
at_end+=(stop_looking)

# watched yes|no COMMAND...
watched() {
    local is_watched=$1
    shift
    rm -rf "$work/record"
    LD_PRELOAD=$library CUPEER_OUT=$work/record CUPEER_RECORD=full "$@" >"$work/said" &
    local program=$!
    if [ "$is_watched" = yes ]; then looked_at "$work/record"; fi
    wait "$program"
    stop_looking
    cat "$work/said"
}
for round in $(seq "$rounds"); do
    for is_watched in no yes; do
        echo "$round $is_watched $(watched $is_watched "$work/recorded" "$driver" "$events")"
    done
done >"$work/figures"
rm -rf "$work/record"
echo "a call of a thread, nanoseconds: least and median of $rounds rounds, $events calls each"
for is_watched in no yes; do
    echo "looked at: $is_watched $(awk -v is="$is_watched" '$2 == is { print $4 }' "$work/figures" | sort -n |
        awk '{ all[NR] = $1 } END { printf "%8.1f %8.1f", all[1], all[int((NR + 1) / 2)] }')"
done

"$cc" -O2 -pthread -o "$work/crew" tests/programs/crew.c
seconds=20
mkfifo "$work/stay"
"$top" run -q -o "$work/record" --sim=nvlink:8 -- "$work/crew" 64 7 calls:1 <"$work/stay" >"$work/said" &
exec 9>"$work/stay"
until [ -s "$work/said" ]; do sleep 0.1; done
looked_at "$work/record"
sleep 5
# Ticks of the system, of which there are 100 a second.
used() { awk '{ print $14 + $15 }' "/proc/$screen/stat"; }
before=$(used)
sleep "$seconds"
after=$(used)
calls=$("$top" top "$work/record" --once --format json | awk -F': ' '/"calls_per_second"/ { sum += $2 } END { printf "%d", sum }')
echo "a screen on 64 processes that make $calls calls a second together: $(((after - before) * 10 / seconds)) ms of a processor a second"
exec 9>&-
stop_looking
rm -rf "$work/record"
