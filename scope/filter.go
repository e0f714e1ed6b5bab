package scope

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/weburl"
)

// maxFilterLine bounds a line of a filter file in octets.
const maxFilterLine = 1 << 16

// A Filter is a list of lines, of which the first that matches a URL decides.
// A URL that no line matches is out. It is safe for concurrent use.
type Filter struct{ lines []filterLine }

// A filterLine is one regular expression, or a run of SURT prefixes with the
// same sign.
type filterLine struct {
	accept bool
	re     *regexp.Regexp
	surts  []string // sorted; none is a prefix of another
	line   int      // of the file, the first of a run
	text   string   // as it stands there
}

// LoadFilter reads a filter file. It understands Nutch's regex-urlfilter.txt
// and lists of SURT prefixes, also mixed:
//
//	# comment
//	-\.(gif|jpg)$             a regular expression that keeps URLs out
//	+^https?://example\.com/  one that lets them in
//	http://(com,example,      a SURT prefix that lets in example.com and all
//	                          names below it
//	com,example)/docs/        one for a host and a directory; + and - may
//	                          stand before a SURT prefix too
//	+.                        all others
//
// Regular expressions are Go's, and match anywhere in the canonical URL. SURT
// prefixes do not distinguish http and https.
func LoadFilter(r io.Reader) (*Filter, error) {
	f := &Filter{}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxFilterLine)
	n, accepts := 0, false
	for sc.Scan() {
		n++
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		fl := filterLine{accept: line[0] != '-', line: n, text: line}
		rest := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(line, "+"), "-"), " \t")
		surt, isSURT := surtPrefix(rest)
		switch {
		case isSURT:
			fl.surts = []string{surt}
		case line[0] == '+' || line[0] == '-':
			re, err := compile(rest)
			if err != nil {
				return nil, fmt.Errorf("filter line %d: %w", n, err)
			}
			fl.re = re
		default:
			return nil, fmt.Errorf("filter line %d: %q is neither a regular expression after + or -, nor a SURT prefix such as http://(com,example,", n, line)
		}
		accepts = accepts || fl.accept
		f.add(fl)
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("filter line %d: over %d octets", n+1, maxFilterLine)
	} else if err != nil {
		return nil, fmt.Errorf("filter line %d: %w", n+1, err)
	}
	if !accepts {
		return nil, errors.New("filter: no line lets anything in; end it with the line +. to let in what no - line keeps out")
	}
	for i := range f.lines {
		f.lines[i].surts = minimal(f.lines[i].surts)
	}
	return f, nil
}

// add joins a SURT prefix to a run of its like: within a run the order is free.
func (f *Filter) add(fl filterLine) {
	if n := len(f.lines); n > 0 && fl.surts != nil {
		if last := &f.lines[n-1]; last.surts != nil && last.accept == fl.accept {
			last.surts = append(last.surts, fl.surts...)
			return
		}
	}
	f.lines = append(f.lines, fl)
}

// minimal sorts prefixes and drops those that another one covers.
func minimal(surts []string) []string {
	slices.Sort(surts)
	kept := surts[:0]
	for _, s := range surts {
		if n := len(kept); n == 0 || !strings.HasPrefix(s, kept[n-1]) {
			kept = append(kept, s)
		}
	}
	return kept
}

var surtShape = regexp.MustCompile(`^(?:https?://\(|\()?([a-z0-9_-]+(?:,[a-z0-9_-]+)*,?(?::[0-9]+)?(?:\).*)?|\[[0-9a-f:]+\](?::[0-9]+)?(?:\).*)?)$`)

// surtPrefix reads a SURT prefix and gives it the form of appendSURT: without
// a scheme, a comma before the parenthesis. "com,example" without one covers
// com,example-shop as well, as prefixes do.
func surtPrefix(s string) (prefix string, ok bool) {
	m := surtShape.FindStringSubmatch(s)
	if m == nil || !strings.ContainsAny(s, ",(") {
		return "", false
	}
	host, path, closed := strings.Cut(m[1], ")")
	if !closed {
		return host, true
	}
	name, port, _ := strings.Cut(host, ":")
	if host[0] == '[' {
		name, port, _ = strings.Cut(host, "]:")
		name = strings.TrimSuffix(name, "]") + "]"
	} else if !strings.HasSuffix(name, ",") {
		name += ","
	}
	if port != "" {
		port = ":" + port
	}
	return name + port + ")" + path, true
}

// appendSURT writes u as Heritrix's SURT prefixes want it, without the scheme:
// com,example,www,:8080)/path?query, unlike weburl's index key neither folded
// nor sorted.
func appendSURT(dst []byte, u weburl.URL) []byte {
	host := u.Host()
	if host == "" || host[0] == '[' {
		dst = append(dst, host...)
	} else {
		for {
			dot := strings.LastIndexByte(host, '.')
			dst = append(append(dst, host[dot+1:]...), ',')
			if dot < 0 {
				break
			}
			host = host[:dot]
		}
	}
	dst = append(dst, explicitPort(u)...)
	dst = append(dst, ')')
	return append(dst, u.RequestURI()...)
}

// match finds the first line that matches u, nil if none does.
func (f *Filter) match(u weburl.URL) *filterLine {
	var space [512]byte
	var surt []byte
	for i := range f.lines {
		l := &f.lines[i]
		if l.re != nil {
			if l.re.MatchString(u.String()) {
				return l
			}
			continue
		}
		if surt == nil {
			surt = appendSURT(space[:0], u)
		}
		// Sorted and free of prefixes of each other: only the last one that
		// is not greater can be a prefix.
		j, found := slices.BinarySearchFunc(l.surts, surt, func(p string, key []byte) int {
			return strings.Compare(p, string(key))
		})
		if found || j > 0 && hasPrefix(surt, l.surts[j-1]) {
			return l
		}
	}
	return nil
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// compile names the expression and where in it the fault lies.
func compile(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(expr)
	if err == nil {
		return re, nil
	}
	var se *syntax.Error
	if !errors.As(err, &se) {
		return nil, fmt.Errorf("regular expression %q: %w", expr, err)
	}
	where := ""
	if at := strings.Index(expr, se.Expr); at >= 0 && se.Expr != "" {
		where = fmt.Sprintf(" at character %d, %q", 1+len([]rune(expr[:at])), se.Expr)
	}
	hint := ""
	switch se.Code {
	case syntax.ErrInvalidPerlOp:
		hint = "; lookaheads, lookbehinds and back references do not exist here, use an include and an exclude"
	case syntax.ErrMissingRepeatArgument:
		hint = `; this is no file name pattern: any text is .*, a literal sign is \* or \+`
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		hint = `; a literal parenthesis is \( or \)`
	case syntax.ErrMissingBracket:
		hint = `; a literal bracket is \[`
	}
	return nil, fmt.Errorf("regular expression %q: %s%s%s (syntax: https://golang.org/s/re2syntax)", expr, se.Code, where, hint)
}
