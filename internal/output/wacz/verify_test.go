package wacz

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// verified returns the problems of a WACZ as text.
func verified(t testing.TB, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	w := must.Get(Open(bytes.NewReader(b), int64(len(b))))(t)
	rep := must.Get(w.Verify(t.Context()))(t)
	var all strings.Builder
	for _, p := range rep.Problems {
		fmt.Fprintln(&all, p)
	}
	if rep.OK() != (rep.Errors == 0) || rep.Records == 0 && all.Len() == 0 {
		t.Errorf("the report is %+v", rep)
	}
	return all.String()
}

// TestVerify: a WACZ that Write has made has no fault, and each change of it has one that names the entry.
func TestVerify(t *testing.T) {
	path := packed(t, 600)
	if got := verified(t, path); got != "" {
		t.Errorf("of a whole file: %s", got)
	}
	edit := func(entry string, change func(b []byte) []byte) func(*zip.FileHeader, []byte) []byte {
		return func(h *zip.FileHeader, b []byte) []byte {
			if strings.HasPrefix(h.Name, entry) {
				return change(b)
			}
			return b
		}
	}
	replace := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
	}
	same := func(b []byte) []byte { return b }
	none := func([]byte) []byte { return nil }
	first := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for name, c := range map[string]struct {
		change func(*zip.FileHeader, []byte) []byte
		more   []string
		want   string
	}{
		"a byte of a WARC file": {edit("archive/", first), nil, "does not have the SHA-256 in"},
		"a byte of the pages":   {edit("pages/", first), nil, `"pages/pages.jsonl" does not have the SHA-256`},
		"a longer file":         {edit("pages/", replace("\n", "\n\n")), nil, "bytes, and datapackage.json says"},
		"no pages":              {edit("pages/", none), nil, `there is no "pages/pages.jsonl", which`},
		"one more file":         {edit("", same), []string{"archive/x.warc.gz"}, `does not list "archive/x.warc.gz"`},
		"another package":       {edit("datapackage.json", replace("{", "{ ")), nil, "does not have the digest in"},
		"no digest":             {edit("datapackage-digest.json", none), nil, "there is no datapackage-digest"},
		"another kind": {edit("datapackage.json", replace("sha256:", "md5:")), nil,
			"and only sha256 is compared"},
		"a name outside": {edit("datapackage.json", replace("pages/pages.jsonl", "../../etc/passwd")), nil,
			`there is no "../../etc/passwd"`},
		"two entries": {edit("", same), []string{"pages/pages.jsonl"}, `"pages/pages.jsonl" is there, or in`},
		"no resources": {edit("datapackage.json", func([]byte) []byte { return []byte(`{"resources": {"a": 1}}`) }),
			nil, "error: datapackage.json: json: cannot unmarshal"},
		"absurd sizes": {edit("datapackage.json", replace(`"bytes": `, `"bytes": -9`)), nil, "says -9"},
	} {
		if got := verified(t, repack(t, path, c.change, c.more...)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	b := must.Get(os.ReadFile(path))(t)
	w := must.Get(Open(bytes.NewReader(b), int64(len(b))))(t)
	if _, err := w.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestVerifyBombs: entries that unpack to much, and entries that share their bytes, cost no more than the file is long.
func TestVerifyBombs(t *testing.T) {
	path := packed(t, 3)
	bomb := repack(t, path, func(h *zip.FileHeader, b []byte) []byte {
		if strings.HasPrefix(h.Name, "archive/") {
			h.Method = zip.Deflate
			return make([]byte, maxUnpacked+1)
		}
		return b
	})
	if got := verified(t, bomb); !strings.Contains(got, "the compressed entries have more than 268435456 bytes") {
		t.Errorf("a bomb: %s", got)
	}
	var files bytes.Buffer
	z := zip.NewWriter(&files)
	list := `{"resources": [{"path": "archive/a", "hash": "sha256:0", "bytes": 900000}`
	for i := range 50 {
		list += fmt.Sprintf(`, {"path": "archive/%d", "hash": "sha256:0", "bytes": 900000}`, i)
	}
	must.Get(must.Get(z.CreateHeader(&zip.FileHeader{Name: "datapackage.json"}))(t).Write([]byte(list + "]}")))(t)
	must.Get(must.Get(z.CreateHeader(&zip.FileHeader{Name: "archive/a"}))(t).Write(make([]byte, 900_000)))(t)
	must.Do(t, z.Close())
	b := files.Bytes()
	w := must.Get(Open(bytes.NewReader(b), int64(len(b))))(t)
	for i := range 50 { // the same bytes under other names
		e := *w.all[1]
		e.Name = fmt.Sprintf("archive/%d", i)
		w.all = append(w.all, &e)
	}
	rep := must.Get(w.Verify(t.Context()))(t)
	if rep.Records > 1 || rep.Errors < 50 {
		t.Errorf("entries that overlap: %+v", rep)
	}
}

// TestUnpacked: the WARC files of a WACZ, or one of them, are listed without an index.
func TestUnpacked(t *testing.T) {
	path := packed(t, 3)
	f := NewFS(disk.OS)
	t.Cleanup(func() { f.Close() })
	w, warcs, err := f.Unpacked(t.Context(), path)
	if err != nil || w == nil || len(warcs) != 1 {
		t.Fatalf("%v, %q, %v", w, warcs, err)
	}
	if w, one, err := f.Unpacked(t.Context(), warcs[0]); err != nil || w != nil || !slices.Equal(one, warcs) {
		t.Errorf("one file: %v, %q, %v", w, one, err)
	}
	if info, err := f.Stat(warcs[0]); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	for _, other := range []string{filepath.Dir(path), filepath.Join(filepath.Dir(path), "x.warc.gz")} {
		if w, warcs, err := f.Unpacked(t.Context(), other); err != nil || w != nil || warcs != nil {
			t.Errorf("%s: %v, %q, %v", other, w, warcs, err)
		}
	}
	bare := repack(t, path, func(h *zip.FileHeader, b []byte) []byte {
		if strings.HasPrefix(h.Name, "archive/") {
			return nil
		}
		return b
	})
	if _, _, err := f.Unpacked(t.Context(), bare); !errors.Is(err, ErrNoWACZ) {
		t.Errorf("without a WARC file: %v", err)
	}
}
