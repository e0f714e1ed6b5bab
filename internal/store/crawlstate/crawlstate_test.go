package crawlstate_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/crawlstate"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

var hows = map[image.How]string{image.Leave: "left out", image.Whole: "saved", image.Grows: "saved, grows",
	image.First: "saved, first"}

// TestTable compares the rules with the table in DESIGN.md.
func TestTable(t *testing.T) {
	text := string(must.Get(os.ReadFile("DESIGN.md"))(t))
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(text, -1)
	if len(row) != len(crawlstate.Rules) {
		t.Fatalf("the table has %d rows, and there are %d rules", len(row), len(crawlstate.Rules))
	}
	for i, r := range crawlstate.Rules {
		want := hows[r.How]
		if r.Asked {
			want = "asked"
		}
		if row[i][1] != r.Pattern || row[i][2] != want {
			t.Errorf("row %d: %q is %q; the rule: %q is %q", i+1, row[i][1], row[i][2], r.Pattern, want)
		}
		must.Get(path.Match(r.Pattern, "x"))(t)
	}
}

// TestReference: each path that the reference of a crawl directory names has a rule.
func TestReference(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../../docs/reference/files.md"))(t))
	top, rest, _ := strings.Cut(text, "A coordinator (")
	_, state, ok := strings.Cut(rest, "\n## state/\n")
	state, _, more := strings.Cut(state, "\n### ")
	if !ok || !more {
		t.Fatal("the reference has no list of the files in state/")
	}
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \|`)
	name := regexp.MustCompile("`([^`]+)`")
	n := 0
	for _, part := range []struct{ text, dir string }{{top, ""}, {state, "state/"}} {
		for _, m := range row.FindAllStringSubmatch(part.text, -1) {
			for _, p := range name.FindAllStringSubmatch(m[1], -1) {
				if n++; p[1] != "state/" && !crawlstate.Named(part.dir+p[1]) {
					t.Errorf("no rule names %s", part.dir+p[1])
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("the reference names %d paths", n)
	}
}

// stored picks one segment and its index.
type stored struct{}

func (stored) Pick(p string) image.How {
	if strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/_SUCCESS") {
		return image.Whole
	}
	return image.Leave
}

func TestPick(t *testing.T) {
	f := crawlstate.Files{Archive: stored{}}
	for p, want := range map[string]image.How{
		"crawl.yaml": image.Whole, "crawl.yaml.tmp": image.Leave, "keys/": image.Leave, "keys/agent.key": image.Leave,
		"netrc": image.Leave, "logs/": image.Grows, "logs/crawl.log": image.Grows, "logs/crawl.jsonl": image.Leave,
		"archive/": image.Leave, "archive/x.warc.gz": image.Leave, "state/": image.Whole, "state/api.json": image.Leave,
		"state/api-reader.token": image.Leave, "state/lock": image.Leave, "state/orders.tmp": image.Leave,
		"state/new-part/": image.Whole, "state/new-part/x": image.Whole, "state/seen/": image.Leave,
		"state/seen/manifest": image.Leave, "state/near/run-00000001": image.Whole, "state/near/manifest": image.First,
		"state/near/spill-00000002": image.Leave, "state/queues/": image.Leave, "state/store.json": image.Leave,
		"state/journal/": image.Whole, "state/journal/journal-00000001.log": image.Grows,
		"state/journal/snapshot-00000002.log": image.First, "state/journal/part-00000002-0000.log": image.Whole,
		"state/applications/app/acknowledged": image.First, "state/applications/app/0": image.Grows,
		"crawl-data/": image.Whole, "crawl-data/C/segments/S/_SUCCESS": image.Whole,
		"crawl-data/C/segments/S/warc/x.warc.gz": image.Leave, "state/index/x.cdxj": image.Leave,
	} {
		if got := f.Pick(p); got != want {
			t.Errorf("%s is %s, want %s", p, hows[got], hows[want])
		}
	}
	if got := (crawlstate.Files{}).Pick("state/index/x.cdxj"); got != image.Leave {
		t.Errorf("without an archive an index is %s", hows[got])
	}
}
