package linklog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/crawl"

var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func open(t *testing.T, fs disk.FS, max int64) *Writer {
	t.Helper()
	w, err := Open(Config{Dir: dir, FS: fs, MaxBytes: max, Clock: testclock.At(start)})
	must.Do(t, err)
	return w
}

func newDisk(t *testing.T) *testdisk.Mem {
	t.Helper()
	mem := testdisk.NewMem()
	must.Do(t, errors.Join(mem.MkdirAll(dir, 0o755), mem.SyncDir("/")))
	return mem
}

// write writes a page of status 200 with links, each "target kind rel anchor".
// elsewhere stands for the links of a page whose links another agent has.
const elsewhere = "elsewhere"

func write(w *Writer, url string, after time.Duration, status int, links ...string) {
	var ls Links
	ls.Reset(status == 200)
	if len(links) == 1 && links[0] == elsewhere {
		ls.Reset(false)
		links = nil
	}
	for _, l := range links {
		f := append(strings.SplitN(l, " ", 4), "", "", "")
		ls.Add(f[0], f[1], []byte(f[2]), []byte(f[3]))
	}
	w.Write(&Line{URL: url, Time: start.Add(after), Status: status, Links: &ls})
}

func urls(t *testing.T, fs disk.FS) (us []string) {
	t.Helper()
	d, err := Read(fs, []string{dir}, func(p *PageLine) error {
		us = append(us, p.URL)
		return nil
	})
	if err != nil || d.Any() {
		t.Errorf("read: %+v, %v", d, err)
	}
	return us
}

