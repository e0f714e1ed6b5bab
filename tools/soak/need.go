package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A need is something of the machine, without which tests fail in the soak.
type need struct {
	name, why, install string
	there              func(env []string) bool
}

const installer = "sh tools/soak/install.sh"

// needs lists what the tests of the soak need beyond Go.
var needs = []need{
	program("gcc", "the race detector", "apt-get install gcc libc6-dev"),
	program("zsh", "completion", installer),
	program("fish", "completion", installer),
	program("script", "completion", installer),
	program("mandoc", "manual pages", installer),
	program("groff", "manual pages", installer),
	program("tmux", "the screen of a crawl", installer),
	program("systemd-sysusers", "packages", installer),
	program("dpkg-deb", "packages", "Debian 12"),
	program("chromium", "the console and replayed pages", installer),
	program("prometheus", "metrics and alerts", installer),
	program("promtool", "metrics and alerts", installer),
	program("java", "the Java client of URL Frontier", installer),
	program("ip", "network namespaces", "apt-get install iproute2"),
	file(venvVariable, "bin/warcio", "archives", installer),
	file(venvVariable, "bin/wayback", "archives (pywb)", installer),
	file(venvVariable, "lib/python3.11/site-packages/pandas", "programs of the documents", installer),
	file(venvVariable, "lib/python3.11/site-packages/duckdb", "queries of the documents", installer),
	file(venvVariable, "bin/moto_server", "object stores (moto)", installer),
	file(venvVariable, "bin/wacz", "WACZ files", installer),
	file(venvVariable, "lib/python3.11/site-packages/pyspark", "tables (Spark)", installer),
	file(venvVariable, "lib/python3.11/site-packages/pyiceberg", "tables (Iceberg)", installer),
	file(venvVariable, "lib/python3.11/site-packages/cc_pyspark", "jobs of Common Crawl", installer),
	file(judgesVariable, "jwarc-0.36.0.jar", "archives (jwarc)", installer),
	file(judgesVariable, "replaywebpage-2.5.3.tgz", "WACZ files in a browser", installer),
	file(urlFrontierVariable, "urlfrontier-API-2.4.jar", "the Java client of URL Frontier", installer),
	{name: "namespaces", why: "tests of networks", install: "run as root, or allow user namespaces",
		there: func([]string) bool { return exec.Command("unshare", "-rn", "true").Run() == nil }},
	{name: "/usr/share/doc/python3.11", why: "a real web", install: "sh internal/testweb/docs.sh",
		there: func([]string) bool {
			_, err := os.Stat("/usr/share/doc/python3.11/html/index.html")
			return err == nil
		}},
}

func program(name, why, install string) need {
	return need{name, why, install, func([]string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	}}
}

// file is a file in the folder that a variable names.
func file(variable, name, why, install string) need {
	return need{filepath.Base(name), why, install, func(env []string) bool {
		dir := ""
		for _, v := range env {
			if rest, ok := strings.CutPrefix(v, variable+"="); ok {
				dir = rest
			}
		}
		_, err := os.Stat(filepath.Join(dir, name))
		return dir != "" && err == nil
	}}
}

// lacks returns a line for each need that the machine does not meet.
func lacks(env []string) (lines []string) {
	for _, n := range needs {
		if !n.there(env) {
			lines = append(lines, fmt.Sprintf("missing: %s, for %s; its tests will fail. Install it: %s", n.name, n.why,
				n.install))
		}
	}
	return lines
}
