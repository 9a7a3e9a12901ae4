# What a process pays that shares nothing, for its copies, frees, and launches of graphs. Sourced by scripts/overhead.
#
# Each figure is the least of ROUNDS runs, by turns direct, with the library, and recorded in full.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/alone" "$programs/alone.c" "$driver" -Wl,-rpath,"$work"
for _ in $(seq "$rounds"); do
    LD_LIBRARY_PATH=$work "$work/alone" | sed 's/^/direct /'
    LD_LIBRARY_PATH=$work LD_PRELOAD=$library "$work/alone" | sed 's/^/preloaded /'
    rm -rf "$work/record"
    LD_LIBRARY_PATH=$work LD_PRELOAD=$library CUPEER_OUT=$work/record CUPEER_RECORD=full "$work/alone" | sed 's/^/recorded /'
done >"$work/figures"
echo "in a process that shares nothing, nanoseconds a call: least of $rounds rounds"
echo "                                      direct  preloaded   recorded"
awk '{ if (!($2 in order)) { order[$2] = ++n; name[n] = $2 }
       if (!(($1, $2) in least) || $3 < least[$1, $2]) least[$1, $2] = $3 }
     END { for (i = 1; i <= n; i++) { k = name[i]
           printf "%-36s %7.2f %10.2f %10.2f\n", k, least["direct", k], least["preloaded", k], least["recorded", k] } }' "$work/figures"
