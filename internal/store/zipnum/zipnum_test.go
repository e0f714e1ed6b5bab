package zipnum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
)

// write returns the files of some lines.
func write(t interface{ Fatal(...any) }, list []string) (index, blocks []byte) {
	return writeForm(t, list, false)
}

// writeForm is write in one of both forms.
func writeForm(t interface{ Fatal(...any) }, list []string, tabs bool) (index, blocks []byte) {
	var i, b bytes.Buffer
	w := NewWriter(&b, &i, "index.cdx.gz")
	w.Tabs = tabs
	for _, l := range list {
		if err := w.Add([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return i.Bytes(), b.Bytes()
}

// from returns the lines that are not below key.
func from(index, blocks []byte, key string) (found []string, err error) {
	r, err := From(bytes.NewReader(index), bytes.NewReader(blocks), []byte(key))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSuffix(l, "\n"); l >= key {
			found = append(found, l)
		}
	}
	return found, err
}

// TestModel: whatever the lines and the key, the lines from the key on are those of the sorted list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		hosts := rapid.IntRange(1, 40).Draw(t, "hosts")
		for range rapid.IntRange(0, 1500).Draw(t, "lines") {
			host, time := rapid.IntRange(0, hosts).Draw(t, "host"), rapid.IntRange(0, 9).Draw(t, "time")
			path := strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "path"))
			list = append(list, fmt.Sprintf("com,h%d)/%s 2026%010d {\"n\": 1}", host, path, time))
		}
		slices.Sort(list)
		index, blocks := writeForm(t, list, rapid.Bool().Draw(t, "tabs"))
		keys := []string{"", "a", "com,h7)/ ", "com,h7)/ 2026", "zzz"}
		if len(list) > 0 {
			l := rapid.SampledFrom(list).Draw(t, "key")
			keys = append(keys, l, l[:len(l)/2], string(keyOf([]byte(l))), l+"!")
		}
		for _, key := range keys {
			at, _ := slices.BinarySearch(list, key)
			got, err := from(index, blocks, key)
			if err != nil || !slices.Equal(got, list[at:]) {
				t.Fatalf("from %q: %d lines, %v; want %d", key, len(got), err, len(list)-at)
			}
		}
	})
}

// TestReadsOneBlock: a look-up in a large list reads some of the index and one block.
func TestReadsOneBlock(t *testing.T) {
	var list []string
	for i := range 300_000 {
		list = append(list, fmt.Sprintf("com,example)/%08d 20260131000000 {\"url\": \"http://a/%08d\"}", i, i))
	}
	index, blocks := write(t, list)
	i, b := &counting{Reader: bytes.NewReader(index)}, &counting{Reader: bytes.NewReader(blocks)}
	r := must.Get(From(i, b, []byte("com,example)/00223344 ")))(t)
	text := make([]byte, 100)
	must.Get(io.ReadFull(r, text))(t)
	if b.n > buffer || i.n > 2*buffer {
		t.Errorf("read %d bytes of the index, which has %d, and %d of the blocks", i.n, len(index), b.n)
	}
}

type counting struct {
	*bytes.Reader
	n int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.n += n
	return n, err
}

// TestFormat compares with what cdxj-indexer writes, and unpacks the blocks with gzip.
func TestFormat(t *testing.T) {
	var list []string
	for i := range 600 {
		list = append(list, fmt.Sprintf("com,example)/%04d 20260131000000 {\"url\": \"u\"}", i))
	}
	index, blocks := write(t, list)
	got := strings.Split(string(index), "\n")
	if len(got) != 5 || got[0] != `!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}` ||
		!strings.HasPrefix(got[1], `com,example)/0000 20260131000000 {"offset": 0, "length": `) ||
		!strings.HasPrefix(got[3], `com,example)/0512 20260131000000 {"offset": `) {
		t.Errorf("got %q", got)
	}
	gunzip := exec.Command("gzip", "-dc")
	gunzip.Stdin = bytes.NewReader(blocks)
	if text, err := gunzip.Output(); err != nil || string(text) != strings.Join(list, "\n")+"\n" {
		t.Errorf("gzip: %d bytes, %v", len(text), err)
	}
	again, _ := write(t, list)
	if !bytes.Equal(again, index) {
		t.Error("the same lines give other files")
	}
	tabs, same := writeForm(t, list, true)
	var offset, length, number int
	rows := strings.Split(string(tabs), "\n")
	const form = "com,example)/0512 20260131000000\tindex.cdx.gz\t%d\t%d\t%d"
	_, err := fmt.Sscanf(rows[2], form, &offset, &length, &number)
	if err != nil || len(rows) != 4 || number != 3 || offset+length != len(blocks) || !bytes.Equal(same, blocks) {
		t.Errorf("with tabs: %q, %v", rows, err)
	}
	if err := CheckEnd(bytes.NewReader(tabs), int64(len(blocks))); err != nil {
		t.Error(err)
	}
}

