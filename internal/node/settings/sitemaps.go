package settings

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/input"
	webparse "github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Sitemaps are the values of the setting sitemaps: "true" for the sitemaps that robots.txt names, and URLs of others.
// None means that the crawl follows no sitemap. As a flag it may have a value after "=". It implements
// kong.BoolMapperValue.
type Sitemaps []string

// IsBool says that the flag needs no value.
func (Sitemaps) IsBool() bool { return true }

// Decode reads the value of the flag, which may be given several times; of a variable or a file.
func (s *Sitemaps) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return s.add("true")
	}
	switch v := ctx.Scan.Pop().Value.(type) {
	case []any:
		for _, one := range v {
			if err := s.add(fmt.Sprint(one)); err != nil {
				return err
			}
		}
		return nil
	default:
		text := fmt.Sprint(v)
		for at := nextURL.FindStringIndex(text); at != nil; at = nextURL.FindStringIndex(text) {
			if err := s.add(text[:at[0]]); err != nil {
				return err
			}
			text = text[at[0]+1:]
		}
		return s.add(text)
	}
}

// nextURL matches a comma behind which another value begins. Other commas belong to a URL.
var nextURL = regexp.MustCompile(`(?i),(?:https?://|true$|true,)`)

func (s *Sitemaps) add(text string) error {
	switch strings.ToLower(text) {
	case "true", "1", "yes":
		*s = append(*s, "true")
		return nil
	case "false", "0", "no":
		*s = nil
		return nil
	}
	if _, err := sitemapAt(text); err != nil {
		return err
	}
	*s = append(*s, text)
	return nil
}

// sitemapAt reads the URL of a sitemap.
func sitemapAt(text string) (weburl.URL, error) {
	u, err := weburl.Parse(text)
	if err != nil || !strings.Contains(text, "://") {
		return u, fmt.Errorf("%q is not the URL of a sitemap; write true, false, or https://www.example.org/sitemap.xml",
			text)
	}
	return u, nil
}

// MarshalYAML returns true, false, or a list with URLs.
func (s Sitemaps) MarshalYAML() (any, error) {
	for _, v := range s {
		if v != "true" {
			return []string(s), nil
		}
	}
	return len(s) > 0, nil
}

// String returns the value for people.
func (s Sitemaps) String() string {
	if len(s) == 0 {
		return "false"
	}
	return strings.Join(s, ", ")
}

// named returns the URLs.
func (s Sitemaps) named() (us []weburl.URL, err error) {
	for _, v := range s {
		if v != "true" {
			u, err := sitemapAt(v)
			if err != nil {
				return nil, input.Errorf("{sitemaps}: %v", err)
			}
			us = append(us, u)
		}
	}
	return us, nil
}

// TellSitemaps returns for people which sitemaps the crawl follows.
func (l *Limits) TellSitemaps() string {
	if len(l.Sitemaps) == 0 {
		return "none"
	}
	text := "those that robots.txt names, or else /sitemap.xml"
	for _, v := range l.Sitemaps {
		if v != "true" {
			text += ", and " + v
		}
	}
	if l.SitemapFrom != (Date{}) {
		text += "; of these, what has changed since " + l.SitemapFrom.String() + " or does not say when"
	}
	return text
}

// A Date is a date or a time as sitemaps have it. It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Date time.Time

// UnmarshalText reads a date such as 2026-11-30, or a time such as 2026-11-30T08:00:00Z.
func (d *Date) UnmarshalText(text []byte) error {
	first, _, ok := webparse.ParseDate(string(text))
	if !ok {
		return fmt.Errorf("%q is not a date; write 2026-11-30, or a time such as 2026-11-30T08:00:00Z", text)
	}
	*d = Date(first)
	return nil
}

// MarshalText returns the date, or the time if it is not midnight.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the text of MarshalText; "" for the zero Date.
func (d Date) String() string {
	t := time.Time(d)
	switch {
	case t.IsZero():
		return ""
	case t.Equal(t.UTC().Truncate(24 * time.Hour)):
		return t.UTC().Format(time.DateOnly)
	}
	return t.Format(time.RFC3339Nano)
}
