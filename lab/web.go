package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A WebSpec is the web that an experiment crawls.
type WebSpec struct {
	gen.Spec
	Identity  bool // send bodies without compression
	CloseEach bool // close each connection after its first response
	Truth     bool // count the reachable pages, and report missed ones
	TwoLevel  bool // reachable are the pages that a two-level crawl finds; see gen.Bounds
	Shape     testweb.Shape
	// Promise holds the delays that the crawl must keep, besides robots.txt.
	Promise testweb.Promise
}

// An Announcement is the line of JSON with the addresses of a web.
type Announcement struct {
	HTTP      string   `json:"http"`
	HTTPS     string   `json:"https"`
	DNS       string   `json:"dns"`
	Control   string   `json:"control"`
	CA        string   `json:"ca"`
	ConnectTo []string `json:"connect_to"`
	Seed      string   `json:"seed"`
}

// identity is an Origin without compression.
type identity struct{ testweb.Origin }

func (o identity) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	q.Gzip = false
	return o.Origin.Answer(dst, q)
}

// ServeWeb runs the process of a web. spec is a WebSpec as JSON. ServeWeb writes an Announcement
// to out and the certificate of its authority to the file ca. It serves until ctx ends.
func ServeWeb(ctx context.Context, spec []byte, ca string, out io.Writer) error {
	var s WebSpec
	d := json.NewDecoder(bytes.NewReader(spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	web, err := gen.New(s.Spec)
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	cfg := testweb.Config{Origin: web, CloseEach: s.CloseEach, Promise: s.Promise, TTL: time.Hour, Shape: s.Shape}
	if web.Changing() {
		cfg.Changes = web
	}
	if s.Truth {
		truth, err := web.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true, TwoLevel: s.TwoLevel})
		if err != nil {
			return fmt.Errorf("web: %w", err)
		}
		cfg.Truth = truth
	}
	if s.Identity {
		cfg.Origin = identity{web}
	}
	w, err := testweb.New(cfg)
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	defer w.Close()
	if err := os.WriteFile(ca, w.CAPEM(), 0o644); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	if err := json.NewEncoder(out).Encode(announce(w, ca, web.URL(0, 0))); err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

// announce returns the addresses of a web whose certificate is in the file ca.
func announce(w *testweb.Web, ca, seed string) Announcement {
	return Announcement{HTTP: w.HTTPAddr(), HTTPS: w.HTTPSAddr(), DNS: w.DNSAddr(), Control: w.ControlAddr(), CA: ca,
		ConnectTo: w.ConnectTo(), Seed: seed}
}

// serveHere serves a web in this process, until the caller calls stop.
func serveHere(cfg testweb.Config) (w *testweb.Web, stop func() error, err error) {
	cfg.Log = io.Discard
	if w, err = testweb.New(cfg); err != nil {
		return nil, nil, fmt.Errorf("web: %w", err)
	}
	end := w.Start()
	return w, func() error {
		defer w.Close()
		return end()
	}, nil
}

// A web is a running ServeWeb. One that this process serves has no process.
type web struct {
	*process
	Announcement
}

// startWeb starts "orblab web", where program is orblab, and waits until the web serves.
func startWeb(ctx context.Context, program, dir string, spec WebSpec) (*web, error) {
	js, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	w := new(web)
	w.process, err = launchUntil(ctx, program, []string{"web", "--ca-out", filepath.Join(dir, "ca.pem"), string(js)},
		func(line []byte) bool { return json.Unmarshal(line, &w.Announcement) == nil })
	return w, err
}

// serve starts n processes of a web, and calls f with them and with a new folder. Then it ends them and deletes the
// folder.
func (t *Trial) serve(ctx context.Context, n int, spec WebSpec, f func(webs []*web, dir string) error) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "run-")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	var webs []*web
	defer func() {
		for _, w := range webs {
			_, werr := w.stop()
			err = errors.Join(err, werr)
		}
	}()
	for i := range n {
		own := filepath.Join(dir, fmt.Sprintf("web-%d", i+1))
		if err := os.Mkdir(own, 0o755); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		w, err := startWeb(ctx, t.Self, own, spec)
		if err != nil {
			return err
		}
		webs = append(webs, w)
	}
	return f(webs, dir)
}

// report returns the web's report.
func (w *web) report(ctx context.Context) (*testweb.Report, error) {
	return answer[testweb.Report](ctx, w, "report")
}

// count returns the web's sums so far, which costs it nearly nothing.
func (w *web) count(ctx context.Context) (*testweb.Count, error) {
	return answer[testweb.Count](ctx, w, "count")
}

// answer asks the web for something.
func answer[T any](ctx context.Context, w *web, what string) (*T, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.Control+"/.testweb/"+what, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer res.Body.Close()
	r := new(T)
	if err := json.NewDecoder(res.Body).Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return r, nil
}

// crawl starts a crawl of the web, with the delay of a host and more flags. Addresses and sites have no delay. tick
// is called with each line of progress.
func (w *web) crawl(ctx context.Context, program, dir, delay string, tick func(progressLine), flags ...string) (
	*process, error) {
	args := []string{"crawl", "--json", "--dir", dir, "--contact", "lab@example.org", "--scope", "any",
		"--delay", delay, "--ip-delay", "0", "--site-delay", "0", "--allow-private", "--dns", w.DNS, "--ca", w.CA}
	for _, c := range w.ConnectTo {
		args = append(args, "--connect-to", c)
	}
	return launch(ctx, program, append(append(args, flags...), w.Seed), nil, progress(tick))
}

// judge returns the web's report about a crawl with a stop reason. The error is an ImpoliteError if the web saw a
// violation, and a CoverageError if it saw a page fetched twice, unless pages may move to other agents, or if a
// finished crawl missed a page. No speed makes up for these.
func (w *web) judge(ctx context.Context, stop string, pagesMove bool) (*testweb.Report, error) {
	r, err := w.report(ctx)
	if err != nil {
		return nil, err
	}
	if v := violations(r); v != "" {
		return r, &ImpoliteError{v}
	}
	if pagesMove && r.Origin != nil {
		r.Origin.Twice = 0
	}
	return r, misfetched(r, stop)
}

// stop ends the web.
func (w *web) stop() (Usage, error) {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Usage{}, fmt.Errorf("web: %w", err)
	}
	return w.wait()
}

// violationCount returns the number of all violations in a report.
func violationCount(r *testweb.Report) (n int64) {
	for _, of := range r.ViolationCount {
		n += of
	}
	return n
}

// violations returns the violations in a report as lines of text, or "" if the crawl was polite.
func violations(r *testweb.Report) string {
	var lines []string
	for kind, n := range r.ViolationCount {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%d of %s", n, kind))
		}
	}
	for i, v := range r.Violations {
		if i == 10 {
			lines = append(lines, "…")
			break
		}
		lines = append(lines, v.String())
	}
	return strings.Join(lines, "\n")
}