// TestHostile: damage has an error that says so, and a small file cannot unpack to any size.
func TestHostile(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 70 {
		w.Write(zeros)
	}
	w.Close()
	const line = "a 2026 "
	for name, c := range map[string]struct{ index, blocks string }{
		"bomb":               {line + `{"offset": 0}` + "\n", bomb.String()},
		"tabs, bomb":         {"a 2026\tindex.cdx.gz\t0\t1\t1\n", bomb.String()},
		"tabs, negative":     {"a 2026\tindex.cdx.gz\t-1\t1\t1\n", "x"},
		"tabs, behind":       {"a 2026\tindex.cdx.gz\t99\t1\t1\n", "x"},
		"tabs, few":          {"a 2026\tindex.cdx.gz\t0\n", "x"},
		"tabs, no number":    {"a 2026\tindex.cdx.gz\t0\tx\t1\n", "x"},
		"tabs, large number": {"a 2026\tindex.cdx.gz\t99999999999999999999\t1\t1\n", "x"},
		"behind":             {line + `{"offset": 99}` + "\n", "x"},
		"negative":           {line + `{"offset": -1}` + "\n", "x"},
		"no offset":          {line + "{}\n", "x"},
		"no JSON":            {"abc\n", "x"},
		"cut":                {line + `{"offset": 0}`, "x"},
		"no gzip":            {line + `{"offset": 0}` + "\n", "x"},
		"cut member":         {line + `{"offset": 0}` + "\n", bomb.String()[:100]},
		"long":               {strings.Repeat("a", 2<<20), ""},
	} {
		r, err := From(strings.NewReader(c.index), strings.NewReader(c.blocks), []byte("b"))
		n := int64(0)
		if err == nil {
			n, err = io.Copy(io.Discard, r)
		}
		if !errors.Is(err, ErrDamaged) || n > MaxBlock+1 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// TestMeta reads the first line of an index with names of segments, and where its blocks end.
func TestMeta(t *testing.T) {
	var index, blocks bytes.Buffer
	w := NewWriter(&blocks, &index, "b\".cdx.gz")
	w.Segments = []string{"one", "two"}
	for i := range 3 * blockLines {
		if err := w.Add(fmt.Appendf(nil, "%06d 1 {}", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMeta(bytes.NewReader(index.Bytes()))
	if err != nil || m.Filename != "b\".cdx.gz" || !slices.Equal(m.Segments, w.Segments) {
		t.Errorf("%+v, %v", m, err)
	}
	if err := CheckEnd(bytes.NewReader(index.Bytes()), int64(blocks.Len())); err != nil {
		t.Error(err)
	}
	if err := CheckEnd(bytes.NewReader(index.Bytes()), int64(blocks.Len())-1); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	lines := strings.SplitAfter(index.String(), "\n")
	cut := strings.Join(lines[:len(lines)-2], "")
	if err := CheckEnd(strings.NewReader(cut), int64(blocks.Len())); !errors.Is(err, ErrDamaged) {
		t.Errorf("without the last block: %v", err)
	}
}

func FuzzFrom(f *testing.F) {
	index, blocks := write(f, []string{"a 1 {}", "b 2 {}"})
	f.Add(index, blocks, "b")
	tabs, same := writeForm(f, []string{"a 1 {}", "b 2 {}"}, true)
	f.Add(tabs, same, "b")
	f.Add([]byte("!meta\na 1 {\"offset\": 1}\n\n"), blocks, "a 1 {")
	f.Fuzz(func(t *testing.T, index, blocks []byte, key string) {
		r, err := From(bytes.NewReader(index), bytes.NewReader(blocks), []byte(key))
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(r, 2*MaxBlock))
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if _, err := ReadMeta(bytes.NewReader(index)); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if err := CheckEnd(bytes.NewReader(index), int64(len(blocks))); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	})
}
