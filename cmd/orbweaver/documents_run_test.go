package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A step is a command of a document, or a command that the test adds between them.
type step struct {
	command string
	added   bool   // no document has the command
	not     string // why the test does not run it unchanged; empty: it does
	instead string // the command to run instead; empty: none
	code    int    // the exit code
	// A step with beside runs in parallel with the steps that follow, until the next step with last
	// has ended. Then it gets the signal, if there is one, and must end with code.
	beside, last bool
	signal       os.Signal
	// await is a file, empty for the step's output, and a regular expression. The file must match
	// it before the next step begins.
	await [2]string
	dir   string   // a folder below the sandbox, created if missing; empty: the sandbox
	env   []string // instead of the variables that lead to the test web
}

// runningCrawl is a crawl for the commands of ctl. It has a long delay, so that it runs while they
// do.
var runningCrawl = step{
	command: "orbweaver crawl --api 127.0.0.1:0 --delay 10m --contact you@example.org " +
		"https://example.net/ https://www.example.org/",
	added: true, beside: true, signal: os.Interrupt, code: exitSignal,
	await: [2]string{"crawl/logs/crawl.log", "https://www.example.org/robots.txt"},
}

const (
	inRelease   = "the tests of tools/release do it with a release"
	needsDocker = "it needs Docker; the tests of tools/release run the image and compose.yaml without it"
)

