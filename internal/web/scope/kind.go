package scope

import "fmt"

// Kind is how far from its seeds a crawl goes.
type Kind uint8

const (
	// Host crawls the hosts of the seeds, on any port, by http and https. It ignores a leading
	// "www.": example.com and www.example.com count as one host, because nearly everywhere one
	// redirects to the other.
	Host Kind = iota
	// Page crawls only the seeds.
	Page
	// Prefix crawls the directories of the seeds and everything below them. The seed
	// http://example.com/docs/intro.html lets in all of /docs/, by http and https, with and without
	// "www.". If the seed names a port, only that port counts.
	Prefix
	// Domain crawls the registered domains of the seeds (weburl.Site): all of example.co.uk, but
	// below github.io only the seed's own name.
	Domain
	// Any crawls every http and https URL.
	Any
)

var kinds = [...]string{Host: "host", Page: "page", Prefix: "prefix", Domain: "domain", Any: "any"}

// Kinds returns the words that ParseKind reads.
func Kinds() []string { return kinds[:] }

// ParseKind reads a word that String returns. An empty string means Host.
func ParseKind(s string) (Kind, error) {
	if s == "" {
		return Host, nil
	}
	for k, name := range kinds {
		if s == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("%q is unknown; use page, prefix, host, domain or any", s)
}

// String returns the word that ParseKind reads.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", k)
	}
	return kinds[k]
}

// MarshalText returns String as text.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads text with ParseKind.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKind(string(text))
	return err
}
