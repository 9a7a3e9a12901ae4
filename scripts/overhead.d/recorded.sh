# What a recorded call costs over a direct one, beside other ways to keep the same. Sourced by scripts/overhead.
#
# recorded.c says what is measured and how. Each way has a process of its own in every round. Lines and tracepoints
# are slow and large, and make fewer calls. A session of LTTng is recording all the while: as a flight recorder
# (snapshot), beside the ring, and to files with nothing discarded, beside the full record.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/recorded" "$programs/recorded.c" -ldl
fitting_events
lines=$((events < 1000000 ? events : 1000000))
tracepoints=$((events < 4000000 ? events : 4000000))
export OVERHEAD_DRIVER=$driver

tracing_line=${TRACING_LINE:-}
if [ -z "$tracing_line" ] && command -v cargo >/dev/null; then
    if cargo build --quiet --release --locked --manifest-path "$programs/tracing-line/Cargo.toml"; then
        tracing_line=$(realpath "$CARGO_TARGET_DIR/release/libtracing_line.so")
    fi
fi
if [ -n "$tracing_line" ]; then echo "tracing $(sed -n '/^name = "tracing"$/{n;s/version = //p}' "$programs/tracing-line/Cargo.lock" | tr -d '"'), tracing-subscriber $(sed -n '/^name = "tracing-subscriber"$/{n;s/version = //p}' "$programs/tracing-line/Cargo.lock" | tr -d '"')"
else echo "tracing is left out: there is neither cargo nor a TRACING_LINE"; fi

lttng=
stop_lttng() { kill "$(cat "$work/lttng.pid")" 2>/dev/null || true; }
if ! command -v lttng-sessiond >/dev/null; then
    echo "LTTng is left out: it is not installed (Debian: apt-get install lttng-tools liblttng-ust-dev)"
elif ! "$cc" -O2 -fPIC -shared -I "$programs" -o "$work/lttng_line.so" "$programs/lttng_line.c" -llttng-ust -ldl 2>"$work/lttng.log"; then
    echo "LTTng is left out: its header is not installed (Debian: apt-get install liblttng-ust-dev)"
elif ! LTTNG_HOME=$work HOME=$work lttng-sessiond --daemonize --no-kernel --pidfile="$work/lttng.pid" >"$work/lttng.log" 2>&1; then
    echo "LTTng is left out: its daemon does not start: $(tail -n 1 "$work/lttng.log")"
else
    at_end+=(stop_lttng)
    export LTTNG_HOME=$work
    lttng=yes
    echo "$(lttng --version), two tracepoints a call"
fi

# with_lttng snapshot|files COMMAND...: while a session records it.
with_lttng() {
    local form=$1 session channel=(--subbuf-size=1M --num-subbuf=8)
    shift
    session=(--output="$work/lttng")
    if [ "$form" = snapshot ]; then session+=(--snapshot); else channel+=(--blocking-timeout=inf); fi
    {
        lttng create overhead "${session[@]}"
        lttng enable-channel --userspace "${channel[@]}" calls
        lttng enable-event --userspace --channel calls 'overhead:*'
        lttng start
    } >"$work/lttng.log"
    LTTNG_UST_ALLOW_BLOCKING=1 "$@"
    if [ "$form" = snapshot ]; then lttng snapshot record; else lttng stop; fi >"$work/lttng.log"
    lttng destroy overhead >"$work/lttng.log"
    [ "$(du -sm "$work/lttng" | cut -f1)" -ge 1 ] || { echo "scripts/overhead: LTTng recorded nothing" >&2; exit 1; }
    rm -rf "$work/lttng"
}

# turn ROUND NAME COMMAND...
turn() {
    local round=$1 name=$2
    shift 2
    echo "$round $name $("$@")" >>"$work/figures"
}
logged() {
    LD_PRELOAD=$library CUPEER_LOG=json CUPEER_TRACE=all CUPEER_LOG_FILE=$work/lines "$@"
    [ "$(head -n 1000 "$work/lines" | wc -l)" = 1000 ] || { echo "scripts/overhead: cupeer logged nothing" >&2; exit 1; }
}
: >"$work/figures"
for round in $(seq "$rounds"); do
    turn "$round" direct "$work/recorded" "$driver" "$events"
    turn "$round" off preloaded off "$work/recorded" "$driver" "$events"
    turn "$round" clocks "$work/recorded" "$driver" "$events" clocks
    turn "$round" ring preloaded ring "$work/recorded" "$driver" "$events"
    turn "$round" full preloaded full "$work/recorded" "$driver" "$events"
    if [ -n "$lttng" ]; then
        turn "$round" lttng-snapshot with_lttng snapshot "$work/recorded" "$work/lttng_line.so" "$tracepoints"
        turn "$round" lttng-files with_lttng files "$work/recorded" "$work/lttng_line.so" "$tracepoints"
    fi
    if [ -n "$tracing_line" ]; then
        OVERHEAD_OUT=$work/lines turn "$round" tracing-line "$work/recorded" "$tracing_line" "$lines"
        OVERHEAD_OUT=$work/lines OVERHEAD_BUFFERED=1 turn "$round" tracing-buffered "$work/recorded" "$tracing_line" "$lines"
    fi
    turn "$round" cupeer-log logged "$work/recorded" "$driver" "$lines"
    rm -f "$work/lines"
done
echo "a call of a thread, nanoseconds: least and median of $rounds rounds, $events calls each ($((events * 64 >> 20)) MiB of events),"
echo "$tracepoints where there are tracepoints, $lines where there are lines"
awk -f "$programs/recorded.awk" "$work/figures"