// documentSteps has all commands of the documents, in their order.
var documentSteps = map[string][]step{
	"docs/recipes.md": recipeSteps,
	"README.md": {
		{command: "CGO_ENABLED=0 go build -o orbweaver ./cmd/orbweaver", not: "e2e builds the program by it"},
		{command: "go install github.com/orbweaver/orbweaver/cmd/orbweaver@latest", not: inRelease},
		{command: "tar -xzf .build/release/orbweaver-*-linux-amd64.tar.gz", not: inRelease},
		{command: "./orbweaver-*-linux-amd64/orbweaver version", not: inRelease},
		{command: "sudo dpkg -i .build/release/orbweaver_*_amd64.deb", not: inRelease},
		{command: "orbweaver version"},
		{command: "docker load -i .build/release/orbweaver-*-image-amd64.tar", not: needsDocker},
		{command: "docker run --rm -v crawl:/crawl orbweaver crawl --contact you@example.org https://example.org/",
			instead: "orbweaver crawl --dir image --contact you@example.org https://example.org/", not: needsDocker},
		{command: "docker compose -f packaging/compose.yaml run --rm keys", not: needsDocker},
		{command: "docker compose -f packaging/compose.yaml up -d", not: needsDocker},
		{command: "go run ./cmd/orbweaver demo", instead: "orbweaver demo",
			not: "go run works in the source tree only, and the demo would leave its crawl directory there"},
		{command: "./orbweaver crawl --dir first --contact you@example.org https://example.org/"},
		{command: "./orbweaver crawl --resume --dir first"},
		{command: "./orbweaver report first"},
		{command: "./orbweaver crawl --dir a1 --name a1 --listen 127.0.0.1:7470 --agents 2 " +
			"--contact you@example.org https://example.org/ https://example.net/ https://example.com/", beside: true},
		{command: "./orbweaver crawl --dir a2 --name a2 --listen 127.0.0.1:7471 --join 127.0.0.1:7470 --agents 2 " +
			"--contact you@example.org https://example.org/ https://example.net/ https://example.com/", last: true},
		{command: "go test ./...", not: "this test is a part of it"},
	},
	"docs/login.md": {
		{command: "printf 'example.org\\tFALSE\\t/\\tTRUE\\t0\\tsession\\tx\\n' >cookies.txt", added: true},
		{command: "echo machine www.example.org login me password s3cret >netrc", added: true},
		{command: "orbweaver crawl --contact you@example.org --cookie-file cookies.txt --exclude '/logout' " +
			"https://example.org/"},
		{command: "rm -r crawl", added: true},
		{command: "orbweaver crawl --contact you@example.org --auth-file netrc https://www.example.org/"},
		{command: "rm -r crawl", added: true},
		{command: "orbweaver crawl --contact you@example.org --header 'Accept-Language: de' https://example.org/"},
	},
	"docs/start.md": {
		{command: "orbweaver crawl --contact you@example.org https://example.org/"},
		{command: "echo https://example.net/ >sites.txt", added: true},
		{command: "orbweaver crawl --dir sites --contact you@example.org --seeds sites.txt --requisites " +
			"--host-page-limit 10000"},
		{command: "orbweaver crawl --dry-run --dir news --contact you@example.org --scope prefix " +
			"--example example.org/docs/ example.org/news/"},
		{command: "orbweaver crawl --dir pdf --contact you@example.org --keep application/pdf https://example.org/"},
	},
	"docs/watch.md": {
		{command: "orbweaver crawl --stream jsonl --quiet --contact you@example.org https://example.org/ | jq -r .url",
			instead: "orbweaver crawl --stream jsonl --quiet --contact you@example.org https://example.org/ | " +
				"grep '^{\"type\":\"page\",\"url\":\"https://example.org/\"'",
			not: "jq may be missing", dir: "stream"},
		runningCrawl,
		{command: "orbweaver ctl status"},
		{command: "orbweaver ctl explain www.example.org"},
		{command: "orbweaver ctl hosts --by errors"},
		{command: "orbweaver ctl hosts example.org"},
		{command: "orbweaver ctl events --follow", not: "it lasts as long as the crawl",
			instead: "orbweaver ctl events"},
		{command: "orbweaver ctl log --status failed", last: true},
	},
	"docs/reference/api.md": {
		{command: "orbweaver crawl --api 192.0.2.7:7480 --api-cert api.pem --api-key api.key " +
			"--contact you@example.org https://example.org/",
			not: "192.0.2.7 is no address of this machine; package admin listens with TLS"},
		{command: "addr=$(jq -r .addr crawl/state/api.json) token=$(jq -r .token crawl/state/api.json)",
			not: "jq may be missing"},
		{command: "curl -s -H \"Authorization: Bearer $token\" -H \"Content-Type: application/json\" -d '{}' " +
			"http://$addr/orbweaver.operator.v1.Operator/Status",
			not: "curl may be missing; package admin tests such a call"},
	},
	"docs/prometheus.md": {
		{command: "curl -s -H \"Authorization: Bearer $(jq -r .token crawl/state/api.json)\" -o cpu.pprof " +
			"\"http://127.0.0.1:7480/debug/pprof/profile?seconds=30\"",
			not: "curl may be missing; package admin tests such a call"},
		{command: "go tool pprof -top cpu.pprof",
			not: "a program of others; package admin tests that the profile is one"},
	},
	"docs/urlfrontier.md": {
		{command: "orbweaver frontier urls", last: true, signal: os.Interrupt,
			await: [2]string{"", "(?m)^frontier at 127.0.0.1:7071"}},
	},
	"docs/report.md": {
		{command: "orbweaver crawl --contact you@example.org https://example.org/", added: true},
		{command: "orbweaver report crawl"},
		{command: "orbweaver report --section broken,times --top 50 crawl"},
		{command: "for a in a1 a2 a3; do cp -r crawl $a; done", added: true},
		{command: "orbweaver report --out cluster.html a1 a2 a3"},
		{command: "orbweaver crawl --dir site --links --quiet --contact you@example.org https://example.org/"},
		{command: "orbweaver report --fail-on broken --out links.html site"},
	},
	"docs/duplicates.md": {
		{command: "orbweaver crawl --near-duplicates mark --contact you@example.org https://example.org/"},
	},
	"docs/steer.md": {
		runningCrawl,
		{command: "orbweaver ctl pause --why \"the line is needed\""},
		{command: "orbweaver ctl resume"},
		{command: "orbweaver ctl orders"},
		{command: "orbweaver ctl orders --past"},
		{command: "orbweaver ctl rate 40/s --why \"a complaint\""},
		{command: "orbweaver ctl rate 40/s 8-18 mon-fri, else 300/s"},
		{command: "orbweaver ctl rate none"},
		{command: "orbweaver ctl rate example.org 0.5/s --why \"a complaint\""},
		{command: "orbweaver ctl rate example.org 1/s 8-18 mon-fri, else 5/s"},
		{command: "orbweaver ctl delay www.example.org 10s --why \"a complaint\""},
		{command: "orbweaver ctl delay '*.example.org' 10s 8-18 mon-fri, else 2s"},
		{command: "orbweaver ctl delay 5s"},
		{command: "orbweaver crawl --dir gentle --delay auto --delay-max 1m --contact you@example.org " +
			"https://example.org/"},
		{command: "orbweaver ctl block www.example.org"},
		{command: "orbweaver ctl unblock www.example.org"},
		{command: "orbweaver ctl drop www.example.org", last: true},
		{command: "orbweaver crawl --dir wide --contact you@example.org --scope any --host-page-limit 500 " +
			"--host-depth 5 --seed-roots https://example.org/"},
		{command: "orbweaver check scope --config crawl/crawl.yaml https://www.example.org/archive/"},
	},
	"docs/queue.md": {
		runningCrawl,
		{command: "echo https://example.com/ >more.txt", added: true},
		{command: "orbweaver ctl seed https://blog.example.org/ --why \"a request of the library\""},
		{command: "orbweaver ctl seed --file more.txt"},
		{command: "orbweaver ctl queue"},
		{command: "orbweaver ctl queue www.example.org"},
		{command: "orbweaver ctl queue '\\.pdf$' --limit 10"},
		{command: "orbweaver ctl queue --export queue.txt"},
		{command: "orbweaver ctl exclude '/calendar/' --preview"},
		{command: "orbweaver ctl exclude '/calendar/' --why \"a trap\""},
		{command: "orbweaver ctl scope"},
		{command: "orbweaver ctl scope --depth 3 --why \"the site is larger than we thought\""},
		{command: "orbweaver ctl scope --domain example.net --host www.example.com", last: true},
		{command: "echo '*.example.net' >blacklist.txt", added: true},
		{command: "orbweaver crawl --dir careful --blacklist blacklist.txt --contact you@example.org " +
			"https://example.org/"},
	},
	"docs/applications.md": {
		runningCrawl,
		{command: "echo https://example.com/ >more.txt", added: true},
		{command: "orbweaver ctl app news --share 3 --depth 2 https://www.example.org/"},
		{command: "orbweaver ctl app shop --strategy list --pages"},
		{command: "orbweaver ctl app news https://blog.example.org/"},
		{command: "orbweaver ctl app news --file more.txt"},
		{command: "orbweaver ctl apps"},
		{command: "python3 examples/python/collect.py --app shop --out shop urls.txt",
			not: "it runs until it is stopped; TestApplications of e2e does it"},
		{command: "go run ./examples/go/collect --app shop --out shop urls.txt",
			not: "it runs until it is stopped; TestApplications of e2e does it"},
		{command: "orbweaver ctl app shop --remove", last: true},
	},
	// What the page says of full disks, lost agents and clocks is tested by TestDiskFull of e2e and of package node,
	// TestClusterBlock and TestSitesLost of e2e, and TestClocksApart and TestClockIsSet of package sim.
	"docs/operate/incidents.md": {
		runningCrawl,
		{command: "orbweaver ctl status"},
		{command: "orbweaver ctl status --json"},
		{command: "orbweaver ctl explain www.example.org"},
		{command: "orbweaver ctl explain https://www.example.org/"},
		{command: "orbweaver ctl status"},
		{command: "orbweaver ctl orders"},
		{command: "orbweaver ctl block '*.example.org' --why \"a complaint\""},
		{command: "grep -F .example.org/ crawl/logs/crawl.log"},
		{command: "orbweaver ctl delay '*.example.org' 1m --why \"agreed with the operator\""},
		{command: "orbweaver ctl unblock '*.example.org'"},
		{command: "df -h crawl"},
		{command: "du -sh crawl/archive crawl/state crawl/logs"},
		{command: "orbweaver ctl checkpoint"},
		{command: "orbweaver ctl status"},
		{command: "orbweaver ctl status --json | grep -E '\"(agent|at)\":'", last: true},
	},
	"docs/stop-and-resume.md": {
		{command: "orbweaver crawl --delay 10s --time-limit 500ms --contact you@example.org https://example.org/",
			added: true, code: exitTimeLimit},
		{command: "orbweaver crawl --resume"},
	},
	"docs/strategies.md": {
		{command: "orbweaver crawl --strategy focused --topic science --topic health --scope any --page-limit 10000 " +
			"--contact you@example.org https://example.org/"},
		{command: "mkdir -p a1/reports a2/reports && printf 'url,visits,share,links\\nhttp://a.example/,2,1,3\\n' | " +
			"tee a1/reports/walk.csv >a2/reports/walk.csv", added: true},
		{command: "awk -F, 'FNR > 1 {n = $(NF-2); sub(/,[^,]*,[^,]*,[^,]*$/, \"\"); visits[$0] += n}" +
			" END {for (u in visits) print u \",\" visits[u]}' a*/reports/walk.csv | sort"},
	},
	"docs/links.md": {
		{command: "orbweaver crawl --contact you@example.org --links https://example.org/"},
		{command: "orbweaver links crawl"},
		{command: "orbweaver links crawl --to https://example.org/"},
		{command: "orbweaver links crawl --from https://example.org/ --json"},
		{command: "orbweaver links --broken crawl"},
	},
	"docs/archive.md": {
		{command: "orbweaver crawl --contact you@example.org https://example.org/", added: true},
		{command: "orbweaver warc verify crawl"},
		{command: "orbweaver warc ls crawl"},
		{command: "orbweaver warc extract --url https://example.org/ --payload crawl"},
		{command: "orbweaver replay crawl", last: true, signal: os.Interrupt,
			await: [2]string{"", "(?m)^  http://127.0.0.1:"}},
		{command: "orbweaver export --mirror out crawl"},
		{command: "wayback -b 127.0.0.1 -p 8080", not: "e2e replays a crawl with it"},
	},
	"docs/testweb.md": {
		{command: "orbweaver testweb --generate --wild --hosts 100 --pages-mean 10 --traps 0 --crawl-delay 100ms " +
			"--promise-delay 50ms --promise-crawl-delay --ca-out ca.pem --seeds-out seeds.txt --config-out web.yaml",
			beside: true, signal: os.Interrupt, await: [2]string{"", "(?m)^orbweaver crawl --config web.yaml$"}},
		{command: "orbweaver crawl --config web.yaml --delay 50ms --timeout 2s --retry-wait 1s --slow-down 1s " +
			"--dir try", last: true, env: []string{"ORBWEAVER_PAGE_LIMIT=20"}, code: exitPageLimit},
		{command: "orbweaver testweb --generate --hosts 20 --pages-mean 5 --promise-delay 1s --agent wget " +
			"--seeds-out seeds.txt -- wget2 -r -H --wait 1 --directory-prefix pages --input-file seeds.txt",
			not: "the machine may lack wget2; the script testweb-command runs other commands"},
		{command: "orbweaver testweb --demo --http-port 7480 --control 127.0.0.1:7481 --ca-out ca.pem",
			not: "the port may be in use; TestProxy of package testweb uses the web as a proxy"},
		{command: "curl --proxy http://127.0.0.1:7480 --cacert ca.pem https://www.aldermouth.example/",
			not: "the machine may lack curl"},
		{command: "curl http://127.0.0.1:7481/.testweb/count", not: "TestControl of package testweb asks the same"},
		{command: "curl --request POST 'http://127.0.0.1:7481/.testweb/reset?delay=500ms'",
			not: "TestControl of package testweb asks the same"},
		{command: "orbweaver testweb --topical texts.jsonl --topical-only split=test --topical-pages 20000 " +
			"--topics-out topics.tsv", not: "it serves until it is stopped; the script focused does it with texts"},
	},
	"docs/plan.md": {
		{command: "orbweaver plan --pages 30e9 --bandwidth 10Gbit --page-size 22KB --agents 31"},
		{command: "orbweaver plan --pages 30e9 --bandwidth 10Gbit --page-size 22KB"},
		{command: "orbweaver plan --pages 1e9 --agents 8 --machine-price 0.40 --disk-price 20 --traffic-price 0.01"},
		{command: `for a in alone two/a1 two/a2 four/a1 four/a2 four/a3 four/a4 two-long/a1 two-long/a2 ` +
			`four-long/a1 four-long/a2 four-long/a3 four-long/a4; do case $a in alone) x='1000,"elapsed_s":1';; ` +
			`two/*) x='500,"elapsed_s":0.51,"exchange":{"agents":2}';; ` +
			`four/*) x='250,"elapsed_s":0.26,"exchange":{"agents":4}';; ` +
			`two-*) x='5000,"elapsed_s":5.15,"exchange":{"agents":2}';; ` +
			`*) x='2500,"elapsed_s":2.62,"exchange":{"agents":4}';; esac; ` +
			`mkdir -p $a/reports && echo '{"type":"summary","bytes":22300000,"pages":'"$x}" ` +
			`>$a/reports/summary.json; done`, added: true},
		{command: "orbweaver plan --pages 1e9 --fit alone,two,four,two-long,four-long --agents 8"},
	},
	"docs/classify.md": {
		{command: `for i in 1 2 3 4; do for s in train test; do for w in SCIENCE:moon HOME:bread; do ` +
			`printf '{"category":"%s","split":"%s","text":"' ${w%:*} $s; ` +
			`yes "${w#*:} and" | head -30 | tr '\n' ' '; echo '"}'; done; done; done >texts.jsonl; ` +
			`yes moon and | head -30 >page.html`, added: true},
		{command: "orbweaver classify page page.html"},
		{command: "orbweaver classify page --content-type text/html page.html"},
		{command: "orbweaver classify page --model languages page.html"},
		{command: "orbweaver classify train --only split=train --out my.model texts.jsonl"},
		{command: "orbweaver classify test --model my.model --only split=test texts.jsonl"},
	},
	"docs/graph.md": {
		{command: "orbweaver crawl --contact you@example.org --links https://example.org/"},
		{command: "orbweaver graph build --out pages.graph crawl"},
		{command: "orbweaver graph stats pages.graph"},
		{command: "orbweaver graph build --out archived.graph crawl/archive"},
		{command: "orbweaver graph build --out hosts.graph --hosts crawl"},
		{command: "orbweaver graph export --vertices vertices.txt.gz --edges edges.txt.gz hosts.graph"},
		{command: "orbweaver graph build --out again.graph --hosts --vertices vertices.txt.gz --edges edges.txt.gz"},
		{command: "orbweaver graph pagerank --out ranks.tsv pages.graph"},
		{command: "orbweaver graph build --out visited.graph --visited crawl", added: true},
		{command: "orbweaver graph pagerank --out part.tsv visited.graph", added: true},
		{command: "orbweaver graph tau ranks.tsv part.tsv"},
		{command: "awk 'BEGIN { srand(1); for (i = 0; i < 102e6; i++) printf \"%d\\t%d\\n\", 1e7 * rand(), " +
			"1e7 * rand() * rand() }' >edges.txt", not: "it takes minutes"},
		{command: "orbweaver graph build --edges edges.txt --out random.graph", not: "it takes minutes"},
		{command: "/usr/bin/time -v orbweaver graph pagerank random.graph", not: "it takes minutes"},
	},
	"docs/reference/retries.md": {
		{command: "orbweaver testweb --generate --hosts 1 --pages-mean 20000 --page-bytes 5KB --without-robots 1 " +
			"--dripping 300 --config-out web.yaml --seeds-out seeds.txt", dir: "slow",
			beside: true, signal: os.Interrupt, await: [2]string{"", "(?m)^orbweaver crawl --config web.yaml"}},
		{command: "orbweaver crawl --config web.yaml --seeds seeds.txt --delay 20ms --time-limit 60s", dir: "slow",
			last: true, env: []string{}, await: [2]string{"slow/crawl/logs/crawl.log", " 200 +\\d+ \\S+ L "},
			signal: os.Kill, code: -1}, // the stop would wait for the slow hosts
	},
	"docs/cluster.md": {
		{command: "orbweaver cluster keys --out keys --agents a1,a2,a3"},
		{command: "scp -r keys/a1 first.example.org:keys", not: "copies to another machine; the test copies to first"},
		{command: "scp -r keys/a2 second.example.org:keys",
			not: "copies to another machine; the test copies to second"},
		{command: "scp -r keys/a3 third.example.org:keys", not: "copies to another machine; the test copies to third"},
		{command: "for m in first:a1 second:a2 third:a3; do mkdir -p ${m%:*} && cp -r keys/${m#*:} ${m%:*}/keys && " +
			"printf 'https://%s/\\n' example.org example.net example.com >${m%:*}/seeds.txt; done", added: true},
		{command: "orbweaver crawl --name a1 --listen 192.0.2.1:7470 --keys keys --agents 3 " +
			"--dir crawl --contact ops@example.org --scope domain --seeds seeds.txt", dir: "first", beside: true},
		{command: "orbweaver crawl --name a2 --listen 192.0.2.2:7470 --keys keys --agents 3 --join 192.0.2.1:7470 " +
			"--dir crawl --contact ops@example.org --scope domain --seeds seeds.txt", dir: "second", beside: true},
		{command: "orbweaver crawl --name a3 --listen 192.0.2.3:7470 --keys keys --agents 3 " +
			"--join 192.0.2.1:7470,192.0.2.2:7470 --dir crawl --contact ops@example.org " +
			"--scope domain --seeds seeds.txt",
			dir: "third", last: true},
		{command: "orbweaver cluster keys --out sites --agents b1,b2 --coordinators c1,c2,c3"},
		{command: "orbweaver coordinator --keys sites/c1 --listen 192.0.2.1:7490 " + threeCoordinators,
			instead: "orbweaver coordinator --dry-run --keys sites/c1 --listen 192.0.2.1:7490 " + threeCoordinators,
			not:     "the script sites.txtar runs three of them"},
		{command: "orbweaver crawl --partition sites " + threeCoordinators + " --name b1 --listen 192.0.2.11:7470 " +
			"--join 192.0.2.11:7470 --keys sites/b1 --agents 2 --dir crawl --contact ops@example.org --seeds seeds.txt",
			not: "the script sites.txtar runs two of them"},
		{command: "orbweaver cluster status --keys sites/b1 " + threeCoordinators,
			not: "the script sites.txtar asks three coordinators"},
		{command: "orbweaver cluster forget b2 --keys sites/c1 " + threeCoordinators,
			not: "TestCoordinatorForgets of package node does"},
	},
}

