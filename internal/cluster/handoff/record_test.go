package handoff_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// hostileNames returns records that no agent writes.
func hostileNames() map[string]handoff.Record {
	url := weburl.MustParse("http://a.example/1")
	linkOf := func(l link.Link) []byte { return l.AppendTo(nil) }
	huge := binary.AppendUvarint([]byte{0}, weburl.MaxParse+1)
	huge = append(append(huge, "http://a.example/"...), strings.Repeat("a", weburl.MaxParse)...)
	rs := map[string]handoff.Record{
		"no link":           {Link: nil},
		"an empty link":     {Link: linkOf(link.Link{})},
		"a huge link":       {Link: append(huge, 0, 0, 0)},
		"no canonical link": {Link: append([]byte("\x00\x09HTTP://a/"), 0, 0, 0)},
		"a referrer":        {Link: linkOf(link.Link{URL: url, Via: "http://a.example/"})},
		"hops":              {Link: linkOf(link.Link{URL: url, Hops: "L"})},
		"a seed":            {Link: linkOf(link.Link{URL: url, Seed: "a.example"})},
		"a level":           {Link: linkOf(link.Link{URL: url, Level: 1})},
		"an extension":      {Link: linkOf(link.Link{URL: url, Ext: "\x01\x00"})},
		"bytes at the end":  {Link: append(linkOf(link.Link{URL: url}), 0)},
		"no disposition":    {Link: linkOf(link.Link{URL: url})},
		"disposition 3":     {Link: linkOf(link.Link{URL: url}), Disposition: 3},
		"not lost":          {Link: linkOf(link.Link{URL: url}), Archive: "a2-01020304"},
		"no instance":       {Link: linkOf(link.Link{URL: url}), Disposition: handoff.Lost, Archive: "a2"},
		"a long instance":   {Link: linkOf(link.Link{URL: url}), Disposition: handoff.Lost, Archive: "a2-0102030405"},
		"a folder":          {Link: linkOf(link.Link{URL: url}), Disposition: handoff.Lost, Archive: "../a2-01020304"},
	}
	for name, r := range rs {
		if r.Kind = handoff.Named; name != "no disposition" {
			r.Disposition = max(r.Disposition, handoff.Archived)
		}
		rs[name] = r
	}
	return rs
}

// TestHostileNames: neither Decode nor Append takes such a record.
func TestHostileNames(t *testing.T) {
	s := openStore(t, testdisk.NewMem(), handoff.Config{})
	defer s.Close()
	for name, r := range hostileNames() {
		b := r.AppendTo(nil)
		if _, _, err := handoff.Decode(b, nil); !errors.Is(err, handoff.ErrRecord) {
			t.Errorf("%s: Decode: %v", name, err)
		}
		if err := s.Append(source(1), b); !errors.Is(err, handoff.ErrRecord) {
			t.Errorf("%s: Append: %v", name, err)
		}
	}
}

// FuzzDecode: a decoded record is encoded to the same bytes, and Append accepts exactly what Decode
// accepts.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		r := randomRecord(rng)
		f.Add(r.AppendTo(nil))
	}
	for _, r := range hostileNames() {
		f.Add(r.AppendTo(nil))
	}
	s, err := handoff.Open(testdisk.NewMem(), "r", handoff.Config{})
	must.Do(f, err)
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		r, n, err := handoff.Decode(data, nil)
		if err != nil {
			if !errors.Is(err, handoff.ErrRecord) {
				t.Fatal(err)
			}
			if aerr := s.Append(source(1), data); len(data) > 0 && aerr == nil {
				t.Fatalf("Append takes what Decode refuses: %v", err)
			}
			return
		}
		if b := r.AppendTo(nil); string(b) != string(data[:n]) {
			t.Fatalf("%x is read as %+v, and encoded as %x", data[:n], r, b)
		}
		if n <= handoff.MaxBatch {
			must.Do(t, s.Append(source(1), data[:n]))
		}
	})
}
