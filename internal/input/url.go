package input

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A TypedURL is a URL as a person typed it.
type TypedURL struct {
	URL weburl.URL
	// Bare reports that the text had neither a scheme nor a port that implies one. URL then has
	// https. If no TLS server answers there, the crawl asks the same host and port by http.
	Bare bool
}

var (
	// schemeOf matches the scheme of a URL. Digits after the colon are a port: localhost:8080.
	schemeOf = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+-]*):(?:[^0-9]|$)`)
	// twoSchemes matches a URL that was pasted after a scheme.
	twoSchemes = regexp.MustCompile(`^(?i)https?:/*(https?:/*.*)$`)
	// notScheme matches what stands before :// without being a scheme.
	notScheme = regexp.MustCompile(`^([^/?#]*)://`)
	// withPassword matches a user name and a password in front of a host.
	withPassword = regexp.MustCompile(`^[^/:@]+:[^/@]*@`)
	// mailAddress matches text that is more likely a mail address than a host with a user name.
	mailAddress = regexp.MustCompile(`^[^/:@\s]+@([^/:@\s]+)$`)
)

// fileTypes are endings of file names that are not top-level domains.
var fileTypes = []string{".txt", ".html", ".htm", ".csv", ".tsv", ".json", ".yaml", ".yml", ".xml", ".pdf", ".gz",
	".warc", ".log", ".lst", ".list", ".conf"}

// ParseURL reads a URL as people type it: with or without its scheme. what names the argument or
// setting in errors. A URL with credentials is an error, because the crawler would not send them.
// The error is a *Error.
func ParseURL(what, s string) (TypedURL, error) {
	var none TypedURL
	s = strings.TrimSpace(strings.TrimPrefix(s, "\ufeff")) // a byte order mark begins files of some editors
	const giveURL = "give a URL such as https://example.org/"
	bad := func(format string, args ...any) (TypedURL, error) {
		return none, Errorf(what+" "+format, args...)
	}
	if s == "" {
		return bad(`"" is empty; ` + giveURL)
	}
	if m := twoSchemes.FindStringSubmatch(s); m != nil {
		return bad("%q has two schemes; give %s", s, m[1])
	}
	full, bare := s, false
	m := schemeOf.FindStringSubmatch(s)
	if no := notScheme.FindStringSubmatch(s); m == nil && no != nil {
		return bad("%q: %q is not a scheme; give an http or https URL", s, no[1])
	}
	switch {
	case m == nil || strings.EqualFold(m[1], "localhost"):
		full, bare = "https://"+bareAddress(s), true
	case strings.EqualFold(m[1], "http") || strings.EqualFold(m[1], "https"):
	case strings.EqualFold(m[1], "mailto"):
		return bad("%q is a mail address; "+giveURL, s)
	case withPassword.MatchString(s):
		full, bare = "https://"+s, true
	default:
		return bad("%q: the scheme is %s; give an http or https URL", s, m[1])
	}
	if bare {
		host, _, _ := strings.Cut(strings.TrimPrefix(s, "//"), "/")
		switch m := mailAddress.FindStringSubmatch(s); {
		case m != nil:
			return bad("%q looks like a mail address; give the site, such as https://%s/", s, m[1])
		case strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//"):
			return bad("%q is a path; "+giveURL, s)
		case slices.Contains(fileTypes, strings.ToLower(path.Ext(host))),
			!strings.ContainsAny(host, ".:") && slices.Contains(fileTypes, strings.ToLower(path.Ext(s))):
			if what == "seed" {
				return bad("%q looks like a file name; "+giveURL+", or {seeds} %s for a file of URLs", s, s)
			}
			return bad("%q looks like a file name; "+giveURL, s)
		}
	}
	u, err := weburl.Parse(full)
	if err != nil {
		return bad("%q: %v; "+giveURL, s, err)
	}
	switch host := u.Host(); {
	case strings.Contains(authority(full), "@"):
		return bad("%s contains a user name or password, which the crawler does not send; "+
			"remove everything from // to @", u)
	case strings.Contains(host, "*"):
		return bad("%q: a host has no *; give one host, and {scope} domain for its subdomains", s)
	case strings.Contains(host, ","):
		return bad("%q: the host %q has a comma; give the URLs one by one", s, host)
	}
	if bare && u.Port() == "80" {
		return TypedURL{URL: Plain(u)}, nil
	}
	return TypedURL{u, bare && !strings.HasSuffix(authority(full), ":443")}, nil
}

// Plain returns the http URL with the host, port, path and query of an https URL.
func Plain(u weburl.URL) weburl.URL {
	plain, err := weburl.Parse("http" + strings.TrimPrefix(u.String(), "https"))
	if err != nil {
		panic(err) // the two schemes have the same syntax
	}
	return plain
}

// authority returns the part of a URL between its scheme and its path.
func authority(s string) string {
	_, rest, _ := strings.Cut(s, ":")
	rest = strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	return rest
}
