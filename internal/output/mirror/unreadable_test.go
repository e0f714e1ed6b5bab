package mirror

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
)

// A record that cannot be read costs its own content alone.
func TestUnreadable(t *testing.T) {
	const six = "Content-Encoding: gzip, gzip, gzip, gzip, gzip, gzip\r\n\r\nx"
	pages := map[string]string{
		"http://a.example/1":       "text/html\n<title>first</title><a href=/coded>coded</a> <a href=/z>last</a>",
		"http://a.example/coded":   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + six,
		"http://a.example/coded.x": "HTTP/1.1 200 OK\r\nContent-Type: application/x\r\n" + six + "y",
		"http://a.example/z":       "text/html\n<title>last</title>",
	}
	const codings, damage = "too many content codings", "Its record is damaged"
	for _, c := range []struct {
		name               string
		spoil              func(file string, last int64) error
		unreadable, coded  int64
		first, inner, last string // parts of the pages
	}{
		{"whole", func(string, int64) error { return nil }, 0, 2, "first", codings, "last"},
		{"short", os.Truncate, 1, 2, "first", codings, damage},
		{"missing", func(file string, _ int64) error { return os.Remove(file) }, 4, 0, damage, damage, damage},
	} {
		dir := testarchive.Write(t, pages)
		index, err := os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj"))
		must.Do(t, err)
		offsets := regexp.MustCompile(`"offset": "(\d+)"`).FindAllStringSubmatch(string(index), -1)
		last, err := strconv.ParseInt(offsets[len(offsets)-1][1], 10, 64)
		must.Do(t, err)
		files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		must.Do(t, c.spoil(files[0], last))
		out := filepath.Join(t.TempDir(), "out")
		res := write(t, Config{Dir: out}, dir)
		all := check(t, out)
		if res.Files != 4 || res.Unreadable != c.unreadable || res.Unsupported != c.coded {
			t.Errorf("%s: got %+v", c.name, res)
		}
		if c.unreadable == 0 && len(res.Faults) > 0 || c.unreadable > 0 && (len(res.Faults) != 1 ||
			res.Faults[0].File != files[0] || res.Faults[0].Records != c.unreadable ||
			res.Faults[0].Missing != (c.name == "missing")) {
			t.Errorf("%s: got the faults %+v", c.name, res.Faults)
		}
		for name, want := range map[string]string{"1": c.first, "coded": c.inner, "z": c.last} {
			if got := all["a.example/"+name+".html"]; !strings.Contains(got, want) {
				t.Errorf("%s: %s lacks %q: %s", c.name, name, want, got)
			}
		}
	}
}

// A compressed body that unpacks to far more than the record has is cut off.
func TestUnpacked(t *testing.T) {
	const long = 50_000
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write(make([]byte, long)))(t)
	must.Do(t, z.Close())
	dir := testarchive.Write(t, map[string]string{
		"http://a.example/bomb":  "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\n\r\n" + b.String(),
		"http://a.example/plain": "a/b\n" + strings.Repeat("x", long),
	})
	for most, want := range map[int64]int{long - 1: long - 1, long: long} {
		out := filepath.Join(t.TempDir(), "out")
		res := write(t, Config{Dir: out, MaxUnpacked: most}, dir)
		all := check(t, out)
		if got := len(all["a.example/bomb"]); got != want || len(all["a.example/plain"]) != long ||
			res.Cut != long-most {
			t.Errorf("with at most %d bytes: got %d and %d bytes, %+v", most, got, len(all["a.example/plain"]), res)
		}
	}
}
