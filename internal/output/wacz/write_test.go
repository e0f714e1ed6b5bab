package wacz_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// crawl writes n pages into a crawl directory of the agent: one seed, and what it links to. It returns the names of its
// WARC files.
func crawl(t *testing.T, fsys disk.FS, dir, agent string, n int) (files []string) {
	t.Helper()
	w, _, err := warc.Open(warc.Config{Dir: dir, Agent: agent, FS: fsys, Clock: fixed{}})
	must.Do(t, err)
	for i := range n {
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n"
		body := fmt.Sprintf("<title>Page\xe9 %s %d &amp; more</title><p>%d", agent, i, i*i)
		meta := []warc.Field{{Name: "via", Value: "http://a.example/"}, {Name: "hopsFromSeed", Value: "L"}}
		switch {
		case i == 0:
			meta = []warc.Field{{Name: "seed"}}
		case i%10 == 8: // an image
			head, body = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", fmt.Sprintf("png %d", i)
		case i%10 == 9:
			head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"
		}
		x := warc.Exchange{URL: fmt.Sprintf("http://%s.example/%d", agent, i), HTTP: true, HeadLen: len(head),
			Began: began.Add(time.Duration(i) * time.Second), Metadata: meta,
			Request:  []byte("GET / HTTP/1.1\r\nAuthorization: [redacted]\r\n\r\n"),
			Response: warc.Bytes(head + body)}
		_, err := w.Write(&x)
		must.Do(t, err)
	}
	must.Do(t, w.Close())
	fs := fsys
	if fs == nil {
		fs = disk.OS
	}
	entries, err := fs.ReadDir(filepath.Join(dir, "archive"))
	must.Do(t, err)
	for _, e := range entries {
		files = append(files, filepath.Join(dir, "archive", e.Name()))
	}
	return files
}

type fixed struct{}

func (fixed) Now() time.Time { return began }

// A judged is a WACZ as a reader sees it that shares nothing with the writer.
type judged struct {
	entries map[string][]byte
	order   []string
	pack    struct {
		Profile, WACZVersion, Created, Title, MainPageURL string
		Resources                                         []struct {
			Name, Path, Hash string
			Bytes            int
		}
	}
	lines []string         // of the index
	pages []map[string]any // of both lists
}

// judge reads a WACZ and checks its structure.
func judge(t *testing.T, b []byte) (j judged) {
	t.Helper()
	z := must.Get(zip.NewReader(bytes.NewReader(b), int64(len(b))))(t)
	j.entries = map[string][]byte{}
	for _, f := range z.File {
		if _, twice := j.entries[f.Name]; twice {
			t.Errorf("two entries are called %s", f.Name)
		}
		if (strings.HasPrefix(f.Name, "archive/") || strings.HasSuffix(f.Name, ".gz")) && f.Method != zip.Store {
			t.Errorf("%s is compressed in the ZIP file", f.Name)
		}
		r := must.Get(f.Open())(t)
		j.entries[f.Name] = must.Get(io.ReadAll(r))(t)
		j.order = append(j.order, f.Name)
	}
	manifest := j.entries["datapackage.json"]
	var named map[string]any
	must.Do(t, json.Unmarshal(manifest, &named))
	if named["wacz_version"] != "1.1.1" || named["profile"] != "data-package" || named["software"] != "test 1" {
		t.Errorf("datapackage.json has %v", named)
	}
	must.Do(t, json.Unmarshal(manifest, &j.pack))
	var digest struct{ Path, Hash string }
	must.Do(t, json.Unmarshal(j.entries["datapackage-digest.json"], &digest))
	if digest.Path != "datapackage.json" || digest.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(manifest)) {
		t.Errorf("the digest is %+v", digest)
	}
	listed := map[string]bool{"datapackage.json": true, "datapackage-digest.json": true}
	names := map[string]bool{}
	for _, r := range j.pack.Resources {
		b := j.entries[r.Path]
		if r.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(b)) || r.Bytes != len(b) || names[r.Name] ||
			strings.ToLower(r.Name) != r.Name {
			t.Errorf("the resource %+v is not the entry, which has %d bytes", r, len(b))
		}
		listed[r.Path], names[r.Name] = true, true
	}
	for name := range j.entries {
		if !listed[name] {
			t.Errorf("datapackage.json does not list %s", name)
		}
	}
	j.index(t)
	for _, name := range []string{"pages/pages.jsonl", "pages/extraPages.jsonl"} {
		in := bufio.NewScanner(bytes.NewReader(j.entries[name]))
		for first := true; in.Scan(); first = false {
			var line map[string]any
			must.Do(t, json.Unmarshal(in.Bytes(), &line))
			if first {
				if line["format"] != "json-pages-1.0" {
					t.Errorf("%s begins with %v", name, line)
				}
				continue
			}
			if (line["seed"] == true) != (name == "pages/pages.jsonl") {
				t.Errorf("%s has %v", name, line)
			}
			j.pages = append(j.pages, line)
		}
	}
	return j
}

