package disk

import "strings"

// SafeName returns s as a part of a file's name: every character other than a letter, digit, dot, hyphen or underscore
// becomes an underscore, and so does a dot at the front.
func SafeName(s string) string {
	if s != "" && s[0] == '.' {
		s = "_" + s[1:] // not a hidden file, and not ".."
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
}
