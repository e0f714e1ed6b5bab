package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
)

// TestReadingStops: a command that reads files ends with its context, without a result and without a word about damage.
func TestReadingStops(t *testing.T) {
	dir := testarchive.Write(t, map[string]string{"http://a.example/": "text/html\nx"})
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must.Do(t, os.RemoveAll(filepath.Join(dir, "indexes")))
	must.Do(t, os.RemoveAll(filepath.Join(dir, "state")))
	must.Do(t, os.Mkdir(filepath.Join(dir, "links"), 0o755))
	const line = `{"url":"http://a.example/","time":"2026-01-01T00:00:00Z","status":200,` +
		`"links":[["http://a.example/x","a@href","",""]]}` + "\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "links", "a.jsonl.open"), []byte(line), 0o644))
	for name, run := range map[string]func(ctx context.Context, out, errs io.Writer) error{
		"ls":             (&WarcLsCmd{Files: files}).list,
		"verify":         (&WarcVerifyCmd{Files: files, JSON: true}).verify,
		"index a file":   (&WarcIndexCmd{Files: files}).index,
		"index a crawl":  (&WarcIndexCmd{Files: []string{dir}}).index,
		"extract by URL": (&WarcExtractCmd{File: files[0], URL: "http://a.example/"}).extract,
		"links": func(ctx context.Context, out, errs io.Writer) error {
			return (&LinksCmd{Dirs: []string{dir}, JSON: true}).print(ctx, out, errs, nil, nil)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs bytes.Buffer
		if err := run(ctx, cli.NewOutput(&out), &errs); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
		if errs.Len() > 0 || name != "ls" && out.Len() > 0 { // ls begins with the names of the columns
			t.Errorf("%s printed %q and %q", name, out.String(), errs.String())
		}
		if err := run(t.Context(), io.Discard, &errs); err != nil {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}
