#!/usr/bin/env bash
# The walk-through of the README on a temporary folder: each command is shown,
# then run. Nothing outside the folder is touched, and it is removed at the end.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../.." && pwd)

tmp=$(mktemp -d "${TMPDIR:-/tmp}/tarn-demo.XXXXXX")
real_home="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

finish() {
  local rc=$?
  cd /
  if grep -qF " $tmp/mnt/towns " /proc/self/mountinfo; then
    "$tree/bin/tarn" umount --quiet "$tmp/mnt/towns" || echo "still mounted: $tmp/mnt/towns" >&2
  fi
  # Never below a mount that would not end.
  grep -qF " $tmp/" /proc/self/mountinfo || rm -rf "$tmp"
  exit "$rc"
}
trap finish EXIT

# A home of its own: state, sockets and configuration of this user stay as they are.
mkdir -p "$tmp/home" "$tmp/data" "$tmp/mnt/towns" "$tmp/run" "$tmp/bin"
chmod 700 "$tmp/run"
ln -s "$tree/bin/tarn" "$tmp/bin/tarn"
ln -s "$tree/.venv/bin/duckdb" "$tmp/bin/duckdb"
ln -s "$real_home/.duckdb" "$tmp/home/.duckdb" # DuckDB's extensions, loaded from there
export HOME="$tmp/home" PATH="$tmp/bin:$PATH"
export XDG_STATE_HOME="$tmp/home/state" XDG_CACHE_HOME="$tmp/home/cache" XDG_CONFIG_HOME="$tmp/home/config" XDG_RUNTIME_DIR="$tmp/run"
unset TARN_REPO TARN_AUTHOR TARN_LOG_LEVEL TARN_LOG_FORMAT

printf 'id,name,pop\n1,Ely,20112\n2,Wells,12000\n3,Ripon,16702\n' > "$HOME/towns.csv"
{
  echo 'id,name,pop'
  for i in $(seq 4 18); do echo "$i,Town $i,$((i * 1000))"; done
  echo '19,Nowhere,n/a'
} > "$HOME/more.csv"

# show prints a command as it would be typed, runs it, and goes on: one of them fails on purpose.
show() {
  printf '\n$ %s\n' "$*"
  eval "$*" 2>&1 || status=$?
}
must() {
  status=0
  show "$@"
  [ "$status" = 0 ] || { echo "that failed with exit code $status" >&2; exit 1; }
}

cd "$tmp"
echo "in $tmp:"
must "tarn init data/towns.lake"
must "tarn mount data/towns.lake mnt/towns"
must "cd mnt/towns/work/main"
must "cp ~/towns.csv tables/ && cat status"
must "touch .commit .push && cat status"
must "ls ../../branches/main/tables/main/towns"
must "duckdb -init $tmp/mnt/towns/branches/main/attach.sql -c 'SELECT count(*) FROM towns'"

printf '\n# more.csv holds "n/a" where a number belongs: the commit refuses it and changes nothing\n'
status=0
show "cp ~/more.csv tables/main/towns/ && touch .commit"
[ "$status" != 0 ] || { echo "the commit was not refused" >&2; exit 1; }
must "cat FAILED.txt"

printf '\n# mended, it goes through\n'
must "sed -i s,n/a,19000, tables/main/towns/more.csv && touch .commit .push && cat status"
must "tarn log"
must "cd $tmp"
must "tarn umount mnt/towns"
