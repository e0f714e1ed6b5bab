package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// exampleSite has the files of the web of the examples. Its pages have a body each, copy.html the one of 1.html.
var exampleSite = map[string]string{
	"index.html": `<html><title>Orb weavers</title><h1>Spiders</h1> <p>Spiders weave webs; webs catch flies.</p>
<a href=1.html>one</a> <a href=copy.html>copy</a> <a href=missing.html>missing</a> <a href=sub>moved</a>
<a href=empty.html>empty</a> <a href=notes.txt>notes</a> <a href=paper.pdf>paper</a> <a href=2.html>two</a></html>`,
	"1.html":    `<title>One</title><p>one spider</p> <a href=2.html>two</a> <a href=missing.html>missing</a>`,
	"copy.html": `<title>One</title><p>one spider</p> <a href=2.html>two</a> <a href=missing.html>missing</a>`,
	"2.html": `<meta charset=utf-8><title>Zwei Fäden</title><p>zwei fäden, zwei spinnen</p> ` +
		`<a href=https://example.org/>start</a>`,
	"sub/index.html": `<title>Sub</title><p>a spider below</p>`, "empty.html": "",
	"notes.txt": "plain notes about spiders\n", "paper.pdf": "%PDF-1.4\n",
	"robots.txt": "User-agent: *\nDisallow: /x\n",
}

// A logLine is what the judge reads of a line of crawl.log.
type logLine struct{ status, url, hops, mime, notes string }

// logLines reads crawl.log without the program's own reader.
func logLines(t *testing.T, dir string) (lines []logLine) {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(dir, "logs", "crawl.log")))(t)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		w := strings.Fields(in.Text())
		if len(w) < 12 {
			t.Fatalf("%s: %q", f.Name(), in.Text())
		}
		lines = append(lines, logLine{w[1], w[3], w[4], w[6], w[11]})
	}
	return lines
}

// subset returns the part of an archive that has the capture of a line. It is empty if there is no capture.
func (l logLine) subset() string {
	switch {
	case l.status[0] == '-' || l.status == "0":
		return ""
	case strings.HasSuffix(l.hops, "P"):
		return "robotstxt"
	case l.status == "200" && !strings.Contains(l.notes, "duplicate:"):
		return "warc"
	}
	return "crawldiagnostics"
}

// html reports whether a line is an HTML page that the archive has in full. An empty file is no page.
func (l logLine) html() bool {
	return l.subset() == "warc" && l.mime == "text/html" && body(l.url) != ""
}

// body returns what the site serves for a URL.
func body(u string) string {
	name := strings.TrimPrefix(u, "https://example.org/")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	return exampleSite[name]
}

// counted returns lines of the keys and their counts, separated by tabs.
func counted(lines []logLine, key func(logLine) string) (rows []string) {
	counts := map[string]int{}
	for _, l := range lines {
		if k := key(l); k != "" {
			counts[k]++
		}
	}
	for k, n := range counts {
		rows = append(rows, fmt.Sprintf("%s\t%d", k, n))
	}
	return rows
}

// An exampleRun runs the README of one example in a folder with the files of the example and the crawl.
type exampleRun struct {
	dir   string
	env   []string
	crawl []logLine // of the crawl directory "crawl"
}

// shell runs commands as a user would who has installed what the README installs.
func (x *exampleRun) shell(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-e", "-u", "-c", script)
	cmd.Dir, cmd.Env = x.dir, x.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s%s", err, script, tail(string(out)), tail(errs.String()))
	}
	return string(out)
}

var (
	exampleBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	installs     = regexp.MustCompile(`^(pip install|npm pack|mvn) `)
	pinned       = regexp.MustCompile(`[\w-]+(\[[\w-]+\])?(==|@)[\d.a-z]+|jwarc:[\d.]+`)
	serves       = regexp.MustCompile(`^(wayback|python3 -m http.server) `)
)

