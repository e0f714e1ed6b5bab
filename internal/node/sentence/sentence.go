// Package sentence answers: how does an event of the crawl read, and which events of several agents tell the same?
//
//	the name and the fields of an event -> Of -> one sentence in English
//
// The names and fields are those of docs/reference/events.md. An event that the package does not know reads as its name
// and its fields, so that agents of later versions can be watched.
package sentence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/report"
)

// Of returns an event as a sentence, on one line that is safe to show. The values of fields are those of JSON.
func Of(event string, fields map[string]any) string {
	pattern, known := patterns[event]
	if !known {
		return report.OneLine(plain(event, fields))
	}
	text := fill(pattern, fields) + "."
	if 'a' <= pattern[0] && pattern[0] <= 'z' { // not a name of the web, or of a person
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return report.OneLine(text)
}

// plain names an event that has no pattern, and its fields.
func plain(event string, fields map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if text := value(name, fields[name]); text != "" {
			parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+text)
		}
	}
	if len(parts) == 0 {
		return event
	}
	return event + ": " + strings.Join(parts, ", ")
}

// fill puts fields into a pattern: ${name} is the value of a field, and ${name#noun} a number with a noun. A part in
// brackets is left out if one of its fields is missing, empty, zero or false; ?name in it is not shown. Of two parts
// [a|b] the second one stands in place of the first one that is left out.
func fill(pattern string, fields map[string]any) string {
	var b strings.Builder
	for pattern != "" {
		i := strings.IndexAny(pattern, "$[")
		if i < 0 {
			b.WriteString(pattern)
			break
		}
		b.WriteString(pattern[:i])
		if pattern[i] == '[' {
			inner, rest, _ := strings.Cut(pattern[i+1:], "]")
			b.WriteString(part(inner, fields))
			pattern = rest
			continue
		}
		inner, rest, _ := strings.Cut(pattern[i+len("${"):], "}")
		b.WriteString(placed(inner, fields))
		pattern = rest
	}
	return b.String()
}

// part fills a part in brackets.
func part(pattern string, fields map[string]any) string {
	pattern, instead, _ := strings.Cut(pattern, "|")
	for _, name := range Names(pattern) {
		if value(name, fields[name]) == "" {
			return fill(instead, fields)
		}
	}
	if strings.HasPrefix(pattern, "?") {
		_, pattern, _ = strings.Cut(pattern, " ")
	}
	return fill(pattern, fields)
}

// Names returns the names of the fields in a pattern.
func Names(pattern string) (names []string) {
	for _, word := range strings.FieldsFunc(pattern, func(r rune) bool { return r == '[' || r == '|' || r == ']' }) {
		if rest, ok := strings.CutPrefix(word, "?"); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	for _, piece := range strings.Split(pattern, "${")[1:] {
		name, _, _ := strings.Cut(piece, "}")
		name, _, _ = strings.Cut(name, "#")
		names = append(names, name)
	}
	return names
}

// placed returns the text for a field in braces.
func placed(name string, fields map[string]any) string {
	name, noun, counted := strings.Cut(name, "#")
	if n, ok := fields[name].(float64); ok && counted {
		return report.Count(int64(n), noun)
	}
	if text := value(name, fields[name]); text != "" {
		return text
	}
	if counted {
		return report.Count(0, noun)
	}
	return "unknown"
}

// value returns the value of a field as people write it. It is empty for what says nothing: null, "", 0, false, an
// empty list.
func value(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at.UTC().Format("2006-01-02 15:04:05Z")
		}
		return v
	case bool:
		if v {
			return "yes"
		}
		return ""
	case float64:
		return number(name, v)
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, value(name, e))
		}
		if len(all) > mostItems {
			all = append(all[:mostItems], fmt.Sprintf("%d more", len(v)-mostItems))
		}
		return english.WordSeries(all, "and")
	case map[string]any:
		return strings.TrimPrefix(plain("", v), ": ")
	}
	return fmt.Sprint(v)
}

// mostItems bounds the items of a list that a sentence names.
const mostItems = 10

func number(name string, n float64) string {
	switch {
	case n == 0:
		return ""
	case strings.HasSuffix(name, "_ms"):
		return (time.Duration(n) * time.Millisecond).String()
	case name == "bytes" || name == "free" || name == "size" || name == "least" || name == "unsent" || name == "most",
		name == "sent":
		return humanize.Bytes(uint64(max(n, 0)))
	case n == float64(int64(n)):
		if name == "status" || name == "pid" || name == "term" || name == "index" {
			return fmt.Sprint(int64(n))
		}
		return humanize.Comma(int64(n))
	}
	return fmt.Sprint(n)
}

// Shared returns the events that several agents write about one thing, by what makes them the same: the fields that are
// equal then.
func Shared(event string, fields map[string]any) (key string, ok bool) {
	names, ok := shared[event]
	if !ok {
		return "", false
	}
	key = event
	for _, name := range names {
		key += "\x00" + value(name, fields[name])
	}
	return key, true
}

var shared = map[string][]string{
	"order":           {"id"},
	"verb-unknown":    {"verb", "id"},
	"view":            {"agents"},
	"crawl-paused":    nil,
	"crawl-continued": nil,
	"rate":            {"limit"},
	"blacklist":       {"file", "entries", "patterns"},
	"stopping":        {"reason"},
	"limit-reached":   {"page_limit"},
	"list-moved":      {"list", "is_lost"},
	"proxy-down":      {"error"},
}
