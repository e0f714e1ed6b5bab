package main

import "testing"

// The command that repeats a result names no path of the machine.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"chaos", "--for", "6m", "--append", "../docs/lab/chaos.jsonl", "--keep", "/tmp/kept"},
			"orblab chaos --for 6m --append chaos.jsonl"},
		{[]string{"near", "--pages=/usr/share/doc", "--out", "/tmp/out"}, "orblab near --pages doc"},
		{[]string{"throughput", "--agent", "old=/tmp/orbweaver.old", "--hosts", "5"},
			"orblab throughput --agent old=FILE --hosts 5"},
		{[]string{"throughput", "--memory-run", "--memory", "256MiB"},
			"orblab throughput --memory-run --memory 256MiB"},
	} {
		if got := again(c.args); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