// index reads the index, and the record of each line.
func (j *judged) index(t *testing.T) {
	t.Helper()
	text, small := j.entries["indexes/index.cdx"]
	if !small {
		offset := 0
		for i, line := range strings.Split(strings.TrimSpace(string(j.entries["indexes/index.idx"])), "\n") {
			_, object, _ := strings.Cut(line, "{")
			var e struct {
				Format, Digest, Filename string
				Offset, Length           int
			}
			must.Do(t, json.Unmarshal([]byte("{"+object), &e))
			if i == 0 {
				if e.Format != "cdxj-gzip-1.0" || e.Filename != "index.cdx.gz" {
					t.Errorf("the idx begins with %q", line)
				}
				continue
			}
			block := j.entries["indexes/index.cdx.gz"][e.Offset : e.Offset+e.Length]
			if e.Offset != offset || e.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(block)) {
				t.Errorf("the block of %q begins at %d", line, offset)
			}
			offset += e.Length
			r := must.Get(gzip.NewReader(bytes.NewReader(block)))(t)
			lines := must.Get(io.ReadAll(r))(t)
			if key, _, _ := strings.Cut(line, " {"); !strings.HasPrefix(string(lines), key) {
				t.Errorf("the block of %q begins with %.60q", line, lines)
			}
			text = append(text, lines...)
		}
	}
	j.lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if small != (len(text) <= 50_000) || !slices.IsSorted(j.lines) {
		t.Errorf("the index has %d bytes; small: %v; sorted: %v", len(text), small, slices.IsSorted(j.lines))
	}
	for _, line := range j.lines {
		_, object, _ := strings.Cut(line, " {")
		var e struct{ URL, Filename, Offset, Length string }
		must.Do(t, json.Unmarshal([]byte("{"+object), &e))
		var offset, length int
		fmt.Sscan(e.Offset, &offset)
		fmt.Sscan(e.Length, &length)
		r := must.Get(gzip.NewReader(bytes.NewReader(j.entries["archive/"+e.Filename][offset : offset+length])))(t)
		if rec := string(must.Get(io.ReadAll(r))(t)); !strings.Contains(rec, "WARC-Target-URI: "+e.URL+"\r\n") {
			t.Errorf("the record of %s is %.100q", line, rec)
		}
	}
}

func config(out string, files ...string) wacz.Config {
	return wacz.Config{WARCs: files, Out: out, Software: "test 1"}
}

// TestWrite: two agents' archives, small and large, in any order, give one WACZ whose parts agree.
func TestWrite(t *testing.T) {
	for _, n := range []int{3, 700} {
		dir := t.TempDir()
		a := crawl(t, nil, filepath.Join(dir, "a"), "a", n)
		b := crawl(t, nil, filepath.Join(dir, "b"), "b", n)
		out := filepath.Join(dir, "out.wacz")
		res, err := wacz.Write(t.Context(), config(out, a[0], b[0]))
		must.Do(t, err)
		text := must.Get(os.ReadFile(out))(t)
		j := judge(t, text)
		if int64(len(j.lines)) != res.Lines || res.Lines != int64(2*n) || int64(len(j.pages)) != res.Seeds+res.Extra ||
			res.Seeds != 2 || res.WARCs != 2 || res.Bytes != int64(len(text)) {
			t.Errorf("%d lines and %d pages, result %+v", len(j.lines), len(j.pages), res)
		}
		original := must.Get(os.ReadFile(a[0]))(t)
		if !bytes.Equal(j.entries["archive/"+filepath.Base(a[0])], original) {
			t.Error("a WARC file has changed")
		}
		if p := j.pages[0]; p["title"] != "Pageé a 0 & more" || p["ts"] != "2026-05-04T03:02:01Z" ||
			p["depth"] != 0.0 || p["url"] != "http://a.example/0" || p["mime"] != "text/html" || p["status"] != 200.0 ||
			p["id"] == "" {
			t.Errorf("the first page is %v", p)
		}
		last := began.Add(time.Duration(n-1) * time.Second).Format(time.RFC3339)
		if j.pack.Title != "Pageé a 0 & more" || j.pack.MainPageURL != "http://a.example/0" || j.pack.Created != last {
			t.Errorf("%+v", j.pack)
		}
		again := filepath.Join(dir, "again.wacz")
		_, err = wacz.Write(t.Context(), config(again, b[0], a[0]))
		must.Do(t, err)
		if !bytes.Equal(must.Get(os.ReadFile(again))(t), text) {
			t.Error("the same archives give other bytes")
		}
		if _, err := wacz.Write(t.Context(), config(out, a[0])); !errors.Is(err, wacz.ErrExists) {
			t.Errorf("over another file: %v", err)
		}
		if left := must.Get(filepath.Glob(filepath.Join(dir, "*.partial")))(t); left != nil {
			t.Errorf("left: %q", left)
		}
	}
}

