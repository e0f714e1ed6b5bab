package input

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Wide returns the canonical form of a domain (*.example.org) or a range of addresses (192.0.2.0/24). wide is false
// if s is neither: then it means one host. The error is for people.
func Wide(s string) (about string, wide bool, err error) {
	s = strings.TrimSpace(s)
	if domain, ok := strings.CutPrefix(s, "*."); ok {
		u, err := weburl.Parse("http://" + domain + "/")
		if err != nil || strings.ContainsAny(domain, "/:@?#*") {
			return "", false, fmt.Errorf("%.200q is not a domain; give one such as "+
				"*.example.org", s)
		}
		if _, err := netip.ParseAddr(u.Host()); err == nil {
			return "", false, fmt.Errorf("an address has no hosts below it; give a range " +
				"such as 192.0.2.0/24")
		}
		return "*." + u.Host(), true, nil
	}
	if strings.Contains(s, "://") {
		return "", false, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, rest, found := strings.Cut(s, "/"); found {
			if _, bad := netip.ParseAddr(a); bad == nil && rest != "" && !strings.ContainsFunc(rest, notDigit) {
				return "", false, fmt.Errorf("%.100q is not a range of addresses; give one such as 192.0.2.0/24", s)
			}
		}
		return "", false, nil
	}
	if p.Addr().Is4In6() {
		return "", false, fmt.Errorf("%s: give the range of IPv4 addresses, such as "+
			"192.0.2.0/24", p)
	}
	return p.Masked().String(), true, nil
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// Host returns the canonical form of a host as people type it: a name or an address, or a URL of the host. It has lower
// case, ASCII, and no port. The error is an *Error.
func Host(s string) (string, error) {
	text := strings.TrimSpace(s)
	if _, err := strconv.Atoi(text); err != nil && text != "" && !strings.ContainsFunc(text, unicode.IsControl) &&
		!strings.HasPrefix(strings.ToLower(text), "mailto:") {
		full := text
		if !strings.Contains(text, "://") {
			full = "http://" + bareAddress(text)
		}
		if u, err := weburl.Parse(full); err == nil {
			return u.Host(), nil
		}
	}
	return "", Errorf("host %q is not a host name; give one such as www.example.org", s)
}

// bareAddress returns a URL without a scheme from its host on, with brackets around an IPv6 address.
func bareAddress(s string) string {
	s = strings.TrimPrefix(s, "//")
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		return "[" + s + "]"
	}
	return s
}

// About returns the canonical form of what a block is about: a domain or a range of addresses, as Wide, or a host. A
// URL means its host. The error is for people.
func About(s string) (about string, wide bool, err error) {
	about, wide, err = Wide(s)
	if err != nil || wide {
		return about, wide, err
	}
	path := strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//")
	if !strings.Contains(s, "://") && (path || strings.ContainsAny(s, `\^$(){}|*+`)) {
		return "", false, fmt.Errorf("%.100q is a pattern for URLs, not a host; give it to \"orbweaver ctl exclude\"",
			s)
	}
	about, err = Host(s)
	return about, false, err
}

// hostName is what means a host, and not a pattern.
var hostName = regexp.MustCompile(`^[\pL\pN.-]+$|^\[[0-9a-fA-F:.]+\]$`)

// LooksLikeHost reports whether s means a host where a pattern is possible, too: it has letters, digits, dots and
// dashes alone.
func LooksLikeHost(s string) bool { return hostName.MatchString(s) }

// IsLoopback reports whether a host name alone means this machine.
func IsLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}
