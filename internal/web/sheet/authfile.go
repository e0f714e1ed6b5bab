package sheet

import (
	"fmt"
	"slices"
	"strings"
)

// ReadAuth reads credentials in the format of netrc: "machine HOST login USER password PASSWORD", over any number of
// lines. HOST may be any prefix that ParsePrefix reads. Instead of login and password there may be "bearer TOKEN". name
// is the file's name, for errors. The errors contain no secrets.
func ReadAuth(name string, content []byte) (entries []Entry, err error) {
	words, err := netrcWords(name, string(content))
	if err != nil {
		return nil, err
	}
	var at, machine string
	got := map[string]string{}
	end := func() error {
		if machine == "" {
			return nil
		}
		login, hasLogin := got["login"]
		password, hasPassword := got["password"]
		token, hasToken := got["bearer"]
		value := "basic " + login + ":" + password
		switch {
		case hasToken && (hasLogin || hasPassword):
			return fmt.Errorf("%s: machine %s has a bearer token and a login; remove one of them", at, machine)
		case hasToken:
			value = "bearer " + token
		case !hasLogin || !hasPassword || login == "":
			return fmt.Errorf("%s: machine %s needs login USER and password PASSWORD, or bearer TOKEN", at, machine)
		case strings.Contains(login, ":"):
			return fmt.Errorf("%s: machine %s: the login contains a colon, which basic authentication forbids", at,
				machine)
		}
		entries = append(entries, Entry{Prefix: machine, At: at, Word: "machine",
			Settings: []Setting{{Key: "auth", Values: []string{value}, At: at}}})
		return nil
	}
	for len(words) > 0 {
		w := words[0]
		here := fmt.Sprintf("%s, line %d", name, w.line)
		switch w.text {
		case "machine", "login", "password", "bearer", "account":
			if len(words) < 2 {
				return nil, fmt.Errorf("%s: %s has no value", here, w.text)
			}
		case "default":
			return nil, fmt.Errorf("%s: default would send its credentials to every host; write machine HOST", here)
		case "macdef":
			return nil, fmt.Errorf("%s: macdef is for FTP; remove the macro", here)
		default:
			if machine == "" {
				return nil, fmt.Errorf("%s: no credentials; write machine HOST login USER password PASSWORD", here)
			}
			return nil, fmt.Errorf("%s: machine %s: a word is none of login, password, bearer and machine; quote a "+
				"value with blanks", here, machine)
		}
		value := words[1].text
		words = words[2:]
		if w.text == "machine" {
			if err := end(); err != nil {
				return nil, err
			}
			at, machine, got = here, value, map[string]string{}
			continue
		}
		if machine == "" {
			return nil, fmt.Errorf("%s: %s comes before the first machine; write machine HOST first", here, w.text)
		}
		if _, twice := got[w.text]; twice {
			return nil, fmt.Errorf("%s: machine %s has %s twice; remove one of them", here, machine, w.text)
		}
		got[w.text] = value
	}
	if err := end(); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s has no credentials; write machine HOST login USER password PASSWORD", name)
	}
	return slices.Clip(entries), nil
}

type word struct {
	text string
	line int
}

// netrcWords splits a file at white space. A word in double quotes may contain blanks; \ escapes the next character
// in it. A line that begins with # is a comment.
func netrcWords(name, content string) (words []word, err error) {
	content = strings.TrimPrefix(content, "\ufeff")
	n := 0
	for line := range strings.Lines(content) {
		n++
		rest := strings.TrimSpace(line)
		if strings.HasPrefix(rest, "#") {
			continue
		}
		for rest != "" {
			var text string
			if rest[0] == '"' {
				var ok bool
				if text, rest, ok = unquote(rest[1:]); !ok {
					return nil, fmt.Errorf("%s, line %d: a quotation mark is not closed", name, n)
				}
			} else {
				end := strings.IndexAny(rest, " \t")
				if end < 0 {
					end = len(rest)
				}
				text, rest = rest[:end], rest[end:]
			}
			words = append(words, word{text, n})
			rest = strings.TrimLeft(rest, " \t")
		}
	}
	return words, nil
}

func unquote(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
