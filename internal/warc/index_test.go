package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestMerge compares the external sort with a sort in memory, and with a merge of what is sorted.
func TestMerge(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/t", 0o755))
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	var inputs, want []string
	for i := range 20 {
		r := runs{fs: mem, dir: "/t"}
		for range rnd.IntN(50) {
			line := fmt.Sprintf("com,h%d)/%s %d {}\n", rnd.IntN(9), strings.Repeat("x", rnd.IntN(200)), rnd.IntN(100))
			want = append(want, line)
			must.Do(t, r.put("", []byte(line)))
		}
		name := fmt.Sprintf("run%d", i)
		must.Do(t, r.finish(name))
		inputs = append(inputs, "/t/"+name+".cdxj")
	}
	slices.SortFunc(want, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, "\n"), strings.TrimSuffix(b, "\n"))
	})
	want = slices.Compact(want)
	q := extsort.New(mem, "/t/"+sortFiles, 4<<10, nil)
	must.Do(t, pushRuns(q, mem, append(inputs, "/t/absent.cdxj"), nil))
	var got, merged strings.Builder
	must.Do(t, writeLines(q, &got))
	must.Do(t, q.Close())
	if got.String() != strings.Join(want, "") {
		t.Errorf("seed %d: %d bytes, want %d", seed, got.Len(), len(strings.Join(want, "")))
	}
	must.Do(t, merge(mem, inputs, "", func(line []byte) (bool, error) {
		merged.Write(append(line, '\n'))
		return true, nil
	}))
	if merged.String() != got.String() {
		t.Errorf("seed %d: merged: %d bytes, want %d", seed, merged.Len(), got.Len())
	}
	entries, err := mem.ReadDir("/t")
	if err != nil || len(entries) != len(inputs) {
		t.Errorf("%d files are left (%v), want %d", len(entries), err, len(inputs))
	}
}

// TestManyRuns writes more index lines than a run holds in memory.
func TestManyRuns(t *testing.T) {
	mem := testdisk.NewMem()
	r := runs{fs: mem, dir: "/r"}
	must.Do(t, mem.MkdirAll("/r", 0o755))
	line := strings.Repeat("z", 9999)
	n := 3 * runBytes / 10000
	for i := range n {
		must.Do(t, r.put("a.warc.gz", fmt.Appendf(nil, "%08d%s\n", n-i, line[8:])))
	}
	must.Do(t, r.finish("a.warc.gz"))
	entries, err := mem.ReadDir("/r")
	must.Do(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"a.cdxj", "a.cdxj.0000", "a.cdxj.0001"}; !slices.Equal(names, want) {
		t.Errorf("runs %v, want %v", names, want)
	}
	must.Do(t, r.discard("b.warc.gz", 0))
	if entries, _ := mem.ReadDir("/r"); len(entries) != 3 {
		t.Errorf("discard removed the runs of another file")
	}
	must.Do(t, r.discard("a.warc.gz", 0))
	if entries, _ := mem.ReadDir("/r"); len(entries) != 0 {
		t.Errorf("discard left %d runs", len(entries))
	}
}

