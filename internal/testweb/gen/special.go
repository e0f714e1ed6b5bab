package gen

import (
	"fmt"
	"strconv"
	"strings"
)

// Paths that are not those of ordinary pages.
const (
	privateDir  = "/private/"
	wayDir      = "/go/"
	loopDir     = "/loop/"
	missingDir  = "/missing/"
	calendarDir = "/calendar/"
	sessionPath = "/catalog"
	growingDir  = "/list/"

	// reserved are words that are not used for directories of pages.
	reserved = "/private/loop/missing/calendar/catalog/list/robots/sitemap/show/"
)

// robots returns the robots.txt of a host, or "" if it has none. It forbids the same targets as denies.
func (w *Web) robots(host int64) string {
	own := host
	host = w.source(host)
	var t strings.Builder
	h := w.hash(saltRobots, host, 0)
	switch {
	case w.role(own) == closed:
		return "User-agent: *\nDisallow: /\n"
	case !w.hasRobots(host):
		return ""
	case h&3 == 0:
		t.WriteString("# Welcome, crawlers.\nUser-agent: BadBot\nUser-agent: WorseBot\nDisallow: /\n\nUser-agent: *\n")
	case h&3 == 1:
		t.WriteString("User-agent: *\nAllow: /\n")
	default:
		t.WriteString("User-agent: *\n")
	}
	if w.fates.denied > 0 {
		t.WriteString(denyPrivate + "\n")
	} else {
		t.WriteString("Disallow:\n")
	}
	if w.deniesCalendar(host) {
		t.WriteString(denyCalendar + "\n")
	}
	if d := w.crawlDelay(own); d > 0 {
		fmt.Fprintf(&t, "Crawl-delay: %g\n", d.Seconds())
	}
	if w.trait(host, traitSitemap, w.fates.sitemap) {
		name, _ := w.Name(own)
		fmt.Fprintf(&t, "\nSitemap: %s%s/sitemap.xml\n", w.scheme(own), name)
	}
	return t.String()
}

const (
	denyAll      = "Disallow: /"
	denyPrivate  = "Disallow: " + privateDir
	denyCalendar = "Disallow: " + calendarDir
)

// deniesCalendar reports whether a host's robots.txt forbids its endless calendar.
func (w *Web) deniesCalendar(host int64) bool {
	return w.trapped(host) && w.hasRobots(host) && w.hash(saltRobots, host, 1)&1 == 0
}

// denies returns the line of a host's robots.txt that forbids a target, if there is one.
func (w *Web) denies(host int64, target string) (rule string, denied bool) {
	f := &w.fates
	if f.denied|f.closed|f.trap == 0 || target == "/robots.txt" {
		return "", false
	}
	if w.role(host) == closed {
		return denyAll, true
	}
	host = w.source(host)
	if len(target) > len(calendarDir) && strings.IndexByte(target, '%') >= 0 {
		target = unescaped(target[:min(len(target), 3*len(calendarDir))])
	}
	switch {
	case f.denied > 0 && strings.HasPrefix(target, privateDir) && w.hasRobots(host):
		return denyPrivate, true
	case strings.HasPrefix(target, calendarDir) && w.deniesCalendar(host):
		return denyCalendar, true
	}
	return "", false
}

