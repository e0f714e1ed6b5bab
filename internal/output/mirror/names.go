package mirror

import (
	"crypto/sha256"
	"encoding/base32"
	"path"
	"regexp"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// maxPart is the length in bytes of a part of a name. All file systems permit 255, and some
	// programs add to a name.
	maxPart = 120
	// maxName is the length in bytes of a whole name. Windows permits 260 with the directory's own.
	maxName = 200
)

// Names of the mirror's own files, which no host may take.
const (
	startPage  = "index.html"
	markerFile = "mirror.json"
)

// extensions are the endings by which a browser knows the type of a file, and what else is accepted
// in their place.
var extensions = map[string][]string{
	"text/html":             {".html", ".htm"},
	"application/xhtml+xml": {".xhtml"},
	"text/css":              {".css"},
	"image/svg+xml":         {".svg"},
	"text/plain":            {".txt"},
	"application/pdf":       {".pdf"},
	"application/rss+xml":   {".xml", ".rss", ".rdf"},
	"application/atom+xml":  {".xml", ".atom"},
	"application/rdf+xml":   {".xml", ".rdf"},
	"application/xml":       xmlEndings,
	"text/xml":              xmlEndings,
}

// xmlEndings are endings of documents that servers send as XML without its kind.
var xmlEndings = []string{".xml", ".rss", ".rdf", ".atom", ".xsl", ".xslt", ".svg", ".xhtml", ".gz"}

// hashed matches a part of a name that looks like one with a hash. Only this package may make those.
var hashed = regexp.MustCompile(`(?i)~[a-z2-7]{16}`)

// reserved matches names that Windows keeps for devices.
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// nameOf returns the name of the file for u, with slashes, relative to the mirror. mime is the media
// type without parameters. unique means that no other URL has this name.
func nameOf(u weburl.URL, mime string) (name string, unique bool) {
	parts := strings.Split(strings.TrimPrefix(u.Path(), "/"), "/")
	last := len(parts) - 1
	if parts[last] == "" {
		parts[last] = "index"
		if extensions[mime] == nil {
			mime = "text/html"
		}
	}
	if q, ok := u.Query(); ok {
		parts[last] += "@" + q
	}
	parts[last] = withExtension(parts[last], mime)
	host := u.Host()
	if port := strings.TrimPrefix(u.Authority()[len(host):], ":"); port != "" {
		host += "+" + port
	}
	special := hashed.MatchString(u.String())
	host = clean(host)
	if strings.EqualFold(host, startPage) || strings.EqualFold(host, markerFile) {
		host = "_" + host
	}
	for i, p := range parts {
		parts[i] = clean(p)
		special = special || len(parts[i]) > maxPart
	}
	name = host + "/" + strings.Join(parts, "/")
	if special || len(name) > maxName {
		return longName(host, parts, u), true
	}
	return name, false
}

// withExtension returns a file's name with an ending that tells its type.
func withExtension(name, mime string) string {
	endings := extensions[mime]
	if endings == nil {
		return name
	}
	for _, e := range endings {
		if len(name) > len(e) && strings.EqualFold(name[len(name)-len(e):], e) {
			return name
		}
	}
	return name + endings[0]
}

// clean returns a part of a name with characters that every file system permits. Others become
// escapes with a percent sign.
func clean(part string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(part) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()+,;=@%[]", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	s := b.String()
	switch {
	case s == "":
		return "%"
	case strings.Trim(s, ".") == "", reserved.MatchString(s):
		s = "_" + s
	}
	if strings.HasSuffix(s, ".") { // Windows drops it
		s += "_"
	}
	return s
}

// hashOf returns 16 characters that identify u.
func hashOf(u weburl.URL) string {
	sum := sha256.Sum256([]byte(u.String()))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// uniqueName returns the name with a hash of u before its ending.
func uniqueName(name string, u weburl.URL) string {
	dir, base := path.Split(name)
	ext := endingOf(base)
	return dir + strings.TrimSuffix(base, ext) + "~" + hashOf(u) + ext
}

// longName returns a short name for u in the directory of its host.
func longName(host string, parts []string, u weburl.URL) string {
	if len(host) > maxPart {
		host = host[:maxPart-17] + "~" + hashOf(u)
	}
	return host + "/~" + hashOf(u) + endingOf(parts[len(parts)-1])
}

var ending = regexp.MustCompile(`^\.[A-Za-z0-9]{1,8}$`)

// endingOf returns the ending of a file's name with its dot; "" if it has none that is short and
// plain.
func endingOf(base string) string {
	ext := path.Ext(base)
	if !ending.MatchString(ext) {
		return ""
	}
	return ext
}

// fold returns a name as file systems compare it that ignore case.
func fold(name string) string { return strings.ToLower(name) }

// relative returns the reference from the file `from` to the file `to`, both relative to the mirror.
func relative(from, to string) string {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	same := 0
	for same < len(a)-1 && same < len(b)-1 && a[same] == b[same] {
		same++
	}
	var s strings.Builder
	for range len(a) - 1 - same {
		s.WriteString("../")
	}
	for i, part := range b[same:] {
		if i > 0 {
			s.WriteByte('/')
		}
		s.WriteString(escaper.Replace(part))
	}
	return s.String()
}

// escaper escapes what a name may have and the path of a URL may not, or only with another meaning.
// Quotation marks and parentheses would end a string or a url() of CSS.
var escaper = strings.NewReplacer("%", "%25", "[", "%5B", "]", "%5D", "'", "%27", "(", "%28", ")", "%29")
