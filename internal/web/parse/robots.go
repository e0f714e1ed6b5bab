package parse

import "strings"

// Directives are what a page asks of robots. The zero Directives asks nothing.
type Directives struct {
	NoIndex, NoFollow, NoArchive bool
}

// add reads a comma-separated list of directives, such as the content of a robots meta element. It
// skips unknown ones.
func (d *Directives) add(list string) {
	for list != "" {
		var word string
		word, list, _ = strings.Cut(list, ",")
		d.word(strings.TrimSpace(word))
	}
}

func (d *Directives) word(w string) {
	switch {
	case strings.EqualFold(w, "noindex"):
		d.NoIndex = true
	case strings.EqualFold(w, "nofollow"):
		d.NoFollow = true
	case strings.EqualFold(w, "none"):
		d.NoIndex, d.NoFollow = true, true
	case strings.EqualFold(w, "noarchive"), strings.EqualFold(w, "nocache"): // Bing takes them for the same
		d.NoArchive = true
	}
}

// String returns the directives in the form of a list, such as "noindex, nofollow"; "" if there are none.
func (d Directives) String() string {
	var list []string
	for _, w := range []struct {
		is   bool
		name string
	}{{d.NoIndex, "noindex"}, {d.NoFollow, "nofollow"}, {d.NoArchive, "noarchive"}} {
		if w.is {
			list = append(list, w.name)
		}
	}
	return strings.Join(list, ", ")
}

// ParseRobotsTag reads the values of X-Robots-Tag for the product token agent. A value is a list of
// directives. A "name:" before a directive means that this and the following directives, up to the
// next name or the end of the value, are for that robot only. Directives for all robots and for
// agent are combined: the stricter one applies.
func ParseRobotsTag(values []string, agent string) Directives {
	var d Directives
	for _, list := range values {
		ours := true
		for list != "" {
			var word string
			word, list, _ = strings.Cut(list, ",")
			word = strings.TrimSpace(word)
			// A robot may be named right before another one: "a: b: noindex" is for b.
			for {
				name, rest, named := strings.Cut(word, ":")
				if !named || valued(name) || !token(name) {
					break
				}
				ours = strings.EqualFold(name, agent) || strings.EqualFold(name, "robots") || name == "*"
				word = strings.TrimSpace(rest)
			}
			if ours {
				d.word(word)
			}
		}
	}
	return d
}

// valued reports whether name is a directive that takes a value after a colon, and thus no robot.
func valued(name string) bool {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	return false
}

// token reports whether s can be a product token. A token has no white space, so the time of day in
// a date does not name a robot.
func token(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '/' {
			return false
		}
	}
	return true
}
