package testseed

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
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
		seed := must.Get(pick(name, env(pairs...)))(t)
		return seed
	}
	const soak = "ORBWEAVER_SOAK=true"
	if got := pick("TestA", "ORBWEAVER_TEST_SEED=18446744073709551615", soak); got != 1<<64-1 {
		t.Errorf("with the variable set: %d", got)
	}
	fixed := pick("TestA")
	if again := pick("TestA", "CI=true"); again != fixed {
		t.Errorf("in the gate, one name has two seeds: %d and %d", fixed, again)
	}
	if other := pick("TestA/1"); other == fixed {
		t.Error("in the gate, two names share a seed")
	}
	if a, b := pick("TestA", soak), pick("TestA", soak); a == b {
		t.Errorf("in the soak, the seed is %d twice", a)
	}
}

func TestFirst(t *testing.T) {
	t.Setenv(testtier.Variable, "")
	t.Setenv(Variable, "")
	if got := First(7); got != 7 {
		t.Errorf("in the gate: got %d, want 7", got)
	}
	t.Setenv(testtier.Variable, "true")
	if a, b := First(7), First(1); a != b || a == 0 || a >= 1<<31 {
		t.Errorf("in the soak: got %d and %d, want one number below 1<<31", a, b)
	}
	t.Setenv(Variable, "77")
	if got := First(7); got != 77 {
		t.Errorf("with the variable set: got %d, want 77", got)
	}
}

// Property tests have one seed in the gate, and long runs in the soak.
func TestRapid(t *testing.T) {
	none := func(string) string { return "" }
	got := rapidFlags(false, 1, none)
	if want := map[string]string{"rapid.seed": "1"}; !maps.Equal(got, want) {
		t.Errorf("in the gate: got %v, want %v", got, want)
	}
	got = rapidFlags(true, 0, none)
	want := map[string]string{"rapid.seed": "1", "rapid.checks": "1000", "rapid.nofailfile": "true"}
	if !maps.Equal(got, want) {
		t.Errorf("in the soak: got %v, want %v", got, want)
	}
	set := func(name string) string { return map[string]string{"RAPID_SEED": "5", "RAPID_CHECKS": "9"}[name] }
	if got := rapidFlags(true, 3, set); len(got) != 1 {
		t.Errorf("with variables that are set: got %v", got)
	}
	if !testtier.Soak() && os.Getenv("RAPID_SEED") == "" {
		if got := flag.Lookup("rapid.seed").Value.String(); got == "0" {
			t.Error("the flag -rapid.seed of this process is random")
		}
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
	t.Setenv(testtier.Variable, "")
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