func names(t *testing.T, fs disk.FS) (out []string) {
	t.Helper()
	entries, err := fs.ReadDir(dir + "/links")
	must.Do(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestLine(t *testing.T) {
	var ls Links
	ls.Reset(true)
	ls.Add("http://a.example/?a=1&b=\\", "a@href", []byte("nofollow"), []byte("a \"b\" é\x00\x1b\u0085\xff\u2028."))
	ls.Add("http://b.example/", "img@src", nil, nil)
	ls.Add("http://c.example/", "a@href", nil, []byte("c"))
	l := Line{URL: "http://a.example/", Time: start, Status: 200, Links: &ls}
	const want = `{"url":"http://a.example/","time":"2026-01-02T15:04:05.000Z","status":200,"links":[` +
		`["http://a.example/?a=1&b=\\","a@href","nofollow","a \"b\" é\u0000\u001b\u0085\ufffd` + "\u2028" + `."],` +
		`["http://b.example/","img@src"],["http://c.example/","a@href","","c"]]}` + "\n"
	got := l.appendTo(nil)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var p PageLine
	must.Do(t, p.parse(bytes.TrimSpace(got), false))
	wantPage := PageLine{URL: "http://a.example/", Time: start, Status: 200, linked: true, Links: []Link{
		{"http://a.example/?a=1&b=\\", "a@href", "nofollow", "a \"b\" é\x00\x1b\u0085\ufffd\u2028."},
		{"http://b.example/", "img@src", "", ""}, {"http://c.example/", "a@href", "", "c"},
	}}
	if diff := cmp.Diff(wantPage, p, cmp.AllowUnexported(PageLine{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	ls.Reset(false)
	l = Line{URL: "http://x.example/", Time: start, Status: -1, Error: "dns", Links: &ls}
	if got := string(l.appendTo(nil)); got != `{"url":"http://x.example/","time":"2026-01-02T15:04:05.000Z",`+
		`"status":-1,"error":"dns"}`+"\n" {
		t.Errorf("got %s", got)
	}
}

// Lines of other programs, and those that cannot be read the short way, are read like any JSON.
func TestOtherLines(t *testing.T) {
	want := PageLine{URL: "http://a.example/", Time: start, Status: 200, LeftOut: 3, linked: true,
		Links: []Link{{"http://b.example/", "a@href", "", "x"}}}
	for _, line := range []string{
		`{"url":"http://a.example/","time":"2026-01-02T15:04:05.000Z","status":200,` +
			`"links":[["http://b.example/","a@href","","x"]],"left_out":3}`,
		`{"time":"2026-01-02T15:04:05Z", "status":200, "links":[["http://b.example/","a@href",null,"x","more"]],` +
			`"new":{"a":[1]}, "left_out":3, "url":"http:\/\/a.example/"}`,
		`{"url":"http://a.example/","time":"2026-01-02T15:04:05.000Z","status":200,` +
			`"links":[["http://b.example/","a@href","","\u0078"]],"left_out":3}`,
	} {
		p := PageLine{Links: []Link{{"old", "old", "old", "old"}, {}}}
		if err := p.parse([]byte(line), false); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(want, p, cmp.AllowUnexported(PageLine{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", line, diff)
		}
	}
	var p PageLine
	for _, line := range []string{"", "{", "{}", `{"url":"http://a.example/"}`,
		`{"url":"","time":"2026-01-02T15:04:05Z"}`,
		`{"url":"http://a.example/","time":"yesterday","status":200}`,
		`{"url":"http://a.example/","time":"2026-01-02T15:04:05Z","status":200,"links":[["x"],]}`,
		`{"url":"http://a.example/","time":"2026-01-02T15:04:05Z","status":200,"links":["x"]}`,
		`{"url":"http://a.example/","time":"2026-01-02T15:04:05Z","status":200,"links":[["x"]]} ` + "x",
	} {
		if err := p.parse([]byte(line), false); err == nil {
			t.Errorf("%s: read as %+v", line, p)
		}
	}
}

// Any text gives one line of valid JSON, and invalid UTF-8 is replaced as package json does it.
func FuzzLine(f *testing.F) {
	f.Add("http://a.example/", "anchor \xc2\x85 \xf0\x9f\x92\xa9 \xed\xa0\x80")
	f.Fuzz(func(t *testing.T, url, anchor string) {
		var ls Links
		ls.Reset(true)
		ls.Add(url+"x", "a@href", nil, []byte(anchor+"x"))
		line := (&Line{URL: url, Time: start, Links: &ls}).appendTo(nil)
		if i := bytes.IndexByte(line, '\n'); i != len(line)-1 || bytes.ContainsAny(line[:i], "\x00\x1b\t\r") {
			t.Fatalf("%q", line)
		}
		var got struct {
			URL   string
			Links [][]string
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var p PageLine
		c := cursor{string(line[:len(line)-1])}
		if !c.page(&p) || p.URL != got.URL || p.Links[0].Anchor != got.Links[0][3] {
			t.Fatalf("%q is read as %+v", line, p)
		}
		valid := func(s string) string {
			b, _ := json.Marshal(s)
			var out string
			_ = json.Unmarshal(b, &out)
			return out
		}
		if got.URL != valid(url) || got.Links[0][3] != valid(anchor+"x") {
			t.Fatalf("got %q, want %q and %q", got, url, anchor)
		}
	})
}

func TestLinksAreBounded(t *testing.T) {
	var ls Links
	ls.Reset(true)
	long := strings.Repeat("x", 8<<10)
	for range 200_000 {
		ls.Add("http://a.example/"+long, "a@href", nil, nil)
	}
	if len(ls.buf) > maxLinks || ls.leftOut < 199_000 {
		t.Errorf("%d bytes, %d links left out", len(ls.buf), ls.leftOut)
	}
	mem := newDisk(t)
	w := open(t, mem, 0)
	w.Write(&Line{URL: "http://a.example/", Time: start, Status: 200, Links: &ls})
	must.Do(t, w.Close())
	d, err := Read(mem, []string{dir}, func(p *PageLine) error {
		if p.LeftOut+len(p.Links) != 200_000 {
			t.Errorf("%d links and %d left out", len(p.Links), p.LeftOut)
		}
		return nil
	})
	if d.Any() || err != nil {
		t.Error(d, err)
	}
	if ls.Reset(false); cap(ls.buf) > 128<<10 {
		t.Error("a large buffer is kept")
	}
}

func TestRotation(t *testing.T) {
	mem := newDisk(t)
	w := open(t, mem, 1000)
	var want []string
	for i := range 100 {
		u := fmt.Sprintf("http://a.example/%d", i)
		want = append(want, u)
		write(w, u, 0, 200, "http://b.example/ a@href")
		if i%3 == 0 {
			must.Do(t, w.Sync())
		}
		if got := urls(t, mem); i%3 == 0 && len(got) != len(want) {
			t.Fatalf("after a sync a reader sees %d lines of %d", len(got), len(want))
		}
	}
	must.Do(t, errors.Join(w.Close(), w.Close(), w.Flush(), w.Sync()))
	if got := urls(t, mem); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	files := names(t, mem)
	unfinished := func(s string) bool { return !strings.HasSuffix(s, ".jsonl.gz") }
	if len(files) < 5 || slices.ContainsFunc(files, unfinished) ||
		files[1] != "orbweaver-20260102150405000-00001-agent.jsonl.gz" {
		t.Errorf("files %q", files)
	}
	// Every gzip reader reads them.
	b, err := disk.ReadFile(mem, dir+"/links/"+files[0], 1<<20)
	must.Do(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	must.Do(t, err)
	var first PageLine
	if err := json.NewDecoder(z).Decode(&first); err != nil || first.URL != want[0] {
		t.Errorf("%+v, %v", first, err)
	}
	// The next run begins a new file, and removes it if it writes nothing.
	must.Do(t, open(t, mem, 1000).Close())
	if got := names(t, mem); !slices.Equal(got, files) {
		t.Errorf("files %q, want %q", got, files)
	}
}

// After a kill at any operation of the disk, each line that Flush has written is there once, and the files are whole.
// After a power failure the same holds for Sync.
func TestKills(t *testing.T) {
	for _, power := range []bool{false, true} {
		for at := int64(1); ; at++ {
			mem := newDisk(t)
			var kept atomic.Pointer[testdisk.Mem] // as the kill leaves it, which may come while a file is compressed
			fs := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if c.Change == at && c.Op.Changes() {
					if power {
						kept.Store(mem.Crash(uint64(at)))
					} else {
						kept.Store(mem.Clone())
					}
				}
				return testdisk.Fault{}
			})
			var promised []string
			w := open(t, fs, 300)
			for i := range 12 {
				u := fmt.Sprintf("http://a.example/%d", i)
				write(w, u, 0, 200, "http://b.example/ a@href")
				err := w.Flush()
				if err == nil && (power || i%4 == 3) {
					err = w.Sync()
				}
				must.Do(t, err)
				if kept.Load() == nil {
					promised = append(promised, u)
				}
			}
			must.Do(t, w.Close())
			left := kept.Load()
			if left == nil {
				if at < 30 {
					t.Errorf("only %d operations", at)
				}
				break
			}
			w = open(t, left, 300)
			must.Do(t, w.Close())
			got := urls(t, left)
			if len(got) < len(promised) || !slices.Equal(got[:len(promised)], promised) {
				t.Errorf("power %v, operation %d: got %q, want at least %q", power, at, got, promised)
			}
			if slices.Sort(got); len(slices.Compact(got)) < len(got) {
				t.Errorf("power %v, operation %d: lines twice: %q", power, at, got)
			}
			for _, n := range names(t, left) {
				if !strings.HasSuffix(n, gzSuffix) {
					t.Errorf("power %v, operation %d: %s is left", power, at, n)
				}
			}
		}
	}
}

// A full disk fails the writer with that error, and loses no flushed line.
func TestFullDisk(t *testing.T) {
	for at := int64(1); at < 60; at++ {
		mem := newDisk(t)
		failed := false
		fs := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
			if failed = failed || c.Change >= at && c.Op.Grows(); failed && c.Op.Grows() {
				return testdisk.Fault{Err: syscall.ENOSPC}
			}
			return testdisk.Fault{}
		})
		w, err := Open(Config{Dir: dir, FS: fs, MaxBytes: 300, Clock: testclock.At(start)})
		n := 0
		for ; err == nil && n < 12; n++ {
			write(w, fmt.Sprintf("http://a.example/%d", n), 0, 200)
			if err = w.Flush(); err == nil && n%4 == 3 {
				err = w.Sync()
			}
		}
		if w != nil {
			err = errors.Join(err, w.Close())
		}
		if failed && !disk.IsFull(err) || !failed && err != nil {
			t.Fatalf("operation %d: %v", at, err)
		}
		must.Do(t, open(t, mem, 300).Close())
		if got := urls(t, mem); len(got) < n-1 {
			t.Errorf("operation %d: %d lines of %d", at, len(got), n)
		}
	}
}

func TestDamage(t *testing.T) {
	mem := newDisk(t)
	w := open(t, mem, 0)
	for i := range 1000 {
		write(w, fmt.Sprintf("http://a.example/%d", i), 0, 200, fmt.Sprintf("http://b.example/%x a@href", i*i*i))
	}
	must.Do(t, w.Close())
	whole, err := disk.ReadFile(mem, dir+"/links/"+names(t, mem)[0], 1<<20)
	must.Do(t, err)
	put := func(name string, b []byte) {
		f, err := mem.OpenFile(dir+"/links/"+name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		must.Do(t, err)
		must.Get(f.Write(b))(t)
		f.Close()
	}
	put("x-20260102150405000-00001-a.jsonl.gz", whole[:len(whole)/2])
	put("x-20260102150405000-00002-a.jsonl.gz", []byte("no gzip"))
	put("x-20260102150405000-00003-a.jsonl.open", []byte("{}\nnull\n[]\n"+
		`{"url":"http://c.example/","time":"2026-01-02T15:04:05Z","status":200,"links":[["",""]]}`+"\n"+
		`{"url":"http://c.example/1","time":"2026-01-02T15:04:05Z","status":200,"links":[[]]}`+"\n"+
		strings.Repeat("x", maxLine+1)+"\n"+
		`{"url":"http://c.example/2","time":"2026-01-02T15:04:05Z","status":200}`+"\n"+`{"url":"http://c.ex`))
	put("other.txt", []byte("not ours\n"))
	n, last := 0, ""
	d, err := Read(mem, []string{dir}, func(p *PageLine) error {
		n, last = n+1, p.URL
		return nil
	})
	if err != nil || d.Lines != 6 || d.Files != 2 || last != "http://c.example/2" || n < 1200 ||
		!strings.Contains(d.First, "00001-a.jsonl.gz, line ") {
		t.Errorf("%d lines, the last %s; %+v, %v", n, last, d, err)
	}
}

func joined(t *testing.T, fs disk.FS, dirs []string, q Query) (out []string) {
	t.Helper()
	d, err := Join(fs, dirs, extsort.Config{FS: fs, Prefix: "/sort-", Memory: 4096}, q, func(j *Joined) error {
		s := fmt.Sprintf("%s <- %s %s", j.Target, j.Source, j.Kind)
		if j.Known {
			s += fmt.Sprintf(" %d%s", j.Status, j.Error)
		}
		if j.Rel != "" || j.Anchor != "" {
			s += fmt.Sprintf(" [%s] %s", j.Rel, j.Anchor)
		}
		out = append(out, s)
		return nil
	})
	if err != nil || d.Any() {
		t.Fatalf("%+v, %v", d, err)
	}
	return out
}

func TestJoin(t *testing.T) {
	mem := newDisk(t)
	w := open(t, mem, 0)
	write(w, "http://a.example/", 0, 200, "http://a.example/2 a@href  two", "http://b.example/ a@href nofollow b")
	write(w, "http://a.example/2", time.Second, 404)
	// Seen again: another text, and other links.
	write(w, "http://a.example/3", time.Second, 200, "http://a.example/old a@href")
	write(w, "http://a.example/3", 2*time.Second, 200, "http://a.example/2 a@href  new")
	// Not changed: the links hold.
	write(w, "http://a.example/4", time.Second, 200, "http://a.example/ link@href next")
	write(w, "http://a.example/4", 2*time.Second, 304)
	// Fetched again and sent to another agent, which has its links.
	write(w, "http://a.example/6", 0, 200, "http://a.example/old a@href")
	write(w, "http://a.example/6", 3*time.Second, 200, elsewhere)
	write(w, "http://a.example/7", 3*time.Second, 200, elsewhere)
	// No response: the links hold.
	write(w, "http://a.example/4", 3*time.Second, -2)
	// Gone: the links do not hold.
	write(w, "http://a.example/5", time.Second, 200, "http://a.example/old a@href")
	write(w, "http://a.example/5", 2*time.Second, 503)
	must.Do(t, w.Close())
	other := "/other"
	w, err := Open(Config{Dir: other, FS: mem})
	must.Do(t, err)
	write(w, "http://b.example/", 5*time.Second, 200, "http://a.example/5 a@href")
	write(w, "http://a.example/3", 0, 500) // older than the other agent's line
	write(w, "http://a.example/6", 2*time.Second, 200, "http://a.example/5 a@href  six")
	write(w, "http://a.example/7", 4*time.Second, 200, "http://a.example/6 a@href")
	must.Do(t, w.Flush())
	want := []string{
		"http://a.example/ <- http://a.example/4 link@href 200 [next] ",
		"http://a.example/2 <- http://a.example/ a@href 404 [] two",
		"http://a.example/2 <- http://a.example/3 a@href 404 [] new",
		"http://a.example/5 <- http://a.example/6 a@href 503 [] six",
		"http://a.example/5 <- http://b.example/ a@href 503",
		"http://a.example/6 <- http://a.example/7 a@href 200",
		"http://b.example/ <- http://a.example/ a@href 200 [nofollow] b",
	}
	dirs := []string{dir, other}
	if diff := cmp.Diff(want, joined(t, mem, dirs, Query{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	to := joined(t, mem, dirs, Query{To: []string{"https://a.example/2", "http://a.example/2"}})
	if diff := cmp.Diff(want[1:3], to); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	from := joined(t, mem, dirs, Query{From: []string{"http://a.example/"}})
	if diff := cmp.Diff([]string{want[1], want[6]}, from); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	must.Do(t, w.Close())
}

// Join gives what a map gives, for any lines, in any number of files.
func TestJoinAgainstMap(t *testing.T) {
	r := testseed.Rand(t)
	for range 20 {
		mem := newDisk(t)
		w := open(t, mem, 2000)
		status := map[string]int{}
		linksOf := map[string][]string{}
		for i := range 300 {
			u := fmt.Sprintf("http://a.example/%d", r.IntN(40))
			status[u] = []int{200, 200, 200, 304, 404}[r.IntN(5)]
			var links []string
			for range r.IntN(5) {
				links = append(links, fmt.Sprintf("http://a.example/%d a@href", r.IntN(50)))
			}
			switch kept := r.IntN(5) > 0; {
			case status[u] == 200 && !kept:
				links = []string{elsewhere}
			case status[u] == 200 || status[u] == 404:
				if status[u] == 404 {
					links = nil
				}
				linksOf[u] = links
			default:
				links = nil
			}
			write(w, u, time.Duration(r.IntN(2)+i)*time.Second, status[u], links...)
			if r.IntN(10) == 0 {
				must.Do(t, w.Sync())
			}
		}
		must.Do(t, w.Close())
		var want []string
		for u, links := range linksOf {
			for _, l := range links {
				to, kind, _ := strings.Cut(l, " ")
				s := to + " <- " + u + " " + kind
				if n, ok := status[to]; ok {
					s += fmt.Sprintf(" %d", n)
				}
				want = append(want, s)
			}
		}
		got := joined(t, mem, []string{dir}, Query{})
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
		for _, e := range entriesOf(t, mem, "/") {
			if strings.HasPrefix(e, "sort-") {
				t.Errorf("%s is left", e)
			}
		}
	}
}

func entriesOf(t *testing.T, fs disk.FS, dir string) (out []string) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	must.Do(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
