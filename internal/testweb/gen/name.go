package gen

import (
	"strconv"
	"strings"
)

// domain is below .example, which is reserved (RFC 2606) and no public suffix
// of more than one label.
const domain = ".example"

// prefixes are what may stand before the site in a host's name: that of a
// site's first host is the first or the last.
var prefixes = [...]string{"", "blog.", "shop.", "forum.", "www."}

func (w *Web) prefix(site, place int64) int64 {
	if place == 0 && w.hash(saltName, site, 0)&3 != 0 {
		return int64(len(prefixes) - 1)
	}
	return place
}

// appendName appends a host's name: a topic's word and the number of its site,
// in front of it its place in that site.
func (w *Web) appendName(dst []byte, host int64) []byte {
	s, place := site(host)
	topic, _ := w.cell(s)
	dst = append(dst, prefixes[w.prefix(s, place)]...)
	dst = append(dst, w.kit.topics[topic].name...)
	dst = strconv.AppendInt(dst, s, 10)
	return append(dst, domain...)
}

// Name is the name of a host and that of its site.
func (w *Web) Name(host int64) (name, siteName string) {
	var buf [64]byte
	name = string(w.appendName(buf[:0], host))
	s, place := site(host)
	return name, name[len(prefixes[w.prefix(s, place)]):]
}

// Find is the number of the host of this name.
func (w *Web) Find(name string) (host int64, ok bool) {
	rest, ok := strings.CutSuffix(name, domain)
	if !ok || len(name) > 64 {
		return 0, false
	}
	end := len(rest)
	for end > 0 && rest[end-1]-'0' <= 9 {
		end--
	}
	s, err := strconv.ParseInt(rest[end:], 10, 64)
	if err != nil || s >= w.sites {
		return 0, false
	}
	place := int64(0)
	for i, p := range prefixes[1:4] {
		if strings.HasPrefix(rest, p) {
			place = int64(i + 1)
		}
	}
	host = s/rowSites*rowHosts + firstHost[s%rowSites] + place
	if place >= hostsOfSite[s%rowSites] || host >= w.spec.Hosts {
		return 0, false
	}
	var buf [96]byte
	return host, string(w.appendName(buf[:0], host)) == name
}

// Target is the path and query of a page.
func (w *Web) Target(host, page int64) string {
	var b builder
	b.path(w, host, page)
	return "/" + string(w.kit.appendText(nil, b.ids))
}

// URL is the URL of a page.
func (w *Web) URL(host, page int64) string {
	name, _ := w.Name(host)
	return w.scheme(host) + name + w.Target(host, page)
}