// commands returns the commands of a README, without those that install: they name what tools/soak/install.sh installs.
// The last command may start a server; then it comes apart.
func (x *exampleRun) commands(t *testing.T, readme string) (script, server string) {
	t.Helper()
	installer := string(must.Get(os.ReadFile("../tools/soak/install.sh"))(t))
	for _, b := range exampleBlock.FindAllStringSubmatch(string(must.Get(os.ReadFile(readme))(t)), -1) {
		for line := range strings.Lines(b[1]) {
			switch {
			case installs.MatchString(line):
				for _, what := range pinned.FindAllString(line, -1) {
					if !strings.Contains(installer, what) {
						t.Errorf("%s installs %s, the soak does not", readme, what)
					}
				}
			case serves.MatchString(line):
				server = strings.TrimSpace(line)
			default:
				script += line
			}
		}
	}
	return script, server
}

// serve starts the server of an example at a free port until the test ends. It returns the port.
func (x *exampleRun) serve(t *testing.T, command, port string) string {
	t.Helper()
	addr := must.Get(testweb.FreeAddrs(1))(t)[0]
	free := addr[strings.LastIndexByte(addr, ':')+1:]
	changed := strings.Replace(command, port, free, 1)
	if changed == command {
		t.Fatalf("no port %s in %q", port, command)
	}
	cmd := exec.Command("bash", "-c", "exec "+changed)
	cmd.Dir, cmd.Env = x.dir, x.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get("http://" + addr + "/")
		if err == nil {
			res.Body.Close()
			return free
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v", changed, err)
		}
	}
}

// want fails the test unless the output has each line.
func wantLines(t *testing.T, out string, want []string) {
	t.Helper()
	if len(want) == 0 {
		t.Error("the judge expects nothing")
	}
	have := strings.Split(out, "\n")
	for _, w := range want {
		if !slices.Contains(have, w) {
			t.Errorf("no line %q in\n%s", w, tail(out))
		}
	}
}

// The examples read a crawl as their READMEs say. What they print agrees with crawl.log and with the files of the web.
func TestExamples(t *testing.T) {
	testtier.OnlySoak(t, "it needs Spark, Iceberg, pywb, jwarc and a browser")
	weighs(t, 3)
	cache := os.Getenv("ORBWEAVER_JUDGES")
	if cache == "" {
		cache = filepath.Join(must.Get(os.UserCacheDir())(t), "orbweaver-judges")
	}
	if _, err := os.Stat(cache); err != nil {
		testneed.Missing(t, "jwarc and ReplayWeb.page: run tools/soak/install.sh: ", err)
	}
	site := t.TempDir()
	for name, text := range exampleSite {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(site, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(site, name), []byte(text), 0o644))
	}
	web := serve(t, testweb.Config{Folders: []testweb.Folder{{Host: "example.org", Dir: site}}})
	venv, home := venv(t), t.TempDir()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(ca, web.CAPEM(), 0o644))
	env := append(os.Environ(), "PATH="+filepath.Join(venv, "bin")+":"+filepath.Dir(orbweaver)+":"+os.Getenv("PATH"),
		"PYTHONWARNINGS=ignore", "SPARK_LOCAL_IP=127.0.0.1",
		"PYSPARK_SUBMIT_ARGS=--conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false pyspark-shell",
		"ORBWEAVER_DNS="+web.DNSAddr(), "ORBWEAVER_CONNECT_TO="+strings.Join(web.ConnectTo(), ","),
		"ORBWEAVER_CA="+ca, "ORBWEAVER_ALLOW_PRIVATE=true",
		"ORBWEAVER_DELAY=0s", "ORBWEAVER_SITEMAPS=false", "ORBWEAVER_QUIET=true")
	first := &exampleRun{dir: home, env: env}
	script, _ := first.commands(t, "../examples/README.md")
	first.shell(t, script)
	crawled := logLines(t, filepath.Join(home, "crawl"))
	if n := len(counted(crawled, func(l logLine) string { return l.subset() + l.status + l.mime })); n < 7 {
		t.Errorf("the crawl has only %d kinds of captures: %v", n, crawled)
	}
	foreign(t, filepath.Join(venv, "bin", "wacz"), "validate", "-f", filepath.Join(home, "site.wacz"))
	for name, judge := range map[string]func(t *testing.T, x *exampleRun, readme string){
		"duckdb": judgeDuckDB, "spark": judgeSpark, "cc-pyspark": judgeCommonCrawl, "iceberg": judgeIceberg,
		"jwarc": judgeJwarc, "pywb": judgePywb, "replaywebpage": judgeReplayWebPage,
	} {
		t.Run(name, func(t *testing.T) {
			x := &exampleRun{dir: t.TempDir(), env: env, crawl: crawled}
			must.Do(t, os.CopyFS(x.dir, os.DirFS(home)))
			must.Do(t, os.CopyFS(x.dir, os.DirFS("../examples/"+name)))
			for _, file := range must.Get(filepath.Glob(filepath.Join(cache, "*")))(t) {
				must.Do(t, os.Symlink(file, filepath.Join(x.dir, filepath.Base(file))))
			}
			judge(t, x, "../examples/"+name+"/README.md")
		})
	}
}

