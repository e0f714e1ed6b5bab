package sheet

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Header is one field of requests.
type Header struct {
	Name, Value string
	// Secret means that the value must not be in archives, logs and crawl.yaml.
	Secret bool

	tls  bool   // goes over https only
	port string // goes to this port only; "" means all
}

// Goes reports whether the field may be sent to u. A secret one goes only where its owner has allowed it.
func (h *Header) Goes(u weburl.URL) bool {
	return (!h.tls || u.Scheme() == "https") && (h.port == "" || h.port == u.Port())
}

// Redacted stands for the value of a secret field in crawl.yaml.
const Redacted = "[redacted]"

var leaveOut = input.Say("leave it out")

// notSettable are fields that would change what a response means, each with what to do instead.
var notSettable = map[string]input.Phrase{
	"user-agent":          input.Say("give {user-agent}, which also says whose robots.txt rules apply"),
	"from":                input.Say("give {contact}"),
	"host":                input.Say("give {connect-to} to reach a host at another address"),
	"proxy-authorization": input.Say("put the user and password into the URL of {proxy}"),
	"connection":          leaveOut, "keep-alive": leaveOut, "content-length": leaveOut, "transfer-encoding": leaveOut,
	"te": leaveOut, "trailer": leaveOut, "upgrade": leaveOut, "expect": leaveOut, "proxy-connection": leaveOut,
	"range": leaveOut, "if-range": leaveOut, "if-match": leaveOut, "if-none-match": leaveOut,
	"if-modified-since": leaveOut, "if-unmodified-since": leaveOut,
}

// secretName matches the names of fields whose values are probably secret.
var secretName = regexp.MustCompile(`(?i)` +
	`auth|cookie|token|secret|passw|session|credential|signature|` +
	`(^|[-_])(api|access)?key($|[-_])`)

// IsSecret reports whether the value of a field with this name is taken for a secret.
func IsSecret(name string) bool { return secretName.MatchString(name) }

// ParseHeader reads a field as people type it, "Name: value". Its errors do not contain the value.
func ParseHeader(s string) (Header, error) {
	name, value, ok := strings.Cut(s, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" {
		return Header{}, errors.New("a header has the form 'Name: value', such as 'Accept-Language: de'")
	}
	for i := range len(name) {
		if b := name[i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, b) >= 0 {
			return Header{}, fmt.Errorf("the name %q has a character that is not allowed in the name of a header", name)
		}
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return Header{}, fmt.Errorf("the value of %s has a control character; give one line", name)
	}
	if instead, bad := notSettable[strings.ToLower(name)]; bad {
		return Header{}, input.Errorf("the crawler sets %s itself; %s", name, instead)
	}
	if value == "" {
		return Header{}, fmt.Errorf("%s has no value; give one, as in '%[1]s: value'", name)
	}
	return Header{Name: name, Value: value, Secret: IsSecret(name)}, nil
}

// ParseHeaders reads the values of the setting header, which go to every host. Credentials are refused, because they
// belong to one host. The error is an *input.ConfigError.
func ParseHeaders(values []string) (hs []Header, err error) {
	for _, v := range values {
		h, err := ParseHeader(v)
		switch {
		case err != nil:
			return nil, input.Errorf("{header}: %v", err)
		case strings.EqualFold(h.Name, "Cookie"):
			return nil, input.Errorf("{header}: every host would get the Cookie; give {cookie-file}, or set header: " +
				"for the host in the section hosts: of a settings file")
		case strings.EqualFold(h.Name, "Authorization"):
			return nil, input.Errorf("{header}: every host would get the Authorization; give {auth-file}, or set " +
				"auth: for the host in the section hosts: of a settings file")
		case h.Value == Redacted:
			return nil, input.Errorf("{header}: crawl.yaml has no value of %s, because it is a secret; give {header} "+
				"'%s: value' again, with all other headers", h.Name, h.Name)
		case slices.ContainsFunc(hs, func(o Header) bool { return strings.EqualFold(o.Name, h.Name) }):
			return nil, input.Errorf("{header}: %s is set twice; give it once, with all values on one line", h.Name)
		}
		hs = append(hs, h)
	}
	return hs, nil
}

// RedactHeaders returns the values of header without secrets, for crawl.yaml.
func RedactHeaders(values []string) []string {
	out := slices.Clone(values)
	for i, v := range out {
		if name, _, ok := strings.Cut(v, ":"); ok && IsSecret(name) {
			out[i] = strings.TrimSpace(name) + ": " + Redacted
		}
	}
	return out
}

// Split divides fields into those that may be seen and secret ones.
func Split(hs []Header) (public, secret [][2]string) {
	for _, h := range hs {
		if f := [2]string{h.Name, h.Value}; h.Secret {
			secret = append(secret, f)
		} else {
			public = append(public, f)
		}
	}
	return public, secret
}
