# What recording and checking add to calls that UCX makes for each message, and NCCL for each launch, with a driver that takes no time. Sourced by
# scripts/overhead.
#
# Each figure is the least and the median of ROUNDS processes, by turns.
# shellcheck shell=bash disable=SC2154
batches=${BATCHES:-2000}
mkdir -p "$work/jobs"
"$cc" -O2 -fPIC -shared -Wl,-soname,libcuda.so.1 -o "$work/jobs/libcuda.so.1" "$programs/job_driver.c"
"$cc" -O2 -o "$work/frequent" "$programs/frequent.c" "$work/jobs/libcuda.so.1"
measure() { LD_LIBRARY_PATH=$work/jobs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/frequent" "$batches"; }
for _ in $(seq "$rounds"); do
    measure | sed 's/^/direct /'
    preloaded off measure | sed 's/^/off /'
    preloaded full measure | sed 's/^/recorded /'
    CUPEER_CHECK=notes preloaded full measure | sed 's/^/checked /'
done >"$work/figures"
echo "calls that UCX makes for each message, and NCCL for each launch, nanoseconds a call: least and median of $rounds rounds"
awk '
    { if (!($2 in order)) { order[$2] = ++names; name[names] = $2 }
      count[$1, $2]++; values[$1, $2, count[$1, $2]] = $4; if (!(($1, $2) in least) || $3 < least[$1, $2]) least[$1, $2] = $3 }
    function middle(of, call,    i, j, t, n) {
        n = count[of, call]
        for (i = 2; i <= n; i++) { t = values[of, call, i]; for (j = i - 1; j >= 1 && values[of, call, j] > t; j--) values[of, call, j + 1] = values[of, call, j]; values[of, call, j + 1] = t }
        return values[of, call, int((n + 1) / 2)]
    }
    END {
        text["copy_between"] = "cuMemcpyDtoDAsync between devices"; text["copy_within"] = "cuMemcpyDtoDAsync on one device"
        text["find"] = "cuKernelGetFunction of the same kernel"
        text["release"] = "cuDevicePrimaryCtxRelease, not the last"
        split("direct off recorded checked", ways, " ")
        printf "%-40s %19s %19s %19s %19s\n", "", "direct", "off", "recorded", "and checked"
        for (n = 1; n <= names; n++) {
            printf "%-40s", text[name[n]]
            for (w = 1; w <= 4; w++) printf " %9.1f %9.1f", least[ways[w], name[n]], middle(ways[w], name[n])
            print ""
        }
    }' "$work/figures"
