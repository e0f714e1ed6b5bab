package testtier

import "testing"

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		value   string
		rounds  int
		skipped bool
	}{{"", 3, true}, {"false", 3, true}, {"true", 50, false}} {
		t.Setenv(Variable, c.value)
		if got := Rounds(3, 50); got != c.rounds {
			t.Errorf("%s=%q: %d rounds, want %d", Variable, c.value, got, c.rounds)
		}
		r := &recorder{TB: t}
		if OnlySoak(r, "long"); r.skipped != c.skipped {
			t.Errorf("%s=%q: skipped %v, want %v", Variable, c.value, r.skipped, c.skipped)
		}
	}
}

// A recorder notes whether it was skipped.
type recorder struct {
	testing.TB
	skipped bool
}

func (r *recorder) Skipf(string, ...any) { r.skipped = true }
