package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/walk"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// peakMemory is the most memory that a crawl of real pages may take, in bytes.
const peakMemory = 300e6

// A truth is the list of all URLs of the web of Debian's documentation, by an independent walk that
// shares no code with the crawler.
type truth struct {
	*walk.Result
	hosts map[string]bool
}

// debianTruth walks once for all tests. Its scope is that of --scope host: the hosts of the seeds
// by both schemes, with "www." or without. Names that differ only in "www." do not exist on this
// web. Pages link to www.sqlite.org, and the crawl must end those URLs, too.
var debianTruth = sync.OnceValues(func() (*truth, error) {
	web, err := testweb.New(testweb.Config{Folders: testweb.DebianDocs()})
	if err != nil {
		return nil, err
	}
	stop := web.Start()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(web.CAPEM())
	bare := func(host string) string { return strings.TrimPrefix(host, "www.") }
	hosts, seeds := map[string]bool{}, map[string]bool{}
	for _, h := range web.Hosts() {
		hosts[h], seeds[bare(h)] = true, true
	}
	res, err := walk.Walk(context.Background(), walk.Config{
		Seeds: testweb.DebianSeeds(), DialContext: web.DialContext, RootCAs: pool, Agent: "orbweaver",
		Scope: func(u *url.URL) bool { return seeds[bare(u.Hostname())] },
	})
	return &truth{res, hosts}, errors.Join(err, stop())
})

// knownWeb returns the web of Debian's documentation and its truth.
func knownWeb(t *testing.T, p testweb.Promise) (*testweb.Web, *truth) {
	t.Helper()
	web := debianWeb(t, p)
	tr := must.Get(debianTruth())(t)
	if tr.Count(http.StatusOK) < 9000 {
		t.Fatalf("the walk found only %v", tr)
	}
	return web, tr
}

// most reports errors of one kind, the first few with their text.
type most struct {
	t *testing.T
	n int
}

func (m *most) errorf(format string, args ...any) {
	m.t.Helper()
	if m.n++; m.n <= 10 {
		m.t.Errorf(format, args...)
	}
}

func (m *most) done(what string) {
	m.t.Helper()
	if m.n > 10 {
		m.t.Errorf("%s: %d in all", what, m.n)
	}
}

// covers compares a finished crawl with the truth: the same URLs, each ended once (audit checks
// this), with the same status and the same content, and each page in the index.
func (a *ledger) covers(t *testing.T, tr *truth) {
	t.Helper()
	missed, extra, wrong := &most{t: t}, &most{t: t}, &most{t: t}
	for u, p := range tr.Pages {
		l, ok := a.final[u]
		switch {
		case !ok:
			missed.errorf("missed %s (%d, %d steps from a seed)", u, p.Status, p.Depth)
		case l.Code != p.Status:
			wrong.errorf("%s: got %d, want %d %s", u, l.Code, p.Status, p.Err)
		}
	}
	for u := range tr.Denied {
		want := report.CodeRobotsDenied
		if host, err := hostOf(u); err != nil || !tr.hosts[host] {
			want = report.CodeDNS
		}
		if l, ok := a.final[u]; !ok {
			missed.errorf("missed %s", u)
		} else if l.Code != want {
			wrong.errorf("%s: got %d, want %d", u, l.Code, want)
		}
	}
	for u, l := range a.final {
		if _, ok := tr.Pages[u]; !ok && !tr.Denied[u] {
			extra.errorf("the walk does not know %s (%d, via %s)", u, l.Code, l.Via)
		}
	}
	missed.done("missed")
	extra.done("extra")
	wrong.done("wrong status")

	bodies, index, differ, lost := a.bodies(t), indexed(t, a.dir), &most{t: t}, &most{t: t}
	for u, p := range tr.Pages {
		if p.Status != http.StatusOK {
			continue
		}
		if got := bodies[u]; got != p.Digest {
			differ.errorf("%s: content %q, want %q", u, got, p.Digest)
		}
		if n := index[u]; n == 0 || n > 1 && !a.again(u) {
			lost.errorf("%s: %d lines in the index", u, index[u])
		}
	}
	differ.done("content")
	lost.done("index")
	t.Logf("walk: %v, %d out of reach; crawl: %d URLs, missed %d, extra %d, wrong %d; content of %d pages, different "+
		"%d; not in the index once %d",
		tr.Result, len(tr.Denied), len(a.final), missed.n, extra.n, wrong.n, tr.Count(http.StatusOK), differ.n, lost.n)
}

func hostOf(u string) (string, error) {
	p, err := url.Parse(u)
	if err != nil {
		return "", err
	}
	return p.Hostname(), nil
}

