package robots

import "strings"

// ProductToken returns the name that robots.txt files use for the crawler that sends userAgent. The
// name is the leading run of letters, - and _ (RFC 9309, 2.2.1). A User-Agent that begins with
// "Mozilla/" names the crawler after "compatible;". The result is empty if there is no such name;
// the operator must then choose one.
func ProductToken(userAgent string) string {
	name := strings.TrimLeft(userAgent, space)
	if hasFoldPrefix(name, "mozilla/") {
		const mark = "compatible;"
		for !hasFoldPrefix(name, mark) {
			if name == "" {
				return ""
			}
			name = name[1:]
		}
		name = strings.TrimLeft(name[len(mark):], space)
	}
	return name[:min(tokenLen(name, false), maxAgent)]
}

// IsToken reports whether s can name a crawler in a robots.txt: letters, digits, - and _, at most
// 256 of them. A token with a digit must equal the whole name in the file.
func IsToken(s string) bool {
	return s != "" && len(s) <= maxAgent && tokenLen(s, true) == len(s)
}

func hasFoldPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
