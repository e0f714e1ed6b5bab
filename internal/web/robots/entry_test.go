package robots

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A cache that is restored from the encoded entries of another cache gives the same answers.
func TestEntries(t *testing.T) {
	c := NewCache(Config{Agent: "orbweaver"})
	page := func(i int) weburl.URL { return mustParse(t, fmt.Sprintf("https://h%d.example/p", i)) }
	replies := []Reply{
		{Status: 200, Body: []byte("User-agent: *\nDisallow: /\n\n# mine\nUser-agent: orbweaver\nCrawl-delay: 3\r\n" +
			"Disallow: /x\rDisallow: /p#\n")},
		{Status: 200}, {Status: 404}, {Status: 503}, {Failed: true}, {Status: 301, Location: "/x"},
	}
	for i, r := range replies {
		c.Learn(page(i), page(i), r, start)
	}
	// A stale copy that applies, and a chain of redirects with earlier rules.
	for i := 6; i < 8; i++ {
		c.Learn(page(i), page(i), replies[0], start.Add(-30*time.Hour))
		c.Learn(page(i), page(i), Reply{Status: 503}, start.Add(-5*time.Hour))
	}
	c.Learn(page(6), page(6), Reply{Status: 503}, start)
	c.Learn(page(7), page(7), Reply{Status: 301, Location: "/x"}, start)

	d := NewCache(Config{Agent: "OrbWeaver"})
	other := NewCache(Config{Agent: "other"})
	n := 0
	must.Do(t, c.Each(func(e Entry) error {
		n++
		b := e.AppendTo([]byte("x"))[1:]
		got, err := DecodeEntry(b)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(e, got, cmp.Comparer(bytes.Equal)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if one, ok := c.Entry(e.Origin); !ok || cmp.Diff(e, one) != "" {
			t.Errorf("%s: Each and Entry differ", e.Origin)
		}
		d.Restore(got)
		other.Restore(got)
		return nil
	}))
	if n != 7 { // all but the chain without earlier rules
		t.Errorf("got %d entries, want 7", n)
	}
	for i := range 8 {
		now := start.Add(time.Second)
		want := brief(c.Ask(page(i), now), now)
		switch i {
		case 5, 7:
			want = "fetch https://h" + fmt.Sprint(i) + ".example/robots.txt"
		}
		if got := brief(d.Ask(page(i), now), now); got != want {
			t.Errorf("h%d: got %s, want %s", i, got, want)
		}
		if a := other.Ask(page(i), now); a.Verdict != Fetch {
			t.Errorf("h%d, another agent: got %v, want fetch", i, a.Verdict)
		}
	}
	stop := errors.New("stop")
	if err := c.Each(func(Entry) error { return stop }); err != stop {
		t.Errorf("got %v, want %v", err, stop)
	}
	if _, ok := c.Entry("https://nowhere.example"); ok {
		t.Error("got an entry for an unknown origin")
	}
}

func TestDecodeEntryDamaged(t *testing.T) {
	e := Entry{Origin: "https://a.example", Agent: "x", Fetched: start, Expires: start, Class: ClassRules,
		Body: []byte("User-agent: *")}
	good := e.AppendTo(nil)
	for i := range good {
		if _, err := DecodeEntry(good[:i]); !errors.Is(err, ErrEntry) {
			t.Errorf("cut at %d: got %v, want ErrEntry", i, err)
		}
	}
	big := e
	big.Body = make([]byte, ReadLimit+1)
	long := e
	long.Origin = strings.Repeat("o", maxOrigin+1)
	none := e
	none.Origin = ""
	for name, b := range map[string][]byte{
		"more":        append(bytes.Clone(good), 0),
		"version 0":   append([]byte{0}, good[1:]...),
		"version 3":   append([]byte{3}, good[1:]...),
		"class 0":     append([]byte{2, 0}, good[2:]...),
		"class 5":     append([]byte{2, classRedirect}, good[2:]...),
		"failures":    {2, ClassUnreachable, 0, 0, 0x80, 2, 0, 1, 'o', 0},
		"big body":    big.AppendTo(nil),
		"long origin": long.AppendTo(nil),
		"no origin":   none.AppendTo(nil),
	} {
		if _, err := DecodeEntry(b); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: got %v, want ErrEntry", name, err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	e := Entry{Origin: "https://a.example", Agent: "x", Fetched: start, Expires: start.Add(time.Hour),
		Class: ClassStale, Failures: 7, Body: []byte("User-agent: *\nDisallow: /")}
	f.Add(e.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if err != nil {
			return
		}
		again := must.Get(DecodeEntry(e.AppendTo(nil)))(t)
		if d := cmp.Diff(e, again); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
		c := NewCache(Config{Agent: e.Agent})
		c.Restore(e)
		if got, ok := c.Entry(e.Origin); !ok || got.Class != e.Class || got.Failures != e.Failures ||
			!got.Expires.Equal(e.Expires) {
			t.Fatalf("got %+v, want %+v", got, e)
		}
	})
}

// TestEntryGolden checks that the encoding does not change.
func TestEntryGolden(t *testing.T) {
	want := Entry{
		Origin: "https://a.example:8443", Agent: "orbweaver", Class: ClassStale, Failures: 3,
		Fetched: start, Expires: start.Add(24 * time.Hour), Body: []byte("\n\nUser-agent: *\nDisallow: /p"),
	}
	b := must.Get(os.ReadFile("testdata/entry-v1.bin"))(t)
	got := must.Get(DecodeEntry(b))(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("decode (-want +got)\n%s", d)
	}
	if enc := want.AppendTo(nil); !bytes.Equal(enc, b) {
		t.Errorf("encode: got %q, want %q", enc, b)
	}
}

// The count of failures continues after a restart.
func TestFailuresSurviveRestart(t *testing.T) {
	u := mustParse(t, "https://a.example/p")
	now := start
	c := NewCache(Config{Agent: "x", RetryWait: time.Second})
	for n := range 300 { // more failures than the count can hold
		c.Learn(u, u, Reply{Failed: true}, now)
		want := "unreachable " + min(time.Second<<min(n, 12), time.Hour).String()
		if got := brief(c.Ask(u, now), now); got != want {
			t.Fatalf("after failure %d: got %s, want %s", n+1, got, want)
		}
		e, ok := c.Entry(u.Origin())
		if !ok {
			t.Fatal("no entry")
		}
		e = must.Get(DecodeEntry(e.AppendTo(nil)))(t)
		c = NewCache(Config{Agent: "x", RetryWait: time.Second})
		c.Restore(e)
		if got := brief(c.Ask(u, now), now); got != want {
			t.Fatalf("after failure %d and a restart: got %s, want %s", n+1, got, want)
		}
		now = now.Add(2 * time.Hour)
	}
}
