#!/bin/sh
# Installs the Debian documentation packages that DebianDocs serves. If they are installed already, it needs no network.
set -eu
packages="python3.11-doc apache2-doc postgresql-doc-15 sqlite3-doc debian-handbook nodejs-doc python-django-doc python-sqlalchemy-doc"
missing=
for p in $packages; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
# Small images exclude documentation, but these packages contain nothing else.
for f in /etc/dpkg/dpkg.cfg.d/*; do
	if [ -f "$f" ] && grep -q '^path-exclude.*/usr/share/doc' "$f"; then
		$sudo sed -i 's|^path-exclude\(.*/usr/share/doc\)|#&|' "$f"
	fi
done
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
# shellcheck disable=SC2086
$sudo apt-get install -q -y --no-install-recommends $missing
