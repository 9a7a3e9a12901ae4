# What allocations and frees of device memory pay: without a recording, recorded without checks, and by default. Sourced by
# scripts/overhead.
#
# Each figure is the least of ROUNDS runs, and the median of their medians, by turns.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/memory" "$programs/memory.c" "$driver" -Wl,-rpath,"$work"
run_memory() {
    local way=$1
    shift
    rm -rf "$work/record"
    LD_LIBRARY_PATH=$work env "$@" "$work/memory" | sed "s/^/$way /"
}
for _ in $(seq "$rounds"); do
    run_memory direct A=
    run_memory preloaded "LD_PRELOAD=$library"
    run_memory unchecked "LD_PRELOAD=$library" "CUPEER_OUT=$work/record" CUPEER_RECORD=full CUPEER_CHECK=off
    run_memory default "LD_PRELOAD=$library" "CUPEER_OUT=$work/record"
    run_memory ring "LD_PRELOAD=$library" "CUPEER_OUT=$work/record" CUPEER_RECORD=ring:8M
done >"$work/figures"
echo "allocations and frees, nanoseconds a call: least of $rounds rounds, and median"
echo "                            direct        preloaded        --check=off          default             ring"
sort -k1,2 -k4n "$work/figures" | awk '
    { key = $1 " " $2; if (!(key in least) || $3 < least[key]) least[key] = $3; all[key, ++n[key]] = $4 }
    END { split("cuMemAlloc cuMemFree cuMemAllocAsync cuMemFreeAsync cuMemAlloc_2MiB cuMemFree_2MiB", names, " ")
          split("direct preloaded unchecked default ring", ways, " ")
          for (i = 1; i <= 6; i++) { printf "%-18s", names[i]
              for (w = 1; w <= 5; w++) { key = ways[w] " " names[i]
                  printf " %8.2f %8.2f", least[key], all[key, int((n[key] + 1) / 2)] }
              printf "\n" } }'