const threeCoordinators = "--coordinator 192.0.2.1:7490,192.0.2.2:7490,192.0.2.3:7490"

// The test runs every command of the documents unchanged, or names a reason not to.
func TestDocumentCommands(t *testing.T) {
	steps := documentSteps
	for _, d := range readDocuments(t) {
		var want []string
		for _, s := range steps[d.name] {
			if !s.added {
				want = append(want, s.command)
			}
		}
		var got []string
		for _, b := range d.blocks {
			if b.kind == "sh" {
				got = append(got, b.commands()...)
			}
		}
		if !slices.Equal(got, want) {
			for _, c := range got {
				if !slices.Contains(want, c) {
					t.Errorf("%s: the test does not know this command:\n%s", d.name, c)
				}
			}
			for _, c := range want {
				if !slices.Contains(got, c) {
					t.Errorf("%s: this command of the test is not in the document:\n%s", d.name, c)
				}
			}
			t.Errorf("%s: the commands of the test are not those of the document, in their order", d.name)
		}
		if len(want) > 0 && !t.Failed() {
			t.Run(filepath.Base(d.name), func(t *testing.T) {
				t.Parallel()
				runSteps(t, steps[d.name])
			})
		}
	}
}

// exampleHosts are the hosts of the documents, which the test web serves.
var exampleHosts = []string{"example.org", "www.example.org", "example.net", "example.com"}

