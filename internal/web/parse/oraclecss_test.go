package parse

import (
	"regexp"
	"strconv"
	"strings"

	tdewolff "github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/css"
)

// A cssRef is a reference that a browser loads from style rules.
type cssRef struct {
	ref      string
	imported bool
}

// cssEscape is an escape, or the end of a line after a backslash (CSS Syntax, 4.3.7 and 4.3.5).
var cssEscape = regexp.MustCompile(`(?s)\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\r\n\f])|(.)|$)`)

func cssText(s string) string {
	return cssEscape.ReplaceAllStringFunc(s, func(e string) string {
		m := cssEscape.FindStringSubmatch(e)
		switch {
		case m[1] != "":
			n, _ := strconv.ParseUint(m[1], 16, 32)
			if n == 0 || n > 0x10ffff || 0xd800 <= n && n < 0xe000 {
				return "\uFFFD"
			}
			return string(rune(n))
		default:
			return m[3]
		}
	})
}

// cssRefs returns what style rules load, by the tokens of another program's lexer: url() and src() outside of the
// preludes of at-rules, the first token behind @import, and the strings of image-set() (CSS Images 4, 6.2).
func cssRefs(text string) (refs []cssRef) {
	lexer := css.NewLexer(tdewolff.NewInputString(text))
	prelude, first := "", false // the at-rule whose prelude this is; no token of the prelude has been seen yet
	var open []string           // the functions and parentheses that are open
	add := func(ref string) {
		if prelude == "" || first {
			refs = append(refs, cssRef{ref, first})
		}
	}
	quoted := func(s string) string {
		q := s[:1]
		return cssText(strings.TrimSuffix(s[1:], q))
	}
	var bare *strings.Builder // the text in a url() whose name has escapes, which the lexer takes for a function
	for {
		kind, b := lexer.Next()
		s := string(b)
		switch {
		case bare == nil:
		case kind == css.RightParenthesisToken:
			add(cssText(strings.Trim(bare.String(), " \t\r\n\f")))
			open, bare, first = open[:len(open)-1], nil, false
			continue
		case kind == css.StringToken || kind == css.ErrorToken:
			bare = nil
		default:
			bare.WriteString(s)
			continue
		}
		in := ""
		if len(open) > 0 {
			in = open[len(open)-1]
		}
		switch kind {
		case css.ErrorToken:
			return refs
		case css.WhitespaceToken, css.CommentToken:
			continue
		case css.AtKeywordToken:
			if prelude == "" {
				prelude = strings.ToLower(cssText(s[1:]))
			}
			first = strings.ToLower(cssText(s[1:])) == "import"
			continue
		case css.SemicolonToken, css.LeftBraceToken, css.RightBraceToken:
			prelude, open = "", nil
		case css.URLToken:
			inner := strings.TrimRight(strings.TrimLeft(s[strings.IndexByte(s, '(')+1:], " \t\r\n\f"), " \t\r\n\f")
			inner = strings.TrimRight(strings.TrimSuffix(inner, ")"), " \t\r\n\f")
			if inner != "" && (inner[0] == '"' || inner[0] == '\'') {
				add(quoted(inner))
			} else {
				add(cssText(inner))
			}
		case css.FunctionToken:
			name := strings.ToLower(cssText(s[:len(s)-1]))
			open = append(open, name)
			if name == "url" {
				bare = new(strings.Builder)
			}
			if first && (name == "url" || name == "src") {
				continue // its string is the reference
			}
		case css.LeftParenthesisToken:
			open = append(open, "(")
		case css.RightParenthesisToken:
			open = open[:max(len(open)-1, 0)]
		case css.StringToken:
			switch {
			case first || in == "url" || in == "src":
				add(quoted(s))
			case (in == "image-set" || in == "-webkit-image-set") && prelude == "":
				add(quoted(s))
			}
		}
		first = false
	}
}
