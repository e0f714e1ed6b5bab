package dns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"
)

// literal reads a host that is an address: 192.0.2.1, 2001:db8::1 or [2001:db8::1]. It refuses a
// zone, because a URL's host has none.
func literal(host string) (netip.Addr, bool) {
	n := len(host)
	switch { // most hosts are names, and an error of ParseAddr allocates
	case n == 0:
		return netip.Addr{}, false
	case host[0] == '[' && host[n-1] == ']':
		host = host[1 : n-1]
	case host[n-1] < '0' || host[n-1] > '9':
		if strings.IndexByte(host, ':') < 0 {
			return netip.Addr{}, false
		}
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// special are the top-level domains that are never queried. A query for onion would tell others a
// private name (RFC 7686, 2).
var special = map[string]bool{"onion": true}

// canonical returns host in lower case without a final dot. The error is ErrName if no query can
// ask for host (RFC 1035, 2.3.4) or if host has characters that no host name has. The underscore is
// accepted: the standard forbids it in host names, but real hosts use it.
func canonical(host string) (string, error) {
	name := strings.TrimSuffix(host, ".")
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("look up %.80q: %w", host, ErrName)
	}
	label, lower := 0, true
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '.' && label > 0:
			label = -1
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_':
		case c >= 'A' && c <= 'Z':
			lower = false
		default:
			return "", fmt.Errorf("look up %.80q: %w", host, ErrName)
		}
		if label++; label > 63 {
			return "", fmt.Errorf("look up %.80q: %w", host, ErrName)
		}
	}
	if label == 0 { // two final dots
		return "", fmt.Errorf("look up %.80q: %w", host, ErrName)
	}
	if !lower {
		name = strings.ToLower(name)
	}
	return name, nil
}

// serverAddr adds port 53 to a server's address if it has no port. It refuses names, because there
// is no server to look them up.
func serverAddr(s string) (string, error) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return net.JoinHostPort(a.String(), "53"), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		return "", fmt.Errorf("dns %q: %w", s, errServerAddr)
	}
	return a.String(), nil
}

var errServerAddr = errors.New("not an address; use a form such as 9.9.9.9, 127.0.0.1:5353 or [2620:fe::fe]:53")

const (
	maxResolvConf = 64 << 10
	maxHostsFile  = 16 << 20
)

func readResolvConf(name string) ([]string, error) {
	optional := name == ""
	if optional {
		name = "/etc/resolv.conf"
	}
	f, err := os.Open(name)
	if err != nil {
		if optional && errors.Is(err, fs.ErrNotExist) {
			return []string{"127.0.0.1:53", "[::1]:53"}, nil
		}
		return nil, fmt.Errorf("read resolver configuration: %w", err)
	}
	defer f.Close()
	conf, err := dns.ClientConfigFromReader(io.LimitReader(f, maxResolvConf))
	if err != nil {
		return nil, fmt.Errorf("read resolver configuration %s: %w", name, err)
	}
	if len(conf.Servers) == 0 {
		return []string{"127.0.0.1:53", "[::1]:53"}, nil
	}
	return conf.Servers, nil
}

// readHosts reads a hosts file. A line holds an address and its names, and # begins a comment. A
// name on several lines has all their addresses. Unreadable lines are skipped.
func readHosts(name string) (map[string][]netip.Addr, error) {
	optional := name == ""
	if name == "-" {
		return nil, nil
	}
	if optional {
		name = "/etc/hosts"
	}
	f, err := os.Open(name)
	if err != nil {
		if optional && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("read hosts file: %w", err)
	}
	defer f.Close()
	hosts, err := parseHosts(io.LimitReader(f, maxHostsFile))
	if err != nil {
		return nil, fmt.Errorf("read hosts file %s: %w", name, err)
	}
	return hosts, nil
}

func parseHosts(r io.Reader) (map[string][]netip.Addr, error) {
	hosts := make(map[string][]netip.Addr)
	br := bufio.NewReaderSize(r, 16<<10)
	for {
		line, err := br.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if !long {
			text, _, _ := strings.Cut(string(line), "#")
			fields := strings.Fields(text)
			if len(fields) > 1 {
				addHosts(hosts, fields)
			}
		}
		for long { // skip a line that is longer than the buffer
			_, err = br.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if errors.Is(err, io.EOF) {
			return hosts, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func addHosts(hosts map[string][]netip.Addr, fields []string) {
	addr, err := netip.ParseAddr(fields[0])
	if err != nil || addr.Zone() != "" {
		return
	}
	addr = addr.Unmap()
	for _, f := range fields[1:] {
		name, err := canonical(f)
		if err != nil {
			continue
		}
		hosts[name] = insert(hosts[name], addr)
	}
}

// insert adds addr to list, unless list has it already or is full (maxAddrs). IPv4 addresses stay
// before IPv6 addresses.
func insert(list []netip.Addr, addr netip.Addr) []netip.Addr {
	at := len(list)
	for i, a := range list {
		if a == addr {
			return list
		}
		if addr.Is4() && !a.Is4() && at == len(list) {
			at = i
		}
	}
	if len(list) >= maxAddrs {
		return list
	}
	list = append(list, netip.Addr{})
	copy(list[at+1:], list[at:])
	list[at] = addr
	return list
}
