package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// build makes a graph of pages, each a name and its targets.
func build(t testing.TB, c BuildConfig, pages [][]string) (names []string, lists [][]uint32) {
	t.Helper()
	b := NewBuilder(c)
	defer b.Close()
	for _, p := range pages {
		must.Do(t, b.Page(p[0]))
		for _, to := range p[1:] {
			must.Do(t, b.Link(to))
		}
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, c.Kind)
	if err == nil {
		err = b.Write(w)
	}
	if err == nil {
		_, err = w.Finish()
	}
	must.Do(t, err)
	names, lists, _, err = decode(out.Bytes())
	must.Do(t, err)
	return names, lists
}

func TestBuilder(t *testing.T) {
	pages := [][]string{
		{"http://www.b.example/", "http://a.example/2", "http://a.example/2", "http://c.example/"},
		{"http://a.example/2", "http://a.example/2", "http://www.b.example/"},
	}
	s := extsort.Config{Prefix: filepath.Join(t.TempDir(), "s")}
	names, lists := build(t, BuildConfig{Sort: s, Kind: Pages}, pages)
	want := []string{"http://a.example/2", "http://www.b.example/", "http://c.example/"}
	if !slices.Equal(names, want) {
		t.Errorf("names %q, want %q: sorted by the reversed host", names, want)
	}
	if want := [][]uint32{{1}, {0, 2}, nil}; !equalLists(lists, want) {
		t.Errorf("lists %v, want %v", lists, want)
	}
	names, lists = build(t, BuildConfig{Sort: s, Kind: Pages, Visited: true, SelfLinks: true}, pages)
	if len(names) != 2 || !equalLists(lists, [][]uint32{{0, 1}, {0}}) {
		t.Errorf("visited only, with links to itself: %q %v", names, lists)
	}
	b := NewBuilder(BuildConfig{Sort: s})
	defer b.Close()
	if err := errors.Join(b.Page("a\x00b")); !errors.Is(err, errName) {
		t.Errorf("a name with a zero: %v", err)
	}
}

// The Builder agrees with a map, also if its sorts spill to disk.
func TestBuilderAgreesWithAMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		c := BuildConfig{Kind: Pages, Visited: rapid.Bool().Draw(rt, "visited"),
			SelfLinks: rapid.Bool().Draw(rt, "self links"),
			Sort: extsort.Config{Prefix: filepath.Join(dir, "s"),
				Memory: rapid.SampledFrom([]int{0, 500}).Draw(rt, "memory")}}
		name := func() string {
			return fmt.Sprintf("http://h%d.example/%d", rapid.IntRange(0, 4).Draw(rt, "host"),
				rapid.IntRange(0, 4).Draw(rt, "path"))
		}
		if rapid.Bool().Draw(rt, "hosts") {
			c.Kind = Hosts
			name = func() string { return fmt.Sprintf("example.h%d", rapid.IntRange(0, 9).Draw(rt, "host")) }
		}
		nodes, visited, links := map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
		var pages [][]string
		for range rapid.IntRange(0, 20).Draw(rt, "pages") {
			p := []string{name()}
			nodes[p[0]], visited[p[0]] = true, true
			for range rapid.IntRange(0, 6).Draw(rt, "links") {
				p = append(p, name())
				nodes[p[len(p)-1]] = true
				links[[2]string{p[0], p[len(p)-1]}] = true
			}
			pages = append(pages, p)
		}
		names, lists := build(t, c, pages)
		if c.Visited {
			nodes = visited
		}
		if want := slices.Sorted(maps.Keys(nodes)); !slices.Equal(names, want) {
			rt.Fatalf("nodes %q, want %q", names, want)
		}
		maps.DeleteFunc(links, func(l [2]string, _ bool) bool {
			return !nodes[l[0]] || !nodes[l[1]] || l[0] == l[1] && !c.SelfLinks
		})
		n := 0
		for from, list := range lists {
			for _, to := range list {
				if n++; !links[[2]string{names[from], names[to]}] {
					rt.Fatalf("a link from %s to %s", names[from], names[to])
				}
			}
		}
		if n != len(links) {
			rt.Fatalf("%d links, want %d", n, len(links))
		}
	})
}