func judgeDuckDB(t *testing.T, x *exampleRun, readme string) {
	script, _ := x.commands(t, readme)
	wantLines(t, x.shell(t, script), append(append(
		counted(x.crawl, func(l logLine) string {
			if l.subset() == "" {
				return ""
			}
			return "crawl\t" + l.subset() + "\t" + l.status
		}),
		counted(x.crawl, func(l logLine) string { return l.status })...),
		fmt.Sprint("https://example.org/missing.html\t404\t", x.sources(t)["https://example.org/missing.html"]),
		fmt.Sprint("https://example.org/2.html\t", x.sources(t)["https://example.org/2.html"])))
}

var linked = regexp.MustCompile(`<a href=([^> ]+)`)

// sources counts the pages that link to each URL, in the files of the web. A redirect links to its target.
func (x *exampleRun) sources(t *testing.T) map[string]int {
	counts := map[string]int{}
	for _, l := range x.crawl {
		base := must.Get(url.Parse(l.url))(t)
		for _, m := range linked.FindAllStringSubmatch(body(l.url), -1) {
			counts[base.ResolveReference(must.Get(url.Parse(m[1]))(t)).String()]++
		}
		if l.status == "301" {
			counts[l.url+"/"]++
		}
	}
	return counts
}

var titled = regexp.MustCompile(`<title>(.*?)</title>`)

func judgeSpark(t *testing.T, x *exampleRun, readme string) {
	script, _ := x.commands(t, readme)
	out, sources := x.shell(t, script), x.sources(t)
	var want []string
	for _, l := range x.crawl {
		if !l.html() {
			continue
		}
		want = append(want, fmt.Sprintf("%d\t%d\t%s\t%s", sources[l.url], len(body(l.url)), l.url,
			titled.FindStringSubmatch(body(l.url))[1]))
	}
	wantLines(t, out, want)
	if n := strings.Count(out, "\thttps://"); n != len(want) {
		t.Errorf("%d pages, want %d\n%s", n, len(want), out)
	}
}

var (
	tag  = regexp.MustCompile(`<([a-z0-9]+)`)
	tags = regexp.MustCompile(`<[^>]*>`)
	word = regexp.MustCompile(`[\p{L}\p{N}_]+`)
)

