package cli

import "testing"

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
