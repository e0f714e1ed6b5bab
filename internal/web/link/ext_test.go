package link

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestExtFields sets the fields of a link in any order, and reads them from its encoding.
func TestExtFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, err := weburl.Parse("http://a.example/x")
		must.Do(t, err)
		l := Link{URL: u, Via: "http://a.example/", Hops: "L", Seed: "a.example"}
		depth := rapid.IntRange(0, 1000).Draw(t, "depth")
		l.SetHostDepth(depth)
		var to Destination
		var at Stored
		version, versions := uint64(0), false
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "which") {
			case 0:
				version, versions = rapid.Uint64().Draw(t, "version"), true
				l.SetVersion(version)
			case 1:
				to = Destination{rapid.Uint16().Draw(t, "category"), rapid.Uint64().Draw(t, "hash")}
				l.SetDestination(to)
			default:
				from := rapid.Int64Range(0, 1<<40).Draw(t, "from")
				at = Stored{rapid.StringMatching(`[a-z0-9.\-]{1,60}`).Draw(t, "file"), from,
					from + rapid.Int64Range(0, 1<<30).Draw(t, "size")}
				l.SetStored(at)
			}
		}
		back, _, err := Decode(l.AppendTo(nil))
		must.Do(t, err)
		if got, ok := back.Destination(); got != to || ok != (to != Destination{}) && to != (Destination{}) {
			t.Fatalf("Destination() = %v, %v; want %v", got, ok, to)
		}
		if got, ok := back.WithoutStored().Version(); got != version || ok != versions {
			t.Fatalf("Version() = %v, %v; want %v", got, ok, version)
		}
		if got, ok := back.Stored(); got != at || ok != (at != Stored{}) {
			t.Fatalf("Stored() = %v, %v; want %v", got, ok, at)
		}
		if _, ok := back.WithoutStored().Stored(); ok {
			t.Fatal("WithoutStored has a Stored")
		}
		back.SetImported()
		sent := back.Sent()
		_, stored := sent.Stored()
		_, versioned := sent.Version()
		if d, _ := sent.Destination(); stored || versioned || sent.Imported() || d != to || sent.HostDepth() != depth {
			t.Fatalf("Sent().Ext = %q of %q", sent.Ext, back.Ext)
		}
		back.removeField(tagImported)
		if got := back.AsLink(); got.HostDepth() != depth || got.Ext != (func() string {
			l := Link{}
			l.SetHostDepth(depth)
			return l.Ext
		})() {
			t.Fatalf("AsLink().Ext = %q, host depth %d; want %d", got.Ext, got.HostDepth(), depth)
		}
	})
}

// TestBadExtFields reads fields that no agent writes.
func TestBadExtFields(t *testing.T) {
	for _, ext := range []string{"\x03\x00", "\x03\x01\x01", "\x04\x00", "\x04\x02\x01\x01", "\x04\x01\xff",
		"\x03\x0b\xff\xff\x7f12345678", "\x04\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"} {
		l := Link{Ext: ext}
		if d, ok := l.Destination(); ok {
			t.Errorf("%q: Destination() = %v", ext, d)
		}
		if s, ok := l.Stored(); ok {
			t.Errorf("%q: Stored() = %v", ext, s)
		}
	}
}
