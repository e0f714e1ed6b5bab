package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/testweb/gen"
)

// ErrNoBare is a yardstick that is not where it was said to be.
var ErrNoBare = errors.New("the yardstick is missing")

// FindBare makes the yardstick ready: path is a program, or a folder of its
// source, which is built into dir with the go command. The error is ErrNoBare
// if there is nothing.
func FindBare(ctx context.Context, path, dir string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %s is not there; --bare names the folder of bare's source, or bare itself as a program", ErrNoBare, path)
	}
	if err != nil {
		return "", fmt.Errorf("bare: %w", err)
	}
	if !info.IsDir() {
		return filepath.Abs(path)
	}
	if _, err := os.Stat(filepath.Join(path, "main.go")); err != nil {
		return "", fmt.Errorf("%w: %s holds no main.go", ErrNoBare, path)
	}
	name := filepath.Join(dir, "bare")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", path, "-o", name, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build bare in %s: %w\n%s", path, err, bytes.TrimSpace(out))
	}
	return name, nil
}

// writeURLs writes the URLs of n ordinary pages, drawn from all hosts, one a line.
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

// A bareRun is what the yardstick did and took.
type bareRun struct {
	Pages     int64         `json:"pages"`
	PagesPerS float64       `json:"pages_per_s"`
	MBPerS    float64       `json:"mb_per_s"`
	Usage     Usage         `json:"-"`
	WebCPU    time.Duration `json:"-"`
}

// runBare runs the yardstick for d against w.
func runBare(ctx context.Context, program string, w *web, urls, dir string, conns int, d time.Duration, gzip bool) (*bareRun, error) {
	out := filepath.Join(dir, "bare.warc.gz")
	defer os.Remove(out)
	args := []string{"-urls", urls, "-addr", w.HTTP, "-c", strconv.Itoa(conns), "-d", d.String(), "-o", out}
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
