package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// writeURLs writes the URLs of n random pages without faults, from all hosts, one per line.
func writeURLs(name string, spec gen.Spec, n int) error {
	w, err := gen.New(spec)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("urls: %w", err)
	}
	b := bufio.NewWriter(f)
	for u := range w.URLs(n, spec.Seed) {
		b.WriteString(u)
		b.WriteByte('\n')
	}
	if err := errors.Join(b.Flush(), f.Close()); err != nil {
		return fmt.Errorf("urls: %w", err)
	}
	return nil
}

// A bareRun is the result of a run of the yardstick.
type bareRun struct {
	Pages     int64         `json:"pages"`
	PagesPerS float64       `json:"pages_per_s"`
	MBPerS    float64       `json:"mb_per_s"`
	Usage     Usage         `json:"-"`
	WebCPU    time.Duration `json:"-"`
}

// runBare runs the yardstick for d against w, as a process of its own. program is orblab,
// which contains the yardstick (package bare).
func runBare(ctx context.Context, program string, w *web, urls, dir string, conns int, d time.Duration,
	gzip bool) (*bareRun, error) {
	out := filepath.Join(dir, "bare.warc.gz")
	defer os.Remove(out)
	args := []string{"bare", "--", "-urls", urls, "-addr", w.HTTP, "-c", strconv.Itoa(conns),
		"-d", d.String(), "-o", out}
	if gzip {
		args = append(args, "-gzip")
	}
	before := w.cpu()
	var stdout bytes.Buffer
	p, err := launch(ctx, program, args, &stdout)
	if err != nil {
		return nil, err
	}
	r := new(bareRun)
	if r.Usage, err = p.wait(); err != nil {
		return nil, err
	}
	r.WebCPU = w.cpu() - before
	if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
		return nil, fmt.Errorf("bare: %w: %q", err, stdout.String())
	}
	if r.Pages == 0 {
		return nil, errors.New("bare: no pages")
	}
	return r, ctx.Err()
}
