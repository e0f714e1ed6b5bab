package crawlstate_test

import (
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/store/crawlstate"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestSegments: an image has the marks and the index runs of segments that the store has, and of no others.
func TestSegments(t *testing.T) {
	const at, store = "crawl-data/C/segments/", "file:///mnt/archive/"
	files := map[string]string{
		at + "S1/manifest.json":         `{"files":[{"name":"warc/a.warc.gz"},{"name":"x"}]}`,
		at + "S1/_SUCCESS":              "",
		at + "S1/_STORED":               store + "\n",
		at + "S1/index.cdxj":            "the store has it",
		at + "S1/warc/a.warc.gz":        "the store has it",
		at + "S2/manifest.json":         `{"files":[{"name":"warc/b.warc.gz"}]}`,
		at + "S2/_SUCCESS":              "not stored yet",
		at + "S3/manifest.json":         `{"files":[{"name":"warc/c.warc.gz"}]}`,
		at + "S3/_STORED":               "s3://another/store/",
		at + "S4/warc/d.warc.gz.open":   "open",
		"crawl-data/C/warc.paths.gz":    "made anew",
		"state/index/a.cdxj":            "1",
		"state/index/a.cdxj.0000":       "0",
		"state/index/b.cdxj":            "1",
		"state/index/c.cdxj":            "1",
		"state/index/d.cdxj.0000":       "1",
		"state/index/a-other.cdxj":      "1",
		"crawl.yaml":                    "{}",
		"keys/agent.key":                "secret",
		"state/api.json":                "secret",
		"state/journal/journal-01.log":  "j",
		"logs/crawl.log":                "l",
		"state/queues/q":                "made anew",
		"state/seen/manifest":           "m",
		"state/applications/a/0":        "lines",
		"reports/lost-a2-0123.txt":      "u",
		"state/replica/x/journal-1.log": "of another agent",
	}
	m := testdisk.NewMem()
	for name, text := range files {
		must.Do(t, m.MkdirAll(path.Dir("c/"+name), 0o755))
		must.Do(t, disk.WriteFile(m, "c/"+name, []byte(text)))
	}
	s := crawlstate.NewSegments(m, "c", store)
	pick := crawlstate.Files{Archive: s}
	want := []string{"crawl.yaml", "logs/crawl.log", "reports/lost-a2-0123.txt", "state/applications/a/0",
		"state/journal/journal-01.log", "state/seen/manifest"}
	if diff := cmp.Diff(want, picked(pick, files)); diff != "" {
		t.Errorf("before Look (-want +got):\n%s", diff)
	}
	must.Do(t, s.Look())
	want = append(want, at+"S1/_STORED", at+"S1/_SUCCESS", at+"S1/manifest.json", "state/index/a.cdxj",
		"state/index/a.cdxj.0000")
	slices.Sort(want)
	if diff := cmp.Diff(want, picked(pick, files)); diff != "" {
		t.Errorf("after Look (-want +got):\n%s", diff)
	}
	must.Do(t, disk.WriteFile(m, "c/"+at+"S2/_STORED", []byte(store)))
	must.Do(t, s.Look())
	if pick.Pick("state/index/b.cdxj") != image.Whole {
		t.Error("the index of a segment that was stored is left out")
	}
}

// picked returns the names that a Picker picks, as a walk finds them.
func picked(p image.Picker, files map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in := p.Pick(name) != image.Leave
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			in = in && p.Pick(dir+"/") != image.Leave
		}
		if in {
			names = append(names, name)
		}
	}
	return names
}
