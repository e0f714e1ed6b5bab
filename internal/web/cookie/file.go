package cookie

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The fields of a line of a Netscape cookie file: domain, whether hosts below it get the cookie, path, whether it goes
// over https only, expiry in seconds since 1970 (0: with the session), name, value.
const fileFields = 7

// Loaded says what became of the lines of a cookie file.
type Loaded struct {
	Cookies, Expired int
	// Skipped says of each line that is no usable cookie which one it is, and why. It has no values of cookies.
	Skipped []error
}

// Load reads a cookie file in the Netscape format, as browsers' extensions and curl write it. name is the file's name,
// for errors. It leaves expired cookies out, and lines that it cannot use: an export has cookies of many sites. The
// error means that no cookie is left. It has no values of cookies.
func (j *Jar) Load(name string, content []byte, now time.Time) (l Loaded, err error) {
	text := strings.TrimPrefix(string(content), "\ufeff")
	if s := strings.TrimSpace(text); strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") {
		return l, fmt.Errorf("%s is JSON; export the cookies in the Netscape format (cookies.txt)", name)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
		if strings.TrimSpace(line) == "" || line[0] == '#' && !httpOnly {
			continue
		}
		u, c, err := parseLine(line)
		switch {
		case err == nil && !c.Expires.IsZero() && !c.Expires.After(now):
			l.Expired++
			continue
		case err == nil && !j.set(u, c, true, now):
			err = fmt.Errorf("the cookie %s is not allowed for %s: it is longer than %d bytes, its domain is a "+
				"public suffix, or its name begins with __Secure- or __Host- and it does not match that; remove the "+
				"line", c.Name, u.Host(), maxCookie)
		}
		if err != nil {
			l.Skipped = append(l.Skipped, fmt.Errorf("%s, line %d: %w", name, n, err))
			continue
		}
		l.Cookies++
	}
	switch {
	case l.Cookies > 0:
	case l.Expired > 0:
		err = fmt.Errorf("%s: no cookie is left: %s expired; log in with a browser and export again",
			name, english.Plural(l.Expired, "cookie has", "cookies have"))
	case len(l.Skipped) > 0:
		err = l.Skipped[0]
	default:
		err = fmt.Errorf("%s has no cookies; export them in the Netscape format (cookies.txt)", name)
	}
	return l, err
}

// parseLine reads a line. u is a URL at which a server could set the cookie.
func parseLine(line string) (u weburl.URL, c *http.Cookie, err error) {
	f := strings.Split(line, "\t")
	if len(f) == fileFields-1 {
		f = append(f, "") // an empty value
	}
	if len(f) != fileFields {
		if len(f) == 1 && len(strings.Fields(line)) >= fileFields-1 {
			return u, nil, fmt.Errorf("the fields are separated by blanks; they must be separated by tabs")
		}
		return u, nil, fmt.Errorf("%d of %d fields, with tabs between them; export the cookies again", len(f),
			fileFields)
	}
	flag := func(i int, what string) bool {
		switch strings.ToUpper(f[i]) {
		case "TRUE":
			return true
		case "FALSE":
		default:
			err = fmt.Errorf("field %d (%s) is neither TRUE nor FALSE", i+1, what)
		}
		return false
	}
	below, secure := flag(1, "all hosts of the domain"), flag(3, "https only")
	if err != nil {
		return u, nil, err
	}
	seconds, err := strconv.ParseFloat(f[4], 64) // some programs write fractions
	if err != nil || seconds != seconds || seconds > 1<<40 {
		return u, nil, fmt.Errorf("field 5 (expiry) is not a number of seconds since 1970, or 0")
	}
	domain, dot := strings.CutPrefix(f[0], ".")
	u, err = weburl.Parse("https://" + domain + "/")
	if err != nil || u.String() != "https://"+u.Host()+"/" {
		return u, nil, fmt.Errorf("field 1 (domain) %q is not a host", f[0])
	}
	if !strings.HasPrefix(f[2], "/") {
		return u, nil, fmt.Errorf("field 3 (path) %q does not begin with /", f[2])
	}
	c = &http.Cookie{Name: trim(f[5]), Value: trim(f[6]), Path: f[2], Secure: secure}
	if (below || dot) && !isAddr(u.Host()) {
		c.Domain = u.Host()
	}
	if seconds > 0 {
		c.Expires = time.Unix(int64(seconds), 0)
	}
	if c.Name == "" || hasControl(c.Name) || strings.ContainsAny(c.Name, ";=") {
		return u, nil, fmt.Errorf("field 6 (name) %q is empty, or has a character that no cookie's name has", f[5])
	}
	if hasControl(c.Value) || strings.Contains(c.Value, ";") {
		return u, nil, fmt.Errorf("field 7 (value) of %s has a character that no cookie's value has", c.Name)
	}
	return u, c, nil
}
