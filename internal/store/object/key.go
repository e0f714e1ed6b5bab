package object

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey bounds a key in bytes. S3 allows 1024, with the prefix of the store.
const maxKey = 900

// maxName bounds a part of a key in bytes. A file's name has at most 255, and package folder adds to it.
const maxName = 200

// ValidKey reports whether a key can also be a relative path of a file on every system: it is UTF-8, has no control
// characters and no backslash, and none of its parts is empty, "." or "..".
func ValidKey(key string) bool {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, '\\') {
		return false
	}
	for _, r := range key {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return false
		}
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." || len(part) > maxName {
			return false
		}
	}
	return true
}

// validPrefix is ValidKey for the beginning of keys: it may be empty, or end anywhere.
func validPrefix(prefix string) bool { return prefix == "" || ValidKey(prefix+"x") }