func TestHosts(t *testing.T) {
	for url, want := range map[string]string{
		"https://www.a.example:8080/x?y": "example.a.www", "http://a": "a", "http://192.0.2.1/": "192.0.2.1",
		"http://[2001:db8::1]:80/": "[2001:db8::1]", "http://u:p@a.b?x:1@y": "b.a",
		"mailto:x": "", "http://a.1x/": "1x.a",
	} {
		if got := Reverse(hostOf(url)); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestText(t *testing.T) {
	b := NewNumbered(extsort.Config{Prefix: filepath.Join(t.TempDir(), "s"), Memory: 100})
	defer b.Close()
	must.Do(t, ReadEdges(strings.NewReader("3\t1\n0\t2\r\n3 1\n3\t3\n0\t1"), b.Link))
	var out bytes.Buffer
	w, err := NewWriter(&out, Numbers)
	must.Do(t, errors.Join(err, b.Write(w, 6)))
	must.Get(w.Finish())(t)
	_, lists, _, err := decode(out.Bytes())
	if want := [][]uint32{{1, 2}, nil, nil, {1, 3}, nil, nil}; err != nil || !equalLists(lists, want) {
		t.Errorf("got %v, want %v; %v", lists, want, err)
	}
	for text, want := range map[string]string{
		"0\t1\n2\n":     `line 2: "2"; give two node numbers with a tab between them`,
		"0\t1\t2":       `line 1: "0\t1\t2"; give two`,
		"0\t-1":         `line 1: the node "-1"; give a number from 0 to 4294967294`,
		"4294967295\t1": `line 1: the node "4294967295"; give a number`,
		"\n":            `line 1: ""; give two`,
		"1\t2\n" + strings.Repeat("x", maxTextLine+9): "line 2: longer than 1048576 bytes",
	} {
		err := ReadEdges(strings.NewReader(text), b.Link)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	broken := io.MultiReader(strings.NewReader("0\t1\n0\t1"), iotest.ErrReader(io.ErrUnexpectedEOF))
	n := 0
	err = ReadEdges(broken, func(_, _ uint32) error { n++; return nil })
	if err != io.ErrUnexpectedEOF || n > 1 {
		t.Errorf("a file that ends in the middle of a line: %d links, %v", n, err)
	}
	var names []string
	err = ReadVertices(strings.NewReader("0\tcom.a\n1\tcom.b\t7\n"), func(name []byte) error {
		names = append(names, string(name))
		return nil
	})
	if err != nil || !slices.Equal(names, []string{"com.a", "com.b"}) {
		t.Errorf("vertices %q, %v", names, err)
	}
	for text, want := range map[string]string{
		"0\ta\n2\tb\n": `line 2: the node "2"; the nodes must be in order: give 1`,
		"0":            `line 1: "0"; give the number of a node, a tab and its name`,
		"0\t":          `line 1: "0\t"; give`,
		"0\ta\x00b":    `line 1: the name "a\x00b" has a zero byte; give a name without it`,
	} {
		err := ReadVertices(strings.NewReader(text), func([]byte) error { return nil })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestMeasure(t *testing.T) {
	b := encode(t, Pages, []string{"http://a.example/", "http://a.example/1", "http://b.example/"},
		[][]uint32{{0, 1, 2}, {2}, nil})
	g, err := NewFile(bytes.NewReader(b), int64(len(b)))
	must.Do(t, err)
	hosts, err := g.NumberHosts()
	if err != nil || !slices.Equal(hosts, []uint32{0, 0, 1}) {
		t.Fatal(hosts, err)
	}
	s, err := Measure(g, hosts)
	want := Stats{Nodes: 3, Links: 4, SelfLinks: 1, Dangling: 1, MaxOut: Degree{0, 3}, MaxIn: Degree{2, 2},
		Out: []uint64{1, 1, 1}, In: []uint64{0, 2, 1}, Hosts: 2, SameHost: 2}
	if err != nil || fmt.Sprint(*s) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v; %v", *s, want, err)
	}
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	g.Stop = stop
	if err := g.Links(nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an error of Stop: %v", err)
	}
	g.Stop = nil
	if m, err := g.Load(); err != nil || m.Nodes() != 3 || g.MemoryBytes() != 28 {
		t.Error(m, err)
	}
}
