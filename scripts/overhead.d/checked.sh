# What the checks cost on top of recording, with OBJECTS live objects (10000): with a driver that takes no time, or with
# the one that a folder DRIVER_OF_JOBS has. Sourced by scripts/overhead.
#
# checked.c says what is measured and how. Each way has processes of its own in every round.
# shellcheck shell=bash disable=SC2154
objects=${OBJECTS:-10000}
batches=${BATCHES:-2000}
"$cc" -O2 -o "$work/checked" "$programs/checked.c" -ldl
folder=${DRIVER_OF_JOBS:-$work/jobs}
mkdir -p "$work/jobs"
"$cc" -O2 -fPIC -shared -Wl,-soname,libcuda.so.1 -o "$work/jobs/libcuda.so.1" "$programs/job_driver.c"
measure() {
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/checked" "$objects" "$batches" 2>"$work/said" ||
        { cat "$work/said" >&2; exit 1; }
}
for round in $(seq "$rounds"); do
    measure | sed "s/^/$round direct /"
    preloaded full measure | sed "s/^/$round recorded /"
    CUPEER_CHECK=notes preloaded full measure | sed "s/^/$round checked /"
done >"$work/figures"
echo "with $objects exports and as many openings, nanoseconds a call: least and median of $rounds rounds, $((batches * 200)) calls each"
awk '
    function sorted(of, call, column, list,    i, j, t) {
        for (i = 1; i <= rounds; i++) { t = value[i, of, call, column]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
    }
    function least(of, call,    list) { sorted(of, call, 4, list); return list[1] }
    function middle(of, call,    list) { sorted(of, call, 5, list); return list[int((rounds + 1) / 2)] }
    { rounds = $1; value[$1, $2, $3, 4] = $4; value[$1, $2, $3, 5] = $5
      if (!($3 in known)) { known[$3]; name[++names] = $3 } }
    END {
        text["can_access"] = "cuDeviceCanAccessPeer"; text["open_again"] = "cuIpcOpenMemHandle again"
        text["close_one_of_two"] = "cuIpcCloseMemHandle, one of two"; text["free_and_allocate"] = "cuMemFree and cuMemAlloc, no export"
        text["copy_alone"] = "cuMemcpyHtoD, nothing shared"; text["copy_open"] = "cuMemcpyHtoD, none closed"; text["copy_gone"] = "cuMemcpyHtoD, 1,000 closed"
        text["launch_alone"] = "cuLaunchKernel of 16, nothing shared"; text["launch_open"] = "cuLaunchKernel of 16, none closed"
        text["launch_gone"] = "cuLaunchKernel of 16, 1,000 closed"; limit["launch_gone"] = 150
        limit["launch_open"] = 5; limit["launch_alone"] = 1
        limit["free_and_allocate"] = limit["copy_open"] = 5; limit["copy_alone"] = 1
        split("direct recorded checked", ways, " ")
        printf "%-36s %21s %21s %21s %21s\n", "", "direct", "recorded", "and checked", "checked - recorded"
        for (n = 1; n <= names; n++) {
            call = name[n]
            printf "%-36s", text[call]
            for (w = 1; w <= 3; w++) printf "  %9.1f %9.1f", least(ways[w], call), middle(ways[w], call)
            printf "  %+9.1f %+9.1f\n", least("checked", call) - least("recorded", call), middle("checked", call) - middle("recorded", call)
        }
        print ""
        for (n = 1; n <= names; n++) {
            call = name[n]; allowed = call in limit ? limit[call] : 60; met = 0
            for (i = 1; i <= rounds; i++) {
                value[i, "over", call, 4] = value[i, "checked", call, 5] - value[i, "recorded", call, 5]
                met += value[i, "over", call, 4] <= allowed
            }
            sorted("over", call, 4, list)
            printf "%-36s at most %d ns over recording, medians by round: %+.1f to %+.1f, median %+.1f: met in %d of %d\n",
                   text[call], allowed, list[1], list[rounds], list[int((rounds + 1) / 2)], met, rounds
        }
    }' "$work/figures"
