package view

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// Whatever the files of a crawl hold, each whole line of the log counts once, and the page has no element that a text
// of the files made.
func FuzzFiles(f *testing.F) {
	l := report.Line{Time: at, Code: 404, URL: "http://a.example/<script>", Hops: "LR", Via: "http://a.example/",
		Began: at,
		Notes: []string{"error:dns", "cause:x", "duplicate:digest"}}
	f.Add(string(l.AppendTo(nil)), "url,status,error,links,pages\nhttp://a.example/,404,,1,http://b.example/\n",
		`{"url":"u","reason":"dropped"}`+"\n",
		`{"time":"2026-01-02T15:04:05Z","event":"stopped","reason":"finished"}`+"\n")
	f.Add("x\n\n2026", "a,\"b\n", "{}", "{")
	f.Fuzz(func(t *testing.T, log, broken, skipped, events string) {
		fs := testdisk.NewMem()
		for name, text := range map[string]string{"a/logs/crawl.log": log, "a/reports/broken.csv": broken,
			"a/reports/skipped.jsonl": skipped, "a/logs/events.jsonl": events, "a/reports/summary.json": "{}"} {
			write(t, fs, name, text)
		}
		var listed int64
		r := must.Get(review.Read(t.Context(), []string{"a"}, review.Config{FS: fs, Top: 3, Names: 4,
			OnBroken: func(review.Broken) error { listed++; return nil },
			Held:     func(string) (bool, error) { return false, nil }}))(t)
		lines := int64(strings.Count(log, "\n"))
		if counted := r.Visits + r.RobotsTxt; counted > lines || counted+r.Damaged < lines || listed != r.BrokenCount {
			t.Fatalf("%d of %d lines counted, %d damaged; %d of %d broken", counted, lines, r.Damaged, listed,
				r.BrokenCount)
		}
		var plain, b bytes.Buffer
		must.Do(t, Text(&plain, Sections(r, 3), 30))
		if strings.ContainsAny(plain.String(), "\x00\x1b\u202e") {
			t.Fatal("a control character in the tables")
		}
		must.Do(t, HTML(&b, r, Sections(r, 3)))
		doc := must.Get(html.Parse(&b))(t)
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode && (n.Data == "script" || n.Data == "img" || n.Data == "a" &&
				attr(n, "href")[0] != '#' && !linkable(attr(n, "href"))) {
				t.Fatalf("<%s> %v", n.Data, n.Attr)
			}
		}
	})
}

func write(t *testing.T, fs *testdisk.Mem, name, text string) {
	t.Helper()
	must.Do(t, fs.MkdirAll(name[:strings.LastIndexByte(name, '/')], 0o755))
	f := must.Get(fs.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644))(t)
	must.Get(f.Write([]byte(text)))(t)
	must.Do(t, f.Close())
}