// bodies returns the SHA-1 of each URL's content, without codings. For a revisit it is that of the
// record to which the revisit refers. It reads the archive with the standard library only.
func (a *ledger) bodies(t *testing.T) map[string]string {
	t.Helper()
	byURL, byPayload := map[string]string{}, map[string]string{}
	revisits := map[string]string{} // URL -> payload digest
	for _, name := range a.warcs(t) {
		err := records(name, func(h http.Header, block io.Reader) error {
			u := h.Get("WARC-Target-URI")
			switch h.Get("WARC-Type") {
			case "revisit":
				revisits[u] = h.Get("WARC-Payload-Digest")
			case "response":
				sum, err := digest(block)
				if err != nil {
					return fmt.Errorf("%s: %w", u, err)
				}
				if u, ok := strings.CutSuffix(u, "/robots.txt"); !ok || byURL[u] == "" {
					byURL[h.Get("WARC-Target-URI")] = sum
				}
				byPayload[h.Get("WARC-Payload-Digest")] = sum
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
	for u, d := range revisits {
		if byURL[u] == "" {
			byURL[u] = byPayload[d]
		}
	}
	return byURL
}

// digest returns the SHA-1 in hex of the body of an HTTP response.
func digest(block io.Reader) (string, error) {
	res, err := http.ReadResponse(bufio.NewReader(block), nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := identity(res)
	if err != nil {
		return "", err
	}
	sum := sha1.New()
	_, err = io.Copy(sum, body)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// identity returns the body of a response without its coding.
func identity(res *http.Response) (io.Reader, error) {
	switch c := res.Header.Get("Content-Encoding"); c {
	case "":
		return res.Body, nil
	case "gzip":
		return gzip.NewReader(res.Body)
	default:
		return nil, fmt.Errorf("content coding %q was not served", c)
	}
}

// records reads a WARC file from end to end.
func records(name string, each func(h http.Header, block io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(z, 1<<16)
	for {
		switch line, err := r.ReadString('\n'); {
		case err == io.EOF && line == "":
			return nil
		case err != nil:
			return err
		case line != "WARC/1.1\r\n":
			return fmt.Errorf("%q where a record begins", line)
		}
		h := http.Header{}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			if line == "\r\n" {
				break
			}
			k, v, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
			h.Add(k, v)
		}
		n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		if err != nil {
			return err
		}
		content := io.LimitReader(r, n)
		if err := each(h, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		end := make([]byte, 4)
		if _, err := io.ReadFull(r, end); err != nil || string(end) != "\r\n\r\n" {
			return fmt.Errorf("record ends in %q: %w", end, err)
		}
	}
}

// measured is the variable that makes this test program run measure.
const measured = "measure-memory"

// measure runs a program and writes the most memory that it had by the system's count, in bytes, to
// a file. It is a process in between, because the count of a process begins with the memory of the
// process that forked it. That would be the test, with a whole web in memory.
func measure(name string, args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	rss := u.Maxrss
	if runtime.GOOS != "darwin" { // on this system the unit is bytes
		rss <<= 10
	}
	if err := os.WriteFile(name, []byte(strconv.FormatInt(rss, 10)), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// light runs the program and fails the test if the program took more memory than peakMemory, by its
// own count or the system's.
func light(t *testing.T, dir string, args ...string) run {
	t.Helper()
	self := must.Get(os.Executable())(t)
	name := filepath.Join(t.TempDir(), "rss")
	cmd := exec.Command(self, append([]string{measured, name, orbweaver}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, tail(out.String()), tail(errs.String()))
	}
	r := run{stdout: out.String(), stderr: errs.String(), took: time.Since(began)}
	b := must.Get(os.ReadFile(name))(t)
	system := must.Get(strconv.ParseFloat(string(b), 64))(t)
	own, _ := summary(t, dir)["peak_memory_bytes"].(float64)
	t.Logf("peak memory: %.0f MB in summary.json, %.0f MB by the system", own/1e6, system/1e6)
	for _, n := range []float64{own, system} {
		if most := roomFor(peakMemory); n < 1e6 || n > most {
			t.Errorf("peak memory %.0f bytes, want at most %.0f", n, most)
		}
	}
	return r
}

// Coverage is 1 and overlap is 0: the crawl fetches each existing URL once, and nothing else. Other
// programs can read the archive, and the crawl takes little memory.
func TestRealWeb(t *testing.T) {
	weighs(t, 4)
	// The judge checks only for two requests at once, because without a delay every gap is long
	// enough.
	web, tr := knownWeb(t, testweb.Promise{})
	dir := filepath.Join(t.TempDir(), "crawl")
	r := light(t, dir, flags(t, web, dir, append([]string{"--delay", "0", "--quiet"}, testweb.DebianSeeds()...)...)...)
	t.Logf("%v for all", r.took)
	served(t, web, 0)
	a := audit(t, dir)
	a.covers(t, tr)
	a.judged(t)
	t.Run("replay", func(t *testing.T) { a.replays(t, tr) })
}

// served fails the test if the server gave more than repeated second responses, or more than one
// robots.txt for an origin, or saw a violation.
func served(t *testing.T, web *testweb.Web, repeated int64) {
	t.Helper()
	noViolations(t, web)
	rep := web.Report()
	if rep.Repeated > repeated || rep.Uncounted != 0 {
		t.Errorf("%d answers beyond the first of a URL, want %d at most: %v", rep.Repeated, repeated, rep.Twice)
	}
	for host, h := range rep.Hosts {
		if h.MaxConcurrent != 1 || h.MaxConnections != 1 {
			t.Errorf("%s: %d requests and %d connections at once", host, h.MaxConcurrent, h.MaxConnections)
		}
		if h.BeforeRobots != 0 {
			t.Errorf("%s: %d requests before its robots.txt was read", host, h.BeforeRobots)
		}
	}
	t.Logf("server: %d requests, %d URLs, %d pages, %d bytes, repeated %d", rep.Requests, rep.URLs, rep.Pages,
		rep.Bytes, rep.Repeated)
}
