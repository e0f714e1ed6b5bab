package orbweaver

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Errors of internal/node that name a flag name an option here. Each flag in its texts has
// an option. The library has no coordinators, which have files of their own there.
func TestFlagsAreOptions(t *testing.T) {
	files, err := filepath.Glob("internal/node/*.go")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`"[^"\n]*--[^"\n]*"`)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "coordinator") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range text.FindAllString(string(b), -1) {
			for _, f := range flag.FindAllString(s, -1) {
				found++
				if optionOf[f] == "" {
					t.Errorf("%s: %s: optionOf does not know %s", name, s, f)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d flags were found", found)
	}
	for from, want := range map[string]string{
		"no seeds: give at least one URL, or a file of URLs with --seeds": "no seeds: give at least one URL in " +
			"Options.Seeds",
		"--partition hash: with --strategy walk": "Options.Cluster.Partition hash: with Options.Strategy walk",
		"an agent of a cluster: continue it with its --name and --listen": "an agent of a cluster: continue it with " +
			"Options.Cluster, with the agent's Name and Listen",
	} {
		if got := inOptions(from); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got, want := inOptions("--site-delay -1s: give --contact; see --new-flag"),
		"Options.Delay -1s: give Options.Contact; see --new-flag"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
