package sheet

import (
	"fmt"
	"slices"
	"strings"
)

// A Keep says which responses the crawl archives. The zero Keep, and nil, keeps all.
type Keep struct {
	urls  Patterns
	types []string // "type/subtype" or "type/"; lower case
	text  string
}

// topLevel are the registered top-level media types (IANA, RFC 9695 for haptics).
var topLevel = []string{"application", "audio", "chemical", "example", "font", "haptics", "image", "message", "model",
	"multipart", "text", "video"}

const (
	mimePrefix = "mime:"
	urlPrefix  = "url:"
)

// endings has the media type for the ending of a file name.
var endings = map[string]string{
	"pdf": "application/pdf", "html": "text/html", "htm": "text/html", "txt": "text/plain", "csv": "text/csv",
	"css": "text/css", "js": "text/javascript", "json": "application/json", "xml": "application/xml",
	"jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "gif": "image/gif", "svg": "image/svg+xml",
	"webp": "image/webp", "mp3": "audio/mpeg", "mp4": "video/mp4", "zip": "application/zip",
	"epub": "application/epub+zip",
}

// ParseKeep reads the values of keep. what is the name of the setting, which begins the error. The result is nil
// if there are no values.
//
// A value is a media type if it has the form type/subtype or type/* and its type is a registered top-level type or
// begins with x-. Any other value is a regular expression for the canonical URL. The prefixes mime: and url: say
// which of the two is meant.
func ParseKeep(what string, values []string) (*Keep, error) {
	if len(values) == 0 {
		return nil, nil
	}
	k := &Keep{text: strings.Join(slices.Sorted(slices.Values(values)), " ")}
	var exprs []string
	for _, v := range values {
		text := strings.TrimSpace(v)
		expr, isURL := cutPrefix(text, urlPrefix)
		media, isMIME := cutPrefix(text, mimePrefix)
		media = strings.ToLower(strings.TrimSpace(media))
		top, sub, form := cutMedia(media)
		known := form && (slices.Contains(topLevel, top) || strings.HasPrefix(top, "x-"))
		switch {
		case strings.TrimSpace(expr) == "" || isMIME && media == "":
			return nil, fmt.Errorf("%s %q is empty; give a media type such as application/pdf, or a regular "+
				`expression for URLs such as '\.pdf$'`, what, v)
		case isURL:
			exprs = append(exprs, expr)
		case strings.Contains(media, ";") && mediaBefore(media):
			return nil, fmt.Errorf("%s %q: a media type is compared without its parameters; give %s", what, v,
				strings.TrimSpace(media[:strings.IndexByte(media, ';')]))
		case severalMedia(media):
			return nil, fmt.Errorf("%s %q: give each media type as a value of its own: %s", what, v,
				strings.Join(strings.FieldsFunc(media, betweenMedia), " and "))
		case isMIME && !form:
			return nil, fmt.Errorf("%s %q is not a media type; give one such as mime:application/pdf or mime:image/*",
				what, v)
		case isMIME || known:
			if sub == "*" {
				media = top + "/"
			}
			k.types = append(k.types, media)
		case form && similar(top) != "":
			return nil, fmt.Errorf("%s %q: no media type begins with %q; did you mean %s/%s? For a regular expression "+
				"of URLs, write url:%s", what, v, top, similar(top), sub, text)
		case endings[strings.TrimPrefix(media, ".")] != "":
			end := strings.TrimPrefix(media, ".")
			return nil, fmt.Errorf(`%s %q: for the media type, write %s; for URLs that end so, write 'url:\.%s$'`,
				what, v, endings[end], end)
		default:
			exprs = append(exprs, text)
		}
	}
	var err error
	if k.urls, err = Compile(what, exprs); err != nil {
		return nil, err
	}
	return k, nil
}

// cutPrefix is strings.CutPrefix for a prefix in small or capital letters.
func cutPrefix(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// cutMedia cuts a media type in lower case. ok is false if s does not have the form type/subtype or type/*
// (RFC 6838, 4.2).
func cutMedia(s string) (top, sub string, ok bool) {
	top, sub, ok = strings.Cut(s, "/")
	return top, sub, ok && restricted(top) && (sub == "*" || restricted(sub))
}

// mediaBefore reports whether s has a media type before its first semicolon.
func mediaBefore(s string) bool {
	s, _, _ = strings.Cut(s, ";")
	top, _, ok := cutMedia(strings.TrimSpace(s))
	return ok && slices.Contains(topLevel, top)
}

func betweenMedia(c rune) bool { return c == '|' || c == ',' || c == ' ' }

// severalMedia reports whether s is a list of media types.
func severalMedia(s string) bool {
	list := strings.FieldsFunc(s, betweenMedia)
	return len(list) > 1 && !slices.ContainsFunc(list, func(s string) bool { return !mediaBefore(s) })
}

// restricted reports whether s is a restricted-name of RFC 6838, 4.2.
func restricted(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || strings.IndexByte("!#$&-^_.+", c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= 127
}

// similar returns the top-level type that a mistyped one probably means, or "".
func similar(top string) string {
	if len(top) < 4 {
		return ""
	}
	for _, t := range topLevel {
		if t != top && nearly(t, top) {
			return t
		}
	}
	return ""
}

// nearly reports whether b becomes a if one letter of b is added, removed or replaced, or if two neighbours are
// exchanged.
func nearly(a, b string) bool {
	i, j := 0, 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for j < len(a)-i && j < len(b)-i && a[len(a)-1-j] == b[len(b)-1-j] {
		j++
	}
	ra, rb := a[i:len(a)-j], b[i:len(b)-j]
	return len(ra) <= 1 && len(rb) <= 1 || len(ra) == 2 && len(rb) == 2 && ra[0] == rb[1] && ra[1] == rb[0]
}

// All reports that the crawl archives every response.
func (k *Keep) All() bool { return k == nil || len(k.types) == 0 && k.urls.None() }

// URL reports whether an expression matches the canonical URL.
func (k *Keep) URL(u string) bool { return k.urls.Match(u) }

// Type reports whether a media type is to be kept. It is in lower case and without parameters.
func (k *Keep) Type(media string) bool {
	for _, t := range k.types {
		if media == t || t[len(t)-1] == '/' && strings.HasPrefix(media, t) {
			return true
		}
	}
	return false
}

// String returns the values, sorted.
func (k *Keep) String() string {
	if k == nil {
		return ""
	}
	return k.text
}
