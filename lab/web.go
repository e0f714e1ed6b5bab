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
	"os/signal"
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
	Identity  bool // bodies as they are, whatever the client takes
	CloseEach bool // a connection ends with its first response
	Truth     bool // know what is reachable, and report what was missed
	Shape     testweb.Shape
	// Promise is what the crawl claims to keep, beside robots.txt.
	Promise testweb.Promise
}

// An Announcement is the line of JSON by which a web says where it is.
type Announcement struct {
	HTTP      string   `json:"http"`
	HTTPS     string   `json:"https"`
	DNS       string   `json:"dns"`
	Control   string   `json:"control"`
	CA        string   `json:"ca"`
	ConnectTo []string `json:"connect_to"`
	Seed      string   `json:"seed"`
}

// identity is an Origin that compresses nothing.
type identity struct{ testweb.Origin }

func (o identity) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	q.Gzip = false
	return o.Origin.Answer(dst, q)
}

// ServeWeb is the process of a web: it reads a WebSpec, serves it and says
// where to out, until ctx ends, a signal comes, or in does: so that no web
// outlives who started it. Its authority's certificate goes to ca.
func ServeWeb(ctx context.Context, spec []byte, ca string, in io.Reader, out io.Writer) error {
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
		truth, err := web.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
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
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { // until the process ends, if in does not
		io.Copy(io.Discard, in)
		stop()
	}()
	err = json.NewEncoder(out).Encode(Announcement{
		HTTP: w.HTTPAddr(), HTTPS: w.HTTPSAddr(), DNS: w.DNSAddr(), Control: w.ControlAddr(), CA: ca,
		ConnectTo: w.ConnectTo(), Seed: web.URL(0, 0),
	})
	if err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

// A web is a running ServeWeb.
type web struct {
	*process
	Announcement
}

// startWithin is how long a web may take until it serves; what takes longest
// is to enumerate what can be reached.
const startWithin = 2 * time.Minute

// startWeb starts "orblab web", which is self, and waits until it serves.
func startWeb(ctx context.Context, program, dir string, spec WebSpec) (*web, error) {
	js, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	lines := newFirstLine()
	p, err := launch(ctx, program, []string{"web", "--ca-out", filepath.Join(dir, "ca.pem"), string(js)}, lines)
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(startWithin, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	select {
	case b := <-lines.c:
		s := &web{process: p}
		if err := json.Unmarshal(b, &s.Announcement); err != nil {
			p.cmd.Process.Kill()
			_, werr := p.wait()
			return nil, errors.Join(fmt.Errorf("web: %w: %q", err, b), werr)
		}
		return s, nil
	case <-p.over:
		_, err := p.wait()
		return nil, errors.Join(errors.New("web: ended before it served"), err)
	}
}

// firstLine passes the first line that is written to it on, and drops the rest.
type firstLine struct {
	c    chan []byte // of one: nobody waits to send
	line []byte
	sent bool
}

func newFirstLine() *firstLine { return &firstLine{c: make(chan []byte, 1)} }

// maxLine bounds a line that never ends.
const maxLine = 1 << 20

func (f *firstLine) Write(b []byte) (int, error) {
	if f.sent {
		return len(b), nil
	}
	line, _, ok := bytes.Cut(b, []byte("\n"))
	f.line = append(f.line, line...)
	if ok || len(f.line) > maxLine {
		f.c <- f.line
		f.sent = true
	}
	return len(b), nil
}

// report is the web's account of who came.
func (w *web) report(ctx context.Context) (*testweb.Report, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.Control+"/.testweb/report", nil)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer res.Body.Close()
	r := new(testweb.Report)
	if err := json.NewDecoder(res.Body).Decode(r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return r, nil
}

// stop ends the web.
func (w *web) stop() (Usage, error) {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Usage{}, fmt.Errorf("web: %w", err)
	}
	return w.wait()
}

// violations are what a report accuses the crawl of, in lines; empty if it was polite.
func violations(r *testweb.Report) string {
	var b strings.Builder
	for kind, n := range r.ViolationCount {
		if n > 0 {
			fmt.Fprintf(&b, "%d of %s\n", n, kind)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	for i, v := range r.Violations {
		if i == 10 {
			b.WriteString("…\n")
			break
		}
		b.WriteString(v.String() + "\n")
	}
	return strings.TrimSpace(b.String())
}
