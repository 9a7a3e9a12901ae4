# How recorded calls of many threads scale, against the same loop with nothing but its clock reads. Sourced by
# scripts/overhead.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/threads" "$programs/threads.c" -ldl -lpthread
fitting_events
# In the full record the events of all threads together are as many as elsewhere.
each=$((events / 4)) each_full=$((events / threads))
for round in $(seq "$rounds"); do
    for count in 1 "$threads"; do
        echo "$round clocks $count $("$work/threads" "$driver" "$count" "$each" clocks)"
        echo "$round ring $count $(preloaded ring "$work/threads" "$driver" "$count" "$each")"
        echo "$round full $count $(preloaded full "$work/threads" "$driver" "$count" "$each_full")"
    done
done >"$work/figures"
echo "million calls a second, medians of $rounds rounds; a thread makes $each calls, $each_full where all is kept"
echo "                                   1 thread  $threads threads   scaling"
awk -v threads="$threads" '
    function middle(list, n,    i, j, t) {
        for (i = 2; i <= n; i++) { t = list[i]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
        return list[int((n + 1) / 2)]
    }
    function over(name, count,    i, list) { for (i = 1; i <= rounds; i++) list[i] = rate[i, name, count]; return middle(list, rounds) }
    function most(name, count,    i, found) { for (i = 1; i <= rounds; i++) if (rate[i, name, count] > found) found = rate[i, name, count]; return found }
    function scaling(round, name) { return rate[round, name, threads] / rate[round, name, 1] / threads }
    { rate[$1, $2, $3] = $4; rounds = $1 }
    END {
        text["clocks"] = "direct, between two clock reads"; text["ring"] = "recorded, ring"; text["full"] = "recorded, full"
        split("clocks ring full", names, " ")
        for (n = 1; n <= 3; n++) {
            for (i = 1; i <= rounds; i++) list[i] = scaling(i, names[n])
            printf "%-32s %10.2f %10.2f %9.3f\n", text[names[n]], over(names[n], 1), over(names[n], threads), middle(list, rounds)
        }
        print ""
        for (n = 2; n <= 3; n++) {
            met = 0
            for (i = 1; i <= rounds; i++) { list[i] = scaling(i, names[n]) / scaling(i, "clocks"); met += list[i] >= 0.9 }
            m = middle(list, rounds)
            best = most(names[n], threads) / most(names[n], 1) / most("clocks", threads) * most("clocks", 1)
            printf "%-5s scales at least 0.9 times as well: %.3f by the best of each, rounds %.3f to %.3f, median %.3f: met in %d of %d rounds\n",
                   names[n], best, list[1], list[rounds], m, met, rounds
        }
    }' "$work/figures"
