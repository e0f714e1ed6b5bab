package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A terminal that closes sends SIGHUP twice, and systemd may send SIGHUP after a SIGTERM. The command "timeout"
// sends each signal twice. Only a later SIGINT or SIGTERM ends the process at once.
func TestSignals(t *testing.T) {
	names := map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": os.Interrupt, "TERM": syscall.SIGTERM}
	for given, want := range map[string]string{
		"":                   "",
		"HUP":                "stop",
		"HUP HUP":            "stop",
		"TERM HUP":           "stop",
		"HUP HUP INT":        "stop",
		"INT wait INT":       "stop force",
		"TERM wait TERM":     "stop force",
		"TERM TERM":          "stop",
		"INT TERM":           "stop force",
		"TERM TERM wait INT": "stop force",
		"INT INT INT":        "stop",
		"HUP TERM":           "stop",
		"HUP TERM wait HUP":  "stop",
		"HUP INT wait INT":   "stop force",
	} {
		synctest.Test(t, func(t *testing.T) {
			signals, over := make(chan os.Signal), make(chan struct{})
			ended := make(chan []string)
			go func() {
				var did []string
				obey(signals, over, func() {
					did = append(did, "stop")
					time.Sleep(time.Second) // for example, a terminal that is slow
				}, func() { did = append(did, "force") })
				ended <- did
			}()
			for _, name := range strings.Fields(given) {
				if name == "wait" {
					synctest.Wait()
					time.Sleep(time.Second + sameSignal)
				} else {
					signals <- names[name]
				}
			}
			if !strings.HasSuffix(want, "force") {
				close(over)
			}
			if did := strings.Join(<-ended, " "); did != want {
				t.Errorf("%s: %q, want %q", given, did, want)
			}
		})
	}
}
