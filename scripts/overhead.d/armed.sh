# What armed rules of faults cost of which none matches, on top of recording into a ring. Sourced by scripts/overhead.
#
# recorded.c says what is measured and how. Three times 100 rules: that look at the arguments of the function that is
# called; that are for other ranks; that are for another function. "Off" is without a record: what is armed for a
# function, or not, alone decides whether its calls come to us.
# shellcheck shell=bash disable=SC2154
"$cc" -O2 -o "$work/recorded" "$programs/recorded.c" -ldl
events_here=$((events < 8388608 ? events : 8388608))
plan() { for i in $(seq 0 99); do printf '%s;' "${1//@/$i}"; done; }
arguments=$(plan 'cuDeviceCanAccessPeer:dev=@..200:peer=@:error=any')
ranks=$(plan 'cuDeviceCanAccessPeer:rank=1@:error=any')
others=$(plan 'cuIpcOpenMemHandle*:when=@1:error=any')
calls() { "$work/recorded" "$driver" "$events_here"; }
ring() { preloaded ring:16M "$@"; }
allowed() { CUPEER_ALLOW_FAULTS=1 CUPEER_FAULTS=$work/plans "$@"; }
mkdir "$work/plans"
armed() { local plan=$1; shift; CUPEER_INJECT=$plan "$@"; }
turn_of() { local name=$1; shift; echo "$round $name $("$@")"; }
for round in $(seq "$rounds"); do
    turn_of off preloaded off calls
    turn_of off-allowed allowed preloaded off calls
    turn_of off-others armed "$others" preloaded off calls
    turn_of off-arguments armed "$arguments" preloaded off calls
    turn_of ring ring calls
    turn_of ring-allowed allowed ring calls
    turn_of ring-others armed "$others" ring calls
    turn_of ring-ranks armed "$ranks" ring calls
    turn_of ring-arguments armed "$arguments" ring calls
done >"$work/figures"
echo "cuDeviceCanAccessPeer, nanoseconds a call: means of $rounds rounds, $events_here calls each"
awk '
    function sorted(name, list,    i, j, t) {
        for (i = 1; i <= rounds; i++) { t = value[i, name]; for (j = i; j > 1 && list[j - 1] > t; j--) list[j] = list[j - 1]; list[j] = t }
    }
    { rounds = $1; value[$1, $2] = $4; if (!($2 in known)) { known[$2]; name[++names] = $2 } }
    END {
        text["off"] = "off"; text["off-allowed"] = "off, plans allowed from outside"
        text["ring-allowed"] = "ring, plans allowed from outside"; text["off-others"] = "off, 100 rules of another function"
        text["off-arguments"] = "off, 100 rules that look at arguments"; text["ring"] = "ring"
        text["ring-others"] = "ring, 100 rules of another function"; text["ring-ranks"] = "ring, 100 rules of other ranks"
        text["ring-arguments"] = "ring, 100 rules that look at arguments"
        printf "%-42s %9s %9s\n", "", "least", "median"
        for (n = 1; n <= names; n++) {
            sorted(name[n], list)
            printf "%-42s %9.1f %9.1f\n", text[name[n]], list[1], list[int((rounds + 1) / 2)]
        }
        print ""
        for (n = 1; n <= names; n++) {
            base = name[n] ~ /^ring-/ ? "ring" : name[n] ~ /^off-(others|allowed)$/ ? "off" : ""
            if (base == "") continue
            met = 0
            for (i = 1; i <= rounds; i++) { value[i, "over"] = value[i, name[n]] - value[i, base]; met += value[i, "over"] <= 10 }
            sorted(base, list); of_base = list[1]; sorted(name[n], list); of_this = list[1]
            sorted("over", list)
            printf "%-42s %+.1f to %+.1f over %s, median %+.1f, least to least %+.1f: at most 10 in %d of %d\n",
                   text[name[n]], list[1], list[rounds], base, list[int((rounds + 1) / 2)], of_this - of_base, met, rounds
        }
    }' "$work/figures"