func TestRunOf(t *testing.T) {
	for in, want := range map[string]string{
		"a.cdxj": "a", "a.cdxj.0": "a", "a.5.cdxj": "a.5", "a.cdxj.12": "a", "a.cdxj.0012": "a",
		"a.cdxj.x": "", "a.cdxj.": "a", "a": "", "a.cdxj.tmp": "", "merge-0-1.part": "",
	} {
		if got := runOf(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var back string
		q := appendJSON(nil, s)
		if err := json.Unmarshal(q, &back); err != nil || back != s {
			t.Fatalf("%q became %s, %q (%v)", s, q, back, err)
		}
		if bytes.ContainsFunc(q, func(r rune) bool { return r < ' ' || r > 0x7e && r != 0x7f }) {
			t.Fatalf("%q is not ASCII: %s", s, q)
		}
	})
	if got, want := string(appendJSON(nil, "\xe9\"\n\U0001f600x")),
		`"\u00e9\"\n\u00f0\u009f\u0098\u0080x"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(appendJSON(nil, "é\U0001f600")), `"\u00e9\ud83d\ude00"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLineRoundTrip(t *testing.T) {
	l := Line{"com,example)/", "20240506070809", "http://example.com/\"", "text/html", "image/gif", "200", "ABC",
		12, 345, "a b.warc.gz", "UTF-8", "eng,fra", "length", "http://example.com/2",
		"LR", "http://example.com/3", "304", "http://example.com/4", "http://example.com/5", "a b", "DEF"}
	got, err := ParseLine(l.AppendTo(nil))
	if err != nil || got != l {
		t.Errorf("got %+v (%v), want %+v", got, err, l)
	}
	for _, bad := range []string{"", "a", "a b", "a b {", `a b {"offset":"x"}`, `a b {"offset":"1","length":"y"}`} {
		if _, err := ParseLine([]byte(bad)); err == nil {
			t.Errorf("ParseLine accepts %q", bad)
		}
	}
}

// TestLookup compares the binary search with a scan.
func TestLookup(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/c/indexes", 0o755))
	want := make(map[string]int)
	var all []byte
	rnd := rand.New(rand.NewPCG(3, 3))
	for i := range 3000 {
		url := fmt.Sprintf("http://h%d.example.com/%s", rnd.IntN(1000), strings.Repeat("p", rnd.IntN(100)))
		if i%7 == 0 {
			url = "http://popular.example.com/"
		}
		want[url]++
		all = Line{SURT: surt(url), Time: fmt.Sprint(20240000000000 + i), URL: url, Offset: int64(i),
			File: "f"}.AppendTo(all)
	}
	sorted := bytes.Join(sortLines(all), nil)
	must.Do(t, disk.WriteFile(mem, "/c/indexes/index.cdxj", sorted))
	for url, n := range want {
		found, err := Lookup(mem, Place{Dir: "/c"}, url)
		if err != nil || len(found) != n {
			t.Fatalf("%s: %d captures (%v), want %d", url, len(found), err, n)
		}
		for _, l := range found {
			if l.URL != url {
				t.Fatalf("%s: got a capture of %s", url, l.URL)
			}
		}
	}
	for _, url := range []string{"http://a.example/", "http://zzz.example/", "http://h1.example.com/none", "x"} {
		if found, err := Lookup(mem, Place{Dir: "/c"}, url); err != nil || len(found) != 0 {
			t.Errorf("%s: got %v (%v), want no capture", url, found, err)
		}
	}
}

// TestForeignFileIsIndexed checks that BuildIndex also indexes a WARC file that another program put into the archive.
func TestForeignFileIsIndexed(t *testing.T) {
	mem := testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS = mem
	writeAll(t, cfg, everyKind()[:1])
	must.Do(t, disk.WriteFile(mem, "/c/archive/theirs.warc.gz", []byte(gzipped(plainRecord))))
	for range 2 { // the second time BuildIndex uses the run of the first
		must.Do(t, BuildIndex(mem, "/c"))
		got, err := disk.ReadFile(mem, "/c/indexes/index.cdxj", 1<<20)
		must.Do(t, err)
		sc := bufio.NewScanner(bytes.NewReader(got))
		var keys []string
		for sc.Scan() {
			keys = append(keys, strings.Fields(sc.Text())[0])
		}
		if want := []string{"com,example)/", "example,a)/"}; !slices.Equal(keys, want) {
			t.Errorf("keys %v, want %v", keys, want)
		}
	}
	entries, err := mem.ReadDir("/c/state/index")
	if err != nil || len(entries) != 2 {
		t.Errorf("got %d runs (%v), want 2", len(entries), err)
	}
	f, err := OpenWARC(mem, "/c", "theirs.warc.gz")
	must.Do(t, err)
	f.Close()
	if _, err := OpenWARC(mem, "/c", filepath.Join("..", "crawl.yaml")); err == nil {
		t.Error("OpenWARC opens a file outside the archive")
	}
}

// TestRevisitsModel compares the table with a map: every entry that it finds is right, and it finds the entry that was
// added last.
func TestRevisitsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 20000).Draw(t, "limit")
		r := newRevisits(limit)
		model := make(map[[20]byte]Original)
		n := rapid.IntRange(1, 300).Draw(t, "n")
		for i := range n {
			var d [20]byte
			d[0] = byte(rapid.IntRange(0, 255).Draw(t, "digest"))
			d[9] = d[0] & 1
			o := Original{URL: strings.Repeat("u", i%90), Date: time.UnixMilli(int64(i)), ID: [16]byte{byte(i)}}
			got, ok := r.find(&d)
			if ok && (got.URL != model[d].URL || !got.Date.Equal(model[d].Date) || got.ID != model[d].ID) {
				t.Fatalf("step %d: got %v, want %v", i, got, model[d])
			}
			if !ok {
				model[d] = o
				r.add(&d, o)
				if got, ok := r.find(&d); !ok || got.URL != o.URL {
					t.Fatalf("step %d: the entry just added is found as %v %v", i, got, ok)
				}
			}
			size := 0
			for _, g := range [...]*generation{&r.young, &r.old} {
				size += 8 * len(g.slots)
				for _, p := range g.pieces {
					size += cap(p)
				}
			}
			if size > int(limit) {
				t.Fatalf("step %d: the table takes %d bytes, want at most %d", i, size, limit)
			}
		}
	})
}

// TestLongFieldsStayOut checks that index lines stay short, although servers choose what is in their headers. The
// Writer and the indexer produce the same line.
func TestLongFieldsStayOut(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	mem := testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS = mem
	writeAll(t, cfg, []*Exchange{page("http://a.example/",
		"HTTP/1.1 200 OK\nContent-Type: text/"+long+"; charset=utf-8", "hello")})
	build := func() []byte {
		t.Helper()
		must.Do(t, BuildIndex(mem, "/c"))
		b, err := disk.ReadFile(mem, "/c/indexes/index.cdxj", 1<<20)
		must.Do(t, err)
		return b
	}
	ours := build() // from the writer's lines
	must.Do(t, mem.RemoveAll("/c/state/index"))
	if again := build(); !bytes.Equal(ours, again) {
		t.Errorf("the indexer produces\n%.500s\nthe Writer\n%.500s", again, ours)
	}
	if l, err := ParseLine(ours); err != nil || l.MIME != "unk" || l.Status != "200" || len(ours) > 1000 {
		t.Errorf("got a line of %d bytes, %+v, %v; want a short one without the type", len(ours), l, err)
	}
	l := Line{URL: "http://a.example/", MIME: "text/html", Detected: long, Status: long, Digest: long}
	if got := l.AppendTo(nil); len(got) > 1000 || !bytes.Contains(got, []byte(`"mime": "text/html", "length"`)) {
		t.Errorf("got a line of %d bytes, want a short one with the type: %.300s", len(got), got)
	}
}
