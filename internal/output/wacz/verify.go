package wacz

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/warc"
)

// Unpacked opens the WACZ that path names, or that has the file path (FILE.wacz/archive/NAME). It makes no index.
// warcs are the names in f of the WARC files, or of that file. w is nil if path names a file of a WACZ; warcs is nil,
// too, if path is neither.
func (f *FS) Unpacked(ctx context.Context, path string) (w *File, warcs []string, err error) {
	name, inner := path, ""
	if info, err := f.FS.Stat(path); !IsURL(path) && err == nil && info.IsDir() {
		return nil, nil, nil
	}
	if !Is(path) {
		dir := filepath.Dir(filepath.Dir(path))
		if info, err := f.FS.Stat(dir); !Is(dir) || err != nil || !info.Mode().IsRegular() {
			return nil, nil, nil
		}
		name, inner = dir, filepath.Clean(path)
	}
	p, w, err := f.mount(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if inner != "" {
		return nil, []string{inner}, nil
	}
	for entry := range w.entries {
		if strings.HasSuffix(entry, ".warc.gz") || strings.HasSuffix(entry, ".warc") {
			warcs = append(warcs, filepath.Join(p.Dir, entry))
		}
	}
	if warcs == nil {
		return w, nil, fmt.Errorf("%w: it has no WARC file", ErrNoWACZ)
	}
	slices.Sort(warcs)
	return w, warcs, nil
}

// Verify compares the entries with the sizes and digests that datapackage.json names, and datapackage.json with its own
// digest. Each file of archive/ must be listed. The report counts the listed files as records. Verify reads each byte
// of the file at most once, and unpacks at most 256 MiB. An error means that reading failed.
func (f *File) Verify(ctx context.Context) (*warc.Report, error) {
	rep := &warc.Report{Types: map[string]int64{}}
	wrong := func(format string, args ...any) {
		rep.Add(warc.Problem{Offset: warc.NoOffset, Text: fmt.Sprintf(format, args...)})
	}
	if f.Unsealed {
		wrong("datapackage.json does not have the digest in datapackage-digest.json")
	} else if !f.sealed {
		rep.Add(warc.Problem{Offset: warc.NoOffset, Warning: true,
			Text: "there is no datapackage-digest.json with a SHA-256"})
	}
	var list struct {
		Resources []resource `json:"resources"`
	}
	if err := json.Unmarshal(f.manifest, &list); err != nil {
		wrong("datapackage.json: %v", err)
		return rep, nil
	}
	entries, double, listed := map[string]*zip.File{}, map[string]bool{}, map[string]bool{}
	for _, e := range f.all {
		double[e.Name] = entries[e.Name] != nil
		entries[e.Name] = e
	}
	left, room := f.size, int64(maxUnpacked)
	for _, r := range list.Resources {
		e := entries[r.Path]
		switch {
		case double[r.Path] || listed[r.Path]:
			wrong("%.80q is there, or in datapackage.json, more than once", r.Path)
			continue
		case e == nil:
			wrong("there is no %.80q, which datapackage.json lists", r.Path)
			continue
		case e.CompressedSize64 > uint64(left):
			wrong("the entries overlap: %.80q is not checked", r.Path)
			continue
		}
		listed[r.Path] = true
		left -= int64(e.CompressedSize64)
		if e.Method != zip.Store {
			if e.UncompressedSize64 > uint64(room) {
				wrong("the compressed entries have more than %d bytes: %.80q is not checked", int64(maxUnpacked),
					r.Path)
				continue
			}
			room -= int64(e.UncompressedSize64)
		}
		text, err := f.differs(ctx, e, r)
		if err != nil {
			return rep, err
		}
		if text != "" {
			wrong("%.80q %s", r.Path, text)
		}
		rep.Records++
		rep.Bytes += int64(e.UncompressedSize64)
	}
	for _, e := range f.all {
		if strings.HasPrefix(e.Name, "archive/") && !strings.HasSuffix(e.Name, "/") && !listed[e.Name] {
			listed[e.Name] = true
			wrong("datapackage.json does not list %.80q", e.Name)
		}
	}
	return rep, nil
}

// differs says how an entry differs from what datapackage.json lists; empty: it does not.
func (f *File) differs(ctx context.Context, e *zip.File, r resource) (text string, err error) {
	if e.UncompressedSize64 != uint64(r.Bytes) {
		return fmt.Sprintf("has %d bytes, and datapackage.json says %d", e.UncompressedSize64, r.Bytes), nil
	}
	if !strings.HasPrefix(r.Hash, "sha256:") {
		return fmt.Sprintf("has the digest %.20q in datapackage.json, and only sha256 is compared", r.Hash), nil
	}
	sum := sha256.New()
	in, err := e.Open()
	if err == nil {
		bounded := &io.LimitedReader{R: in, N: r.Bytes + 1}
		for err == nil && ctx.Err() == nil {
			_, err = io.CopyN(sum, bounded, 1<<20)
		}
		in.Close() // it was only read
		if err == io.EOF && bounded.N > 0 {
			err = nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		if _, disk := errors.AsType[*fs.PathError](err); disk {
			return "", err
		}
		return "cannot be read: " + err.Error(), nil
	case fmt.Sprintf("sha256:%x", sum.Sum(nil)) != r.Hash:
		return "does not have the SHA-256 in datapackage.json", nil
	}
	return "", nil
}
