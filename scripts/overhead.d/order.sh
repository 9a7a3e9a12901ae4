# What copies (also of rows, and in batches), launches, synchronizations, and queries pay: in a process that shares nothing, beside
# shared memory that they do not touch, and on shared memory, where they are recorded. Sourced by scripts/overhead.
#
# Each figure is the least of ROUNDS runs, and the median of their medians, by turns.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/order" "$programs/order.c" "$driver" -Wl,-rpath,"$work"
run_order() {
    local way=$1 what=$2
    shift 2
    rm -rf "$work/record"
    LD_LIBRARY_PATH=$work env "$@" "$work/order" "$what" | sed "s/^/$way $what /"
}
for _ in $(seq "$rounds"); do
    for what in alone other shared; do
        run_order direct $what A=
        run_order recorded $what "LD_PRELOAD=$library" "CUPEER_OUT=$work/record"
    done
done >"$work/figures"
echo "uses of memory and what orders them, nanoseconds a call: least of $rounds rounds, and median"
echo "                                   direct         recorded"
sort -k1,3 -k5n "$work/figures" | awk '
    { key = $1 " " $2 " " $3; if (!(key in least) || $4 < least[key]) least[key] = $4; all[key, ++n[key]] = $5 }
    END { split("alone other shared", whats, " "); split("copy memset rows batch launch synchronize query event", names, " "); split("direct recorded", ways, " ")
          for (s = 1; s <= 3; s++) for (i = 1; i <= 8; i++) { printf "%-8s %-16s", whats[s], names[i]
              for (w = 1; w <= 2; w++) { key = ways[w] " " whats[s] " " names[i]
                  printf " %8.2f %8.2f", least[key], all[key, int((n[key] + 1) / 2)] }
              printf "\n" } }'
