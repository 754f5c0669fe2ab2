#!/usr/bin/env bash
# Builds the library that package slatekv links, into lib/libslatedb_c.a, and
# prints its hash; a new one is tested. The result is kept outside the tree by
# the hash of all that goes into it, so that a clean clone of the same sources
# compiles nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
crate="$here/slatedb-c"
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tarn-dev/slatedb"

say() { printf '%s\n' "$*" >&2; }

if ! command -v cargo >/dev/null; then
  say "make slatedb: Rust is needed (cargo 1.85 or newer). Debian's is too old in some releases; install it with:"
  say ""
  say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
  exit 1
fi

mkdir -p "$cache/built" "$here/lib"
exec 9>"$cache/lock"
flock 9 # two clones may build at once, into one target folder

sources() { (cd "$crate" && { rustc --version; uname -m; sha256sum Cargo.toml Cargo.lock src/*.rs; } | sha256sum | cut -c1-16); }
sources=$(sources)
built="$cache/built/$sources.a"
if [ ! -e "$built" ]; then
  say "make slatedb: compiling SlateDB (some minutes the first time)"
  CARGO_TARGET_DIR="$cache/target" nice -n 5 cargo build --release --locked --manifest-path "$crate/Cargo.toml" >&2
  CARGO_TARGET_DIR="$cache/target" nice -n 5 cargo test --release --jobs 2 --locked --manifest-path "$crate/Cargo.toml" >&2
  cp "$cache/target/release/libslatedb_c.a" "$built.new"
  strip --strip-debug "$built.new"
  if [ "$(sources)" != "$sources" ]; then
    say "make slatedb: the sources changed while they were compiled; run it again"
    exit 1
  fi
  mv "$built.new" "$built"
  # Keep the last few: other clones may be at other states of the sources.
  ls -t "$cache"/built/*.a | tail -n +4 | xargs -r rm -f
fi
touch "$built"

hash=$(sha256sum "$built" | cut -c1-16)
if [ ! -e "$here/lib/libslatedb_c.a" ] || ! cmp -s "$built" "$here/lib/libslatedb_c.a"; then
  cp "$built" "$here/lib/libslatedb_c.a.new"
  mv "$here/lib/libslatedb_c.a.new" "$here/lib/libslatedb_c.a"
fi
echo "$hash"
