#!/bin/sh
# Builds the applications of the test web again from source/ and compares the result with web/ and licenses/. With
# "--update" it replaces these. It needs npm (tools/soak/install.sh installs it) and the npm registry.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
venv="${ORBWEAVER_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/orbweaver-venv}"
PATH="$PATH:$venv/bin"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -R "$here/source/." "$work"
cd "$work"
npm install --loglevel error --no-audit --no-fund --ignore-scripts
for app in react vue svelte; do
	APP=$app OUT="$work/web/$app" LICENSES="$work/licenses" npx --no vite build --logLevel warn
done
cp -R cdn web/cdn
if [ "${1:-}" = --update ]; then
	rm -rf "$here/web" "$here/licenses"
	cp -R web licenses "$here"
	exit
fi
diff -r web "$here/web"
diff -r licenses "$here/licenses"
echo "the built files are those of the sources"
