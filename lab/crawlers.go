package lab

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Crawlers answers: how do Orbweaver and two other crawlers treat the same web?
//
// Each crawls a generated web with the faults of the real web, as the command of "orbweaver testweb". The web reports
// what it saw.
type Crawlers struct {
	// Scrapy and Wget2 are the programs of the other crawlers. Empty means those in PATH.
	Scrapy, Wget2 string
	// Hosts is the number of hosts. Zero means 60, with --quick 15.
	Hosts int64
	// Delay is the delay that each crawler is told to keep. Zero means 500 ms, with --quick 100 ms.
	Delay time.Duration
	Again string
}

// ErrCrawler reports that a crawler is not installed.
var ErrCrawler = errors.New("a crawler is missing")

const (
	crawlersPages    = 8  // of a host on average
	crawlersMaxPages = 40 // of a host
	// crawlersLimit bounds the time of one crawl.
	crawlersLimit = 10 * time.Minute
	// crawlersDelay is how many times the delay the Crawl-delay of some hosts is.
	crawlersDelay = 2
)

//go:embed crawlers/spider.py
var spider []byte

func (x *Crawlers) defaults(quick bool) {
	if quick {
		def(&x.Hosts, 15)
		def(&x.Delay, 100*time.Millisecond)
	}
	def(&x.Hosts, 60)
	def(&x.Delay, 500*time.Millisecond)
}

// A crawlerUnderTest is a crawler with its command line.
type crawlerUnderTest struct {
	name  string
	agent string   // the name by which it reads robots.txt
	about []string // the command that prints its version
	line  []string // the command that crawls from the URLs in seeds.txt
}

// A CrawlerRun is the crawl of one crawler, as the web saw it.
type CrawlerRun struct {
	Name     string        `json:"name"`
	Version  string        `json:"version"`
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"`
	Took     time.Duration `json:"took_ns"` // from the first request to the end of the last one
	// Pages counts the responses with pages, Fetched the different pages, Repeated the fetches of URLs that were
	// fetched before.
	Requests   int64            `json:"requests"`
	Pages      int64            `json:"pages"`
	Compressed int64            `json:"compressed"`
	Reachable  int64            `json:"reachable"`
	Fetched    int64            `json:"fetched"`
	Missed     int64            `json:"missed"`
	Beyond     int64            `json:"beyond"`
	Repeated   int64            `json:"repeated"`
	Violations map[string]int64 `json:"violations"`
	// Shortest is the shortest gap at a host, divided by the promised delay; nil: there was none.
	Shortest     *float64 `json:"shortest"`
	BeforeRobots int64    `json:"before_robots"`
	points       []crawlerPoint
}

// A crawlerPoint says how many responses with status 200 had come so long after the first request.
type crawlerPoint struct {
	at        time.Duration
	responses int
}

// Run implements Experiment.
func (x *Crawlers) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	all, err := y.crawlers(t)
	if err != nil {
		return nil, err
	}
	var runs []CrawlerRun
	for _, c := range all {
		done := t.step("%s", c.name)
		stop := t.alive("crawling")
		r, err := y.crawl(ctx, t, c)
		stop()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		done("%s of %s pages in %.0f s, %s violations", humanize.Comma(r.Fetched), humanize.Comma(r.Reachable),
			r.Took.Seconds(), humanize.Comma(r.violations()))
		runs = append(runs, r)
	}
	return y.result(t, runs), nil
}

// crawlers returns the crawlers with their command lines.
func (x *Crawlers) crawlers(t *Trial) ([]crawlerUnderTest, error) {
	found := map[string]string{}
	for _, p := range []struct{ flag, name, install string }{
		{"scrapy", x.Scrapy, "python3 -m venv DIR && DIR/bin/pip install scrapy"},
		{"wget2", x.Wget2, "apt-get install wget2"},
	} {
		name := p.name
		if name == "" {
			name = p.flag
		}
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("%w: no program %s; install it (%s) or name it with --%s", ErrCrawler, name,
				p.install, p.flag)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		found[p.flag] = path
	}
	seconds := strconv.FormatFloat(x.Delay.Seconds(), 'f', -1, 64)
	return []crawlerUnderTest{
		{"Orbweaver", "orbweaver", []string{t.Orbweaver, "version"}, []string{t.Orbweaver, "crawl", "--contact",
			"you@example.org", "--allow-private", "--scope", "any", "--delay", x.Delay.String(), "--retry-wait", "1s",
			"--slow-down", "1s", "--timeout", "5s", "--quiet", "--seeds", "seeds.txt"}},
		{"Scrapy", "Scrapy", []string{found["scrapy"], "version"}, []string{found["scrapy"], "runspider", "spider.py",
			"--nolog", "-a", "seeds=seeds.txt", "-s", "ROBOTSTXT_OBEY=True", "-s", "DOWNLOAD_DELAY=" + seconds,
			"-s", "RANDOMIZE_DOWNLOAD_DELAY=False", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=1",
			"-s", "CONCURRENT_REQUESTS=100", "-s", "DOWNLOAD_TIMEOUT=5", "-s", "DEPTH_PRIORITY=1",
			"-s", "SCHEDULER_DISK_QUEUE=scrapy.squeues.PickleFifoDiskQueue",
			"-s", "SCHEDULER_MEMORY_QUEUE=scrapy.squeues.FifoMemoryQueue"}},
		{"Wget2", "wget2", []string{found["wget2"], "--version"}, []string{found["wget2"], "--quiet", "--recursive",
			"--level=0", "--span-hosts", "--wait=" + seconds, "--timeout=5", "--max-threads=20",
			"--directory-prefix=pages", "--input-file=seeds.txt"}},
	}, nil
}

