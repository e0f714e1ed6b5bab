package gen

import (
	"strconv"
	"strings"
)

// domain ends every name. It is reserved (RFC 2606), and a public suffix of one label.
const domain = ".example"

// prefixes are the possible prefixes of host names in a site, by the host's place. The site's first host has the first
// or the last one.
var prefixes = [...]string{"", "blog.", "shop.", "forum.", "www."}

func (w *Web) prefix(site, place int64) int64 {
	if place == 0 && w.hash(saltName, site, 0)&3 != 0 {
		return int64(len(prefixes) - 1)
	}
	return place
}

// appendName appends a host's name: the prefix for its place in its site, the topic's word, and the number of the site.
// If the texts are given, a name has the number of the host alone.
func (w *Web) appendName(dst []byte, host int64) []byte {
	if w.texts != nil {
		return append(strconv.AppendInt(append(dst, 'n'), host, 10), domain...)
	}
	s, place := site(host)
	topic, _ := w.cell(s)
	dst = append(dst, prefixes[w.prefix(s, place)]...)
	dst = append(dst, w.kit.topics[topic].name...)
	dst = strconv.AppendInt(dst, s, 10)
	return append(dst, domain...)
}

// Name returns the names of a host and of its site.
func (w *Web) Name(host int64) (name, siteName string) {
	var buf [64]byte
	name = string(w.appendName(buf[:0], host))
	if w.texts != nil {
		return name, name
	}
	s, place := site(host)
	return name, name[len(prefixes[w.prefix(s, place)]):]
}

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
	if host = s; w.texts == nil {
		host = s/rowSites*rowHosts + firstHost[s%rowSites] + place
		if place >= hostsOfSite[s%rowSites] || host >= w.spec.Hosts {
			return 0, false
		}
	}
	var buf [96]byte
	return host, string(w.appendName(buf[:0], host)) == name
}

// Target returns the path and query of a page.
func (w *Web) Target(host, page int64) string {
	if w.texts != nil {
		return w.texts.target(host, page)
	}
	var b builder
	b.path(w, host, page)
	return "/" + string(w.kit.appendText(nil, b.ids))
}

// URL returns the URL of a page.
func (w *Web) URL(host, page int64) string {
	name, _ := w.Name(host)
	return w.scheme(host) + name + w.Target(host, page)
}
