package cluster

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A URL has two keys in the seen-set: one at its owner, and one at other agents.
func TestForeignKey(t *testing.T) {
	u := weburl.MustParse("http://a.example/x")
	k := u.Key()
	if isForeign(k, u) || !isForeign(foreignKey(k), u) || foreignKey(foreignKey(k)) != k {
		t.Errorf("%v %v", k, foreignKey(k))
	}
}
