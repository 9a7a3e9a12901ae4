# What a recorded call costs on a real driver, beside an empty callback of CUPTI. Sourced by scripts/overhead.
# shellcheck shell=bash disable=SC2154
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
cupti=${CUPTI_LIBRARY:-$(find / -name 'libcupti.so*' -not -path '/proc/*' 2>/dev/null | sort | tail -n 1 || true)}
unset CUPTI_LIBRARY
if [ "$gpus" -eq 0 ] || [ -z "$cupti" ]; then
    echo "the real driver is left out: $gpus GPUs that nvidia-smi sees, CUPTI ${cupti:-not found}"
    return
fi
"$cc" -O2 -o "$work/cupti_cost" tests/hardware/cupti_cost.c -ldl
echo "driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1), $gpus GPUs, $cupti"
for round in $(seq "$rounds"); do
    echo "$round direct $("$work/cupti_cost")"
    echo "$round off $(preloaded off "$work/cupti_cost")"
    echo "$round clocks $("$work/cupti_cost" clocks)"
    echo "$round ring $(preloaded ring "$work/cupti_cost")"
    echo "$round full $(preloaded full "$work/cupti_cost")"
    echo "$round cupti $(CUPTI_LIBRARY=$cupti "$work/cupti_cost")"
done >"$work/figures"
awk '
    { key = $2; rounds = $1; least[$1, key] = $3; middle[$1, key] = $4
      $1 = $2 = $3 = $4 = ""; sub(/^ */, ""); answer[key] = $0
      if (!(key in low) || least[rounds, key] < low[key]) low[key] = least[rounds, key] }
    function median(key, of,    i, j, t, list) {
        for (i = 1; i <= rounds; i++) { t = of[i, key]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
        return list[int((rounds + 1) / 2)]
    }
    END {
        text["direct"] = "direct"; text["off"] = "preloaded, nothing switched on"; text["clocks"] = "direct, between two clock reads"; text["ring"] = "recorded, ring"
        text["full"] = "recorded, full"; text["cupti"] = "an empty CUPTI callback"
        print "cuDeviceCanAccessPeer, " answer["direct"] ", nanoseconds a call"
        print "                                    least   median  over direct, of medians"
        split("direct off clocks ring full cupti", names, " ")
        for (n = 1; n <= 6; n++) {
            k = names[n]
            if (answer[k] != answer["direct"]) print k " answers otherwise: " answer[k]
            printf "%-32s %8.1f %8.1f %8.1f\n", text[k], low[k], median(k, middle), median(k, middle) - median("direct", middle)
        }
        print ""
        for (n = 4; n <= 5; n++) {
            k = names[n]; met = 0
            for (i = 1; i <= rounds; i++) {
                share[i, k] = (middle[i, k] - middle[i, "direct"]) / (middle[i, "cupti"] - middle[i, "direct"])
                met += share[i, k] <= 0.25
            }
            printf "%-5s costs at most a quarter of the callback: %.3f of it by the least of each, %.3f by the medians: met in %d of %d rounds\n",
                   k, (low[k] - low["direct"]) / (low["cupti"] - low["direct"]), median(k, share), met, rounds
        }
    }' "$work/figures"
