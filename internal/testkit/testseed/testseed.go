// Package testseed answers one question of a test that draws at random: which
// seed does it draw from?
//
// With CI=true the seed depends only on the test's name. Without it, each call
// draws a new seed. Either way the seed is logged in a form that repeats the test:
//
//	ORBWEAVER_TEST_SEED=1234 go test -run '^TestTable$/^3$'
//
// Only tests import this package.
package testseed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Variable is the environment variable that sets the seed of every test, to
// repeat a run that failed. Its value is a decimal number.
const Variable = "ORBWEAVER_TEST_SEED"

// New returns the seed of tb and logs it. If Variable is set, the seed is its
// value. Otherwise, if CI is "true", the seed depends on tb's name alone.
// Otherwise it is random. A Variable that is not a number fails the test.
//
// A test calls New once. For several rounds, use a subtest for each, or draw
// the seeds of the rounds from the first one.
func New(tb testing.TB) uint64 {
	tb.Helper()
	seed, err := pick(tb.Name(), os.Getenv)
	if err != nil {
		tb.Fatalf("%s=%q is not a number: %v", Variable, os.Getenv(Variable), err)
	}
	tb.Logf("seed: %s=%d go test -run '%s'", Variable, seed, pattern(tb.Name()))
	return seed
}

// Rand returns a source of random numbers with the seed of New.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(New(tb), 0))
}

func pick(name string, getenv func(string) string) (uint64, error) {
	if s := getenv(Variable); s != "" {
		return strconv.ParseUint(s, 10, 64)
	}
	if getenv("CI") == "true" {
		h := fnv.New64a()
		h.Write([]byte(name))
		return h.Sum64(), nil
	}
	return rand.Uint64(), nil
}

// pattern returns the value of go test's -run flag that selects one test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
