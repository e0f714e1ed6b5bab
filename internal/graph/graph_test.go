package graph

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// encode writes a graph of lists, with names if there are any.
func encode(t testing.TB, kind Kind, names []string, lists [][]uint32) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, kind)
	for _, n := range names {
		err = errors.Join(err, w.Name([]byte(n)))
	}
	for _, l := range lists {
		err = errors.Join(err, w.List(l))
	}
	_, err2 := w.Finish()
	must.Do(t, errors.Join(err, err2))
	return out.Bytes()
}

// decode reads all of a graph.
func decode(b []byte) (names []string, lists [][]uint32, info Info, err error) {
	g, err := NewFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, Info{}, err
	}
	err = g.Names(func(_ uint32, name []byte) error {
		names = append(names, string(name))
		return nil
	})
	if err != nil {
		return nil, nil, g.info, err
	}
	err = g.Links(func(_ uint32, to []uint32) error {
		lists = append(lists, slices.Clone(to))
		return nil
	})
	return names, lists, g.info, err
}

// memory returns lists as a graph.
func memory(lists [][]uint32) *Memory {
	m := new(Memory)
	for _, l := range lists {
		m.Add(l)
	}
	return m
}

func equalLists(a, b [][]uint32) bool {
	return slices.EqualFunc(a, b, func(x, y []uint32) bool { return slices.Equal(x, y) })
}

// drawLists draws the lists of a graph with hubs, intervals and lists that resemble those before.
func drawLists(t *rapid.T) [][]uint32 {
	n := rapid.IntRange(1, 60).Draw(t, "nodes")
	lists := make([][]uint32, n)
	for i := range lists {
		set := map[uint32]bool{}
		if i > 0 && rapid.Bool().Draw(t, "like one before") {
			for _, v := range lists[max(0, i-rapid.IntRange(1, 9).Draw(t, "back"))] {
				if rapid.IntRange(0, 4).Draw(t, "keep") > 0 {
					set[v] = true
				}
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			first := rapid.IntRange(0, n-1).Draw(t, "first")
			for v := first; v < min(n, first+rapid.IntRange(1, 9).Draw(t, "length")); v++ {
				set[uint32(v)] = true
			}
		}
		for v := range set {
			lists[i] = append(lists[i], v)
		}
		slices.Sort(lists[i])
	}
	return lists
}

func TestFileHasWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lists := drawLists(rt)
		var names []string
		if rapid.Bool().Draw(rt, "named") {
			for i := range lists {
				names = append(names, rapid.StringN(1, 9, 40).Draw(rt, "name")+fmt.Sprint(i))
			}
		}
		gotNames, got, info, err := decode(encode(t, Pages, names, lists))
		if err != nil || !equalLists(got, lists) || !slices.Equal(gotNames, names) {
			rt.Fatalf("got %v %q %v, want %v %q", got, gotNames, err, lists, names)
		}
		if info.Nodes != uint64(len(lists)) || info.Named != (names != nil) || info.Kind != Pages {
			rt.Fatalf("info %+v", info)
		}
	})
}

// Large numbers need the longest codes, and many nodes several blocks.
func TestCodes(t *testing.T) {
	numbers := []uint64{0, 1, 2, 3, 6, 7, 8, 62, 63, 64, 1<<31 - 1, 1<<32 - 2, 1<<33 - 1, 1 << 33}
	var w bitWriter
	want := 0
	for _, v := range numbers {
		w.gamma(v)
		w.zeta(v)
		want += gammaBits(v) + zetaBits(v)
	}
	if w.bits != int64(want) {
		t.Errorf("%d bits, want %d", w.bits, want)
	}
	var r bitReader
	r.read(append(slices.Clone(w.bytes()), make([]byte, padBytes)...))
	for _, v := range numbers {
		if g, z := r.gamma(), r.zeta(); g != v || z != v || r.bad {
			t.Errorf("%d: gamma %d, zeta %d, bad %v", v, g, z, r.bad)
		}
	}
	for _, v := range []int64{0, 1, -1, 1<<32 - 1, -1 << 32} {
		if got := unzigzag(zigzag(v)); got != v {
			t.Errorf("zigzag of %d: %d", v, got)
		}
	}
}

