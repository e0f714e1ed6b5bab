package replay

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// maxLabel is the length in bytes of a label of a host name (RFC 1035, 2.3.4), and maxHost that of a
// host name.
const (
	maxLabel = 63
	maxHost  = 253
)

// originEscapes spells the characters of an authority that a label cannot have. A dot is the most
// frequent one.
var originEscapes = strings.NewReplacer(".", "--", "-", "-0", ":", "-1", "[", "-2", "]", "-3", "_", "-4")

// originLabels returns the labels that stand for the origin of u: "s-" for https or "p-" for http,
// and the authority. Labels "c-" before it hold the beginning of a long authority.
func originLabels(u weburl.URL) string {
	name := originEscapes.Replace(u.Authority())
	scheme := "p-"
	if u.Scheme() == "https" {
		scheme = "s-"
	}
	last := name
	labels := ""
	for len(last) > maxLabel-len(scheme) {
		n := min(maxLabel-len("c-"), len(last)-1)
		labels += "c-" + last[:n] + "."
		last = last[n:]
	}
	return labels + scheme + last
}

// originOf returns the origin that labels stand for, such as "https://example.org".
func originOf(labels string) (origin string, ok bool) {
	var name strings.Builder
	scheme := ""
	parts := strings.Split(labels, ".")
	for i, l := range parts {
		last := i == len(parts)-1
		switch {
		case last && strings.HasPrefix(l, "s-"):
			scheme = "https://"
		case last && strings.HasPrefix(l, "p-"):
			scheme = "http://"
		case !last && strings.HasPrefix(l, "c-"):
		default:
			return "", false
		}
		name.WriteString(l[2:])
	}
	authority, ok := unescapeOrigin(name.String())
	return scheme + authority, ok && authority != ""
}

func unescapeOrigin(s string) (authority string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '-' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		j := strings.IndexByte("-01234", s[i])
		if j < 0 {
			return "", false
		}
		b.WriteByte(".-:[]_"[j])
	}
	return b.String(), true
}

// A place is a URL at a time.
type place struct {
	url weburl.URL
	at  string // 14 digits
}

// contentHost returns the host name, without port, of the content origin of u at a time. ok is false
// if it would be too long.
func (s *Server) contentHost(u weburl.URL, at string) (host string, ok bool) {
	host = s.secret + "-" + at + "." + originLabels(u) + ".localhost"
	return host, len(host) <= maxHost
}

// contentURL returns the URL of u at a time on this server. It returns "" if the host name would be
// too long.
func (s *Server) contentURL(u weburl.URL, at, fragment string) string {
	host, ok := s.contentHost(u, at)
	if !ok {
		return ""
	}
	return "http://" + host + ":" + s.port + u.RequestURI() + fragment
}

// placeOf returns the archived URL that a request to a content origin is for.
func (s *Server) placeOf(host, requestURI string) (p place, ok bool) {
	name, ok := strings.CutSuffix(strings.ToLower(host), ".localhost:"+s.port)
	if !ok {
		return p, false
	}
	first, labels, ok := strings.Cut(name, ".")
	if !ok {
		return p, false
	}
	at, ok := strings.CutPrefix(first, s.secret+"-")
	if !ok || !isTime(at) {
		return p, false
	}
	origin, ok := originOf(labels)
	if !ok || !strings.HasPrefix(requestURI, "/") {
		return p, false
	}
	u, err := weburl.Parse(origin + requestURI)
	if err != nil {
		return p, false
	}
	return place{u, at}, true
}

// isTime reports whether s has 14 digits.
func isTime(s string) bool {
	if len(s) != 14 {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
