package membership

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// An agent recognizes its own address in any spelling, and knows whether it starts the cluster. With a founder, its
// name alone says that.
func TestSortJoin(t *testing.T) {
	const own = "127.0.0.1:7470" // of agent a2
	for _, tt := range []struct {
		founder, join string
		starts        bool
		others        string
	}{
		{"", "", true, ""},
		{"", own, true, ""},
		{"", "localhost:7470", true, ""},
		{"", "localhost:7470 127.0.0.2:7470", true, "127.0.0.2:7470"},
		{"", "127.0.0.2:7470 localhost:7470", false, "127.0.0.2:7470"},
		{"", "localhost:7471", false, "localhost:7471"},
		{"", "nobody.invalid:7470", false, "nobody.invalid:7470"},
		{"a2", "", true, ""},
		{"a2", own, true, ""},
		{"a2", "127.0.0.2:7470 localhost:7470", true, "127.0.0.2:7470 localhost:7470"},
		{"a1", "localhost:7470", false, "localhost:7470"},
		{"a1", own, false, ""},
	} {
		c := newcomer(t, own)
		c.cfg.Join, c.cfg.Founder, c.join = strings.Fields(tt.join), tt.founder, nil
		c.sortJoin()
		if others := strings.Join(c.join, " "); c.founder != tt.starts || others != tt.others {
			t.Errorf("%s, %q: starts %v, others %q", tt.founder, tt.join, c.founder, others)
		}
		if tt.founder != "a1" || tt.others != "" {
			continue
		}
		const want = "join 127.0.0.1:7470: this is the agent's own address"
		if err := c.mayCome(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for founder, want := range map[string]string{
		"A 1": "founder: name \"A 1\": use 1 to 63 of a-z",
		"a1":  "founder a1: agent \"a2\" joins the cluster that agent a1 starts; give the address",
		"a2":  "", "": "",
	} {
		err := (&Config{Name: "a2", Founder: founder}).checkFounder()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", founder, err, want)
		}
	}
}

// A host name is asked at all its addresses. It stays, as long as another agent may start the
// cluster there.
func TestSpread(t *testing.T) {
	c := newcomer(t, "127.0.0.1:7470")
	cs := []contact{{addr: "127.0.0.1:7470", name: "a3"}, {addr: "localhost:7470", given: true},
		{addr: "nobody.invalid:7470", given: true}, {addr: "wrong", given: true}}
	got := c.spread(context.Background(), cs)
	got = slices.DeleteFunc(got, func(k contact) bool { return strings.HasPrefix(k.addr, "[") }) // some have ::1
	want := []contact{{addr: "127.0.0.1:7470", given: true, name: "a3"}, cs[2], cs[3]}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(contact{})); diff != "" {
		t.Error(diff)
	}
	name := contact{addr: "crawl:7470", given: true}
	asked := []contact{{addr: "192.0.2.1:7470", of: name.addr}, {addr: "192.0.2.2:7470", of: name.addr}}
	for _, tt := range []struct {
		founder string
		ourself []string
		stays   bool
	}{
		{"", []string{"192.0.2.1:7470"}, true},
		{"", []string{"192.0.2.1:7470", "192.0.2.2:7470"}, false},
		{"a1", []string{"192.0.2.1:7470", "192.0.2.2:7470"}, true},
		{"a1", []string{name.addr}, false},
	} {
		c.cfg.Founder = tt.founder
		left := c.withoutSelf([]contact{name}, asked, tt.ourself)
		if (len(left) == 1) != tt.stays {
			t.Errorf("founder %q, ourself %q: left %v", tt.founder, tt.ourself, left)
		}
	}
	if f, err := c.judge([]reply{{contact: asked[0], err: gossip.ErrSelf}}); err != nil || len(f.ourself) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}
