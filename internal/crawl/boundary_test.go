package crawl

import (
	"maps"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
)

// The pages of a category are those that the archive has, each once.
func TestCountKept(t *testing.T) {
	here := &Before{Original: warc.Original{ID: [16]byte{1}, Date: time.Unix(1, 0)}}
	elsewhere := &Before{Original: warc.Original{Date: time.Unix(1, 0)}}
	for _, test := range []struct {
		name string
		v    visit
		drop bool
		want int64
	}{
		{"new", visit{topic: "A", archived: true}, false, 1},
		{"no category", visit{archived: true}, false, 0},
		{"not archived", visit{topic: "A"}, false, 0},
		{"near-duplicate, dropped", visit{topic: "A", archived: true, near: &index.Page{}}, true, 0},
		{"near-duplicate, marked", visit{topic: "A", archived: true, near: &index.Page{}}, false, 1},
		{"again", visit{topic: "A", archived: true, before: here}, false, 0},
		{"again, before at another agent", visit{topic: "A", archived: true, before: elsewhere}, false, 1},
		{"again, failed before", visit{topic: "A", archived: true, before: &Before{}}, false, 1},
	} {
		c := &Crawler{Parts: Parts{}, cfg: Config{DropNear: test.drop}}
		c.countKept(&test.v)
		want := map[string]int64{"A": test.want}
		if test.want == 0 {
			want = nil
		}
		if !maps.Equal(c.topics, want) {
			t.Errorf("%s: counts %v, want %v", test.name, c.topics, want)
		}
	}
}
