# What a call that fails costs with its call stack, of different depths: `least median` of each round, in nanoseconds.
# Where BEFORE names another libcupeer.so, that one has its turn, too. Sourced by scripts/overhead.
#
# frames.c says what is measured and how. The driver takes no time.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/frames" "$programs/frames.c" -ldl
# An event and a stack for each call: otherwise runs of failures were measured.
least=$((${BATCHES:-200} * 2000 * 128))
echo "cuCtxEnablePeerAccess that fails, nanoseconds a call: least and median of ${BATCHES:-200} batches"
for round in $(seq "$rounds"); do
    for depth in 2 6 14; do
        printf 'round %s, %2s deep: direct %s' "$round" "$depth" "$("$work/frames" "$driver" "$depth" "${BATCHES:-200}")"
        printf ', recorded %s' "$(preloaded full "$work/frames" "$driver" "$depth" "${BATCHES:-200}")"
        if [ -n "${BEFORE:-}" ]; then
            printf ', before %s' "$(library=$BEFORE preloaded full "$work/frames" "$driver" "$depth" "${BATCHES:-200}")"
        fi
        echo
    done
done
unset least
