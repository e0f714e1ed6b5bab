package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Many seeds go in several calls, and their answers are added up.
func TestCtlSeedMany(t *testing.T) {
	many := filepath.Join(t.TempDir(), "many.txt")
	var lines strings.Builder
	r := &pb.AddSeedsResponse{}
	for i := range seedsAtOnce + 30 {
		fmt.Fprintf(&lines, "u%d # comment\n\n", i)
		if i < 30 {
			r.Seeds = append(r.Seeds, &pb.Seed{Url: fmt.Sprint("u", i), Result: "new", Agent: "a1"})
		}
	}
	makeFile(t, many, lines.String())
	api := cannedFor(map[string]string{"AddSeeds": formatted(r)})
	code, stdout, stderr := ctl(serveAPI(t, api, "x"), "seed", "--file", many)
	if want := fmt.Sprintf("%s seeds: %[1]s new\n", humanize.Comma(60)); code != 0 || stdout != want ||
		len(api.asked) != 2 {
		t.Errorf("exit code %d, %q, want %q; %s; asked %d times", code, stdout, want, stderr, len(api.asked))
	}
}
