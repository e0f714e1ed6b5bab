package object_test

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// TestSim runs the suite on the simulated store.
func TestSim(t *testing.T) {
	sums := object.Abilities{Checksums: true, Attests: true}
	all := object.Abilities{IfAbsent: true, IfAbsentParts: true, IfTag: true, Checksums: true, Attests: true}
	for _, c := range []struct {
		name string
		is   teststore.Traits
		able object.Abilities
	}{
		{"all", teststore.Traits{}, all},
		{"ignores conditions", teststore.Traits{IgnoresConditions: true}, sums},
		{"refuses conditions", teststore.Traits{RefusesConditions: true}, sums},
		{"no checksums", teststore.Traits{IgnoresChecksums: true},
			object.Abilities{IfAbsent: true, IfAbsentParts: true, IfTag: true}},
		{"nothing", teststore.Traits{IgnoresChecksums: true, IgnoresConditions: true}, object.Abilities{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			teststore.Conform(t, func(*testing.T) *object.Store {
				return object.New(teststore.NewSim(1, c.is), "sim://store", teststore.Config)
			}, c.able)
		})
	}
}
