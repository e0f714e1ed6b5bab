package quantity

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]ByteSize{
		"0": 0, "1": 1, "100": 100, "1023": 1023, "1kB": 1000, "1KiB": 1024, "1MiB": 1 << 20, "4GiB": 4 << 30,
		"1GB": 1e9, "500MB": 500e6, "1500MB": 1500e6, "1536MiB": 1536 << 20, "1000KiB": 1024000, "3PiB": 3 << 50,
		"9007199254740993": 1<<53 + 1, "4096PiB": 1 << 62,
	} {
		if got := want.String(); got != text {
			t.Errorf("%d: %s, want %s", int64(want), got, text)
		}
	}
	r := testseed.Rand(t)
	for range 10000 {
		want := ByteSize(r.Int64N(1<<62) >> r.IntN(62))
		if r.IntN(2) == 0 { // a number with zeros at its end, in one of the systems
			unit := []int64{1e3, 1e6, 1e9, 1 << 10, 1 << 20, 1 << 30}[r.IntN(6)]
			want -= want % ByteSize(unit)
		}
		var got ByteSize
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Fatalf("%d is written %s and read as %d, %v", int64(want), want, int64(got), err)
		}
	}
}

func TestSpan(t *testing.T) {
	for in, want := range map[string]Span{
		"": {}, "end": {End: true}, "1h": {Time: time.Hour}, "90m": {Time: 90 * time.Minute}, "1GB": {Bytes: 1e9},
		"512MiB": {Bytes: 512 << 20}, "1000000": {Bytes: 1e6},
	} {
		var got, back Span
		if err := got.UnmarshalText([]byte(in)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", in, got, err, want)
		}
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Errorf("%q: %q reads as %+v, %v", in, got, back, err)
		}
	}
	for _, in := range []string{"0", "1s", "-1h", "-1GB", "1kB", "hourly", "1h 1GB", "1e300GB", "99999999h"} {
		var s Span
		if err := s.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q: got %+v, want an error", in, s)
		}
	}
}

func TestBandwidth(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Bandwidth // 0: refused
	}{
		{"320Mbit", 40e6}, {"320 Mbit/s", 40e6}, {"320Mbps", 40e6}, {"40MB", 40e6}, {"40MB/s", 40e6}, {"40MBps", 40e6},
		{"1.5GB", 1.5e9},
		{"64kbit", 8000}, {"64Kibit", 8192}, {"1MiB", 1 << 20}, {"8bit", 1}, {"100B", 100},
		{"", 0}, {"320", 0}, {"MB", 0}, {"-1MB", 0}, {"0MB", 0}, {"1bit", 0}, {"3Mb", 0}, {"1e9B", 0},
		{"99999999999GB", 0}, {"1.MB", 0}, {"40MB/h", 0},
	} {
		var got Bandwidth
		if err := got.UnmarshalText([]byte(tt.text)); got != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("%q: got %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
}
