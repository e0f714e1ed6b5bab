package sim

import (
	"fmt"
	"strings"
	"testing"
)

// TestIndex checks that the judge sees a line that is missing, stands twice, or points at no record.
func TestIndex(t *testing.T) {
	list, err := readWARC(append(member("response", "http://a.example/", responseOf("hello")),
		member("response", "http://b.example/", responseOf("hallo"))...))
	if err != nil || len(list) != 2 || list[1].offset != list[0].length {
		t.Fatalf("%+v, %v", list, err)
	}
	line := func(r record) string {
		return fmt.Sprintf("key 20000101000000 {\"url\": %q, \"status\": \"200\", \"digest\": %q, \"length\": \"%d\", "+
			"\"offset\": \"%d\", \"filename\": \"x.warc.gz\"}\n", r.url, r.digest[5:], r.length, r.offset)
	}
	a, b := line(list[0]), line(list[1])
	for _, c := range []struct {
		index string
		want  int
	}{
		{a + b, 0},
		{b + a, 1}, // not sorted
		{a, 1},
		{a + a + b, 1},
		{a + strings.Replace(b, `"offset": "`, `"offset": "1`, 1), 2},
		{a + strings.Replace(b, `"length": "`, `"length": "1`, 1), 2},
		{a + strings.Replace(b, "x.warc", "y.warc", 1), 2},
		{a + strings.Replace(b, "b.example", "c.example", 1), 2},
		{a + strings.TrimSuffix(b, "}\n"), 2},
		{"", 2},
	} {
		if wrong := checkIndex(c.index, map[string][]record{"x.warc.gz": list}); len(wrong) != c.want {
			t.Errorf("%q: %q, want %d faults", c.index, wrong, c.want)
		}
	}
}
