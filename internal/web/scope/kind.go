package scope

import "fmt"

// Kind is how far from its seeds a crawl goes.
type Kind uint8

const (
	// Host: the hosts of the seeds, on any port, by http and https. A leading
	// "www." makes no difference: example.com and www.example.com are one, as
	// nearly everywhere one of them redirects to the other.
	Host Kind = iota
	// Page: the seeds themselves.
	Page
	// Prefix: what lies in the directory of a seed or below it: seed
	// http://example.com/docs/intro.html lets in all of /docs/, by http and
	// https, with and without "www."; on its own port where it names one.
	Prefix
	// Domain: the registered domains of the seeds (weburl.Site): all of
	// example.co.uk, but of github.io only the seed's own name.
	Domain
	// Any: every http and https URL.
	Any
)

var kinds = [...]string{Host: "host", Page: "page", Prefix: "prefix", Domain: "domain", Any: "any"}

// ParseKind reads the word that String writes; an empty one is Host.
func ParseKind(s string) (Kind, error) {
	if s == "" {
		return Host, nil
	}
	for k, name := range kinds {
		if s == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("scope %q: unknown; one of page, prefix, host, domain, any", s)
}

func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", k)
	}
	return kinds[k]
}

// MarshalText is String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKind.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKind(string(text))
	return err
}
