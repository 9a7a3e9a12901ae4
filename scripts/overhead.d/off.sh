# Nothing switched on: calls, look-ups and whole programs, direct against preloaded. Sourced by scripts/overhead.
#
# Each figure is the least of ROUNDS runs, by turns with and without, of loops of 200,000 calls; programs are
# started 300 times by turns.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/calls" "$programs/calls.c" "$driver" -Wl,-rpath,"$work" -ldl
"$cc" -O2 -o "$work/spawn" "$programs/spawn.c"
echo | "$cc" -shared -fPIC -o "$work/empty.so" -xc -
# Before any driver of the machine.
calls() { LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/calls"; }
for _ in $(seq "$rounds"); do
    calls | sed 's/^/direct /'
    LD_PRELOAD=$library calls | sed 's/^/preloaded /'
done >"$work/figures"
echo "nothing switched on, nanoseconds a call"
echo "                                      direct  preloaded  difference"
awk '{ key = $2; if (!(key in order)) { order[key] = ++n; name[n] = key }
       if (!(($1, key) in least) || $3 < least[$1, key]) least[$1, key] = $3 }
     END { for (i = 1; i <= n; i++) { k = name[i]; d = least["direct", k]; p = least["preloaded", k]
           printf "%-36s %7.2f %10.2f %11.2f\n", k, d, p, p - d } }' "$work/figures"
echo
echo "microseconds, start to end     empty library        libcupeer.so    difference"
echo "                               median    least     median    least   median    least"
# The interpreter itself: what PATH has may be a script that starts dozens of programs before it.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || true)
for program in true "${python:-python3} -c pass"; do
    # shellcheck disable=SC2086
    command -v ${program%% *} >/dev/null || { echo "$program: not installed"; continue; }
    # shellcheck disable=SC2086
    "$work/spawn" 300 "$work/empty.so" "$library" $program |
        awk -v name="${program##*/}" '{ printf "%-28s %8.1f %8.1f   %8.1f %8.1f %8.1f %8.1f\n",
                                        name, $1, $2, $3, $4, $3 - $1, $4 - $2 }'
done
