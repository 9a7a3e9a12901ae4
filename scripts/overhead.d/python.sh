# What a call that fails costs with its stack where it comes from Python, of different depths: from one place, and from two
# by turns; without and with the lines of Python. `least median` of each round, in nanoseconds. Sourced by scripts/overhead.
#
# python.c and python.py say what is measured and how. The driver takes no time. PYTHON names another interpreter.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -fPIC -shared -o "$work/measured.so" "$programs/python.c" -ldl
python=${PYTHON:-python3}
# An event and a stack for each call: otherwise runs of failures were measured.
least=$((${BATCHES:-500} * 300 * 128))
echo "cuCtxEnablePeerAccess that fails, from $("$python" --version), nanoseconds a call: least and median of ${BATCHES:-500} batches"
for round in $(seq "$rounds"); do
    for of in "2 1" "6 1" "14 1" "24 1" "6 40" "6 200" "24 40"; do
        read -r depth lines <<<"$of"
        made=("$python" "$programs/python.py" "$work/measured.so" "$driver" "$depth" "${BATCHES:-500}" "$lines")
        printf 'round %s, %2s deep, %3s lines: direct %s' "$round" "$depth" "$lines" "$("${made[@]}")"
        printf ' | without lines %s' "$(CUPEER_PYTHON=0 preloaded full "${made[@]}")"
        printf ' | with lines %s\n' "$(preloaded full "${made[@]}")"
    done
done
unset least
