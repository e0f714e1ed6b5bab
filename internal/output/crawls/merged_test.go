package crawls_test

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An indexed is a crawl in a simulated store, of which each segment has one page and other lines.
type indexed struct {
	sim   *teststore.Sim
	store *object.Store
	names []string
}

// url returns the URL of the page of a segment.
func (x *indexed) url(i int) string { return fmt.Sprintf("http://example.com/%d", i) }

// newIndexed returns a crawl of some segments. Each index has some lines of records that are not there.
func newIndexed(t *testing.T, segments, fillers int) *indexed {
	t.Helper()
	x := &indexed{sim: teststore.NewSim(1, teststore.Traits{})}
	x.store = object.New(x.sim, "s3://bucket", object.Config{Tries: 2})
	mem := testdisk.NewMem()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	w, _, err := warc.Open(warc.Config{Dir: "/c", FS: mem, Segments: warc.Segments{Crawl: "web", Bytes: 1},
		Clock: testclock.Func(func() time.Time { now = now.Add(time.Second); return now })})
	must.Do(t, err)
	for i := range segments {
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
		must.Get(w.Write(&warc.Exchange{URL: x.url(i), Began: now, HTTP: true, HeadLen: len(head),
			Response: warc.Bytes(fmt.Sprint(head, "page ", i)), Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
	}
	must.Do(t, w.Close())
	c := segment.Committer{FS: mem, Dir: "/c", Crawl: "web", Idle: true, Clock: testclock.At(now)}
	x.names = must.Get(c.Waiting())(t)
	for n, name := range x.names {
		_, _, err := c.Commit(t.Context(), name)
		must.Do(t, err)
		index := "/c/crawl-data/web/segments/" + name + "/index.cdxj"
		text := bytes.NewBuffer(must.Get(disk.ReadFile(mem, index, 1<<20))(t))
		for i := range fillers {
			l := warc.Line{SURT: fmt.Sprintf("org,filler)/a-longer-path-as-sites-have-them/%06d", i),
				Time: fmt.Sprintf("%014d", n), URL: "http://filler.org/", File: "none.warc.gz"}
			text.Write(l.AppendTo(nil))
		}
		must.Do(t, disk.WriteFile(mem, index, text.Bytes()))
	}
	upload(t, x.store, mem, "/c/crawl-data", "crawl-data")
	return x
}

// merge sends the merged index of the segments.
func (x *indexed) merge(t *testing.T) {
	t.Helper()
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/c/crawl-data/web", 0o755))
	c := segment.Committer{FS: mem, Dir: "/c", Crawl: "web", Clock: testclock.At(time.Unix(0, 0))}
	must.Do(t, c.SendIndex(t.Context(), x.store))
	if left := must.Get(mem.ReadDir("/c/crawl-data/web"))(t); len(left) > 0 {
		t.Errorf("left on the disk: %v", left)
	}
}

// blocks returns the keys of the files of blocks.
func (x *indexed) blocks() []string {
	return slices.DeleteFunc(x.sim.Keys(), func(key string) bool { return !warc.IsMergedBlocks(path.Base(key)) })
}

// page reads the page of a segment in a new process. It returns how many requests that took, and how many index files
// there were.
func (x *indexed) page(t *testing.T, arg string, i int) (requests, indexes int) {
	t.Helper()
	f := crawls.New(t.Context(), testdisk.NewMem(), shelf{x.store})
	p := must.Get(f.Place(must.Get(f.Dir(arg))(t)))(t)
	found := must.Get(warc.Lookup(f, p, x.url(i)))(t)
	if len(found) != 1 {
		t.Fatalf("page %d: %+v", i, found)
	}
	rec, file, err := warc.OpenRecord(f, p.Dir, found[0])
	must.Do(t, err)
	defer file.Close()
	text := must.Get(io.ReadAll(must.Get(rec.Payload(t.Context()))(t)))(t)
	if string(text) != fmt.Sprint("page ", i) {
		t.Errorf("page %d has %q", i, text)
	}
	r := f.Store(p.Dir).Requests()
	return r.Lists + r.Reads + r.Stats, len(p.Merged)
}

// all reads a page of each segment, and all lines.
func (x *indexed) all(t *testing.T, lines int) {
	t.Helper()
	for i := range x.names {
		x.page(t, "s3://bucket", i)
	}
	f := crawls.New(t.Context(), testdisk.NewMem(), shelf{x.store})
	p := must.Get(f.Place(must.Get(f.Dir("s3://bucket"))(t)))(t)
	n, last := 0, ""
	for l, err := range warc.Lines(f, p, "") {
		must.Do(t, err)
		if line := string(l.AppendTo(nil)); line <= last {
			t.Fatalf("%q follows %q", line, last)
		} else {
			last = line
		}
		n++
	}
	if n != lines {
		t.Errorf("%d lines, want %d", n, lines)
	}
}

// TestMergedRequests: a page of a crawl with 200 segments and a merged index takes at most 5 requests.
func TestMergedRequests(t *testing.T) {
	x := newIndexed(t, 200, 400)
	own, _ := x.page(t, "s3://bucket", 0)
	x.merge(t)
	index := len(x.sim.Content("crawl-data/web/index.idx"))
	if len(x.names) != 200 || len(x.blocks()) != 1 || index < 70_000 || own < 200 {
		t.Fatalf("%d segments, blocks %q, an index of %d bytes, %d requests without it", len(x.names), x.blocks(),
			index, own)
	}
	most := 0
	for _, arg := range []string{"s3://bucket", "s3://bucket/crawl-data", "s3://bucket/crawl-data/web"} {
		for i := 0; i < 200; i += 13 {
			n, _ := x.page(t, arg, i)
			most = max(most, n)
		}
	}
	t.Logf("%d keys, an index of %d bytes: %d requests without the merged index, at most %d with it",
		len(x.sim.Keys()), index, own, most)
	if most > 5 {
		t.Errorf("%d requests", most)
	}
}

// TestMergedHuge: a page of a crawl of 100 GB takes at most 5 requests. The lines of other pages are made up, as many
// as there are if a record has 11 kB. The gate has a hundredth of them.
func TestMergedHuge(t *testing.T) {
	x := newIndexed(t, 200, 0)
	x.merge(t)
	f := crawls.New(t.Context(), testdisk.NewMem(), shelf{x.store})
	p := must.Get(f.Place(must.Get(f.Dir("s3://bucket"))(t)))(t)
	var own []byte
	for l, err := range warc.Lines(f, p, "") {
		must.Do(t, err)
		own = l.AppendTo(own)
	}
	others := testtier.Rounds(45_000, 4_500_000) // before the pages that are there, and behind them
	var index, blocks bytes.Buffer
	key := x.blocks()[0]
	z := zipnum.NewWriter(&blocks, &index, path.Base(key))
	z.Segments = x.names
	r, digest := rand.New(rand.NewPCG(1, 2)), make([]byte, 20)
	fill := func(front string) {
		for i := range others {
			for at := range digest {
				digest[at] = byte(r.Uint32())
			}
			site := fmt.Sprintf("site%04d", i/900)
			l := warc.Line{SURT: fmt.Sprintf("%s,%s)/a-longer-path-as-sites-have/%07d", front, site, i),
				URL:  fmt.Sprintf("https://www.%s.%s/a-longer-path-as-sites-have/%07d", site, front, i),
				Time: "20260102150405", File: "none.warc.gz", Offset: int64(r.Uint32()),
				Digest: base32.StdEncoding.EncodeToString(digest)}
			must.Do(t, z.Add(bytes.TrimSuffix(l.AppendTo(nil), []byte("\n"))))
		}
	}
	fill("biz")
	for line := range bytes.Lines(own) {
		must.Do(t, z.Add(bytes.TrimSuffix(line, []byte("\n"))))
	}
	fill("org")
	must.Do(t, z.Close())
	for at, b := range map[string]*bytes.Buffer{key: &blocks, "crawl-data/web/index.idx": &index} {
		must.Do(t, x.store.Delete(t.Context(), at))
		must.Get(x.store.Put(t.Context(), at, bytes.NewReader(b.Bytes()), object.Condition{}))(t)
	}
	most := 0
	for i := 0; i < 200; i += 13 {
		n, indexes := x.page(t, "s3://bucket/crawl-data/web", i)
		if most = max(most, n); indexes != 1 {
			t.Errorf("%d index files", indexes)
		}
	}
	t.Logf("%d lines, an index of %d bytes with blocks of %d: at most %d requests", 2*others+len(x.names), index.Len(),
		blocks.Len(), most)
	if most > 5 {
		t.Errorf("%d requests", most)
	}
}

// TestMergedNewer: a segment that came after the merged index is read by its own. The next merged index has it. The
// files of the index before stay, and no others.
func TestMergedNewer(t *testing.T) {
	x := newIndexed(t, 5, 300)
	const lines = 5 + 5*300
	var hidden [2][]byte
	success := func(i int) string { return "crawl-data/web/segments/" + x.names[i] + "/_SUCCESS" }
	for i := range hidden { // the store gets them later, the first one in order last
		must.Do(t, x.store.Delete(t.Context(), success(i)))
	}
	x.merge(t)
	for i := range hidden {
		must.Get(x.store.Put(t.Context(), success(1-i), strings.NewReader(""), object.Condition{}))(t)
		if _, indexes := x.page(t, "s3://bucket", 1-i); indexes != 2 {
			t.Errorf("%d index files", indexes)
		}
		x.merge(t)
		if _, indexes := x.page(t, "s3://bucket", 1-i); indexes != 1 {
			t.Errorf("%d index files of a complete merged index", indexes)
		}
		if len(x.blocks()) != 2 {
			t.Errorf("files of blocks: %q", x.blocks())
		}
	}
	x.all(t, lines)
	before := x.sim.Keys()
	x.merge(t) // nothing is new
	if !slices.Equal(before, x.sim.Keys()) {
		t.Errorf("keys: %q, then %q", before, x.sim.Keys())
	}
	must.Do(t, x.store.Delete(t.Context(), success(4))) // the merged index names a segment that is gone
	if _, indexes := x.page(t, "s3://bucket", 0); indexes != 0 {
		t.Errorf("%d merged index files of a crawl that lacks a segment", indexes)
	}
}

// TestMergedDamaged: the segments' own indexes take the place of a merged index that is damaged or hostile.
func TestMergedDamaged(t *testing.T) {
	x := newIndexed(t, 3, 300)
	x.merge(t)
	const index = "crawl-data/web/index.idx"
	blocks := x.blocks()[0]
	good := map[string]string{index: string(x.sim.Content(index)), blocks: string(x.sim.Content(blocks))}
	head, rest, _ := strings.Cut(good[index], "\n")
	const member = "\x1f\x8b\x08\x00"
	blockEnd := strings.LastIndex(good[blocks], member)
	bomb := &bytes.Buffer{}
	z := zipnum.NewWriter(bomb, io.Discard, "x")
	must.Do(t, z.Add(bytes.Repeat([]byte("a"), zipnum.MaxBlock+1)))
	must.Do(t, z.Close())
	for name, damage := range map[string][2]string{
		"no first line":        {index, rest},
		"empty":                {index, ""},
		"only a beginning":     {index, head},
		"an entry is cut":      {index, good[index][:len(good[index])-10]},
		"no object":            {index, head + "\na b c\n"},
		"offset behind":        {index, strings.ReplaceAll(good[index], "\"offset\": ", "\"offset\": 99")},
		"negative offset":      {index, strings.ReplaceAll(good[index], "\"offset\": ", "\"offset\": -9")},
		"a huge first line":    {index, "!meta 0 {\"format\": \"" + strings.Repeat("x", 2<<20) + "\"}\n"},
		"another format":       {index, strings.Replace(good[index], "cdxj-gzip-1.0", "cdxj-gzip-9.0", 1)},
		"blocks outside":       {index, strings.Replace(good[index], path.Base(blocks), "../../x", 1)},
		"blocks are the index": {index, strings.Replace(good[index], path.Base(blocks), "index.idx", 1)},
		"other blocks":         {index, strings.Replace(good[index], path.Base(blocks), "index-00.cdx.gz", 1)},
		"no segments":          {index, strings.Replace(good[index], "segments", "sediments", 1)},
		"foreign segment":      {index, strings.Replace(good[index], x.names[0], "../../../x", 1)},
		"blocks are empty":     {blocks, ""},
		"blocks end early":     {blocks, good[blocks][:blockEnd]},
		"an entry is missing":  {index, good[index][:strings.LastIndex(good[index][:len(good[index])-1], "\n")+1]},
		"blocks are no gzip":   {blocks, strings.Repeat("x", len(good[blocks]))},
		"blocks are cut":       {blocks, good[blocks][:len(good[blocks])-5]},
		"blocks are a bomb":    {blocks, bomb.String()},
		"a byte is wrong": {blocks, good[blocks][:len(good[blocks])/2] + "\x00\xff\x00" +
			good[blocks][len(good[blocks])/2+3:]},
	} {
		t.Run(name, func(t *testing.T) {
			for key, text := range good {
				if key == damage[0] {
					text = damage[1]
				}
				must.Get(x.store.Put(t.Context(), key, strings.NewReader(text), object.Condition{Mutable: true}))(t)
			}
			x.all(t, 3+3*300)
		})
	}
	if name := filepath.Base(blocks); !warc.IsMergedBlocks(name) || warc.IsMergedBlocks("index-.cdx.gz") ||
		warc.IsMergedBlocks("index-../x.cdx.gz") {
		t.Errorf("%s", name)
	}
}
