// Package input answers: which URL, host, domain or range of addresses does a person mean?
//
// People leave out schemes, paste URLs where a host is wanted, and write names in any spelling. The functions return
// the canonical form, or an error that says what would be right.
package input

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A ConfigError reports what a person has given wrongly, such as a setting. Its texts name settings, and do not say how
// they are given: a flag, a line of a file, or a field of a struct. In says that.
type ConfigError struct {
	Field string // the setting that the problem names first, such as "host-page-limit"; "" for none
	Value string // as it was given; "" if none was, or if the problem tells it

	problem, remedy Phrase
	cause           error
}

// A Phrase is a part of a text for people. {name} in its format is a setting. It may be an argument of Errorf.
type Phrase struct {
	format string
	args   []any
}

// Say returns a Phrase. Its arguments may be Phrases, and errors that wrap a *ConfigError.
func Say(format string, args ...any) Phrase {
	if false {
		_ = fmt.Sprintf(format, args...) // so that go vet checks the formats
	}
	return Phrase{format, args}
}

// String returns the text with the names of settings.
func (p Phrase) String() string { return p.in(plain) }

var (
	named = regexp.MustCompile(`\{([a-z0-9]+(?:-[a-z0-9]+)*)\}`)
	// valued finds the value behind the setting with which a format begins.
	valued = regexp.MustCompile(`^\{[a-z0-9-]+\} (\S+):(?: |$)`)
	verb   = regexp.MustCompile(`%%|%[^%a-zA-Z]*[a-zA-Z]`)
)

// in returns the text. name tells how a person gives a setting.
func (p Phrase) in(name func(field string) string) string {
	format := named.ReplaceAllStringFunc(p.format, func(s string) string {
		return strings.ReplaceAll(name(s[1:len(s)-1]), "%", "%%")
	})
	args := slices.Clone(p.args)
	for i, a := range args {
		switch a := a.(type) {
		case Phrase:
			args[i] = a.in(name)
		case error:
			args[i] = Text(a, name)
		}
	}
	return fmt.Sprintf(format, args...)
}

// Errorf returns a *ConfigError. The format has up to three parts, such as
//
//	{kappa} %d: only {partition} ring has replicas on a ring; leave it out
//
// the setting and its value, what is wrong, and what would be right. {name} is a setting. A format whose
// verbs have indices is one part.
func Errorf(format string, args ...any) *ConfigError {
	e := &ConfigError{problem: Say(format, args...)}
	if m := valued.FindStringSubmatch(format); m != nil && !strings.Contains(m[1], "%[") {
		e.Value = fmt.Sprintf(m[1], args[:operands(m[1])]...)
	}
	if i := strings.LastIndex(format, "; "); i >= 0 && !strings.Contains(format, "%[") {
		n := operands(format[:i])
		e.problem, e.remedy = Phrase{format[:i], args[:n]}, Phrase{format[i+2:], args[n:]}
	}
	if m := named.FindStringSubmatch(e.problem.format); m != nil {
		e.Field = m[1]
	}
	return e
}

// operands returns the number of arguments that a format needs.
func operands(format string) (n int) {
	for _, v := range verb.FindAllString(format, -1) {
		if v != "%%" {
			n++
		}
	}
	return n
}

// Because sets the cause of the error, which errors.Is finds, and returns the error.
func (e *ConfigError) Because(cause error) *ConfigError {
	e.cause = cause
	return e
}

// Error returns the text with the names of settings.
func (e *ConfigError) Error() string { return e.In(plain) }

func plain(field string) string { return field }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.cause }

// In returns the text: the setting and its value, the problem and the remedy. name tells how a person gives a setting.
func (e *ConfigError) In(name func(field string) string) string {
	if remedy := e.Remedy(name); remedy != "" {
		return e.problem.in(name) + "; " + remedy
	}
	return e.problem.in(name)
}

// Problem returns what is wrong, with the setting and its value.
func (e *ConfigError) Problem(name func(field string) string) string { return e.problem.in(name) }

// Remedy returns what would be right; "" if the problem says it.
func (e *ConfigError) Remedy(name func(field string) string) string { return e.remedy.in(name) }

// Text returns the text of an error. If it is or wraps a *ConfigError, name tells how a person gives the settings. Of
// several that errors.Join has joined, it is the first.
func Text(err error, name func(field string) string) string {
	if bad, ok := errors.AsType[*ConfigError](err); ok {
		return strings.Replace(err.Error(), bad.Error(), bad.In(name), 1)
	}
	return err.Error()
}

// begins are the settings with which errors of other packages begin, one on a line.
var begins = regexp.MustCompile(`(?m)^(ca|proxy|connect-to|dns|include|exclude|keep|listen)[ :]`)

// SettingError returns a *ConfigError for an error of package fetch, dns, scope or rpc about settings.
func SettingError(err error) error {
	if _, ok := errors.AsType[*ConfigError](err); ok {
		return err
	}
	text, format, args := err.Error(), "", []any(nil)
	e := new(ConfigError)
	for text != "" {
		m := begins.FindStringSubmatchIndex(text)
		switch {
		case m == nil:
			format, args, text = format+"%s", append(args, text), ""
		case m[0] > 0:
			format, args, text = format+"%s", append(args, text[:m[0]]), text[m[0]:]
		default:
			if e.Field == "" {
				e.Field = text[m[2]:m[3]]
			}
			format, text = format+"{"+text[m[2]:m[3]]+"}", text[m[3]:]
		}
	}
	e.problem, e.cause = Phrase{format, args}, err
	return e
}

// CheckAddress returns a *ConfigError unless addr, a value of a setting, is a host and a port.
func CheckAddress(field, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return Errorf("{"+field+"} %q: give an address and a port, such as 192.0.2.1:7490", addr)
	}
	return nil
}