func TestManyBlocks(t *testing.T) {
	rnd := testseed.Rand(t)
	const n = 50_000
	lists := make([][]uint32, n)
	var names []string
	for i := range lists {
		for range rnd.IntN(20) {
			lists[i] = append(lists[i], rnd.Uint32N(n))
		}
		slices.Sort(lists[i])
		lists[i] = slices.Compact(lists[i])
		names = append(names, fmt.Sprintf("http://%06d.example/", i))
	}
	gotNames, got, info, err := decode(encode(t, Pages, names, lists))
	if err != nil || !equalLists(got, lists) || !slices.Equal(gotNames, names) {
		t.Fatal("the graph is another", err)
	}
	if info.LinkBytes < 4*blockBytes || info.NameBytes < 4*blockBytes {
		t.Errorf("%+v: want several blocks", info)
	}
}

// The real graph: see the README beside it. Its lists are read from the plain list of links.
func TestRealGraph(t *testing.T) {
	lists := realGraph(t)
	b := encode(t, Numbers, nil, lists)
	_, got, info, err := decode(b)
	if err != nil || !equalLists(got, lists) {
		t.Fatal("the graph is another", err)
	}
	perLink := 8 * float64(info.LinkBytes) / float64(info.Links)
	t.Logf("%.3f bits a link", perLink)
	if info.Links != 3_050_615 || perLink > 2.033 { // WebGraph's own file has 2.033 bits a link
		t.Errorf("%d links, %.3f bits a link", info.Links, perLink)
	}
	s, err := Measure(memory(lists), nil)
	if err != nil || s.MaxOut.Degree != 3753 || s.MaxIn.Degree != 55252 || s.Dangling != 4973 {
		t.Errorf("%+v, %v: want degrees 3753 and 55252, 4973 without links", s, err)
	}
}

// realGraph reads uk-2007-05@100000.
func realGraph(t testing.TB) [][]uint32 {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "graph", "uk-2007-05@100000.tsv.gz"))
	if err != nil {
		testneed.Missing(t, err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Do(t, err)
	lists := make([][]uint32, 100_000)
	err = ReadEdges(z, func(from, to uint32) error {
		lists[from] = append(lists[from], to)
		return nil
	})
	must.Do(t, err)
	return lists
}

// The file of version 1 stays readable.
func TestGolden(t *testing.T) {
	names := []string{"http://a.example/", "http://a.example/1", "http://b.example/"}
	lists := [][]uint32{{0, 1, 2}, {0, 1, 2}, {}}
	const file = "testdata/version1.graph"
	b, err := os.ReadFile(file)
	must.Do(t, err)
	gotNames, got, info, err := decode(b)
	if err != nil || !equalLists(got, lists) || !slices.Equal(gotNames, names) || info.Kind != Pages {
		t.Errorf("%q %v %+v %v", gotNames, got, info, err)
	}
	if now := encode(t, Pages, names, lists); !bytes.Equal(now, b) {
		t.Errorf("the writer writes another file now:\n%q\n%q", now, b)
	}
}

// Any change and any truncation of a file is found.
func TestDamage(t *testing.T) {
	whole := encode(t, Hosts, []string{"a", "ab", "b"}, [][]uint32{{1, 2}, {0, 1, 2}, nil})
	for n := range whole {
		for _, b := range [][]byte{whole[:n], append(slices.Clone(whole[:n]), whole[n:]...)} {
			if len(b) > n {
				b[n] ^= 1
			}
			_, _, _, err := decode(b)
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%d bytes of %d, cut or with byte %d changed: %v", len(b), len(whole), n, err)
			}
		}
	}
	for text, want := range map[string]string{
		"":                                 "not a graph",
		"hello, this is no graph at all\n": "not a graph",
		"orbweaver-graph 2\nx":             `version "2"; this program reads version 1`,
		"orbweaver-graph 1\nx":             "ends early",
		"orbweaver-graph 1\n" + strings.Repeat("x", 99): "the end of a graph is missing",
	} {
		if _, _, _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// reseal makes all checksums of a file right, as far as its blocks can be followed.
func reseal(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) < len(header)+trailerBytes {
		return b
	}
	end := len(b) - trailerBytes
	for at := len(header); at+blockHead <= end; {
		n := 8 + int(binary.LittleEndian.Uint32(b[at+4:]))
		if n > end-at {
			break
		}
		binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:at+n], castagnoli))
		at += n
	}
	binary.LittleEndian.PutUint64(b[end+32:], uint64(end))
	binary.LittleEndian.PutUint32(b[end+40:], crc32.Checksum(b[end:end+40], castagnoli))
	return b
}

