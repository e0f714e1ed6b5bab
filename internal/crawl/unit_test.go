package crawl

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that is fetched again because its agent left, and not because its archive was lost, does not count as one of a
// lost archive.
func TestCountsOfRefetches(t *testing.T) {
	again, ok := visit.RefetchLink(link.Link{URL: weburl.MustParse("http://a.example/")})
	if !ok || !visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("a page of a lost archive does not count")
	}
	again.SetApp("news", "http://a.example/")
	if visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("an application's page counts as one of a lost archive")
	}
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range uint64(3 * recentMax) {
		if !r.add(link.Key{Host: i}) {
			t.Fatalf("%d is not new", i)
		}
		if r.add(link.Key{Host: i}) {
			t.Fatalf("%d is new twice", i)
		}
	}
	if n := len(r.now) + len(r.before); n > 2*recentMax {
		t.Errorf("%d keys", n)
	}
}

func FuzzRecords(f *testing.F) {
	sample := state.Finish{Link: link.Link{URL: weburl.MustParse("http://a.example/x?y"), Hops: "LLR"}, Code: -61}
	f.Add(sample.AppendTo(nil))
	f.Add(state.AppendOriginal(nil, [20]byte{1}, warc.Original{URL: "http://a.example/"}))
	f.Add([]byte{0xe0, 1, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		if fin, err := state.DecodeFinish(b); err == nil {
			again, err := state.DecodeFinish(fin.AppendTo(nil))
			if err != nil || !bytes.Equal(again.AppendTo(nil), fin.AppendTo(nil)) {
				t.Errorf("%+v became %+v, %v", fin, again, err)
			}
		}
		state.DecodeOriginal(b)
		state.DecodeSpan(b)
		if ks, err := state.DecodeKeys(nil, b); err == nil && !bytes.Equal(state.AppendKeys(nil, ks), b) {
			t.Errorf("%x became other keys", b)
		}
	})
}

func TestFollowed(t *testing.T) {
	const ms = time.Millisecond
	cfg := &Config{Delays: Delays{DelayFactor: 5, DelayMax: 30 * time.Second}}
	for _, c := range []struct{ before, took, want time.Duration }{
		{0, 100 * ms, 0},
		{0, 400 * ms, 0},
		{0, 600 * ms, 3000 * ms},
		{3000 * ms, time.Second, 5000 * ms},
		{3000 * ms, 600 * ms, 3000 * ms},
		{5000 * ms, 200 * ms, 3000 * ms},
		{2100 * ms, 100 * ms, 0},
		{0, time.Hour, 30 * time.Second},
		{40 * time.Second, 100 * ms, 20250 * ms},
		{70 * time.Second, 100 * ms, 30 * time.Second},
	} {
		if got := followed(c.before, 2*time.Second, cfg, c.took); got != c.want {
			t.Errorf("after a delay of %s, a response of %s: %s, want %s", c.before, c.took, got, c.want)
		}
	}
}

// The pages of a category are those that the archive has, each once.
func TestCountKept(t *testing.T) {
	here := &visit.Before{Original: warc.Original{ID: [16]byte{1}, Date: time.Unix(1, 0)}}
	elsewhere := &visit.Before{Original: warc.Original{Date: time.Unix(1, 0)}}
	for _, test := range []struct {
		name     string
		topic    string
		archived bool
		near     *index.Original
		before   *visit.Before
		drop     bool
		want     int64
	}{
		{"new", "A", true, nil, nil, false, 1},
		{"no category", "", true, nil, nil, false, 0},
		{"not archived", "A", false, nil, nil, false, 0},
		{"near-duplicate, dropped", "A", true, &index.Original{}, nil, true, 0},
		{"near-duplicate, marked", "A", true, &index.Original{}, nil, false, 1},
		{"again", "A", true, nil, here, false, 0},
		{"again, before at another agent", "A", true, nil, elsewhere, false, 1},
		{"again, failed before", "A", true, nil, &visit.Before{}, false, 1},
	} {
		l := &logs{visits: visit.New(visit.Config{DropNear: test.drop}, visit.Parts{}, 0)}
		v := new(visit.Attempt)
		v.Boundary().Topic, v.Record.Archived = test.topic, test.archived
		v.Near().Original, v.Plan().Before = test.near, test.before
		l.countKept(v)
		want := map[string]int64{"A": test.want}
		if test.want == 0 {
			want = nil
		}
		if !maps.Equal(l.topics, want) {
			t.Errorf("%s: counts %v, want %v", test.name, l.topics, want)
		}
	}
}

// The line of an imported page has the time of its fetch, unless no page can have been fetched then.
func TestTimeOfImportedLinks(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier := now.Add(-time.Hour)
	for _, c := range []struct {
		began time.Time
		took  time.Duration
		want  time.Time
	}{
		{earlier, time.Second, earlier.Add(time.Second)}, {now.Add(time.Hour), 0, now}, {time.Time{}, 0, now},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1 << 40 * time.Millisecond, now},
	} {
		mem := testdisk.NewMem()
		w := must.Get(linklog.Open(linklog.Config{Dir: "/crawl", FS: mem}))(t)
		v := new(visit.Attempt)
		v.Reset(frontier.Task{Link: foundAt("http://a.example/")})
		f := state.Finish{Link: v.Asked, Code: 200, Began: c.began, Took: c.took}
		f.Link.SetImported()
		(&logs{links: w}).writeLinks(v, &f, now)
		must.Do(t, w.Close())
		var got []time.Time
		d, err := linklog.Read(mem, []string{"/crawl"}, func(p *linklog.PageLine) error {
			got = append(got, p.Time)
			return nil
		})
		if err != nil || d.Any() || len(got) != 1 || !got[0].Equal(c.want) {
			t.Errorf("fetched at %s, took %s: %v, %+v, %v; want %s", c.began, c.took, got, d, err, c.want)
		}
	}
}