// unescaped decodes the escaped letters of a path (RFC 9309, 2.2.2).
func unescaped(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil && (n|32 >= 'a' && n|32 <= 'z') {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func (w *Web) scheme(host int64) string {
	if w.secure(host) {
		return "https://"
	}
	return "http://"
}

// redirect adds a path, without its first slash, that redirects to a page in the given number of steps.
func (b *builder) redirect(k *kit, host, page, steps int64) {
	b.add(k.way)
	b.number(k, uint64(host))
	b.add(k.dash)
	b.number(k, uint64(page))
	b.add(k.dash)
	b.number(k, uint64(steps))
}

// Steps returns the URLs that a crawl requests when it follows a link on a page of a host, without the page to which
// the link leads: those that redirect, or the one that does not exist. It returns none for a link into a trap.
func (w *Web) Steps(host int64, to Ref) (urls []string) {
	name, _ := w.Name(host)
	base := w.scheme(host) + name
	switch to.Kind {
	case ToRedirect:
		for left := to.steps; left > 0; left-- {
			urls = append(urls, fmt.Sprintf("%s%s%d-%d-%d", base, wayDir, to.Host, to.Page, left))
		}
	case ToCircle:
		urls = append(urls, fmt.Sprint(base, loopDir, to.number), fmt.Sprint(base, loopDir, to.number^1))
	case ToNothing:
		urls = append(urls, fmt.Sprintf("%s%s%d.html", base, missingDir, to.number))
	}
	return urls
}

// maxSteps is the largest number of steps of a redirect.
const maxSteps = 9

var redirects = [...]int{301, 302, 303, 307, 308}

// nextStep returns the target and the status of a redirect. rest is the part of its path after wayDir.
func (w *Web) nextStep(b *builder, rest string) (to string, status int, ok bool) {
	if len(rest) > 64 {
		return "", 0, false
	}
	hs, rest, _ := strings.Cut(rest, "-")
	ps, ss, _ := strings.Cut(rest, "-")
	host, err1 := strconv.ParseUint(hs, 10, 62)
	page, err2 := strconv.ParseUint(ps, 10, 62)
	steps, err3 := strconv.ParseUint(ss, 10, 8)
	if err1 != nil || err2 != nil || err3 != nil || int64(host) >= w.spec.Hosts ||
		int64(page) >= w.Pages(int64(host)) || steps < 1 || steps > maxSteps {
		return "", 0, false
	}
	status = redirects[mix(host+page*golden+steps)%uint64(len(redirects))]
	b.ids = b.ids[:0]
	if steps > 1 {
		b.redirect(w.kit, int64(host), int64(page), int64(steps-1))
		return "/" + string(w.kit.appendText(b.text[:0], b.ids)), status, true
	}
	name, _ := w.Name(int64(host))
	return w.scheme(int64(host)) + name + w.Target(int64(host), int64(page)), status, true
}

// maxSitemap is the largest number of URLs in a sitemap (sitemaps.org).
const maxSitemap = 50_000

// sitemap returns the sitemap at a target: one of all pages of the host or, if there are too many, an index or a part.
func (w *Web) sitemap(b *builder, host int64, target string) (string, bool) {
	rest, ok := strings.CutPrefix(target, "/sitemap")
	if !ok || !w.trait(w.source(host), traitSitemap, w.fates.sitemap) {
		return "", false
	}
	if rest, ok = strings.CutSuffix(rest, ".xml"); !ok {
		return "", false
	}
	pages := w.Pages(host)
	parts := (pages + maxSitemap - 1) / maxSitemap
	name, _ := w.Name(host)
	base := w.scheme(host) + name
	var t strings.Builder
	t.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
	part := int64(1)
	switch {
	case rest == "" && parts > 1:
		t.WriteString("<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n")
		for i := int64(1); i <= parts; i++ {
			fmt.Fprintf(&t, "<sitemap><loc>%s/sitemap-%d.xml</loc></sitemap>\n", base, i)
		}
		t.WriteString("</sitemapindex>\n")
		return t.String(), true
	case rest != "":
		n, err := strconv.ParseInt(strings.TrimPrefix(rest, "-"), 10, 64)
		if err != nil || n < 1 || n > parts || parts == 1 || rest != "-"+strconv.FormatInt(n, 10) {
			return "", false
		}
		part = n
	}
	t.WriteString("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n")
	for p := (part - 1) * maxSitemap; p < min(part*maxSitemap, pages); p++ {
		if w.Crosslinked(host, p) {
			continue
		}
		b.ids = b.ids[:0]
		b.path(w, host, p)
		b.text = w.kit.appendText(b.text[:0], b.ids)
		t.WriteString("<url><loc>")
		t.WriteString(base)
		t.WriteByte('/')
		t.Write(b.text)
		t.WriteString("</loc></url>\n")
	}
	t.WriteString("</urlset>\n")
	return t.String(), true
}