// FuzzFile reads damaged files whose checksums are right. What can be read is a graph, and can be written again.
func FuzzFile(f *testing.F) {
	f.Add(encode(f, Pages, []string{"a", "ab", "b"}, [][]uint32{{1, 2}, {0, 1, 2}, nil}))
	var lists [][]uint32
	for i := range uint32(12) {
		lists = append(lists, []uint32{0, 2, 3, 4, 5, 6, 6 + i%5, 11 + i%2}[:7+i%2])
		lists[i] = slices.Compact(lists[i])
	}
	lists = append(lists, nil)
	f.Add(encode(f, Numbers, nil, lists))
	f.Fuzz(func(t *testing.T, b []byte) {
		names, lists, info, err := decode(reseal(b))
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatalf("not a FormatError: %v", err)
			}
			return
		}
		gotNames, got, again, err := decode(encode(t, info.Kind, names, lists))
		if err != nil || !equalLists(got, lists) || !slices.Equal(names, gotNames) || again.Links != info.Links {
			t.Fatalf("got %v, want %v; %v", got, lists, err)
		}
	})
}

// FuzzBlock decodes any bits as lists.
func FuzzBlock(f *testing.F) {
	var e encoder
	for x, l := range [][]uint32{{1, 2}, {0, 1, 2, 3, 4, 9}, nil, {0, 1, 2, 3, 4}} {
		e.add(uint32(x), l)
	}
	f.Add(e.bits.bytes(), uint16(10))
	f.Fuzz(func(t *testing.T, b []byte, nodes uint16) {
		d := decoder{nodes: uint64(nodes)}
		d.reset(append(slices.Clone(b), make([]byte, padBytes)...))
		for x := range uint32(nodes) {
			list, ok := d.next(x)
			if !ok {
				return
			}
			for i, v := range list {
				if v >= uint32(nodes) || i > 0 && v <= list[i-1] {
					t.Fatalf("node %d: %v", x, list)
				}
			}
		}
	})
}

func TestWriterRefusesNonsense(t *testing.T) {
	for want, write := range map[string]func(w *Writer) error{
		"a link to node 5, but there are 1 nodes, which begin with 0": func(w *Writer) error {
			return w.List([]uint32{5})
		},
		"2 names, but 1 lists of links": func(w *Writer) error {
			return errors.Join(w.Name([]byte("a")), w.Name([]byte("b")), w.List(nil))
		},
	} {
		w, err := NewWriter(new(bytes.Buffer), Pages)
		must.Do(t, errors.Join(err, write(w)))
		if _, err := w.Finish(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// randomLists returns the lists of a random graph of n nodes, some of which have no links.
func randomLists(rnd *rand.Rand, n int) [][]uint32 {
	lists := make([][]uint32, n)
	for i := range lists {
		for range rnd.IntN(7) - 1 {
			lists[i] = append(lists[i], uint32(float64(n)*rnd.Float64()*rnd.Float64()))
		}
		slices.Sort(lists[i])
		lists[i] = slices.Compact(lists[i])
	}
	return lists
}
