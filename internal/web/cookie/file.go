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

// Load reads a cookie file in the Netscape format, as browsers' extensions and curl write it. name is the file's name,
// for errors. Expired cookies are counted and left out. The errors contain no values of cookies.
func (j *Jar) Load(name string, content []byte, now time.Time) (loaded, expired int, err error) {
	text := strings.TrimPrefix(string(content), "\ufeff")
	if s := strings.TrimSpace(text); strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") {
		return 0, 0, fmt.Errorf("%s is JSON; export the cookies in the Netscape format (cookies.txt)", name)
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
		if err != nil {
			return 0, 0, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if !c.Expires.IsZero() && !c.Expires.After(now) {
			expired++
			continue
		}
		if !j.set(u, c, true, now) {
			return 0, 0, fmt.Errorf("%s, line %d: the cookie %s is not allowed for %s: it is longer than %d bytes, "+
				"its domain is a public suffix, or its name begins with __Secure- or __Host- and it does not match "+
				"that; remove the line", name, n, c.Name, u.Host(), maxCookie)
		}
		loaded++
	}
	switch {
	case loaded == 0 && expired > 0:
		return 0, expired, fmt.Errorf("%s: no cookie is left: %s expired; log in with a browser and export again",
			name, english.Plural(expired, "cookie has", "cookies have"))
	case loaded == 0:
		return 0, 0, fmt.Errorf("%s has no cookies; export them in the Netscape format (cookies.txt)", name)
	}
	return loaded, expired, nil
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
	c = &http.Cookie{Name: f[5], Value: f[6], Path: f[2], Secure: secure}
	if (below || dot) && !isAddr(u.Host()) {
		c.Domain = u.Host()
	}
	if seconds > 0 {
		c.Expires = time.Unix(int64(seconds), 0)
	}
	if !token(c.Name) {
		return u, nil, fmt.Errorf("field 6 (name) %q has a character that is not allowed in a cookie's name", f[5])
	}
	if strings.ContainsFunc(c.Value, func(r rune) bool { return r < ' ' || r == ';' || r >= 0x7f }) {
		return u, nil, fmt.Errorf("field 7 (value) of %s has a character that is not allowed", c.Name)
	}
	if v, ok := strings.CutPrefix(c.Value, `"`); ok && strings.HasSuffix(v, `"`) {
		c.Value, c.Quoted = v[:len(v)-1], true
	}
	return u, c, nil
}

func token(s string) bool {
	for i := range len(s) {
		if b := s[i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, b) >= 0 {
			return false
		}
	}
	return s != ""
}
