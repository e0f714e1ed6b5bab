package report

import (
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Clean replaces what does not belong on a terminal line by percent-encoding.
func Clean(s string) string {
	for i, r := range s {
		if r <= ' ' || !printable(r, utf8.RuneLen(r)) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return string(appendClean(nil, s, 0))
		}
	}
	return s
}

// CleanText is Clean for a text of several words: it keeps the spaces.
func CleanText(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' })
	for i, w := range words {
		words[i] = Clean(w)
	}
	return strings.Join(words, " ")
}

// fit cuts s to width columns, with an ellipsis where something is left out.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return runewidth.Truncate(s, width, "…")
}

// pad fills s up to width columns, on the left for numbers.
func pad(s string, width int, right bool) string {
	n := width - runewidth.StringWidth(s)
	if n <= 0 {
		return s
	}
	if right {
		return strings.Repeat(" ", n) + s
	}
	return s + strings.Repeat(" ", n)
}
