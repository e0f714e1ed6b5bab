package gen

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	anyTag  = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`)
	anyWord = regexp.MustCompile(`[\pL\pM\pN]+`)
)

// textWords returns the words of a page in lower case.
func textWords(page []byte) []string {
	return anyWord.FindAllString(strings.ToLower(string(anyTag.ReplaceAll(page, []byte(" ")))), -1)
}

// TestEdits: copies differ from their originals in the given share of the words, and in nothing else.
func TestEdits(t *testing.T) {
	for _, rate := range []float64{0, 0.01, 0.2} {
		s := smallWild(5)
		s.Hosts, s.Edits = 70, rate
		w := newWeb(t, s)
		copies, mirrors, words, changed := 0, 0, 0, 0
		for page, original := range w.Copies() {
			a, _ := fetched(t, w, original.Host, original.Page, false)
			b, r := fetched(t, w, page.Host, page.Page, false)
			if r.Status != 200 || r.Page != page.Page {
				t.Fatalf("%s: %+v", w.URL(page.Host, page.Page), r)
			}
			if !slices.Equal(hrefs(t, a), hrefs(t, b)) || len(a) != len(b) {
				t.Fatalf("%s and %s have other links or lengths", w.URL(page.Host, page.Page),
					w.URL(original.Host, original.Page))
			}
			if rate == 0 && !bytes.Equal(a, b) {
				t.Fatalf("%s is no copy", w.URL(page.Host, page.Page))
			}
			aw, bw := textWords(a), textWords(b)
			if len(aw) != len(bw) {
				t.Fatalf("%s has %d words, the original %d", w.URL(page.Host, page.Page), len(bw), len(aw))
			}
			copies, words = copies+1, words+len(aw)
			if page.Host != original.Host {
				mirrors++
			}
			for i := range aw {
				if aw[i] != bw[i] {
					changed++
				}
			}
		}
		if copies < 100 || mirrors < 30 || mirrors > copies-30 {
			t.Errorf("%d copies, %d of them on mirrors, want at least 30 of each kind", copies, mirrors)
		}
		got, sigma := float64(changed)/float64(words), math.Sqrt(rate*(1-rate)/float64(words))
		t.Logf("%d copies, %d words, %.5f of them changed", copies, words, got)
		if math.Abs(got-rate) > 0.02*rate+5*sigma { // titles are not edited
			t.Errorf("a share of %.5f of the words differs, want %g", got, rate)
		}
	}
}