// crawl lets one crawler crawl the web.
func (x *Crawlers) crawl(ctx context.Context, t *Trial, c crawlerUnderTest) (r CrawlerRun, err error) {
	about, err := exec.CommandContext(ctx, c.about[0], c.about[1:]...).Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w", strings.Join(c.about, " "), err)
	}
	r = CrawlerRun{Name: c.name, Version: version(string(about))}
	dir, err := os.MkdirTemp(t.Dir, c.name)
	if err != nil {
		return r, err
	}
	if err := os.WriteFile(filepath.Join(dir, "spider.py"), spider, 0o644); err != nil {
		return r, err
	}
	args := append(x.web(t, c.agent), "--")
	args = append(args, c.line...)
	r.Command = strings.Join(append([]string{filepath.Base(c.line[0])}, c.line[1:]...), " ")
	cmd := exec.CommandContext(ctx, t.Orbweaver, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		r.ExitCode, err = exit.ExitCode(), nil
	}
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, said.Bytes())
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil { // the web did not run
		return r, fmt.Errorf("%w\n%s", err, said.Bytes())
	}
	var report testweb.Report
	if err := json.Unmarshal(b, &report); err != nil {
		return r, fmt.Errorf("report.json: %w", err)
	}
	r.read(&report)
	f, err := os.Open(filepath.Join(dir, "log.tsv"))
	if err != nil {
		return r, err
	}
	defer f.Close()
	return r, r.readLog(bufio.NewScanner(f))
}

// version returns the last word of the first line, such as "2.19.0". Wget2's line goes on behind a dash.
func version(about string) string {
	line, _, _ := strings.Cut(about, "\n")
	line, _, _ = strings.Cut(line, " - ")
	for _, w := range strings.Fields(line) {
		if w[0] >= '0' && w[0] <= '9' {
			return w
		}
	}
	return strings.TrimSpace(line)
}

// web returns the arguments of orbweaver that serve the web.
func (x *Crawlers) web(t *Trial, agent string) []string {
	return []string{"testweb", "--generate", "--wild", "--seed", strconv.FormatUint(t.Seed, 10),
		"--hosts", strconv.FormatInt(x.Hosts, 10), "--pages-mean", strconv.Itoa(crawlersPages),
		"--max-pages", strconv.Itoa(crawlersMaxPages), "--traps", "0",
		"--crawl-delays", "0.1", "--crawl-delay", (crawlersDelay * x.Delay).String(),
		"--promise-delay", x.Delay.String(), "--promise-crawl-delay", "--agent", agent,
		"--seeds-out", "seeds.txt", "--report-out", "report.json", "--log", "log.tsv",
		"--time-limit", crawlersLimit.String()}
}

// read takes the counts from the report.
func (r *CrawlerRun) read(p *testweb.Report) {
	r.Requests, r.Pages, r.Compressed, r.Repeated = p.Requests, p.Pages, p.Compressed, p.Repeated
	r.Violations, r.BeforeRobots = p.ViolationCount, p.BeforeRobots
	r.Shortest = p.Gaps["host"].Least
	if o := p.Origin; o != nil {
		r.Reachable, r.Fetched, r.Missed, r.Beyond = o.Reachable, o.Fetched, o.Missed, o.Beyond
	}
}

func (r *CrawlerRun) violations() (sum int64) {
	for _, n := range r.Violations {
		sum += n
	}
	return sum
}

// coverage returns the share of the reachable pages that were fetched.
func (r *CrawlerRun) coverage() float64 {
	return float64(r.Reachable-r.Missed) / math.Max(1, float64(r.Reachable))
}

// readLog reads the times of the requests from the lines of "testweb --log".
func (r *CrawlerRun) readLog(lines *bufio.Scanner) error {
	lines.Buffer(nil, 1<<20)
	var first, last time.Duration
	responses := 0
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), "\t", 8)
		if len(f) < 8 {
			return fmt.Errorf("log.tsv: line %q has %d fields, want 8", lines.Text(), len(f))
		}
		var at [2]time.Duration
		for i := range at {
			s, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("log.tsv: %w", err)
			}
			at[i] = time.Duration(s * float64(time.Second))
		}
		if first == 0 || at[0] < first {
			first = at[0]
		}
		last = max(last, at[1])
		if f[3] == "GET" && f[4] == "200" && f[6] == "ok" && !strings.HasSuffix(f[7], "/robots.txt") {
			responses++
			r.points = append(r.points, crawlerPoint{at[1] - first, responses})
		}
	}
	r.Took = last - first
	return lines.Err()
}
