package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A panic and a deadlock end the process before the story, and with it all logs of tests. So the
// events of the stories under way are in files in this folder. TestMain names it.
var eventsDir string

func TestMain(m *testing.M) {
	flag.Parse()
	prepare()
	code := withEvents(m.Run)
	if names := untold(); len(names) > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "the gate lists stories that no test has: %q\n", names)
		code = 1
	}
	os.Exit(code)
}

// withEvents runs f with a folder for events, and removes the folder if all stories have ended.
func withEvents(f func() int) int {
	var err error
	if eventsDir, err = os.MkdirTemp("", "orbweaver-sim-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "events of stories under way: %s\n", eventsDir)
	defer os.Remove(eventsDir)
	return f()
}

// openEvents creates the file for the events of a story. The caller removes it when the story has
// ended; a cleanup would remove it after a panic, too.
func openEvents(t *testing.T, p Plan) *os.File {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + ".log"
	f := must.Get(os.Create(filepath.Join(eventsDir, name)))(t)
	t.Cleanup(func() { f.Close() })
	fmt.Fprintf(f, "%s\n\n%s\n\n", p, p.JSON())
	return f
}

// Tell writes each event before the story ends.
func TestEventsAreWrittenAtOnce(t *testing.T) {
	var events bytes.Buffer
	var v *Verdict
	synctest.Test(t, func(t *testing.T) { v = Tell(t, Plan{Seed: 3, Hosts: 3, Pages: 4}, &events) })
	if got, want := events.String(), strings.Join(v.Log, "\n")+"\n"; got != want || len(v.Log) == 0 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
