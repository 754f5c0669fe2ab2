#!/usr/bin/env bash
# Installs what the tests and the demo need beside Go, Python 3 and a C
# compiler: Debian packages (as root; else it prints the one line to run), a
# Python environment with pinned clients, and the object stores that tests talk
# to. Quick when everything is there. With the argument "compiler" it sees only
# to what a build needs; with "clients", also to what the demo needs.
#
# Environment and stores are kept outside the tree, so that every clone shares
# them; .venv is a link to the environment.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../.." && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "setup: $*"; exit 1; }

export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"

# --- Debian packages -------------------------------------------------------

command -v go >/dev/null || die "Go 1.26 is needed: https://go.dev/dl"

missing=()
need() { # need PACKAGE COMMAND...: the package is missing when the command fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
links_cplusplus() { # DuckDB's library is C++: the linker must find libstdc++
  local out
  out=$(mktemp)
  echo 'int main(void) { return 0; }' | cc -x c - -lstdc++ -o "$out"
  local rc=$?
  rm -f "$out"
  return $rc
}
need gcc command -v cc
need g++ links_cplusplus
if [ "${1:-all}" != compiler ]; then
  need fuse3 command -v fusermount3
  need rsync command -v rsync
  need attr command -v getfattr
  need sqlite3 command -v sqlite3
  need python3 command -v python3
  need python3-venv python3 -c 'import ensurepip, venv'
fi

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    die "missing: ${missing[*]} (names of Debian packages); install them and run this again"
  fi
  if [ "$(id -u)" != 0 ]; then
    say "setup: some Debian packages are missing. Run this, then try again:"
    say ""
    say "  sudo apt-get install -y ${missing[*]}"
    exit 1
  fi
  say "setup: apt-get install ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

[ "${1:-all}" != compiler ] || exit 0

# A container may lack the device node although its kernel has FUSE.
if [ ! -e /dev/fuse ] && [ "$(id -u)" = 0 ]; then
  modprobe fuse 2>/dev/null || true
  [ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 2>/dev/null || true
fi
[ -r /dev/fuse ] && [ -w /dev/fuse ] ||
  say "setup: /dev/fuse cannot be opened: tests that mount will be skipped (in a container: --device /dev/fuse --cap-add SYS_ADMIN)"

# --- Python environment ----------------------------------------------------

requirements="$here/requirements.txt"
stamp=$(sha256sum "$requirements" | cut -c1-12)
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tarn-dev"
venv="$cache/venv-$stamp"
mkdir -p "$cache"

exec 9>"$cache/lock"
flock 9 # two clones may set up at once

# An environment is used only when it was completed: pip may have been stopped.
if [ ! -e "$venv/complete" ] || ! "$venv/bin/python" -c 'import duckdb' 2>/dev/null; then
  say "setup: making the Python environment $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
  touch "$venv/complete"
fi
"$venv/bin/python" "$here/extensions.py" >&2

if [ "$(readlink "$tree/.venv" 2>/dev/null || true)" != "$venv" ]; then
  [ ! -e "$tree/.venv" ] || [ -L "$tree/.venv" ] || die "$tree/.venv is not a link: move it away"
  ln -sfn "$venv" "$tree/.venv"
fi

[ "${1:-all}" != clients ] || exit 0

# --- Object stores ---------------------------------------------------------

# What is there in the right version is left alone. The two kinds go side by
# side: one compiles, the other loads.
servers="$cache/servers"
mkdir -p "$servers/bin" "$servers/node"

go_servers() {
  local spec name version
  for spec in github.com/versity/versitygw/cmd/versitygw@v1.8.0 github.com/fsouza/fake-gcs-server@v1.56.1; do
    name=$(basename "${spec%@*}") version=${spec#*@}
    go version -m "$servers/bin/$name" 2>/dev/null | grep -qE "^[[:space:]]mod.*[[:space:]]$version([[:space:]]|$)" && continue
    say "setup: installing $name $version"
    (cd / && GOFLAGS= GOBIN="$servers/bin" nice go install "$spec") >&2 || return 1
  done
}

has_node() { # has_node PACKAGE VERSION COMMAND
  [ -x "$servers/node/node_modules/.bin/$3" ] && grep -q "\"version\": \"$2\"" "$servers/node/node_modules/$1/package.json" 2>/dev/null
}

node_servers() {
  has_node azurite 3.35.0 azurite-blob && has_node s3rver 3.7.1 s3rver && return 0
  if ! command -v npm >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      say "setup: apt-get install npm"
      export DEBIAN_FRONTEND=noninteractive
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends npm; } >&2 || return 1
    else
      say "setup: npm is missing: tests with azurite and s3rver will be skipped (Debian: sudo apt-get install -y npm)"
      return 0
    fi
  fi
  say "setup: installing azurite 3.35.0 and s3rver 3.7.1"
  npm install --prefix "$servers/node" --no-audit --no-fund --loglevel=error azurite@3.35.0 s3rver@3.7.1 >&2
}

node_servers &
node=$!
go_servers || { wait "$node" || true; die "an object store could not be installed"; }
wait "$node" || die "an object store could not be installed"

[ "${1:-all}" = bench ] || exit 0

# --- What benchmarks are compared with -------------------------------------

spec=github.com/rclone/rclone@v1.76.0
if ! go version -m "$servers/bin/rclone" 2>/dev/null | grep -qE "^[[:space:]]mod.*[[:space:]]${spec#*@}([[:space:]]|$)"; then
  say "setup: installing rclone ${spec#*@}"
  (cd / && GOFLAGS= GOBIN="$servers/bin" nice go install "$spec") >&2
fi
