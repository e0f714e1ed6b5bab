package orders

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var update = flag.Bool("update", false, "write the golden file")

func sampleSet() *Set {
	s := NewSet()
	o := sample()
	off := Order{Clock: o.Clock + 1, Agent: "a2", At: begin, Verb: o.Verb, About: o.About, Off: true}
	pause := Order{Clock: o.Clock + 1, Agent: "a1", At: begin, Verb: "pause"}
	s.Merge([]Order{o, off, pause})
	return s
}

// TestFileRoundTrip: a set is the same after it was saved and loaded.
func TestFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSet()
		s.Merge(rapid.SliceOfN(rapid.OneOf(few, anyOrder), 0, 20).Draw(t, "orders"))
		b := s.Encode()
		got, err := DecodeSet(b)
		if err != nil || got.Digest() != s.Digest() || !slices.Equal(got.Standing(), s.Standing()) {
			t.Fatalf("%v, %v; want %v", got, err, s.Past())
		}
		if again := got.Encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x is %x", b, again)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(t, "changed")
		if _, err := DecodeSet(b[:i]); !errors.Is(err, ErrFile) {
			t.Fatalf("%d of %d bytes: %v", i, len(b), err)
		}
		b[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if _, err := DecodeSet(b); !errors.Is(err, ErrFile) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	})
}

func TestLoad(t *testing.T) {
	fs := testdisk.NewMem()
	s, err := Load(fs, "orders")
	if err != nil || len(s.Past()) != 0 {
		t.Fatalf("no file: %v, %v", s, err)
	}
	want := sampleSet()
	must.Do(t, want.Save(fs, "orders"))
	if s, err = Load(fs, "orders"); err != nil || s.Digest() != want.Digest() {
		t.Errorf("%v, %v", s, err)
	}
	if f, err := fs.OpenFile("orders", os.O_WRONLY|os.O_TRUNC, 0); err != nil {
		t.Fatal(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = Load(fs, "orders"); !errors.Is(err, ErrFile) {
		t.Errorf("an empty file: %v", err)
	}
}

// TestGolden: files of this version are readable, and written as before.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "v1", "orders")
	got := sampleSet().Encode()
	if *update {
		must.Do(t, os.WriteFile(golden, got, 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("written is\n%x\ngolden is\n%x", got, want)
	}
	if s, err := DecodeSet(want); err != nil || s.Digest() != sampleSet().Digest() {
		t.Errorf("%v, %v", s, err)
	}
}

// FuzzDecodeSet: a file that is accepted is a set that is written and read again as it is.
func FuzzDecodeSet(f *testing.F) {
	for _, s := range []*Set{NewSet(), sampleSet()} {
		b := s.Encode()
		f.Add(b[len(magic)+4:])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := DecodeSet(summed(body))
		if err != nil {
			if !errors.Is(err, ErrFile) || s != nil {
				t.Fatalf("%v, %v", s, err)
			}
			return
		}
		for _, o := range s.Past() {
			must.Do(t, o.Check())
		}
		if again, err := DecodeSet(s.Encode()); err != nil || again.Digest() != s.Digest() {
			t.Fatalf("%v is %v, %v", s.Past(), again, err)
		}
	})
}
