package testseed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestPick(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for _, p := range pairs {
				if v, ok := strings.CutPrefix(p, name+"="); ok {
					return v
				}
			}
			return ""
		}
	}
	pick := func(name string, pairs ...string) uint64 {
		t.Helper()
		seed, err := pick(name, env(pairs...))
		if err != nil {
			t.Fatal(err)
		}
		return seed
	}
	if got := pick("TestA", "ORBWEAVER_TEST_SEED=18446744073709551615", "CI=true"); got != 1<<64-1 {
		t.Errorf("with the variable set: %d", got)
	}
	fixed := pick("TestA", "CI=true")
	if again := pick("TestA", "CI=true"); again != fixed {
		t.Errorf("in CI, one name has two seeds: %d and %d", fixed, again)
	}
	if other := pick("TestA/1", "CI=true"); other == fixed {
		t.Error("in CI, two names share a seed")
	}
	if a, b := pick("TestA"), pick("TestA"); a == b {
		t.Errorf("outside CI, the seed is %d twice", a)
	}
}

func TestPickRejects(t *testing.T) {
	for _, bad := range []string{"-1", "0x10", "seed", "18446744073709551616"} {
		t.Setenv(Variable, bad)
		rec := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }()
			New(rec)
		}()
		if !strings.Contains(rec.fatal, bad) {
			t.Errorf("%q: the test ends with %q", bad, rec.fatal)
		}
	}
}

func TestNewLogsHowToRepeat(t *testing.T) {
	t.Setenv(Variable, "77")
	rec := &recorder{TB: t, name: "TestA/b+c"}
	if got := New(rec); got != 77 {
		t.Errorf("seed %d, want 77", got)
	}
	const want = `seed: ORBWEAVER_TEST_SEED=77 go test -run '^TestA$/^b\+c$'`
	if got := rec.log.String(); got != want {
		t.Errorf("it logs %q, want %q", got, want)
	}
	a, b := Rand(rec), Rand(rec)
	for range 10 {
		if x, y := a.Uint64(), b.Uint64(); x != y {
			t.Fatalf("one seed draws %d and %d", x, y)
		}
	}
}

// A recorder is a test that keeps what is logged. Fatalf panics.
type recorder struct {
	testing.TB
	name  string
	log   bytes.Buffer
	fatal string
}

func (r *recorder) Helper()                         {}
func (r *recorder) Name() string                    { return r.name }
func (r *recorder) Logf(format string, args ...any) { fmt.Fprintf(&r.log, format, args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic(r)
}
