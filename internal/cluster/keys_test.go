package cluster

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A URL has two keys in the seen-set: one at its owner, and one at other agents. The latter contains its category.
func TestForeignKey(t *testing.T) {
	l := link.Link{URL: weburl.MustParse("http://a.example/x")}
	k := link.KeyOf(l.URL)
	if isForeign(k, l) || !isForeign(foreignKey(k), l) || foreignKey(foreignKey(k)) != k {
		t.Errorf("%v %v", k, foreignKey(k))
	}
	to := link.Destination{Category: 3, Hash: k.Host}
	l.SetDestination(to)
	if isForeign(foreignKey(k), l) || !isForeign(foreignKey(k.To(to)), l) {
		t.Errorf("%v: %v", k, k.To(to))
	}
	got, ok, err := hostKeys{}.Accept(state.Outgoing, 1, l.AppendTo(nil))
	if got != foreignKey(k.To(to)) || !ok || err != nil {
		t.Errorf("%v, %t, %v", got, ok, err)
	}
}
