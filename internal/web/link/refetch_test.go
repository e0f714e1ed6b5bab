package link

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestRefetches: the key of a link is that of its URL, unless the URL is fetched again. Each time has a key of its own,
// in the range of the host. Other fields of an Ext do not change the key.
func TestRefetches(t *testing.T) {
	u := weburl.MustParse("http://a.example/x?y=1")
	seen := map[Key]int{}
	for n := range 256 {
		l := Link{URL: u, Hops: "LL", Seed: "a.example"}
		l.SetHostDepth(2)
		l.SetRefetches(uint8(n))
		back, _, err := Decode(l.AppendTo(nil))
		if err != nil || back != l || back.Refetches() != uint8(n) || back.HostDepth() != 2 {
			t.Fatalf("%d: %+v, %v; want %+v", n, back, err, l)
		}
		if k := back.Key(); k.Host != KeyOf(u).Host || (k == KeyOf(u)) != (n == 0) {
			t.Errorf("%d: key %+v of a URL with %+v", n, k, KeyOf(u))
		}
		seen[back.Key()]++
	}
	if len(seen) != 256 {
		t.Errorf("%d keys, want 256", len(seen))
	}
	for _, ext := range []string{"\x07\x00", "\x07\x02\x01\x01"} {
		if l := (Link{URL: u, Ext: ext}); l.Refetches() != 0 || l.Key() != KeyOf(u) {
			t.Errorf("%q: %d refetches", ext, l.Refetches())
		}
	}
}
