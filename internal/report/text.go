package report

import (
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/mattn/go-runewidth"
)

// Count returns n with a noun: "1 page", "1,200 pages".
func Count(n int64, noun string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), noun, "")
}

// Clean percent-encodes every character of s that does not belong on a terminal line: white space, control characters,
// broken UTF-8.
func Clean(s string) string {
	for i, r := range s {
		if r <= ' ' || !printable(r, utf8.RuneLen(r)) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return string(appendClean(nil, s, 0))
		}
	}
	return s
}

// CleanText is Clean for a text of several words: it keeps single spaces between them.
func CleanText(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' })
	for i, w := range words {
		words[i] = Clean(w)
	}
	return strings.Join(words, " ")
}

// fit cuts s to n columns. If it cuts, the result ends in an ellipsis.
func fit(s string, n int) string {
	if width(s) <= n {
		return s
	}
	const ellipsis = "…"
	room := n - width(ellipsis)
	if room < 0 {
		return ""
	}
	for i, r := range s {
		if room -= runewidth.RuneWidth(r); room < 0 {
			return s[:i] + ellipsis
		}
	}
	return s
}

// pad fills s with spaces up to n columns: on the left if right is set, as for numbers.
func pad(s string, n int, right bool) string {
	if n -= width(s); n <= 0 {
		return s
	}
	if right {
		return strings.Repeat(" ", n) + s
	}
	return s + strings.Repeat(" ", n)
}

// width returns the number of columns that s takes at most. Terminals differ in how they join characters, so it is the
// sum over all characters.
func width(s string) (n int) {
	for _, r := range s {
		n += runewidth.RuneWidth(r)
	}
	return n
}