// exampleWeb serves the example hosts. It returns the variables that lead a crawl to them.
func exampleWeb(t *testing.T) []string {
	t.Helper()
	site := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<a href="1.html">1</a> <a href="paper.pdf">2</a>`, "1.html": "one", "paper.pdf": "%PDF-1.4",
	} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var folders []testweb.Folder
	for _, h := range exampleHosts {
		folders = append(folders, testweb.Folder{Host: h, Dir: site})
	}
	web, err := testweb.New(testweb.Config{Folders: folders})
	if err != nil {
		t.Fatal(err)
	}
	stop := web.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("testweb: %v", err)
		}
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, web.CAPEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{
		envName("dns") + "=" + web.DNSAddr(), envName("connect-to") + "=" + strings.Join(web.ConnectTo(), ","),
		envName("ca") + "=" + ca, envName("allow-private") + "=true", envName("delay") + "=0s",
	}
}

// agentAddr is the address at which the documents' agents listen.
var agentAddr = regexp.MustCompile(`(127\.0\.0|192\.0\.2)\.(\d+):74\d\d\b`)

// documentsRun counts the calls of runSteps.
var documentsRun atomic.Int32

// runSteps runs the commands of one document in a directory of their own, with the program as
// ./orbweaver.
func runSteps(t *testing.T, steps []step) {
	program, err := exec.LookPath("orbweaver")
	if err != nil {
		t.Fatal(err)
	}
	sandbox := t.TempDir()
	if err := os.Symlink(program, filepath.Join(sandbox, "orbweaver")); err != nil {
		t.Fatal(err)
	}
	toWeb := exampleWeb(t)
	// Agents of other tests may listen at the same port. On Linux all of 127/8 is this machine, so
	// each document of each test process has its own subnet.
	subnet := "127.0.0"
	if runtime.GOOS == "linux" {
		n := 8*os.Getpid() + int(documentsRun.Add(1))
		subnet = fmt.Sprintf("127.%d.%d", 128+n/256%100, n%256)
	}
	var beside []*started
	for i, s := range steps {
		if s.instead != "" && s.not == "" {
			t.Errorf("%s: no reason says why another command is run in its place", s.command)
		}
		if s.not != "" && s.instead == "" {
			if args, ok := strings.CutPrefix(s.command, "orbweaver "); ok {
				if err := parseLine(t, strings.Fields(args), false); err != nil {
					t.Errorf("%s: %v", s.command, err)
				}
			}
			continue
		}
		command := agentAddr.ReplaceAllStringFunc(cmp.Or(s.instead, s.command), func(addr string) string {
			return subnet + addr[strings.LastIndexByte(addr, '.'):]
		})
		if !strings.HasPrefix(command, "for ") {
			command = "exec " + command // signals reach the program itself
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = filepath.Join(sandbox, s.dir)
		if err := os.MkdirAll(cmd.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		env := s.env
		if env == nil {
			env = toWeb
		}
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + sandbox, "GORACE=atexit_sleep_ms=0"}, env...)
		p := startStep(t, cmd, filepath.Join(sandbox, fmt.Sprintf("%d.out", i)), s)
		beside = append(beside, p)
		if file, re := s.await[0], s.await[1]; re != "" {
			if file = filepath.Join(sandbox, file); file == sandbox {
				file = p.out
			}
			p.await(t, file, regexp.MustCompile(re))
		}
		if s.beside {
			continue
		}
		if s.last || len(beside) == 1 {
			slices.Reverse(beside) // the last one ends first
			for _, p := range beside {
				p.end(t)
			}
			beside = nil
		} else {
			p.end(t)
			beside = beside[:len(beside)-1]
		}
	}
	for _, p := range beside {
		t.Errorf("no last step ends %s", p.step.command)
	}
}

// A started is a command that runs.
type started struct {
	step  step
	cmd   *exec.Cmd
	out   string // the file with its output
	ended chan error
}

func startStep(t *testing.T, cmd *exec.Cmd, out string, s step) *started {
	t.Helper()
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", s.command, err)
	}
	p := &started{s, cmd, out, make(chan error, 1)}
	go func() { p.ended <- cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill() // if the test failed before the command's end
		<-p.ended
	})
	return p
}

// patience bounds the time of a command on a busy machine.
const patience = 2 * time.Minute

// await waits until the file matches.
func (p *started) await(t *testing.T, file string, re *regexp.Regexp) {
	t.Helper()
	var b []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if b, _ = os.ReadFile(file); re.Match(b) {
			return
		}
	}
	t.Fatalf("%s: %s never matched %s:\n%s\n%s", p.step.command, file, re, b, p.said())
}

func (p *started) said() string {
	b, err := os.ReadFile(p.out)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// end waits for the end of the command, and compares its exit code.
func (p *started) end(t *testing.T) {
	t.Helper()
	if p.step.signal != nil {
		if err := p.cmd.Process.Signal(p.step.signal); err != nil {
			t.Errorf("%s: %v", p.step.command, err)
		}
	}
	select {
	case err := <-p.ended:
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("%s: %v", p.step.command, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: it does not end\n%s", p.step.command, p.said())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != p.step.code {
		t.Fatalf("%s: exit code %d, want %d\n%s", p.step.command, code, p.step.code, p.said())
	}
}
