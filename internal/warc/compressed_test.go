package warc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A compressed index gives the same captures as one without compression.
func TestCompressedIndex(t *testing.T) {
	dir := t.TempDir()
	indexes := filepath.Join(dir, "indexes")
	must.Do(t, os.Mkdir(indexes, 0o755))
	var list []string
	for i := range 2000 {
		l := Line{SURT: fmt.Sprintf("example,a)/%04d", i/2), Time: fmt.Sprintf("2026010100000%d", i%2),
			URL: fmt.Sprintf("http://a.example/%04d", i/2), Offset: int64(i), File: "x.warc.gz"}
		list = append(list, strings.TrimSuffix(string(l.AppendTo(nil)), "\n"))
	}
	slices.Sort(list)
	blocks := must.Get(os.Create(filepath.Join(indexes, zipBlocks)))(t)
	index := must.Get(os.Create(filepath.Join(indexes, zipIndex)))(t)
	w := zipnum.NewWriter(blocks, index, zipBlocks)
	for _, l := range list {
		must.Do(t, w.Add([]byte(l)))
	}
	must.Do(t, w.Close())
	must.Do(t, blocks.Close())
	must.Do(t, index.Close())
	for _, i := range []int{0, 127, 128, 500, 999} {
		found, err := Lookup(nil, Place{Dir: dir}, fmt.Sprintf("http://a.example/%04d", i))
		if err != nil || len(found) != 2 || found[0].Offset != int64(2*i) || found[1].Offset != int64(2*i+1) {
			t.Errorf("page %d: %+v, %v", i, found, err)
		}
	}
	if found, err := Lookup(nil, Place{Dir: dir}, "http://b.example/"); err != nil || found != nil {
		t.Errorf("a URL without a capture: %+v, %v", found, err)
	}
	n := 0
	for _, err := range Lines(nil, Place{Dir: dir}, "") {
		must.Do(t, err)
		n++
	}
	if n != len(list) {
		t.Errorf("%d lines, want %d", n, len(list))
	}
	plain := "!meta 0 {}\n" + strings.Join(list, "\n") + "\n"
	must.Do(t, os.WriteFile(filepath.Join(indexes, "index.cdxj"), []byte(plain), 0o644))
	if found, err := Lookup(nil, Place{Dir: dir}, "http://a.example/0000"); err != nil || len(found) != 2 {
		t.Errorf("with a line that names the format: %+v, %v", found, err)
	}
}

// Other programs write numbers without quotation marks.
func TestForeignLine(t *testing.T) {
	l, err := ParseLine([]byte(`a)/ 20260101000000 {"url":"http://a/","status":200,"length":12,"offset":34,"x":[1]}`))
	if err != nil || l.Status != "200" || l.Length != 12 || l.Offset != 34 {
		t.Errorf("%+v, %v", l, err)
	}
}
