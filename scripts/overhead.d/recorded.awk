# The table of recorded.sh, and what its figures must be. Lines: ROUND NAME FIRST MEAN MEDIAN TAIL LONGEST
function sorted(name, column, list,    i, j, n, t) {
    n = 0
    for (i = 1; i <= rounds; i++) if ((i, name, column) in value) list[++n] = value[i, name, column]
    for (i = 2; i <= n; i++) { t = list[i]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
    return n
}
function least(name, column,    list) { sorted(name, column, list); return list[1] }
function middle(name, column,    list, n) { n = sorted(name, column, list); return list[int((n + 1) / 2)] }
# By round, because what the machine does else changes from one to the next.
function judge(name, column, what, allowed,    i, met, d, list, n) {
    for (i = 1; i <= rounds; i++) value[i, "over", column] = value[i, name, column] - value[i, "clocks", column]
    for (i = 1; i <= rounds; i++) met += value[i, "over", column] <= allowed
    n = sorted("over", column, list)
    printf "%-5s %-17s at most two clock reads + %d ns: + %.1f to + %.1f, median + %.1f: met in %d of %d rounds\n",
           name, what, allowed, list[1], list[n], list[int((n + 1) / 2)], met, rounds
}
{
    if (!($2 in known)) { known[$2]; name[++names] = $2 }
    if ($1 > rounds) rounds = $1
    for (i = 3; i <= 7; i++) value[$1, $2, i] = $i
}
END {
    text["direct"] = "direct"; text["off"] = "preloaded, nothing switched on"; text["clocks"] = "direct, between two clock reads"
    text["ring"] = "recorded, ring"; text["full"] = "recorded, full"
    text["lttng-snapshot"] = "two tracepoints, snapshot"; text["lttng-files"] = "two tracepoints, files"
    text["tracing-line"] = "a tracing JSON line"; text["tracing-buffered"] = "a tracing JSON line, buffered"
    text["cupeer-log"] = "a line of CUPEER_LOG=json"
    printf "%-32s %17s %15s %19s %17s %13s\n", "", "mean", "median", "99.9%", "longest", "the first"
    for (n = 1; n <= names; n++) {
        printf "%-32s", text[name[n]]
        printf " %8.1f %8.1f", least(name[n], 4), middle(name[n], 4)
        printf " %7.1f %7.1f", least(name[n], 5), middle(name[n], 5)
        printf " %9.1f %9.1f", least(name[n], 6), middle(name[n], 6)
        printf " %8d %8d", least(name[n], 7), middle(name[n], 7)
        printf " %13d\n", middle(name[n], 3)
    }
    print ""
    judge("ring", 4, "mean", 15); judge("ring", 5, "median", 15); judge("ring", 6, "99.9th percentile", 15)
    judge("full", 4, "mean", 60); judge("full", 5, "median", 60); judge("full", 6, "99.9th percentile", 60)
}
