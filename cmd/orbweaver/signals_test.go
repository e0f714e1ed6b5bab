package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A terminal that closes sends SIGHUP twice, and systemd may send SIGHUP after a SIGTERM. Only a
// second SIGINT or SIGTERM ends the process at once.
func TestSignals(t *testing.T) {
	names := map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": os.Interrupt, "TERM": syscall.SIGTERM}
	for given, want := range map[string]string{
		"":            "",
		"HUP":         "stop",
		"HUP HUP":     "stop",
		"TERM HUP":    "stop",
		"HUP HUP INT": "stop",
		"INT INT":     "stop force",
		"TERM TERM":   "stop force",
		"HUP TERM":    "stop",
		"HUP INT INT": "stop force",
	} {
		signals, over := make(chan os.Signal), make(chan struct{})
		ended := make(chan []string)
		go func() {
			var did []string
			obey(signals, over, func() { did = append(did, "stop") }, func() { did = append(did, "force") })
			ended <- did
		}()
		for _, name := range strings.Fields(given) {
			signals <- names[name]
		}
		if !strings.HasSuffix(want, "force") {
			close(over)
		}
		if did := strings.Join(<-ended, " "); did != want {
			t.Errorf("%s: %q, want %q", given, did, want)
		}
	}
}
