package node

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// With a founder, its name alone says which agent starts the cluster.
func TestFounder(t *testing.T) {
	for _, tt := range []struct {
		founder string // newcomer makes agent a2
		join    []string
		starts  bool
		others  []string
		err     string
	}{
		{"a2", nil, true, nil, ""},
		{"a2", []string{"127.0.0.1:7470"}, true, nil, ""},
		{"a2", []string{"127.0.0.2:7470", "localhost:7470"}, true, []string{"127.0.0.2:7470", "localhost:7470"}, ""},
		{"a1", []string{"localhost:7470"}, false, []string{"localhost:7470"}, ""},
		{"a1", []string{"127.0.0.1:7470"}, false, nil, "--join 127.0.0.1:7470: this is the agent's own address"},
	} {
		c := newcomer(t, "127.0.0.1:7470")
		c.cfg.Join, c.cfg.Founder, c.join = tt.join, tt.founder, nil
		c.sortJoin()
		if c.founder != tt.starts || !slices.Equal(c.join, tt.others) {
			t.Errorf("%s, %q: starts %v, others %q", tt.founder, tt.join, c.founder, c.join)
		}
		if tt.err == "" {
			continue
		}
		if err := c.mayCome(); err == nil || !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s, %q: got %v, want %s", tt.founder, tt.join, err, tt.err)
		}
	}
	for founder, want := range map[string]string{
		"A 1": "--founder: name \"A 1\": use 1 to 63 of a-z",
		"a1":  "--founder a1: agent \"a2\" joins the cluster that agent a1 starts; give the address",
		"a2":  "", "": "",
	} {
		err := (&Cluster{Name: "a2", Founder: founder}).checkFounder()
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
