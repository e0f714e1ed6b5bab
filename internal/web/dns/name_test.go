package dns

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A name that cannot exist costs no query.
func TestImpossibleNames(t *testing.T) {
	r := open(t, Config{Servers: []string{"192.0.2.1"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("the resolver dialled; want no query")
		return nil, errors.New("no network")
	}})
	label := strings.Repeat("a", 63)
	for _, host := range []string{
		"", ".", "..", "a..b", ".a", "a.b..", "a b.example", "a/b", "ä.example", "a\x00b", "[::1", "fe80::1%eth0",
		label + "a.example", strings.Join([]string{label, label, label, label}, "."), "*.example", "a:b",
		"abc.onion", "onion",
	} {
		if _, err := r.Lookup(t.Context(), host); !errors.Is(err, ErrName) || !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, want ErrName", host, err)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	hosts := write("hosts", "127.0.0.1 localhost # a comment\n::1 localhost six\n192.0.2.1\tA.Example b.example.\r\n"+
		"2001:db8::1 a.example\n192.0.2.2 a.example\nnonsense c.example\nfe80::1%lo d.example\n\n"+
		"#192.0.2.3 e.example\n"+
		"192.0.2.4 "+strings.Repeat("x", 20<<10)+" f.example\n192.0.2.5 last.example")
	conf := write("resolv.conf",
		"# c\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch example\noptions ndots:5\n")
	r := open(t, Config{HostsFile: hosts, ResolvConf: conf,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no network")
		}})
	for host, want := range map[string][]netip.Addr{
		"localhost":    addrs("127.0.0.1", "::1"),
		"six":          addrs("::1"),
		"a.example":    addrs("192.0.2.1", "192.0.2.2", "2001:db8::1"),
		"B.Example":    addrs("192.0.2.1"),
		"last.example": addrs("192.0.2.5"),
		"c.example":    nil, "d.example": nil, "e.example": nil, "f.example": nil,
	} {
		got, err := r.Lookup(t.Context(), host)
		if d := cmp.Diff(want, got.Addrs, cmpAddrs); d != "" {
			t.Errorf("%s: %v (-want +got)\n%s", host, err, d)
		}
		if want == nil && !errors.Is(err, ErrServer) {
			t.Errorf("%s: got %v, want ErrServer", host, err)
		}
	}
	if got, want := r.servers[0].addr+" "+r.servers[1].addr, "192.0.2.53:53 [2001:db8::53]:53"; got != want {
		t.Errorf("servers: got %s, want %s", got, want)
	}
	for _, cfg := range []Config{
		{HostsFile: filepath.Join(dir, "none")},
		{ResolvConf: filepath.Join(dir, "none")},
		{Servers: []string{"a b"}},
		{Servers: []string{""}},
		{Servers: []string{"bla"}},
		{Servers: []string{"ns.example:53"}},
		{Servers: []string{"192.0.2.1:"}},
		{Servers: []string{"192.0.2.1:0"}},
		{Servers: []string{"192.0.2.1:65536"}},
		{Servers: []string{"2001:db8::1:99999"}},
	} {
		if r, err := New(cfg); err == nil {
			r.Close()
			t.Errorf("%+v: got no error, want one", cfg)
		}
	}
}

// FuzzHosts checks that every hosts file is read without an error.
func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost # x\n::1 a b\r\n")
	f.Add("\x00 \n1.2.3.4")
	f.Fuzz(func(t *testing.T, s string) {
		hosts := must.Get(parseHosts(&onlyReader{s}))(t)
		for name, list := range hosts {
			if c, err := canonical(name); err != nil || c != name || len(list) == 0 || len(list) > maxAddrs {
				t.Fatalf("%q: %v", name, list)
			}
		}
	})
}

type onlyReader struct{ s string }

func (r *onlyReader) Read(b []byte) (int, error) {
	if r.s == "" {
		return 0, io.EOF
	}
	n := copy(b, r.s)
	r.s = r.s[n:]
	return n, nil
}
