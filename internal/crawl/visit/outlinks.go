package visit

import (
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A metadata record has at most maxOutlinks links, as with Heritrix, in about maxOutlinkBytes.
const (
	maxOutlinks     = 6000
	maxOutlinkBytes = 1 << 20
)

// appendOutlinks appends the links of v's page as Heritrix writes them: the URL, the letter of the step and where the
// link stands, such as "http://a.example/ L a/@href". They are the last fields, so that a reader of the others need
// not read them.
func (v *Attempt) appendOutlinks(fields []warc.Field, r *fetch.Response) []warc.Field {
	n, size, left := 0, 0, 0
	add := func(u weburl.URL, hop byte, context string) {
		value := u.String() + " " + string(rune(hop)) + " " + context
		if n == maxOutlinks || size+len(value) > maxOutlinkBytes {
			left++
			return
		}
		n, size = n+1, size+len(value)
		fields = append(fields, warc.Field{Name: "outlink", Value: value})
	}
	to, redirects := fetch.Redirect(r)
	switch {
	case v.Outcome != Fetched:
	case redirects:
		if u, err := v.Asked.URL.Resolve(to); err == nil {
			add(u, 'R', "Location:")
		}
	case v.Page.parsed && r.Status/100 == 2 && !v.Contents().Duplicate:
		v.Page.HTML.Each(func(l *parse.Link, _, _ []byte) { add(l.URL, l.Hop, contextOf(l.Tag)) })
	}
	if left > 0 {
		fields = append(fields, warc.Field{Name: "outlinksLeftOut", Value: strconv.Itoa(left)})
	}
	return fields
}

// contextOf returns Heritrix's name of the place of a link: "a/@href" for "a@href", and "Link:" for "header:link".
func contextOf(tag string) string {
	if field, ok := strings.CutPrefix(tag, "header:"); ok {
		return strings.ToUpper(field[:1]) + field[1:] + ":"
	}
	element, attribute, ok := strings.Cut(tag, "@")
	if !ok {
		return tag
	}
	return element + "/@" + attribute
}
