package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Since tells what was counted after a point, and leaves the Tally as it is.
func TestCountsSince(t *testing.T) {
	tally := sampleTally()
	all := tally.Counts()
	if all.Pages == 0 || all.Bytes == 0 || all.Sent != 2 || all.Codes[404] != 1 || all.Errors["dns"] != 1 {
		t.Errorf("got %+v", all)
	}
	for code, n := range all.Codes {
		if code <= 0 || n != tally.status[code] {
			t.Errorf("%d responses with code %d", n, code)
		}
	}
	sum := int64(0)
	for _, n := range all.Codes {
		sum += n
	}
	if sum != tally.Fetched() {
		t.Errorf("%d responses by code, want %d", sum, tally.Fetched())
	}
	before := tally.Counts()
	tally.Add(Visit{Host: "a.example", Code: 503, Bytes: 10, Error: "http-503"})
	tally.Add(Visit{Host: "a.example", Code: 200, Bytes: 20, Page: true})
	got := tally.Counts().Since(before)
	for kind := range before.Errors {
		before.Errors[kind] = 0
	}
	for code := range before.Codes {
		before.Codes[code] = 0
	}
	want := Counts{Pages: 1, Bytes: 30, Errors: before.Errors, Codes: before.Codes}
	want.Errors["http-503"], want.Codes[503], want.Codes[200] = 1, 1, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if tally.Pages() != all.Pages+1 || tally.Errors()["dns"] != 1 {
		t.Errorf("Since changed the Tally: %d pages, %v", tally.Pages(), tally.Errors())
	}
}