// TestNames: files with the same name, plain files and an unfinished file come in; of the last, its whole records.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	a := crawl(t, nil, filepath.Join(dir, "a"), "a", 5)[0]
	packed := must.Get(os.ReadFile(a))(t)
	plain := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(packed)))(t)))(t)
	one, two := filepath.Join(dir, "x.warc.gz"), filepath.Join(dir, "d", "x.warc.gz.open")
	must.Do(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must.Do(t, os.WriteFile(one, packed, 0o644))
	cut := packed[:len(packed)-10]
	must.Do(t, os.WriteFile(two, cut, 0o644))
	logs := filepath.Join(dir, "crawl.log")
	must.Do(t, os.WriteFile(logs, []byte("one\ntwo\nthr"), 0o644))
	cfg := config(filepath.Join(dir, "out.wacz"), one, two)
	cfg.Logs = map[string]string{"crawl.log": logs}
	res, err := wacz.Write(t.Context(), cfg)
	must.Do(t, err)
	j := judge(t, must.Get(os.ReadFile(cfg.Out))(t))
	whole := j.entries["archive/x~1.warc.gz"]
	if res.Lines != 10 || len(whole) == 0 || !bytes.HasPrefix(cut, whole) || res.Flaws.Places != nil {
		t.Errorf("%+v; %d bytes of %d; %q", res, len(whole), len(cut), j.order)
	}
	if text := string(j.entries["logs/crawl.log"]); text != "one\ntwo\n" {
		t.Errorf("the log has %q", text)
	}
	if text := string(plain); !strings.Contains(text, "Authorization: [redacted]") {
		t.Error("the archive has no redacted header")
	}
	// Damage in a finished file is copied and named.
	half := len(packed) / 2
	must.Do(t, os.WriteFile(one, slices.Concat(packed[:half], []byte("damage"), packed[half:]), 0o644))
	cfg = config(filepath.Join(dir, "damaged.wacz"), one)
	if res, err := wacz.Write(t.Context(), cfg); err != nil || res.Flaws.Places == nil || res.Lines == 0 {
		t.Errorf("%+v, %v", res, err)
	}
	j = judge(t, must.Get(os.ReadFile(cfg.Out))(t))
	if !bytes.Equal(j.entries["archive/x.warc.gz"], must.Get(os.ReadFile(one))(t)) {
		t.Error("a damaged file is not in the WACZ as it is")
	}
	must.Do(t, os.WriteFile(one, nil, 0o644))
	cfg = config(filepath.Join(dir, "empty.wacz"), one)
	if _, err := wacz.Write(t.Context(), cfg); !errors.Is(err, wacz.ErrNothing) {
		t.Errorf("of an empty file: %v", err)
	}
}

// TestTitles: a title is found where it stands, and later text of the page decides how it is read.
func TestTitles(t *testing.T) {
	long := strings.Repeat("<p>text</p>", 1000) // more than is read first
	page := func(head, body string) string { return "HTTP/1.1 200 OK\r\n" + head + "\r\n" + body }
	for name, c := range map[string]struct{ response, want string }{
		"first":  {page("Content-Type: text/html\r\n", "<title>One</title>"+long+"<title>Two</title>"), "One"},
		"late":   {page("Content-Type: text/html\r\n", long+"<title>Late</title>"), "Late"},
		"across": {page("Content-Type: text/html\r\n", long[:8180]+"<title>Across</title>"+long), "Across"},
		"long":   {page("Content-Type: text/html\r\n", "<title>"+long[:8185]+"</title>"+long), long[:512]},
		"late encoding": {page("Content-Type: text/html\r\n", "<title>\xc3\xa9</title>"+long+"<meta charset=utf-8>"),
			"é"},
		"known encoding": {page("Content-Type: text/html; charset=utf-8\r\n", "<title>\xc3\xa9</title>"+long), "é"},
		"none":           {page("Content-Type: text/html\r\n", long), ""},
		"no page":        {page("Content-Type: text/plain\r\n", "<title>One</title>"+long), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w, _, err := warc.Open(warc.Config{Dir: dir, Clock: fixed{}})
			must.Do(t, err)
			x := warc.Exchange{URL: "http://a.example/", HTTP: true, HeadLen: strings.Index(c.response, "\r\n\r\n") + 4,
				Began: began, Metadata: []warc.Field{{Name: "seed"}}, Response: warc.Bytes(c.response)}
			must.Get(w.Write(&x))(t)
			must.Do(t, w.Close())
			files := must.Get(filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz")))(t)
			cfg := config(filepath.Join(dir, "out.wacz"), files...)
			must.Get(wacz.Write(t.Context(), cfg))(t)
			j := judge(t, must.Get(os.ReadFile(cfg.Out))(t))
			title, _ := j.pages[0]["title"].(string)
			if len(j.pages) != 1 || title != c.want && !(c.want != "" && strings.HasPrefix(title, c.want)) {
				t.Errorf("the pages are %v, want the title %q", j.pages, c.want)
			}
		})
	}
}

