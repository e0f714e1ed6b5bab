package input

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// --listen takes an address, an interface or a name of this machine.
func TestListenAddr(t *testing.T) {
	for listen, want := range map[string]string{
		"192.0.2.1:7470": "192.0.2.1:7470", "[2001:db8::1]:7470": "[2001:db8::1]:7470",
		"localhost:7470": "127.0.0.1:7470", "lo:7470": "127.0.0.1:7470",
		// The agent refuses these.
		"7470": "7470", ":7470": ":7470", "": "", "a b": "a b",
	} {
		if _, err := net.InterfaceByName("lo"); err != nil && listen == "lo:7470" {
			continue // macOS calls it lo0
		}
		if got, err := ListenAddr(listen); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", listen, got, err, want)
		}
	}
	for listen, want := range map[string]string{
		"nobody.invalid:7470": "listen nobody.invalid:7470: nobody.invalid is no interface of this machine, and no n",
	} {
		_, err := ListenAddr(listen)
		if wrong := (*ConfigError)(nil); !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", listen, err, want)
		}
	}
}

func TestReachable(t *testing.T) {
	for list, want := range map[string]string{
		"127.0.0.1 192.0.2.1":               "192.0.2.1",
		"2001:db8::1 192.0.2.1 192.0.2.2":   "192.0.2.1",
		"fe80::1 2001:db8::1 ::1 127.0.0.1": "2001:db8::1",
		"169.254.1.1 ::1 fe80::1 ":          "::1",
		"fe80::1":                           "",
		"":                                  "",
	} {
		var ips []netip.Addr
		for s := range strings.FieldsSeq(list) {
			ips = append(ips, netip.MustParseAddr(s))
		}
		got, ok := reachable(ips)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: got %s, %v, want %q", list, got, ok, want)
		}
	}
}
