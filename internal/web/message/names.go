package message

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
)

// CharsetName returns the name of a character encoding as the Encoding standard writes it, such as "UTF-8" or
// "windows-1252", for one of its labels in any case. It is empty if the label is unknown.
func CharsetName(label string) string {
	switch {
	case len(label) > 64:
		return ""
	case strings.EqualFold(label, "utf-8"): // nearly every page
		return "UTF-8"
	}
	e, err := htmlindex.Get(label)
	if err != nil {
		return ""
	}
	name, err := htmlindex.Name(e)
	switch {
	case err != nil || name == "replacement":
		return ""
	case name == "big5":
		return "Big5"
	case name == "shift_jis":
		return "Shift_JIS"
	case name == "gb18030" || name == "macintosh" || strings.HasPrefix(name, "windows-") ||
		strings.HasPrefix(name, "x-"):
		return name
	}
	return strings.ToUpper(name)
}

// maxLanguages is how many languages Languages returns.
const maxLanguages = 4

// Languages returns the languages that a list of tags such as "en-US, fr" names, as ISO 639-3 codes: "eng,fra". It
// leaves out what is no language, repeated ones, and all after the fourth.
func Languages(tags string) string {
	var codes [maxLanguages]string
	n := 0
	for tag := range strings.SplitSeq(tags[:min(len(tags), 1<<10)], ",") {
		code := Language(strings.TrimSpace(tag))
		if code != "" && n < maxLanguages && !slices.Contains(codes[:n], code) {
			codes[n] = code
			n++
		}
	}
	return strings.Join(codes[:n], ",")
}

// Language returns the ISO 639-3 code of the language that a tag such as "en-US" names; empty if it names none. It does
// not allocate if the tag begins with a code of two letters.
func Language[T string | []byte](tag T) string {
	var code [3]byte
	n := 0
	for n < len(tag) && tag[n] != '-' && tag[n] != '_' {
		c := tag[n] | 0x20
		if n == len(code) || c < 'a' || c > 'z' {
			return ""
		}
		code[n] = c
		n++
	}
	switch n {
	case 2:
		return twoLetters()[int(code[0]-'a')*26+int(code[1]-'a')]
	case 3:
		return threeLetters(string(code[:]))
	}
	return ""
}

// twoLetters has the codes of ISO 639-3 for those of two letters.
var twoLetters = sync.OnceValue(func() *[26 * 26]string {
	t := new([26 * 26]string)
	for i := range t {
		t[i] = threeLetters(string([]byte{byte('a' + i/26), byte('a' + i%26)}))
	}
	return t
})

// threeLetters returns the code of ISO 639-3 for another code.
func threeLetters(code string) string {
	if other, ok := bibliographic[code]; ok {
		code = other
	}
	base, err := language.ParseBase(code)
	if err != nil {
		return ""
	}
	switch code = base.ISO3(); code {
	case "und", "mul", "zxx", "mis": // no language
		return ""
	}
	if len(code) != 3 {
		return ""
	}
	return code
}

// bibliographic are the codes of ISO 639-2/B that pages use in place of those of ISO 639-3.
var bibliographic = map[string]string{
	"alb": "sqi", "arm": "hye", "baq": "eus", "bur": "mya", "chi": "zho", "cze": "ces", "dut": "nld", "fre": "fra",
	"geo": "kat", "ger": "deu", "gre": "ell", "ice": "isl", "mac": "mkd", "mao": "mri", "may": "msa", "per": "fas",
	"rum": "ron", "slo": "slk", "tib": "bod", "wel": "cym",
}

// IsLanguages reports whether s has the form of a result of Languages.
func IsLanguages(s string) bool {
	if len(s)%4 != 3 || len(s) > 4*maxLanguages {
		return false
	}
	for i := range len(s) {
		if comma := i%4 == 3; comma && s[i] != ',' || !comma && (s[i] < 'a' || s[i] > 'z') {
			return false
		}
	}
	return true
}
