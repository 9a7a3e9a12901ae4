# What calls cost that the driver answers in the same way again and again: the first and the last of CALLS (1000000), as
# `first least median` nanoseconds, where the last two are of the last 100,000; and how large the record of 10 million probes
# is. Sourced by scripts/overhead.
#
# failing.c says what is measured and how. The driver takes no time. PYTHON names another interpreter.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/failing" "$programs/failing.c" -ldl
"$cc" -O2 -fPIC -shared -o "$work/failing.so" "$programs/failing.c" -ldl
python=${PYTHON:-python3}
calls=${CALLS:-1000000}
# way NAME MODE CHECK COMMAND...
way() {
    local name=$1 mode=$2 check=$3
    shift 3
    if [ "$mode" = direct ]; then echo "$name direct $("$@")"; return; fi
    [ "$check" = - ] || local -x CUPEER_CHECK=$check
    echo "$name $mode-$check $(preloaded "$mode" "$@" 2>"$work/said")"
}
for _ in $(seq "$rounds"); do
    for call in retain enable open opened; do
        for of in "direct -" "off -" "full -" "ring -" "full brief" "full full" "ring brief"; do
            read -r mode check <<<"$of"
            way "$call" "$mode" "$check" "$work/failing" "$driver" "$call" "$calls"
        done
    done
    for of in "direct -" "off -" "full -" "full brief" "full full"; do
        read -r mode check <<<"$of"
        way python-retain "$mode" "$check" "$python" "$programs/failing.py" "$work/failing.so" "$driver" retain "$calls"
    done
done >"$work/figures"
echo "nanoseconds: of $rounds rounds, the least and the median first call, and the least and the median of the last ones"
awk '
    function sorted(key, column,    i, j, t) {
        for (i = 1; i <= n[key]; i++) { t = value[key, i, column]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
    }
    { key = $1 " " $2; if (!(key in n)) order[++keys] = key; i = ++n[key]
      for (c = 3; c <= 5; c++) value[key, i, c] = $c }
    END { for (k = 1; k <= keys; k++) { key = order[k]; middle = int((n[key] + 1) / 2)
          sorted(key, 3); f = list[1]; fm = list[middle]; sorted(key, 4); l = list[1]; sorted(key, 5); m = list[middle]
          split(key, of, " "); if (of[2] == "direct") { dl = l; dm = m }
          printf "%-15s %-12s first %12.0f %12.0f   last %8.1f %8.1f   over direct %+8.1f %+8.1f\n", of[1], of[2], f, fm, l, m, l - dl, m - dm } }' "$work/figures"
rm -rf "$work/record"
LD_PRELOAD=$library CUPEER_OUT=$work/record CUPEER_CHECK=brief "$work/failing" "$driver" retain 10000000 >/dev/null 2>&1
echo "the record of 10,000,000 probes has $(cat "$work"/record/*.cupeer | wc -c) bytes"
rm -rf "$work/record"
