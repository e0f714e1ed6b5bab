package gen

import (
	"fmt"
	"strconv"
	"strings"
)

// The traps of a host:
//
//	/calendar/2031/05/              a month, with links to the previous and the next month
//	/catalog?sid=000a3f07c2d1&p=3   the same few pages, with a new session in every link
//	/list/all/new/all/              each page links to paths that are longer by one of two words
//
// Their pages link only to each other. With links to other pages, the distance of a page would depend on how far a
// crawler goes into a trap.

const (
	firstYear = 2026
	lastYear  = 9999
	// maxGrown is the longest target of a growing path. Most servers refuse longer URLs.
	maxGrown = 4000
)

// entrance adds the path of a trap's first page, without its first slash.
func (b *builder) entrance(k *kit, number uint32) {
	b.ids = append(b.ids, k.traps[number%3]...)
	if number%3 == 1 {
		b.session(k, 0, number>>8)
	}
}

// session adds a session id and the number of a catalog page.
func (b *builder) session(k *kit, depth, random uint32) {
	const hexDigits = "0123456789abcdef"
	sid := uint64(depth)<<32 | uint64(random)
	for i := 44; i >= 0; i -= 4 {
		b.add(k.hex[hexDigits[sid>>i&15]])
	}
	b.ids = append(b.ids, k.sessionPage, k.digit+id(random%10))
}

// trapPage returns a page of a trap and its depth in the trap.
func (w *Web) trapPage(host int64, target string) (text string, depth int, ok bool) {
	if w.fates.trap == 0 || !w.trapped(w.source(host)) || len(target) > maxGrown {
		return "", 0, false
	}
	var title string
	var links []string
	switch {
	case strings.HasPrefix(target, calendarDir):
		var year, month int
		rest := target[len(calendarDir):]
		n, err := fmt.Sscanf(rest, "%04d/%02d/", &year, &month)
		if n != 2 || err != nil || rest != fmt.Sprintf("%04d/%02d/", year, month) {
			return "", 0, false
		}
		depth = (year-firstYear)*12 + month
		if year < firstYear || year > lastYear || month < 1 || month > 12 {
			return "", 0, false
		}
		title = fmt.Sprintf("Calendar %d/%d", month, year)
		for _, d := range []int{depth - 2, depth} {
			if d >= 0 && firstYear+d/12 <= lastYear {
				links = append(links, fmt.Sprintf("%s%04d/%02d/", calendarDir, firstYear+d/12, d%12+1))
			}
		}
	case strings.HasPrefix(target, sessionPath+"?sid="):
		rest := target[len(sessionPath+"?sid="):]
		sid, page, cut := strings.Cut(rest, "&p=")
		id, err := strconv.ParseUint(sid, 16, 48)
		n, err2 := strconv.ParseUint(page, 10, 8)
		if !cut || len(sid) != 12 || err != nil || err2 != nil || len(page) != 1 || strings.ToLower(sid) != sid {
			return "", 0, false
		}
		depth = int(id>>32) + 1
		title = fmt.Sprintf("Catalog page %d", n)
		for i := range uint64(3) {
			h := mix(w.hash(saltTrap, host, int64(id)) + n*10 + i)
			session := uint64(depth&0xffff)<<32 | h>>32
			links = append(links, fmt.Sprintf("%s?sid=%012x&amp;p=%d", sessionPath, session, h%10))
		}
	case strings.HasPrefix(target, growingDir):
		rest := target[len(growingDir):]
		for rest != "" {
			var a, b bool
			if rest, a = strings.CutPrefix(rest, "all/"); !a {
				if rest, b = strings.CutPrefix(rest, "new/"); !b {
					return "", 0, false
				}
			}
			depth++
		}
		depth++
		title = fmt.Sprintf("List of %d", depth)
		links = []string{"all/", "new/"}
	default:
		return "", 0, false
	}
	var t strings.Builder
	fmt.Fprintf(&t, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>%s</title>\n"+
		"</head>\n<body>\n<h1>%[1]s</h1>\n<ul>\n", title)
	for _, l := range links {
		fmt.Fprintf(&t, "<li><a href=\"%s\">%s</a></li>\n", l, l)
	}
	t.WriteString("</ul>\n</body>\n</html>\n")
	return t.String(), depth, true
}
