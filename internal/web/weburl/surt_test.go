package weburl

import (
	"runtime"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Every page has a line in the index, so a key must cost only its own memory and one buffer of the
// same size.
func TestSURTAllocates(t *testing.T) {
	u := must.Get(Parse("http://forum.computers1083412.example/email/though-sure-1.html"))(t)
	const runs = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		u.SURT()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > 200 {
		t.Errorf("%d bytes a key, want at most 200", n)
	}
}
