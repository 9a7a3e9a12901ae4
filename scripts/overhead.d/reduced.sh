# Large jobs: what reducing a node's records takes, and reporting on all of them, as records and as reduced files. Sourced by
# scripts/overhead.
#
# Seconds are those of the processor, the least of ROUNDS runs; memory is the most that was resident. CUPEER and GENERATE may name
# the command and the example `generate`; else cargo builds them. NODES says of how many nodes (1 10 100), each of 200 processes
# that make 200,000 calls together; 100 nodes take 5 GB in TMPDIR. Then memory, with a hundred times the calls.
# shellcheck shell=bash disable=SC2154
if [ -z "${CUPEER:-}" ]; then
    CUPEER_EMBED=0 cargo build --quiet --release --bin cupeer
    CUPEER=$CARGO_TARGET_DIR/release/cupeer
fi
if [ -z "${GENERATE:-}" ]; then
    cargo build --quiet --release --package cupeer-record --features writer --example generate
    GENERATE=$CARGO_TARGET_DIR/release/examples/generate
fi
# measured COMMAND...: the least seconds and the most KiB, and the last output in $work/out.
measured() {
    for _ in $(seq "$rounds"); do
        /usr/bin/time -a -o "$work/times" -f '%U %S %M' "$@" >"$work/out"
    done
    awk 'NR == 1 || $1 + $2 < s { s = $1 + $2 } $3 > m { m = $3 } END { printf "%.2f s, %d MB", s, m / 1024 }' "$work/times"
    rm "$work/times"
}
size() { du -cb "$@" | tail -n 1 | cut -f1; }
printf '%-6s %9s %9s %16s %10s %18s %18s\n' nodes processes record 'reducing a node' files 'report of records' 'report of files'
for nodes in ${NODES:-1 10 100}; do
    job=$work/job
    "$GENERATE" $((200000 * nodes)) $((200 * nodes)) "$job" 1 "$nodes"
    [ "$nodes" != 1 ] || { mkdir "$work/host-0"; mv "$job"/* "$work/host-0"; mv "$work/host-0" "$job"; }
    a_node=$(measured "$CUPEER" reduce "$job/host-0" --force -o "$work/host-0.cupeer.json.gz")
    for host in "$job"/host-*; do
        "$CUPEER" reduce "$host" --force -o "$work/$(basename "$host").cupeer.json.gz" >/dev/null
    done
    whole=$(measured "$CUPEER" report "$job" --format json)
    sed '/"path": /d' "$work/out" >"$work/whole"
    files=$(measured "$CUPEER" report "$work"/host-*.cupeer.json.gz --format json)
    sed '/"path": /d' "$work/out" | cmp - "$work/whole" || { echo "the reports differ" >&2; exit 1; }
    printf '%-6s %9s %8sM %16s %9sK %18s %18s\n' "$nodes" $((200 * nodes)) $(($(size "$job") >> 20)) "$a_node" \
        $(($(size "$work"/host-*.cupeer.json.gz) >> 10)) "$whole" "$files"
    rm -rf "$job" "$work"/host-*
done
for calls in 200000 20000000; do
    "$GENERATE" $calls 200 "$work/job"
    echo "200 processes, $calls calls: $(measured "$CUPEER" reduce "$work/job" --force -o "$work/x.cupeer.json.gz"), $(size "$work/x.cupeer.json.gz") bytes"
    rm -rf "$work/job"
done
