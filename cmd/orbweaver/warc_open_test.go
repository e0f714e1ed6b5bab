package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A running crawl may finish a file after a command has listed the files.
func TestFileFinishedMeanwhile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.warc.gz")
	must.Do(t, os.WriteFile(name, nil, 0o644))
	read := ""
	must.Do(t, withWARC(disk.OS, name+".open", func(f disk.File) error { read = f.Name(); return nil }))
	if read != name {
		t.Errorf("opened %q, want %q", read, name)
	}
}

// TestVerifyMore counts as more only what is asked for and not listed.
func TestVerifyMore(t *testing.T) {
	for _, c := range []struct {
		warnings, errors int
		asked            bool
		want             string
	}{
		{1010, 0, false, ""},
		{1010, 0, true, "and 10 more"},
		{0, 1010, false, "and 10 more"},
		{1010, 1, false, ""}, // the error takes the place of a warning
		{1010, 1, true, "and 11 more"},
		{1010, 1010, false, "and 10 more"},
	} {
		rep := &warc.Report{}
		for i := range c.warnings + c.errors {
			rep.Add(warc.Problem{Offset: warc.NoOffset, Text: "odd", Warning: i < c.warnings})
		}
		var out strings.Builder
		must.Do(t, (&WarcVerifyCmd{Warnings: c.asked}).print(&out, "a.warc", rep, nil))
		_, more, _ := strings.Cut(out.String(), "    and ")
		if more != "" {
			more = "and " + strings.TrimSuffix(more, "\n")
		}
		if listed := strings.Count(out.String(), "error: odd"); more != c.want || listed != min(c.errors, 1000) {
			t.Errorf("%+v: %q, and %d errors", c, more, listed)
		}
	}
}

// TestRefusedEntry: a file of a WACZ that cannot be read is an error of that file, and the commands go on.
func TestRefusedEntry(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.wacz")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(h *zip.FileHeader, content string) {
		w := must.Get(z.CreateRaw(h))(t)
		must.Get(io.WriteString(w, content))(t)
	}
	stored := func(name, content string) {
		add(&zip.FileHeader{Name: name, CompressedSize64: uint64(len(content)),
			UncompressedSize64: uint64(len(content))}, content)
	}
	stored("datapackage.json", "{}")
	add(&zip.FileHeader{Name: "archive/a.warc", Method: zip.Deflate, CompressedSize64: 4, UncompressedSize64: 1 << 40},
		"bomb")
	stored("archive/b.warc", "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:x>\r\n"+
		"WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Target-URI: http://b.example/\r\nContent-Length: 0\r\n\r\n\r\n\r\n")
	must.Do(t, z.Close())
	must.Do(t, os.WriteFile(name, b.Bytes(), 0o644))
	for verb, c := range map[string]struct {
		run  func(out, errs io.Writer) error
		want []string
	}{
		"verify": {func(out, errs io.Writer) error {
			return (&WarcVerifyCmd{Files: []string{name}}).verify(t.Context(), out, errs)
		}, []string{"error: cannot be read: the entry is compressed", "/archive/b.warc", "/datapackage.json"}},
		"ls": {func(out, errs io.Writer) error {
			return (&WarcLsCmd{Files: []string{name}}).list(t.Context(), out, errs)
		}, []string{"/archive/a.warc: cannot be read: the entry is compressed", "http://b.example/"}},
		"index": {func(out, errs io.Writer) error {
			return (&WarcIndexCmd{Files: []string{name}}).index(t.Context(), out, errs)
		}, []string{"/archive/a.warc: cannot be read: the entry is compressed", "example,b)/ 20260102030405"}},
	} {
		var out strings.Builder
		err := c.run(&out, &out)
		if e, ok := errors.AsType[*exitError](err); err == nil || ok && e.code != exitOther {
			t.Errorf("%s: %v", verb, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "invalid argument") {
				t.Errorf("%s: %s\nwant %q", verb, out.String(), want)
			}
		}
	}
}