// Common Crawl's jobs count tags in the files of a crawl, and words in those of a store.
func judgeCommonCrawl(t *testing.T, x *exampleRun, readme string) {
	moto := &exampleRun{dir: x.dir, env: x.env}
	port := moto.serve(t, "moto_server -H 127.0.0.1 -p 5000", "5000")
	x.env = append(x.env, "AWS_ENDPOINT_URL_S3=http://127.0.0.1:"+port, "AWS_ACCESS_KEY_ID=key",
		"AWS_SECRET_ACCESS_KEY=secret", "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true")
	x.shell(t, `python3 -c "import boto3; boto3.client('s3').create_bucket(Bucket='bucket')"`)
	script, _ := x.commands(t, readme)
	x.shell(t, "PYTHONPATH=; "+script)
	wantTags, wantFreq, wantPages := map[string]int{}, map[string]int{}, map[string]int{}
	for _, l := range logLines(t, filepath.Join(x.dir, "news")) {
		if l.html() {
			for _, m := range tag.FindAllStringSubmatch(body(l.url), -1) {
				wantTags[m[1]]++
			}
		}
	}
	for _, l := range logLines(t, filepath.Join(x.dir, "shop")) {
		if l.html() {
			seen := map[string]bool{}
			for _, w := range word.FindAllString(strings.ToLower(tags.ReplaceAllString(body(l.url), " ")), -1) {
				wantFreq[w]++
				seen[w] = true
			}
			for w := range seen {
				wantPages[w]++
			}
		}
	}
	gotTags, gotFreq, gotPages := map[string]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(x.shell(t, "cat spark-warehouse/tags/*.csv")) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), ",")
		gotTags[name] = must.Get(strconv.Atoi(n))(t)
	}
	for line := range strings.Lines(x.shell(t, "cat spark-warehouse/words/*.json")) {
		var row struct {
			Key string
			Val struct{ TF, DF int }
		}
		must.Do(t, json.Unmarshal([]byte(line), &row))
		gotFreq[row.Key], gotPages[row.Key] = row.Val.TF, row.Val.DF
	}
	if !maps.Equal(gotTags, wantTags) {
		t.Errorf("tags %v, want %v", gotTags, wantTags)
	}
	if !maps.Equal(gotFreq, wantFreq) || !maps.Equal(gotPages, wantPages) {
		t.Errorf("words %v, want %v; pages of each %v, want %v", gotFreq, wantFreq, gotPages, wantPages)
	}
	if len(wantTags) < 5 || wantFreq["webs"] != 2 || wantPages["spider"] != 2 {
		t.Errorf("the judge expects %v, %v, %v", wantTags, wantFreq, wantPages)
	}
}

func judgeIceberg(t *testing.T, x *exampleRun, readme string) {
	script, _ := x.commands(t, readme)
	out := x.shell(t, script)
	want := counted(x.crawl, func(l logLine) string {
		if l.subset() == "" {
			return ""
		}
		return "index_" + l.subset()
	})
	want = append(want, fmt.Sprintf("log\t%d", len(x.crawl)), "hosts\t1")
	wantLines(t, out, want)
}

func judgeJwarc(t *testing.T, x *exampleRun, readme string) {
	script, _ := x.commands(t, readme)
	out := x.shell(t, script)
	urls := map[string]int{}
	for line := range strings.Lines(out) {
		if _, text, ok := strings.Cut(line, " {"); ok {
			var entry struct{ URL string }
			must.Do(t, json.Unmarshal([]byte("{"+text), &entry))
			urls[entry.URL]++
		}
	}
	for _, l := range x.crawl {
		if l.subset() != "" && urls[l.url] == 0 {
			t.Errorf("jwarc does not find %s\n%s", l.url, tail(out))
		}
	}
}

func judgePywb(t *testing.T, x *exampleRun, readme string) {
	script, server := x.commands(t, readme)
	x.shell(t, script)
	port := x.serve(t, server, "8080")
	pages := 0
	for _, collection := range []string{"crawl", "site"} {
		for _, l := range x.crawl {
			if l.status != "200" || strings.HasSuffix(l.hops, "P") {
				continue
			}
			status, text := replay(t, "http://127.0.0.1:"+port+"/"+collection+"/", "id_", l.url)
			if status != http.StatusOK || string(text) != body(l.url) {
				t.Errorf("%s: pywb replays %s as %d %q", collection, l.url, status, text)
			}
			pages++
		}
	}
	if pages < 12 {
		t.Errorf("only %d pages", pages)
	}
}

// allText returns the text of a page with its shadow roots and frames.
const allText = `((read) => read(read, document.body))((read, e) => !e ? '' :
	(e.shadowRoot ? read(read, e.shadowRoot) : '') +
	(e.localName == 'iframe' ? read(read, e.contentDocument?.body) : '') +
	(e.childNodes.length ? [...e.childNodes].map(c => read(read, c)).join(' ') : e.textContent || ''))`

// ReplayWeb.page shows the first page of the WACZ in Chromium.
func judgeReplayWebPage(t *testing.T, x *exampleRun, readme string) {
	script, server := x.commands(t, readme)
	x.shell(t, script)
	port := x.serve(t, server, "8000")
	b := testbrowser.Start(t)
	b.Go("http://127.0.0.1:" + port + "/")
	b.Wait(allText + `.includes("Spiders weave webs; webs catch flies.")`)
	if picture := os.Getenv("ORBWEAVER_PICTURE"); picture != "" {
		b.Screenshot(picture)
	}
}
