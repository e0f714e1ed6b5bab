package frames

import (
	"bytes"
	"errors"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// Frames of random lengths come back, wherever they stand, and no change of a single bit passes.
func TestFrames(t *testing.T) {
	rng := testseed.Rand(t)
	for range 200 {
		payload := make([]byte, rng.IntN(300))
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		before := bytes.Repeat([]byte("x"), rng.IntN(20))
		file := Append(bytes.Clone(before), payload)
		off, end := int64(len(before)), int64(len(file))
		if Size(file[off:]) != end-off {
			t.Fatalf("size %d, want %d", Size(file[off:]), end-off)
		}
		if got, err := Payload(file[off:]); err != nil || !bytes.Equal(got, payload) {
			t.Fatalf("payload %x, %v, want %x", got, err, payload)
		}
		got, err := Read(bytes.NewReader(file), off, end, []byte("dst"))
		if err != nil || !bytes.Equal(got, append([]byte("dst"), payload...)) {
			t.Fatalf("read %x, %v", got, err)
		}
		broken := bytes.Clone(file)
		broken[off+rng.Int64N(end-off)] ^= 1 << rng.IntN(8)
		check(t, broken, off, end)
		check(t, file[:off+rng.Int64N(end-off)], off, end) // the file ends early
		check(t, file, off, off+rng.Int64N(end-off))       // as far as the caller knows, it does
	}
}

func check(t *testing.T, file []byte, off, end int64) {
	t.Helper()
	dst, err := Read(bytes.NewReader(file), off, end, []byte("dst"))
	if !errors.Is(err, ErrDamaged) || string(dst) != "dst" {
		t.Fatalf("%x from %d to %d: read %q, %v", file, off, end, dst, err)
	}
	if _, err := Payload(file[min(off, int64(len(file))):min(end, int64(len(file)))]); !errors.Is(err, ErrDamaged) {
		t.Fatalf("%x from %d to %d: payload with %v", file, off, end, err)
	}
}

// A length that is not true costs no memory.
func TestLength(t *testing.T) {
	file := Append(nil, []byte("payload"))
	for i := range 4 {
		file[4+i] = 0xff
	}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := Read(bytes.NewReader(file), 0, int64(len(file)), nil); !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Append(nil, []byte("payload")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Read(bytes.NewReader(b), 0, int64(len(b)), nil)
		if err == nil && !bytes.Equal(Append(nil, p), b[:Head+len(p)]) {
			t.Fatalf("%x became %x", b, p)
		}
	})
}
