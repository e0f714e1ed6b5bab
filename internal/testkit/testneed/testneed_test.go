package testneed

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// With CI=true or in the soak a test that lacks something fails; otherwise it is skipped.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		ci, soak string
		want     string
	}{{"true", "", "fatal"}, {"false", "", "skip"}, {"", "", "skip"}, {"", "true", "fatal"}} {
		t.Setenv("CI", c.ci)
		t.Setenv(testtier.Variable, c.soak)
		r := &recorder{TB: t}
		Missing(r, "a program")
		if r.did != c.want {
			t.Errorf("CI=%q, soak %q: got %q, want %q", c.ci, c.soak, r.did, c.want)
		}
	}
}

// A recorder keeps the first call that would end the test.
type recorder struct {
	testing.TB
	did string
}

func (r *recorder) end(how string) {
	if r.did == "" {
		r.did = how
	}
}

func (r *recorder) Fatal(...any) { r.end("fatal") }
func (r *recorder) Skip(...any)  { r.end("skip") }
