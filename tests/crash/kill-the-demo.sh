#!/usr/bin/env bash
# The demo's first rollout, killed (SIGKILL) at KILLS random instants and started again each time, ends in the same
# state as the same rollout left alone: same outcome, every node on its target, nothing cordoned, no second drain, no
# broken invariant. Needs `drydock` in PATH.
#
#   KILLS=200 SEED=1 tests/crash/kill-the-demo.sh
set -euo pipefail
kills=${KILLS:-200}
RANDOM=${SEED:-1}
root=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; rm -rf "$root"' EXIT

play() { # DIR SPEED OUT
  exec drydock demo --once good --dir "$1" --speed "$2" --listen 127.0.0.1:0 --format json >"$3" 2>"$3.err"
}

# What has to be equal, one fact a line. Instants differ: a process that is dead doesn't wake at the same moments.
facts() {
  python3 - "$1" <<'P'
import json, sys
s = json.load(open(sys.argv[1]))
drains = s["drains"]
drains = drains if isinstance(drains, int) else max(drains.values(), default=0)
count = lambda v: v if isinstance(v, int) else len(v)
print("outcome", sorted(s["outcome"].items()))
for key in ("nodes_total", "nodes_on_target", "nodes_on_previous", "nodes_quarantined", "nodes_cordoned_by_drydock_at_end"):
    print(key, s[key])
print("drains per node at most", drains)
for key in ("budget_violations", "invariant_violations"):
    print(key, count(s[key]))
P
}

(play "$root/calm" 100000 "$root/calm.json")
facts "$root/calm.json" >"$root/calm.facts"

# The rollout takes some nine virtual hours; at this speed it outlasts the kills on a slow machine as well.
n=0 finished=0
while [ "$n" -lt "$kills" ]; do
  (play "$root/storm" "${SPEED:-600}" "$root/storm.json") &
  pid=$!
  # Anywhere from before the ledger is open to a good way into the run.
  sleep "0.$(printf '%03d' $((RANDOM % 400 + 20)))"
  if kill -9 "$pid" 2>/dev/null; then n=$((n + 1)); else finished=1; fi
  wait "$pid" 2>/dev/null || true
  pid=
  [ "$finished" = 0 ] || break
done
[ "$n" = "$kills" ] || { echo "the rollout ended after $n of $kills kills: lower SPEED" >&2; exit 1; }

(play "$root/storm" 100000 "$root/storm.json")
facts "$root/storm.json" >"$root/storm.facts"
diff "$root/calm.facts" "$root/storm.facts" || { echo "killed $n times, it ended otherwise than left alone" >&2; exit 1; }
grep -q '^nodes_cordoned_by_drydock_at_end 0$' "$root/storm.facts"
grep -q '^drains per node at most 1$' "$root/storm.facts"
grep -q '^invariant_violations 0$' "$root/storm.facts"
echo "killed $n times (seed ${SEED:-1}): same final state"
sed 's/^/  /' "$root/storm.facts"
