package testtier

import "testing"

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		soak, busy string
		rounds     int
		skipped    bool // by OnlySoak
		busier     bool // skipped by OnlyIdle
	}{
		{"", "", 3, true, true}, {"false", "", 3, true, true}, {"", "true", 3, true, true},
		{"true", "", 50, false, false}, {"true", "true", 50, false, true},
	} {
		t.Setenv(Variable, c.soak)
		t.Setenv(busyVariable, c.busy)
		if got := Rounds(3, 50); got != c.rounds {
			t.Errorf("%+v: %d rounds", c, got)
		}
		if got, sampled := Stride(7), Raced && c.soak != "true"; sampled && got != 7 || !sampled && got != 1 {
			t.Errorf("%+v: the stride is %d", c, got)
		}
		r := &recorder{TB: t}
		if OnlySoak(r, "long"); r.skipped != c.skipped {
			t.Errorf("%+v: OnlySoak skipped: %v", c, r.skipped)
		}
		r = &recorder{TB: t}
		if OnlyIdle(r, "compares times"); r.skipped != c.busier {
			t.Errorf("%+v: OnlyIdle skipped: %v", c, r.skipped)
		}
	}
}

// A recorder notes whether it was skipped.
type recorder struct {
	testing.TB
	skipped bool
}

func (r *recorder) Skipf(string, ...any) { r.skipped = true }