// TestSize: several WACZ files of a bounded size have each WARC file once, and a list that agrees.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	var files []string
	size := int64(0)
	for _, agent := range []string{"a", "b", "c", "d", "e"} {
		file := crawl(t, nil, filepath.Join(dir, agent), agent, 20)[0]
		size = max(size, must.Get(os.Stat(file))(t).Size())
		files = append(files, file)
	}
	cfg := config(filepath.Join(dir, "out.wacz"), files...)
	old := filepath.Join(dir, "out-00003.wacz") // of an earlier list
	must.Do(t, os.WriteFile(old, nil, 0o644))
	cfg.Size = 2 * size
	if _, err := wacz.Write(t.Context(), cfg); !errors.Is(err, wacz.ErrExists) {
		t.Fatalf("with a file of an earlier list, without Overwrite: %v", err)
	}
	must.Get(os.Stat(old))(t)
	cfg.Overwrite = true
	res, err := wacz.Write(t.Context(), cfg)
	if err != nil || len(res.Files) != 3 || res.Lines != 100 {
		t.Fatalf("%+v, %v", res, err)
	}
	lines := 0
	for _, file := range res.Files {
		lines += len(judge(t, must.Get(os.ReadFile(file))(t)).lines)
	}
	var list struct {
		Profile   string
		Resources []struct{ Path, Hash string }
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, "out.json")))(t), &list))
	for i, r := range list.Resources {
		b := must.Get(os.ReadFile(filepath.Join(dir, r.Path)))(t)
		if filepath.Join(dir, r.Path) != res.Files[i] || r.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(b)) {
			t.Errorf("the list has %+v", r)
		}
	}
	if _, err := os.Stat(old); lines != 100 || list.Profile != "multi-wacz-package" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d lines, list %+v, old file: %v", lines, list, err)
	}
}

// TestKilled: wherever the process is killed or the power fails, the old WACZ or the new one is there, whole, and the
// next call succeeds.
func TestKilled(t *testing.T) {
	mem := testdisk.NewMem()
	files := crawl(t, mem, "/c", "a", 30)
	cfg := config("/out.wacz", files...)
	cfg.In, cfg.FS, cfg.Overwrite = mem, mem, true
	must.Do(t, disk.WriteFile(mem, "/out.wacz", []byte("old")))
	want := mem.Clone()
	fresh := config("/new.wacz", files...)
	fresh.In, fresh.FS = want, want
	_, err := wacz.Write(t.Context(), fresh)
	must.Do(t, err)
	whole := must.Get(disk.ReadFile(want, "/new.wacz", 1<<20))(t)
	for at := 0; ; at++ {
		crash := mem.Clone()
		n := 0
		faulty := testdisk.NewFaulty(crash, func(c testdisk.Call) testdisk.Fault {
			if n++; n > at {
				return testdisk.Fault{Err: errors.New("killed")}
			}
			return testdisk.Fault{}
		})
		cfg.In, cfg.FS = mem, faulty
		_, err := wacz.Write(t.Context(), cfg)
		after := crash.Clone() // without the locks of the process
		for _, m := range []*testdisk.Mem{after, crash.Crash(uint64(at))} {
			b := must.Get(disk.ReadFile(m, "/out.wacz", 1<<20))(t)
			if string(b) != "old" && !bytes.Equal(b, whole) {
				t.Fatalf("killed at call %d: the file has %d bytes", at, len(b))
			}
		}
		cfg.FS = after
		if _, err := wacz.Write(t.Context(), cfg); err != nil {
			t.Fatalf("after a kill at call %d: %v", at, err)
		}
		if b := must.Get(disk.ReadFile(after, "/out.wacz", 1<<20))(t); !bytes.Equal(b, whole) {
			t.Fatalf("after a kill at call %d: %d bytes", at, len(b))
		}
		if err == nil {
			return
		}
	}
}

// TestStopped: a stop leaves nothing.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	files := crawl(t, nil, dir, "a", 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(dir, "out.wacz")
	if _, err := wacz.Write(ctx, config(out, files...)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := must.Get(filepath.Glob(out + "*"))(t); left != nil {
		t.Errorf("left: %q", left)
	}
}
