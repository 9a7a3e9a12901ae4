# This library beside an earlier build of it, BEFORE, in one run. Sourced by scripts/overhead.
#
# Each row is measured with both by turns, with a driver that takes no time: calls with nothing switched on, recorded,
# with 10,000 live objects, and checked.
# shellcheck shell=bash disable=SC2154
if [ -z "${BEFORE:-}" ]; then
    echo "versions is left out: BEFORE names no other libcupeer.so"
    return 0
fi
"$cc" -O2 -o "$work/calls" "$programs/calls.c" "$driver" -Wl,-rpath,"$work" -ldl
"$cc" -O2 -o "$work/recorded" "$programs/recorded.c" -ldl
"$cc" -O2 -o "$work/checked" "$programs/checked.c" -ldl
mkdir -p "$work/jobs"
"$cc" -O2 -fPIC -shared -Wl,-soname,libcuda.so.1 -o "$work/jobs/libcuda.so.1" "$programs/job_driver.c"
few=$((events < 8000000 ? events : 8000000))
# jobs NAME: the rows of checked.c, under that name.
jobs() { LD_LIBRARY_PATH=$work/jobs "$work/checked" "${OBJECTS:-10000}" "${BATCHES:-2000}" | awk -v name="$1" '{ print $1 "_" name, $3 }'; }
after=$library
: >"$work/figures"
for round in $(seq "$rounds"); do
    for way in before after; do
        if [ $way = before ]; then library=$(realpath "$BEFORE"); else library=$after; fi
        {
            LD_LIBRARY_PATH=$work preloaded off "$work/calls"
            preloaded ring "$work/recorded" "$driver" "$few" | awk '{ print "recorded_ring_mean", $2; print "recorded_ring_99.9%", $4 }'
            preloaded full "$work/recorded" "$driver" "$few" | awk '{ print "recorded_full_mean", $2; print "recorded_full_99.9%", $4 }'
            preloaded full jobs recorded
            CUPEER_CHECK=notes preloaded full jobs checked
        } | sed "s/^/$round $way /" >>"$work/figures"
    done
done
library=$after
echo "before and after, nanoseconds a call: least and median of $rounds rounds"
awk '
    function sorted(way, key, list,    i, j, t) {
        for (i = 1; i <= rounds; i++) { t = value[i, way, key]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
    }
    { rounds = $1; value[$1, $2, $3] = $4; if (!($3 in known)) { known[$3]; name[++names] = $3 } }
    END {
        printf "%-32s %21s %21s %21s\n", "", "before", "after", "after - before"
        for (n = 1; n <= names; n++) {
            sorted("before", name[n], b); sorted("after", name[n], a); m = int((rounds + 1) / 2)
            printf "%-32s  %9.1f %9.1f  %9.1f %9.1f  %+9.1f %+9.1f\n", name[n], b[1], b[m], a[1], a[m], a[1] - b[1], a[m] - b[m]
        }
    }' "$work/figures"
