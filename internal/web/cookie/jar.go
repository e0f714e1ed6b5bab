// Package cookie keeps the cookies that servers set, and says which of them a request has.
//
// The rules are those of RFC 6265, 5.2, and of RFC 6265bis: net/http/cookiejar has most of them. This package reads
// Set-Cookie, because net/http follows the grammar for servers, and adds the bounds and the protection of secure
// cookies. A secure cookie goes over https only, or to localhost and loopback addresses.
// There is one cookiejar for each registered domain, because no cookie goes beyond it. Cookies are in memory only.
package cookie

import (
	"container/list"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// maxCookie bounds the name and value of a cookie, in bytes (RFC 6265bis, 5.6).
	maxCookie = 4096
	// siteCookies bounds the cookies of a registered domain.
	siteCookies = 180
	// maxField bounds the Cookie field of a request, in bytes. Servers refuse longer headers.
	maxField = 16 << 10
	// overhead is the memory of a cookie without its texts, in bytes, and siteOverhead that of a registered domain.
	overhead, siteOverhead = 400, 1000
	// defaultBytes bounds the memory of all cookies if New is called with 0.
	defaultBytes = 16 << 20
)

// A Jar holds cookies. Safe for concurrent use.
type Jar struct {
	max int64

	mu    sync.Mutex // guards all below
	sites map[string]*list.Element
	order list.List // of *site; the one used last is at the front
	bytes int64
}

// A site has the cookies of a registered domain.
type site struct {
	name  string
	jar   *cookiejar.Jar
	known []known // in the order in which they were set
	fixed bool    // it has cookies of a file
	bytes int64
}

// A known is a cookie in a site's jar.
type known struct {
	host, name, domain, path string
	secure, fixed            bool // fixed: it comes from a file, and does not make room for others
	bytes                    int64
}

// New returns an empty Jar that holds at most about bytes of cookies; 0 means 16 MiB. If there are more, it forgets
// the cookies of the registered domains that were not used for longest, except those of files.
func New(bytes int64) *Jar {
	if bytes <= 0 {
		bytes = defaultBytes
	}
	return &Jar{max: bytes, sites: map[string]*list.Element{}}
}

// Field returns the value of the Cookie field of a request for u; "" means that it has none.
func (j *Jar) Field(u weburl.URL) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.sites[u.Site()]
	if e == nil {
		return ""
	}
	j.order.MoveToFront(e)
	var b strings.Builder
	for _, c := range e.Value.(*site).jar.Cookies(netURL(u)) { // longer paths and older cookies come first
		if b.Len()+len(c.Name)+len(c.Value)+4 > maxField {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.Name)
		b.WriteByte('=')
		b.WriteString(c.Value)
	}
	return b.String()
}

// Learn stores the cookies that a response to a request for u sets. fields are its Set-Cookie fields. Cookies that
// cannot be read or are not allowed are left out.
func (j *Jar) Learn(u weburl.URL, fields []string, now time.Time) {
	for i, f := range fields {
		if i >= siteCookies {
			return
		}
		if c, ok := parse(f); ok {
			j.set(u, c, false, now)
		}
	}
}

// set stores a cookie, if a server at u may set it. fixed means that it comes from a file.
func (j *Jar) set(u weburl.URL, c *http.Cookie, fixed bool, now time.Time) (ok bool) {
	host, secure := u.Host(), u.Scheme() == "https"
	k := known{host: host, name: c.Name, domain: host, path: c.Path, secure: c.Secure, fixed: fixed,
		bytes: int64(len(c.Name)+len(c.Value)+len(c.Domain)+len(c.Path)) + overhead}
	if c.Path == "" || c.Path[0] != '/' {
		k.path = defaultPath(u)
	}
	if d := strings.ToLower(strings.TrimPrefix(c.Domain, ".")); d != "" && d != host {
		if !strings.HasSuffix(host, "."+d) || publicSuffix(d) || isAddr(host) {
			return false
		}
		k.domain = d
	}
	switch {
	case len(c.Name)+len(c.Value) > maxCookie || len(c.Path) > maxCookie:
		return false
	case c.Secure && !secure:
		return false // RFC 6265bis, 5.7
	case strings.HasPrefix(c.Name, "__Secure-") && !(c.Secure && secure):
		return false
	case strings.HasPrefix(c.Name, "__Host-") && !(c.Secure && secure && c.Domain == "" && c.Path == "/"):
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.site(u.Site())
	if !secure && slices.ContainsFunc(s.known, func(o known) bool { return o.secure && o.name == c.Name }) {
		return false // a plain connection must not replace a secure cookie
	}
	s.jar.SetCookies(netURL(u), []*http.Cookie{c})
	j.drop(s, func(o known) bool { return o.name == k.name && o.domain == k.domain && o.path == k.path })
	if c.MaxAge < 0 || c.MaxAge == 0 && !c.Expires.IsZero() && !c.Expires.After(now) {
		return true // it is deleted
	}
	s.known = append(s.known, k)
	s.fixed = s.fixed || fixed
	j.add(s, k.bytes)
	j.shrink(s)
	return true
}

// site returns the site with a name, and adds it if needed. The caller holds mu.
func (j *Jar) site(name string) *site {
	if e := j.sites[name]; e != nil {
		j.order.MoveToFront(e)
		return e.Value.(*site)
	}
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // the error is always nil
	s := &site{name: strings.Clone(name), jar: jar}
	j.sites[s.name] = j.order.PushFront(s)
	j.add(s, siteOverhead)
	return s
}

func (j *Jar) add(s *site, bytes int64) {
	s.bytes += bytes
	j.bytes += bytes
}

// drop forgets which cookies are known. The caller holds mu.
func (j *Jar) drop(s *site, is func(known) bool) {
	s.known = slices.DeleteFunc(s.known, func(k known) bool {
		if !is(k) {
			return false
		}
		j.add(s, -k.bytes)
		return true
	})
}

// shrink keeps the bounds: the oldest cookies of s go, and then whole sites. The caller holds mu.
func (j *Jar) shrink(s *site) {
	for len(s.known) > siteCookies {
		i := slices.IndexFunc(s.known, func(k known) bool { return !k.fixed })
		if i < 0 {
			break // a file has set more
		}
		k := s.known[i]
		c := &http.Cookie{Name: k.name, Path: k.path, MaxAge: -1}
		if k.domain != k.host {
			c.Domain = k.domain
		}
		s.jar.SetCookies(&url.URL{Scheme: "https", Host: strings.Trim(k.host, "[]"), Path: "/"}, []*http.Cookie{c})
		j.add(s, -k.bytes)
		s.known = slices.Delete(s.known, i, i+1)
	}
	for e := j.order.Back(); e != nil && j.bytes > j.max; {
		old := e.Value.(*site)
		e = e.Prev()
		if old.fixed || old == s {
			continue
		}
		j.order.Remove(j.sites[old.name])
		delete(j.sites, old.name)
		j.bytes -= old.bytes
	}
}

// defaultPath returns the path of a cookie that names none (RFC 6265bis, 5.1.4).
func defaultPath(u weburl.URL) string {
	p := u.Path()
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}

func isAddr(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

func publicSuffix(domain string) bool {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return suffix == domain
}

func netURL(u weburl.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme(), Host: strings.Trim(u.Host(), "[]"), Path: u.Path()}
}
