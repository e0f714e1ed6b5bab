// Package testseed answers one question of a test that draws at random: which
// seed does it draw from?
//
// In the gate the seed depends only on the test's name, so that the change alone
// decides. In the soak (see package testtier) each process draws new seeds. Either
// way the seed is logged in a form that repeats the test:
//
//	ORBWEAVER_TEST_SEED=1234 go test -run '^TestTable$/^3$'
//
// Importing this package also sets the seed of property tests (package rapid): 1 in the gate, and
// in the soak that of the process, which then makes ten times as many checks. RAPID_SEED,
// RAPID_CHECKS and the flags -rapid.seed and -rapid.checks come first.
//
// Only tests import this package.
package testseed

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "pgregory.net/rapid" // defines the flags that are set here

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// Variable is the environment variable that sets the seed of every test, to
// repeat a run that failed. Its value is a decimal number.
const Variable = "ORBWEAVER_TEST_SEED"

// soakChecks is the number of checks of a property test in the soak. Rapid's own number is 100.
const soakChecks = 1000

// drawn is the process's seed in the soak if Variable is not set. It is below 1<<31, because people
// copy it.
var drawn = 1 + uint64(rand.Uint32()>>1)

func init() {
	for name, value := range rapidFlags(testtier.Soak(), First(1), os.Getenv) {
		if err := flag.Set(name, value); err != nil {
			panic(fmt.Sprintf("testseed: -%s=%s: %v", name, value, err))
		}
	}
}

// rapidFlags returns the flags of package rapid that differ from its own, by name. A variable that
// sets a flag wins.
func rapidFlags(soak bool, seed uint64, getenv func(string) string) map[string]string {
	flags := map[string]string{"rapid.seed": strconv.FormatUint(max(seed, 1), 10)} // 0 is random
	if soak {
		flags["rapid.checks"] = strconv.Itoa(soakChecks)
		flags["rapid.nofailfile"] = "true" // the seed repeats the test, and the checkout remains clean
	}
	for name := range flags {
		if getenv(strings.ToUpper(strings.ReplaceAll(name, ".", "_"))) != "" {
			delete(flags, name)
		}
	}
	return flags
}

// New returns the seed of tb and logs it. If Variable is set, the seed is its
// value. Otherwise, in the gate, the seed depends on tb's name alone, and in the
// soak it is random. A Variable that is not a number fails the test.
//
// A test calls New once. For several rounds, use a subtest for each, or draw
// the seeds of the rounds from the first one.
func New(tb testing.TB) uint64 {
	tb.Helper()
	seed, err := pick(tb.Name(), os.Getenv)
	if err != nil {
		tb.Fatalf("%s=%q is not a number: %v", Variable, os.Getenv(Variable), err)
	}
	soak := ""
	if testtier.Soak() {
		soak = testtier.Variable + "=true "
	}
	tb.Logf("seed: %s%s=%d go test -run '%s'", soak, Variable, seed, pattern(tb.Name()))
	return seed
}

// Rand returns a source of random numbers with the seed of New.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(New(tb), 0))
}

// First returns the first of the consecutive seeds of a test that names its rounds after them: the
// value of Variable if that is set, otherwise gate in the gate, and a random number in the soak. It
// may be called before the tests begin, for the default of a flag. A Variable that is not a number
// counts as not set; New reports it.
func First(gate uint64) uint64 {
	if seed, err := strconv.ParseUint(os.Getenv(Variable), 10, 64); err == nil {
		return seed
	}
	if testtier.Soak() {
		return drawn
	}
	return gate
}

func pick(name string, getenv func(string) string) (uint64, error) {
	if s := getenv(Variable); s != "" {
		return strconv.ParseUint(s, 10, 64)
	}
	if getenv(testtier.Variable) == "true" {
		return rand.Uint64(), nil
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64(), nil
}

// pattern returns the value of go test's -run flag that selects one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
