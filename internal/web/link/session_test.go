package link

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// URLs that differ in session ids alone have one key.
func TestSessionKeys(t *testing.T) {
	const id32, id24 = "0123456789abcdefABCDEF0123456789", "0123456789abcdefABCDEF01"
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"/p;jsessionid=1", "/p", true},
		{"/p.html;JSESSIONID=" + id32 + ".node1", "/p.html;jsessionid=!x", true},
		{"/a;jsessionid=1/b;v=2;jsessionid=3;w?q", "/a/b;v=2;w?q", true},
		{"/p?jsessionid=1&x=2", "/p?x=2", true},
		{"/p?PHPSESSID=" + id32, "/p", true},
		{"/p?x=1&phpsessid=abcdefghij,klmno-p&y=2", "/p?x=1&y=2", true},
		{"/p?x=1;PHPSESSID=" + id32 + ";y=2", "/p?x=1;y=2", true},
		{"/p;PHPSESSID=" + id32, "/p", true},
		{"/p?sid=" + id32, "/p?SID=98765432109876543210987654321098", true},
		{"/p?session_id=" + id32 + "&osCsid=" + id32 + "&zenid=" + id24, "/p", true},
		{"/p?ASPSESSIONIDabcdefgh=" + id24 + "&z", "/p?z", true},
		{"/p?z&CFID=12&CFTOKEN=34", "/p?z", true},
		{"/(S(" + id24 + "))/p.aspx", "/p.aspx", true},
		{"/a/(X(1)S(" + id24 + "))/p", "/a/p", true},

		{"/p;v=1", "/p;v=2", false},
		{"/p;v=1", "/p", false},
		{"/p?sid=12", "/p?sid=13", false},
		{"/p?sid=" + id32 + "0", "/p", false},
		{"/p?PHPSESSID=1", "/p?PHPSESSID=2", false},
		{"/p?xsid=" + id32, "/p", false},
		{"/p?cfid=1", "/p?cfid=2", false},
		{"/p?session=" + id32, "/p", false},
		{"/p?x=" + id32, "/p?x=" + id24, false},
		{"/(S(" + id24 + "))", "/", false},
		{"/(a)/p", "/p", false},
		{"/p?jsessionid", "/p", false},
		{"/p;jsessionid=1", "/q;jsessionid=1", false},
	} {
		a, b := weburl.MustParse("http://a.example"+c.a), weburl.MustParse("http://a.example"+c.b)
		if same := KeyOf(a) == KeyOf(b); same != c.same {
			t.Errorf("%s and %s: same key %t, want %t", a, b, same, c.same)
		}
		var batch Batch
		batch.SetBase(b)
		for _, u := range []weburl.URL{a, b} {
			if k, err := batch.Resolve([]byte(u.String())); err != nil || k != KeyOf(u) {
				t.Errorf("%s: the batch has the key %x, %v; want %x", u, k, err, KeyOf(u))
			}
		}
	}
}

// A link that redirects lead back to counts as new only as often as the chain has requested it.
func TestSteps(t *testing.T) {
	a, b := weburl.MustParse("http://a.example/"), weburl.MustParse("http://b.example/")
	steps := AddStep(AddStep(AddStep("", a, 1), b, 7), a, 2)
	for _, c := range []struct {
		u       weburl.URL
		request uint32
		times   int
		same    bool
	}{
		{a, 1, 2, true}, {a, 2, 2, true}, {a, 3, 2, false}, {b, 1, 1, false},
		{weburl.MustParse("http://c.example/"), 1, 0, false},
	} {
		if times, same := Passed(steps, c.u, c.request); times != c.times || same != c.same {
			t.Errorf("%s, %d: %d times, same %t", c.u, c.request, times, same)
		}
	}
	l := Link{URL: a, Hops: "RRR"}
	l.SetHostDepth(3)
	keys := map[Key]bool{l.Key(): true}
	for _, s := range []string{AddStep("", a, 1), steps} {
		l.SetSteps(s)
		got, _, err := Decode(l.AppendTo(nil))
		if err != nil || got != l || got.Steps() != s || got.HostDepth() != 3 {
			t.Errorf("%q: decoded %+v, %v", s, got, err)
		}
		keys[l.Key()] = true
	}
	if len(keys) != 3 {
		t.Errorf("%d keys, want 3", len(keys))
	}
	if l.SetSteps(AddStep("", b, 1)); l.Key() != KeyOf(a) {
		t.Error("another URL of the chain changes the key")
	}
	if l.SetSteps(""); l.Steps() != "" || l.HostDepth() != 3 {
		t.Errorf("%+v", l)
	}
	for range 100 {
		steps = AddStep(steps, b, 1)
	}
	if len(steps) != maxSteps*stepLen || len(steps) > MaxExt/2 {
		t.Errorf("%d octets", len(steps))
	}
}
